"""A refresh that is killed, as a program of its own: `python killed.py DIRECTORY POINT`."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path

import sqlwin
import sqlwin.execution.materialized as statements
from tests.end_to_end.materialized.base import TABLE

CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def main(directory: Path, point: str) -> None:
    """Refresh the materialized table in a directory, and die at a point."""

    def reached(where: str) -> None:
        if where == point:
            os.kill(os.getpid(), signal.SIGKILL)

    statements.refresh = partial(statements.refresh, reached=reached)
    statements.compact = partial(statements.compact, reached=reached)
    with sqlwin.connect(master="local[2]", conf=CONF) as session:
        session.execute(TABLE.format(directory / "in"))
        session.execute(f"CREATE MATERIALIZED TABLE m WITH ('path' = '{directory / 'm'}')")
        session.execute("ALTER MATERIALIZED TABLE m REFRESH")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
