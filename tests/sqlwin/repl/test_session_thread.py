"""Waiting for the worker thread, and Ctrl-C meanwhile."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import Future

import pytest

from runtime.errors import SetupError
from sqlwin.repl.session_thread import GRACE_SECONDS, Cancelled, SessionThread
from tests.observing import wait_until
from tests.sqlwin.cli.fake_session import FakeSession

# The signal reaches a waiting thread, too: Python records it there, but handles it only in the main
# thread, which it does not wake.
_SIGNAL_ELSEWHERE = """
import signal, threading
from concurrent.futures import Future
from sqlwin.repl.session_thread import Cancelled, SessionThread

session = SessionThread(lambda: None)
waits = threading.Event()
signal.signal(signal.SIGINT, lambda *_: session.interrupt())

class Waiting(Future):
    def result(self, timeout=None):
        waits.set()
        return super().result(timeout)

def elsewhere():
    waits.wait()
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    threading.Event().wait()

threading.Thread(target=elsewhere, daemon=True).start()
try:
    session.wait(Waiting())
except Cancelled:
    print("cancelled")
"""


def test_ctrl_c_that_reaches_another_thread_ends_the_wait():
    process = subprocess.run(
        [sys.executable, "-c", _SIGNAL_ELSEWHERE], capture_output=True, text=True, timeout=180
    )
    assert (process.stdout, process.stderr) == ("cancelled\n", "")


class _Late(Future[int]):
    """A result that is ready after two waits."""

    n_calls = 0

    def result(self, timeout: float | None = None) -> int:
        self.n_calls += 1
        if self.n_calls == 3:
            self.set_result(7)
        return super().result(0)


def test_a_late_result_is_awaited():
    assert SessionThread(_no_session).wait(_Late()) == 7


def test_ctrl_c_before_the_wait_cancels_work_that_has_not_begun():
    thread = SessionThread(_no_session)
    future = thread.submit(lambda session: 7)
    thread.interrupt()
    with pytest.raises(Cancelled):
        thread.wait(future)
    assert future.cancelled()
    thread.forget_interrupts()
    assert not thread.is_interrupted


def test_ctrl_c_while_spark_starts_withdraws_the_request_whichever_start_it_is():
    starting, go_on, n_starts = threading.Semaphore(0), threading.Semaphore(0), []

    def connect() -> FakeSession:
        n_starts.append(1)
        starting.release()
        go_on.acquire()
        if len(n_starts) == 1:
            raise SetupError("no Java was found")
        return FakeSession()

    thread = SessionThread(connect)
    thread.start()
    starting.acquire()
    first = thread.submit(lambda session: 1)
    thread.interrupt()
    with pytest.raises(Cancelled):
        thread.wait(first)
    thread.forget_interrupts()
    go_on.release()
    second = thread.submit(lambda session: 2)
    starting.acquire()
    thread.interrupt()
    with pytest.raises(Cancelled):
        thread.wait(second)
    thread.forget_interrupts()
    go_on.release()
    assert thread.wait(thread.submit(lambda session: 3)) == 3
    thread.close()


def test_ctrl_c_in_the_moment_in_which_work_begins_cancels_it():
    thread = SessionThread(FakeSession)
    begun: list[Future[int]] = []

    def interrupt_at_begin() -> None:
        if thread.is_busy and not begun:
            begun.append(future)
            thread.cancel(future)

    future = thread.submit(lambda session: 7)
    thread.on_change = interrupt_at_begin
    thread.start()
    with pytest.raises(Cancelled):
        thread.wait(future)
    assert begun
    thread.close()


def test_work_that_ends_early_after_ctrl_c_may_take_longer_than_the_grace_period():
    now = 0.0
    n_waits = 0
    begun = threading.Event()
    thread = SessionThread(FakeSession, clock=lambda: now)

    def work(_: object) -> int:
        nonlocal now
        begun.set()
        wait_until(thread.take_interrupt)
        now = 2 * GRACE_SECONDS
        n_before = n_waits
        wait_until(lambda: n_waits > n_before + 2)
        return 7

    class CountedWaits(Future[int]):
        def result(self, timeout: float | None = None) -> int:
            nonlocal n_waits
            n_waits += 1
            return super().result(timeout)

    thread.start()
    future = thread.submit(work)
    future.__class__ = CountedWaits
    begun.wait()
    thread.interrupt()
    assert thread.wait(future) == 7
    thread.close()


def test_a_timeout_of_the_work_itself_is_its_failure():
    future: Future[int] = Future()
    future.set_exception(TimeoutError("the broker does not answer"))
    with pytest.raises(TimeoutError, match="the broker does not answer"):
        SessionThread(_no_session).wait(future)


def _no_session():
    raise AssertionError("nothing is asked of the session")
