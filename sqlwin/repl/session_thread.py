"""The session behind the prompt: a thread of its own starts Spark and does all the work.

The thread at the prompt never waits for Spark unless a statement was given, and then Ctrl-C ends
the wait. All calls that use the session come from one thread, since a session is made for one.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from sqlwin.console.failures import Stopped

if TYPE_CHECKING:
    from sqlwin.session import Session

T = TypeVar("T")

# A cancelled job ends within these seconds; else the thread is made to drop what it does, and
# after as many seconds again the prompt comes back without it.
GRACE_SECONDS = 3.0
# How often a thread that waits looks whether Ctrl-C was pressed
_WAKE_SECONDS = 0.1


class Cancelled(KeyboardInterrupt):
    """A statement was cancelled by Ctrl-C."""


class SessionState(Enum):
    """How far the session is."""

    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"


class SessionThread:
    """Runs functions of a session one after the other, in a thread of its own.

    Args:
        connect: makes the session, in its thread. If it fails, what was asked for fails
            with its error, and the next request tries again.

    Attributes:
        session: the session, once there is one; its methods are for its thread.
        was_interrupted: whether what runs was asked to end by Ctrl-C, and took it.
    """

    def __init__(self, connect: Callable[[], Session]) -> None:
        self.state = SessionState.STARTING
        self.started = time.monotonic()
        self.name = "Spark"
        self.on_change: Callable[[], None] = lambda: None
        self._connect = connect
        self.session: Session | None = None
        self._requests: queue.SimpleQueue[tuple[Future[Any], Callable[[Session], Any]] | None] = (
            queue.SimpleQueue()
        )
        self._running: Future[Any] | None = None
        # held while `_running` changes and while it is cancelled
        self._lock = threading.Lock()
        self._n_interrupts = 0
        self._quiet: set[Future[Any]] = set()
        self._cancelled = threading.Event()
        self._end_asked = threading.Event()
        self._is_ending = False
        self.was_interrupted = False
        self._groups = (f"sqlwin-repl-{os.getpid()}-{n}" for n in itertools.count(1))
        self._group = ""
        self._thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        """Whether something runs at the moment that somebody asked for."""
        return self._running is not None and self._running not in self._quiet

    def start(self) -> None:
        """Begin to start Spark."""
        if self._thread is None:
            self.started = time.monotonic()
            self._thread = threading.Thread(target=self._run, name="sqlwin-session", daemon=True)
            self._thread.start()

    def submit(self, work: Callable[[Session], T], *, quiet: bool = False) -> Future[T]:
        """Have `work` done, after what was asked for before; `quiet` if nobody waits for it."""
        future: Future[T] = Future()
        if quiet:
            self._quiet.add(future)
            future.add_done_callback(self._quiet.discard)
        self._requests.put((future, work))
        return future

    @property
    def is_interrupted(self) -> bool:
        """Whether Ctrl-C was pressed since `forget_interrupts`."""
        return self._n_interrupts > 0

    def interrupt(self) -> None:
        """Note that Ctrl-C was pressed: what is waited for is cancelled, now or as soon as it is.

        For a signal handler: nothing is raised, so nothing is left half done.
        """
        self._n_interrupts += 1

    def forget_interrupts(self) -> None:
        """Let Ctrl-C that was pressed until now have no effect."""
        self._n_interrupts = 0

    def check(self) -> None:
        """Called by work now and then.

        Raises:
            Cancelled: it is to end.
        """
        if self._cancelled.is_set():
            raise Cancelled

    def take_interrupt(self) -> bool:
        """Called by work that can end early by itself: whether it is to.

        It is asked once, and may then take as long as it needs to come to its end.
        """
        if self._cancelled.is_set():
            self.was_interrupted = True
            self._cancelled.clear()
        elif not self._end_asked.is_set():
            return False
        self._end_asked.clear()
        self._is_ending = True
        return True

    def end(self) -> None:
        """Have work that can end early by itself come to its end, and go on after it."""
        self._end_asked.set()

    def cancel(self, future: Future[Any]) -> None:
        """Withdraw what was asked for, or cancel the Spark jobs that it runs. Does not wait."""
        with self._lock:
            if future.cancel() or self._running is not future:
                return
            self._cancelled.set()
        session, group = self.session, self._group
        assert session is not None  # what runs has one

        def cancel_jobs() -> None:
            from runtime.spark.jobs import cancel_until

            # what has taken the interrupt comes to its end by itself
            cancel_until(
                session.spark, group, lambda: future.done() or not self._cancelled.is_set()
            )

        # A thread of its own has a connection of its own to Spark, and may hang there.
        threading.Thread(target=cancel_jobs, name="sqlwin-cancel", daemon=True).start()

    def drop(self, future: Future[Any]) -> None:
        """Raise `Cancelled` in what runs, where cancelling its jobs is of no use."""
        with self._lock:
            if self._running is not future or self._thread is None or self._thread.ident is None:
                return
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self._thread.ident), ctypes.py_object(Cancelled)
            )

    def wait(self, future: Future[T]) -> T:
        """Return the result of `future`; `interrupt` cancels it, also one before this call.

        Work that takes the interrupt may take its time, unless a second one comes.

        Raises:
            Cancelled: it was cancelled.
        """
        n_seen = n_tries = 0  # of interrupts, and of ways to end the work
        give_up = inf
        while True:
            try:
                # a signal may reach any thread of the process, and does not wake this one then
                return future.result(_WAKE_SECONDS)
            except TimeoutError:
                if future.done():
                    return future.result()
            except Stopped:
                # the process ends: who waits for it need not, and the session is closed next
                self.cancel(future)
                raise
            is_pressed = self._n_interrupts > n_seen
            n_seen += is_pressed
            if is_pressed and n_tries == 0:
                self.cancel(future)
                if future.cancelled():
                    raise Cancelled
            elif is_pressed:
                self.drop(future)
            elif time.monotonic() < give_up:
                continue
            elif n_tries == 1 and self._is_ending:
                give_up = inf
                continue
            elif n_tries > 1:  # nothing helps: it may end while the user goes on
                raise Cancelled
            else:
                self.drop(future)
            n_tries += 1
            give_up = time.monotonic() + GRACE_SECONDS

    def close(self, seconds: float = 10.0) -> None:
        """Stop Spark if it is there; whatever takes longer than `seconds` ends with the process."""
        self._requests.put(None)
        if self._thread is not None and self.session is not None:
            self._thread.join(seconds)

    # -- in the thread of the session ----------------------------------------------------------

    def _run(self) -> None:
        try:
            self._open()
        except BaseException:  # what is asked for tries again, and says what is wrong
            self._fail()
        while True:
            future: Future[Any] | None = None
            try:
                request = self._requests.get()
                if request is None:
                    break
                future, work = request
                # until there is a session the request can be withdrawn
                if self._can_open(future) and self._begin(future):
                    self._do(future, work)
            except Cancelled as error:  # came too late for what it was meant for
                if future is not None and not future.done():
                    future.set_exception(error)
            self._running = None
            self.on_change()
        if self.session is not None:
            self.session.close()

    def _can_open(self, future: Future[Any]) -> bool:
        """Whether there is a session for a request; if not, the request has failed."""
        if future.cancelled():
            return True
        try:
            self._open()
        except BaseException as error:
            self._fail()
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
            return False
        return True

    def _begin(self, future: Future[Any]) -> bool:
        """Take a request, unless it was withdrawn; from here on it is cancelled in its jobs."""
        with self._lock:
            if not future.set_running_or_notify_cancel():
                return False
            self._cancelled.clear()
            self._end_asked.clear()
            self._is_ending = self.was_interrupted = False
            self._group = next(self._groups)
            self._running = future
        return True

    def _do(self, future: Future[Any], work: Callable[[Session], Any]) -> None:
        self.on_change()
        session = self.session
        assert session is not None
        try:
            from runtime.spark.jobs import begin_group

            begin_group(session.spark, self._group)
            self.check()
            result = work(session)
        except BaseException as error:
            self._running = None
            future.set_exception(Cancelled() if self._cancelled.is_set() else error)
            return
        self._running = None
        future.set_result(result)

    def _open(self) -> Session:
        if self.session is None:
            self.state = SessionState.STARTING
            self.started = time.monotonic()
            self.session = self._connect()
            self.name = _described(self.session)
            self.state = SessionState.READY
            self.on_change()
        return self.session

    def _fail(self) -> None:
        self.state = SessionState.FAILED
        self.on_change()


def _described(session: Session) -> str:
    """`Spark 4.1.0 local[*]`."""
    spark = session.spark
    version = getattr(spark, "version", "")
    context = getattr(spark, "sparkContext", None)
    master = "" if context is None else context.master
    return " ".join(filter(None, ("Spark", version, master)))
