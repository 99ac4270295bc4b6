"""What EXPLAIN ANALYZE says of a stream beside the figures of its operators."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from planner.explain.document import (
    Analysis,
    MicroBatches,
    SourceEntry,
    StreamAnalysis,
    WindowOperatorEntry,
)
from planner.explain.figures import counted, seconds_text, size_text

_ENDS = {
    "input": "ran to the end of its input",
    "time": "ran for the time that sqlwin.analyze.duration gives",
    "interrupt": "ran until it was interrupted",
}
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  # wall-clock arithmetic


def stream_ended(analysis: Analysis, stream: StreamAnalysis) -> str:
    """What ended the run, and how much it did."""
    parts = [
        f"{_ENDS[stream.ended]}: {seconds_text(analysis.seconds)}",
        _batches(stream.micro_batches.count),
        f"{counted(stream.rows_in, 'rows')} in",
    ]
    if analysis.rows_out is not None:
        parts.append(f"{counted(analysis.rows_out, 'rows')} out")
    return ", ".join(parts)


def _batches(number: int) -> str:
    return "1 micro-batch" if number == 1 else f"{number:,} micro-batches"


def stream_lines(stream: StreamAnalysis, seconds: float) -> Iterator[str]:
    """Watermarks, state and late rows of its window operators, and what micro-batches did."""
    for operator in stream.window_operators:
        yield from _operator(operator)
    yield from _micro_batches(stream.micro_batches, seconds)


def _operator(operator: WindowOperatorEntry) -> Iterator[str]:
    yield f"StreamWindowOperator(number=[{operator.number}]):"
    several = ""
    if len(operator.sources) > 1:
        told = [f"{s.name} {_time(s)}{' (idle)' if s.is_idle else ''}" for s in operator.sources]
        several = f"; {', '.join(told)}"
    yield f"  watermark: {_time(operator)}{several}"
    most = f"{counted(operator.most_state_rows, 'partials')}, "
    most += size_text(operator.most_state_bytes)
    last = f"{counted(operator.state_rows, 'partials')}, {size_text(operator.state_bytes)}"
    yield f"  state: {most} at most; {last} in the end"
    yield f"  late: {counted(operator.late_rows, 'rows')} dropped"
    if operator.rows_without_time:
        yield f"  without a time: {counted(operator.rows_without_time, 'rows')} dropped"
    if operator.next_window_end_us is not None:
        yield f"  the next window to close ends at {_clock(operator.next_window_end_us)}"


def _micro_batches(batches: MicroBatches, seconds: float) -> Iterator[str]:
    if batches.median_seconds is None or batches.slowest_seconds is None:
        yield "no micro-batch was done before the end"
        return
    busy = f"busy for {seconds_text(batches.seconds)} of {seconds_text(seconds)}"
    yield (
        f"micro-batches: {busy}; median {seconds_text(batches.median_seconds)}, "
        f"slowest {seconds_text(batches.slowest_seconds)}"
    )
    phases = sorted(batches.phases.items(), key=lambda phase: -phase[1])
    yield f"  {', '.join(f'{name} {seconds_text(spent)}' for name, spent in phases)}"
    if batches.state_commit_seconds:
        commit = seconds_text(batches.state_commit_seconds)
        yield f"  of computing, tasks spent {commit} on writing the state"


def _time(told: WindowOperatorEntry | SourceEntry) -> str:
    return "at the end of the input" if told.is_at_end_of_input else _clock(told.watermark_us)


def _clock(time_us: int | None) -> str:
    if time_us is None:
        return "none yet"
    try:
        found = _EPOCH + dt.timedelta(microseconds=time_us)
    except OverflowError:
        return str(time_us)
    return found.isoformat(" ", "milliseconds" if found.microsecond else "seconds")
