"""The running streams of a session: what SHOW STREAMS lists and STOP STREAM stops."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from runtime.errors import CatalogError, SqlwinError
from runtime.files import Files
from runtime.nearest import nearest
from runtime.sinks.streaming import StreamRun
from runtime.spark_errors import is_interruption
from runtime.streaming.checkpoint import Checkpoint, Identity, end_input, mark_ended
from runtime.streaming.heartbeat import is_heartbeat
from runtime.streaming.status import (
    StreamStatus,
    Tally,
    clock,
    dropped_rows,
    silence,
    span,
    stream_status,
)

T = TypeVar("T")

_POLL_SECONDS = 0.1
# For how long a micro-batch may go on after it was asked to be the last
_GRACE_SECONDS = 60.0


class State(StrEnum):
    """What has become of a stream."""

    RUNNING = "running"
    ENDED = "ended"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True)
class Setup:
    """How a stream was set up.

    Attributes:
        name: the name it goes by, and its checkpoint's.
        statement: its text.
        sink: where its rows go.
        ends: whether its input ends.
        closes: whether the windows that are open then are closed.
        keeps_checkpoint: whether the checkpoint outlives it.
        source_names: for each window operator, the names of its sources.
        explained: an error of Spark's in a person's words.
        late_table: the table that late rows go to; None: they are dropped.
        inserts: the tables of INSERTs that it runs together, if there are several; what of
            `source_names` stands for a window operator then stands for an INSERT.
    """

    name: str
    statement: str
    sink: str
    ends: bool
    closes: bool
    keeps_checkpoint: bool
    source_names: Sequence[Sequence[str]]
    explained: Callable[[BaseException], SqlwinError]
    late_table: str | None = None
    inserts: tuple[str, ...] = ()


class Stream:
    """A stream that was started. One whose input ends is brought to its end by a thread.

    Attributes:
        number: its number in the session.
        setup: how it was set up.
        query: Spark's query.
        run_id: Spark's name of this run.
        run: how it was started, and how many rows it has written.
        checkpoint: where it keeps what it needs to resume.
        tally: what is counted over all of its micro-batches.
        is_known_over: whether it was seen to be over.
    """

    def __init__(
        self,
        number: int,
        setup: Setup,
        query: StreamingQuery,
        run: StreamRun,
        checkpoint: Checkpoint,
        identity: Identity,
        files: Files,
    ) -> None:
        self.number = number
        self.setup = setup
        self.query = query
        self.run_id = str(query.runId)
        self.run = run
        self.checkpoint = checkpoint
        self.tally = Tally(len(setup.source_names))
        self._identity = identity
        self._files = files
        self._has_ended = False
        self._is_stopping = False
        # Spark was told to stop it, which interrupts a micro-batch that runs at that moment
        self._was_cut = False
        self.is_known_over = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        if setup.ends:
            self._thread = threading.Thread(
                target=self._run_to_end, name=f"stream-{number}", daemon=True
            )
            self._thread.start()

    @property
    def state(self) -> State:
        """What has become of it."""
        if self._is_active():
            return State.RUNNING
        if self._failure() is not None:
            return State.FAILED
        return State.ENDED if self._has_ended else State.STOPPED

    def status(self) -> StreamStatus:
        """How it stands, as of its last micro-batch."""
        try:
            progress = list(self.query.recentProgress)
        except PySparkException:
            progress = []
        return stream_status(progress, self.setup.source_names, self.tally)

    def failure(self) -> str:
        """What it failed with, in one line; empty if it did not."""
        error = self._failure()
        return "" if error is None else self.setup.explained(error).message

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for its end, at most so long; whether it has come.

        Raises:
            SqlwinError: it failed.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while self._is_active() or (self._thread is not None and self._thread.is_alive()):
            if until is not None and time.monotonic() >= until:
                return False
            time.sleep(_POLL_SECONDS)
        self.is_known_over = True
        failure = self._failure()
        if failure is not None and not self._is_stopping:
            raise self.setup.explained(failure) from failure
        return True

    def stop(self, *, at_once: bool = False) -> None:
        """Stop it when the micro-batch that is running is done, and tidy up.

        Args:
            at_once: without waiting for the micro-batch, if nobody can resume the stream.
        """
        # The connection of this thread may hold the answer to a call that was interrupted
        apart(lambda: self._stop(at_once and not self.setup.keeps_checkpoint))

    def _stop(self, at_once: bool) -> None:
        self._is_stopping = True
        if self._is_active():
            if not at_once:
                self._let_batch_finish()
            self._cut()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_GRACE_SECONDS)
        self.is_known_over = True
        self.clean_up()

    def clean_up(self) -> None:
        """Remove the checkpoint of a stream that is over, unless it is kept."""
        if not self.setup.keeps_checkpoint:
            shutil.rmtree(self.checkpoint.directory, ignore_errors=True)

    def _is_active(self) -> bool:
        return bool(self.query.isActive)

    def _failure(self) -> BaseException | None:
        if self._is_active():
            return None
        found: BaseException | None = self.query.exception()
        # where Spark knows of no failure, what a micro-batch raised was Spark's own interruption
        found = self._error if found is None else self.run.error or self._error or found
        # what was interrupted is not committed, and is computed again by the next run
        return None if self._was_cut and is_interruption(found) else found

    def _cut(self) -> None:
        """Have Spark stop it now."""
        self._was_cut = True
        self.query.stop()

    def _let_batch_finish(self) -> None:
        """Wait until a micro-batch that runs now is done: the next one has hardly begun then."""
        before = self._last_batch()
        until = time.monotonic() + _GRACE_SECONDS
        while self._is_active() and time.monotonic() < until:
            if not self.query.status["isTriggerActive"] or self._last_batch() != before:
                return
            time.sleep(0.02)

    def _last_batch(self) -> object:
        last = self.query.lastProgress
        return None if last is None else (last["batchId"], last["timestamp"])

    # -- input that ends -----------------------------------------------------------------------

    def _run_to_end(self) -> None:
        try:
            self._use_up_input()
            if self.setup.closes and self.query.isActive and not self._is_stopping:
                end_input(self._files, self.checkpoint)
                self._use_up_input(end_was_told=True)
            if self.query.isActive and not self._is_stopping:
                self._has_ended = True
                if self.setup.closes:
                    mark_ended(self._files, self.checkpoint, self._identity)
                self._cut()
        except (PySparkException, OSError) as error:
            if not self._is_stopping:
                self._error = self._error or error
                if self.query.isActive:
                    self._cut()

    def _use_up_input(self, end_was_told: bool = False) -> None:
        """Wait until all that the sources have is processed and committed.

        Spark tells when no micro-batch is due. Where the clock is due micro-batches without end,
        it is told by those that read nothing.
        """
        since = self._last_batch()
        waiter = threading.Thread(target=self._process_available, daemon=True)
        waiter.start()
        while waiter.is_alive() and self.query.isActive:
            waiter.join(_POLL_SECONDS)
            if has_used_up(self.query.recentProgress, since, end_was_told):
                return
        waiter.join()
        if self._error is not None:
            raise self._error

    def _process_available(self) -> None:
        try:
            self.query.processAllAvailable()
        except PySparkException as error:
            # with the clock it may still wait when all is done
            if not self._has_ended:
                self._error = self._error or error


def has_used_up(progress: Sequence[Mapping[str, Any]], since: object, end_was_told: bool) -> bool:
    """Whether the micro-batches after `since` have read all that there was.

    Of a run that has just begun the first one may be that of an earlier run, computed again; so
    it takes a second one that reads nothing. After the end of the input was told, which is
    something to read, one that reads nothing counts only after one that read it.
    """
    batches = [(p["batchId"], p["timestamp"]) for p in progress]
    new = progress[batches.index(since) + 1 :] if since in batches else progress
    read = [
        any(s["startOffset"] != s["endOffset"] for s in p["sources"] if not is_heartbeat(s))
        for p in new
    ]
    enough = any(read) if end_was_told else len(read) > 1
    return enough and not read[-1]


def apart(action: Callable[[], T]) -> T:
    """Do something on a thread of its own, which talks to Spark on a connection of its own."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(action).result()


@dataclass(frozen=True)
class StreamPart:
    """One of the INSERTs that a stream runs together.

    Attributes:
        stream: the stream.
        number: the INSERT's number among them.
    """

    stream: Stream
    number: int

    @property
    def n_rows(self) -> int | None:
        """Rows written in this run; None if the sink does not tell."""
        return self.stream.run.written[self.number]

    def status(self) -> StreamStatus:
        """How it stands, as of the last micro-batch."""
        status = self.stream.status()
        return replace(status, operators=status.operators[self.number : self.number + 1])


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

    def running(self) -> list[Stream]:
        """The streams that run."""
        return [stream for stream in self.all() if stream.state is State.RUNNING]

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


def resume_hint(stream: Stream) -> str:
    """How a stream that was stopped goes on."""
    if stream.setup.keeps_checkpoint:
        return f"run the same statement again to resume from {stream.checkpoint.directory}"
    return (
        "it cannot be resumed, for its checkpoint was temporary: "
        "SET 'execution.checkpointing.dir' to a directory before the statement"
    )


_COLUMNS = (
    "stream", "name", "state", "into", "batch", "rows/s", "rows out", "watermark", "by source",
    "kept", "dropped", "waits for", "checkpoint",
)  # fmt: skip


def show_streams(streams: Streams) -> pa.Table:
    """A row a stream: how it stands, and why nothing comes out."""
    rows = [described(stream) for stream in streams.all()]
    columns = zip(*rows, strict=True) if rows else [()] * len(_COLUMNS)
    arrays = [pa.array(list(values), pa.string()) for values in columns]
    return pa.table(dict(zip(_COLUMNS, arrays, strict=True)))


def described(stream: Stream) -> tuple[str, ...]:
    """How a stream stands, in the order of the columns of `show_streams`."""
    status = _as_one(stream)
    operators = status.operators
    state = stream.state
    return (
        str(stream.number),
        stream.setup.name,
        state.value,
        stream.setup.sink,
        "-" if status.batch is None else str(status.batch),
        f"{status.rows_per_second:,.0f}" if state is State.RUNNING else "-",
        _rows_out(stream),
        "; ".join(clock(operator.watermark_us) for operator in operators) or "-",
        "; ".join(
            f"{s.name} {clock(s.watermark_us)}{' (idle)' if s.is_idle else ''}"
            for operator in operators
            for s in operator.sources
        )
        or "-",
        _kept(status) or "-",
        _dropped(stream) or "-",
        _waits_for(stream, state, status),
        stream.checkpoint.directory if stream.setup.keeps_checkpoint else "temporary",
    )


def _as_one(stream: Stream) -> StreamStatus:
    """How a stream stands; of several INSERTs that one operator serves, as that operator stands."""
    status = stream.status()
    if not stream.setup.inserts or not status.operators:
        return status
    first = status.operators[0]
    ends = [o.next_window_end_us for o in status.operators if o.next_window_end_us is not None]
    one = replace(
        first,
        n_late=sum(operator.n_late for operator in status.operators),
        next_window_end_us=min(ends, default=None),
    )
    return replace(status, operators=(one,))


def _rows_out(stream: Stream) -> str:
    """How many rows were written: `120`, and for several INSERTs `hours 120; days 5`."""

    def text(n_rows: int | None) -> str:
        return "-" if n_rows is None else f"{n_rows:,}"

    if not stream.setup.inserts:
        return text(stream.run.n_rows)
    counts = stream.run.written or [0] * len(stream.setup.inserts)
    pairs = zip(stream.setup.inserts, counts, strict=True)
    return "; ".join(f"{name} {text(count)}" for name, count in pairs)


def _dropped(stream: Stream) -> str:
    """How many rows were dropped and why, for several INSERTs one by one; empty if none."""
    status = stream.status()
    if not stream.setup.inserts or not status.operators:
        return dropped_rows(status)
    alone = [replace(status, operators=(operator,)) for operator in status.operators]
    pairs = zip(stream.setup.inserts, map(dropped_rows, alone), strict=True)
    return "; ".join(f"{name} {text}" for name, text in pairs if text)


def _waits_for(stream: Stream, state: State, status: StreamStatus) -> str:
    match state:
        case State.RUNNING:
            return silence(status, stream.run.n_rows)
        case State.FAILED:
            return stream.failure()
        case State.STOPPED:
            return resume_hint(stream)
        case State.ENDED:
            return "-"


def _kept(status: StreamStatus) -> str:
    """The size of the state, such as `27 rows, 24 kB`."""
    if not status.operators:
        return ""
    n_rows = sum(o.n_rows for o in status.operators)
    return f"{n_rows:,} rows, {_bytes(sum(o.n_bytes for o in status.operators))}"


def status_line(stream: Stream) -> str:
    """How a stream stands, in one line for a terminal."""
    status = _as_one(stream)
    if status.batch is None:
        return f"{stream.setup.name}: {silence(status, stream.run.n_rows)}"
    parts = [
        f"{stream.setup.name}: {status.rows_per_second:,.0f} rows/s",
        f"batch {status.batch} {status.batch_seconds:.1f} s",
    ]
    if status.operators:
        first = status.operators[0]
        parts.append(f"watermark {clock(first.watermark_us)}{_lag(first.watermark_us)}")
        parts.append(f"state {_kept(status)}")
        parts.append(f"dropped {_dropped(stream) or '0'}")
    if not stream.run.n_rows:
        parts.append(silence(status, stream.run.n_rows))
    return " · ".join(parts)


def _lag(watermark_us: int | None) -> str:
    """How far a watermark is behind the clock, where it is anywhere near it."""
    if watermark_us is None:
        return ""
    lag_us = time.time_ns() // 1_000 - watermark_us
    return f" ({span(lag_us)} behind)" if 0 <= lag_us < 7 * 86_400_000_000 else ""


def _bytes(number: int) -> str:
    if number < 1_000_000:
        return f"{number / 1_000:.0f} kB"
    return f"{number / 1_000_000:.1f} MB"
