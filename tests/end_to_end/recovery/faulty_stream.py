"""A stream from files to files that kills itself: `python faulty_stream.py DIRECTORY KIND POINT`.

POINT is `NAME:N`, the N-th time that the run reaches

    change      before a micro-batch changes a file
    written     the end of a micro-batch's writing, before Spark commits it
    committed   the report of a micro-batch, after Spark committed it
    end         before the end mark is written
    ended       after it is written, before anything reads it
    closed      before the checkpoint records that all windows are closed
    remembered  after that

or `none`, a run to the end. The kill is SIGKILL to Spark's JVM and to the driver.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any

import sqlwin
from runtime.files import LocalFiles
from runtime.sinks import stream_sinks
from sqlwin.execution.streams import handle, history
from tests.end_to_end.recovery.killed_stream import (
    CONF,
    QUERY,
    readings,
    set_tables,
    statement_set,
    tables,
)

SESSION = """
    SELECT k, window_end, COUNT(*) AS n, SUM(v) AS total
    FROM TABLE(SESSION(TABLE readings PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
    GROUP BY k, window_start, window_end
"""
TOP = """
    SELECT k, window_end, n, total FROM (
      SELECT *, ROW_NUMBER() OVER (
        PARTITION BY window_start, window_end ORDER BY total DESC, k) AS place
      FROM (
        SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS total
        FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
        WHERE k >= 0 GROUP BY k, window_start, window_end))
    WHERE place <= 3
"""
QUERIES = {"hop": QUERY, "session": SESSION, "top": TOP, "compacted": QUERY}
CLOCK = """
    SELECT k, window_end, COUNT(*) AS n, SUM(v) AS total
    FROM TABLE(TUMBLE(TABLE arrivals, DESCRIPTOR(at), INTERVAL '1' SECOND))
    GROUP BY k, window_start, window_end
"""


def statements(kind: str, directory: Path) -> tuple[str, str]:
    """Return the statements that create the tables, and the one that starts the stream."""
    if kind == "compacted":
        # late rows are published in each micro-batch, results every few micro-batches
        option = "'connector' = 'filesystem', 'auto-compaction' = 'true'"
        setup = tables(directory).replace(
            f"'connector' = 'filesystem', 'path' = '{directory}/out'",
            f"{option}, 'compaction.file-size' = '5 kb', 'path' = '{directory}/out'",
        )
        assert option in setup
        return setup, f"INSERT INTO totals {QUERY}"
    if kind == "set":
        return set_tables(directory), statement_set()
    if kind == "clock":
        arrivals = readings(directory).replace("TABLE readings", "TABLE arrivals")
        watermark = "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"
        arrivals = arrivals.replace(watermark, "at AS PROCTIME()")
        return f"{tables(directory)} {arrivals}", f"INSERT INTO totals {CLOCK}"
    return tables(directory), f"INSERT INTO totals {QUERIES[kind]}"


def kill() -> None:
    """Kill the JVM and this process at once."""
    own = str(os.getpid())
    actual = subprocess.run(["pgrep", "-P", own], capture_output=True, text=True, check=False)
    for pid in map(int, actual.stdout.split()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


class Fault:
    """Kills the process when a point is reached.

    Args:
        point: Name of the point, and how often it must be reached.
    """

    def __init__(self, point: str) -> None:
        self._name, _, number = point.partition(":")
        self._left = int(number or 0)
        self._lock = threading.Lock()

    def reached(self, name: str) -> None:
        """Report that a point is reached."""
        with self._lock:
            if name == self._name:
                self._left -= 1
                if self._left == 0:
                    kill()


def plant(fault: Fault) -> None:
    """Make the actions of a micro-batch and of the end of a stream report their progress."""
    is_writing = threading.local()

    def around(owner: Any, name: str, before: str = "", after: str = "") -> None:
        plain = getattr(owner, name)

        @wraps(plain)
        def run(*args: Any, **kwargs: Any) -> Any:
            if before and (before != "change" or getattr(is_writing, "now", False)):
                fault.reached(before)
            result = plain(*args, **kwargs)
            if after:
                fault.reached(after)
            return result

        setattr(owner, name, run)

    reads = {"exists", "read_text", "files_below"}
    for name in [n for n in vars(LocalFiles) if not n.startswith("_") and n not in reads]:
        around(LocalFiles, name, before="change")

    for_each = stream_sinks.start_for_each

    def noted(dataframe: Any, run: Any, write: Callable[..., Any]) -> Any:
        def written(rows: Any, batch: int) -> Any:
            is_writing.now = True
            result = write(rows, batch)
            is_writing.now = False
            fault.reached("written")
            return result

        return for_each(dataframe, run, written)

    # where it is defined and where it was imported; a later import gets the replacement
    name = for_each.__name__
    for module in list(sys.modules.values()):
        if getattr(module, name, None) is for_each:
            setattr(module, name, noted)
    around(handle, "end_input", before="end", after="ended")
    around(handle, "mark_ended", before="closed", after="remembered")
    around(history.History, "take", before="committed")


def main(directory: Path, kind: str, point: str) -> None:
    """Run the stream to the point or to its end, resuming where an earlier run was killed."""
    settings = {
        "execution.runtime-mode": "streaming",
        "execution.checkpointing.dir": str(directory / "checkpoint"),
    }
    setup, statement = statements(kind, directory)
    plant(Fault(point))
    with sqlwin.connect(master="local[2]", conf=CONF, settings=settings) as session:
        session.execute(setup)
        (result,) = session.execute(statement)
        print(result.message, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
