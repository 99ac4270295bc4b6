"""The window buffer: rows in, partials of slices out, in bounded memory.

Rows are grouped about a million at a time, so that the table of groups fits the CPU cache. Partials
are buffered, and partials of the same key and slice are merged. When the buffer is full, all are
emitted, and the global stage merges partials of the same key from all tasks.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.conversions import (
    BoolArray,
    Int64Array,
    as_type,
    combine_chunks,
    distinct_codes,
    from_buffer,
    int64_values,
    normalise_floats,
    one_chunk,
    table_bytes,
)
from runtime.compute.kernels.grouping import MAX_CELLS, Groups, SingleRows, group_cells
from runtime.compute.kernels.key_digits import key_digits
from runtime.compute.kernels.partials import aggregate_rows, merge_partials
from runtime.compute.kernels.slots import slice_slots
from runtime.compute.values.value_sets import list_lengths
from runtime.spec.aggregates import Accumulator
from runtime.windows import AlignedWindow

# Grouping pays off if it leaves at most this fraction of its input.
_GOOD_RATIO = 0.75
# Number of times that grouping is skipped after it did not pay off.
_PATIENCE = 7
# Maximum bytes of partials emitted at once.
PORTION_BYTES = 16 << 20
# Freed memory is returned to the operating system after this many emitted bytes.
_RELEASE_BYTES = 256 << 20


@dataclass(frozen=True)
class BufferRows:
    """Rows to aggregate; all arrays have the same length.

    Attributes:
        time_us: Time on the windows' wall clock.
        keys: Key columns, dictionary-encoded or not.
        args: Arguments of each accumulator; a `set` accepts dictionary-encoded ones.
        conditions: FILTER mask of each accumulator; None for all rows.
    """

    time_us: Int64Array
    keys: Sequence[pa.Array]
    args: Sequence[Sequence[pa.Array]]
    conditions: Sequence[BoolArray | None]


class WindowBuffer:
    """Aggregates rows into partials, one or more for each key and slice.

    State: tables of partials of at most `buffer_bytes` in total. Merging or emitting them briefly
    takes a small multiple of that.

    Args:
        window: Window.
        keys: Names of the key columns.
        slice_end: Name of the slice end column.
        accumulators: Accumulators with the names of their partial columns. For `first` and `last`
            both columns are emitted. A `set` is a column of lists: the distinct non-NULL values of
            its argument in each partial.
        schema: Schema of the partials: keys, slice end (int64), the accumulators' columns.
        buffer_bytes: Maximum bytes of the buffer.
        portion_bytes: Maximum bytes of an emitted table.
    """

    def __init__(
        self,
        window: AlignedWindow,
        keys: tuple[str, ...],
        slice_end: str,
        accumulators: tuple[Accumulator, ...],
        schema: pa.Schema,
        buffer_bytes: int,
        portion_bytes: int = PORTION_BYTES,
    ) -> None:
        self.schema = schema
        self._window = window
        self._assigner = window.assigner()
        self._n_keys = len(keys)
        self._slice_end = slice_end
        self._accumulators = accumulators
        self._types = [[schema.field(name).type for name in spec.columns] for spec in accumulators]
        self._buffer_bytes = buffer_bytes
        self._portion_bytes = min(portion_bytes, buffer_bytes)
        self._runs: list[_Run] = []
        self._overflown_bytes = 0
        self._grouping = _CostControl()
        self._merging = _CostControl()

    @property
    def pending_bytes(self) -> int:
        """Size of the partials in the buffer."""
        return sum(run.n_bytes for run in self._runs)

    def add(self, rows: BufferRows) -> Iterator[pa.Table]:
        """Add rows. Yield tables of partials with `schema` if the buffer overflows.

        Raises:
            ExecutionError: A sum overflows its type.
        """
        if len(rows.time_us) == 0:
            return
        run = self._aggregate(rows)
        if run.table.num_rows == 0:
            return
        if self.pending_bytes + run.n_bytes > self._buffer_bytes:
            self._merge()
            room = self._buffer_bytes - self.pending_bytes
            # At least half the buffer is free after this, so that the next merge pays.
            if room < max(run.n_bytes, self._buffer_bytes // 2):
                yield from self._overflow()
        self._runs.append(run)
        if self.pending_bytes > self._buffer_bytes:
            yield from self._overflow()

    def flush(self) -> Iterator[pa.Table]:
        """Empty the buffer and yield its partials as tables with `schema`."""
        self._merge()
        yield from self._emit()
        if self._overflown_bytes:
            self._overflown_bytes = 0
            _release_memory()

    def _overflow(self) -> Iterator[pa.Table]:
        """Emit a full buffer. Occasionally, first return freed memory to the operating system."""
        self._overflown_bytes += self.pending_bytes
        if self._overflown_bytes >= _RELEASE_BYTES:
            self._overflown_bytes = 0
            _release_memory()
        yield from self._emit()

    def _emit(self) -> Iterator[pa.Table]:
        """Yield the buffer's contents in portions, because later steps copy them a few times."""
        runs, self._runs = self._runs, []
        for tables in _portions(runs, self._portion_bytes):
            columns = [
                as_type(column, field.type)
                for column, field in zip(_concat(tables), self.schema, strict=True)
            ]
            yield pa.Table.from_arrays(columns, schema=self.schema)

    def _aggregate(self, rows: BufferRows) -> _Run:
        """Return the partials of one batch of rows."""
        n_rows = len(rows.time_us)
        slot, slot_end = slice_slots(rows.time_us, self._window, self._assigner)
        is_grouped = self._grouping.is_worth_trying()
        groups: Groups
        if is_grouped:
            keys = key_digits(rows.keys, n_rows, MAX_CELLS // len(slot_end))
            n_cells = keys.n_codes * len(slot_end)
            groups = group_cells(keys.codes * len(slot_end) + slot, n_cells)
            self._grouping.observe(len(groups), n_rows)
            key_codes = groups.cells // len(slot_end)
            slot = groups.cells - key_codes * len(slot_end)
            columns = keys.decode(key_codes)
        else:
            groups = SingleRows(n_rows)
            columns = [_normalise(key) for key in rows.keys]
        columns.append(_slice_ends(slot_end[slot]))
        for accumulator, types, args, condition in zip(
            self._accumulators, self._types, rows.args, rows.conditions, strict=True
        ):
            columns += aggregate_rows(accumulator, types, groups, args, condition)
        table = pa.Table.from_arrays(columns, names=self.schema.names)
        first = self._assigner.first_window_end(slot_end)
        in_window = first <= self._assigner.last_window_end(slot_end)
        if not in_window.all():
            is_in_window = in_window[slot]
            table, slot = table.filter(pa.array(is_in_window)), slot[is_in_window]
        n_items = self._items_of_slots(table, slot, len(slot_end))
        return _Run(table, slot_end, n_items, table_bytes(table))

    def _items_of_slots(self, table: pa.Table, slot: Int64Array, n_slots: int) -> Int64Array:
        """Return int64[n_slots]: the number of partials and list values in each slice."""
        n_items = np.ones(len(slot), np.int64)
        for accumulator in self._accumulators:
            if accumulator.is_listed_item:
                n_items += list_lengths(table.column(accumulator.columns[0]))
        return np.bincount(slot, n_items, n_slots).astype(np.int64)

    def _merge(self) -> None:
        """Merge the buffered partials if that reduces their number and memory suffices."""
        if not self._may_overlap() or not self._merging.is_worth_trying():
            return
        try:
            self._runs = [self._merge_runs()]
        except MemoryError:
            # If a worker's memory is limited, emit them unmerged: the global stage merges too.
            self._merging.gave_up()

    def _merge_runs(self) -> _Run:
        """Return the buffered partials, one for each key and slice."""
        tables = [run.table for run in self._runs]
        columns = dict(zip(self.schema.names, map(combine_chunks, _concat(tables)), strict=True))
        slot, distinct = distinct_codes(columns[self._slice_end])
        slot_end = int64_values(distinct)
        n_rows = len(slot)
        keys = key_digits(
            list(columns.values())[: self._n_keys], n_rows, MAX_CELLS // len(slot_end)
        )
        n_cells = keys.n_codes * len(slot_end)
        groups = group_cells(keys.codes * len(slot_end) + slot, n_cells)
        key_codes = groups.cells // len(slot_end)
        slot = groups.cells - key_codes * len(slot_end)
        merged = [*keys.decode(key_codes), _slice_ends(slot_end[slot])]
        for accumulator in self._accumulators:
            merged += merge_partials(accumulator, groups, [columns[c] for c in accumulator.columns])
        table = pa.Table.from_arrays(merged, names=self.schema.names)
        n_items = self._items_of_slots(table, slot, len(slot_end))
        self._merging.observe(n_items.sum(), sum(run.n_items.sum() for run in self._runs))
        return _Run(table, slot_end, n_items, table_bytes(table))

    def _may_overlap(self) -> bool:
        """Return whether the runs share slices to an extent that merging could pay.

        In each slice, merging removes at most the partials and values outside its largest run. This
        bound is cheap, and rules out merging at once for rows in order of time.
        """
        if len(self._runs) < 2:
            return False
        ends = np.concatenate([run.slice_ends for run in self._runs])
        count = np.concatenate([run.n_items for run in self._runs])
        slot, distinct = distinct_codes(pa.array(ends))
        largest = np.zeros(len(distinct), np.int64)
        np.maximum.at(largest, slot, count)
        return bool(largest.sum() <= _GOOD_RATIO * count.sum())


@dataclass(frozen=True)
class _Run:
    """Partials of one batch of rows, or merged ones.

    Attributes:
        table: Partials.
        slice_ends: int64[n], ends of their slices.
        n_items: int64[n], number of partials and list values in each slice.
        n_bytes: Size of the partials.
    """

    table: pa.Table
    slice_ends: Int64Array
    n_items: Int64Array
    n_bytes: int


class _CostControl:
    """Rule that decides whether to attempt a reduction, from the effect of the last one."""

    def __init__(self) -> None:
        self._skips = 0

    def is_worth_trying(self) -> bool:
        """Return whether to try again: False for a while after a try that did not pay off."""
        if self._skips == 0:
            return True
        self._skips -= 1
        return False

    def observe(self, n_after: int, n_before: int) -> None:
        """Record the result of a reduction."""
        self._skips = _PATIENCE if n_after > _GOOD_RATIO * n_before else 0

    def gave_up(self) -> None:
        """Record that a reduction was abandoned."""
        self._skips = _PATIENCE


def _slice_ends(slice_end: Int64Array) -> pa.Array:
    return from_buffer(slice_end, None, pa.int64(), len(slice_end))


def _portions(runs: list[_Run], portion_bytes: int) -> Iterator[list[pa.Table]]:
    """Yield the tables of the runs, combined or sliced to `portion_bytes`; empties `runs`.

    Memory of the yielded tables is released gradually.
    """
    runs.reverse()
    portion: list[pa.Table] = []
    size = 0
    while runs:
        run = runs.pop()
        table, n_bytes = run.table, run.n_bytes
        del run  # releases the table with the portion
        if portion and size + n_bytes > portion_bytes:
            yield portion
            portion, size = [], 0
        n_slices = -(-n_bytes // portion_bytes)
        if n_slices > 1:
            n_rows = -(-table.num_rows // n_slices)
            for start in range(0, table.num_rows, n_rows):
                yield [table.slice(start, n_rows)]
            continue
        portion.append(table)
        size += n_bytes
    if portion:
        yield portion


def _concat(tables: Sequence[pa.Table]) -> list[pa.ChunkedArray]:
    """Concatenate tables by column; decode a dictionary unless all tables have it."""
    if len(tables) == 1:
        columns: list[pa.ChunkedArray] = tables[0].columns
        return columns
    columns = []
    for parts in zip(*(table.columns for table in tables), strict=True):
        if len({part.type for part in parts}) > 1:
            parts = tuple(pa.chunked_array([one_chunk(part)]) for part in parts)
        columns.append(pa.chunked_array([chunk for part in parts for chunk in part.chunks]))
    return columns


def _normalise(key: pa.Array) -> pa.Array:
    return key if pa.types.is_dictionary(key.type) else normalise_floats(one_chunk(key))


def _release_memory() -> None:
    """Return memory freed by NumPy and Arrow to the operating system.

    Each of them reuses freed memory only for itself, and NumPy's free blocks lie between arrays in
    use. This takes some milliseconds, and later allocations page the memory in again. So call it
    when much memory has been freed, not for every batch.
    """
    _trim_heap()()
    pa.default_memory_pool().release_unused()


@cache
def _trim_heap() -> Callable[[], Any]:
    """Return glibc's malloc_trim, which also frees whole pages within the heap, or a no-op."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return lambda: None
    return lambda: trim(0)
