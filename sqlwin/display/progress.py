"""Progress bar for Spark jobs on a terminal, removed when they are done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console

from runtime.spec.figures import count_text
from sqlwin.display.status_line import T, waiting_for

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

# Number of completed tasks from which the time left is estimated
MIN_TASKS = 2
MIN_SECONDS = 2.0
# Maximum bars for stages that run at the same time
MAX_STAGES = 4


@dataclass(frozen=True)
class StageCounts:
    """Tasks of a running stage."""

    id: int
    tasks_done: int
    tasks: int


@dataclass(frozen=True)
class TaskCounts:
    """Stages and tasks of the running Spark jobs.

    Attributes:
        stages_done: Completed stages.
        stages: All stages, including waiting ones.
        tasks_done: Completed tasks of stages that have begun.
        tasks: All tasks of stages that have begun.
        rows_read: Rows that scans of Parquet have read, in completed tasks.
        running: Running stages.
    """

    stages_done: int = 0
    stages: int = 0
    tasks_done: int = 0
    tasks: int = 0
    rows_read: int = 0
    running: tuple[StageCounts, ...] = ()


Counts = Callable[[], TaskCounts | None]


class TimeLeft:
    """Estimate of the time left, from the rate since the number of tasks last changed.

    It covers the stages that have begun, and assumes that all tasks take equally long.
    """

    def __init__(self) -> None:
        self._tasks = -1
        self._since = 0.0
        self._done = 0

    def seconds(self, counts: TaskCounts, now: float) -> float | None:
        """Return the estimated seconds left at `now`, or None if too little is known."""
        if counts.tasks != self._tasks or counts.tasks_done < self._done:
            self._tasks, self._since, self._done = counts.tasks, now, counts.tasks_done
        tasks_done = counts.tasks_done - self._done
        if tasks_done < MIN_TASKS or now - self._since < MIN_SECONDS:
            return None
        return (now - self._since) * (counts.tasks - counts.tasks_done) / tasks_done


class ProgressBar:
    """Progress bar shown while the program waits.

    The bar is on the screen only within `waiting` (or while `watch` fetches an item), so it never
    mixes with results or messages. A thread draws it and queries Spark, so the caller never waits
    for Spark's answer.

    Args:
        console: Console to draw on. Nothing is drawn unless it is a terminal.
        enabled: Whether to draw at all.
        delay_seconds: Wait before the bar appears.
        poll_seconds: Interval between drawings.
    """

    def __init__(
        self,
        console: Console,
        *,
        enabled: bool = True,
        delay_seconds: float = 0.5,
        poll_seconds: float = 0.2,
    ) -> None:
        self.counts: Counts | None = None
        self._console = console
        self._delay_seconds = delay_seconds
        self._poll_seconds = poll_seconds
        self._enabled = enabled and console.is_terminal and not console.is_dumb_terminal
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._label: str | None = None
        self._since = 0.0
        self._started = 0.0
        self._bar: tuple[Progress, TaskID] | None = None
        self._stages: dict[int, TaskID] = {}
        self._left = TimeLeft()

    def __enter__(self) -> ProgressBar:
        if self._enabled:
            threading.Thread(target=self._run, name="progress", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._erase()
        # Do not join the thread: it may be calling a Spark that no longer answers.

    def restart_clock(self) -> None:
        """Restart the elapsed time."""
        self._started = time.monotonic()

    @contextmanager
    def waiting(self, label: str) -> Iterator[None]:
        """Show the bar, with `label` on its left, until the end of this block or of one inside."""
        with self._lock:
            self._since = time.monotonic()
            self._started = self._started or self._since
            self._label = label
        try:
            yield
        finally:
            self._erase()

    def watch(self, items: Iterator[T], label: str) -> Iterator[T]:
        """Yield the items, showing the bar while the next one is computed."""
        return waiting_for(items, lambda: self.waiting(label))

    def _erase(self) -> None:
        with self._lock:
            self._label = None
            if self._bar is not None:
                self._bar[0].stop()
                self._bar = None
                self._stages.clear()

    def _run(self) -> None:
        while not self._closed.wait(self._poll_seconds):
            if self._label is None or time.monotonic() - self._since < self._delay_seconds:
                continue
            counts = (self.counts() if self.counts is not None else None) or TaskCounts()
            with self._lock:
                if self._label is not None and not self._closed.is_set():
                    self._draw(self._label, counts)

    def _draw(self, label: str, counts: TaskCounts) -> None:
        if self._bar is None:
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

            progress = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=30),
                TextColumn("{task.fields[detail]}", markup=False),
                console=self._console,
                transient=True,
                auto_refresh=False,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            progress.start()
            self._bar = progress, progress.add_task(label, total=None, detail="")
        progress, task = self._bar
        now = time.monotonic()
        details = [_clock(now - self._started)]
        if counts.tasks:
            details = [
                f"{counts.tasks_done:,}/{counts.tasks:,} tasks",
                f"{counts.stages_done}/{counts.stages} stages",
                *_rows(counts.rows_read),
                *details,
            ]
            left = self._left.seconds(counts, now)
            if left is not None:
                details.append(f"about {_clock(left)} left")
        progress.update(
            task,
            description=label,
            total=counts.tasks or None,
            completed=counts.tasks_done,
            detail="  ".join(details),
        )
        self._draw_stages(progress, counts.running)
        progress.refresh()

    def _draw_stages(self, progress: Progress, running: tuple[StageCounts, ...]) -> None:
        """Draw a bar per stage if several run at once."""
        shown = running[:MAX_STAGES] if len(running) > 1 else ()
        for stage_id in set(self._stages) - {stage.id for stage in shown}:
            progress.remove_task(self._stages.pop(stage_id))
        for stage in shown:
            if stage.id not in self._stages:
                self._stages[stage.id] = progress.add_task(f"  stage {stage.id}", detail="")
            detail = f"{stage.tasks_done:,}/{stage.tasks:,} tasks"
            progress.update(
                self._stages[stage.id],
                total=stage.tasks,
                completed=stage.tasks_done,
                detail=detail,
            )


def _clock(seconds: float) -> str:
    total = int(seconds)
    return f"{total // 3600}:{total // 60 % 60:02d}:{total % 60:02d}"


def _rows(count: int) -> list[str]:
    """Return a text such as `12,345 rows` or `1.2 M rows`, or "" if no rows are counted."""
    if not count:
        return []
    for size, unit in ((10**9, "G"), (10**6, "M")):
        if count >= size:
            return [f"{count / size:.1f} {unit} rows"]
    return [count_text(count, "rows")]
