"""A progress bar for what Spark is doing, on a terminal, gone when it is done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from runtime.spec.figures import counted
from sqlwin.display.status_line import T, waiting_for

# Before so much is done, the time left is anybody's guess
LEAST_TASKS = 2
LEAST_SECONDS = 2.0
# Bars for single stages, where several run at once
MOST_STAGES = 4


@dataclass(frozen=True)
class StageCounts:
    """Tasks of a stage that runs, and how many rows they have read from sources."""

    id: int
    tasks_done: int
    tasks: int
    rows_read: int = 0


@dataclass(frozen=True)
class TaskCounts:
    """Stages and tasks of the Spark jobs that run at the moment.

    Attributes:
        stages_done: how many stages are complete.
        stages: how many there are, those that wait included.
        tasks_done: how many tasks of all stages that have begun are complete.
        tasks: how many those stages have.
        rows_read: rows read from sources; by the Arrow scan, those of tasks that are complete.
        running: the stages that run.
    """

    stages_done: int = 0
    stages: int = 0
    tasks_done: int = 0
    tasks: int = 0
    rows_read: int = 0
    running: tuple[StageCounts, ...] = ()


Counts = Callable[[], TaskCounts | None]


class TimeLeft:
    """How long tasks will take, from how fast they were lately: since the number of them changed.

    A guess: it counts the stages that have begun, and takes their tasks for alike.
    """

    def __init__(self) -> None:
        self._tasks = -1
        self._since = 0.0
        self._done = 0

    def seconds(self, counts: TaskCounts, now: float) -> float | None:
        """Seconds left at the time `now`; None as long as too little is known."""
        if counts.tasks != self._tasks or counts.tasks_done < self._done:
            self._tasks, self._since, self._done = counts.tasks, now, counts.tasks_done
        done = counts.tasks_done - self._done
        if done < LEAST_TASKS or now - self._since < LEAST_SECONDS:
            return None
        return (now - self._since) * (counts.tasks - counts.tasks_done) / done


class ProgressBar:
    """Shows a bar whenever the program waits for a while.

    The bar is on the screen only inside of `waiting` (or while `watched` fetches an item), so
    results and messages never mix with it. A thread draws it and asks Spark; the caller's thread
    never waits for an answer of Spark.

    Args:
        console: where to draw; nothing is drawn if it is no terminal.
        enabled: False draws nothing either.
        delay_seconds: what is over sooner needs no bar.
        poll_seconds: how often it is drawn.
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
        # The thread is not joined: it may be in a call to a Spark that no longer answers.

    def restart_clock(self) -> None:
        """Count the elapsed time from now on."""
        self._started = time.monotonic()

    @contextmanager
    def waiting(self, label: str) -> Iterator[None]:
        """Show the bar, with `label` at its left, until the block is left."""
        with self._lock:
            self._since = time.monotonic()
            self._started = self._started or self._since
            self._label = label
        try:
            yield
        finally:
            self._erase()

    def watched(self, items: Iterator[T], label: str) -> Iterator[T]:
        """The same items, with the bar shown while the next one is being made."""
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
        """A bar for each stage, where several run at once."""
        shown = running[:MOST_STAGES] if len(running) > 1 else ()
        for stage_id in set(self._stages) - {stage.id for stage in shown}:
            progress.remove_task(self._stages.pop(stage_id))
        for stage in shown:
            if stage.id not in self._stages:
                self._stages[stage.id] = progress.add_task(f"  stage {stage.id}", detail="")
            detail = [f"{stage.tasks_done:,}/{stage.tasks:,} tasks", *_rows(stage.rows_read)]
            progress.update(
                self._stages[stage.id],
                total=stage.tasks,
                completed=stage.tasks_done,
                detail="  ".join(detail),
            )


def _clock(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def _rows(count: int) -> list[str]:
    """`12,345 rows`, `1.2 M rows`; nothing where no rows are counted."""
    if not count:
        return []
    for size, unit in ((10**9, "G"), (10**6, "M")):
        if count >= size:
            return [f"{count / size:.1f} {unit} rows"]
    return [counted(count, "rows")]
