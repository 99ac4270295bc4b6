"""Stream files into PostgreSQL with early firing: `python killed_postgres.py DIRECTORY URL STOPS`.

STOPS says at which micro-batch of this run the program stops and waits to be killed: `written:0`,
before its transaction is committed, `committed:1`, after that, or `never`.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import sqlwin
from runtime.connectors.postgres import write as postgres_write
from tests.end_to_end.recovery.killed_stream import CONF, QUERY, readings

# Function that ends just before the commit of a transaction, and just after it
STEPS: dict[str, tuple[Any, str]] = {
    "written": (postgres_write, "write_rows"),
    "committed": (postgres_write.BatchWriter, "write"),
}
# every micro-batch with rows corrects the windows that they are in
UPDATES = {
    "table.exec.emit.early-fire.enabled": "true",
    "table.exec.emit.early-fire.delay": "0 s",
}


def tables(directory: Path, url: str) -> str:
    """Return the tables `readings`, which reads one file per micro-batch, and `totals`."""
    return f"""
        {readings(directory)}
        CREATE TABLE totals (
          k INT, window_end TIMESTAMP(6), n BIGINT, total BIGINT,
          PRIMARY KEY (k, window_end) NOT ENFORCED
        ) WITH ('connector' = 'postgres', 'url' = '{url}', 'table-name' = 'totals',
          'create-table' = 'true');
    """


def stop_at(step: str, number: int) -> None:
    """Print a line and stop after a step of the micro-batch with that number."""
    owner, name = STEPS[step]
    do_step = getattr(owner, name)
    n_calls = 0

    def stopping(*args: Any, **more: Any) -> Any:
        nonlocal n_calls
        n_calls += 1
        result = do_step(*args, **more)
        if n_calls == number + 1:
            print("stopped", flush=True)
            threading.Event().wait()
        return result

    setattr(owner, name, stopping)


def main(directory: Path, url: str, stops: str) -> None:
    """Run the stream to its end, or resume where an earlier run was killed."""
    if stops != "never":
        step, number = stops.split(":")
        stop_at(step, int(number))
    settings = {
        "execution.runtime-mode": "streaming",
        "execution.checkpointing.dir": str(directory / "checkpoint"),
        **UPDATES,
    }
    with sqlwin.connect(master="local[2]", conf=CONF, settings=settings) as session:
        session.execute(tables(directory, url))
        session.execute(f"INSERT INTO totals {QUERY}")
        print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
