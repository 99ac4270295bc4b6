"""Messages from the local stage to the key groups: partials, and control messages beside them.

Between the two stages of a micro-batch a message is a row of MESSAGE_DDL. It never outlives the
micro-batch, so that its layout may change at any time, unlike that of state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import pyarrow as pa

from runtime.compute.arrow.blobs import from_blobs, to_blob
from runtime.spec.stream import SPLIT

# Of a row that may be late, the end of its slice
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
_SPARK_TYPES = {pa.int32(): "int", pa.int64(): "bigint", pa.binary(): "binary"}
MESSAGE_DDL = ", ".join(f"{field.name} {_SPARK_TYPES[field.type]}" for field in MESSAGE_SCHEMA)
# Below this compression brings less than its bookkeeping
_WORTH_COMPRESSING = 4096


class MessageKind(IntEnum):
    """What a message is, in the column `kind`; see the classes of the same names."""

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
    """Rows for the operator: keys, slice end, accumulators, row count; or rows as they are."""

    rows: pa.Table


@dataclass(frozen=True)
class SourceProgress:
    """What one task saw of one source in a micro-batch.

    Attributes:
        source: the source's number.
        highest_us: the highest watermark of a row; None if no row had one.
        lowest_us: the lowest one.
        n_rows: how many rows had a watermark.
        split: the split of the source that they are of; None: it is followed as a whole.
    """

    source: int
    highest_us: int | None
    lowest_us: int | None
    n_rows: int
    split: int | None = None


@dataclass(frozen=True)
class EndOfInput:
    """No source will have another row: all windows close."""


@dataclass(frozen=True)
class ProcessingTime:
    """When the micro-batch began, microseconds since 1970 in UTC."""

    time_us: int


@dataclass(frozen=True)
class NullTimes:
    """How many rows of a task had no time, and so no window."""

    n_rows: int


@dataclass(frozen=True)
class LateCandidates:
    """Rows among the partials that may be late, for the operator to decide.

    Attributes:
        rows: SLICE_END and LATE_ROW; of a SESSION its partition columns, TIME and LATE_ROW.
    """

    rows: pa.Table


@dataclass(frozen=True)
class LateRows:
    """Rows that were too late for all their windows: of this operator, or of one below it.

    Attributes:
        rows: one column, LATE_ROW.
        watermark_us: the watermark that they missed.
    """

    rows: pa.Table
    watermark_us: int


@dataclass(frozen=True)
class RowsRead:
    """How many rows a task has read from files itself; for the driver, not for a key group."""

    n_rows: int


@dataclass(frozen=True)
class NoRows:
    """To key groups that get nothing else: Spark calls only those that a row is for."""


def split_of(code: int) -> tuple[int, int | None]:
    """The source in SOURCE, and its split if each is followed."""
    split, source = divmod(code, SPLIT)
    return source, split - 1 if split else None


def code_of(source: int, split: int | None) -> int:
    """What SOURCE has of a source, or of a split of it."""
    return source if split is None else source + SPLIT * (1 + split)


Progress = SourceProgress | EndOfInput
ControlMessage = Progress | ProcessingTime | NullTimes | RowsRead | NoRows
Message = Partials | LateCandidates | LateRows | ControlMessage


def encode(messages: Iterable[tuple[int, Message]]) -> pa.RecordBatch:
    """Messages with the numbers of their key groups, as a batch of MESSAGE_SCHEMA."""
    rows = [{"key_group": group, **_fields(message)} for group, message in messages]
    return pa.RecordBatch.from_pylist(rows, MESSAGE_SCHEMA)


def decode(row: Any) -> Message:
    """The message of a row of MESSAGE_DDL, whose columns are attributes."""
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


def _fields(message: Message) -> dict[str, Any]:
    """The columns that a message has, but for the key group."""
    match message:
        case Partials(rows):
            return {"kind": MessageKind.PARTIALS, "rows": _blob(rows)}
        case SourceProgress(source, highest_us, lowest_us, n_rows, split):
            return {
                "kind": MessageKind.SOURCE_PROGRESS,
                "source": code_of(source, split),
                "highest_us": highest_us,
                "lowest_us": lowest_us,
                "n_rows": n_rows,
            }
        case EndOfInput():
            return {"kind": MessageKind.END_OF_INPUT}
        case ProcessingTime(time_us):
            return {"kind": MessageKind.PROCESSING_TIME, "highest_us": time_us}
        case NullTimes(n_rows):
            return {"kind": MessageKind.NULL_TIMES, "n_rows": n_rows}
        case LateCandidates(rows):
            return {"kind": MessageKind.LATE_CANDIDATES, "rows": _blob(rows)}
        case LateRows(rows, watermark_us):
            return {"kind": MessageKind.LATE_ROWS, "rows": _blob(rows), "highest_us": watermark_us}
        case RowsRead(n_rows):
            return {"kind": MessageKind.ROWS_READ, "n_rows": n_rows}
        case NoRows():
            return {"kind": MessageKind.NO_ROWS}


def _blob(rows: pa.Table) -> bytes:
    return to_blob(rows, "lz4" if rows.nbytes > _WORTH_COMPRESSING else None)


def _table(blob: bytes | bytearray) -> pa.Table:
    return from_blobs([bytes(blob)])
