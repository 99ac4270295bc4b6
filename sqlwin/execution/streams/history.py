"""History of a stream's latest micro-batches, filled from Spark's reports.

A thread polls the latest report, because PySpark's listeners read each report field by field, with
some 750 calls to Java per micro-batch. Spark keeps the last hundred reports, which covers reports
that the thread missed.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from runtime.frames.heartbeat import is_heartbeat
from runtime.frames.reports import BatchReport, SourceReport, last_report, recent_reports
from runtime.sinks.stream_sinks import StreamRun
from runtime.streaming.source_reads import rows_read
from runtime.streaming.status import (
    StreamStatus,
    Tally,
    arrival_rate,
    seconds_of,
    stream_status,
)

_POLL_SECONDS = 0.5
# Latest micro-batches whose pace tells how long the rest takes
_PACE_BATCHES = 10
# Points in charts: half an hour of a stream with one micro-batch per second
_MAX_POINTS = 1_800
# Spark's names of a micro-batch's phases, and readable names
PHASES = {
    "addBatch": "computing",
    "queryPlanning": "planning",
    "latestOffset": "looking for input",
    "getBatch": "looking for input",
    "getOffset": "looking for input",
    "walCommit": "writing the log",
    "commitOffsets": "writing the log",
    "commitBatch": "writing the log",
}


@dataclass(frozen=True)
class BatchPoint:
    """A micro-batch and the stream's figures after it.

    Attributes:
        batch: Number of the micro-batch.
        at: End, in seconds since 1970.
        seconds: Duration.
        phases: Seconds per phase.
        rows_in: Rows read.
        rows_out: Rows written so far in this run. None if the sink does not count them.
        late: Late rows so far in this run.
        without_time: Rows without a time so far in this run.
        state_rows: Partials in state.
        state_bytes: Size of the partials.
        watermark_us: Watermark of the operator that is furthest behind.
    """

    batch: int
    at: float
    seconds: float
    phases: Mapping[str, float]
    rows_in: int
    rows_out: int | None
    late: int
    without_time: int
    state_rows: int
    state_bytes: int
    watermark_us: int | None


@dataclass(frozen=True)
class Totals:
    """Sums over all micro-batches of a run.

    Attributes:
        rows_in: Rows read.
        batches: Number of micro-batches.
        seconds: Total duration.
        phases: Seconds per phase.
    """

    rows_in: int = 0
    batches: int = 0
    seconds: float = 0.0
    phases: Mapping[str, float] = field(default_factory=dict)


class History:
    """Latest micro-batches of a run, and sums over all of them.

    Args:
        source_names: Source names per window operator.
        run: Start parameters of the stream, and the number of rows written.
        tally: Counts over the run, which receive every report too.
        end_of_input: Directory of the source that signals the end of input.
    """

    def __init__(
        self,
        source_names: Sequence[Sequence[str]],
        run: StreamRun,
        tally: Tally,
        end_of_input: str,
    ) -> None:
        self._end_of_input = end_of_input
        self._source_names = source_names
        self._run = run
        self._tally = tally
        self._lock = threading.Lock()
        self._points: deque[BatchPoint] = deque(maxlen=_MAX_POINTS)
        self._totals = Totals()
        self._status = StreamStatus()
        self._sources: tuple[SourceReport, ...] = ()

    def take(self, report: BatchReport) -> None:
        """Add a report. Duplicates are ignored."""
        self._tally.take(report)
        status = self.status_of([report])
        batch = report.batch
        with self._lock:
            # The report of an idle trigger lists no operators, so keep the previous ones.
            if not status.operators and self._status.operators:
                status = replace(status, operators=self._status.operators)
            self._status = status
            is_recorded = bool(self._points) and self._points[-1].batch >= batch
            if is_recorded or not report.has_run:
                return
            phases = phases_of(report)
            rows_in = rows_read(report, self._run.reads, self.is_own)
            operators = status.operators
            self._sources = tuple(s for s in report.sources if not self.is_own(s))
            watermarks = [o.watermark_us for o in operators if o.watermark_us is not None]
            self._points.append(
                BatchPoint(
                    batch,
                    seconds_of(report.timestamp) + status.batch_seconds,
                    status.batch_seconds,
                    phases,
                    rows_in,
                    self._run.n_rows,
                    sum(operator.n_late for operator in operators),
                    sum(operator.n_null_times for operator in operators),
                    sum(operator.n_rows for operator in operators),
                    sum(operator.n_bytes for operator in operators),
                    min(watermarks, default=None),
                )
            )
            before = self._totals
            words = {*before.phases, *phases}
            self._totals = Totals(
                before.rows_in + rows_in,
                before.batches + 1,
                before.seconds + status.batch_seconds,
                {word: before.phases.get(word, 0.0) + phases.get(word, 0.0) for word in words},
            )

    def pull(self, query: StreamingQuery) -> None:
        """Add the reports of a query that are newer than the last one."""
        last = last_report(query)
        if last is None:
            return
        with self._lock:
            newest = self._points[-1].batch if self._points else -1
        has_missed_some = last.batch > newest + 1
        for report in recent_reports(query) if has_missed_some else [last]:
            self.take(report)

    def follow(self, query: StreamingQuery, every_s: float = _POLL_SECONDS) -> None:
        """Add a query's reports, every few tenths of a second until the query ends."""
        # Spark may end before the query does
        with contextlib.suppress(PySparkException, Py4JError, OSError):
            while query.isActive:
                self.pull(query)
                time.sleep(every_s)
            self.pull(query)

    def pull_last(self, query: StreamingQuery) -> None:
        """Add the reports of a query that is over, unless Spark has ended too."""
        with contextlib.suppress(PySparkException, Py4JError, OSError):
            self.pull(query)

    def status_of(self, reports: Sequence[BatchReport]) -> StreamStatus:
        """Return the stream's status after the last report."""
        return stream_status(
            reports, self._source_names, self._tally, self._run.reads, self._run.incomplete
        )

    def is_own(self, source: SourceReport) -> bool:
        """Return whether a source carries only control messages."""
        return self._end_of_input in source.description or is_heartbeat(source)

    def seen(self) -> tuple[StreamStatus, Totals, tuple[BatchPoint, ...]]:
        """Return the status, the sums and the latest micro-batches, oldest first."""
        with self._lock:
            points = tuple(self._points)
            batches = [(point.at - point.seconds, point.seconds, point.rows_in) for point in points]
            rate = arrival_rate(batches, time.time())
            return replace(self._status, rows_per_second=rate), self._totals, points

    def history_left(self) -> tuple[int, int, float] | None:
        """Return how far a stream is in the first part of a hybrid table, or None outside of one.

        Returns:
            Number of ranges read, number of all, and the seconds that the others will take at the
            pace of the latest micro-batches.
        """
        points, sources = self.batches_after(-1)
        for source in sources:
            try:
                offset = json.loads(source.end_offset or "null")
            except ValueError:
                continue  # sources of other packages may have offsets that are not JSON
            if isinstance(offset, dict) and {"first", "of"} == offset.keys():
                latest = [point.seconds for point in points[-_PACE_BATCHES:]]
                seconds = sum(latest) / len(latest) if latest else 0.0
                n_left = offset["of"] - offset["first"]
                return (offset["first"], offset["of"], n_left * seconds) if n_left else None
        return None

    def batches_after(self, batch: int) -> tuple[tuple[BatchPoint, ...], tuple[SourceReport, ...]]:
        """Return the micro-batches after number `batch`, and the sources as of the last one.

        Sources that carry only control messages are left out.
        """
        with self._lock:
            return tuple(point for point in self._points if point.batch > batch), self._sources


def phases_of(report: BatchReport) -> dict[str, float]:
    """Return the seconds of a micro-batch per phase."""
    phases: dict[str, float] = {}
    for name, word in PHASES.items():
        if name in report.durations_ms:
            phases[word] = phases.get(word, 0.0) + report.durations_ms[name] / 1_000
    return phases
