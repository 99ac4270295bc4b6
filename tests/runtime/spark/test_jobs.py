"""Works that run side by side."""

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
    """Whether a thread waits for a condition or an event."""
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code is threading.Condition.wait.__code__


def test_an_interrupt_waits_until_the_work_has_cleaned_up(spark: SparkSession) -> None:
    begun = threading.Event()
    interrupted = threading.Event()
    cleaned = threading.Event()

    def work() -> None:
        begun.set()
        try:
            interrupted.wait()
        finally:
            time.sleep(1)  # long enough to show a caller that does not wait
            cleaned.set()

    def interrupt() -> None:
        begun.wait()
        waiting = threading.main_thread()
        wait_until(lambda: is_waiting(waiting))
        assert waiting.ident is not None
        signal.pthread_kill(waiting.ident, signal.SIGINT)
        interrupted.set()

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        run_side_by_side(spark, [work], [set()])
    assert cleaned.is_set()
    interrupting.join()


def test_what_comes_after_a_work_that_fails_is_never_begun(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(outcome: Outcome[None]) -> bool:
        time.sleep(0.3)  # so that the other thread would have the time to begin something
        return outcome.error is None

    def failing() -> None:
        time.sleep(0.3)  # until the other thread waits for it
        raise ValueError("no")

    monkeypatch.setattr(Outcome, "done", property(slow))
    first, second = run_side_by_side(spark, [failing, lambda: None], [set(), {0}])
    assert isinstance(first.error, ValueError)
    assert not second.begun
