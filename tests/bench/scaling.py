"""How time and memory grow with the rows: a tenth of them, all, ten times as many."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

import sqlwin
from tests.bench import data, peers
from tests.bench.cases import Case

CASES = [Case("HOP", 60, 1), Case("HOP", 60, 1, keys=100_000), Case("HOP", 60, 1, distinct=True)]

_PAUSE = 0.1
_RESET_PEAK = "5"


def run(session: sqlwin.Session, directory: Path, rows: int, runs: int, console: Console) -> Table:
    """Each case on three sizes; a run counts once its result has as many rows in its windows."""
    table = Table("case", "rows", "s", "of the size before", "peak of a worker, MB")
    for case in CASES:
        before = None
        for n_rows in (rows // 10, rows, rows * 10):
            path = data.make(directory, n_rows, case.keys, case.key_type)
            engine = peers.sqlwin_engine(session, case, path)
            engine.digest()
            best, peak = None, 0
            for _ in range(runs):
                with workers_peak() as memory:
                    started = time.perf_counter()
                    engine.run()
                    seconds = time.perf_counter() - started
                best = seconds if best is None else min(best, seconds)
                peak = max(peak, memory.peak)
            assert best is not None
            ratio = f"{best / before:.1f} x" if before else ""
            cells = (case.name, f"{n_rows:,}", f"{best:.2f}", ratio, f"{peak >> 20:,}")
            console.print(", ".join(cells))
            table.add_row(*cells)
            before = best
    return table


class Memory:
    """The largest resident set, in bytes, that a worker had."""

    peak = 0


@contextmanager
def workers_peak() -> Iterator[Memory]:
    """Watch the Python workers below this process (Linux alone says how large they were)."""
    memory, stopped = Memory(), threading.Event()
    for pid in _workers():
        _write(f"/proc/{pid}/clear_refs", _RESET_PEAK)

    def watch() -> None:
        while not stopped.wait(_PAUSE):
            memory.peak = max(memory.peak, *map(_peak, _workers()), 0)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield memory
    finally:
        stopped.set()
        watcher.join()
        memory.peak = max(memory.peak, *map(_peak, _workers()), 0)


def _workers() -> list[int]:
    """Processes of PySpark's daemon and its forks, below this one."""
    parent: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        fields = _read(f"/proc/{name}/stat").rpartition(")")[2].split()
        if len(fields) > 1:
            parent[int(name)] = int(fields[1])
    return [pid for pid in parent if _is_below(pid, parent) and _is_worker(pid)]


def _is_below(pid: int, parent: dict[int, int]) -> bool:
    while pid in parent:
        pid = parent[pid]
        if pid == os.getpid():
            return True
    return False


def _is_worker(pid: int) -> bool:
    return "daemon" in _read(f"/proc/{pid}/cmdline")


def _peak(pid: int) -> int:
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    return 0


def _read(path: str) -> str:
    """A file that may be gone with its process by now."""
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text)
    except OSError:
        return  # gone, or not ours to reset: its peak is then that of its life
