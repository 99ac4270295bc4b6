"""Messages from the local stage to the key groups: partials and control messages.

Between the two stages of a micro-batch a message is a row of MESSAGE_DDL. It never outlives the
micro-batch, so its layout may change at any time, unlike the layout of state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import pyarrow as pa

from runtime.compute.arrow.blobs import from_blobs, to_blob
from runtime.compute.kernels.conversions import table_bytes
from runtime.spec.stream import SPLIT

# Column of a row that may be late: the end of its slice
SLICE_END = "slice_end"

MESSAGE_SCHEMA = pa.schema(
    [
        ("key_group", pa.int32()),
        ("kind", pa.int32()),
        ("rows", pa.binary()),
        ("source", pa.int32()),
        ("highest_us", pa.int64()),
        ("lowest_us", pa.int64()),
        ("n_rows", pa.int64()),
    ]
)


class MessageRow(NamedTuple):
    """A row of MESSAGE_SCHEMA."""

    key_group: int
    kind: int
    rows: bytes | None
    source: int | None
    highest_us: int | None
    lowest_us: int | None
    n_rows: int | None


_TYPES = MESSAGE_SCHEMA.types
_SPARK_TYPES = {pa.int32(): "int", pa.int64(): "bigint", pa.binary(): "binary"}
MESSAGE_DDL = ", ".join(f"{field.name} {_SPARK_TYPES[field.type]}" for field in MESSAGE_SCHEMA)
# Smaller tables are not worth compressing
_WORTH_COMPRESSING = 4096


class MessageKind(IntEnum):
    """Kind of a message, in the column `kind`. See the classes of the same names."""

    PARTIALS = 0
    SOURCE_PROGRESS = 1
    END_OF_INPUT = 2
    PROCESSING_TIME = 3
    NULL_TIMES = 4
    LATE_CANDIDATES = 5
    LATE_ROWS = 6
    ROWS_READ = 7
    NO_ROWS = 8


@dataclass(frozen=True)
class Partials:
    """Rows for the operator: keys, slice end, accumulators, row count; or unaggregated rows."""

    rows: pa.Table


@dataclass(frozen=True)
class SourceProgress:
    """Progress of one task in one source during a micro-batch.

    Attributes:
        source: Number of the source.
        highest_us: Highest watermark of a row. None if no row had one.
        lowest_us: Lowest watermark of a row.
        n_rows: Number of rows with a watermark.
        split: Split of the source. None if the source is tracked as a whole.
    """

    source: int
    highest_us: int | None
    lowest_us: int | None
    n_rows: int
    split: int | None = None


@dataclass(frozen=True)
class EndOfInput:
    """Message that no source will have another row, so all windows close."""


@dataclass(frozen=True)
class ProcessingTime:
    """Start of the micro-batch, microseconds since 1970 in UTC."""

    time_us: int


@dataclass(frozen=True)
class NullTimes:
    """Number of a task's rows without a time, and so without a window."""

    n_rows: int


@dataclass(frozen=True)
class LateCandidates:
    """Rows among the partials that may be late. The operator decides.

    Attributes:
        rows: SLICE_END and LATE_ROW; for SESSION the partition columns, TIME and LATE_ROW.
    """

    rows: pa.Table


@dataclass(frozen=True)
class LateRows:
    """Rows that were too late for all windows of this operator or of one upstream.

    Attributes:
        rows: One column, LATE_ROW.
        watermark_us: Watermark that they missed.
    """

    rows: pa.Table
    watermark_us: int


@dataclass(frozen=True)
class RowsRead:
    """Number of rows that a task has read from files. For the driver, not for a key group."""

    n_rows: int


@dataclass(frozen=True)
class NoRows:
    """Sent to key groups without other messages: Spark calls only key groups that have rows."""


def split_of(code: int) -> tuple[int, int | None]:
    """Return the source in a value of SOURCE, and its split if splits are tracked."""
    split, source = divmod(code, SPLIT)
    return source, split - 1 if split else None


def code_of(source: int, split: int | None) -> int:
    """Return the value of SOURCE for a source or for one of its splits."""
    return source if split is None else source + SPLIT * (1 + split)


Progress = SourceProgress | EndOfInput
ControlMessage = Progress | ProcessingTime | NullTimes | RowsRead | NoRows
Message = Partials | LateCandidates | LateRows | ControlMessage


def encode(messages: Iterable[tuple[int, Message]]) -> pa.RecordBatch:
    """Return messages with the numbers of their key groups as a batch of MESSAGE_SCHEMA."""
    rows = [(group, *_fields(message)) for group, message in messages]
    columns = zip(*rows, strict=True) if rows else ([] for _ in MESSAGE_SCHEMA)
    arrays = [pa.array(values, type_) for values, type_ in zip(columns, _TYPES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=MESSAGE_SCHEMA)


def decode(row: Any) -> Message:
    """Return the message in a row of MESSAGE_DDL, whose columns are attributes."""
    match MessageKind(row.kind):
        case MessageKind.PARTIALS:
            return Partials(_table(row.rows))
        case MessageKind.SOURCE_PROGRESS:
            source, split = split_of(row.source)
            return SourceProgress(source, row.highest_us, row.lowest_us, row.n_rows, split)
        case MessageKind.END_OF_INPUT:
            return EndOfInput()
        case MessageKind.PROCESSING_TIME:
            return ProcessingTime(row.highest_us)
        case MessageKind.NULL_TIMES:
            return NullTimes(row.n_rows)
        case MessageKind.LATE_CANDIDATES:
            return LateCandidates(_table(row.rows))
        case MessageKind.LATE_ROWS:
            return LateRows(_table(row.rows), row.highest_us)
        case MessageKind.ROWS_READ:
            return RowsRead(row.n_rows)
        case MessageKind.NO_ROWS:
            return NoRows()


def _fields(
    message: Message,
) -> tuple[int, bytes | None, int | None, int | None, int | None, int | None]:
    """Return the columns of a message after the key group."""
    match message:
        case Partials(rows):
            return MessageKind.PARTIALS, _blob(rows), None, None, None, None
        case SourceProgress(source, highest_us, lowest_us, n_rows, split):
            code = code_of(source, split)
            return MessageKind.SOURCE_PROGRESS, None, code, highest_us, lowest_us, n_rows
        case EndOfInput():
            return MessageKind.END_OF_INPUT, None, None, None, None, None
        case ProcessingTime(time_us):
            return MessageKind.PROCESSING_TIME, None, None, time_us, None, None
        case NullTimes(n_rows):
            return MessageKind.NULL_TIMES, None, None, None, None, n_rows
        case LateCandidates(rows):
            return MessageKind.LATE_CANDIDATES, _blob(rows), None, None, None, None
        case LateRows(rows, watermark_us):
            return MessageKind.LATE_ROWS, _blob(rows), None, watermark_us, None, None
        case RowsRead(n_rows):
            return MessageKind.ROWS_READ, None, None, None, None, n_rows
        case NoRows():
            return MessageKind.NO_ROWS, None, None, None, None, None


def _blob(rows: pa.Table) -> bytes:
    # the size of all buffers is an upper bound that takes no time
    is_small = rows.get_total_buffer_size() <= _WORTH_COMPRESSING
    is_small = is_small or table_bytes(rows) <= _WORTH_COMPRESSING
    return to_blob(rows, None if is_small else "lz4")


def _table(blob: bytes | bytearray) -> pa.Table:
    return from_blobs([bytes(blob)])
