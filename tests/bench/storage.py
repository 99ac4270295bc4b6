"""Read the same rows from several places: a local disk, an S3 server on this machine, lake tables.

The server is moto in its own process. It shares sqlwin's cores, unlike a real store, so it must
cost little; its cost is printed. moto copies a whole file for each requested range; `_Parts` lets
the kernel send ranges instead.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, ClassVar

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from rich.console import Console
from rich.table import Table
from werkzeug.serving import WSGIRequestHandler
from werkzeug.test import run_wsgi_app

import sqlwin
from runtime.scan.stores import filesystem_of
from tests.bench import cases, data
from tests.object_store import ObjectStore, object_store

STORAGES = ("local", "s3", "delta", "iceberg")
_CASES = ("TUMBLE", "HOP")
_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


def run(
    session: sqlwin.Session,
    directory: Path,
    rows: int,
    runs: int,
    storages: list[str],
    console: Console,
) -> Table:
    """Time a TUMBLE and a HOP over each storage, with the speed relative to the first one."""
    chosen = [next(c for c in cases.HEADLINES if c.kind == kind) for kind in _CASES]
    table = Table("case", *(f"{name}, s" for name in storages), title=f"{rows:,} rows")
    with served() as (store, server):
        store.configure(session.spark)
        for case in chosen:
            path = data.make(directory, rows, case.keys, case.key_type, case.hot)
            cells, first, expected = [], 0.0, None
            for name in storages:
                options = _table(name, store, path)
                before = _cpu_seconds(server)
                seconds, digest = _time_case(session, case, options, runs)
                per_run = (_cpu_seconds(server) - before) / (runs + 1)
                assert expected in (None, digest), f"{name} gives {digest}, not {expected}"
                first, expected = first or seconds, digest
                cells.append(f"{seconds:.2f} ({first / seconds:.2f} x)")
                beside = f", and the server {per_run:.2f} s of a core" if name == "s3" else ""
                console.print(f"{case.name}, {name}: {cells[-1]}{beside}")
            table.add_row(case.name, *cells)
        if "s3" in storages:
            console.print(f"the server alone gives {_server_speed(store, path):.0f} MB/s")
    return table


def _time_case(
    session: sqlwin.Session, case: cases.Case, options: dict[str, str], runs: int
) -> tuple[float, tuple[object, ...]]:
    """Return the best time, and the digest of the result."""
    options_sql = ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
    session.execute(f"CREATE OR REPLACE TABLE events WITH ({options_sql})")
    query = cases.sqlwin_sql(case)
    digest = session.sql(f"SELECT {case.digest} FROM ({query})").collect()[0]
    elapsed = []
    for _ in range(runs):
        started = time.perf_counter()
        session.sql(query).write.format("noop").mode("overwrite").save()
        elapsed.append(time.perf_counter() - started)
    return min(elapsed), tuple(round(float(item), 6) for item in digest)


def _table(storage: str, store: ObjectStore, path: Path) -> dict[str, str]:
    """Copy the rows of `path` to a storage and return the options of the table over them."""
    if storage in ("local", "s3"):
        place = str(path) if storage == "local" else _upload(store, path)
        return {"connector": "filesystem", "format": "parquet", "path": place}
    directory = path.with_name(f"{path.name}-{storage}").absolute()
    if storage == "delta":
        if not directory.exists():
            write_deltalake(directory, _batches(path))
        return {"connector": "delta", "path": str(directory)}
    if not directory.exists():
        directory.mkdir()
        uri = f"sqlite:///{directory}/catalog.db"
        catalog = SqlCatalog("bench", uri=uri, warehouse=f"file://{directory}")
        catalog.create_namespace("db")
        table = catalog.create_table("db.events", schema=_batches(path).schema)
        for file in sorted(path.glob("*.parquet")):
            table.append(pq.read_table(file))
    return {"connector": "iceberg", "path": str(directory / "db" / "events")}


def _batches(path: Path) -> pa.RecordBatchReader:
    result = ds.dataset(path, format="parquet")
    return pa.RecordBatchReader.from_batches(result.schema, result.to_batches())


def _upload(store: ObjectStore, path: Path) -> str:
    opened = store.store()
    system = filesystem_of(opened)
    for file in sorted(path.glob("*.parquet")):
        uri = store.uri(f"{path.name}/{file.name}")
        with system.open_output_stream(opened.path(uri)) as out:
            out.write(file.read_bytes())
    return store.uri(path.name)


def _server_speed(store: ObjectStore, path: Path) -> float:
    """Return the megabytes per second of a reader that does nothing else."""
    opened = store.store()
    files = sorted(path.glob("*.parquet"))
    started, n_bytes = time.perf_counter(), 0
    for file in files:
        uri = store.uri(f"{path.name}/{file.name}")
        with filesystem_of(opened).open_input_file(opened.path(uri)) as source:
            n_bytes += len(source.read())
    return n_bytes / 1e6 / (time.perf_counter() - started)


class _Parts(WSGIRequestHandler):
    """Sends ranges of files from disk. moto sees each file once; it serves all other requests.

    A connection stays open after such a response, as in real stores.
    """

    _files: ClassVar[dict[str, IO[bytes]]] = {}

    def run_wsgi(self) -> None:
        """Answer a request."""
        asked = _RANGE.fullmatch(self.headers.get("Range", ""))
        if self.command not in ("GET", "HEAD"):
            self._files.pop(self.path, None)
        if self.command != "GET" or asked is None or (file := self._file()) is None:
            super().run_wsgi()
            return
        n_bytes = os.fstat(file.fileno()).st_size
        start, stop = int(asked[1]), min(int(asked[2]) + 1, n_bytes)
        self.send_response(206)
        self.send_header("Content-Length", str(stop - start))
        self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{n_bytes}")
        self.end_headers()
        self.wfile.flush()
        while start < stop:
            start += os.sendfile(self.connection.fileno(), file.fileno(), start, stop - start)

    def _file(self) -> IO[bytes] | None:
        """Return the file at the requested path, or None."""
        if self.path not in self._files:
            environ = {k: v for k, v in self.make_environ().items() if k != "HTTP_RANGE"}
            body, status, _ = run_wsgi_app(self.server.app, environ)
            if not status.startswith("200"):
                return None
            file = tempfile.TemporaryFile()
            file.writelines(body)
            file.flush()
            self._files[self.path] = file
        return self._files[self.path]


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def served() -> Iterator[tuple[ObjectStore, int]]:
    """Provide the server in its own process, and the process's number."""
    command = [sys.executable, "-m", "tests.bench.storage"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        assert p.stdin is not None and p.stdout is not None
        try:
            yield ObjectStore("bench", int(p.stdout.readline())), p.pid
        finally:
            p.stdin.close()


def _serve() -> None:
    with object_store("bench", _Parts) as store:
        print(store.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    _serve()
