"""Slices that are merged when a window fires: the store without running aggregates."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.conversions import BoolArray, Int64Array, table_bytes
from runtime.compute.kernels.merge import merge_slices
from runtime.spec.thresholds import Thresholds
from runtime.streaming.slices.levels import SharedSpec, SliceLevels
from runtime.streaming.slices.spans import Slices
from runtime.streaming.slices.store import Horizon
from runtime.streaming.state.blobs import BlobStore
from runtime.streaming.state.key_sets import KeySet
from runtime.streaming.state.metadata import SliceMetadata
from runtime.streaming.state.ranges import Range


class PlainSlices:
    """Plain `SliceStore`.

    Args:
        spec: Window aggregations and their partials.
        blobs: State that holds the slices.
        metadata: Return value of `metadata` at the end of the last micro-batch.
        thresholds: When chunks of slices are merged.
    """

    def __init__(
        self, spec: SharedSpec, blobs: BlobStore, metadata: SliceMetadata, thresholds: Thresholds
    ) -> None:
        self._columns = spec.columns
        self._generation = metadata.generation
        self._levels = SliceLevels(spec, blobs, metadata.levels, thresholds)
        self.readers = self._levels.readers
        # partials of this micro-batch, each with its readers as bits
        self._new: list[tuple[int, pa.Table]] = []
        self._most_bytes = 0

    def add(self, partials: Sequence[pa.Table], horizon: Horizon) -> list[list[pa.Table]]:
        """See `SliceStore`."""
        closed_us, levels = horizon.closed_us[0], self._levels
        for table in partials:
            self._new += levels.assign(table, closed_us, levels.all_readers)
        return [self.new_partials(number) for number in range(len(self.readers))]

    def new_partials(self, reader: int) -> list[pa.Table]:
        """Return the partials of this micro-batch that a reader reads."""
        return [table for members, table in self._new if members >> reader & 1]

    def windows(
        self, reader: int, ends: Range, keys: KeySet | None = None
    ) -> Iterator[pa.RecordBatch]:
        """See `SliceStore`."""
        yield from self.merge(reader, self.tables(reader, ends), ends, keys)

    def tables(self, reader: int, ends: Range) -> list[pa.Table]:
        """Read the partials of a reader's windows with `ends[0]` < window end <= `ends[1]`."""
        slice_reader = self.readers[reader]
        if slice_reader.assigner.next_window_end(ends[0]) > ends[1]:
            return []
        return [
            *self._levels.read(reader, *ends),
            *map(slice_reader.reader_table, self.new_partials(reader)),
        ]

    def merge(
        self, reader: int, tables: Sequence[pa.Table], ends: Range, keys: KeySet | None
    ) -> Generator[pa.RecordBatch, None, int]:
        """Yield the windows of partials. Returns the number of results."""
        if keys is not None:
            tables = [rows for rows in map(keys.rows, tables) if rows.num_rows]
        if not tables:
            return 0
        self._most_bytes = max(self._most_bytes, sum(map(table_bytes, tables)))
        n_results = 0
        aggregation = self.readers[reader].spec.aggregation
        for batch in merge_slices(pa.concat_tables(tables), aggregation, window_ends=ends):
            n_results += batch.num_rows
            yield batch
        return n_results

    def take(self, slab_end_us: int, is_taken: Callable[[pa.Table], BoolArray]) -> pa.Table | None:
        """Take stored partials of a single reader out of state, as `SliceState.take`."""
        return self._levels.take(slab_end_us, is_taken)

    def slices(self, reader: int) -> Slices:
        """Return a function that reads a reader's partials in a time range, including new ones."""
        slice_reader = self.readers[reader]

        def read(after_us: int, until_us: int) -> list[pa.Table]:
            stored = self._levels.between(reader, after_us, until_us)
            new = self._columns.between(self.new_partials(reader), after_us, until_us)
            return [*stored, *map(slice_reader.to_reader_slices, new)]

        return read

    def rows_of(self, reader: int) -> int:
        """Return the number of a reader's partials."""
        n_new: int = sum(table.num_rows for table in self.new_partials(reader))
        return self._levels.rows_of(reader) + n_new

    def window_ends(self, reader: int) -> tuple[Int64Array, Int64Array]:
        """See `SliceStore`."""
        slice_reader = self.readers[reader]
        first, last = self._levels.chunk_ends(reader)
        ends = [self._columns.ends(table) for table in self.new_partials(reader)]
        return (
            slice_reader.first_window_end(np.concatenate([first, *ends])),
            slice_reader.last_window_end(np.concatenate([last, *ends])),
        )

    def expire(self, closed_us: int | None) -> None:
        """See `SliceStore`."""
        self._levels.keep(self._new, closed_us)
        self._new = []

    def metadata(self) -> SliceMetadata:
        """See `SliceStore`."""
        return SliceMetadata(self._levels.metadata(), {}, self._generation)

    @property
    def n_rows(self) -> int:
        """See `SliceStore`."""
        return self._levels.n_rows

    @property
    def n_bytes(self) -> int:
        """See `SliceStore`."""
        return self._levels.n_bytes

    @property
    def most_bytes(self) -> int:
        """See `SliceStore`."""
        return max(self._most_bytes, self._levels.most_bytes)
