"""Rows in state by partition: chunks from which the rows of single partitions can be taken.

A partition has a mark, a hash of a few bits, and the rows of all partitions with some marks are
taken together. Chunks are not rewritten when rows are taken: a bitmap records which ones are gone.
Chunks of similar size are merged when there are many, as in a log-structured merge tree (O'Neil and
others, 1996).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from runtime.compute.arrow.blobs import pieces
from runtime.compute.kernels.columns import BoolArray, Int64Array, int64_column
from runtime.spec.thresholds import Thresholds
from runtime.streaming.state.blobs import BlobStore, required_blob
from runtime.streaming.state.codec import decode_bits, decode_table, encode_bits
from runtime.streaming.state.key_sets import marks_of
from runtime.streaming.state.metadata import MarkedChunk
from runtime.streaming.state.table_cache import CACHE, remove_table, unique_name, write_table
from runtime.windows.times import FIRST_TIME, LAST_TIME

MARK = "$mark"


class MarkedChunks:
    """Rows with partition columns, FIRST_TIME and LAST_TIME.

    Args:
        store: State that holds the chunks.
        partition: Partition columns.
        thresholds: Number of marks, and when chunks are merged.
        chunks: Attribute `chunks` at the end of the last micro-batch. Empty at first.
        read: Returns a stored table with the columns that the operator needs, and MARK.

    Attributes:
        chunks: Chunks in state.
    """

    def __init__(
        self,
        store: BlobStore,
        partition: Sequence[str],
        thresholds: Thresholds,
        chunks: Sequence[MarkedChunk],
        read: Callable[[pa.Table], pa.Table] = lambda table: table,
    ) -> None:
        self._store = store
        self._partition = partition
        self._thresholds = thresholds
        self._read = read
        self.chunks = [*chunks]

    @property
    def size(self) -> tuple[int, int]:
        """Number of rows, and bytes of their blobs."""
        n_rows = sum(chunk.n_rows for chunk in self.chunks)
        return n_rows, sum(chunk.n_bytes for chunk in self.chunks)

    @property
    def runs(self) -> set[str]:
        """Names of all runs."""
        return {chunk.run for chunk in self.chunks}

    def marks(self, table: pa.Table) -> Int64Array:
        """Return the mark of each row's partition."""
        columns = [table.column(name) for name in self._partition]
        return marks_of(columns, len(table), self._thresholds.sessions_n_marks)

    def no_marks(self) -> BoolArray:
        """Return one element per mark, all False."""
        return np.zeros(self._thresholds.sessions_n_marks, np.bool_)

    def mark_ends(self, is_marked: BoolArray, until_us: int, after_us: int | None = None) -> None:
        """Mark the partitions of rows with `after_us` < LAST_TIME <= `until_us`.

        Args:
            is_marked: One element per mark. Marks of the partitions become True.
            until_us: Latest LAST_TIME.
            after_us: None means no lower bound.
        """
        for chunk in self.chunks:
            if chunk.last_us > until_us:
                continue
            table = self._table(chunk)
            last_us = int64_column(table, LAST_TIME)
            ends = (last_us <= until_us) & self._is_remaining(chunk, table)
            if after_us is not None:
                ends &= last_us > after_us
            is_marked[int64_column(table, MARK)[ends]] = True

    def mark_runs(self, is_marked: BoolArray, runs: Iterable[str]) -> None:
        """Mark the partitions of all rows in some runs."""
        for chunk in self.chunks:
            if chunk.run in runs:
                table = self._table(chunk)
                is_marked[int64_column(table, MARK)[self._is_remaining(chunk, table)]] = True

    def append(
        self, table: pa.Table, merge: Callable[[pa.Table], pa.Table] = lambda table: table
    ) -> set[str]:
        """Write rows as new chunks; if there are many runs, merge some of them first.

        Args:
            table: Rows.
            merge: Merges the rows of several runs. By default they stay as they are.

        Returns:
            The runs that were merged with the rows. They are no longer in `runs`.
        """
        runs = Counter[str]()
        for chunk in self.chunks:
            runs[chunk.run] += chunk.n_rows
        if len(runs) < self._thresholds.sessions_max_runs:
            self._write(table)
            return set()
        alike, n_rows = set[str](), len(table)
        for run, n_rows_of_run in sorted(runs.items(), key=lambda run: run[1]):
            if alike and n_rows_of_run > self._thresholds.merge_size_ratio * n_rows:
                break
            alike.add(run)
            n_rows += n_rows_of_run
        chunks = [chunk for chunk in self.chunks if chunk.run in alike]
        self._write(merge(pa.concat_tables([*self._take(chunks), table])))
        return alike

    def take_marked(self, is_marked: BoolArray) -> Iterator[tuple[str, pa.Table]]:
        """Take the rows of partitions with some marks out of their chunks.

        Args:
            is_marked: One element per mark.

        Yields:
            (run, its rows), without MARK.
        """
        for place, chunk in reversed(list(enumerate(self.chunks))):
            table = self._table(chunk)
            is_there = self._is_remaining(chunk, table)
            is_taken = is_marked.take(int64_column(table, MARK)) & is_there
            if not is_taken.any():
                continue
            yield chunk.run, table.filter(pa.array(is_taken)).drop_columns([MARK])
            is_there &= ~is_taken
            if not is_there.any():
                self._remove(chunk)
            else:
                self.chunks[place] = self._without(chunk, table, is_there)

    def rows_marked(self, is_marked: BoolArray) -> list[pa.Table]:
        """Return the rows of partitions with some marks, without MARK. They stay in their chunks.

        Args:
            is_marked: One element per mark.
        """
        tables = []
        for chunk in self.chunks:
            table = self._table(chunk)
            places = np.flatnonzero(is_marked.take(int64_column(table, MARK)))
            if len(places):
                places = places[self._is_remaining(chunk, table)[places]]
                tables.append(table.drop_columns([MARK]).take(pa.array(places)))
        return tables

    def take_all(self) -> list[pa.Table]:
        """Take all rows, without MARK."""
        return self._take([*self.chunks])

    def clear(self) -> None:
        """Remove all rows."""
        for chunk in [*self.chunks]:
            self._remove(chunk)

    def _write(self, table: pa.Table) -> None:
        if not table.num_rows:
            return  # its rows have been deleted
        run = unique_name()
        # sorted by time, so that rows of ending sessions are in few chunks
        for piece in pieces(table.sort_by(FIRST_TIME)):
            first_us, last_us = (int(int64_column(piece, t).min()) for t in (FIRST_TIME, LAST_TIME))
            name, n_bytes = write_table(self._store, piece)
            CACHE.put(name, self._add_marks(piece))
            rows = piece.num_rows
            self.chunks.append(MarkedChunk(name, rows, n_bytes, first_us, last_us, run))

    def _take(self, chunks: Sequence[MarkedChunk]) -> list[pa.Table]:
        """Return the rows of some chunks, and remove the chunks."""
        tables = []
        for chunk in chunks:
            table = self._table(chunk)
            is_there = self._is_remaining(chunk, table)
            table = table if is_there.all() else table.filter(pa.array(is_there))
            tables.append(table.drop_columns([MARK]))
            self._remove(chunk)
        return tables

    def _without(self, chunk: MarkedChunk, table: pa.Table, is_there: BoolArray) -> MarkedChunk:
        """Return a chunk that has only some of its rows left."""
        if chunk.taken is not None:
            self._store.remove(chunk.taken)
        taken_blob = unique_name()
        self._store.put(taken_blob, encode_bits(~is_there))
        first_us, last_us = (
            int(int64_column(table, name)[is_there].min()) for name in (FIRST_TIME, LAST_TIME)
        )
        n_rows = int(np.count_nonzero(is_there))
        return chunk._replace(n_rows=n_rows, first_us=first_us, last_us=last_us, taken=taken_blob)

    def _is_remaining(self, chunk: MarkedChunk, table: pa.Table) -> BoolArray:
        """Return which rows of a chunk have not been taken."""
        if chunk.taken is None:
            return np.ones(len(table), np.bool_)
        return ~decode_bits(required_blob(self._store, chunk.taken), len(table))

    def _table(self, chunk: MarkedChunk) -> pa.Table:
        """Return all rows of a chunk with their marks, including those that were taken."""
        table = CACHE.get(chunk.name)
        if table is None:
            table = self._add_marks(decode_table(required_blob(self._store, chunk.name)))
            CACHE.put(chunk.name, table)
        return self._read(table)

    def _add_marks(self, table: pa.Table) -> pa.Table:
        return table.append_column(MARK, pa.array(self.marks(table)))

    def _remove(self, chunk: MarkedChunk) -> None:
        self.chunks.remove(chunk)
        remove_table(self._store, chunk.name)
        if chunk.taken is not None:
            self._store.remove(chunk.taken)
