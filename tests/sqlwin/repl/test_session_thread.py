"""Waiting for the thread that does the work, and Ctrl-C meanwhile."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import Future

import pytest

from sqlwin.repl.session_thread import SessionThread

# The signal goes to a thread that waits as well: Python notes it there, but acts on it in the main
# thread alone.
_SIGNAL_ELSEWHERE = """
import signal, threading, time
from concurrent.futures import Future
from sqlwin.repl.session_thread import Cancelled, SessionThread

# whoever runs tests in the background has it ignored
signal.signal(signal.SIGINT, signal.default_int_handler)

def elsewhere():
    time.sleep(0.5)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    threading.Event().wait()

threading.Thread(target=elsewhere, daemon=True).start()
try:
    SessionThread(lambda: None).wait(Future())
except Cancelled:
    print("cancelled")
"""


def test_ctrl_c_that_reaches_another_thread_ends_the_wait():
    done = subprocess.run(
        [sys.executable, "-c", _SIGNAL_ELSEWHERE], capture_output=True, text=True, timeout=30
    )
    assert (done.stdout, done.stderr) == ("cancelled\n", "")


def test_what_comes_late_is_waited_for():
    future: Future[int] = Future()
    threading.Timer(0.5, future.set_result, [7]).start()
    assert SessionThread(_no_session).wait(future) == 7


def test_a_timeout_of_the_work_itself_is_its_failure():
    future: Future[int] = Future()
    future.set_exception(TimeoutError("the broker does not answer"))
    with pytest.raises(TimeoutError, match="the broker does not answer"):
        SessionThread(_no_session).wait(future)


def _no_session():
    raise AssertionError("nothing is asked of the session")
