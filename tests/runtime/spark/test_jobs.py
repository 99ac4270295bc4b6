"""Jobs that run concurrently."""

from __future__ import annotations

import signal
import sys
import threading
import time

import pytest
from pyspark.sql import SparkSession

from runtime.spark.jobs import Outcome, run_side_by_side
from tests.observing import wait_until


def is_waiting(thread: threading.Thread) -> bool:
    """Return whether a thread waits for a condition or an event."""
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code is threading.Condition.wait.__code__


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


def test_what_comes_after_a_work_that_fails_is_never_begun(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(outcome: Outcome[None]) -> bool:
        time.sleep(0.3)  # a moment in which a faulty thread would begin the second function
        return outcome.error is None

    def failing() -> None:
        others = [thread for thread in threading.enumerate() if thread.name.startswith("sqlwin-")]
        wait_until(lambda: any(map(is_waiting, others)))
        raise ValueError("no")

    monkeypatch.setattr(Outcome, "done", property(slow))
    first, second = run_side_by_side(spark, [failing, lambda: None], [set(), {0}])
    assert isinstance(first.error, ValueError)
    assert not second.begun
