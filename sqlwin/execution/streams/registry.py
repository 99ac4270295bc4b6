"""Streams of a session, by number and name."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import TYPE_CHECKING
from weakref import WeakSet

from runtime.errors import CatalogError, nearest

if TYPE_CHECKING:
    from sqlwin.execution.streams.handle import Stream

START_SECONDS = 60.0
_POLL_SECONDS = 0.05


class Streams:
    """Streams of a session, by number."""

    def __init__(self) -> None:
        self._streams: dict[int, Stream] = {}
        self._numbers = count(1)
        # checkpoint directories of streams that are being started
        self._claimed: set[str] = set()
        with _all_streams_lock:
            _all_streams.add(self)

    def __repr__(self) -> str:
        """Return the streams, one per line."""
        return "\n".join(map(repr, self.all())) or "<no streams>"

    def next_number(self) -> int:
        """Return the number for a new stream."""
        return next(self._numbers)

    def add(self, stream: Stream) -> None:
        """Add a started stream."""
        self._streams[stream.number] = stream

    def all(self) -> list[Stream]:
        """Return all streams, including those that are over."""
        return list(self._streams.values())

    def await_starts(self, at_most_s: float = START_SECONDS) -> None:
        """Wait until no stream is opening its sources, for `at_most_s` seconds at most.

        Spark starts a process for a source in Python and gives up if it does not answer within 10
        s. On a busy machine that is too short when several start at once.
        """
        until = time.monotonic() + at_most_s
        for stream in self.all():
            while stream.is_starting() and time.monotonic() < until:
                time.sleep(_POLL_SECONDS)

    def running(self) -> list[Stream]:
        """Return the running streams."""
        return [stream for stream in self.all() if stream.is_running]

    @property
    def may_run(self) -> bool:
        """Whether a stream may be running. Safe in signal handlers, since it does not ask Spark."""
        return any(not stream.is_over for stream in self.all())

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Release the claims of the block at its end. Streams are started in such a block."""
        try:
            yield
        finally:
            self._claimed.clear()

    def claim(self, directory: str) -> bool:
        """Claim a directory for the checkpoint of a stream that is being started.

        Returns:
            Whether the claim succeeded: no stream of any session in this process uses the
                directory.
        """
        with _all_streams_lock:
            if any(streams._has_checkpoint(directory) for streams in _all_streams):
                return False
            self._claimed.add(directory)
            return True

    def _has_checkpoint(self, directory: str) -> bool:
        return directory in self._claimed or any(
            stream.checkpoint.directory == directory and stream.is_running for stream in self.all()
        )

    def find(self, name: str) -> Stream:
        """Return the stream with a number or a name, the latest one for a name.

        Raises:
            CatalogError: No stream has that number or name.
        """
        for stream in reversed(self.all()):
            if name in (str(stream.number), stream.setup.name):
                return stream
        for stream in reversed(self.all()):
            if name in stream.setup.inserts:
                return stream
        names = [stream.setup.name for stream in self.all()]
        close = nearest(name, names)
        raise CatalogError(
            f"stream `{name}` does not exist",
            subjects=(name,),
            hint=f"did you mean `{close}`?" if close else "SHOW STREAMS lists the streams",
        )

    def stop_all(self) -> list[Stream]:
        """Stop all running streams and return them."""
        running = self.running()
        with ExitStack() as stopping:
            # an error of one stream must not keep the others running
            for stream in reversed(running):
                stopping.callback(stream.stop)
        for stream in self.all():
            stream.clean_up()
        return running


# Streams of all sessions of this process: two streams on one checkpoint would stop each other
_all_streams: WeakSet[Streams] = WeakSet()
_all_streams_lock = threading.Lock()


@atexit.register
def leave_streams() -> None:
    """Remove temporary checkpoints at exit, for sessions that were not closed."""
    for session in list(_all_streams):
        for stream in session.all():
            stream.leave()
