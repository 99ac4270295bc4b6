"""A program that writes slices and kills itself: `python killed.py DIRECTORY POINT [WHAT]`.

WHAT is `refresh`, or `stream`: then POINT is `NAME N`, the Nth time that it is reached.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import sqlwin
import sqlwin.execution.materialized.statements as statements
import sqlwin.execution.streams.sinks as sinks
from runtime.materialized import append as appends
from runtime.materialized import commits, refresh
from tests.end_to_end.materialized.base import QUERY, TABLE

CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


# One file of `in` per micro-batch; the program ends when all are read
LIVE = """CREATE TABLE live (ts TIMESTAMP(6), city STRING, fare INT) WITH (
  'connector' = 'filesystem', 'path' = '{}/in', 'format' = 'parquet',
  'max-files-per-trigger' = '1')"""
INSERT = f"INSERT INTO m {QUERY.replace('TABLE trips', 'TABLE live')}"


# Points before and after each of these commits
COMMITS = {
    "refresh": ("built", "committed"),
    "compact": ("compacted", "replaced"),
    "settle": ("tiered", "settled"),
    "append": ("built", "committed"),
}


def plant(reached: Callable[[str], None]) -> None:
    """Make the functions that change a slice table report their progress."""
    # the points that are being reached, the innermost last
    running: list[str] = []

    def within(owner: Any, name: str) -> None:
        plain = getattr(owner, name)

        @wraps(plain)
        def run(*args: Any, **kwargs: Any) -> Any:
            running.append(name)
            try:
                return plain(*args, **kwargs)
            finally:
                running.pop()

        setattr(owner, name, run)

    def around(owner: Any, name: str, points: Callable[[], tuple[str, str]]) -> None:
        plain = getattr(owner, name)

        @wraps(plain)
        def run(*args: Any, **kwargs: Any) -> Any:
            before, after = points()
            reached(before)
            result = plain(*args, **kwargs)
            reached(after)
            return result

        setattr(owner, name, run)

    for name in ("refresh", "compact", "settle"):
        within(statements, name)
    within(sinks, "append")
    for name in ("compact", "settle"):
        within(appends, name)
    for module in (refresh, appends):
        around(module, "commit", lambda: COMMITS[running[-1]])
    around(refresh, "changes", lambda: ("", "listed"))
    around(commits, "write_manifest", lambda: ("", "manifest"))


def main(directory: Path, point: str, what: str = "refresh") -> None:
    """Refresh the materialized table in a directory, or run a stream into it, and die at a point."""
    name, _, number = point.partition(" ")
    points: list[str] = []

    def reached(where: str) -> None:
        points.append(where)
        if where == name and points.count(name) == int(number or 1):
            os.kill(os.getpid(), signal.SIGKILL)

    plant(reached)
    if what == "stream":
        with sqlwin.connect(master="local[2]", conf=CONF) as session:
            run_stream(session, directory)
        return
    with sqlwin.connect(master="local[2]", conf=CONF) as session:
        session.execute(TABLE.format(directory / "in"))
        session.execute(f"CREATE MATERIALIZED TABLE m WITH ('path' = '{directory / 'm'}')")
        session.execute("ALTER MATERIALIZED TABLE m REFRESH")


def run_stream(session: sqlwin.Session, directory: Path) -> None:
    """Run the stream of `live` into `m` until it has read all files."""
    session.execute(f"CREATE MATERIALIZED TABLE m WITH ('path' = '{directory / 'm'}')")
    session.execute(LIVE.format(directory))
    session.execute(f"SET 'execution.checkpointing.dir' = '{directory / 'checkpoints'}'")
    session.execute("SET 'execution.runtime-mode' = 'streaming'")
    session.execute("SET 'table.dml-sync' = 'true'")
    session.execute(INSERT)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
