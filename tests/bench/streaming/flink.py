"""Streams beside Flink itself: `python -m tests.bench.streaming.flink --flink PYTHON`.

PYTHON is that of an environment with the package `apache-flink`, such as

    python3.11 -m venv flink && flink/bin/pip install apache-flink==2.2.1

That package reads CSV, JSON and files of its own, but no Parquet; so both engines read the same
rows as CSV, Flink from a file for each task, and sqlwin once more the Parquet files that they are
made from. Rows are dropped at the
end. Flink runs with two tasks, as Spark does: with its state on the heap and no checkpoints, which
is the fastest that it has, and with RocksDB and a checkpoint every 5 s. sqlwin's state is in
RocksDB and it takes a checkpoint in every micro-batch. Both run on some rows before they are timed.

Flink's results are compared with sqlwin's in a run that is not timed. Flink ends its input with
all windows closed, a stream of sqlwin's DataFrames keeps those open that the watermark has not
reached; they are left out of the comparison.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from tests.bench import data
from tests.bench.cases import Case, case_of
from tests.bench.data import DISORDER_SECONDS
from tests.bench.streaming.engines import ENGINES, Digest, Files, connect, run, same

_TASKS = 2
_BACKENDS = {"heap, no checkpoints": ("hashmap", False), "RocksDB, checkpoints": ("rocksdb", True)}
_COLUMNS = ["key", "window_start", "window_end", "s", "n", "a", "m"]


def main() -> None:
    """Run sqlwin and Flink and print the table."""
    options = _options()
    console = Console(width=120)
    case = case_of(options.window, options.keys)
    parquet = _parquet(options)
    files = Files(parquet, options.rows, options.per_batch)
    texts = replace(files, path=csv_files(parquet), format="csv")
    few, few_texts = (_first(each, options.per_batch * 2) for each in (files, texts))
    table = Table("engine", "files", "s", "rows/s", "times sqlwin's", title=f"{case.name}")

    def report(engine: str, format_: str, seconds: float, own: float | None = None) -> None:
        ratio = "" if own is None else f"{own / seconds:.2f}"
        cells = (engine, format_, f"{seconds:.1f}", f"{options.rows / seconds:,.0f}", ratio)
        console.print(" | ".join(cells))
        table.add_row(*cells)

    with connect(f"local[{_TASKS}]") as session:
        seconds = {}
        digest: Digest = ()
        for chosen, warm_up in ((files, few), (texts, few_texts)):
            run(ENGINES["sqlwin"], session, case, warm_up)
            outcome = run(ENGINES["sqlwin"], session, case, chosen)
            seconds[chosen.format], digest = outcome.seconds, outcome.digest
            report("sqlwin", chosen.format, outcome.seconds)
    with tempfile.TemporaryDirectory(prefix="flink-") as scratch:
        found = _flink_digest(options, case, texts, few_texts, Path(scratch))
        if not same(digest, found):
            raise SystemExit(f"results differ: Flink {found}, sqlwin {digest}")
        for name, (backend, has_checkpoints) in _BACKENDS.items():
            arguments = ["--backend", backend]
            if has_checkpoints:
                arguments += ["--checkpoints", f"{scratch}/checkpoints"]
            took = _flink(options, case, texts, few_texts, arguments)
            report(f"Flink, {name}", "csv", took, seconds["csv"])
    console.print(table)


def csv_files(parquet: Path) -> Path:
    """The same rows as CSV files without a header, times as SQL has them; made once."""
    path = parquet.with_name(f"{parquet.name}-csv")
    if (path / "_DONE").exists():
        return path
    path.mkdir(exist_ok=True)
    plain = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
    for file in sorted(parquet.glob("*.parquet")):
        rows = pq.read_table(file)
        times = pc.strftime(rows["ts"], format="%Y-%m-%d %H:%M:%S")
        rows = rows.set_column(rows.schema.get_field_index("ts"), "ts", times)
        pyarrow.csv.write_csv(rows, path / f"{file.stem}.csv", plain)
    (path / "_DONE").touch()
    return path


def _first(files: Files, n_files: int) -> Files:
    """The first files alone, linked into a directory."""
    path = files.path.with_name(f"{files.path.name}-first-{n_files}")
    path.mkdir(exist_ok=True)
    for file in sorted(files.path.glob(f"*.{files.format}"))[:n_files]:
        if not (path / file.name).exists():
            (path / file.name).hardlink_to(file)
    return replace(files, path=path)


def _flink(
    options: argparse.Namespace, case: Case, files: Files, few: Files, arguments: list[str]
) -> float:
    """Run Flink in a process of its own; the seconds that its job took.

    Raises:
        SystemExit: it failed, with what it said.
    """
    step = f"INTERVAL '{case.step_us // 1_000_000}' SECOND(5)"
    size = f"INTERVAL '{case.size}' MINUTE(5)"
    lengths = step if case.kind == "TUMBLE" else f"{step}, {size}"
    job = Path(__file__).with_name("flink_job.py")
    done = subprocess.run(
        [
            str(options.flink), str(job), "--input", _in_order(files), "--warm-up", _in_order(few),
            "--window", f"{case.kind}(TABLE events, DESCRIPTOR(ts), {lengths})",
            "--disorder", str(DISORDER_SECONDS), "--parallelism", str(_TASKS), *arguments,
        ],
        capture_output=True,
        text=True,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
    )  # fmt: skip
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return float(json.loads(line.removeprefix("RESULT "))["seconds"])
    raise SystemExit(f"Flink failed:\n{done.stdout}{done.stderr}")


def _in_order(files: Files) -> str:
    """A directory with the rows in a file for each task, made once.

    Flink takes the files of a directory in any order, and what came in the wrong one would be late.
    """
    path = files.path.with_name(f"{files.path.name}-flink")
    done = files.path / "_FLINK"
    if not done.exists():
        path.mkdir(exist_ok=True)
        parts = sorted(files.path.glob("*.csv"))
        for task in range(_TASKS):
            with (path / f"{task}.csv").open("wb") as joined:
                for part in parts[task::_TASKS]:
                    with part.open("rb") as rows:
                        shutil.copyfileobj(rows, joined)
        done.touch()
    return os.path.abspath(path)


def _flink_digest(
    options: argparse.Namespace, case: Case, files: Files, few: Files, scratch: Path
) -> Digest:
    """What Flink finds, of the windows that the watermark closed."""
    output = scratch / "results"
    _flink(options, case, files, few, ["--output", str(output)])
    names = pyarrow.csv.ReadOptions(column_names=_COLUMNS)
    parts = [pyarrow.csv.read_csv(file, names) for file in sorted(output.glob("part-*"))]
    windows = pa.concat_tables(parts)
    ends_us = windows["window_end"].cast(pa.timestamp("us")).cast(pa.int64())
    is_closed = pc.less_equal(ends_us, _watermark_us(_parquet(options)) + 1_000)
    windows = windows.filter(is_closed)
    return (
        windows.num_rows,
        *(float(pc.sum(windows[name]).as_py()) for name in ("s", "n", "a", "m")),
    )


def _watermark_us(parquet: Path) -> int:
    times = (pq.read_table(file, columns=["ts"])["ts"] for file in parquet.glob("*.parquet"))
    highest = max(pc.max(time).cast(pa.int64()).as_py() for time in times)
    return int(highest) - DISORDER_SECONDS * 1_000_000


def _parquet(options: argparse.Namespace) -> Path:
    n_files = -(-options.rows // options.batch_rows) * options.per_batch
    rows, keys, hours = options.rows, options.keys, options.hours
    return data.make(options.data, rows, keys, files=n_files, hours=hours)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.streaming.flink", description=__doc__
    )
    parser.add_argument("--flink", type=Path, required=True, help="the Python that has Flink")
    parser.add_argument("--window", default="HOP 1 min / 1 h", help="such as TUMBLE 1 min")
    parser.add_argument("--keys", type=int, default=1_000, help="different keys")
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--batch-rows", type=int, default=2_000_000, help="rows a micro-batch")
    parser.add_argument("--per-batch", type=int, default=2, help="files a micro-batch")
    parser.add_argument("--hours", type=int, default=24, help="the time that the rows span")
    parser.add_argument("--data", type=Path, default=Path("bench-data"), help="where data is kept")
    return parser.parse_args()


if __name__ == "__main__":
    main()
