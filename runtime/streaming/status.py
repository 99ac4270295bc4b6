"""Status of a running stream, from the reports of its operators and Spark.

At the end of each micro-batch a window operator emits one row per key group with its status in the
column STATUS. `report_status` turns these into a metric, which reaches the driver without an
additional job; `stream_status` reads it from the query's progress.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from runtime.frames.reports import WINDOW_METRIC, BatchReport, WindowReport
from runtime.spec.figures import count_text, seconds_text, wall_clock_text
from runtime.streaming.source_reads import rows_read

# Status column of a window operator's output. NULL in all rows but the last of each key group.
STATUS = "$status"
STATUS_DDL = (
    "struct<watermark_us: bigint, follows_clock: boolean, has_ended: boolean, "
    "sources: array<struct<watermark_us: bigint, is_idle: boolean>>, "
    "n_late: bigint, n_null_times: bigint, n_rows: bigint, n_bytes: bigint, "
    "next_window_end_us: bigint, closed_us: bigint>"
)
# Period over which the rate of rows is measured
_RATE_SECONDS = 60.0


@dataclass(frozen=True)
class SourceStatus:
    """Progress of a window operator's source.

    Attributes:
        name: Table.
        watermark_us: Watermark. None before the first row.
        is_idle: Whether it is ignored because it has been silent.
        is_done: Whether its input has ended.
    """

    name: str
    watermark_us: int | None
    is_idle: bool
    is_done: bool


@dataclass(frozen=True)
class OperatorStatus:
    """Status of a window operator after a micro-batch.

    Attributes:
        watermark_us: Watermark. None before the first row.
        has_ended: Whether its input has ended.
        sources: Sources.
        n_late: Rows dropped in this run because all their windows were closed.
        n_null_times: Rows dropped in this run because their time is NULL.
        n_rows: Partials in state.
        n_bytes: Size of the partials.
        next_window_end_us: End of the next window that waits for the watermark, or None.
        follows_clock: Whether the watermark advances with the clock, because all sources are
            silent.
    """

    watermark_us: int | None
    has_ended: bool
    sources: tuple[SourceStatus, ...]
    n_late: int
    n_null_times: int
    n_rows: int
    n_bytes: int
    next_window_end_us: int | None
    follows_clock: bool = False


@dataclass(frozen=True)
class StreamStatus:
    """Status of a stream.

    Attributes:
        batch: Number of the last micro-batch. None before the first is done.
        rows_per_second: Rows that arrived per second over the last minute.
        n_input_rows: Rows that the last micro-batch read.
        batch_seconds: Duration of the last micro-batch.
        operators: Window operators, upstream first.
        incomplete: Tables with missing files: they were published together with files that have
            been read, so the watermarks wait for them.
    """

    batch: int | None = None
    rows_per_second: float = 0.0
    n_input_rows: int = 0
    batch_seconds: float = 0.0
    operators: tuple[OperatorStatus, ...] = ()
    incomplete: tuple[str, ...] = ()


def report_status(dataframe: DataFrame, number: int, is_counted: Column | None = None) -> DataFrame:
    """Report the column STATUS to the driver with every micro-batch.

    Args:
        dataframe: Output of a window operator.
        number: Number of the operator in the query, from 0, upstream first.
        is_counted: Whether a row counts. None means all rows.
    """
    merges = {
        "watermark_us": F.max,
        "follows_clock": F.bool_or,
        "has_ended": F.bool_or,
        "sources": F.max,
        "n_late": F.sum,
        "n_null_times": F.sum,
        "n_rows": F.sum,
        "n_bytes": F.sum,
        "next_window_end_us": F.min,
        "closed_us": F.max,
    }

    def status(name: str) -> Column:
        column = F.col(f"`{STATUS}`.{name}")
        return column if is_counted is None else F.when(is_counted, column)

    metrics = [merge(status(name)).alias(name) for name, merge in merges.items()]
    return dataframe.observe(f"{WINDOW_METRIC}{number}", *metrics)


class Tally:
    """Totals over the micro-batches of a run; Spark keeps only the last hundred.

    Args:
        n_operators: Number of window operators.
    """

    def __init__(self, n_operators: int) -> None:
        self.n_late = [0] * n_operators
        self.n_null_times = [0] * n_operators
        self._last_batch = -1
        self._lock = threading.Lock()

    def take(self, report: BatchReport) -> None:
        """Add a report, unless it was added before or is of an idle time."""
        with self._lock:
            if report.batch <= self._last_batch or not report.windows:
                return
            self._last_batch = report.batch
            for number, window in report.windows.items():
                if number < len(self.n_late):
                    self.n_late[number] += window.n_late
                    self.n_null_times[number] += window.n_null_times


def stream_status(
    reports: Sequence[BatchReport],
    source_names: Sequence[Sequence[str]],
    tally: Tally,
    reads: Sequence[int] = (),
    incomplete: tuple[str, ...] = (),
    now_s: float | None = None,
) -> StreamStatus:
    """Return the status of a query from its reports.

    Args:
        reports: The reports that Spark keeps, oldest first. They are added to `tally`.
        source_names: Names of the sources of each window operator.
        tally: Totals over the whole run.
        reads: Result of `reads_of_sources`. If empty, rows are counted as Spark counts them.
        incomplete: See `StreamStatus`.
        now_s: Current time in seconds since 1970. None means the system clock.
    """
    if not reports:
        return StreamStatus()
    for report in reports:
        tally.take(report)
    last = reports[-1]
    batches = [(seconds_of(r.timestamp), r.seconds, rows_read(r, reads)) for r in reports]
    operators = []
    for number, names in enumerate(source_names):
        windows = [r.windows[number] for r in reports if number in r.windows]
        if windows:
            dropped = tally.n_late[number], tally.n_null_times[number]
            operators.append(_operator(windows[-1], names, *dropped))
    return StreamStatus(
        batch=last.batch,
        rows_per_second=arrival_rate(batches, time.time() if now_s is None else now_s),
        n_input_rows=rows_read(last, reads),
        batch_seconds=last.seconds,
        operators=tuple(operators),
        incomplete=incomplete,
    )


def arrival_rate(batches: Sequence[tuple[float, float, int]], now_s: float) -> float:
    """Return how many rows arrived each second, over the last minute.

    The rows of a micro-batch arrived since the one before it began, so how long it took to process
    them does not matter: 10 rows a second are 10, however fast each micro-batch is.

    Args:
        batches: (start in seconds since 1970, duration in seconds, rows read) of the last
            micro-batches, oldest first.
        now_s: Current time in seconds since 1970.
    """
    if not batches:
        return 0.0
    last_s, took_s, n_rows = batches[-1]
    if len(batches) == 1:
        # it is unknown since when its rows were available
        elapsed_s = max(took_s, now_s - last_s)
        return n_rows / elapsed_s if 0 < elapsed_s <= _RATE_SECONDS + took_s else 0.0
    # later rows are not known yet; once the next micro-batch is overdue, assume none
    usual_s = last_s - batches[-2][0]
    until_s = max(last_s, now_s - usual_s - took_s)
    recent = [
        number
        for number, (began_s, seconds, _) in enumerate(batches)
        if number and began_s + seconds >= until_s - _RATE_SECONDS
    ]
    if not recent:
        return 0.0
    since_s = batches[recent[0] - 1][0]
    return sum(batches[number][2] for number in recent) / max(until_s - since_s, 0.001)


def seconds_of(timestamp: str) -> float:
    """Return the seconds since 1970 of a Spark timestamp such as `2026-01-31T08:05:00.123Z`."""
    return dt.datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()


def silence(status: StreamStatus, n_rows: int | None) -> str:
    """Explain in one sentence why no output appears, or no more output.

    Args:
        status: Status of the stream.
        n_rows: Rows emitted so far, if known.
    """
    if status.batch is None:
        return "the first micro-batch is still running"
    if status.incomplete and status.operators:
        return awaits_files(status)
    for operator in status.operators:
        if operator.next_window_end_us is not None:
            return _waits(operator, operator.next_window_end_us)
    for operator in status.operators:
        if operator.watermark_us is None:
            if operator.n_rows:  # no window is waiting, though there are rows
                return "groups and ranks without a window are emitted when they change"
            return _no_watermark(operator)
    dropped = dropped_rows_text(status)
    if dropped and not n_rows:
        return f"all rows were dropped: {dropped}"
    if status.operators:
        return "all windows with rows are closed and emitted"
    return "rows are emitted as they arrive" if status.n_input_rows else "no rows arrive"


def awaits_files(status: StreamStatus) -> str:
    """Explain in one sentence that the watermarks wait for files."""
    names = " and ".join(f"`{name}`" for name in status.incomplete)
    return (
        f"the watermark waits for files of {names} that a writer has not published yet, "
        "unlike other files of the same micro-batch; run the writer again if it was "
        "killed"
    )


def _waits(operator: OperatorStatus, end: int) -> str:
    if operator.watermark_us is None:
        return _no_watermark(operator)
    ahead = seconds_text(abs(end - operator.watermark_us) / 1_000_000)
    text = (
        f"the next window to close ends at {clock(end)}; the watermark is at "
        f"{clock(operator.watermark_us)}, {ahead} before it"
    )
    if operator.follows_clock:
        return f"{text}, and advances with the clock because all sources are silent"
    holding = blocking_source(operator)
    return text if holding is None else f"{text}, held back by {holding}"


def _no_watermark(operator: OperatorStatus) -> str:
    silent = [s.name for s in operator.sources if s.watermark_us is None and not s.is_idle]
    if not silent:
        return "there is no watermark yet, because no row with a time has arrived"
    names = " and ".join(f"`{name}`" for name in silent)
    return f"there is no watermark yet, because no row with a time has arrived from {names}"


def blocking_source(operator: OperatorStatus) -> str | None:
    """Return the source that an operator's watermark waits for, if it is one of several."""
    awake = [s for s in operator.sources if not s.is_idle and not s.is_done]
    if len(operator.sources) < 2 or not awake:
        return None
    reached = {source.watermark_us for source in awake}
    if len(awake) > 1 and len(reached) == 1 and None not in reached:
        # all have the same watermark, as sources on processing time always do
        return None
    behind = min(awake, key=lambda s: -(2**63) if s.watermark_us is None else s.watermark_us)
    return f"`{behind.name}`"


def dropped_rows_text(status: StreamStatus) -> str:
    """Return how many rows were dropped and why, as `5 late, 1 without a time`; empty if none."""
    late = sum(o.n_late for o in status.operators)
    null = sum(o.n_null_times for o in status.operators)
    parts = [f"{late:,} late"] * bool(late) + [f"{null:,} without a time"] * bool(null)
    return ", ".join(parts)


def status_notes(status: StreamStatus, late_table: str | None = None) -> tuple[str, ...]:
    """Return notes for the end of a run, with Flink's metric names.

    Args:
        status: Status of the stream.
        late_table: Table that late rows went to. None if they were dropped.
    """
    late = sum(o.n_late for o in status.operators)
    null = sum(o.n_null_times for o in status.operators)
    texts = []
    if late:
        rows = count_text(late, "rows")
        suffix = "" if late_table is None else f" and went to `{late_table}`"
        texts.append(
            f"{rows} arrived after all their windows had closed{suffix} (numLateRecordsDropped)"
        )
    if null:
        rows = count_text(null, "rows") + (" has" if null == 1 else " have")
        texts.append(f"{rows} no time and therefore no window (numNullRowTimeRecordsDropped)")
    return tuple(texts)


def clock(time_us: int | None) -> str:
    """Format a time on the wall clock of a window."""
    return "-" if time_us is None else wall_clock_text(time_us)


def watermark_text(watermark_us: int | None, has_ended: bool) -> str:
    """Format a watermark. After the end of the input it is not a time."""
    return "end of input" if has_ended else clock(watermark_us)


def has_seen_end(reports: Sequence[BatchReport], n_operators: int) -> bool:
    """Return whether the end of the input has closed the windows of all operators.

    This may have happened in an earlier run: a micro-batch that only processing time triggered
    reports it too.

    Args:
        reports: Reports of micro-batches.
        n_operators: Number of window operators.
    """
    for report in reversed(reports):
        windows = [window for number, window in report.windows.items() if number < n_operators]
        if windows:
            return all(window.has_ended for window in windows)
    return False


def state_sizes(report: BatchReport, n_operators: int) -> list[tuple[int, int] | None]:
    """Return (partials, bytes) in each window operator's state after a micro-batch, where known."""
    windows = (report.windows.get(number) for number in range(n_operators))
    return [
        None if window is None or window.n_rows is None else (window.n_rows, window.n_bytes)
        for window in windows
    ]


def _operator(
    last: WindowReport, names: Sequence[str], n_late: int, n_null_times: int
) -> OperatorStatus:
    return OperatorStatus(
        watermark_us=last.watermark_us,
        has_ended=last.has_ended,
        sources=tuple(
            SourceStatus(name, watermark_us, is_idle, last.has_ended)
            for name, (watermark_us, is_idle) in zip(names, last.sources, strict=False)
        ),
        n_late=n_late,
        n_null_times=n_null_times,
        n_rows=last.n_rows or 0,
        n_bytes=last.n_bytes,
        next_window_end_us=last.next_window_end_us,
        follows_clock=last.follows_clock,
    )
