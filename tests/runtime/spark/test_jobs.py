"""Jobs that run concurrently."""

from __future__ import annotations

import signal
import sys
import threading

import pytest
from pyspark.sql import SparkSession

from runtime.spark.jobs import Outcome, run_side_by_side
from tests.observing import wait_until


def is_waiting(thread: threading.Thread) -> bool:
    """Return whether a thread waits for a condition or an event."""
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code is threading.Condition.wait.__code__


def is_blocked(thread: threading.Thread) -> bool:
    """Return whether a thread waits for the lock of a condition."""
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code is threading.Condition.__enter__.__code__


def test_an_interrupt_waits_until_the_work_has_cleaned_up(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, interrupted, returned = threading.Event(), threading.Event(), threading.Event()
    caller = threading.main_thread()
    n_cancelled, returned_before_the_end = 0, []

    def cancel_jobs(tag: str) -> None:
        nonlocal n_cancelled
        n_cancelled += 1

    def work() -> None:
        begun.set()
        try:
            interrupted.wait()
        finally:
            # the caller cancels again and again while it waits
            wait_until(lambda: n_cancelled > 2 or returned.is_set())
            returned_before_the_end.append(returned.is_set())

    def interrupt() -> None:
        begun.wait()
        wait_until(lambda: is_waiting(caller))
        assert caller.ident is not None
        signal.pthread_kill(caller.ident, signal.SIGINT)
        interrupted.set()

    monkeypatch.setattr(spark.sparkContext, "cancelJobsWithTag", cancel_jobs)
    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        run_side_by_side(spark, [work], [set()])
    returned.set()
    interrupting.join()
    assert returned_before_the_end == [False]


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("sqlwin-")]


def test_a_function_that_depends_on_a_failed_one_never_begins(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    has_failed = threading.Event()

    def independent() -> None:
        begun.append(threading.current_thread().name)
        has_failed.wait()

    def failing() -> None:
        # the third thread may start after this one
        wait_until(lambda: begun and any(map(is_waiting, workers())))
        raise ValueError("no")

    def dependent() -> None:
        begun.append("dependent")

    def is_done(outcome: Outcome[None]) -> bool:
        if outcome.error is not None:
            # Another thread ends its work now. It must not see this outcome without the stop, so it
            # blocks; a faulty one would begin the next function.
            has_failed.set()
            (other,) = (t for t in threading.enumerate() if t.name == begun[0])
            wait_until(lambda: "dependent" in begun or is_blocked(other))
        return outcome.error is None

    monkeypatch.setattr(Outcome, "done", property(is_done))
    works = [failing, dependent, independent]
    first, _, third = run_side_by_side(spark, works, [set(), {0}, set()])
    assert isinstance(first.error, ValueError)
    assert third.error is None and len(begun) == 1
