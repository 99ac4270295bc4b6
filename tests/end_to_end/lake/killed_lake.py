"""Stream files into a lake table: `python killed_lake.py DIRECTORY KIND STOPS`.

KIND is `delta` or `iceberg`. STOPS says at which commit of this run the program stops and waits to
be killed: `before:0`, `after:1`, or `never`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlwin
from runtime.connectors.lake.delta import write as delta_write
from runtime.connectors.lake.iceberg import write as iceberg_write
from tests.end_to_end.recovery.killed_stream import CONF, QUERY, readings

# Function with which each connector commits the files of a micro-batch
COMMITS: dict[str, tuple[Any, str]] = {
    "delta": (delta_write, "commit_version"),
    "iceberg": (iceberg_write, "commit_files"),
}


def options(directory: Path, kind: str) -> str:
    """Return the options of the target table."""
    if kind == "delta":
        return f"'connector' = 'delta', 'path' = '{directory}/out'"
    return (
        f"'connector' = 'iceberg', 'catalog-type' = 'sql', 'catalog-table' = 'db.totals', "
        f"'uri' = 'sqlite:///{directory}/c.db', 'warehouse' = 'file://{directory}/w'"
    )


def tables(directory: Path, kind: str) -> str:
    """Return the tables `readings`, which reads one file per micro-batch, and `totals`."""
    return f"""
        {readings(directory)}
        CREATE TABLE totals (k INT, window_end TIMESTAMP(3), n BIGINT, total BIGINT)
        WITH ({options(directory, kind)});
    """


def stop_at(kind: str, when: str, number: int) -> None:
    """Print a line and stop before or after the commit with that number."""
    module, name = COMMITS[kind]
    commit: Callable[..., None] = getattr(module, name)
    n_calls = 0

    def wait() -> None:
        print("stopped", flush=True)
        threading.Event().wait()

    def stopping(*args: Any, **more: Any) -> None:
        nonlocal n_calls
        n_calls += 1
        is_here = n_calls == number + 1
        if is_here and when == "before":
            wait()
        commit(*args, **more)
        if is_here:
            wait()

    setattr(module, name, stopping)


def main(directory: Path, kind: str, stops: str) -> None:
    """Run the stream to its end, or resume where an earlier run was killed."""
    if stops != "never":
        when, number = stops.split(":")
        stop_at(kind, when, int(number))
    settings = {
        "execution.runtime-mode": "streaming",
        "execution.checkpointing.dir": str(directory / "checkpoint"),
    }
    with sqlwin.connect(master="local[2]", conf=CONF, settings=settings) as session:
        session.execute(tables(directory, kind))
        print("ready", flush=True)
        session.execute(f"INSERT INTO totals {QUERY}")
        print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
