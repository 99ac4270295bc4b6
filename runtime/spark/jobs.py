"""Groups of Spark jobs that run side by side, and can be cancelled alone.

Private API, seen in Spark 4.3: the JVM's `SparkContext.cancelJobGroupAndFutureJobs`. Where it is
missing, the jobs of a group that run are cancelled, and later ones are not.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.util import InheritableThread

from runtime.errors import QueryCancelled
from runtime.spark.private import unless_missing

T = TypeVar("T")

_JOIN_S = 0.1
_AGAIN_S = 0.5
# What the tags of statements begin with
STATEMENT_TAG = "sqlwin-statement-"


def begin_group(spark: Any, group: str) -> None:
    """Let the jobs that this thread starts from here on belong to `group`.

    Cancelling it interrupts their tasks, so that they end at once and not at their next row.
    """
    context = getattr(spark, "sparkContext", None)
    if context is None:  # Spark Connect
        spark.clearTags()
        spark.addTag(group)
    else:
        context.setJobGroup(group, "", interruptOnCancel=True)


def tag_statement(spark: Any, tag: str) -> None:
    """Let the jobs that this thread starts from here on carry the tag of a statement, and no other.

    Nothing happens over Spark Connect, which hands out no figures of jobs.
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
    """The tag of the statement that this thread runs; empty if there is none."""
    context = getattr(spark, "sparkContext", None)
    tags = [] if context is None else _job_tags(context)
    return next((tag for tag in tags if tag.startswith(STATEMENT_TAG)), "")


def _job_tags(context: Any) -> list[str]:
    """The tags of this thread's jobs.

    An iteration over Java's set of them ends with an exception of Java's, of which PySpark asks the
    class sixteen times: one over an array does not.
    """
    return [str(tag) for tag in context.getJobTags().toArray()]


def cancel_group(spark: Any, group: str) -> bool:
    """Cancel the jobs of `group`, those that would follow too; False if Spark is out of reach."""
    context = getattr(spark, "sparkContext", None)
    try:
        if context is None:
            spark.interruptTag(group)
        elif context._jsc is None:  # it was stopped
            return False
        elif not unless_missing(
            "later jobs of a cancelled group are not cancelled",
            lambda: context._jsc.sc().cancelJobGroupAndFutureJobs(group) is None,
            False,
        ):
            context.cancelJobGroup(group)
    except (Py4JError, PySparkException, OSError):
        return False
    return True


def cancel_until(spark: Any, group: str, is_over: Callable[[], bool]) -> None:
    """Cancel the jobs of `group`, again and again, until what starts them is over.

    A query that is still planned when it is interrupted has no job yet, and PySpark waits for its
    end all the same; a stage of a shuffle that is planned on its own is begun even in a cancelled
    group.
    """
    while cancel_group(spark, group):
        time.sleep(_AGAIN_S)
        if is_over():
            return


def run_interruptibly(spark: SparkSession, work: Callable[[], T]) -> T:
    """Do what starts Spark jobs, in a thread of its own; an interruption of this one cancels them.

    What interrupts this thread (Ctrl-C, a signal) is raised when the work has come to its end:
    Spark then has taken back what it had written, and its answer is not mistaken for that to a
    later call. See `run_side_by_side`.
    """
    (outcome,) = run_side_by_side(spark, [work], [set()])
    if outcome.error is not None:
        raise outcome.error
    assert outcome.begun
    return cast(T, outcome.value)


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What became of work that ran beside other work.

    Attributes:
        value: what it gave.
        error: what it failed with; None if it was done, or never begun.
        begun: whether it was begun.
    """

    value: T | None = None
    error: Exception | None = None
    begun: bool = True

    @property
    def done(self) -> bool:
        """Whether it came to its end."""
        return self.begun and self.error is None

    @property
    def failed(self) -> bool:
        """Whether it failed by itself."""
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
    """Run what starts Spark jobs in several threads.

    The threads have the job group, the description and the tags of this one. When one work fails,
    the jobs of the others are cancelled and no further work is begun; likewise when this thread is
    interrupted, which then raises once they have ended. A work whose jobs are cancelled is to raise
    `QueryCancelled`.

    Args:
        spark: the session.
        works: what to do, in order of preference.
        after: for each work, the numbers of earlier ones that have to be done before it.
        most_threads: how many may run at a time.

    Returns:
        An outcome for each work, in their order.
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
        threads: list[threading.Thread] = [
            InheritableThread(target=self._work, session=self._spark, name=f"sqlwin-{number}")
            for number in range(min(most_threads, len(self._works)))
        ]
        try:
            for thread in threads:
                thread.start()
            with self._changed:
                # An exception that is meant for this thread arrives only between two waits. A
                # thread that Spark has failed before its work is not among those that ended.
                while self._n_ended < len(threads) and any(each.is_alive() for each in threads):
                    self._changed.wait(_JOIN_S)
        except BaseException:
            with self._changed:
                self._stops = True
                self._changed.notify_all()
            _cancel_tagged(self._spark, self._tag)
            # Not by `join`: before Python 3.13 a thread whose join an exception has interrupted
            # counts as ended, and the process would end before what it writes is taken back.
            while self._is_working():
                # one that was between two jobs has begun the next
                _cancel_tagged(self._spark, self._tag)
            raise
        for thread in threads:
            thread.join()
        nothing: Outcome[T] = Outcome(begun=False)
        return [self._outcomes.get(i, nothing) for i in range(len(self._works))]

    def _is_working(self) -> bool:
        """Whether a thread still works a moment later; one that begins now finds nothing to do."""
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
            # at once, or another thread would begin what is to come after this one
            with self._changed:
                self._outcomes[number] = outcome
                is_first = not outcome.done and not self._stops
                self._stops = self._stops or not outcome.done
                self._changed.notify_all()
            if is_first:
                _cancel_tagged(self._spark, self._tag)

    def _next(self) -> int | None:
        """The first work that nothing holds up; None if there is none left."""
        with self._changed:
            while not self._stops and self._waiting:
                for number in self._waiting:
                    if all(earlier in self._outcomes for earlier in self._after[number]):
                        self._waiting.remove(number)
                        return number
                self._changed.wait()
            return None


def _tag_jobs(spark: SparkSession, tag: str) -> None:
    """Let what this thread runs carry a tag, and be interrupted when it is cancelled."""
    context = getattr(spark, "sparkContext", None)
    if context is None:  # Spark Connect
        spark.addTag(tag)
    else:
        context.addJobTag(tag)
        context.setLocalProperty("spark.job.interruptOnCancel", "true")


def _cancel_tagged(spark: SparkSession, tag: str) -> None:
    context = getattr(spark, "sparkContext", None)
    # Where Spark is out of reach, what runs fails by itself.
    with contextlib.suppress(Py4JError, PySparkException, OSError):
        if context is None:
            spark.interruptTag(tag)
        else:
            context.cancelJobsWithTag(tag)
