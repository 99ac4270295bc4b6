"""Decode the state of a key group for inspection: from blobs to rows.

Operators know the query whose state they read. This module has only the checkpoint: the metadata of
a key group names its blobs, and the description of the operator names their columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.conversions import (
    BoolArray,
    Int64Array,
    int64_array,
    int64_column,
    one_chunk,
)
from runtime.spec.state_schema import OperatorSchema, StateAccumulator
from runtime.spec.stream import FINAL_US
from runtime.streaming.slices.levels import common_slices
from runtime.streaming.state.cells import Cell
from runtime.streaming.state.codec import decode_bits, decode_table
from runtime.streaming.state.metadata import (
    BucketMetadata,
    FillMetadata,
    GeneralMetadata,
    GroupMetadata,
    Level,
    MarkedChunk,
    RankMetadata,
    RunningMetadata,
    SessionMetadata,
    SpanMetadata,
    UpdatedSessionMetadata,
    UpdateMetadata,
    VersionMetadata,
    WindowMetadata,
)
from runtime.streaming.state.partial_columns import CHANGED_US
from runtime.windows import AlignedWindow
from runtime.windows.assigner import SliceAssigner
from runtime.windows.times import FIRST_TIME, LAST_TIME

SLICE_START, SLICE_END = "slice_start", "slice_end"
WINDOW_START, WINDOW_END = "window_start", "window_end"
NEEDED_BY = "needed_by"
# Of FILL: end of the last window that was emitted or added, and of the last one with a row
FILLED_UNTIL, LAST_END = "filled_until", "last_window_end"
# Name of the slice end in state if the checkpoint has no description of the operator
_SLICE_END = "$slice_end"
_TIME = pa.timestamp("us")


class BlobKind(StrEnum):
    """Content of a blob."""

    SLICES = "slices"
    SESSIONS = "open sessions"
    FILL = "last rows of keys"
    VERSIONS = "versions"
    RANKS = "first rows of keys"
    RUNNING = "running aggregates"
    RESULTS = "emitted results"
    CHANGED = "keys to be emitted again"
    GENERAL = "general windows"
    OTHER = "other"


@dataclass(frozen=True)
class Blob:
    """A blob of a key group.

    Attributes:
        name: Name of the blob.
        kind: Content.
        n_rows: Number of rows. None if the metadata does not say.
        members: For slices, the set of readers that need them, as bits.
        taken: For sessions, the blob that marks rows as taken. None if all are present.
        ranges: For results, the windows that are valid: `after` < window end <= `until`.
    """

    name: str
    kind: BlobKind
    n_rows: int | None
    members: int = 1
    taken: str | None = None
    ranges: tuple[tuple[int, int], ...] = ()


def blobs_of(metadata: GroupMetadata) -> dict[str, Blob]:
    """Return a key group's blobs by name, according to its metadata."""
    match metadata.contents:
        case WindowMetadata(slices, updates):
            blobs = [*_slices(slices.levels), *chain(*map(_running, slices.spans.values()))]
            if updates is not None:
                blobs += _results(updates)
        case SessionMetadata(chunks):
            blobs = _marked(chunks, BlobKind.SESSIONS)
        case FillMetadata(chunks):
            blobs = _marked(chunks, BlobKind.FILL)
        case VersionMetadata(chunks):
            blobs = _marked(chunks, BlobKind.VERSIONS)
        case RankMetadata(chunks):
            blobs = _marked(chunks, BlobKind.RANKS)
        case UpdatedSessionMetadata(chunks, results):
            blobs = _marked(chunks, BlobKind.SESSIONS)
            blobs += _marked(results, BlobKind.RESULTS, ((-FINAL_US, FINAL_US),))
        case GeneralMetadata(cells):
            blobs = [
                Blob(Cell(cell.number, cell.of).blob, BlobKind.GENERAL, cell.n_windows)
                for cell in cells
            ]
        case BucketMetadata():
            blobs = []
    return {blob.name: blob for blob in blobs}


def _marked(
    chunks: Iterable[MarkedChunk], kind: BlobKind, ranges: tuple[tuple[int, int], ...] = ()
) -> list[Blob]:
    return [
        Blob(chunk.name, kind, chunk.n_rows, taken=chunk.taken, ranges=ranges) for chunk in chunks
    ]


def span_blobs(metadata: SpanMetadata) -> list[str]:
    """Return the names of the blobs of running aggregates or totals."""
    return [blob.name for blob in _running(metadata)]


def _slices(levels: Iterable[Level]) -> Iterator[Blob]:
    for level in levels:
        for slab in level.slabs:
            for chunk in slab.chunks:
                yield Blob(chunk.name, BlobKind.SLICES, chunk.n_rows, level.members)


def _running(metadata: SpanMetadata) -> Iterator[Blob]:
    spans = [*metadata.spans, *metadata.patches]
    if isinstance(metadata, RunningMetadata) and metadata.middle is not None:
        spans.append(metadata.middle)
    for span in spans:
        for place, name in enumerate(span.names):
            yield Blob(name, BlobKind.RUNNING, span.n_rows if place == 0 else 0)


def _results(metadata: UpdateMetadata) -> Iterator[Blob]:
    ranges: dict[str, list[tuple[int, int]]] = {}
    for part in (part for run in metadata.runs for part in run):
        for name in part.names:
            ranges.setdefault(name, []).append((part.after_us, part.until_us))
    for name, valid in ranges.items():
        yield Blob(name, BlobKind.RESULTS, None, ranges=tuple(valid))
    for rows in metadata.keys:
        yield Blob(rows.name, BlobKind.CHANGED, rows.n_rows)


@dataclass(frozen=True)
class Decoder:
    """Decoder of an operator's blobs into rows.

    Attributes:
        operator: Description of the operator in the checkpoint, if it has one.
        closed_us: Windows that end at or before this are closed.
    """

    operator: OperatorSchema | None
    closed_us: int | None

    def decode(self, blob: Blob, contents: bytes, taken: bytes | None = None) -> pa.Table:
        """Return the rows of a blob of slices, sessions or results.

        Args:
            blob: Which blob.
            contents: Its bytes.
            taken: Bytes of the blob that marks partials as taken, if there is one.

        Raises:
            ExecutionError: It is of another version of sqlwin.
        """
        table = decode_table(contents)
        if taken is not None:
            table = table.filter(pa.array(~decode_bits(taken, table.num_rows)))
        match blob.kind:
            case BlobKind.SESSIONS | BlobKind.FILL | BlobKind.VERSIONS | BlobKind.RANKS:
                return self._decode_marked(table, blob.kind)
            case BlobKind.RESULTS:
                return _decode_results(table, blob.ranges)
        return self._decode_slices(table, blob.members)

    def _decode_slices(self, table: pa.Table, members: int) -> pa.Table:
        name = _SLICE_END if self.operator is None else self.operator.slice_end
        ends = int64_column(table, name)
        starts = self._slice_starts(ends, members)
        times = {SLICE_START: starts, SLICE_END: pa.array(ends).cast(_TIME)}
        table = self._with_sql_names(table.drop_columns([name]), times)
        table = table.rename_columns(
            ["changed_us" if column == CHANGED_US else column for column in table.column_names]
        )
        readers = () if self.operator is None else self.operator.readers
        if readers:
            needed = ", ".join(r.name for i, r in enumerate(readers) if members >> i & 1)
            table = table.append_column(NEEDED_BY, pa.repeat(needed, table.num_rows))
        return table

    def _decode_marked(self, table: pa.Table, kind: BlobKind) -> pa.Table:
        of_rows = [int64_column(table, name) for name in (FIRST_TIME, LAST_TIME)]
        first, last = (int64_array(time, None, _TIME) for time in of_rows)
        times: dict[str, pa.Array] = {}
        if kind is BlobKind.FILL:
            times = {FILLED_UNTIL: first, LAST_END: last}
        elif kind is BlobKind.SESSIONS:
            window = None if self.operator is None else self.operator.window
            ends = pa.nulls(len(last), _TIME)
            if window is not None and not window.has_slices:
                ends = int64_array(of_rows[1] + window.gap_us, None, _TIME)
            times = {WINDOW_START: first, WINDOW_END: ends}
        name = _SLICE_END if self.operator is None else self.operator.slice_end
        return self._with_sql_names(table.drop_columns([FIRST_TIME, LAST_TIME, name]), times)

    def _with_sql_names(self, table: pa.Table, times: Mapping[str, pa.Array]) -> pa.Table:
        """Return keys, times and aggregates under their names in SQL."""
        plain = {name: one_chunk(table.column(name)) for name in table.column_names}
        if self.operator is None:
            return _table([*times.items(), *plain.items()])
        keys = [(key.name, plain.pop(key.name)) for key in self.operator.keys]
        aggregates = [(a.name, _aggregate(a, plain)) for a in self.operator.accumulators]
        return _table([*keys, *times.items(), *aggregates, *plain.items()])

    def _slice_starts(self, ends: Int64Array, members: int) -> pa.Array:
        """Return the starts of slices; for a closed CUMULATE slice, the start of the window."""
        if self.operator is None:
            return pa.nulls(len(ends), _TIME)
        readers = [r for i, r in enumerate(self.operator.readers) if members >> i & 1]
        window = readers[0].window if len(readers) == 1 else self.operator.window
        if len(readers) > 1:
            window = common_slices(tuple(reader.slices for reader in readers))
        assert window.has_slices
        distinct, place = np.unique(ends, return_inverse=True)
        assigner = window.assigner()
        starts = _slice_starts(assigner, window, distinct)
        if window.grows and self.closed_us is not None:
            is_closed = distinct <= self.closed_us
            starts[is_closed] = assigner.window_start(distinct[is_closed])
        return pa.array(starts.take(place)).cast(_TIME)


def _slice_starts(assigner: SliceAssigner, window: AlignedWindow, ends: Int64Array) -> Int64Array:
    """Return the first time of the slices with these ends."""
    low, high = ends - window.slice_width_us, ends - 1
    while (low < high).any():
        middle = low + (high - low) // 2
        is_in: BoolArray = assigner.slice_end(middle) >= ends
        low, high = np.where(is_in, low, middle + 1), np.where(is_in, middle, high)
    return low


def _decode_results(table: pa.Table, ranges: Sequence[tuple[int, int]]) -> pa.Table:
    times = {FIRST_TIME, LAST_TIME}
    names = [name for name in table.column_names if name not in times]
    columns = [(name.strip("$"), one_chunk(table.column(name))) for name in names]
    results = _table(columns)
    ends = int64_column(results, WINDOW_END)
    counts = np.zeros(len(ends), np.bool_)
    for after, until in ranges:
        counts |= (ends > after) & (ends <= until)
    return results.filter(pa.array(counts))


def _aggregate(accumulator: StateAccumulator, columns: dict[str, pa.Array]) -> pa.Array:
    arrays = [columns.pop(name) for name in accumulator.columns]
    if len(arrays) == 1:
        return arrays[0]
    return pa.StructArray.from_arrays(arrays, names=list(accumulator.fields))


def _table(columns: Sequence[tuple[str, pa.Array]]) -> pa.Table:
    """Return a table whose column names are distinct regardless of case."""
    used_names: set[str] = set()
    names = []
    for name, _ in columns:
        free, number = name, 1
        while free.lower() in used_names:
            number += 1
            free = f"{name}_{number}"
        used_names.add(free.lower())
        names.append(free)
    return pa.table([array for _, array in columns], names)
