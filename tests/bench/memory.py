"""Measure the memory of a run's processes: this one, its JVM, and the Python workers. Linux only.

`python -m tests.bench.memory` prints the peaks while 1, 10 and 100 million rows are fetched.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_PAUSE = 0.1
_RESET_PEAK = "5"


class Memory:
    """Peaks in bytes: the largest worker, all workers together, the JVM, this process."""

    peak = 0
    together = 0
    jvm = 0
    driver = 0


@contextmanager
def workers_peak() -> Iterator[Memory]:
    """Watch the Python workers and the JVM below this process."""
    memory, jvm = Memory(), jvms()
    for pid in workers():
        _write(f"/proc/{pid}/clear_refs", _RESET_PEAK)

    def look() -> None:
        result = workers()
        memory.peak = max(memory.peak, *map(_peak, result), 0)
        memory.together = max(memory.together, sum(map(resident, result)))
        memory.jvm = max(memory.jvm, *map(resident, jvm), 0)
        memory.driver = max(memory.driver, resident(os.getpid()))

    with _watch(look):
        yield memory


@contextmanager
def tree_peak(pid: int) -> Iterator[Memory]:
    """Watch a process and its descendants: the JVM, or all of them if there is no JVM."""
    memory = Memory()
    jvm = _below(_is_jvm, pid)
    others = [] if jvm else [pid, *below(pid)]

    def look() -> None:
        memory.together = max(memory.together, sum(map(resident, others)))
        memory.jvm = max(memory.jvm, *map(resident, jvm), 0)

    with _watch(look):
        yield memory


@contextmanager
def _watch(look: Callable[[], None]) -> Iterator[None]:
    """Sample at intervals, and once more at the end."""
    stopped = threading.Event()

    def watch() -> None:
        while not stopped.wait(_PAUSE):
            look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stopped.set()
        watcher.join()
        look()


def workers() -> list[int]:
    """Return the processes of PySpark's daemon and its forks below this process."""
    return _below(lambda command: "daemon" in command)


def jvms() -> list[int]:
    """Return the JVM that this process started."""
    return _below(_is_jvm)


def below(pid: int) -> list[int]:
    """Return all descendants of a process."""
    return _below(lambda command: True, pid)


def resident(pid: int) -> int:
    """Return the resident set of a process in bytes; 0 once it has ended."""
    return _status(pid, "VmRSS:")


def cpu_seconds(pids: list[int]) -> float:
    """Return the CPU time of some processes so far."""
    ticks = 0
    for pid in pids:
        fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        if len(fields) > 12:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _is_jvm(command: str) -> bool:
    return Path(command.split("\0")[0]).name == "java"


def _below(is_wanted: Callable[[str], bool], root: int | None = None) -> list[int]:
    """Return this process or its descendants that match a condition."""
    root = os.getpid() if root is None else root
    parent: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        fields = _read(f"/proc/{name}/stat").rpartition(")")[2].split()
        if len(fields) > 1:
            parent[int(name)] = int(fields[1])
    return [
        pid
        for pid in parent
        if _is_below(pid, parent, root) and is_wanted(_read(f"/proc/{pid}/cmdline"))
    ]


def _is_below(pid: int, parent: dict[int, int], root: int) -> bool:
    while pid in parent:
        pid = parent[pid]
        if pid == root:
            return True
    return False


def _peak(pid: int) -> int:
    return _status(pid, "VmHWM:")


def _status(pid: int, name: str) -> int:
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith(name):
            return int(line.split()[1]) << 10
    return 0


def _read(path: str) -> str:
    """Return the text of a file in /proc; empty if its process has ended."""
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text)
    except OSError:
        return  # the process has ended, or belongs to another user: use its lifetime peak


def main() -> None:
    """Fetch rows and print the peaks."""
    # other benchmarks import this module before they start Spark
    from rich.console import Console
    from rich.table import Table

    import sqlwin

    parser = argparse.ArgumentParser(prog="python -m tests.bench.memory", description=main.__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[10**6, 10**7, 10**8])
    parser.add_argument("--heap", default="2g", help="heap of the JVM")
    parser.add_argument("--in-flight", default="64 mb", help="sqlwin.result.max-in-flight")
    options = parser.parse_args()
    columns = ("rows", "bytes", "seconds", "driver", "JVM", "workers")
    table = Table(*columns, title=f"batches(), {options.heap} heap, peaks")
    with sqlwin.connect(master="local[2]", conf={"spark.driver.memory": options.heap}) as session:
        session.execute(f"SET 'sqlwin.result.max-in-flight' = '{options.in_flight}'")
        assert session.spark is not None  # starts Spark, whose JVM is watched
        for n_rows in options.rows:
            query = f"SELECT id, id % 1000 AS key, CAST(id AS DOUBLE) AS value FROM range({n_rows})"
            begun, n_bytes = time.perf_counter(), 0
            with workers_peak() as memory:
                for batch in session.execute(query)[0].batches():
                    n_bytes += batch.nbytes
            seconds = time.perf_counter() - begun
            peaks = (memory.driver, memory.jvm, memory.together)
            cells = [f"{amount >> 20:,} MB" for amount in (n_bytes, *peaks)]
            table.add_row(f"{n_rows:,}", cells[0], f"{seconds:.1f}", *cells[1:])
    Console().print(table)


if __name__ == "__main__":
    main()
