"""EXPLAIN ANALYZE of a stream: run it for a while and add the figures to its document.

Local stages and window operators count their rows themselves. Other operators report metrics with
Spark's progress reports of micro-batches. The figures cover the micro-batches completed when the
stream was stopped.
"""

from __future__ import annotations

import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession

from planner.explain.document import (
    Figures,
    MicroBatches,
    OperatorEntry,
    QueryDocument,
    SourceEntry,
    StreamAnalysis,
    StreamEnd,
    Tree,
    WindowOperatorEntry,
)
from runtime.errors import ExecutionError
from runtime.frames.meter import Measured, Meter
from runtime.frames.reports import BatchReport, recent_reports
from runtime.local.streaming.progress import SOURCE_ROWS
from runtime.refusal import Refusal
from runtime.spark.session import forget_connection
from runtime.streaming.source_reads import rows_read
from runtime.streaming.status import OperatorStatus, state_sizes
from sqlwin.execution.analyze import physical_tree, run_figures, with_analysis
from sqlwin.execution.streams.handle import Stream, apart
from sqlwin.execution.streams.history import phases_of

_POLL_SECONDS = 0.2


def analyzed_stream(
    query: QueryDocument,
    spark: SparkSession,
    stream: Stream | Refusal,
    meter: Meter,
    seconds: float | None,
    take_interrupt: Callable[[], bool],
) -> QueryDocument:
    """Return the document of a streaming query with measurements.

    Ctrl-C ends the run and keeps the figures so far.

    Args:
        query: Document from `planner.explain.build.query_document`.
        spark: Spark session.
        stream: Running stream, or why there is nothing to run.
        meter: Meter of the stream.
        seconds: Run time if the input does not end. None: until Ctrl-C.
        take_interrupt: Returns whether the user wants it to end, where Ctrl-C raises no
            KeyboardInterrupt.

    Raises:
        SqlwinError: The stream fails, or there is nothing to run.
    """
    if isinstance(stream, Refusal):
        raise ExecutionError(
            f"EXPLAIN ANALYZE has nothing to run: {stream}",
            hint="SET 'execution.checkpointing.dir' to another directory, or RESET it",
        )
    reports = _Reports(len(stream.setup.source_names))
    begun = time.perf_counter()
    try:
        ended = _run(stream, reports, None if stream.setup.is_bounded else seconds, take_interrupt)
        took = time.perf_counter() - begun
        if ended == "interrupt":
            forget_connection(spark)
    finally:
        stream.stop()
    return apart(lambda: _document(query, spark, stream, meter, reports, (ended, took)))


def _run(
    stream: Stream,
    reports: _Reports,
    seconds: float | None,
    take_interrupt: Callable[[], bool],
) -> StreamEnd:
    """Run a stream and return why it ended."""
    until = None if seconds is None else time.monotonic() + seconds
    try:
        while not stream.wait(_POLL_SECONDS):
            reports.take(stream)
            if take_interrupt():
                return "interrupt"
            # at least one micro-batch, because the first takes longest
            if until is not None and time.monotonic() >= until and reports.batches:
                return "time"
    except KeyboardInterrupt as interrupt:
        if getattr(interrupt, "number", signal.SIGINT) != signal.SIGINT:
            raise  # a signal to end the process
        return "interrupt"
    return "input"


@dataclass(frozen=True)
class _Batch:
    """Micro-batch: rows read, seconds, and per operator the rows and (partials, bytes) of state."""

    n_rows: int
    seconds: float
    phases: Mapping[str, float]
    row_counts: Mapping[str, int]
    state: list[tuple[int, int] | None]
    commit_seconds: float


@dataclass
class _Reports:
    """Spark's progress reports. Spark itself keeps only the last hundred."""

    n_operators: int
    batches: dict[int, _Batch] = field(default_factory=dict)

    def take(self, stream: Stream) -> None:
        """Add the new reports."""
        for report in recent_reports(stream.query):
            if report.has_run and report.batch not in self.batches:
                self.batches[report.batch] = self._batch(report, stream)

    def _batch(self, report: BatchReport, stream: Stream) -> _Batch:
        is_own = stream.history.is_own
        return _Batch(
            rows_read(report, stream.run.reads, is_own),
            report.seconds,
            phases_of(report),
            report.row_counts,
            state_sizes(report, self.n_operators),
            report.commit_ms / 1_000,
        )


def _document(
    query: QueryDocument,
    spark: SparkSession,
    stream: Stream,
    meter: Meter,
    reports: _Reports,
    end: tuple[StreamEnd, float],
) -> QueryDocument:
    reports.take(stream)
    ended, seconds = end
    batches = list(reports.batches.values())
    tree = physical_tree(query)
    measured = _measured(meter.results(), batches, tree.by_id)
    figures = run_figures(spark, tree, measured, seconds)
    return with_analysis(
        query,
        replace(
            figures,
            rows_out=stream.run.n_rows if figures.rows_out is None else figures.rows_out,
            stream=StreamAnalysis(
                ended,
                _rows_in(figures.operators, tree, batches),
                _micro_batches(batches),
                tuple(
                    _window_operator(number, status, batches)
                    for number, status in enumerate(stream.status().operators)
                ),
            ),
        ),
    )


def _measured(
    measured: dict[str, Measured], batches: list[_Batch], operators: Mapping[str, OperatorEntry]
) -> dict[str, Measured]:
    """Return measurements by operator id, with row counts that only micro-batches report."""
    by_operator = {label: operator_figures for label, operator_figures in measured.items() if label}
    row_counts: Counter[str] = Counter()
    for batch in batches:
        row_counts.update(batch.row_counts)
    for label, n_rows in row_counts.items():
        # tasks also count rows that only carry a watermark, and rows of interrupted micro-batches
        by_operator[label] = replace(by_operator.get(label, Measured()), rows_out=n_rows)
    for label, operator_figures in measured.items():
        if label not in operators or not operators[label].inputs:
            continue
        below = operators[label].inputs[0]
        if operators[label].name.startswith("Local"):
            _add_scans(by_operator, label, operator_figures, operators)
            # The partials contain all rows that the operator below emits.
            if by_operator.get(below, Measured()).rows_out is None:
                by_operator[below] = Measured(rows_out=operator_figures.rows_in)
        counters = {
            k: v for k, v in operator_figures.counters.items() if not k.startswith(SOURCE_ROWS)
        }
        by_operator[label] = replace(by_operator[label], counters=counters)
    return by_operator


def _add_scans(
    by_operator: dict[str, Measured],
    label: str,
    local: Measured,
    operators: Mapping[str, OperatorEntry],
) -> None:
    """Add the row counts of the tables below a local stage if they match its sources."""
    scans = _scans_below(label, operators)
    by_number = {
        int(name.removeprefix(SOURCE_ROWS)): n_rows
        for name, n_rows in local.counters.items()
        if name.startswith(SOURCE_ROWS)
    }
    rows = [n_rows for _, n_rows in sorted(by_number.items())]
    if len(scans) == 1:
        by_operator[scans[0]] = Measured(rows_out=sum(rows))
    elif len(scans) == len(rows):
        for scan, n_rows in zip(scans, rows, strict=True):
            by_operator[scan] = Measured(rows_out=n_rows)


def _scans_below(label: str, operators: Mapping[str, OperatorEntry]) -> list[str]:
    """Return the tables that a local stage reads without a window operator in between."""
    scans: list[str] = []
    for below in operators[label].inputs:
        name = operators[below].name
        if name == "TableSourceScan":
            scans.append(below)
        elif not name.startswith("Global"):
            scans += _scans_below(below, operators)
    return scans


def _rows_in(by_name: Mapping[str, Figures], tree: Tree, batches: list[_Batch]) -> int:
    """Return the number of rows read from tables."""
    scans = [
        by_name[operator.id].rows_out
        for operator in tree.operators
        if operator.name == "TableSourceScan"
    ]
    row_counts = [n_rows for n_rows in scans if n_rows is not None]
    if scans and len(row_counts) == len(scans):
        return sum(row_counts)
    return sum(batch.n_rows for batch in batches)


def _micro_batches(batches: list[_Batch]) -> MicroBatches:
    seconds = [batch.seconds for batch in batches]
    phases: dict[str, float] = {}
    for batch in batches:
        for name, spent in batch.phases.items():
            phases[name] = phases.get(name, 0.0) + spent
    return MicroBatches(
        len(batches),
        sum(seconds),
        statistics.median(seconds) if seconds else None,
        max(seconds, default=None),
        phases,
        sum(batch.commit_seconds for batch in batches),
    )


def _window_operator(
    number: int, status: OperatorStatus, batches: list[_Batch]
) -> WindowOperatorEntry:
    sizes = [size for batch in batches if (size := batch.state[number]) is not None]
    return WindowOperatorEntry(
        number,
        None if status.has_ended else status.watermark_us,
        status.has_ended,
        sources=tuple(
            SourceEntry(s.name, None if s.is_done else s.watermark_us, s.is_done, is_idle=s.is_idle)
            for s in status.sources
        ),
        late_rows=status.n_late,
        rows_without_time=status.n_null_times,
        state_rows=status.n_rows,
        state_bytes=status.n_bytes,
        most_state_rows=max((rows for rows, _ in sizes), default=0),
        most_state_bytes=max((n_bytes for _, n_bytes in sizes), default=0),
        next_window_end_us=status.next_window_end_us,
    )
