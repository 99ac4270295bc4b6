"""Data model of the web page, `/api/state` and `/metrics`.

Times are in seconds since 1970, fields ending in `_us` in microseconds of event time. Secrets are
masked.
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
    """Progress of a source of a window operator.

    Attributes:
        name: Name of the table.
        watermark_us: Watermark. None before the first row and after the end of input.
        watermark: Watermark as text.
        lag_seconds: Seconds behind processing time. None without a watermark.
        is_idle: Whether it is idle, so that the watermark does not wait for it.
        is_done: Whether its input has ended.
        holds_back: Whether the operator's watermark waits for it.
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
    """Status of a window operator, with the fields of a source and of `OperatorStatus`."""

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
    follows_clock: bool


@dataclass(frozen=True)
class LatestView:
    """Rows emitted last into a table, latest windows first.

    Attributes:
        into: Name of the table. Empty: the caller who requested the rows.
        columns: Names of the columns.
        numeric: For each column, whether it holds numbers.
        rows: Values as text. None is NULL.
        query: Query of the rows, for EXPLAIN ROW. Empty: it is not known.
        compared: For each column that EXPLAIN ROW compares, its name in the query, and how its
            values are written: `number`, `text`, or the type before a text. None for others, such
            as sums of DOUBLE, which differ from run to run.
    """

    into: str
    columns: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[str | None, ...], ...]
    query: str = ""
    compared: tuple[tuple[str, str] | None, ...] = ()


@dataclass(frozen=True)
class StreamView:
    """A stream.

    Attributes:
        session: Number of its session in this process.
        number: Number of the stream in the session.
        name: Name of the stream.
        statement: Text of the statement.
        state: `running`, `ended`, `stopped` or `failed`.
        into: Description of the sink.
        begun: Start.
        batch: Number of the last micro-batch. None before the first is done.
        batch_seconds: Duration of the last micro-batch.
        rows_per_second: Rows per second over the last minute.
        rows_in: Rows read in this run.
        rows_out: Rows written in this run. None if the sink does not count them.
        late: Late rows in this run.
        without_time: Rows without a time in this run.
        late_table: Table that receives late rows. None: they are dropped.
        batches: Micro-batches of this run.
        busy_seconds: Total duration of the micro-batches.
        phases: Seconds per phase.
        waits_for: Why nothing is emitted, the error, or how to resume.
        operators: Window operators, in the order of the data flow.
        points: Latest micro-batches, oldest first.
        latest: Rows emitted last.
        latest_problem: Why the latest rows cannot be shown, or "".
        checkpoint: Path of the checkpoint. Empty: the stream cannot be resumed.
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
        """Rows dropped in this run."""
        return self.without_time + (self.late if self.late_table is None else 0)


@dataclass(frozen=True)
class StatementView:
    """A statement.

    Attributes:
        session: Number of its session in this process.
        number: Number of the statement in the session.
        text: Text of the statement.
        state: `running`, `planned` (its rows were not requested), `done` or `failed`.
        kind: Kind of its result.
        message: Final message or error.
        begun: Start.
        ended: End. None: still running.
        rows: Rows written or returned, if known.
        rows_read: Rows read by its scans, as far as sqlwin counts them.
        streams: Numbers of the streams that it started.
        spans: Parts of its run time outside Spark's stages.
        stages: Its Spark stages. Empty for old statements, and for streams.
        has_plan: Whether there is a page with its plan.
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
        number: Number of the session in this process.
        begun: Time of the `connect` call.
        start_seconds: Time to create the session, including Spark's start.
        spark: Version and master of Spark.
        spark_ui: Address of Spark's own UI, or None if it is off.
    """

    number: int
    begun: float
    start_seconds: float
    spark: str
    spark_ui: str | None


@dataclass(frozen=True)
class ActivitySnapshot:
    """State of all sessions at one moment.

    Attributes:
        at: Time of the snapshot.
        sessions: Sessions that are shown.
        streams: Their streams, running ones first.
        statements: Their statements, latest first.
        is_over: Whether everything has ended and no other snapshot follows.
        version: Version of this format.
    """

    at: float
    sessions: tuple[SessionView, ...]
    streams: tuple[StreamView, ...]
    statements: tuple[StatementView, ...]
    is_over: bool = False
    version: int = VERSION


def to_json(value: object) -> Any:
    """Convert a part of the model to values that `json` can write."""
    if is_dataclass(value):
        return {item.name: to_json(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float) and not isfinite(value):
        return None
    return value
