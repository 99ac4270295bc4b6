"""A progress bar for what Spark is doing, on a terminal, gone when it is done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

T = TypeVar("T")

# What is over sooner needs no bar
DELAY_SECONDS = 0.5
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class TaskCounts:
    """Stages and tasks of the Spark jobs that run at the moment."""

    stages_done: int
    stages: int
    tasks_done: int
    tasks: int


Counts = Callable[[], TaskCounts | None]


def spark_task_counts(spark: Any) -> Counts | None:
    """A function that asks `spark` for its running jobs; None over Spark Connect, which has none.

    The function returns None when nothing runs, or when Spark can no longer be asked.
    """
    context = getattr(spark, "sparkContext", None)
    if context is None:
        return None
    from py4j.protocol import Py4JError

    tracker = context.statusTracker()

    def counts() -> TaskCounts | None:
        stages_done = stages = tasks_done = tasks = 0
        try:
            jobs = [tracker.getJobInfo(job) for job in tracker.getActiveJobsIds()]
            stage_ids = {stage for job in jobs if job is not None for stage in job.stageIds}
            for stage_id in stage_ids:
                stages += 1
                stage = tracker.getStageInfo(stage_id)
                if stage is not None:
                    tasks += stage.numTasks
                    tasks_done += stage.numCompletedTasks
                    stages_done += stage.numCompletedTasks == stage.numTasks
        except (Py4JError, OSError):
            return None
        return TaskCounts(stages_done, stages, tasks_done, tasks) if stages else None

    return counts


class ProgressBar:
    """Shows a bar whenever the program waits for longer than `DELAY_SECONDS`.

    The bar is on the screen only inside of `waiting` (or while `watched` fetches an item), so
    results and messages never mix with it. A thread draws it and asks Spark; the caller's thread
    never waits for an answer of Spark.

    Args:
        console: where to draw; nothing is drawn if it is no terminal.
        enabled: False draws nothing either.
    """

    def __init__(self, console: Console, *, enabled: bool = True) -> None:
        self.counts: Counts | None = None
        self._console = console
        self._enabled = enabled and console.is_terminal and not console.is_dumb_terminal
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._label: str | None = None
        self._since = 0.0
        self._started = 0.0
        self._bar: tuple[Progress, TaskID] | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> ProgressBar:
        if self._enabled:
            self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        while True:
            with self.waiting(label):
                try:
                    item = next(items)
                except StopIteration:
                    return
            yield item

    def _erase(self) -> None:
        with self._lock:
            self._label = None
            if self._bar is not None:
                self._bar[0].stop()
                self._bar = None

    def _run(self) -> None:
        while not self._closed.wait(POLL_SECONDS):
            if self._label is None or time.monotonic() - self._since < DELAY_SECONDS:
                continue
            counts = self.counts() if self.counts is not None else None
            with self._lock:
                if self._label is not None and not self._closed.is_set():
                    self._draw(self._label, counts)

    def _draw(self, label: str, counts: TaskCounts | None) -> None:
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
        seconds = int(time.monotonic() - self._started)
        details = [f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"]
        if counts is not None and counts.tasks:
            details = [
                f"{counts.tasks_done:,}/{counts.tasks:,} tasks",
                f"{counts.stages_done}/{counts.stages} stages",
                *details,
            ]
        progress.update(
            task,
            description=label,
            total=counts.tasks if counts is not None and counts.tasks else None,
            completed=counts.tasks_done if counts is not None else 0,
            detail="  ".join(details),
        )
        progress.refresh()
