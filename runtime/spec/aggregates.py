"""Aggregations over windows: what the planner hands to the runtime of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.spec.table import Column
from runtime.spec.windows import Window

if TYPE_CHECKING:
    from runtime.compute.user_aggregates import UserDefinedAggregateFunction

_OF_LISTS = frozenset(
    ("count_distinct", "sum_distinct", "approx_count_distinct", "approx_percentile", "listagg")
)


@dataclass(frozen=True)
class Accumulator:
    """One accumulator of a window aggregation: how its partial columns merge.

    Attributes:
        kind: `sum` (integers, doubles, decimals; an overflow is an error), `count` (a sum that is
            0 where nothing was counted), `min`, `max` (any flat type, NULLs ignored, NaN is
            the largest double), `bit_and`, `bit_or`, `bit_xor`, `first`, `last` (the last column's
            value in the row whose other columns are smallest / largest, ties by the value itself,
            NULLs smallest; absent where the first column is NULL), `moments` (three columns:
            count, mean, M2), `count_distinct`, `sum_distinct` (one column of lists, each the
            values of a slice without NULLs, repeated or not; count and sum of a window's distinct
            values, NaN being one of them and -0.0 the same as 0.0; a list of structs counts
            distinct structs; several accumulators may read one column of lists),
            `approx_count_distinct` (one column of lists of HyperLogLog registers, each
            `register << 6 | rank`; of a register's ranks the largest counts), `approx_percentile`
            (one column of lists of values with weights, see `runtime.compute.values.percentiles`),
            `listagg` (one column of lists of rows, see `runtime.compute.values.texts`), `user`
            (a person's own, its columns the fields of its state).
        columns: the partial columns, as the local stage names them. The merged columns have the
            same names and types; `first` and `last` yield only the last one.
        output: name and type of the merged column where it is another than a partial one:
            `bigint` for `count_distinct`, the type of the sum for `sum_distinct` (where that is
            `double`, integers are added up exactly before they are rounded), the type that a
            `user` aggregate returns.
        arguments: of `approx_count_distinct` the precision, which is the binary logarithm of the
            number of registers, and maybe tables, see `registers.estimates`; of
            `approx_percentile` the accuracy, then the percentages, from 0 to 1.
        function: what a `user` accumulator calls.
        separator: what stands between the texts of `listagg`.
        is_unique: of `listagg`, whether each text comes once in a window, at its first time.
    """

    kind: str
    columns: tuple[str, ...]
    output: Column | None = None
    arguments: tuple[float, ...] = ()
    function: UserDefinedAggregateFunction | None = None
    separator: str = ""
    is_unique: bool = False

    @property
    def is_distinct(self) -> bool:
        """Whether it reads lists of values, which no slice by slice merge can do."""
        return self.kind in _OF_LISTS

    @property
    def output_columns(self) -> tuple[str, ...]:
        """The columns that are left after merging."""
        if self.output is not None:
            return (self.output.name,)
        return self.columns[-1:] if self.kind in ("first", "last") else self.columns


def filtered_name(name: str) -> str:
    """What Spark knows an aggregate of a person's by that takes its FILTER as first argument."""
    return f"sqlwin_where_{name}"


@dataclass(frozen=True)
class UserAggregate:
    """An aggregate function of a person's, as SQL knows it.

    Attributes:
        name: what it is called in SQL.
        function: what computes it.
        state: names of the fields of its state.
        returns: Spark's type of the result.
    """

    name: str
    function: UserDefinedAggregateFunction
    state: tuple[str, ...]
    returns: str


@dataclass(frozen=True)
class WindowAggregation:
    """The global stage: partials of slices in, one row per (key, non-empty window) out.

    The partition columns of a SESSION are among the keys, and its partials have the columns
    FIRST_TIME and LAST_TIME.

    Attributes:
        window: the window.
        keys: names of the group key columns, maybe none.
        slice_end: name of the int64 column that holds a partial's slice end.
        accumulators: what is merged.
        window_start: name of the output column, TIMESTAMP_NTZ.
        window_end: name of the output column, TIMESTAMP_NTZ.
    """

    window: Window
    keys: tuple[str, ...]
    slice_end: str
    accumulators: tuple[Accumulator, ...]
    window_start: str = "window_start"
    window_end: str = "window_end"
