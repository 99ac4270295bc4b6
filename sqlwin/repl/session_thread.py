"""Session thread: opens the session and does all work for the prompt.

Spark starts in this thread with the first work that needs it. The prompt's own thread waits only
while a statement runs, and Ctrl-C ends the wait. All session calls come from this one thread.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from sqlwin.console.failures import Stopped
from sqlwin.control import SessionControl

if TYPE_CHECKING:
    from sqlwin.session import Session

T = TypeVar("T")

# Seconds until a cancelled job must have ended. Then the thread is made to drop its work, and after
# the same time again the prompt returns without it.
GRACE_SECONDS = 3.0
# Toolbar text while Spark is not running
NO_SPARK = "Spark starts when needed"
# Seconds between checks for Ctrl-C in a waiting thread
_WAKE_SECONDS = 0.1


class Cancelled(KeyboardInterrupt):
    """Ctrl-C cancelled a statement."""


class SessionState(Enum):
    """State of the session."""

    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"


class SessionThread:
    """Thread that runs functions on a session one after the other.

    Args:
        connect: Creates the session, in the thread. If it fails, waiting requests fail with its
            error, and the next request tries again.
        clock: Returns the time in seconds, for the grace period after Ctrl-C.

    Attributes:
        session: The session, None before it exists. Only the thread may call its methods.
        was_interrupted: Whether the running work accepted a request to stop early.
        is_starting_spark: Whether the running work is starting Spark.
        waiting: Returns the context in which Spark starts, such as a progress bar.
        on_spark: Called with the Spark session when it has started.
    """

    def __init__(
        self, connect: Callable[[], Session], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.state = SessionState.STARTING
        self.started = time.monotonic()
        self.name = NO_SPARK
        self.is_starting_spark = False
        self.waiting: Callable[[], AbstractContextManager[None]] = nullcontext
        self.on_spark: Callable[[Any], None] = lambda _: None
        self.on_change: Callable[[], None] = lambda: None
        self._connect = connect
        self._clock = clock
        self.session: Session | None = None
        self._requests: queue.SimpleQueue[tuple[Future[Any], Callable[[Session], Any]] | None] = (
            queue.SimpleQueue()
        )
        self._running: Future[Any] | None = None
        # held while `_running` changes and while its work is cancelled
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
        """Whether a request of the user is running."""
        return self._running is not None and self._running not in self._quiet

    def start(self) -> None:
        """Start the thread, which opens the session."""
        if self._thread is None:
            self.started = time.monotonic()
            self._thread = threading.Thread(target=self._run, name="sqlwin-session", daemon=True)
            self._thread.start()

    def submit(self, work: Callable[[Session], T], *, quiet: bool = False) -> Future[T]:
        """Queue `work` behind earlier requests. `quiet`: no caller waits for it."""
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
        """Record a Ctrl-C. It cancels the current wait, or the next one.

        Called by signal handlers, so it raises nothing and cannot interrupt an update.
        """
        self._n_interrupts += 1

    def forget_interrupts(self) -> None:
        """Discard recorded interrupts."""
        self._n_interrupts = 0

    def check(self) -> None:
        """Raise if the running work was cancelled. Work calls this periodically.

        Raises:
            Cancelled: The work has to end.
        """
        if self._cancelled.is_set():
            raise Cancelled

    def take_interrupt(self) -> bool:
        """Return whether work that can end early has been asked to.

        Each request is returned once. The work may then take any time to finish.
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
        """Ask work that can end early to finish."""
        self._end_asked.set()

    def cancel(self, future: Future[Any]) -> None:
        """Withdraw a request, or cancel its Spark jobs if it is running. Does not wait."""
        with self._lock:
            if future.cancel() or self._running is not future:
                return
            self._cancelled.set()
        session, group = self.session, self._group
        assert session is not None  # running work has a session
        control = SessionControl(session)

        def cancel_jobs() -> None:
            from runtime.spark.jobs import cancel_until

            while not control.has_spark:  # it may be starting
                if future.done() or not self._cancelled.is_set():
                    return
                time.sleep(_WAKE_SECONDS)
            # work that accepted the interrupt ends on its own
            cancel_until(
                session.spark, group, lambda: future.done() or not self._cancelled.is_set()
            )

        # A separate thread has its own connection to Spark, and can hang without harm.
        threading.Thread(target=cancel_jobs, name="sqlwin-cancel", daemon=True).start()

    def drop(self, future: Future[Any]) -> None:
        """Raise `Cancelled` in running work that does not react to cancelled jobs."""
        with self._lock:
            if self._running is not future or self._thread is None or self._thread.ident is None:
                return
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self._thread.ident), ctypes.py_object(Cancelled)
            )

    def wait(self, future: Future[T]) -> T:
        """Wait for the result of `future`. `interrupt` cancels it, even if called earlier.

        Work that accepts the interrupt may take its time, unless a second one arrives.

        Raises:
            Cancelled: The work was cancelled.
        """
        n_seen = n_tries = 0  # interrupts handled, and attempts to end the work
        give_up = inf
        while True:
            try:
                # the signal may reach another thread of the process, so wake up regularly
                return future.result(_WAKE_SECONDS)
            except TimeoutError:
                if future.done():
                    return future.result()
            except Stopped:
                # the process is ending: stop waiting, the session is closed next
                self.cancel(future)
                raise
            is_pressed = self._n_interrupts > n_seen
            n_seen += is_pressed
            if is_pressed and n_tries == 0:
                self.cancel(future)
                if future.cancelled() or self.is_starting_spark:
                    raise Cancelled
            elif is_pressed:
                self.drop(future)
            elif self._clock() < give_up:
                continue
            elif n_tries == 1 and self._is_ending:
                give_up = inf
                continue
            elif n_tries > 1:  # give up waiting: the work may end later
                raise Cancelled
            else:
                self.drop(future)
            n_tries += 1
            give_up = self._clock() + GRACE_SECONDS

    def close(self, seconds: float = 10.0) -> None:
        """Stop Spark if it is running. After `seconds`, leave it to the end of the process."""
        self._requests.put(None)
        if self._thread is not None and self.session is not None:
            self._thread.join(seconds)

    # -- in the thread of the session ----------------------------------------------------------

    def _run(self) -> None:
        try:
            self._open()
        except BaseException:  # the request tries again and reports the error
            self._fail()
        while True:
            future: Future[Any] | None = None
            try:
                request = self._requests.get()
                if request is None:
                    break
                future, work = request
                # a request can be withdrawn until the session exists
                if self._can_open(future) and self._begin(future):
                    self._do(future, work)
            except Cancelled as error:  # too late for the work that it was meant for
                if future is not None and not future.done():
                    future.set_exception(error)
            self._running = None
            self.on_change()
        if self.session is not None:
            self.session.close()

    def _can_open(self, future: Future[Any]) -> bool:
        """Return whether a session exists for a request. If not, fail the request."""
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
        """Start a request unless it was withdrawn. From now on, cancelling it cancels its jobs."""
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
            if SessionControl(session).has_spark:
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
            SessionControl(self.session).when_spark_starts(self._spark_starts, self._use_spark)
            self.state = SessionState.READY
            self.on_change()
        return self.session

    @contextmanager
    def _spark_starts(self) -> Iterator[None]:
        """Show that Spark starts within the block."""
        self.is_starting_spark, self.started = True, time.monotonic()
        self.on_change()
        try:
            with self.waiting():
                yield
        finally:
            self.is_starting_spark = False

    def _use_spark(self, spark: Any) -> None:
        """Make the jobs of the running work cancellable, and describe Spark."""
        from runtime.spark.jobs import begin_group

        if self._group:
            begin_group(spark, self._group)
        self.name = _description(spark)
        self.on_spark(spark)
        self.on_change()

    def _fail(self) -> None:
        self.state = SessionState.FAILED
        self.on_change()


def _description(spark: Any) -> str:
    """Return a description such as `Spark 4.1.0 local[*]`."""
    version = getattr(spark, "version", "")
    context = getattr(spark, "sparkContext", None)
    master = "" if context is None else context.master
    return " ".join(filter(None, ("Spark", version, master)))
