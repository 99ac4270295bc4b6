"""Status of streams as text: SHOW STREAMS, SHOW STATE, and the status line of a terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import SparkSession

from planner.explain.window_texts import window_text
from runtime.outages import outages_text
from runtime.spark.files import files_at, resolve
from runtime.spec.figures import seconds_text
from runtime.spec.state_schema import OperatorSchema
from runtime.streaming.status import StreamStatus, dropped_rows_text, silence, watermark_text
from runtime.streaming.stored_state import StoredOperator, StoredState, open_state
from runtime.windows import Window
from sqlwin.execution.streams.handle import Stream, StreamState
from sqlwin.execution.streams.registry import Streams

_STREAMS = (
    "stream", "name", "state", "into", "batch", "rows/s", "rows out", "watermark",
    "source watermarks", "state size", "dropped", "waiting for", "checkpoint",
)  # fmt: skip
_STATE = (
    "operator", "window", "kind", "rows", "bytes", "keys", "aggregates", "key groups",
    "watermark", "closed until", "version",
)  # fmt: skip


def how_to_resume(stream: Stream) -> str:
    """Return how to resume a stopped stream."""
    if stream.setup.keeps_checkpoint:
        return f"to resume from {stream.checkpoint.directory}, run the same statement again"
    return (
        "it cannot be resumed, because its checkpoint was temporary: SET "
        "'execution.checkpointing.dir' to a directory before the statement"
    )


def show_streams(streams: Streams) -> pa.Table:
    """Return a row per stream: its status, and why it emits nothing."""
    return _table(_STREAMS, [stream_row(stream) for stream in streams.all()])


def _table(names: Sequence[str], rows: Sequence[tuple[str, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return pa.table([pa.array(list(values), pa.string()) for values in columns], list(names))


def stream_row(stream: Stream) -> tuple[str, ...]:
    """Return a stream's row for `show_streams`."""
    status = combined_status(stream, stream.status())
    operators = status.operators
    state = stream.state
    return (
        str(stream.number),
        stream.setup.name,
        state.value,
        stream.setup.sink,
        "-" if status.batch is None else str(status.batch),
        f"{status.rows_per_second:,.0f}" if state is StreamState.RUNNING else "-",
        _rows_out(stream),
        "; ".join(
            watermark_text(operator.watermark_us, operator.has_ended)
            + (" (advances with the clock)" if operator.follows_clock else "")
            for operator in operators
        )
        or "-",
        "; ".join(
            f"{s.name} {watermark_text(s.watermark_us, s.is_done)}{' (idle)' if s.is_idle else ''}"
            for operator in operators
            for s in operator.sources
        )
        or "-",
        _state_size(status) or "-",
        _dropped(stream) or "-",
        waits_for(stream, state, status),
        stream.checkpoint.directory if stream.setup.keeps_checkpoint else "temporary",
    )


def combined_status(stream: Stream, status: StreamStatus) -> StreamStatus:
    """Return a stream's status, with a single operator if it serves several INSERTs."""
    if not stream.setup.inserts or not status.operators:
        return status
    first = status.operators[0]
    ends = [o.next_window_end_us for o in status.operators if o.next_window_end_us is not None]
    combined = replace(
        first,
        n_late=sum(operator.n_late for operator in status.operators),
        next_window_end_us=min(ends, default=None),
    )
    return replace(status, operators=(combined,))


def _rows_out(stream: Stream) -> str:
    """Return the rows written: `120`, or `hours 120; days 5` for several INSERTs."""
    if not stream.setup.inserts:
        return _number(stream.run.n_rows)
    counts = stream.run.written or [0] * len(stream.setup.inserts)
    pairs = zip(stream.setup.inserts, counts, strict=True)
    return "; ".join(f"{name} {_number(count)}" for name, count in pairs)


def _number(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _dropped(stream: Stream) -> str:
    """Return the rows dropped and why, per INSERT if there are several; empty if none."""
    status = stream.status()
    if not stream.setup.inserts or not status.operators:
        return dropped_rows_text(status)
    alone = [replace(status, operators=(operator,)) for operator in status.operators]
    pairs = zip(stream.setup.inserts, map(dropped_rows_text, alone), strict=True)
    return "; ".join(f"{name} {text}" for name, text in pairs if text)


def waits_for(stream: Stream, state: StreamState, status: StreamStatus) -> str:
    """Return what a stream waits for, why it failed, or how to resume it."""
    match state:
        case StreamState.RUNNING:
            return (
                outages_text(stream.setup.outages)
                or _history_left(stream)
                or silence(status, stream.run.n_rows)
            )
        case StreamState.FAILED:
            return stream.failure()
        case StreamState.STOPPED:
            return how_to_resume(stream)
        case StreamState.ENDED:
            return "-"


def _history_left(stream: Stream) -> str:
    """Return how far a stream is in the first part of a hybrid table; empty outside of one."""
    left = stream.history.history_left()
    if left is None:
        return ""
    n_read, n_ranges, seconds = left
    return (
        f"the history of a hybrid table: {n_read} of {n_ranges} ranges are read, about "
        f"{seconds_text(seconds)} left"
    )


def _state_size(status: StreamStatus) -> str:
    """Return the size of the state, such as `27 rows, 24 kB`."""
    if not status.operators:
        return ""
    n_rows = sum(o.n_rows for o in status.operators)
    return f"{n_rows:,} rows, {_bytes(sum(o.n_bytes for o in status.operators))}"


def status_line(stream: Stream) -> str:
    """Return a stream's status in one line for a terminal."""
    status = combined_status(stream, stream.status())
    if outage := outages_text(stream.setup.outages):
        return f"{stream.setup.name}: {outage}"
    if status.batch is None:
        return f"{stream.setup.name}: {silence(status, stream.run.n_rows)}"
    parts = [
        f"{stream.setup.name}: {status.rows_per_second:,.0f} rows/s",
        f"batch {status.batch} {status.batch_seconds:.1f} s",
    ]
    if status.operators:
        first = status.operators[0]
        watermark = watermark_text(first.watermark_us, first.has_ended)
        parts.append(f"watermark {watermark}{_lag(first.watermark_us)}")
        parts.append(f"state {_state_size(status)}")
        parts.append(f"dropped {_dropped(stream) or '0'}")
    if not stream.run.n_rows:
        parts.append(silence(status, stream.run.n_rows))
    return " · ".join(parts)


def _lag(watermark_us: int | None) -> str:
    """Return how far a watermark is behind processing time, if less than a week."""
    if watermark_us is None:
        return ""
    lag_us = time.time_ns() // 1_000 - watermark_us
    return (
        f" ({seconds_text(lag_us / 1_000_000)} behind)" if 0 <= lag_us < 7 * 86_400_000_000 else ""
    )


def _bytes(number: int) -> str:
    if number < 1_000_000:
        return f"{number / 1_000:.0f} kB"
    return f"{number / 1_000_000:.1f} MB"


# -- what checkpoints keep -------------------------------------------------------------------------


def show_state(spark: SparkSession, directory: str) -> pa.Table:
    """Return a row for each kind of state of an operator.

    Raises:
        SqlwinError: The directory has no checkpoint, or it cannot be read.
    """
    where = resolve(spark, directory)
    state = open_state(spark, files_at(spark, where), where)
    return _table(_STATE, [row for operator in state.operators for row in _rows(state, operator)])


def _rows(state: StoredState, stored: StoredOperator) -> list[tuple[str, ...]]:
    operator = stored.operator
    windows, keys, aggregates = ("-", "-", "-") if operator is None else _operator_columns(operator)
    common = (
        keys,
        aggregates,
        str(len(stored.metadata)),
        watermark_text(stored.watermark_us, stored.has_ended),
        watermark_text(stored.closed_us, stored.has_ended),
        str(state.version),
    )
    rows = [
        (str(stored.number), windows, kind.kind.value, _number(kind.n_rows), f"{kind.n_bytes:,}")
        for kind in stored.kinds
    ]
    return [(*row, *common) for row in rows or [(str(stored.number), windows, "nothing", "0", "0")]]


def _operator_columns(operator: OperatorSchema) -> tuple[str, str, str]:
    windows: list[Window] = [reader.window for reader in operator.readers]
    return (
        "; ".join(
            window_text(window, f"time_col=[{operator.time[0]}]")
            for window in windows or [operator.window]
        ),
        ", ".join(key.name for key in operator.keys) or "-",
        ", ".join(accumulator.name for accumulator in operator.accumulators) or "-",
    )
