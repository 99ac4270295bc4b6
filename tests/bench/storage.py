"""The same rows in several places: a disk of this machine, an S3 server on it.

The server is moto, in a process of its own: it holds files in memory, and answers in Python.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

import sqlwin
from runtime.scan.stores import filesystem_of
from tests.bench import cases, data
from tests.object_store import ObjectStore, object_store

STORAGES = ("local", "s3")
_CASES = ("TUMBLE", "HOP")


def run(
    session: sqlwin.Session,
    directory: Path,
    rows: int,
    runs: int,
    storages: list[str],
    console: Console,
) -> Table:
    """Time a TUMBLE and a HOP over each storage; the speed beside that of the first one."""
    chosen = [next(c for c in cases.HEADLINES if c.kind == kind) for kind in _CASES]
    table = Table("case", *(f"{name}, s" for name in storages), title=f"{rows:,} rows")
    with served() as store:
        for name, value in store.settings().items():
            session.spark.conf.set(name, value)
        for case in chosen:
            path = data.make(directory, rows, case.keys, case.key_type, case.hot)
            cells, first, expected = [], 0.0, None
            for name in storages:
                place = str(path) if name == "local" else _uploaded(store, path)
                seconds, digest = _timed(session, case, place, runs)
                assert expected in (None, digest), f"{name} gives {digest}, not {expected}"
                first, expected = first or seconds, digest
                cells.append(f"{seconds:.2f} ({first / seconds:.2f} x)")
                console.print(f"{case.name}, {name}: {cells[-1]}")
            table.add_row(case.name, *cells)
        if "s3" in storages:
            console.print(f"the server alone gives {_server_speed(store, path):.0f} MB/s")
    return table


def _timed(
    session: sqlwin.Session, case: cases.Case, path: str, runs: int
) -> tuple[float, tuple[object, ...]]:
    """The best time, and the digest of the result."""
    session.execute(
        "CREATE OR REPLACE TABLE events WITH ('connector' = 'filesystem', 'format' = 'parquet', "
        f"'path' = '{path}')"
    )
    query = cases.sqlwin_sql(case)
    digest = session.sql(f"SELECT {case.digest} FROM ({query})").collect()[0]
    taken = []
    for _ in range(runs):
        started = time.perf_counter()
        session.sql(query).write.format("noop").mode("overwrite").save()
        taken.append(time.perf_counter() - started)
    return min(taken), tuple(round(float(each), 6) for each in digest)


def _uploaded(store: ObjectStore, path: Path) -> str:
    opened = store.store()
    system = filesystem_of(opened)
    for file in sorted(path.glob("*.parquet")):
        uri = store.uri(f"{path.name}/{file.name}")
        with system.open_output_stream(opened.path(uri)) as out:
            out.write(file.read_bytes())
    return store.uri(path.name)


def _server_speed(store: ObjectStore, path: Path) -> float:
    """What one reader gets that does nothing else, in megabytes a second."""
    opened = store.store()
    files = sorted(path.glob("*.parquet"))
    started, n_bytes = time.perf_counter(), 0
    for file in files:
        uri = store.uri(f"{path.name}/{file.name}")
        with filesystem_of(opened).open_input_file(opened.path(uri)) as source:
            n_bytes += len(source.read())
    return n_bytes / 1e6 / (time.perf_counter() - started)


@contextmanager
def served() -> Iterator[ObjectStore]:
    """The server in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.storage"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        assert p.stdin is not None and p.stdout is not None
        try:
            yield ObjectStore("bench", int(p.stdout.readline()))
        finally:
            p.stdin.close()


def _serve() -> None:
    with object_store("bench") as store:
        print(store.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    _serve()
