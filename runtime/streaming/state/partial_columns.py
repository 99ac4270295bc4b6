"""Columns of partials in state, and operations on tables with these columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, reduce

import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.kernels.conversions import Int64Array, int64_column, replace_values
from runtime.compute.kernels.partials import merge_equal_slices
from runtime.spec.aggregates import Accumulator
from runtime.windows.times import FIRST_TIME, LAST_TIME

# Column of partials with the processing time of their last change, if state has a time-to-live
CHANGED_US = "$changed"


@dataclass(frozen=True)
class StateColumns:
    """Columns of partials.

    Attributes:
        keys: Key columns.
        slice_end: Slice end column, int64 microseconds.
        accumulators: Accumulators with their columns in partials.
        sources: (column, source) pairs for columns that older state may lack: they are the source
            column as DOUBLE.
        drops_zeros: Whether a partial is dropped whose values, except times of sessions, are all
            zero, NULL or an empty list. They are sums of changes or counts of values, and all rows
            of such a key are deleted.
    """

    keys: tuple[str, ...]
    slice_end: str
    accumulators: tuple[Accumulator, ...]
    sources: tuple[tuple[str, str], ...] = ()
    drops_zeros: bool = False

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All columns, in the order of a table of partials."""
        values = (name for accumulator in self.accumulators for name in accumulator.columns)
        return (*self.keys, self.slice_end, *values)

    def of(self, table: pa.Table, *others: str) -> pa.Table:
        """Return a table of state with exactly these columns and `others`.

        The table may have been written for a plan with other aggregates.
        """
        n_keys = len(self.keys)
        names = [*table.column_names[:n_keys], *self.names[n_keys:], *others]
        if table.column_names == names:
            return table
        sources, columns, fields = dict(self.sources), [], []
        for name in names:
            if name in table.column_names:
                columns.append(table.column(name))
                fields.append(table.schema.field(name))
            else:
                columns.append(table.column(sources[name]).cast(pa.float64()))
                fields.append(pa.field(name, pa.float64()))
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))

    def ends(self, table: pa.Table) -> Int64Array:
        """Return the slice ends of partials."""
        return int64_column(table, self.slice_end)

    def with_ends(self, table: pa.Table, ends: Int64Array) -> pa.Table:
        """Return partials with other slice ends."""
        return replace_values(table, self.slice_end, ends)

    def merge(self, tables: Iterable[pa.Table]) -> pa.Table:
        """Merge to one partial per key and slice end; see `merge_equal_slices`."""
        table = pa.concat_tables(tables)
        merged = merge_equal_slices(table, len(self.keys), self.slice_end, self.accumulators)
        return self.without_zeros(merged) if self.drops_zeros else merged

    def without_zeros(self, table: pa.Table) -> pa.Table:
        """Return the merged partials that `drops_zeros` does not drop."""
        names = [n for n in self.names[len(self.keys) + 1 :] if n not in (FIRST_TIME, LAST_TIME)]
        values = [table.column(name) for name in names]
        return table.filter(reduce(pc.or_kleene, map(_is_any, values)))

    def between(self, tables: Iterable[pa.Table], after_us: int, until_us: int) -> list[pa.Table]:
        """Return the partials of slices with `after_us` < slice end <= `until_us`."""
        return rows_between(tables, self.slice_end, after_us, until_us)


def rows_between(
    tables: Iterable[pa.Table], time: str, after_us: int, until_us: int
) -> list[pa.Table]:
    """Return the rows with `after_us` < time <= `until_us`. No returned table is empty."""
    selected = []
    for table in tables:
        times = int64_column(table, time)
        is_in = (times > after_us) & (times <= until_us)
        if is_in.any():
            selected.append(table if is_in.all() else table.filter(pa.array(is_in)))
    return selected


def _is_any(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return where a partial is not zero, or not an empty list."""
    if pa.types.is_list(column.type):
        column = pc.list_value_length(column)
    return pc.not_equal(column, pa.scalar(0, column.type))
