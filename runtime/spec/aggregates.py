"""Window aggregations, as the planner passes them to the runtime."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

from runtime.spec.sum_types import sum_type
from runtime.spec.table import Column
from runtime.spec.user_aggregates import UserDefinedAggregateFunction
from runtime.windows import Window

# Default of 'sqlwin.state.max-values'
DEFAULT_MAX_VALUES = 10_000_000
# Accuracy of summaries with which no value is left out: more values do not fit memory
KEEPS_ALL = 1 << 40


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
class Accumulator(ABC):
    """Base class: partial columns, the way they merge, and what follows from it.

    The class attributes have the values of an accumulator whose columns hold one value per row and
    merge slice by slice.

    Attributes:
        columns: Partial columns, named as in the local stage. The merged columns have the same
            names and types.
        is_list: Whether a column holds lists of values.
        is_listed_item: Whether an item of these lists counts like a row when partials are cut.
        is_growing: Whether a partial grows with the number of its rows.
        merges_in_windows: Whether lists are read once per window, not merged slice by slice.
        merges_in_order: Whether the result depends on the order of slices.
        compares_items: Whether equal items of lists are one value.
        compares_rows: Whether only the identity of rows counts, so codes of a dictionary suffice.
        skips_null_first: Whether rows whose first argument is NULL have no effect.
        is_scanned: Whether the Arrow scan can fill the columns.
        condenses_to: Accuracy to which a list of values may be reduced; None if it may not be.
        hash_bits: Number of bits of an argument's hash that select its register; None if the
            argument is not hashed.
    """

    columns: tuple[str, ...]

    is_list: ClassVar[bool] = False
    is_listed_item: ClassVar[bool] = False
    is_growing: ClassVar[bool] = False
    merges_in_windows: ClassVar[bool] = False
    merges_in_order: ClassVar[bool] = False
    compares_items: ClassVar[bool] = True
    compares_rows: ClassVar[bool] = False
    skips_null_first: ClassVar[bool] = False
    is_scanned: ClassVar[bool] = True

    @property
    def output_columns(self) -> tuple[str, ...]:
        """Columns after merging."""
        return self.columns

    @property
    def result(self) -> Column | None:
        """Result column; None if merging leaves partial columns."""
        return None

    @property
    def zero_columns(self) -> tuple[str, ...]:
        """Output columns that are 0 over no rows; the others are NULL."""
        return ()

    @property
    def condenses_to(self) -> int | None:
        """See the class."""
        return None

    @property
    def hash_bits(self) -> int | None:
        """See the class."""
        return None

    @property
    def counts_text(self) -> str:
        """The counts of values in state, for EXPLAIN. Empty if values are not counted."""
        return ""

    @property
    def kind(self) -> str:
        """Kind of the partials, which determines how they merge: `registers 9`."""
        raise AssertionError(f"no partials are of {type(self).__name__}")

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the merge in EXPLAIN."""

    @property
    def merge_args(self) -> tuple[str, ...]:
        """Arguments of the merge in EXPLAIN."""
        return self.columns

    @property
    def collector(self) -> Accumulator:
        """The accumulator that fills the partial columns that this one reads."""
        return self

    def partial_types(self, args: Sequence[str]) -> Mapping[str, str]:
        """Return the Spark type of each partial column, in DDL spelling, the same as in Spark.

        Args:
            args: Spark types of the arguments.

        Returns:
            Types by the name of the field that a column holds; "" if there is only one column.

        Raises:
            AnalysisError: The function does not accept the type of an argument.
        """
        return {"": args[0]}

    def slice_text(self, args: Sequence[str]) -> str:
        """Describe the partial columns in a materialized table; the text is part of its format.

        Args:
            args: Arguments, as text.
        """
        raise TypeError(f"{type(self).__name__} cannot be stored in slices")

    def over(self, columns: tuple[str, ...]) -> Accumulator:
        """Return the accumulator over other columns, without the name of its result."""
        return replace(self, columns=columns)

    def bounded(self, max_values: int) -> Accumulator:
        """Return the accumulator with a maximum of values per key, if it keeps all values."""
        return self

    def covers(self, other: Accumulator) -> bool:
        """Return whether partials of this accumulator serve readers of `other` as well.

        Both have the same columns.
        """
        return True


@dataclass(frozen=True)
class Merge(Accumulator):
    """One column, merged value by value."""

    op: MergeOp

    @property
    def kind(self) -> str:
        """The operation."""
        return self.op.value

    @property
    def name(self) -> str:
        return self.op.upper()

    @property
    def zero_columns(self) -> tuple[str, ...]:
        return self.columns if self.op is MergeOp.COUNT else ()

    def partial_types(self, args: Sequence[str]) -> Mapping[str, str]:
        if self.op is MergeOp.COUNT:
            return {"": "bigint"}
        return {"": sum_type(args[0]) if self.op is MergeOp.SUM else args[0]}

    def slice_text(self, args: Sequence[str]) -> str:
        if self.op is MergeOp.COUNT and not args:
            return "COUNT(*)"
        return f"{self.name}({', '.join(args)})"


@dataclass(frozen=True)
class MergeMoments(Accumulator):
    """Count, mean and M2, the sum of the squared distances from the mean."""

    kind = "moments"
    name = "MOMENTS"

    @property
    def zero_columns(self) -> tuple[str, ...]:
        return self.columns[:1]

    def partial_types(self, args: Sequence[str]) -> Mapping[str, str]:
        return {"count": "bigint", "mean": "double", "m2": "double"}

    def slice_text(self, args: Sequence[str]) -> str:
        return f"MOMENTS({args[0]})"


@dataclass(frozen=True)
class Pick(Accumulator):
    """Order and value: the value with the smallest order, or the largest if `is_last`.

    Ties are broken by the value, NULL being the smallest. NULL orders are ignored. Merging leaves
    only the value.
    """

    is_last: bool

    skips_null_first = True

    @property
    def output_columns(self) -> tuple[str, ...]:
        """The value column."""
        return self.columns[-1:]

    @property
    def kind(self) -> str:
        """First or last."""
        return "last" if self.is_last else "first"

    @property
    def name(self) -> str:
        return self.kind.upper()

    def partial_types(self, args: Sequence[str]) -> Mapping[str, str]:
        return {"order": args[0], "value": args[1]}

    def slice_text(self, args: Sequence[str]) -> str:
        return f"{'MAX' if self.is_last else 'MIN'}_BY({args[1]}, {args[0]})"


@dataclass(frozen=True)
class WithResult(Accumulator):
    """Accumulator with a separate result column: `output`, its name and type."""

    output: Column

    @property
    def output_columns(self) -> tuple[str, ...]:
        """The result column."""
        return (self.output.name,)

    @property
    def result(self) -> Column:
        return self.output

    def over(self, columns: tuple[str, ...]) -> Accumulator:
        return replace(self, columns=columns, output=Column("", self.output.type))


@dataclass(frozen=True)
class OfValues(WithResult):
    """Accumulator over a column of lists, merged per window, not slice by slice."""

    is_list = True
    merges_in_windows = True


@dataclass(frozen=True)
class Distinct(OfValues):
    """COUNT or SUM of a window's distinct values.

    Each list contains the values of a slice without NULLs, possibly repeated. NaN counts as a
    value, and -0.0 equals 0.0. A list of structs counts distinct structs. A `double` sum of
    integers is computed exactly and then rounded.
    """

    op: MergeOp

    @property
    def name(self) -> str:
        return f"{self.op.upper()}_DISTINCT"

    @property
    def zero_columns(self) -> tuple[str, ...]:
        return self.output_columns if self.op is MergeOp.COUNT else ()

    @property
    def collector(self) -> Accumulator:
        return CollectSet(self.columns)


@dataclass(frozen=True)
class ApproxCountDistinct(OfValues):
    """Estimate from HyperLogLog registers, each `register << 6 | rank`; the largest rank counts.

    `precision` is the binary logarithm of the number of registers.
    """

    precision: int

    name = "APPROX_COUNT_DISTINCT"

    @property
    def zero_columns(self) -> tuple[str, ...]:
        return self.output_columns

    @property
    def collector(self) -> Accumulator:
        return CollectRegisters(self.columns, self.precision)


@dataclass(frozen=True)
class ApproxPercentile(OfValues):
    """Percentiles of weighted values, see `runtime.compute.values.percentiles`.

    Attributes:
        accuracy: The error of a rank is at most 1 / accuracy.
        percentages: Values from 0 to 1. The result is an array if the output type is one.
    """

    accuracy: int
    percentages: tuple[float, ...]

    name = "APPROX_PERCENTILE"

    @property
    def condenses_to(self) -> int:
        return self.accuracy

    @property
    def collector(self) -> Accumulator:
        return Summaries(self.columns, self.accuracy)


@dataclass(frozen=True)
class ResultOfValues(OfValues):
    """Result of a function of all values of a window, see `runtime.compute.values.window_values`.

    Attributes:
        function: Name of the entry in `runtime.functions.aggregates` whose form computes it.
        constants: Constants after the first argument of the call.
        is_descending: Whether values are ordered from the largest.
        is_distinct: Whether each value counts once.
        max_values: Maximum values of a key and window; None for any number.
    """

    function: str
    constants: tuple[float, ...] = ()
    is_descending: bool = False
    is_distinct: bool = False
    max_values: int | None = None

    @property
    def name(self) -> str:
        return self.function

    @property
    def merge_args(self) -> tuple[str, ...]:
        (values,) = self.columns
        order = f"{values} DESC" if self.is_descending else values
        order = f"DISTINCT {order}" if self.is_distinct else order
        return (order, *(f"{constant:g}" for constant in self.constants))

    @property
    def condenses_to(self) -> int:
        return KEEPS_ALL

    @property
    def collector(self) -> Accumulator:
        return AllValues(self.columns, KEEPS_ALL, self.max_values)

    def bounded(self, max_values: int) -> Accumulator:
        return replace(self, max_values=max_values)


@dataclass(frozen=True)
class ListAgg(OfValues):
    """Values of a window in order of time, see `runtime.compute.values.texts`.

    Attributes:
        separator: Text between two texts. None: the result is an array.
        is_unique: Whether each text occurs once per window, at its first time.
    """

    separator: str | None = ""
    is_unique: bool = False

    merges_in_order = True
    compares_items = False

    @property
    def name(self) -> str:
        return "COLLECT_LIST" if self.separator is None else "LISTAGG"

    @property
    def merge_args(self) -> tuple[str, ...]:
        (texts,) = self.columns
        separator = (self.separator or "").replace("\\", "\\\\").replace("'", "\\'")
        return (
            f"DISTINCT {texts}" if self.is_unique else texts,
            *([f"'{separator}'"] if separator else []),
        )

    @property
    def collector(self) -> Accumulator:
        return CollectRows(self.columns)


@dataclass(frozen=True)
class UserDefined(WithResult):
    """User-defined aggregate; the columns are the fields of its state."""

    function: UserDefinedAggregateFunction

    kind = "user-defined"
    name = "USER"
    is_scanned = False

    def partial_types(self, args: Sequence[str]) -> Mapping[str, str]:
        return self.function.state


@dataclass(frozen=True)
class CollectSet(Accumulator):
    """Distinct values in a list, as structs for several columns; rows with a NULL are ignored."""

    kind = "set"
    name = "COLLECTSET"
    is_list = True
    is_listed_item = True
    is_growing = True
    compares_rows = True

    def partial_types(self, args: Sequence[str]) -> Mapping[str, str]:
        if len(args) == 1:
            return {"": f"array<{args[0]}>"}
        return {"": f"array<struct<{','.join(f'v{i}:{arg}' for i, arg in enumerate(args))}>>"}

    def slice_text(self, args: Sequence[str]) -> str:
        return f"DISTINCT({', '.join(args)})"


@dataclass(frozen=True)
class CollectRegisters(Accumulator):
    """Distinct HyperLogLog registers in a list, each with its largest rank.

    `precision` is the binary logarithm of the number of registers.
    """

    precision: int

    name = "COLLECTREGISTERS"
    is_list = True
    is_listed_item = True
    skips_null_first = True

    @property
    def hash_bits(self) -> int:
        return self.precision

    @property
    def kind(self) -> str:
        """Registers of a precision."""
        return f"registers {self.precision}"

    def partial_types(self, args: Sequence[str]) -> Mapping[str, str]:
        return {"": "array<int>"}

    def slice_text(self, args: Sequence[str]) -> str:
        """Return the text; `args` are the hashed value and the precision."""
        return f"APPROX_COUNT_DISTINCT({', '.join(args)})"


@dataclass(frozen=True)
class CollectRows(Accumulator):
    """Times and values of rows in a list, see `runtime.compute.values.texts`."""

    kind = "texts by time"
    name = "COLLECTROWS"
    is_list = True
    is_growing = True
    compares_items = False

    def partial_types(self, args: Sequence[str]) -> Mapping[str, str]:
        return {"": f"array<struct<o:{args[0]},v:{args[1]}>>"}

    def slice_text(self, args: Sequence[str]) -> str:
        return f"LISTAGG({args[1]} ORDER BY {args[0]})"


@dataclass(frozen=True)
class Summaries(Accumulator):
    """Summaries of values for percentiles, see `runtime.compute.values.percentile_summaries`.

    `accuracy` is the highest accuracy of all percentiles that read the summaries.
    """

    accuracy: int

    name = "SUMMARIES"
    is_list = True
    is_listed_item = True

    @property
    def kind(self) -> str:
        """Summaries of an accuracy."""
        return f"summaries {self.accuracy}"

    def partial_types(self, args: Sequence[str]) -> Mapping[str, str]:
        return {"": f"array<struct<value:{args[0]},weight:bigint,spread:bigint>>"}

    def covers(self, other: Accumulator) -> bool:
        return not isinstance(other, Summaries) or self.accuracy >= other.accuracy


@dataclass(frozen=True)
class AllValues(Summaries):
    """Summaries so accurate that they keep all values.

    `max_values` is the maximum number of values of a key and slice; None for any number.
    """

    max_values: int | None = None

    is_growing = True

    @property
    def counts_text(self) -> str:
        most = "" if self.max_values is None else f", at most {self.max_values:,} per key and slice"
        return f"one count per value{most}"

    def partial_types(self, args: Sequence[str]) -> Mapping[str, str]:
        if len(args) > 2:  # a value of several fields, and its change
            fields = ",".join(f"v{place}:{arg}" for place, arg in enumerate(args[:-1]))
            args = [f"struct<{fields}>"]
        return super().partial_types(args)


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
        remaining: Output column with the number of rows that remain, if rows may be deleted and all
            partials are sums. A group without rows has no result.
    """

    window: Window
    keys: tuple[str, ...]
    slice_end: str
    accumulators: tuple[Accumulator, ...]
    window_start: str = "window_start"
    window_end: str = "window_end"
    averages: tuple[Average, ...] = ()
    remaining: str | None = None

    @property
    def output_columns(self) -> tuple[str, ...]:
        """Columns after merging, without keys and window bounds."""
        merged = (name for part in self.accumulators for name in part.output_columns)
        return (*merged, *(average.output.name for average in self.averages))

    @property
    def results(self) -> tuple[Column, ...]:
        """Output columns that are not partial columns."""
        results = (part.result for part in self.accumulators)
        return (
            *(result for result in results if result is not None),
            *(average.output for average in self.averages),
        )
