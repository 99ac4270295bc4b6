"""What was emitted last of each key and window that can change: results, in runs.

The results of a run lie in parts of one window each, or of some where they are few, so that a part
is read when one of its windows changes, and dropped unread when all are closed. Windows that were
computed for all keys are in the first run alone. Where only some keys changed, their results are a
new run beside it, and count in place of older ones. Runs of like size are made one when there are
many, so that there never are (a log-structured merge tree: O'Neil and others, 1996).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from runtime.compute.accumulators.segments import run_starts
from runtime.compute.arrow.blobs import pieces
from runtime.compute.kernels.columns import Int64Array, int64_column
from runtime.compute.kernels.keys import encode_keys
from runtime.spec.stream import FINAL_US
from runtime.streaming.state.blobs import BlobStore
from runtime.streaming.state.columns import rows_between
from runtime.streaming.state.key_sets import KeySet
from runtime.streaming.state.ranges import Range, without
from runtime.streaming.state.table_cache import read_table, remove_table, write_table

# A part has so many results, or those of one window.
PART_ROWS = 1 << 12
# With more runs some are made one.
MANY_RUNS = 8
# One that has so many times the rows of all newer ones stays as it is.
MUCH_LARGER = 4


class Part(NamedTuple):
    """Results of the windows of a range; the blobs may hold others too, which do not count.

    Attributes:
        after_us: the windows end above this.
        until_us: they end no later.
        names: the blobs.
        n_rows: how many rows these have.
    """

    after_us: int
    until_us: int
    names: Sequence[str]
    n_rows: int


class KeptResults:
    """The results of one key group.

    Args:
        identity: the columns that tell results apart: keys, window end.
        window_end: the column of the window end.
        store: where they are kept.
        facts: what `facts` said at the end of the last micro-batch; empty at first.

    Attributes:
        most_bytes: the most bytes that were put together at a time.
    """

    def __init__(
        self, identity: Sequence[str], window_end: str, store: BlobStore, facts: Mapping[str, Any]
    ) -> None:
        self._identity = identity
        self._window_end = window_end
        self._store = store
        self._runs = runs_of(facts) or [[]]
        self.most_bytes = 0

    def facts(self) -> dict[str, Any]:
        """What is to be remembered for the next micro-batch, as JSON has it."""
        return {"runs": self._runs}

    def n_rows(self, ends: Range) -> int:
        """How many results there are in the windows of a range, or fewer."""
        parts = (part for run in self._runs for part in run)
        return sum(p.n_rows for p in parts if p.after_us < ends[1] and p.until_us > ends[0])

    def read(self, ends: Range, keys: KeySet | None = None) -> pa.Table | None:
        """What was emitted of the windows of a range; of a key and window what counts comes last.

        Args:
            ends: the windows.
            keys: the keys of which it is needed; None: all.
        """
        found: list[pa.Table] = []
        for part in (part for run in self._runs for part in run):
            tables = self._tables(part, ends)
            found += tables if keys is None else map(keys.rows, tables)
        return pa.concat_tables(found) if found else None

    def _tables(self, part: Part, ends: Range) -> list[pa.Table]:
        """The results of a part that are of the windows of a range."""
        after, until = max(part.after_us, ends[0]), min(part.until_us, ends[1])
        if after >= until:
            return []
        tables = (read_table(self._store, name) for name in part.names)
        return rows_between(tables, self._window_end, after, until)

    def replace(self, ends: Range, results: pa.Table | None) -> None:
        """Put results in place of all of a range, which is not empty; None: just forget these."""
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
            self._runs[0] += self._written(results, ends[0])

    def forget(self, until_us: int) -> None:
        """Forget the results of windows that end no later."""
        self.replace((-FINAL_US, until_us), None)

    def add(self, results: pa.Table) -> None:
        """Put results of some keys beside those that are there, in place of which they count."""
        least = int(self._ends(results).min()) - 1
        self._runs = [*filter(None, self._runs), self._written(results, least)]
        if len(self._runs) > 1:
            self._merge_runs()

    def _merge_runs(self) -> None:
        """Make one of some runs, the newest, if they are many or the newest is large."""
        sizes = [sum(part.n_rows for part in run) for run in self._runs]
        first, n_rows = len(sizes) - 1, sizes[-1]
        if sum(sizes[:-1]) <= MUCH_LARGER * n_rows:
            first = 0
        elif len(sizes) > MANY_RUNS:
            while first and sizes[first - 1] <= MUCH_LARGER * n_rows:
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
        self._runs[first:] = [self._written(self._newest(table), least)]
        self._remove(before)

    def _newest(self, table: pa.Table) -> pa.Table:
        """Of each key and window the last row."""
        columns = [table.column(name) for name in self._identity]
        which, _ = encode_keys(columns, table.num_rows)
        last = np.zeros(int(which.max(initial=-1)) + 1, np.int64)
        # of several rows of a key and window the last one is what stays
        last[which] = np.arange(table.num_rows)
        return table if len(last) == table.num_rows else table.take(pa.array(last))

    def _written(self, results: pa.Table, after_us: int) -> list[Part]:
        """Results in blobs, in order of their windows, as parts behind a time."""
        parts = []
        for table in self._cut(results):
            # most are never read again, so that they are not worth a place in the cache
            names = tuple(write_table(self._store, piece)[0] for piece in pieces(table))
            until = int(self._ends(table).max())
            parts.append(Part(after_us, until, names, table.num_rows))
            after_us = until
        return parts

    def _cut(self, results: pa.Table) -> Iterator[pa.Table]:
        """Results in order of their windows, a table for each part."""
        ends = self._ends(results)
        order = np.argsort(ends, kind="stable")
        table, ends = results.take(pa.array(order)), ends[order]
        starts = np.append(run_starts(ends[1:] != ends[:-1]), len(ends)).tolist()
        first = 0
        for start in starts[1:]:
            if start - first >= PART_ROWS or start == len(ends):
                yield table.slice(first, start - first).combine_chunks()
                first = start

    def _names(self) -> set[str]:
        return {name for run in self._runs for part in run for name in part.names}

    def _remove(self, before: set[str]) -> None:
        """Remove the blobs among some that are in no part any more."""
        for name in before - self._names():
            remove_table(self._store, name)

    def _ends(self, table: pa.Table) -> Int64Array:
        return int64_column(table, self._window_end)


def runs_of(facts: Mapping[str, Any]) -> list[list[Part]]:
    """Return the runs that facts tell of; none if nothing was emitted yet."""
    return [[Part(*part) for part in run] for run in facts.get("runs", ())]
