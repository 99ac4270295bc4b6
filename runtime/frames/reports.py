"""Spark's reports of micro-batches, decoded: times, sources, and what sqlwin observes.

Spark's reports are nested mappings. This module alone knows their names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

# Prefix of the metric of a window operator; the operator's number follows
WINDOW_METRIC = "sqlwin.window."
# Prefix of the row count of an operator; its label follows
ROWS_METRIC = "sqlwin.rows."
# Prefix of the rows that a stage reads itself; operator number and table follow
READ_METRIC = "sqlwin.read."


@dataclass(frozen=True)
class SourceReport:
    """Progress of one of Spark's sources in a micro-batch.

    Attributes:
        description: Spark's description.
        n_rows: Number of rows, each time that the source is read.
        has_moved: Whether its offset changed in the micro-batch.
        end_offset: Offset after the micro-batch, as JSON. Empty before the first row.
    """

    description: str
    n_rows: float
    has_moved: bool
    end_offset: str = ""


@dataclass(frozen=True)
class WindowReport:
    """Report of a window operator at the end of a micro-batch. Times are in microseconds.

    Attributes:
        watermark_us: Watermark. None before the first row.
        has_ended: Whether its input has ended.
        sources: (watermark, whether it is idle) of each source.
        n_late: Rows dropped because all their windows were closed.
        n_null_times: Rows dropped because their time is NULL.
        n_rows: Partials in state. None if unknown.
        n_bytes: Size of the partials.
        next_window_end_us: End of the next window that waits for the watermark, or None.
        closed_us: Windows that end at or before this accept no more rows. None if none is closed.
        follows_clock: Whether the watermark advances with the clock, because all sources are
            silent.
    """

    watermark_us: int | None = None
    has_ended: bool = False
    sources: tuple[tuple[int | None, bool], ...] = ()
    n_late: int = 0
    n_null_times: int = 0
    n_rows: int | None = None
    n_bytes: int = 0
    next_window_end_us: int | None = None
    closed_us: int | None = None
    follows_clock: bool = False


@dataclass(frozen=True)
class BatchReport:
    """Report of a micro-batch, or of an idle trigger.

    Attributes:
        batch: Number of the micro-batch.
        timestamp: Start, as Spark writes it: `2026-01-31T08:05:00.123Z`.
        n_input_rows: Rows that it read, as Spark counts them.
        durations_ms: Duration of each of Spark's phases, in milliseconds.
        sources: Sources, in Spark's order.
        commit_ms: Duration of committing state, in milliseconds.
        windows: Window operators that reported, by number.
        row_counts: Row counts of operators, by label.
        rows_read: Rows that stages read themselves, by `number.table`.
    """

    batch: int
    timestamp: str = ""
    n_input_rows: float = 0
    durations_ms: Mapping[str, int] = field(default_factory=dict)
    sources: tuple[SourceReport, ...] = ()
    commit_ms: int = 0
    windows: Mapping[int, WindowReport] = field(default_factory=dict)
    row_counts: Mapping[str, int] = field(default_factory=dict)
    rows_read: Mapping[str, int] = field(default_factory=dict)

    @property
    def has_run(self) -> bool:
        """Whether it is of a micro-batch. Reports of idle triggers lack a phase."""
        return "addBatch" in self.durations_ms

    @property
    def seconds(self) -> float:
        """Duration of the micro-batch."""
        return self.durations_ms.get("triggerExecution", 0) / 1_000


def recent_reports(query: StreamingQuery) -> list[BatchReport]:
    """Return the last reports of a query, oldest first. Spark keeps a hundred."""
    return [report_of(progress) for progress in query.recentProgress]


def last_report(query: StreamingQuery) -> BatchReport | None:
    """Return the last report of a query, or None before the first."""
    progress = query.lastProgress
    return None if progress is None else report_of(progress)


def report_of(progress: Mapping[str, Any]) -> BatchReport:
    """Decode a report of Spark. Missing fields are 0 or empty."""
    metrics = {
        name: row.asDict(recursive=True) if hasattr(row, "asDict") else dict(row)
        for name, row in (progress.get("observedMetrics") or {}).items()
        if name.startswith((WINDOW_METRIC, ROWS_METRIC, READ_METRIC))
    }
    durations = progress.get("durationMs") or {}
    operators = progress.get("stateOperators") or ()
    return BatchReport(
        int(progress.get("batchId") or 0),
        str(progress.get("timestamp") or ""),
        float(progress.get("numInputRows") or 0),
        {name: int(duration) for name, duration in durations.items()},
        tuple(map(_source, progress.get("sources") or ())),
        sum(int(operator["commitTimeMs"] or 0) for operator in operators),
        {int(name): _window(fields) for name, fields in _below(WINDOW_METRIC, metrics)},
        {label: int(fields["rows"] or 0) for label, fields in _below(ROWS_METRIC, metrics)},
        {name: int(fields["rows"] or 0) for name, fields in _below(READ_METRIC, metrics)},
    )


def _below(prefix: str, metrics: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the metrics with a prefix, without it."""
    named = (item for item in metrics.items() if item[0].startswith(prefix))
    return [(name.removeprefix(prefix), fields) for name, fields in named]


def _source(fields: Mapping[str, Any]) -> SourceReport:
    end = fields.get("endOffset")
    return SourceReport(
        str(fields.get("description") or ""),
        float(fields.get("numInputRows") or 0),
        fields.get("startOffset") != end,
        # Spark's JSON has the offset as an object, PySpark's classes as text
        end if isinstance(end, str) else "" if end is None else json.dumps(end),
    )


def _window(fields: Mapping[str, Any]) -> WindowReport:
    sources = fields.get("sources") or ()
    return WindowReport(
        fields.get("watermark_us"),
        bool(fields.get("has_ended")),
        tuple((source["watermark_us"], bool(source["is_idle"])) for source in sources),
        fields.get("n_late") or 0,
        fields.get("n_null_times") or 0,
        fields.get("n_rows"),
        fields.get("n_bytes") or 0,
        fields.get("next_window_end_us"),
        fields.get("closed_us"),
        bool(fields.get("follows_clock")),
    )
