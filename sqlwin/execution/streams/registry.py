"""The streams of a session, by number and name: what STOP STREAM finds."""

from __future__ import annotations

import time
from itertools import count

from runtime.errors import CatalogError, nearest
from sqlwin.execution.streams.handle import Stream, StreamState

START_SECONDS = 60.0
_POLL_SECONDS = 0.05


class Streams:
    """The streams of a session, by number."""

    def __init__(self) -> None:
        self._streams: dict[int, Stream] = {}
        self._numbers = count(1)

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

    def name_in_use(self, directory: str) -> bool:
        """Whether a running stream keeps its checkpoint in a directory."""
        return any(stream.checkpoint.directory == directory for stream in self.running())

    def find(self, name: str) -> Stream:
        """The stream of a number or a name; of a name the last one.

        Raises:
            CatalogError: there is none.
        """
        for stream in reversed(self._streams.values()):
            if name in (str(stream.number), stream.setup.name):
                return stream
        for stream in reversed(self._streams.values()):
            if name in stream.setup.inserts:
                return stream
        known = [stream.setup.name for stream in self._streams.values()]
        close = nearest(name, known)
        raise CatalogError(
            f"there is no stream `{name}`",
            subjects=(name,),
            hint=f"did you mean `{close}`?" if close else "SHOW STREAMS lists them",
        )

    def stop_all(self) -> list[Stream]:
        """Stop all that run; these."""
        running = self.running()
        for stream in running:
            stream.stop()
        for stream in self._streams.values():
            stream.clean_up()
        return running
