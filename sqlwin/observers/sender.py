"""Send events in the background, one after the other."""

from __future__ import annotations

import atexit
import logging
import queue
import threading
import time
from collections.abc import Callable
from functools import cache
from weakref import WeakSet

# Seconds that the end of the process waits for events to be sent
_END_SECONDS = 5.0
# Maximum events that wait for a slow collector
_MAX_WAITING = 10_000

log = logging.getLogger("sqlwin")


class Sender:
    """Thread that sends events in order, and ends with the process.

    A collector that does not answer blocks only this thread. Events beyond `most_waiting` are
    dropped with a warning.

    Args:
        most_waiting: Maximum events that wait.
    """

    def __init__(self, most_waiting: int = _MAX_WAITING) -> None:
        self._most_waiting = most_waiting
        self._waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._has_dropped = False
        # threads that submit events of streams; they end with their streams
        self._followers: WeakSet[threading.Thread] = WeakSet()
        self._thread = threading.Thread(target=self._run, name="sqlwin-lineage", daemon=True)
        self._thread.start()
        atexit.register(self._end)

    def submit(self, send: Callable[[], None]) -> None:
        """Send an event once the earlier ones are sent."""
        if self._waiting.qsize() < self._most_waiting:
            self._has_dropped = False
            self._waiting.put(send)
        elif not self._has_dropped:
            self._has_dropped = True
            log.warning("OpenLineage events are dropped, because the collector is too slow")

    def follow(self, action: Callable[[], None]) -> None:
        """Run an action that submits events of a stream, in a thread of its own.

        Its errors are logged: they must not fail the stream.
        """

        def run() -> None:
            try:
                action()
            except Exception:
                log.warning("the events of a stream end early", exc_info=True)

        thread = threading.Thread(target=run, name="sqlwin-lineage-stream", daemon=True)
        self._followers.add(thread)
        thread.start()

    def flush(self, seconds: float | None = None) -> bool:
        """Wait until the events submitted so far are sent. Return whether they are."""
        sent = threading.Event()
        self._waiting.put(sent.set)
        return sent.wait(seconds)

    def _run(self) -> None:
        while True:
            self._waiting.get()()

    def _end(self) -> None:
        until = time.monotonic() + _END_SECONDS
        # the last events of streams that have just been stopped
        for thread in list(self._followers):
            thread.join(max(0.0, until - time.monotonic()))
        if not self.flush(max(0.0, until - time.monotonic())):
            log.warning("OpenLineage events were not sent, because the collector does not answer")


@cache
def sender() -> Sender:
    """Return the sender of the process."""
    return Sender()
