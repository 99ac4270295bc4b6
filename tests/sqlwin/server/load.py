"""`sqlwin serve` as a process, and what many clients ask it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.goldens import ROOT
from tests.sqlwin.dbapi.conftest import FLIGHTS

TABLES = f"""
CREATE TABLE flights WITH ('connector' = 'filesystem', 'path' = '{FLIGHTS}');
CREATE VIEW late AS SELECT origin, dep_delay FROM flights WHERE dep_delay > 600;
"""
# Takes minutes: each row has 100,000 matches
HEAVY = "SELECT SUM(HASH(a.flight + b.flight)) FROM flights a JOIN flights b ON a.origin = b.origin"
# By kind: what clients ask, and the answer
QUESTIONS: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "connection": ("SELECT pg_backend_pid() > 0 AS is_open", [(True,)]),
    "tables": (
        "SELECT relname FROM pg_catalog.pg_class WHERE relkind IN ('r', 'v') AND "
        "relnamespace = 'public'::regnamespace ORDER BY relname",
        [("flights",), ("late",)],
    ),
    "columns": (
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'late'",
        [("origin",), ("dep_delay",)],
    ),
    "in process": ("SELECT COUNT(*) AS n FROM late", [(40,)]),
    "on Spark": ("SELECT INT(100 * CORR(dep_delay, arr_delay)) AS k FROM flights", [(91,)]),
}


@contextmanager
def serve_command(directory: Path) -> Iterator[int]:
    """Run `sqlwin serve` with tables, and yield its port."""
    script = directory / "tables.sql"
    script.write_text(TABLES)
    command = [sys.executable, "-m", "sqlwin", "serve", "--port", "0", "--no-password", str(script)]
    environment = {**os.environ, "SQLWIN_ENGINE": "off"}
    server = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    try:
        found = None
        while found is None:
            line = server.stderr.readline()
            assert line, "the server has ended"
            found = re.match(r"serving on 127\.0\.0\.1:(\d+)", line)
        yield int(found[1])
    finally:
        server.terminate()
        server.wait()
        server.stderr.close()


def connect(port: int) -> psycopg.Connection[Any]:
    return psycopg.connect(f"host=127.0.0.1 port={port} user=anyone dbname=any", autocommit=True)
