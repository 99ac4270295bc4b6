"""Keys by which rows are taken out of state, without a sort: what few keys need of many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.kernels.columns import Int64Array, is_variable_width, of_type, one_chunk
from runtime.compute.kernels.keys import bucket_of

# Few enough for an array of all that a core has near, and so many that keys rarely share one
_N_MARKS = 1 << 20


class KeySet:
    """Some keys.

    Rows are selected by a hash of some bits, so that rows of other keys may come along; of a single
    key column of strings by the strings, which are found sooner than hashed.

    Args:
        keys: tables with the key columns, one or more.
        names: the key columns, one at least.
    """

    def __init__(self, keys: Sequence[pa.Table], names: Sequence[str]) -> None:
        table = pa.concat_tables([each.select(names) for each in keys])
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
        """The rows of a table that are of these keys, and maybe some of others."""
        for name, values in self._values.items():
            column = of_type(table.column(name), values.type)
            table = table.filter(pc.is_in(column, value_set=values))
        if self._is_marked is None or table.num_rows == 0:
            return table
        places = np.flatnonzero(self._is_marked[_marks(table, self._names)])
        return table if len(places) == table.num_rows else table.take(pa.array(places))


def marks_of(
    columns: Sequence[pa.Array | pa.ChunkedArray], n_rows: int, n_marks: int
) -> Int64Array:
    """A hash of the keys in some columns, below `n_marks`, a power of two."""
    # key groups go by the first bits of the same hash
    marks: Int64Array = bucket_of(columns, n_rows, 1 << 31).astype(np.int64)
    return marks & (n_marks - 1)


def _marks(table: pa.Table, names: Sequence[str]) -> Int64Array:
    return marks_of([table.column(name) for name in names], table.num_rows, _N_MARKS)
