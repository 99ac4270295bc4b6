"""Keys with new rows in windows that were emitted, until these windows are emitted again.

Most keys of a window have not changed when it is due again. So the keys with new rows are stored
with the windows of their rows: in memory if the windows are due in the same micro-batch, otherwise
in state. Lookups may return extra keys; their results are then found to be equal. If there are too
many keys, their windows are computed for all keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from runtime.compute.kernels.conversions import int64_column
from runtime.compute.kernels.keys import encode_keys
from runtime.spec.thresholds import Thresholds
from runtime.streaming.state.blobs import BlobStore, required_blob
from runtime.streaming.state.codec import decode_table
from runtime.streaming.state.key_sets import KeySet
from runtime.streaming.state.metadata import ChangedRows
from runtime.streaming.state.ranges import Range, union, without
from runtime.streaming.state.table_cache import write_table

# Columns after the keys: end of the first and the last window of a row, int64
FIRST_WINDOW, LAST_WINDOW = "$first_window", "$last_window"


@dataclass
class _Rows:
    """Keys with the windows of their rows.

    Attributes:
        ranges: Windows that are valid, among those in the table.
        n_rows: Number of rows in the table.
        n_results: Upper bound of the number of results of these keys and windows.
        table: The keys, `FIRST_WINDOW` and `LAST_WINDOW`. None if not read yet.
        name: Name of the blob. None if not written yet.
    """

    ranges: list[Range]
    n_rows: int
    n_results: int
    table: pa.Table | None
    name: str | None


class ChangedKeys:
    """The keys of one key group with new rows.

    Args:
        keys: Key columns. Without any, nothing is stored.
        store: State that holds them.
        metadata: Return value of `metadata` at the end of the last micro-batch. Empty at first.
        thresholds: Maximum number of keys and of their tables.
    """

    def __init__(
        self,
        keys: Sequence[str],
        store: BlobStore,
        metadata: Sequence[ChangedRows],
        thresholds: Thresholds,
    ) -> None:
        self._keys = [*keys]
        self._store = store
        self._thresholds = thresholds
        self._rows = [
            _Rows([*rows.ranges], rows.n_rows, rows.n_results, None, rows.name) for rows in metadata
        ]

    def metadata(self) -> list[ChangedRows]:
        """Return the metadata for the next micro-batch. All keys must be written, see `keep`."""
        return [
            ChangedRows(rows.ranges, rows.n_rows, rows.n_results, rows.name)
            for rows in self._rows
            if rows.name is not None
        ]

    @property
    def ranges(self) -> list[Range]:
        """Windows that have changed for some keys."""
        return union(window_range for rows in self._rows for window_range in rows.ranges)

    def add(self, table: pa.Table, ranges: Sequence[Range], n_results: int) -> None:
        """Add the keys of new rows.

        Args:
            table: Keys, `FIRST_WINDOW`, `LAST_WINDOW`. A key may appear more than once.
            ranges: Windows that are valid.
            n_results: Sum of the number of windows over all rows.
        """
        self._rows.append(_Rows([*ranges], table.num_rows, n_results, table, None))

    def most_results(self, ends: Range) -> int:
        """Return an upper bound of the number of changed results in the windows of a range."""
        return sum(rows.n_results for rows in self._rows if _meets(rows, ends))

    def of(self, ends: Range) -> KeySet:
        """Return the keys that have changed in the windows of a range. There must be some."""
        tables = []
        for rows in self._rows:
            if _meets(rows, ends):
                table = self._table(rows)
                first, last = (int64_column(table, name) for name in (FIRST_WINDOW, LAST_WINDOW))
                is_in = (first <= ends[1]) & (last > ends[0])
                tables.append(table if is_in.all() else table.filter(pa.array(is_in)))
        return KeySet(tables, self._keys)

    def forget(self, ends: Range) -> None:
        """Forget the changes in the windows of a range, which must not be empty."""
        for rows in self._rows:
            rows.ranges = without(rows.ranges, *ends)
        emptied = [rows for rows in self._rows if not rows.ranges]
        self._rows = [rows for rows in self._rows if rows.ranges]
        for rows in emptied:
            if rows.name is not None:
                self._store.remove(rows.name)

    def keep(self) -> list[Range]:
        """Write new keys to state. Return the windows to compute for all keys instead."""
        if all(rows.name is not None for rows in self._rows):
            return []
        most_rows = self._thresholds.changed_keys_max_rows
        many = len(self._rows) > self._thresholds.changed_keys_max_tables
        if many or sum(rows.n_rows for rows in self._rows) > most_rows:
            self._merge_tables()
        if sum(rows.n_rows for rows in self._rows) > most_rows:
            given_up = self.ranges
            for window_range in given_up:
                self.forget(window_range)
            return given_up
        for rows in self._rows:
            if rows.name is None:
                rows.table = self._distinct([self._table(rows)])
                rows.n_rows = rows.table.num_rows
                rows.name, _ = write_table(self._store, rows.table)
        return []

    def _merge_tables(self) -> None:
        """Merge all tables into one."""
        table = self._distinct([self._table(rows) for rows in self._rows])
        for rows in self._rows:
            if rows.name is not None:
                self._store.remove(rows.name)
        n_results = sum(rows.n_results for rows in self._rows)
        self._rows = [_Rows(self.ranges, table.num_rows, n_results, table, None)]

    def _distinct(self, tables: Sequence[pa.Table]) -> pa.Table:
        table = pa.concat_tables(tables)
        _, columns = encode_keys(table.columns, table.num_rows)
        return pa.table(columns, table.column_names)

    def _table(self, rows: _Rows) -> pa.Table:
        if rows.table is None:
            assert rows.name is not None
            rows.table = decode_table(required_blob(self._store, rows.name))
        return rows.table


def _meets(rows: _Rows, ends: Range) -> bool:
    """Return whether some valid windows are in a range."""
    return any(after < ends[1] and until > ends[0] for after, until in rows.ranges)
