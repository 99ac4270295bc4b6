"""Convert a benchmark's Parquet files to the formats that peers read; each is made once.

Each function takes and returns a directory. Files keep their order, by name and by time.
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
    """Write CSV without a header, with times as in SQL."""
    plain = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")

    def write(rows: pa.Table, path: Path) -> None:
        times = pc.strftime(rows["ts"], format="%Y-%m-%d %H:%M:%S")
        pyarrow.csv.write_csv(_with_times(rows, times), path.with_suffix(".csv"), plain)

    return _convert(parquet, "csv", write)


def csv_by_task(parquet: Path, tasks: int) -> Path:
    """Concatenate the CSV files to one file per task.

    Flink reads the files of a directory in any order, and rows in the wrong order would be late.
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
    """Write Parquet with times as BIGINT milliseconds since 1970."""

    def write(rows: pa.Table, path: Path) -> None:
        times = rows["ts"].cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
        pq.write_table(_with_times(rows, times), path)

    return _convert(parquet, "ms", write)


def _with_times(rows: pa.Table, times: pa.ChunkedArray) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index("ts"), "ts", times)


def _convert(parquet: Path, name: str, write: Callable[[pa.Table, Path], None]) -> Path:
    path = parquet.with_name(f"{parquet.name}-{name}")
    if (path / "_DONE").exists():
        return path
    path.mkdir(exist_ok=True)
    for file in sorted(parquet.glob("*.parquet")):
        write(pq.read_table(file), path / file.name)
        (path_of_file,) = path.glob(f"{file.stem}.*")
        modified = file.stat().st_mtime
        os.utime(path_of_file, (modified, modified))
    (path / "_DONE").touch()
    return path
