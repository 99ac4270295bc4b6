"""The rows of a benchmark's Parquet files in the files that peers read; made once.

Each takes and gives a directory. Files keep their order, by name and by time.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq


def csv_files(parquet: Path) -> Path:
    """CSV without a header, times as SQL has them."""
    plain = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")

    def write(rows: pa.Table, path: Path) -> None:
        times = pc.strftime(rows["ts"], format="%Y-%m-%d %H:%M:%S")
        pyarrow.csv.write_csv(_with_times(rows, times), path.with_suffix(".csv"), plain)

    return _converted(parquet, "csv", write)


def csv_by_task(parquet: Path, tasks: int) -> Path:
    """The CSV files joined to one for each task.

    Flink takes the files of a directory in any order, and what came in the wrong one would be late.
    """
    parts = sorted(csv_files(parquet).glob("*.csv"))
    path = parquet.with_name(f"{parquet.name}-csv-{tasks}")
    if not (path / "_DONE").exists():
        path.mkdir(exist_ok=True)
        for task in range(tasks):
            with (path / f"{task}.csv").open("wb") as joined:
                for part in parts[task::tasks]:
                    with part.open("rb") as rows:
                        shutil.copyfileobj(rows, joined)
        (path / "_DONE").touch()
    return path


def millisecond_files(parquet: Path) -> Path:
    """Parquet whose times are BIGINT, milliseconds since 1970."""

    def write(rows: pa.Table, path: Path) -> None:
        times = rows["ts"].cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
        pq.write_table(_with_times(rows, times), path)

    return _converted(parquet, "ms", write)


def _with_times(rows: pa.Table, times: pa.ChunkedArray) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index("ts"), "ts", times)


def _converted(parquet: Path, name: str, write: Callable[[pa.Table, Path], None]) -> Path:
    path = parquet.with_name(f"{parquet.name}-{name}")
    if (path / "_DONE").exists():
        return path
    path.mkdir(exist_ok=True)
    for file in sorted(parquet.glob("*.parquet")):
        write(pq.read_table(file), path / file.name)
        (made,) = path.glob(f"{file.stem}.*")
        modified = file.stat().st_mtime
        os.utime(made, (modified, modified))
    (path / "_DONE").touch()
    return path
