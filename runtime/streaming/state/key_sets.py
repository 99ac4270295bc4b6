"""Select rows of some keys from state without sorting, when few of many keys are needed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.kernels.conversions import Int64Array, as_type, is_variable_width, one_chunk
from runtime.compute.kernels.keys import bucket_of

# Small enough for an array in a core's cache, large enough that keys rarely share a mark
_N_MARKS = 1 << 20


class KeySet:
    """Set of keys that selects rows of a table.

    Rows are selected by a short hash, so some rows of other keys may be included. Variable-width
    key columns are compared by value first, which is faster than hashing them; if the only key
    column is one of these, no hash is needed.

    Args:
        keys: Tables with the key columns; at least one.
        names: Key columns; at least one.
    """

    def __init__(self, keys: Sequence[pa.Table], names: Sequence[str]) -> None:
        table = pa.concat_tables([key_table.select(names) for key_table in keys])
        self._names = names
        self._values = {
            name: column.unique()
            for name in names
            if is_variable_width((column := one_chunk(table.column(name))).type)
        }
        self._is_marked = None
        if len(names) > 1 or not self._values:
            self._is_marked = np.zeros(_N_MARKS, np.bool_)
            self._is_marked[_marks(table, names)] = True

    def rows(self, table: pa.Table) -> pa.Table:
        """Return a table's rows with these keys, and possibly rows of some other keys."""
        for name, values in self._values.items():
            column = as_type(table.column(name), values.type)
            table = table.filter(pc.is_in(column, value_set=values))
        if self._is_marked is None or table.num_rows == 0:
            return table
        places = np.flatnonzero(self._is_marked[_marks(table, self._names)])
        return table if len(places) == table.num_rows else table.take(pa.array(places))


def marks_of(
    columns: Sequence[pa.Array | pa.ChunkedArray], n_rows: int, n_marks: int
) -> Int64Array:
    """Return a hash of the keys in some columns, below `n_marks` (a power of two)."""
    # key groups use the high bits of the same hash
    marks: Int64Array = bucket_of(columns, n_rows, 1 << 31).astype(np.int64)
    return marks & (n_marks - 1)


def _marks(table: pa.Table, names: Sequence[str]) -> Int64Array:
    return marks_of([table.column(name) for name in names], table.num_rows, _N_MARKS)
