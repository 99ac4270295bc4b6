"""Concurrent groups of Spark jobs that can be cancelled separately."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast
from uuid import uuid4

from runtime.errors import QueryCancelled
from runtime.spark.exceptions import spark_or_java_error
from runtime.spark.session import is_stopped
from runtime.spark.versions.sessions import inheriting_thread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

_JOIN_S = 0.1
_AGAIN_S = 0.1
# Prefix of statement tags
STATEMENT_TAG = "sqlwin-statement-"


def begin_group(spark: Any, group: str, pool: str | None = None) -> None:
    """Assign jobs that this thread starts from now on to `group`.

    Cancelling the group interrupts its tasks, which end at once and not at their next row.

    Args:
        spark: Spark session.
        group: Name of the group.
        pool: Name of the scheduler's pool, which shares the slots with the other pools.
    """
    context = getattr(spark, "sparkContext", None)
    if context is None:  # Spark Connect
        spark.clearTags()
        spark.addTag(group)
    else:
        context.setJobGroup(group, "", interruptOnCancel=True)
        if pool is not None:
            context.setLocalProperty("spark.scheduler.pool", pool)


def tag_statement(spark: Any, tag: str) -> None:
    """Tag jobs that this thread starts from now on with a statement, and with no other tag.

    Does nothing over Spark Connect, which provides no job statistics.
    """
    context = getattr(spark, "sparkContext", None)
    if context is None:
        return
    for other in _job_tags(context):
        if other.startswith(STATEMENT_TAG):
            context.removeJobTag(other)
    if tag:
        context.addJobTag(tag)


def statement_tag(spark: Any) -> str:
    """Return the tag of the statement that this thread runs, or an empty text."""
    context = getattr(spark, "sparkContext", None)
    tags = [] if context is None else _job_tags(context)
    return next((tag for tag in tags if tag.startswith(STATEMENT_TAG)), "")


def _job_tags(context: Any) -> list[str]:
    """Return the tags of this thread's jobs.

    Iterating over the Java set would end with a Java exception about which PySpark queries the
    class sixteen times. Iterating over an array does not.
    """
    return [str(tag) for tag in context.getJobTags().toArray()]


def cancel_group(spark: Any, group: str) -> bool:
    """Cancel the running jobs of `group`. Return False if Spark cannot be reached."""
    context = getattr(spark, "sparkContext", None)
    try:
        if context is None:
            spark.interruptTag(group)
        elif is_stopped(spark):
            return False
        else:
            context.cancelJobGroup(group)
    except (*spark_or_java_error(), OSError):
        return False
    return True


def cancel_until(spark: Any, group: str, is_over: Callable[[], bool]) -> None:
    """Cancel the jobs of `group` repeatedly until the code that starts them has ended.

    A query that is interrupted during planning has no job yet, and other code starts its next job
    after one was cancelled.
    """
    while cancel_group(spark, group):
        time.sleep(_AGAIN_S)
        if is_over():
            return


def running_tasks(spark: Any, group: str) -> int:
    """Return the number of tasks of `group` that hold a slot, also after their job has ended.

    0 over Spark Connect, which does not tell, and once Spark has stopped.
    """
    context = getattr(spark, "sparkContext", None)
    if context is None or is_stopped(spark):
        return 0
    try:
        status = context.statusTracker()
        jobs = map(status.getJobInfo, status.getJobIdsForGroup(group))
        stages = {stage for job in jobs if job is not None for stage in job.stageIds}
        infos = map(status.getStageInfo, stages)
        return sum(info.numActiveTasks for info in infos if info is not None)
    except (*spark_or_java_error(), OSError, AttributeError):
        return 0  # a context that stops meanwhile has no Java object


def run_interruptibly(spark: SparkSession, work: Callable[[], T]) -> T:
    """Run code that starts Spark jobs in another thread. Interrupting this one cancels the jobs.

    The interruption (Ctrl-C, a signal) is raised once the work has ended: Spark has then removed
    what it had written, and a later call cannot receive its answer. See `run_side_by_side`.
    """
    (outcome,) = run_side_by_side(spark, [work], [set()])
    if outcome.error is not None:
        raise outcome.error
    assert outcome.begun
    return cast(T, outcome.value)


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """Outcome of a function that ran alongside others.

    Attributes:
        value: Return value.
        error: Exception that it raised. None if it succeeded or never started.
        begun: Whether it was started.
    """

    value: T | None = None
    error: Exception | None = None
    begun: bool = True

    @property
    def done(self) -> bool:
        """Whether it succeeded."""
        return self.begun and self.error is None

    @property
    def failed(self) -> bool:
        """Whether it failed and was not cancelled."""
        return self.error is not None and not self.cancelled

    @property
    def cancelled(self) -> bool:
        """Whether its jobs were cancelled."""
        return isinstance(self.error, QueryCancelled)


def run_side_by_side(
    spark: SparkSession,
    works: Sequence[Callable[[], T]],
    after: Sequence[Set[int]],
    most_threads: int = 8,
) -> list[Outcome[T]]:
    """Run functions that start Spark jobs in several threads.

    The threads inherit job group, description and tags of this thread. When a function fails, the
    jobs of the others are cancelled and no further function starts. The same happens when this
    thread is interrupted; the interruption is raised once they have ended. A function whose jobs
    are cancelled should raise `QueryCancelled`.

    Args:
        spark: Spark session.
        works: Functions to run, in order of preference.
        after: Indexes of earlier functions that must succeed first, for each function.
        most_threads: Maximum number of concurrent threads.

    Returns:
        Outcome of each function, in order.
    """
    return _SideBySide(spark, works, after).run(most_threads)


class _SideBySide(Generic[T]):
    def __init__(
        self, spark: SparkSession, works: Sequence[Callable[[], T]], after: Sequence[Set[int]]
    ) -> None:
        self._spark = spark
        self._works = works
        self._after = after
        self._tag = f"sqlwin-{uuid4().hex}"
        self._waiting = list(range(len(works)))
        self._outcomes: dict[int, Outcome[T]] = {}
        self._stops = False
        self._n_begun = 0
        self._n_ended = 0
        self._changed = threading.Condition()

    def run(self, most_threads: int) -> list[Outcome[T]]:
        threads = [
            inheriting_thread(self._spark, self._work, f"sqlwin-{number}")
            for number in range(min(most_threads, len(self._works)))
        ]
        try:
            for thread in threads:
                thread.start()
            with self._changed:
                # An exception for this thread arrives only between two waits. A thread that Spark
                # has failed before its work does not count itself as ended.
                while self._n_ended < len(threads) and any(
                    thread_.is_alive() for thread_ in threads
                ):
                    self._changed.wait(_JOIN_S)
        except BaseException:
            with self._changed:
                self._stops = True
                self._changed.notify_all()
            _cancel_tagged(self._spark, self._tag)
            # Not `join`: before Python 3.13 a thread counts as ended after an exception has
            # interrupted its join, and the process would end before its output is removed.
            while self._is_working():
                # a thread that was between two jobs has started the next one
                _cancel_tagged(self._spark, self._tag)
            raise
        for thread in threads:
            thread.join()
        nothing: Outcome[T] = Outcome(begun=False)
        return [self._outcomes.get(i, nothing) for i in range(len(self._works))]

    def _is_working(self) -> bool:
        """Whether a thread still works after a moment. Threads that start now find no work."""
        with self._changed:
            if self._n_ended < self._n_begun:
                self._changed.wait(_JOIN_S)
            return self._n_ended < self._n_begun

    def _work(self) -> None:
        with self._changed:
            self._n_begun += 1
        try:
            self._work_on()
        finally:
            with self._changed:
                self._n_ended += 1
                self._changed.notify_all()

    def _work_on(self) -> None:
        _tag_jobs(self._spark, self._tag)
        while (number := self._next()) is not None:
            try:
                outcome = Outcome(self._works[number]())
            except Exception as error:
                outcome = Outcome(error=error)
            # outcome and stop together: after a failure no thread may start a dependent function
            with self._changed:
                self._outcomes[number] = outcome
                is_first = not outcome.done and not self._stops
                self._stops = self._stops or not outcome.done
                self._changed.notify_all()
            if is_first:
                _cancel_tagged(self._spark, self._tag)

    def _next(self) -> int | None:
        """Return the first function whose dependencies are done, or None if all are taken."""
        with self._changed:
            while not self._stops and self._waiting:
                for number in self._waiting:
                    if all(earlier in self._outcomes for earlier in self._after[number]):
                        self._waiting.remove(number)
                        return number
                self._changed.wait()
            return None


class BackgroundWork(Generic[T]):
    """Code that starts Spark jobs, running in its own thread.

    The thread inherits job group, description and tags of the thread that creates the object.

    Args:
        spark: Spark session.
        work: Code to run.
        at_end: Function that the thread calls last. It is not called if Spark stops the thread
            before the work begins.
    """

    def __init__(
        self, spark: SparkSession, work: Callable[[], T], at_end: Callable[[], object]
    ) -> None:
        self._spark = spark
        self._work = work
        self._at_end = at_end
        self._tag = f"sqlwin-{uuid4().hex}"
        self._outcome: Outcome[T] | None = None
        self._ended = threading.Event()
        self._thread = inheriting_thread(spark, self._run, "sqlwin-background", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Return whether the work has ended, for any reason."""
        # a thread that Spark has failed before the work never sets the event
        return self._ended.is_set() or not self._thread.is_alive()

    def result(self) -> T:
        """Return the value of the work, which is over.

        Raises:
            Exception: The error of the work.
            QueryCancelled: Spark was stopped before the work began.
        """
        if self._outcome is None:
            raise QueryCancelled("Spark was stopped before the query ran")
        if self._outcome.error is not None:
            raise self._outcome.error
        return cast(T, self._outcome.value)

    def stop(self) -> None:
        """Cancel its jobs and wait until it has ended."""
        while not self.is_over and not sys.is_finalizing():
            _cancel_tagged(self._spark, self._tag)
            self._ended.wait(_JOIN_S)

    def _run(self) -> None:
        try:
            _tag_jobs(self._spark, self._tag)
            self._outcome = Outcome(self._work())
        except Exception as error:
            self._outcome = Outcome(error=error)
        finally:
            self._ended.set()
            self._at_end()


def _tag_jobs(spark: SparkSession, tag: str) -> None:
    """Tag the jobs of this thread, and let cancellation interrupt their tasks."""
    context = getattr(spark, "sparkContext", None)
    if context is None:  # Spark Connect
        spark.addTag(tag)
    else:
        context.addJobTag(tag)
        context.setLocalProperty("spark.job.interruptOnCancel", "true")


def _cancel_tagged(spark: SparkSession, tag: str) -> None:
    context = getattr(spark, "sparkContext", None)
    # if Spark cannot be reached, the running jobs fail anyway
    with contextlib.suppress(*spark_or_java_error(), OSError):
        if context is None:
            spark.interruptTag(tag)
        else:
            context.cancelJobsWithTag(tag)
