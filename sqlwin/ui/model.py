"""What runs in this process, as data: what the page, `/api/state` and `/metrics` are made from.

Times are seconds since 1970; `_us` are microseconds of event time. What looks secret is masked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from math import isfinite
from typing import Any

from runtime.spark.status import StageProgress
from sqlwin.execution.activity import TimeSpan
from sqlwin.execution.streams.history import BatchPoint

VERSION = 1


@dataclass(frozen=True)
class SourceView:
    """How far a source of a window operator has got.

    Attributes:
        name: the table.
        watermark_us: its watermark; None before its first row, and at the end of its input.
        watermark: the same as text.
        lag_seconds: how far it is behind processing time; None without a watermark.
        is_idle: whether it is left out because it has been silent.
        is_done: whether its input has ended.
        holds_back: whether the operator's watermark waits for it.
    """

    name: str
    watermark_us: int | None
    watermark: str
    lag_seconds: float | None
    is_idle: bool
    is_done: bool
    holds_back: bool


@dataclass(frozen=True)
class OperatorView:
    """How a window operator stands; the fields are those of a source and of `OperatorStatus`."""

    number: int
    watermark_us: int | None
    watermark: str
    lag_seconds: float | None
    sources: tuple[SourceView, ...]
    late: int
    without_time: int
    state_rows: int
    state_bytes: int
    next_window_end: str


@dataclass(frozen=True)
class LatestView:
    """The rows that were emitted last into a table, those of the latest windows first.

    Attributes:
        into: the table; empty: whoever asked for the rows.
        columns: the columns' names.
        numeric: for each column whether it holds numbers.
        rows: the values as text; None is NULL.
    """

    into: str
    columns: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True)
class StreamView:
    """A stream.

    Attributes:
        session: the number of its session in this process.
        number: its number in the session.
        name: the name it goes by.
        statement: its text.
        state: `running`, `ended`, `stopped` or `failed`.
        into: where its rows go.
        begun: when it was started.
        batch: the number of the last micro-batch; None before the first is done.
        batch_seconds: how long it took.
        rows_per_second: rows that arrived each second, over the last minute.
        rows_in: rows read in this run.
        rows_out: rows written in this run; None if the sink does not count them.
        late: rows in this run that came when all their windows had closed.
        without_time: rows in this run that have no time.
        late_table: the table that late rows go to; None: they are dropped.
        batches: micro-batches of this run.
        busy_seconds: how long they took.
        phases: seconds by what they were spent on.
        waits_for: why nothing is emitted, what it failed with, or how it goes on.
        operators: its window operators, in the order of the data's way.
        points: the last micro-batches, oldest first.
        latest: the rows emitted last.
        latest_problem: why they cannot be shown; empty if they can.
        checkpoint: where it keeps what it needs to resume; empty: it cannot be resumed.
    """

    session: int
    number: int
    name: str
    statement: str
    state: str
    into: str
    begun: float
    batch: int | None = None
    batch_seconds: float = 0.0
    rows_per_second: float = 0.0
    rows_in: int = 0
    rows_out: int | None = None
    late: int = 0
    without_time: int = 0
    late_table: str | None = None
    batches: int = 0
    busy_seconds: float = 0.0
    phases: Mapping[str, float] = field(default_factory=dict)
    waits_for: str = ""
    operators: tuple[OperatorView, ...] = ()
    points: tuple[BatchPoint, ...] = ()
    latest: tuple[LatestView, ...] = ()
    latest_problem: str = ""
    checkpoint: str = ""

    @property
    def dropped(self) -> int:
        """Rows in this run that went nowhere."""
        return self.without_time + (self.late if self.late_table is None else 0)


@dataclass(frozen=True)
class StatementView:
    """A statement.

    Attributes:
        session: the number of its session in this process.
        number: its number in the session.
        text: what was written.
        state: `running`, `planned` (its rows were not asked for), `done` or `failed`.
        kind: the kind of its result.
        message: what it said in the end, or what it failed with.
        begun: when it began.
        ended: when it was over; None: it is not.
        rows: how many rows it wrote or gave, if known.
        rows_read: rows that its scans have read, as far as sqlwin counts them.
        streams: the numbers of the streams that it started.
        spans: what its time was spent on, outside of Spark's stages.
        stages: Spark's stages of it; empty for those that lie back too far, and for streams.
        has_plan: whether there is a page with its plan.
    """

    session: int
    number: int
    text: str
    state: str
    kind: str
    message: str
    begun: float
    ended: float | None
    rows: int | None
    rows_read: int
    streams: tuple[int, ...]
    spans: tuple[TimeSpan, ...]
    stages: tuple[StageProgress, ...]
    has_plan: bool


@dataclass(frozen=True)
class SessionView:
    """A session.

    Attributes:
        number: its number in this process.
        begun: when its making began.
        start_seconds: how long that took, Spark's start in it.
        spark: Spark's version and master.
        spark_ui: the address of Spark's own UI; None where it is off.
    """

    number: int
    begun: float
    start_seconds: float
    spark: str
    spark_ui: str | None


@dataclass(frozen=True)
class ActivitySnapshot:
    """What runs at a moment, and what ran.

    Attributes:
        at: the moment.
        sessions: the sessions that are watched.
        streams: their streams, those that run first.
        statements: their statements, the latest first.
        is_over: whether all of it is over, so that nothing follows.
        version: of this format.
    """

    at: float
    sessions: tuple[SessionView, ...]
    streams: tuple[StreamView, ...]
    statements: tuple[StatementView, ...]
    is_over: bool = False
    version: int = VERSION


def to_json(value: object) -> Any:
    """A part of the model as values that `json` writes."""
    if is_dataclass(value):
        return {each.name: to_json(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(each) for each in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float) and not isfinite(value):
        return None
    return value
