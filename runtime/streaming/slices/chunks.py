"""The live slices of a key group, stored in chunks.

A chunk is a table of partials of neighbouring slices in one blob. New partials are appended as new
chunks, so writing reads nothing. Chunks of the same slices are merged once there are several, and
read when a window fires. Chunks are grouped into slabs: a slab is one slice, or some neighbouring
slices if a window has very many, so a chunk can be dropped as soon as the last window of its slices
is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from runtime.compute.arrow.blobs import pieces
from runtime.compute.kernels.conversions import (
    BoolArray,
    Int64Array,
    table_bytes,
)
from runtime.spec.thresholds import Thresholds
from runtime.streaming.state.blobs import BlobStore
from runtime.streaming.state.metadata import Chunk, Slab
from runtime.streaming.state.partial_columns import StateColumns
from runtime.streaming.state.table_cache import (
    CACHE,
    PIECE_BYTES,
    read_table,
    remove_table,
    write_table,
)
from runtime.windows import AlignedWindow
from runtime.windows.assigner import SliceAssigner

# Slabs per window, approximately. More slabs free slices sooner: a slice stays for up to a slab's
# length after the last window that needs it. Fewer slabs mean fewer blobs to write for a
# micro-batch with many slices, and each blob costs calls to the JVM.
_SLABS_PER_WINDOW = 8


@dataclass
class _OpenSlab:
    """The slab of a micro-batch, which changes it; see `Slab`."""

    n_merged: int = 0
    chunks: list[Chunk] = field(default_factory=list)

    @property
    def n_rows(self) -> int:
        return sum(chunk.n_rows for chunk in self.chunks)


def slab_us(window: AlignedWindow) -> int:
    """Return the maximum time that the slices of a chunk cover, in microseconds."""
    return max(
        window.assigner().window_end_stride_us,
        window.slice_width_us * -(-window.slices_per_window // _SLABS_PER_WINDOW),
    )


class SliceState:
    """The live slices of one key group.

    Args:
        store: State that holds them.
        metadata: Return value of `metadata` at the end of the last micro-batch. Empty at first.
        windows: Windows of the slices.
        slab_us: Maximum time that the slices of a chunk cover.
        columns: Columns of the partials.
        thresholds: When chunks are merged.
        narrow_us: `slab_us` for slices with many rows. None means the same.

    Attributes:
        most_bytes: Largest number of bytes of partials merged at once in this micro-batch.
    """

    def __init__(
        self,
        store: BlobStore,
        metadata: Sequence[Slab],
        windows: SliceAssigner,
        slab_us: int,
        columns: StateColumns,
        thresholds: Thresholds,
        narrow_us: int | None = None,
    ) -> None:
        self._store = store
        self._windows = windows
        self._slab_us = slab_us
        self._is_read_apart = narrow_us is not None
        self._narrow_us = narrow_us or slab_us
        self._columns = columns
        self._thresholds = thresholds
        self.most_bytes = 0
        self._slabs: dict[int, _OpenSlab] = {
            slab.end_us: _OpenSlab(slab.n_merged, [*slab.chunks]) for slab in metadata
        }
        self._known_numbers: Int64Array | None = None

    def metadata(self) -> list[Slab]:
        """Return the metadata for the next micro-batch."""
        return [Slab(end, slab.n_merged, slab.chunks) for end, slab in self._slabs.items()]

    @property
    def n_rows(self) -> int:
        """Number of partials in state."""
        return int(self._numbers()[:, 0].sum())

    @property
    def n_bytes(self) -> int:
        """Size of their blobs."""
        return int(self._numbers()[:, 1].sum())

    def chunk_ends(self) -> tuple[Int64Array, Int64Array]:
        """Return the first and the last slice end of each chunk."""
        numbers = self._numbers()
        return numbers[:, 2], numbers[:, 3]

    def tables(self, is_read: BoolArray, *, is_last: bool = False) -> list[pa.Table]:
        """Read the partials of some chunks.

        Args:
            is_read: bool[chunks], in the order of `chunk_ends`.
            is_last: Whether they will not be read again soon.
        """
        chunks = self._chunks()
        places = np.flatnonzero(is_read).tolist()
        return [self._table(chunks[place], is_last=is_last) for place in places]

    def between(self, after_us: int, until_us: int) -> list[pa.Table]:
        """Read the partials of slices with `after_us` < slice end <= `until_us`.

        For computing spans: the chunks are not read again soon.
        """
        first, last = self.chunk_ends()
        tables = self.tables((last > after_us) & (first <= until_us), is_last=True)
        return self._columns.between(tables, after_us, until_us)

    def remove(self, is_removed: BoolArray) -> None:
        """Drop some chunks, given as bool[chunks] in the order of `chunk_ends`."""
        chunks = [(slab, chunk) for slab in self._slabs.values() for chunk in slab.chunks]
        for place in np.flatnonzero(is_removed).tolist():
            self._remove(*chunks[place])
        self._forget_empty_slabs()

    def take(self, slab_end_us: int, is_taken: Callable[[pa.Table], BoolArray]) -> pa.Table | None:
        """Take some partials of a slab out of state. None if there are none.

        Args:
            slab_end_us: End of the slab.
            is_taken: Returns which partials to take, from one per key and slice.
        """
        slab = self._slabs.get(slab_end_us)
        if slab is None:
            return None
        merged = self._merge([self._table(chunk) for chunk in slab.chunks])
        taken = is_taken(merged)
        if not taken.any():
            return None
        for chunk in [*slab.chunks]:
            self._remove(slab, chunk)
        self._write(slab, merged.filter(pa.array(~taken)))
        slab.n_merged = slab.n_rows
        self._forget_empty_slabs()
        return merged.filter(pa.array(taken))

    def append(self, table: pa.Table) -> None:
        """Store more partials. Their slices may have some already."""
        if table.num_rows == 0:
            return
        ends = self._columns.ends(table)
        n_slices = int(ends.max() - ends.min()) // self._narrow_us + 1
        slab_rows = self._thresholds.slices_slab_rows
        self._append(table, ends, self._width_of(slab_rows * n_slices // len(ends) + 1))
        if self._columns.drops_zeros:
            self._forget_empty_slabs()

    def _width_of(self, n_slices: int) -> int:
        """Return the slab width for about `n_slices` slices, at least `_narrow_us`.

        Widths double from one to the next. Slabs with few rows span many slices, and those with
        many rows span few.
        """
        return min(self._slab_us, self._narrow_us << (max(1, n_slices).bit_length() - 1))

    def _append(self, table: pa.Table, ends: Int64Array, width_us: int) -> None:
        limits = self._thresholds
        slabs = ends - ends % -width_us
        distinct = np.unique(slabs)
        for end in distinct.tolist():
            is_in = slabs == end
            part = table.filter(pa.array(is_in)) if len(distinct) > 1 else table
            if end not in self._slabs and self._is_read_apart:
                self._merge_before(end)
            slab = self._slabs.setdefault(end, _OpenSlab())
            if slab.n_rows >= limits.slices_slab_rows and width_us > self._narrow_us:
                half = self._width_of((width_us - 1) // self._narrow_us)
                self._append(part, ends[is_in], half)
                continue
            small_bytes = limits.slices_small_chunk_bytes
            small = [chunk for chunk in slab.chunks if chunk.n_bytes < small_bytes]
            if slab.n_rows + part.num_rows > 2 * slab.n_merged + limits.slices_merge_rows:
                merged = self._merge([*self._take(slab, slab.chunks), part])
                self._write(slab, merged)
                slab.n_merged = merged.num_rows
            elif len(small) >= limits.slices_max_small_chunks:
                alike = _alike(small, part.num_rows, limits.merge_size_ratio)
                self._write(slab, self._merge([*self._take(slab, alike), part]))
            else:
                self._write(slab, self._merge([part]))

    def _merge_before(self, end_us: int) -> None:
        """Merge the slab before a new one: few more rows will arrive for it.

        This keeps the number of chunks to store and read low while windows need them.
        """
        before = max((end for end in self._slabs if end < end_us), default=None)
        if before is None:
            return
        slab = self._slabs[before]
        # rewriting a large chunk for a few late rows costs more than reading them separately
        slab_rows = self._thresholds.slices_slab_rows
        chunks = [chunk for chunk in slab.chunks if chunk.n_rows < slab_rows]
        if len(chunks) > 1:
            self._write(slab, self._merge(self._take(slab, chunks)))
            slab.n_merged = slab.n_rows

    def cumulate(self, until_us: int) -> None:
        """Merge all slices up to `until_us` into one slice that ends there.

        For windows that grow: the contents of a largest window so far become one slice. Chunks that
        reach further past `until_us` than before it are left for later, so slices that are not
        closed are not rewritten for each step that closes.
        """
        old = [
            (slab, chunk)
            for slab in self._slabs.values()
            for chunk in slab.chunks
            if chunk.first_us <= until_us and chunk.last_us - until_us <= until_us - chunk.first_us
        ]
        if not old or (len(old) == 1 and old[0][1].first_us == old[0][1].last_us):
            return
        table = pa.concat_tables(
            chunk_table for slab, chunk in old for chunk_table in self._take(slab, [chunk])
        )
        ends = self._columns.ends(table)
        is_live = self._windows.last_window_end(ends) > until_us
        if not is_live.all():
            # drop slices of an older largest window, in a chunk that is still stored
            table, ends = table.filter(pa.array(is_live)), ends[is_live]
        ends = np.maximum(ends, until_us)
        table = self._columns.with_ends(table, ends)
        is_later = ends > until_us
        if is_later.any():
            # a chunk of several slices may hold some that are not closed yet
            self.append(table.filter(pa.array(is_later)))
            table = table.filter(pa.array(~is_later))
        if table.num_rows:
            slab = self._slabs.setdefault(until_us - until_us % -self._slab_us, _OpenSlab())
            merged = self._merge([table])
            self._write(slab, merged)
            slab.n_merged = max(slab.n_merged, merged.num_rows)
        self._forget_empty_slabs()

    def _merge(self, tables: list[pa.Table]) -> pa.Table:
        self.most_bytes = max(self.most_bytes, sum(map(table_bytes, tables)))
        return self._columns.merge(tables)

    def _write(self, slab: _OpenSlab, table: pa.Table) -> None:
        for piece in pieces(table, PIECE_BYTES) if table.num_rows else ():
            name, n_bytes = write_table(self._store, piece)
            CACHE.put(name, piece)
            ends = self._columns.ends(piece)
            bounds = int(ends.min()), int(ends.max())
            slab.chunks.append(Chunk(name, piece.num_rows, n_bytes, *bounds))
            self._known_numbers = None

    def _take(self, slab: _OpenSlab, chunks: list[Chunk]) -> list[pa.Table]:
        """Read some chunks and remove them."""
        tables = [self._table(chunk, is_last=True) for chunk in chunks]
        for chunk in list(chunks):
            self._remove(slab, chunk)
        return tables

    def _remove(self, slab: _OpenSlab, chunk: Chunk) -> None:
        remove_table(self._store, chunk.name)
        slab.chunks.remove(chunk)
        self._known_numbers = None

    def _forget_empty_slabs(self) -> None:
        self._slabs = {end: slab for end, slab in self._slabs.items() if slab.chunks}

    def _table(self, chunk: Chunk, *, is_last: bool = False) -> pa.Table:
        return self._columns.of(read_table(self._store, chunk.name, is_last=is_last))

    def _numbers(self) -> Int64Array:
        """Return int64[chunks, 4]: rows, bytes, first and last slice end of each chunk."""
        if self._known_numbers is None:
            numbers = [chunk[1:] for chunk in self._chunks()]
            self._known_numbers = np.array(numbers, np.int64).reshape(-1, 4)
        return self._known_numbers

    def _chunks(self) -> list[Chunk]:
        return [chunk for slab in self._slabs.values() for chunk in slab.chunks]


def _alike(chunks: Sequence[Chunk], n_rows: int, ratio: int) -> list[Chunk]:
    """Return the chunks to merge with `n_rows` new rows: none is much larger than the others.

    Args:
        chunks: Candidates.
        n_rows: Number of new rows.
        ratio: A chunk with more than this many times the rows of the smaller ones is left alone.
    """
    similar: list[Chunk] = []
    for chunk in sorted(chunks, key=lambda chunk: chunk.n_rows):
        if chunk.n_rows > ratio * n_rows:
            break
        similar.append(chunk)
        n_rows += chunk.n_rows
    return similar or list(chunks)
