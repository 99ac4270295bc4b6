"""Aggregations over windows: what the planner hands to the runtime of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from runtime.spec.table import Column
from runtime.spec.user_aggregates import UserDefinedAggregateFunction
from runtime.spec.windows import Window


class MergeOp(StrEnum):
    """How values of one column merge; NULLs are passed over."""

    SUM = "sum"  # integers, doubles, decimals; an overflow is an error
    COUNT = "count"  # a sum that is 0 where nothing was counted
    MIN = "min"  # any flat type; NaN is the largest double
    MAX = "max"
    BIT_AND = "bit_and"
    BIT_OR = "bit_or"
    BIT_XOR = "bit_xor"


@dataclass(frozen=True)
class Accumulator:
    """How some partial columns merge: one of the classes below.

    Attributes:
        columns: the partial columns, as the local stage names them. The merged columns have the
            same names and types.
    """

    columns: tuple[str, ...]

    @property
    def output_columns(self) -> tuple[str, ...]:
        """The columns that are left after merging."""
        return self.columns


@dataclass(frozen=True)
class Merge(Accumulator):
    """One column, merged value by value."""

    op: MergeOp


@dataclass(frozen=True)
class MergeMoments(Accumulator):
    """Count, mean and M2, the sum of the squared distances from the mean."""


@dataclass(frozen=True)
class Pick(Accumulator):
    """Order and value: the value where the order is smallest, or largest if `is_last`.

    Ties go by the value itself, NULLs smallest; absent where the order is NULL. The value alone is
    left after merging.
    """

    is_last: bool

    @property
    def output_columns(self) -> tuple[str, ...]:
        """The value."""
        return self.columns[-1:]


@dataclass(frozen=True)
class WithResult(Accumulator):
    """An accumulator whose result is a column of its own: `output`, its name and type."""

    output: Column

    @property
    def output_columns(self) -> tuple[str, ...]:
        """The result."""
        return (self.output.name,)


@dataclass(frozen=True)
class OfValues(WithResult):
    """Reads one column of lists, which no merge slice by slice can do; several may read one."""


@dataclass(frozen=True)
class Distinct(OfValues):
    """COUNT or SUM of a window's distinct values.

    Each list has the values of a slice without NULLs, repeated or not; NaN is one of them and -0.0
    the same as 0.0; a list of structs counts distinct structs. Where a sum is `double`, integers
    are added up exactly before they are rounded.
    """

    op: MergeOp


@dataclass(frozen=True)
class ApproxCountDistinct(OfValues):
    """An estimate from HyperLogLog registers, each `register << 6 | rank`; the largest rank counts.

    Attributes:
        precision: the binary logarithm of the number of registers.
        tables: what Spark estimates by, see `registers.estimates`; without them it is Ertl's way.
    """

    precision: int
    tables: tuple[float, ...] = ()


@dataclass(frozen=True)
class ApproxPercentile(OfValues):
    """Percentiles of values with weights, see `runtime.compute.values.percentiles`.

    Attributes:
        accuracy: the error of a rank is at most 1 / accuracy.
        percentages: from 0 to 1; the result is an array if its type is.
    """

    accuracy: int
    percentages: tuple[float, ...]


@dataclass(frozen=True)
class ListAgg(OfValues):
    """The texts of a window by time, see `runtime.compute.values.texts`.

    Attributes:
        separator: what stands between them.
        is_unique: whether each text comes once in a window, at its first time.
    """

    separator: str = ""
    is_unique: bool = False


@dataclass(frozen=True)
class UserDefined(WithResult):
    """A user's own, its columns the fields of its state; `function` is what it calls."""

    function: UserDefinedAggregateFunction


@dataclass(frozen=True)
class CollectSet(Accumulator):
    """The distinct values of rows in a list, of several columns as structs, none with a NULL."""


@dataclass(frozen=True)
class CollectRegisters(Accumulator):
    """The distinct HyperLogLog registers of rows in a list, each with its largest rank.

    `precision` is the binary logarithm of the number of registers.
    """

    precision: int


@dataclass(frozen=True)
class CollectRows(Accumulator):
    """Times and texts of rows in a list, see `runtime.compute.values.texts`."""


@dataclass(frozen=True)
class Summaries(Accumulator):
    """What percentiles need of the values of rows: `runtime.compute.values.percentile_summaries`.

    `accuracy` is that of the most accurate percentile that reads them.
    """

    accuracy: int


def filtered_name(name: str) -> str:
    """What Spark calls a user-defined aggregate that takes its FILTER as first argument."""
    return f"sqlwin_where_{name}"


@dataclass(frozen=True)
class UserAggregate:
    """A user-defined aggregate function, as SQL knows it.

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
