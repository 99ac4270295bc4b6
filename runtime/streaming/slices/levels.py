"""Slices of a key group, stored once for all window aggregations that read them.

A slice is kept while any reader has an open window with that slice. It is as fine as its remaining
readers require: slices that only wide windows still need are merged into wide slices. So slices are
stored on levels, one for each set of readers: a level holds the slices that exactly these readers
need. A set is an integer whose bits are the readers' numbers.

    TUMBLE 1 min, HOP 5 min by 1 min, TUMBLE 1 h; the watermark is at 12:34:30

    12:00          12:29                         12:34  12:35
      |              |                             |......|   all three: 1 min wide
      |              |.....|.....|.....|.....|.....|          the same: HOP needs the minutes
      |::::::::::::::|                                        TUMBLE 1 h alone: 1 h wide

The contents of a CUMULATE window so far are one slice. A CUMULATE reader gets its own copy of a
slice as soon as the slice's step has closed. A single reader has one level, of its own slices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import gcd

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.conversions import BoolArray, Int64Array
from runtime.plan.streams import SliceStoreKind, StreamReader
from runtime.spec.aggregates import Accumulator, WindowAggregation
from runtime.spec.thresholds import Thresholds
from runtime.streaming.slices.chunks import SliceState, slab_us
from runtime.streaming.state.blobs import BlobStore
from runtime.streaming.state.metadata import Level, Slab
from runtime.streaming.state.partial_columns import StateColumns
from runtime.windows.assigner import SliceAssigner
from runtime.windows.tumble import Tumble

_NO_ENDS: Int64Array = np.zeros(0, np.int64)


@dataclass(frozen=True)
class SharedSpec:
    """State shared by the readers. The same for all key groups.

    Attributes:
        readers: Window aggregations.
        columns: Columns of the partials.
    """

    readers: tuple[StreamReader, ...]
    columns: StateColumns

    @cached_property
    def open_readers(self) -> list[Reader]:
        """The windows of each reader, which have no state."""
        return [Reader(self, number) for number in range(len(self.readers))]

    @cached_property
    def columns_of_levels(self) -> dict[int, StateColumns]:
        """Columns of the levels that have been opened, by their members."""
        return {}


def one_reader(
    aggregation: WindowAggregation,
    partials: tuple[Accumulator, ...],
    sources: tuple[tuple[str, str], ...] = (),
    store: SliceStoreKind = SliceStoreKind.PLAIN,
) -> SharedSpec:
    """Return the spec of a window aggregation that shares its slices with no other.

    With a time-to-live of state, keys without rows are dropped with the expired ones.
    """
    drops_zeros = aggregation.remaining is not None and aggregation.window.state_ttl_us is None
    columns = StateColumns(
        aggregation.keys,
        aggregation.slice_end,
        partials,
        sources,
        drops_zeros=drops_zeros,
    )
    names = tuple((name, name) for name in columns.names)
    reader = StreamReader("", aggregation, None, names, store)
    return SharedSpec((reader,), columns)


class Reader:
    """The windows of one aggregation, over slices that may be finer than its own.

    Args:
        shared: Spec of the shared state.
        number: Number of the reader.

    Attributes:
        spec: Aggregation.
        is_alone: Whether it is the only reader, so that the slices are its own.
        columns: Columns of the shared partials that it reads.
    """

    def __init__(self, shared: SharedSpec, number: int) -> None:
        self.spec = shared.readers[number]
        self.is_alone = len(shared.readers) == 1
        window = self.spec.aggregation.window
        assert window.has_slices
        read = {name for name, _ in self.spec.columns}
        partials = shared.columns.accumulators
        accumulators = tuple(
            accumulator for accumulator in partials if read.intersection(accumulator.columns)
        )
        self.columns = replace(shared.columns, accumulators=accumulators)
        self.assigner = window.assigner()
        self.grows = window.grows and self.assigner.is_shared
        self.slab_us = slab_us(window)

    def reader_slice_end(self, slice_end: Int64Array) -> Int64Array:
        """Return for each slice the end of the reader's own slice that contains it."""
        return slice_end if self.is_alone else self.assigner.slice_end(slice_end - 1)

    def first_window_end(self, slice_end: Int64Array) -> Int64Array:
        """Return for each slice the end of the reader's first window that contains it."""
        return self.assigner.first_window_end(self.reader_slice_end(slice_end))

    def last_window_end(self, slice_end: Int64Array) -> Int64Array:
        """Return for each slice the end of the reader's last window that contains it."""
        return self.assigner.last_window_end(self.reader_slice_end(slice_end))

    def to_reader_slices(self, table: pa.Table) -> pa.Table:
        """Return the shared partials that the reader reads, on its own slices."""
        if self.is_alone:
            return table
        table = table.select(self.columns.names)
        return self.columns.with_ends(table, self.reader_slice_end(self.columns.ends(table)))

    def reader_table(self, table: pa.Table) -> pa.Table:
        """Return shared partials with the names and the slices of the aggregation."""
        return table if self.is_alone else self.rename_columns(self.to_reader_slices(table))

    def rename_columns(self, table: pa.Table) -> pa.Table:
        """Return partials on the reader's own slices with the names of the aggregation."""
        if self.is_alone:
            return table
        columns = [table.column(name) for name, _ in self.spec.columns]
        return pa.table(columns, [reader_name for _, reader_name in self.spec.columns])


class SliceLevels:
    """The live slices of one key group, by level.

    Args:
        spec: Spec of the shared state.
        store: State that holds the slices.
        metadata: Return value of `metadata` at the end of the last micro-batch. Empty at first.
        thresholds: When chunks are merged.
    """

    def __init__(
        self, spec: SharedSpec, store: BlobStore, metadata: Sequence[Level], thresholds: Thresholds
    ) -> None:
        self._spec = spec
        self._store = store
        self._thresholds = thresholds
        self.readers = spec.open_readers
        self.all_readers = (1 << len(spec.readers)) - 1
        self._growing = sum(1 << i for i, reader in enumerate(self.readers) if reader.grows)
        self._levels: dict[int, _Level] = {
            level.members: self._level(level.members, level.slabs) for level in metadata
        }

    def metadata(self) -> list[Level]:
        """Return the metadata for the next micro-batch."""
        return [Level(members, level.state.metadata()) for members, level in self._levels.items()]

    @property
    def n_rows(self) -> int:
        """Number of partials in state."""
        return sum(level.state.n_rows for level in self._levels.values())

    @property
    def n_bytes(self) -> int:
        """Size of their blobs."""
        return sum(level.state.n_bytes for level in self._levels.values())

    @property
    def most_bytes(self) -> int:
        """Largest number of bytes of partials merged at once in this micro-batch."""
        return max((level.state.most_bytes for level in self._levels.values()), default=0)

    def chunk_ends(self, reader: int) -> tuple[Int64Array, Int64Array]:
        """Return the first and the last slice end of each chunk that a reader reads."""
        pairs = [level.state.chunk_ends() for level in self._levels_of(reader)]
        if not pairs:
            return _NO_ENDS, _NO_ENDS
        first, last = zip(*pairs, strict=True)
        return np.concatenate(first), np.concatenate(last)

    def read(self, number: int, after_us: int, until_us: int) -> Iterator[pa.Table]:
        """Read a reader's partials for its windows with `after_us` < window end <= `until_us`.

        Chunks are read as a whole, so partials of other slices are included.
        """
        reader = self.readers[number]
        for level in self._levels_of(number):
            first, last = level.state.chunk_ends()
            is_read = (reader.first_window_end(first) <= until_us) & (
                reader.last_window_end(last) > after_us
            )
            for table in level.state.tables(is_read):
                yield reader.reader_table(table)

    def between(self, number: int, after_us: int, until_us: int) -> list[pa.Table]:
        """Read a reader's partials with `after_us` < slice end <= `until_us`, on its own slices."""
        reader = self.readers[number]
        return [
            reader.to_reader_slices(table)
            for level in self._levels_of(number)
            for table in level.state.between(after_us, until_us)
        ]

    def take(self, slab_end_us: int, is_taken: Callable[[pa.Table], BoolArray]) -> pa.Table | None:
        """Take partials of a single reader out of state, as `SliceState.take`."""
        (number,) = range(len(self.readers))
        level = self._levels.get(1 << number)
        return None if level is None else level.state.take(slab_end_us, is_taken)

    def rows_of(self, reader: int) -> int:
        """Return the number of partials in state for a reader."""
        return sum(level.state.n_rows for level in self._levels_of(reader))

    def assign(
        self, table: pa.Table, closed_us: int | None, among: int
    ) -> Iterator[tuple[int, pa.Table]]:
        """Assign partials to levels: yield (set of readers, partials for these readers).

        Args:
            table: Partials.
            closed_us: Windows that end at or before this are closed.
            among: Readers that the partials are for.
        """
        needed_by, apart = self._readers_of(self._spec.columns.ends(table), closed_us, among)
        for alone, is_apart in apart.items():
            if is_apart.any():
                yield alone, table.filter(pa.array(is_apart))
        if len(needed_by) and (needed_by == needed_by[0]).all():
            if needed_by[0]:
                yield self._level_for(int(needed_by[0]), among), table
            return
        for members in np.unique(needed_by).tolist():
            if members:
                yield self._level_for(members, among), table.filter(pa.array(needed_by == members))

    def keep(self, accepted: Sequence[tuple[int, pa.Table]], closed_us: int | None) -> None:
        """Free closed slices, merge those that only wider windows need, and store new ones.

        Args:
            accepted: New partials, as assigned by `assign`.
            closed_us: Windows that end at or before this are closed.
        """
        to_store = list(accepted)
        if closed_us is not None:
            for members, level in self._levels.items():
                to_store += [
                    (members, table) for table in self._take_misplaced(members, level, closed_us)
                ]
        homes: dict[int, list[pa.Table]] = {}
        for members, table in to_store:
            for home, part in self.assign(table, closed_us, members):
                homes.setdefault(home, []).append(part)
        for home, tables in homes.items():
            if home not in self._levels:
                self._levels[home] = self._level(home, ())
            self._levels[home].append(tables)
        if closed_us is not None:
            for number in _numbers(self._growing):
                if 1 << number in self._levels:
                    until_us = self.readers[number].assigner.previous_window_end(closed_us)
                    self._levels[1 << number].state.cumulate(until_us)
        self._levels = {m: level for m, level in self._levels.items() if level.state.n_rows}

    def _readers_of(
        self, ends: Int64Array, closed_us: int | None, among: int
    ) -> tuple[Int64Array, dict[int, BoolArray]]:
        """Return which readers need the slices with these ends.

        Returns:
            The set of readers of each slice; and, for each reader whose windows grow (as a set of
            one), the slices of its closed steps, which are stored for it alone.
        """
        needed_by = np.zeros(len(ends), np.int64)
        apart: dict[int, BoolArray] = {}
        for number in _numbers(among):
            reader, alone = self.readers[number], 1 << number
            slice_end = reader.reader_slice_end(ends)
            last = reader.assigner.last_window_end(slice_end)
            is_needed = reader.assigner.first_window_end(slice_end) <= last
            if closed_us is not None:
                is_needed &= last > closed_us
                if reader.grows and among != alone:
                    apart[alone] = is_needed & (slice_end <= closed_us)
                    is_needed &= ~apart[alone]
            needed_by |= np.where(is_needed, alone, 0)
        return needed_by, apart

    def _levels_of(self, reader: int) -> list[_Level]:
        """Return the levels that a reader reads."""
        return [level for members, level in self._levels.items() if members >> reader & 1]

    def _take_misplaced(self, members: int, level: _Level, closed_us: int) -> list[pa.Table]:
        """Remove chunks that no longer belong to a level. Return those that are still needed."""
        _, last = level.state.chunk_ends()
        needed_by, apart = self._readers_of(last, closed_us, members)
        is_apart = np.logical_or.reduce([*apart.values(), np.zeros(len(last), np.bool_)])
        stay = [
            m for m in np.unique(needed_by).tolist() if m and self._level_for(m, members) == members
        ]
        is_gone = is_apart | ~np.isin(needed_by, stay)
        moved = level.state.tables(is_gone & (is_apart | (needed_by > 0)))
        level.state.remove(is_gone)
        return moved

    def _level_for(self, members: int, among: int) -> int:
        """Return the level for slices that `members` need.

        It is shared with other readers from `among`, the readers of the slices so far, if that
        makes the slices no finer. CUMULATE readers that do not need the slices are left out.
        """
        together = members | (among & ~self._growing)
        if together == members:
            return members
        return together if self._slices(together) == self._slices(members) else members

    def _slices(self, members: int) -> Tumble:
        slices = [self._spec.readers[number].slices for number in _numbers(members)]
        return common_slices(tuple(tumble for tumble in slices if tumble is not None))

    def _level(self, members: int, slabs: Sequence[Slab]) -> _Level:
        """Create the level of a set of readers."""
        spec = self._spec
        readers = [self.readers[number] for number in _numbers(members)]
        columns = spec.columns_of_levels.get(members)
        if columns is None:
            partials = spec.columns.accumulators
            read = tuple(p for p in partials if any(p in r.columns.accumulators for r in readers))
            columns = replace(spec.columns, accumulators=read)
            spec.columns_of_levels[members] = columns
        if len(readers) == 1:
            assigner = readers[0].assigner
        else:
            assigner = self._slices(members).assigner()
        # with several readers, chunks follow the windows of each
        slab = min(reader.slab_us for reader in readers)
        is_own = readers[0].is_alone
        # CUMULATE closes its steps one by one
        has_running = readers[0].spec.store is SliceStoreKind.RUNNING_AGGREGATES
        is_read_apart = is_own and (has_running or readers[0].grows)
        state = SliceState(
            self._store,
            slabs,
            assigner,
            slab,
            columns,
            self._thresholds,
            readers[0].assigner.window_end_stride_us if is_read_apart else None,
        )
        return _Level(None if is_own else assigner, columns, state)


@dataclass(frozen=True)
class _Level:
    """The slices of a set of readers.

    Attributes:
        assigner: Assigns partials to the level's slices. None if they are on them already.
        columns: Columns that any of the readers reads.
        state: Stored slices.
    """

    assigner: SliceAssigner | None
    columns: StateColumns
    state: SliceState

    def append(self, tables: Sequence[pa.Table]) -> None:
        """Store partials of slices that are as fine or finer."""
        table = pa.concat_tables([table.select(self.columns.names) for table in tables])
        if self.assigner is not None:
            ends = self.assigner.slice_end(self.columns.ends(table) - 1)
            table = self.columns.with_ends(table, ends)
        self.state.append(table)


@cache
def common_slices(slices: tuple[Tumble, ...]) -> Tumble:
    """Return the widest slices of one width that divide all of `slices`."""
    first = slices[0]
    apart = (tumble.offset_us - first.offset_us for tumble in slices)
    width = gcd(*(tumble.size_us for tumble in slices), *apart)
    return Tumble(width, first.offset_us % width)


def _numbers(members: int) -> list[int]:
    """Return the numbers of the readers in a set."""
    return [number for number in range(members.bit_length()) if members >> number & 1]
