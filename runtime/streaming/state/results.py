"""The last emitted results of open windows, stored in runs.

The results of a run are divided into parts of one window each, or of several windows with few
results. A part is read when one of its windows changes, and dropped unread when all are closed.
Windows that were computed for all keys are only in the first run. If only some keys have changed,
their results become a new run, which overrides older ones. Runs of similar size are merged when
there are many, as in a log-structured merge tree (O'Neil and others, 1996).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.accumulators.segments import run_starts
from runtime.compute.arrow.blobs import pieces
from runtime.compute.kernels.conversions import BoolArray, Int64Array, int64_column
from runtime.compute.kernels.keys import encode_keys
from runtime.spec.stream import FINAL_US
from runtime.spec.thresholds import Thresholds
from runtime.streaming.state.blobs import BlobStore
from runtime.streaming.state.key_sets import KeySet
from runtime.streaming.state.metadata import Part
from runtime.streaming.state.partial_columns import rows_between
from runtime.streaming.state.ranges import Range, without
from runtime.streaming.state.table_cache import read_table, remove_table, write_table


class ResultStore:
    """The emitted results of one key group.

    Args:
        identity: Columns that identify a result: keys and window end.
        window_end: Window end column.
        store: State that holds the results.
        runs: Attribute `runs` at the end of the last micro-batch. Empty at first.
        thresholds: Size of a part, and when runs are merged.
        remaining: Column of results that is 0 or less if a key has no result any more. None: a key
            with a result keeps one.

    Attributes:
        is_present: Returns for each result whether its key still has one. None: all have.
        most_bytes: Largest number of bytes merged at once.
    """

    def __init__(
        self,
        identity: Sequence[str],
        window_end: str,
        store: BlobStore,
        runs: Sequence[Sequence[Part]],
        thresholds: Thresholds,
        remaining: str | None = None,
    ) -> None:
        self.is_present = (
            None if remaining is None else lambda results: pc.greater(results.column(remaining), 0)
        )
        self._identity = identity
        self._window_end = window_end
        self._store = store
        self._thresholds = thresholds
        self._runs = [[*run] for run in runs] or [[]]
        self.most_bytes = 0

    @property
    def runs(self) -> list[list[Part]]:
        """Results in state, oldest run first."""
        return self._runs

    def n_rows(self, ends: Range) -> int:
        """Return an upper bound of the number of results in the windows of a range."""
        parts = (part for run in self._runs for part in run)
        return sum(p.n_rows for p in parts if p.after_us < ends[1] and p.until_us > ends[0])

    def read(self, ends: Range, keys: KeySet | None = None) -> pa.Table | None:
        """Read the results of the windows of a range; the last one of a key and window counts.

        Args:
            ends: Range of windows.
            keys: Keys to read. None means all.
        """
        results: list[pa.Table] = []
        for part in (part for run in self._runs for part in run):
            tables = self._tables(part, ends)
            results += tables if keys is None else map(keys.rows, tables)
        return pa.concat_tables(results) if results else None

    def _tables(self, part: Part, ends: Range) -> list[pa.Table]:
        """Read a part's results in the windows of a range."""
        after, until = max(part.after_us, ends[0]), min(part.until_us, ends[1])
        if after >= until:
            return []
        tables = (read_table(self._store, name) for name in part.names)
        return rows_between(tables, self._window_end, after, until)

    def replace(self, ends: Range, results: pa.Table | None) -> None:
        """Replace all results of a range, which must not be empty. None removes them."""
        before = self._names()
        self._runs = [
            [
                part._replace(after_us=after, until_us=until)
                for part in run
                for after, until in without([(part.after_us, part.until_us)], *ends)
            ]
            for run in self._runs
        ]
        self._runs = [run for run in self._runs if run] or [[]]
        self._remove(before)
        if results is not None:
            self._runs[0] += self._write(self.present(results), ends[0])

    def forget(self, until_us: int) -> None:
        """Remove the results of windows that end at or before `until_us`."""
        self.replace((-FINAL_US, until_us), None)

    def forget_keys(self, ends: Range, keys: pa.Table) -> None:
        """Remove the results of some keys in the windows of a range.

        Args:
            ends: Range of windows.
            keys: Key columns. Without any, all results are removed.
        """
        results = self.read(ends)
        if results is None or not results.num_rows:
            self.replace(ends, None)  # a part with results of other windows may cover the range
            return
        results = self._newest(results)
        is_gone: BoolArray = np.ones(results.num_rows, np.bool_)
        if keys.column_names:
            both = pa.concat_tables([results.select(keys.column_names), keys])
            codes, _ = encode_keys(both.columns, both.num_rows)
            is_gone = np.isin(codes[: results.num_rows], codes[results.num_rows :])
        if is_gone.any():
            results = results.filter(pa.array(~is_gone))
            self.replace(ends, results if results.num_rows else None)

    def add(self, results: pa.Table) -> None:
        """Add results of some keys. They override existing ones."""
        least = int(self._ends(results).min()) - 1
        self._runs = [*filter(None, self._runs), self._write(results, least)]
        if len(self._runs) > 1:
            self._merge_runs()

    def _merge_runs(self) -> None:
        """Merge the newest runs if there are many, or if the newest is large."""
        ratio = self._thresholds.merge_size_ratio
        sizes = [sum(part.n_rows for part in run) for run in self._runs]
        first, n_rows = len(sizes) - 1, sizes[-1]
        if sum(sizes[:-1]) <= ratio * n_rows:
            first = 0
        elif len(sizes) > self._thresholds.results_max_runs:
            while first and sizes[first - 1] <= ratio * n_rows:
                first -= 1
                n_rows += sizes[first]
            first = min(first, len(sizes) - 2)
        else:
            return
        before = self._names()
        merged = [part for run in self._runs[first:] for part in run]
        everything = (-FINAL_US, FINAL_US)
        table = pa.concat_tables(t for part in merged for t in self._tables(part, everything))
        self.most_bytes = max(self.most_bytes, table.nbytes)
        least = min(part.after_us for part in merged)
        newest = self._newest(table)
        self._runs[first:] = [self._write(newest if first else self.present(newest), least)]
        self._runs = [run for run in self._runs if run] or [[]]
        self._remove(before)

    def present(self, results: pa.Table) -> pa.Table:
        """Drop the rows of deleted keys. In state, only where no older run has their results."""
        return results if self.is_present is None else results.filter(self.is_present(results))

    def _newest(self, table: pa.Table) -> pa.Table:
        """Return the last row of each key and window."""
        columns = [table.column(name) for name in self._identity]
        codes, _ = encode_keys(columns, table.num_rows)
        last = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
        # the last assignment wins
        last[codes] = np.arange(table.num_rows)
        return table if len(last) == table.num_rows else table.take(pa.array(last))

    def _write(self, results: pa.Table, after_us: int) -> list[Part]:
        """Write results to blobs in order of their windows, as parts after a time."""
        parts = []
        for table in self._split_parts(results) if results.num_rows else ():
            # most are never read again, so they are not cached
            names = tuple(write_table(self._store, piece)[0] for piece in pieces(table))
            until = int(self._ends(table).max())
            parts.append(Part(after_us, until, names, table.num_rows))
            after_us = until
        return parts

    def _split_parts(self, results: pa.Table) -> Iterator[pa.Table]:
        """Yield results in order of their windows, a table for each part."""
        ends = self._ends(results)
        order = np.argsort(ends, kind="stable")
        table, ends = results.take(pa.array(order)), ends[order]
        starts = np.append(run_starts(ends[1:] != ends[:-1]), len(ends)).tolist()
        first = 0
        for start in starts[1:]:
            if start - first >= self._thresholds.results_part_rows or start == len(ends):
                yield table.slice(first, start - first).combine_chunks()
                first = start

    def _names(self) -> set[str]:
        return {name for run in self._runs for part in run for name in part.names}

    def _remove(self, before: set[str]) -> None:
        """Remove those blobs that no part uses any more."""
        for name in before - self._names():
            remove_table(self._store, name)

    def _ends(self, table: pa.Table) -> Int64Array:
        return int64_column(table, self._window_end)
