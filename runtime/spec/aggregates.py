"""Window aggregations, as the planner passes them to the runtime."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from runtime.errors import AnalysisError
from runtime.spec.table import Column
from runtime.spec.user_aggregates import UserDefinedAggregateFunction
from runtime.windows import Window

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_MAX_DECIMAL_DIGITS = 38


class MergeOp(StrEnum):
    """Operation that merges the values of one column; NULLs are ignored."""

    SUM = "sum"  # integers, doubles, decimals; overflow is an error
    COUNT = "count"  # a sum that is 0 if nothing was counted
    MIN = "min"  # any flat type; NaN is the largest double
    MAX = "max"
    BIT_AND = "bit_and"
    BIT_OR = "bit_or"
    BIT_XOR = "bit_xor"


@dataclass(frozen=True)
class Accumulator:
    """Base class: partial columns and the way they merge.

    Attributes:
        columns: Partial columns, named as in the local stage. The merged columns have the same
            names and types.
    """

    columns: tuple[str, ...]

    @property
    def output_columns(self) -> tuple[str, ...]:
        """Columns after merging."""
        return self.columns

    @property
    def kind(self) -> str:
        """Kind of the partials, which determines how they merge: `registers 9`."""
        raise AssertionError(f"no partials are of {type(self).__name__}")


@dataclass(frozen=True)
class Merge(Accumulator):
    """One column, merged value by value."""

    op: MergeOp

    @property
    def kind(self) -> str:
        """The operation."""
        return self.op.value


@dataclass(frozen=True)
class MergeMoments(Accumulator):
    """Count, mean and M2, the sum of the squared distances from the mean."""

    kind = "moments"


@dataclass(frozen=True)
class Pick(Accumulator):
    """Order and value: the value with the smallest order, or the largest if `is_last`.

    Ties are broken by the value, NULL being the smallest. NULL orders are ignored. Merging leaves
    only the value.
    """

    is_last: bool

    @property
    def output_columns(self) -> tuple[str, ...]:
        """The value column."""
        return self.columns[-1:]

    @property
    def kind(self) -> str:
        """First or last."""
        return "last" if self.is_last else "first"


@dataclass(frozen=True)
class WithResult(Accumulator):
    """Accumulator with a separate result column: `output`, its name and type."""

    output: Column

    @property
    def output_columns(self) -> tuple[str, ...]:
        """The result column."""
        return (self.output.name,)


@dataclass(frozen=True)
class OfValues(WithResult):
    """Accumulator over a column of lists, merged per window, not slice by slice."""


@dataclass(frozen=True)
class Distinct(OfValues):
    """COUNT or SUM of a window's distinct values.

    Each list contains the values of a slice without NULLs, possibly repeated. NaN counts as a
    value, and -0.0 equals 0.0. A list of structs counts distinct structs. A `double` sum of
    integers is computed exactly and then rounded.
    """

    op: MergeOp


@dataclass(frozen=True)
class ApproxCountDistinct(OfValues):
    """Estimate from HyperLogLog registers, each `register << 6 | rank`; the largest rank counts.

    `precision` is the binary logarithm of the number of registers.
    """

    precision: int


@dataclass(frozen=True)
class ApproxPercentile(OfValues):
    """Percentiles of weighted values, see `runtime.compute.values.percentiles`.

    Attributes:
        accuracy: The error of a rank is at most 1 / accuracy.
        percentages: Values from 0 to 1. The result is an array if the output type is one.
    """

    accuracy: int
    percentages: tuple[float, ...]


@dataclass(frozen=True)
class ListAgg(OfValues):
    """Texts of a window in order of time, see `runtime.compute.values.texts`.

    Attributes:
        separator: Text between two texts.
        is_unique: Whether each text occurs once per window, at its first time.
    """

    separator: str = ""
    is_unique: bool = False


@dataclass(frozen=True)
class UserDefined(WithResult):
    """User-defined aggregate; the columns are the fields of its state."""

    function: UserDefinedAggregateFunction
    kind = "user-defined"


@dataclass(frozen=True)
class CollectSet(Accumulator):
    """Distinct values in a list, as structs for several columns; rows with a NULL are ignored."""

    kind = "set"


@dataclass(frozen=True)
class CollectRegisters(Accumulator):
    """Distinct HyperLogLog registers in a list, each with its largest rank.

    `precision` is the binary logarithm of the number of registers.
    """

    precision: int

    @property
    def kind(self) -> str:
        """Registers of a precision."""
        return f"registers {self.precision}"


@dataclass(frozen=True)
class CollectRows(Accumulator):
    """Times and texts of rows in a list, see `runtime.compute.values.texts`."""

    kind = "texts by time"


@dataclass(frozen=True)
class Summaries(Accumulator):
    """Summaries of values for percentiles, see `runtime.compute.values.percentile_summaries`.

    `accuracy` is the highest accuracy of all percentiles that read the summaries.
    """

    accuracy: int

    @property
    def kind(self) -> str:
        """Summaries of an accuracy."""
        return f"summaries {self.accuracy}"


def partial_fields(into: Accumulator, args: Sequence[str]) -> Mapping[str, str]:
    """Return the Spark type of each partial column, in DDL spelling, the same as in Spark.

    Args:
        into: Accumulator.
        args: Spark types of its arguments.

    Returns:
        Types by the name of the field that a column holds; "" if there is only one column.

    Raises:
        AnalysisError: The function does not accept the type of an argument.
    """
    match into:
        case Merge(op=MergeOp.COUNT):
            return {"": "bigint"}
        case Merge(op=MergeOp.SUM):
            return {"": sum_type(args[0])}
        case MergeMoments():
            return {"count": "bigint", "mean": "double", "m2": "double"}
        case Pick():
            return {"order": args[0], "value": args[1]}
        case CollectSet() if len(args) > 1:
            return {"": f"array<struct<{','.join(f'v{i}:{arg}' for i, arg in enumerate(args))}>>"}
        case CollectSet():
            return {"": f"array<{args[0]}>"}
        case CollectRegisters():
            return {"": "array<int>"}
        case CollectRows():
            return {"": f"array<struct<o:{args[0]},v:string>>"}
        case Summaries():
            return {"": f"array<struct<value:{args[0]},weight:bigint,spread:bigint>>"}
        case UserDefined():
            return into.function.state
    return {"": args[0]}


def sum_type(arg: str) -> str:
    """Return the Spark type of a sum, given the type of its argument.

    Example:
        >>> sum_type("int"), sum_type("float"), sum_type("decimal(10,2)")
        ('bigint', 'double', 'decimal(20,2)')
    """
    if match := _DECIMAL.fullmatch(arg):
        return f"decimal({min(int(match[1]) + 10, _MAX_DECIMAL_DIGITS)},{match[2]})"
    if arg in ("tinyint", "smallint", "int", "bigint"):
        return "bigint"
    if arg in ("float", "double"):
        return "double"
    raise AnalysisError(f"SUM of {arg} is not supported", hint="cast it to a number")


def name_with_filter(name: str) -> str:
    """Return Spark's name of a user-defined aggregate that takes its FILTER as first argument."""
    return f"sqlwin_where_{name}"


@dataclass(frozen=True)
class UserAggregate:
    """User-defined aggregate function as registered for SQL.

    Attributes:
        name: Name in SQL.
        function: Implementation.
        state: Names of the state fields.
        returns: Spark type of the result.
    """

    name: str
    function: UserDefinedAggregateFunction
    state: tuple[str, ...]
    returns: str


@dataclass(frozen=True)
class Average:
    """Average of decimals: a merged sum by a merged count, rounded half up to the output's type.

    Spark SQL cannot divide into that type: the type of its `/` has fewer digits after the point.

    Attributes:
        total: Merged column with the sum; NULL without values.
        count: Merged column with the number of values.
        output: Result column.
    """

    total: str
    count: str
    output: Column


@dataclass(frozen=True)
class WindowAggregation:
    """The global stage: partials of slices in, one row per (key, non-empty window) out.

    For SESSION, the keys include the partition columns, and the partials have the columns
    FIRST_TIME and LAST_TIME.

    Attributes:
        window: Window.
        keys: Names of the group key columns; may be empty.
        slice_end: Name of the int64 column with the slice end of a partial.
        accumulators: Accumulators to merge.
        window_start: Name of the output column, TIMESTAMP_NTZ.
        window_end: Name of the output column, TIMESTAMP_NTZ.
        averages: Averages of merged columns.
    """

    window: Window
    keys: tuple[str, ...]
    slice_end: str
    accumulators: tuple[Accumulator, ...]
    window_start: str = "window_start"
    window_end: str = "window_end"
    averages: tuple[Average, ...] = ()

    @property
    def output_columns(self) -> tuple[str, ...]:
        """Columns after merging, without keys and window bounds."""
        merged = (name for part in self.accumulators for name in part.output_columns)
        return (*merged, *(average.output.name for average in self.averages))

    @property
    def results(self) -> tuple[Column, ...]:
        """Output columns that are not partial columns."""
        results = (part.output for part in self.accumulators if isinstance(part, WithResult))
        return (*results, *(average.output for average in self.averages))
