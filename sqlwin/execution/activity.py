"""In-memory records of a session's latest statements, for its web page and metrics.

A statement adds a record when it begins and replaces the record as it progresses. Its Spark jobs
carry a tag with the statement's number, by which they are matched.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import count
from typing import Any, Protocol

import pyarrow as pa

from planner.plan import Plan
from runtime.errors import SqlwinError, kind_in_words
from runtime.frames.scan_counts import StatementCounts
from runtime.spark.jobs import STATEMENT_TAG

# Maximum statements kept
_MAX_STATEMENTS = 200
# Maximum statements whose plans are kept, since plans may hold tables
_MAX_PLANS = 50
_SESSIONS = count(1)


class StatementState(StrEnum):
    """State of a statement."""

    RUNNING = "running"
    # a query has been planned, and runs once its rows are requested
    PLANNED = "planned"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True)
class TimeSpan:
    """Part of a statement's run time.

    Attributes:
        name: Name of the part, such as planning.
        begun: Start, in seconds since 1970.
        ended: End, in seconds since 1970. None: still running.
    """

    name: str
    begun: float
    ended: float | None = None


@dataclass(frozen=True)
class StatementRecord:
    """Progress of a statement.

    Attributes:
        number: Number of the statement in the session.
        text: Text of the statement, secrets included.
        begun: Start, in seconds since 1970.
        tag: Tag of its Spark jobs.
        state: State of the statement.
        ended: End, in seconds since 1970. If its rows were requested again, the last end.
        kind: Kind of its result, as in `Result.kind`.
        message: Final message or error, secrets included.
        n_rows: Rows written or returned, if known.
        spans: Parts of its run time.
        streams: Numbers of the streams that it started.
    """

    number: int
    text: str
    begun: float
    tag: str
    state: StatementState = StatementState.RUNNING
    ended: float | None = None
    kind: str = ""
    message: str = ""
    n_rows: int | None = None
    spans: tuple[TimeSpan, ...] = ()
    streams: tuple[int, ...] = ()


class StatementListener(Protocol):
    """Follower of a session's statements, such as a tracer. Its errors are logged, not raised."""

    def begin(self, run: StatementRun) -> None:
        """Handle the start of a statement."""

    def end(self, run: StatementRun) -> None:
        """Handle the end of a statement, for a query after its last row. Called once."""


# Context manager that tags Spark's jobs; its arguments are the tag and the statement's text
Marking = Callable[[str, str], AbstractContextManager[None]]


@dataclass(eq=False)
class StatementRun:
    """A statement that runs or has run.

    Attributes:
        record: Progress so far. Replaced on every change, never mutated.
        plans: Plans of the statement while they are kept.
        document: EXPLAIN's document, for EXPLAIN statements.
        scan_counts: Counters of the rows that its scans read.
        listeners: Programs that follow the statement.
        marks: Objects that listeners store until its end.
    """

    record: StatementRecord
    marking: Marking
    listeners: tuple[StatementListener, ...] = ()
    marks: dict[str, Any] = field(default_factory=dict)
    plans: list[Plan] = field(default_factory=list)
    document: dict[str, Any] | None = None
    scan_counts: StatementCounts | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _has_ended: bool = False

    def begin(self) -> None:
        """Tell the listeners that the statement begins."""
        for listener in self.listeners:
            with _logged():
                listener.begin(self)

    def finish(self) -> None:
        """Notify the listeners that the statement has ended, unless they were notified before."""
        with self._lock:
            had_ended, self._has_ended = self._has_ended, True
        if not had_ended:
            for listener in self.listeners:
                with _logged():
                    listener.end(self)

    def record_end(self, kind: str, message: str, n_rows: int | None) -> None:
        """Record the end of the statement, for a query before its rows are computed."""
        state = StatementState.PLANNED if kind == "query" else StatementState.DONE
        self._change(
            lambda record, now: replace(
                record, kind=kind, message=message, n_rows=n_rows, state=state, ended=now
            )
        )
        if state is StatementState.DONE:
            self.finish()

    def record_stream(self, stream: int) -> None:
        """Record that the statement started a stream."""
        self._change(lambda record, _: replace(record, streams=(*record.streams, stream)))

    def record_plan(self, plan: Plan) -> None:
        """Record a plan of the statement, replacing an earlier plan for the same text."""
        if plan.sql in self.record.text:
            self.plans = [
                *(plan_before for plan_before in self.plans if plan_before.sql != plan.sql),
                plan,
            ]

    def record_failure(self, error: BaseException) -> None:
        """Record that the statement failed or was cancelled."""
        text = error.message if isinstance(error, SqlwinError) else str(error)
        message = "interrupted" if isinstance(error, KeyboardInterrupt) else text
        message = message or kind_in_words(error)
        self._change(
            lambda record, now: replace(
                record, state=StatementState.FAILED, message=message, ended=now
            )
        )
        self.finish()

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Measure a block as part of the run time, merging consecutive blocks of one name."""
        now = time.time()
        self._change(lambda record, _: replace(record, spans=_open_span(record.spans, name, now)))
        try:
            yield
        finally:
            self._change(
                lambda record, now: replace(record, spans=_close_span(record.spans, name, now))
            )

    def compute_rows(self, action: Callable[[], Any], *, has_jobs: bool = True) -> Any:
        """Run an action that computes the statement's rows, and record the outcome.

        Args:
            action: Computes rows. Its Spark jobs are tagged as the statement's.
            has_jobs: Whether it may start jobs. Tagging takes a dozen calls to the JVM.

        Raises:
            Exception: The action's error, which is recorded.
        """
        self._change(lambda record, _: replace(record, state=StatementState.RUNNING))
        try:
            marked = self.marking(self.record.tag, self.record.text) if has_jobs else nullcontext()
            with marked, self.span("computing rows"):
                rows = action()
        except BaseException as error:
            self.record_failure(error)
            raise
        n_rows = None
        if isinstance(rows, pa.Table):
            n_rows = rows.num_rows
        elif isinstance(rows, list):
            n_rows = len(rows)
        self._change(
            lambda record, now: replace(
                record,
                state=StatementState.DONE,
                ended=now,
                n_rows=record.n_rows if n_rows is None else n_rows,
            )
        )
        return rows

    def count_rows(self, n_rows: int) -> None:
        """Record the number of rows that the statement has returned."""
        self._change(lambda record, _: replace(record, n_rows=n_rows))

    def _change(self, changed: Callable[[StatementRecord, float], StatementRecord]) -> None:
        with self._lock:
            self.record = changed(self.record, time.time())


@contextmanager
def _logged() -> Iterator[None]:
    """Log errors in the block, because a listener must not fail the statement."""
    try:
        yield
    except Exception:
        logging.getLogger("sqlwin").warning("a listener of statements failed", exc_info=True)


def _open_span(spans: tuple[TimeSpan, ...], name: str, now: float) -> tuple[TimeSpan, ...]:
    if spans and spans[-1].name == name:
        return (*spans[:-1], TimeSpan(name, spans[-1].begun))
    return (*spans, TimeSpan(name, now))


def _close_span(spans: tuple[TimeSpan, ...], name: str, now: float) -> tuple[TimeSpan, ...]:
    return tuple(
        replace(span, ended=now) if span.name == name and span.ended is None else span
        for span in spans
    )


class Activity:
    """Records of a session's latest statements.

    Attributes:
        session: Number of the session in this process.
        begun: Start of the session, in seconds since 1970.
        start_seconds: Time to create the session, including Spark's start.
        listeners: Followers of all statements that begin from now on.
    """

    def __init__(self, marking: Marking) -> None:
        self.session = next(_SESSIONS)
        self.begun = time.time()
        self.start_seconds = 0.0
        self.listeners: tuple[StatementListener, ...] = ()
        self._marking = marking
        self._numbers = count(1)
        self._runs: deque[StatementRun] = deque(maxlen=_MAX_STATEMENTS)

    def record_ready(self, begun: float | None) -> None:
        """Record that the session is ready. `begun` is the time of the `connect` call, if known."""
        if begun is not None:
            self.begun = begun
            self.start_seconds = time.time() - begun

    def begin(self, text: str) -> StatementRun:
        """Add a record for a new statement."""
        number = next(self._numbers)
        tag = f"{STATEMENT_TAG}{self.session}-{number}"
        run = StatementRun(
            StatementRecord(number, text, time.time(), tag), self._marking, self.listeners
        )
        self._runs.append(run)
        if len(self._runs) > _MAX_PLANS:
            self._runs[-_MAX_PLANS - 1].plans.clear()
        run.begin()
        return run

    def runs(self) -> list[StatementRun]:
        """Return the statements, oldest first."""
        while True:
            try:
                return list(self._runs)
            except RuntimeError:  # another thread added one
                continue

    def find(self, number: int) -> StatementRun | None:
        """Return the statement with a number, or None if its record was discarded."""
        return next((run for run in self.runs() if run.record.number == number), None)
