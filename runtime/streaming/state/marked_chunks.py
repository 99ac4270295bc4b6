"""Rows in state by partition: chunks from which the rows of single partitions can be taken.

A partition has a mark, a hash of a few bits, and the rows of all partitions with some marks are
taken together. Chunks are not rewritten when rows are taken: a bitmap records which ones are gone.
Chunks of similar size are merged when there are many, as in a log-structured merge tree (O'Neil and
others, 1996).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.compute.arrow.blobs import pieces
from runtime.compute.kernels.conversions import BoolArray, Int64Array, int64_column, one_chunk
from runtime.spec.thresholds import Thresholds
from runtime.streaming.state.blobs import BlobStore, required_blob
from runtime.streaming.state.codec import decode_bits, decode_table, encode_bits
from runtime.streaming.state.key_sets import marks_of
from runtime.streaming.state.metadata import MarkedChunk
from runtime.streaming.state.table_cache import CACHE, remove_table, unique_name, write_table
from runtime.windows.times import FIRST_TIME, LAST_TIME

# Columns of a cached chunk: all marks in order, and the rows that have them
_MARK, _ROW = "$mark", "$row"
# Rows that are compared in the time of a search for one mark
_ROWS_PER_SEARCH = 32


class _Rows(NamedTuple):
    """Rows of a chunk, also those that were taken.

    Attributes:
        table: Rows.
        marks: Their marks, in ascending order.
        numbers: Numbers of the rows with these marks.
    """

    table: pa.Table
    marks: npt.NDArray[np.int32]
    numbers: npt.NDArray[np.int32]

    def find(self, is_marked: BoolArray, marks: npt.NDArray[np.int32]) -> Int64Array:
        """Return the numbers of rows with some marks, in order.

        Args:
            is_marked: One element per mark.
            marks: The marks that are True in it, in order.
        """
        if len(marks) * _ROWS_PER_SEARCH > len(self.marks):
            found = np.flatnonzero(is_marked.take(self.marks))
        else:
            first = self.marks.searchsorted(marks)
            n_rows = self.marks.searchsorted(marks, "right") - first
            first, n_rows = first[n_rows > 0], n_rows[n_rows > 0]
            before = np.cumsum(n_rows) - n_rows
            found = np.arange(n_rows.sum()) + np.repeat(first - before, n_rows)
        numbers: Int64Array = np.sort(self.numbers[found]).astype(np.int64)
        return numbers

    def marks_of(self, is_chosen: BoolArray) -> npt.NDArray[np.int32]:
        """Return the marks of some rows."""
        return self.marks[is_chosen[self.numbers]]


class MarkedChunks:
    """Rows with partition columns, FIRST_TIME and LAST_TIME.

    Args:
        store: State that holds the chunks.
        partition: Partition columns.
        thresholds: Number of marks, and when chunks are merged.
        chunks: Attribute `chunks` at the end of the last micro-batch. Empty at first.
        read: Returns a stored table with the columns that the operator needs.

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
            rows = self._rows(chunk)
            last_us = int64_column(rows.table, LAST_TIME)
            ends = (last_us <= until_us) & self._is_remaining(chunk, rows.table)
            if after_us is not None:
                ends &= last_us > after_us
            is_marked[rows.marks_of(ends)] = True

    def mark_runs(self, is_marked: BoolArray, runs: Iterable[str]) -> None:
        """Mark the partitions of all rows in some runs."""
        for chunk in self.chunks:
            if chunk.run in runs:
                rows = self._rows(chunk)
                is_marked[rows.marks_of(self._is_remaining(chunk, rows.table))] = True

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

    def take_marked(
        self, is_marked: BoolArray, stay: Callable[[pa.Table], BoolArray] | None = None
    ) -> Iterator[tuple[str, pa.Table]]:
        """Take the rows of partitions with some marks out of their chunks.

        Args:
            is_marked: One element per mark.
            stay: Returns which of these rows stay in their chunks. None: none.

        Yields:
            (run, its rows, also those that stay).
        """
        marks = _numbers_of(is_marked)
        for place, chunk in reversed(list(enumerate(self.chunks))):
            table = self._rows(chunk).table
            numbers = self._find(chunk, is_marked, marks)
            if not len(numbers):
                continue
            rows = table.take(pa.array(numbers))
            yield chunk.run, rows
            if stay is not None:
                numbers = numbers[~stay(rows)]
            if not len(numbers):
                continue
            is_there = self._is_remaining(chunk, table)
            is_there[numbers] = False
            if not is_there.any():
                self._remove(chunk)
            else:
                self.chunks[place] = self._without(chunk, table, is_there)

    def rows_marked(self, is_marked: BoolArray) -> list[pa.Table]:
        """Return the rows of partitions with some marks. They stay in their chunks.

        Args:
            is_marked: One element per mark.
        """
        marks, tables = _numbers_of(is_marked), []
        for chunk in self.chunks:
            numbers = self._find(chunk, is_marked, marks)
            if len(numbers):
                tables.append(self._rows(chunk).table.take(pa.array(numbers)))
        return tables

    def take_all(self) -> list[pa.Table]:
        """Take all rows."""
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
            CACHE.put(name, self._with_marks(piece))
            rows = piece.num_rows
            self.chunks.append(MarkedChunk(name, rows, n_bytes, first_us, last_us, run))

    def _take(self, chunks: Sequence[MarkedChunk]) -> list[pa.Table]:
        """Return the rows of some chunks, and remove the chunks."""
        tables = []
        for chunk in chunks:
            table = self._rows(chunk).table
            is_there = self._is_remaining(chunk, table)
            tables.append(table if is_there.all() else table.filter(pa.array(is_there)))
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

    def _find(
        self, chunk: MarkedChunk, is_marked: BoolArray, marks: npt.NDArray[np.int32]
    ) -> Int64Array:
        """Return the numbers of the remaining rows with some marks. See `_Rows.find`."""
        rows = self._rows(chunk)
        numbers = rows.find(is_marked, marks)
        if not len(numbers):
            return numbers
        return numbers[self._is_remaining(chunk, rows.table)[numbers]]

    def _rows(self, chunk: MarkedChunk) -> _Rows:
        """Return all rows of a chunk, including those that were taken."""
        table = CACHE.get(chunk.name)
        if table is None:
            table = self._with_marks(decode_table(required_blob(self._store, chunk.name)))
            CACHE.put(chunk.name, table)
        marks, numbers = (one_chunk(table.column(name)).to_numpy() for name in (_MARK, _ROW))
        return _Rows(self._read(table.drop_columns([_MARK, _ROW])), marks, numbers)

    def _with_marks(self, table: pa.Table) -> pa.Table:
        marks = self.marks(table).astype(np.int32)
        order = np.argsort(marks)
        table = table.append_column(_MARK, pa.array(marks[order]))
        return table.append_column(_ROW, pa.array(order.astype(np.int32)))

    def _remove(self, chunk: MarkedChunk) -> None:
        self.chunks.remove(chunk)
        remove_table(self._store, chunk.name)
        if chunk.taken is not None:
            self._store.remove(chunk.taken)


def _numbers_of(is_marked: BoolArray) -> npt.NDArray[np.int32]:
    """Return the marks that are True, in order."""
    return np.flatnonzero(is_marked).astype(np.int32)
