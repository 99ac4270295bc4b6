"""EXPLAIN ANALYZE of a stream: it runs for a while, and its figures go into its document.

Rows are counted where they pass: in the local stages and window operators by their own code, at
other operators by metrics that come with Spark's reports of micro-batches. So the figures are
those of the micro-batches that were done when the stream was stopped.
"""

from __future__ import annotations

import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

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
from runtime.local.streaming.progress import SOURCE_ROWS
from runtime.spark.session import forget_connection
from runtime.streaming.source_reads import rows_read
from runtime.streaming.status import OperatorStatus, counted_rows, state_sizes
from sqlwin.execution.analyze import physical_tree, run_figures, with_analysis
from sqlwin.execution.streams.handle import Stream, apart
from sqlwin.execution.streams.history import phases_of

_POLL_SECONDS = 0.2


def analyzed_stream(
    query: QueryDocument,
    spark: SparkSession,
    stream: Stream | str,
    meter: Meter,
    seconds: float | None,
    take_interrupt: Callable[[], bool],
) -> QueryDocument:
    """The document of a streaming query with the figures of a run.

    Ctrl-C ends the run, and the figures are those up to then.

    Args:
        query: the document, as `planner.explain.build.query_document` made it.
        spark: the session.
        stream: the stream, which runs already; a text if there is nothing to run.
        meter: what counts in it.
        seconds: for how long it runs if its input does not end; None: until Ctrl-C.
        take_interrupt: whether the user wants it to end, where that is no KeyboardInterrupt.

    Raises:
        SqlwinError: it fails, or there is nothing to run.
    """
    if isinstance(stream, str):
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
    """Let a stream run; what ended it."""
    until = None if seconds is None else time.monotonic() + seconds
    try:
        while not stream.wait(_POLL_SECONDS):
            reports.take(stream)
            if take_interrupt():
                return "interrupt"
            # one micro-batch at least: the first one takes longer than any other
            if until is not None and time.monotonic() >= until and reports.batches:
                return "time"
    except KeyboardInterrupt as interrupt:
        if getattr(interrupt, "number", signal.SIGINT) != signal.SIGINT:
            raise  # a signal to end the process
        return "interrupt"
    return "input"


@dataclass(frozen=True)
class _Batch:
    """A micro-batch: rows read, seconds, and by operator rows and (partials, bytes) of state."""

    n_rows: int
    seconds: float
    phases: Mapping[str, float]
    counted: Mapping[str, int]
    state: list[tuple[int, int] | None]
    commit_seconds: float


@dataclass
class _Reports:
    """Spark's reports of micro-batches, of which it keeps the last hundred itself."""

    n_operators: int
    batches: dict[int, _Batch] = field(default_factory=dict)

    def take(self, stream: Stream) -> None:
        """Add what is new."""
        for progress in stream.query.recentProgress:
            number = int(progress["batchId"])
            # others report that nothing was to be done
            if "addBatch" in progress["durationMs"] and number not in self.batches:
                self.batches[number] = self._batch(progress, stream)

    def _batch(self, progress: Mapping[str, Any], stream: Stream) -> _Batch:
        is_own = stream.history.is_own
        return _Batch(
            rows_read(progress, stream.run.reads, is_own),
            progress["durationMs"].get("triggerExecution", 0) / 1_000,
            phases_of(progress),
            counted_rows(progress),
            state_sizes(progress, self.n_operators),
            sum(int(s["commitTimeMs"] or 0) for s in progress["stateOperators"]) / 1_000,
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
    found = run_figures(spark, tree, measured, seconds)
    return with_analysis(
        query,
        replace(
            found,
            rows_out=stream.run.n_rows if found.rows_out is None else found.rows_out,
            stream=StreamAnalysis(
                ended,
                _rows_in(found.operators, tree, batches),
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
    """What was counted by id of the operator, with the rows that only micro-batches report."""
    found = {label: each for label, each in measured.items() if label}
    counted: Counter[str] = Counter()
    for batch in batches:
        counted.update(batch.counted)
    for label, n_rows in counted.items():
        # tasks also count rows that only carry a watermark, and those of a micro-batch cut short
        found[label] = replace(found.get(label, Measured()), rows_out=n_rows)
    for label, each in measured.items():
        if label not in operators or not operators[label].inputs:
            continue
        below = operators[label].inputs[0]
        if operators[label].name.startswith("Local"):
            _add_scans(found, label, each, operators)
            # all rows that the operator below emits go into the partials
            if found.get(below, Measured()).rows_out is None:
                found[below] = Measured(rows_out=each.rows_in)
        kept = {k: v for k, v in each.counters.items() if not k.startswith(SOURCE_ROWS)}
        found[label] = replace(found[label], counters=kept)
    return found


def _add_scans(
    found: dict[str, Measured], label: str, local: Measured, operators: Mapping[str, OperatorEntry]
) -> None:
    """Rows of the tables below a local stage, where they are as many as its sources."""
    scans = _scans_below(label, operators)
    by_number = {
        int(name.removeprefix(SOURCE_ROWS)): n_rows
        for name, n_rows in local.counters.items()
        if name.startswith(SOURCE_ROWS)
    }
    rows = [n_rows for _, n_rows in sorted(by_number.items())]
    if len(scans) == 1:
        found[scans[0]] = Measured(rows_out=sum(rows))
    elif len(scans) == len(rows):
        for scan, n_rows in zip(scans, rows, strict=True):
            found[scan] = Measured(rows_out=n_rows)


def _scans_below(label: str, operators: Mapping[str, OperatorEntry]) -> list[str]:
    """Tables that a local stage reads with no other window operator in between."""
    found: list[str] = []
    for below in operators[label].inputs:
        name = operators[below].name
        if name == "TableSourceScan":
            found.append(below)
        elif not name.startswith("Global"):
            found += _scans_below(below, operators)
    return found


def _rows_in(found: Mapping[str, Figures], tree: Tree, batches: list[_Batch]) -> int:
    """Rows that the tables gave."""
    scans = [found[each.id].rows_out for each in tree.operators if each.name == "TableSourceScan"]
    known = [n_rows for n_rows in scans if n_rows is not None]
    if scans and len(known) == len(scans):
        return sum(known)
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
