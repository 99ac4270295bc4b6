"""The streams of a session, by number and name: what STOP STREAM finds."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from weakref import WeakSet

from runtime.errors import CatalogError, nearest
from sqlwin.execution.streams.handle import Stream, StreamState

START_SECONDS = 60.0
_POLL_SECONDS = 0.05


class Streams:
    """The streams of a session, by number."""

    def __init__(self) -> None:
        self._streams: dict[int, Stream] = {}
        self._numbers = count(1)
        # directories of checkpoints, of streams that are being started
        self._claimed: set[str] = set()
        with _all_streams_lock:
            _all_streams.add(self)

    def __repr__(self) -> str:
        """The streams, in one line each."""
        return "\n".join(map(repr, self.all())) or "<no streams>"

    def next_number(self) -> int:
        """A number for a new stream."""
        return next(self._numbers)

    def add(self, stream: Stream) -> None:
        """Keep a stream that was started."""
        self._streams[stream.number] = stream

    def all(self) -> list[Stream]:
        """All streams, those that are over too."""
        return list(self._streams.values())

    def await_starts(self, at_most_s: float = START_SECONDS) -> None:
        """Wait until no stream is opening its sources any more, for some time at most.

        For a source in Python Spark starts a process, which is given up if it does not answer
        within 10 s: too little on a busy machine where several of them start at once.
        """
        until = time.monotonic() + at_most_s
        for stream in self.all():
            while stream.is_starting() and time.monotonic() < until:
                time.sleep(_POLL_SECONDS)

    def running(self) -> list[Stream]:
        """The streams that run."""
        return [stream for stream in self.all() if stream.state is StreamState.RUNNING]

    @property
    def may_run(self) -> bool:
        """Whether one may be running: Spark is not asked, so that a signal handler can ask."""
        return any(not stream.is_known_over for stream in self.all())

    @contextmanager
    def starting(self) -> Iterator[None]:
        """A block in which a stream is started: what is claimed in it is let go at its end."""
        try:
            yield
        finally:
            self._claimed.clear()

    def claim(self, directory: str) -> bool:
        """Claim a directory for the checkpoint of a stream that is being started.

        Returns:
            Whether it was to be had: no stream of this process, of whatever session, keeps its
            checkpoint there.
        """
        with _all_streams_lock:
            if any(each._has_checkpoint(directory) for each in _all_streams):
                return False
            self._claimed.add(directory)
            return True

    def _has_checkpoint(self, directory: str) -> bool:
        return directory in self._claimed or any(
            stream.checkpoint.directory == directory and stream.state is StreamState.RUNNING
            for stream in self.all()
        )

    def find(self, name: str) -> Stream:
        """The stream of a number or a name; of a name the last one.

        Raises:
            CatalogError: there is none.
        """
        for stream in reversed(self.all()):
            if name in (str(stream.number), stream.setup.name):
                return stream
        for stream in reversed(self.all()):
            if name in stream.setup.inserts:
                return stream
        known = [stream.setup.name for stream in self.all()]
        close = nearest(name, known)
        raise CatalogError(
            f"there is no stream `{name}`",
            subjects=(name,),
            hint=f"did you mean `{close}`?" if close else "SHOW STREAMS lists them",
        )

    def stop_all(self) -> list[Stream]:
        """Stop all that run; these."""
        running = self.running()
        with ExitStack() as stopping:
            # whatever one of them fails with, the others are stopped too
            for stream in reversed(running):
                stopping.callback(stream.stop)
        for stream in self.all():
            stream.clean_up()
        return running


# Those of all sessions of this process: two streams on one checkpoint would stop each other
_all_streams: WeakSet[Streams] = WeakSet()
_all_streams_lock = threading.Lock()


@atexit.register
def leave_streams() -> None:
    """Remove the temporary checkpoints of sessions that nobody has closed: the process ends."""
    for session in list(_all_streams):
        for stream in session.all():
            stream.leave()
