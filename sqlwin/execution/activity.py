"""What the statements of a session did, for whoever watches: kept in this process, the last ones.

A statement leaves a record when it begins, and the record is replaced as it goes on. Spark's jobs
carry a tag with the number of their statement, so that they are found again.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import count
from typing import Any

import pyarrow as pa

from planner.plan import Plan
from runtime.errors import SqlwinError
from runtime.frames.scan_counts import StatementScanCounts
from runtime.spark.jobs import STATEMENT_TAG

# So many statements are kept
_MOST_STATEMENTS = 200
# Of so many of them the plans too, which may hold tables of theirs
_MOST_PLANS = 50
_SESSIONS = count(1)


class StatementState(StrEnum):
    """How far a statement is."""

    RUNNING = "running"
    # a query: nothing runs before its rows are asked for
    PLANNED = "planned"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True)
class TimeSpan:
    """A piece of time.

    Attributes:
        name: what it was spent on.
        begun: when it began, in seconds since 1970.
        ended: when it was over; None: it is not.
    """

    name: str
    begun: float
    ended: float | None = None


@dataclass(frozen=True)
class StatementRecord:
    """What a statement did until now.

    Attributes:
        number: its number in the session.
        text: what was written; what looks secret is in it.
        begun: when it began, in seconds since 1970.
        tag: what the Spark jobs carry that run for it.
        state: how far it is.
        ended: when it was over, or was over the last time, if its rows were asked for again.
        kind: the kind of its result, as `Result.kind`.
        message: what it said in the end, or what it failed with; what looks secret is in it.
        n_rows: how many rows it wrote or gave, if known.
        spans: what its time was spent on.
        streams: the numbers of the streams that it started.
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


# A block in which Spark's jobs carry a tag, and the text of a statement
Marking = Callable[[str, str], AbstractContextManager[None]]


@dataclass(eq=False)
class StatementRun:
    """A statement that runs or ran.

    Attributes:
        record: what it did until now; replaced, never changed.
        plans: its plans, as long as they are kept.
        document: what EXPLAIN gave, if it was that.
        scan_counts: where rows are counted that its scans read.
    """

    record: StatementRecord
    marking: Marking
    plans: list[Plan] = field(default_factory=list)
    document: dict[str, Any] | None = None
    scan_counts: StatementScanCounts | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def over(self, kind: str, message: str, n_rows: int | None) -> None:
        """It was carried out; of a query the rows are still to be asked for."""
        state = StatementState.PLANNED if kind == "query" else StatementState.DONE
        self._change(
            lambda record, now: replace(
                record, kind=kind, message=message, n_rows=n_rows, state=state, ended=now
            )
        )

    def started(self, stream: int) -> None:
        """It has started a stream."""
        self._change(lambda record, _: replace(record, streams=(*record.streams, stream)))

    def planned(self, plan: Plan) -> None:
        """It was planned, or a part of it was; what is planned again replaces what was."""
        if plan.sql in self.record.text:
            self.plans = [*(each for each in self.plans if each.sql != plan.sql), plan]

    def failed(self, error: BaseException) -> None:
        """It failed, or was cancelled."""
        said = error.message if isinstance(error, SqlwinError) else str(error)
        message = "interrupted" if isinstance(error, KeyboardInterrupt) else said
        message = message or type(error).__name__
        self._change(
            lambda record, now: replace(
                record, state=StatementState.FAILED, message=message, ended=now
            )
        )

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """A block on which some of its time is spent; one right after another makes it longer."""
        now = time.time()
        self._change(lambda record, _: replace(record, spans=_opened(record.spans, name, now)))
        try:
            yield
        finally:
            self._change(
                lambda record, now: replace(record, spans=_closed(record.spans, name, now))
            )

    def computed(self, action: Callable[[], Any], *, has_jobs: bool = True) -> Any:
        """What an action gives that computes rows of it; its Spark jobs are the statement's.

        Args:
            action: computes rows.
            has_jobs: whether it may start jobs: to mark them takes a dozen calls of the JVM.

        Raises:
            Exception: what the action raises; the record says so.
        """
        self._change(lambda record, _: replace(record, state=StatementState.RUNNING))
        try:
            marked = self.marking(self.record.tag, self.record.text) if has_jobs else nullcontext()
            with marked, self.span("computing rows"):
                found = action()
        except BaseException as error:
            self.failed(error)
            raise
        n_rows = None
        if isinstance(found, pa.Table):
            n_rows = found.num_rows
        elif isinstance(found, list):
            n_rows = len(found)
        self._change(
            lambda record, now: replace(
                record,
                state=StatementState.DONE,
                ended=now,
                n_rows=record.n_rows if n_rows is None else n_rows,
            )
        )
        return found

    def _change(self, changed: Callable[[StatementRecord, float], StatementRecord]) -> None:
        with self._lock:
            self.record = changed(self.record, time.time())


def _opened(spans: tuple[TimeSpan, ...], name: str, now: float) -> tuple[TimeSpan, ...]:
    if spans and spans[-1].name == name:
        return (*spans[:-1], TimeSpan(name, spans[-1].begun))
    return (*spans, TimeSpan(name, now))


def _closed(spans: tuple[TimeSpan, ...], name: str, now: float) -> tuple[TimeSpan, ...]:
    return tuple(
        replace(span, ended=now) if span.name == name and span.ended is None else span
        for span in spans
    )


class Activity:
    """The statements of a session, the last ones.

    Attributes:
        session: the number of the session in this process.
        begun: when the session began, in seconds since 1970.
        start_seconds: how long its making took, Spark's start in it.
    """

    def __init__(self, marking: Marking) -> None:
        self.session = next(_SESSIONS)
        self.begun = time.time()
        self.start_seconds = 0.0
        self._marking = marking
        self._numbers = count(1)
        self._runs: deque[StatementRun] = deque(maxlen=_MOST_STATEMENTS)

    def opened(self, begun: float | None) -> None:
        """The session is made; `begun` is when its making began, if that is known."""
        if begun is not None:
            self.begun = begun
            self.start_seconds = time.time() - begun

    def begin(self, text: str) -> StatementRun:
        """A statement begins."""
        number = next(self._numbers)
        tag = f"{STATEMENT_TAG}{self.session}-{number}"
        run = StatementRun(StatementRecord(number, text, time.time(), tag), self._marking)
        self._runs.append(run)
        if len(self._runs) > _MOST_PLANS:
            self._runs[-_MOST_PLANS - 1].plans.clear()
        return run

    def runs(self) -> list[StatementRun]:
        """The statements, oldest first."""
        while True:
            try:
                return list(self._runs)
            except RuntimeError:  # one was added meanwhile
                continue

    def find(self, number: int) -> StatementRun | None:
        """The statement of a number, if it is still kept."""
        return next((run for run in self.runs() if run.record.number == number), None)
