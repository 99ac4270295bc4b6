"""Entries of aggregate functions, and the forms of their partials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from runtime.spec.aggregates import MergeOp

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

# Values of the rows of a group, none of them NULL; at least one
Values: TypeAlias = list[Any]


class Takes(StrEnum):
    """Types of results with which partials can be merged."""

    ANY = "any"
    FLAT = "flat"  # no arrays, maps and structs
    NUMBERS = "numbers"  # types of a sum: BIGINT, DOUBLE, decimals
    INTEGERS = "integers"


@dataclass(frozen=True)
class Merged:
    """The function is its own partial, merged value by value.

    Attributes:
        op: Operation that merges.
        takes: Types of the result.
        partial: Spark's function for the partial. Empty: the function itself.
    """

    op: MergeOp
    takes: Takes
    partial: str = ""


@dataclass(frozen=True)
class Mean:
    """Sum and count, divided at the end."""


@dataclass(frozen=True)
class Spread:
    """Count, mean and the sum of squared distances from it.

    Attributes:
        less: Subtracted from the count before the division: 1 for a sample.
        is_root: Whether the result is the square root.
    """

    less: int
    is_root: bool


@dataclass(frozen=True)
class Picked:
    """The value of the row that is first or last in order; the value breaks ties.

    Attributes:
        is_last: Whether it is the last row.
        by_time: Whether the order is the row's time. Otherwise it is the second argument.
        skips_nulls: Whether NULLs are skipped unless RESPECT NULLS is given.
    """

    is_last: bool
    by_time: bool = True
    skips_nulls: bool = False


@dataclass(frozen=True)
class Registers:
    """Registers of a HyperLogLog sketch."""


@dataclass(frozen=True)
class Percentile:
    """The values of a slice, thinned out to an accuracy."""


class WithinGroup(StrEnum):
    """Whether the first argument is written as `f(...) WITHIN GROUP (ORDER BY x)`."""

    NO = "no"
    OPTIONAL = "optional"
    YES = "yes"


class WindowValues(Protocol):
    """Values of some windows, sorted in each of them, with counts. Every window has a value."""

    @property
    def distinct(self) -> pa.Array:
        """Distinct values of all windows in order. NaN is the largest; 0.0 stands for -0.0."""

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """int64[n_windows], number of values."""

    def at(self, rank: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the index in `distinct` of the value with a rank from 0, for each window."""

    def runs(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return window, index in `distinct` and count of each distinct value of each window.

        They are in order of window, then of value.
        """

    def mapped(self, values: pa.Array) -> WindowValues:
        """Return windows whose `runs` have these values and the same counts."""


@dataclass(frozen=True)
class FromValues:
    """Computed from all values of a window, which slices keep with their counts.

    Attributes:
        result: Returns the result of each window, given its values and the percentage, if any.
            Windows without values are not passed: their result is NULL.
        takes: Types of the argument.
        values: Spark type to which values are cast. Empty: the type of the argument.
        returns: Spark type of the result. Empty: the type of the argument.
        has_percentage: Whether the second argument is a constant from 0 to 1.
        within_group: Whether the first argument is an order. With DESC, the kernel gets the ranks
            of values from the last one.
        spark: Spark SQL of a function that Spark lacks, over `v`, the sorted array of values.
    """

    result: Callable[..., pa.Array]
    takes: Takes = Takes.NUMBERS
    values: str = "double"
    returns: str = "double"
    has_percentage: bool = False
    within_group: WithinGroup = WithinGroup.NO
    spark: str = ""


@dataclass(frozen=True)
class Texts:
    """The values of a slice with their times.

    Attributes:
        is_joined: Whether the result is a text with a separator. Otherwise it is an array.
    """

    is_joined: bool = True


Form: TypeAlias = Merged | Mean | Spread | Picked | Registers | Percentile | FromValues | Texts


class WithDistinct(StrEnum):
    """How DISTINCT changes the partials."""

    REFUSED = "refused"
    SAME = "same"  # the result ignores how many times a value occurs
    OF_SET = "of set"  # computed from the set of values


class TakesBack(StrEnum):
    """How a deleted row is taken back from the result of a window."""

    VALUES = "values"  # the result is computed from the values that remain, which are counted
    SUBTRACTED = "subtracted"
    SUBTRACTED_IF_EXACT = "subtracted if exact"  # integers, decimals and intervals, not doubles


@dataclass(frozen=True)
class MergedFunction:
    """An aggregate function that is merged from slices.

    Attributes:
        name: Name in upper case.
        form: How rows become partials, and partials the result.
        summary: Description in a few words, for help.
        parameters: Parameters, as in `x [, separator]`.
        text: Description in sentences, in lines.
        example: Arguments of the example query. Empty: `price`.
        drawn: Arguments of the picture, whose rows have columns x and y.
        definition: Result by definition, for the picture and the oracle, given the values and the
            percentage, if any. None: the form says it.
        is_exact: Whether the result equals the definition, so that the oracle judges it.
        distinct: How DISTINCT changes the partials.
        takes_back: How a deleted row is taken back.
    """

    name: str
    form: Form
    summary: str
    parameters: str = "x"
    text: str = ""
    example: str = "price"
    drawn: str = "x"
    definition: Callable[..., Any] | None = None
    is_exact: bool = True
    distinct: WithDistinct = WithDistinct.REFUSED
    takes_back: TakesBack = TakesBack.VALUES

    def alias(self, name: str, summary: str = "", **changes: Any) -> MergedFunction:
        """Return the same function under another name."""
        summary = summary or f"alias of {self.name}"
        return replace(self, **{"name": name, "summary": summary, "text": ""} | changes)

    @property
    def signature(self) -> str:
        """Name and parameters."""
        return self.call(self.parameters)

    def call(self, arguments: str) -> str:
        """Return a call with these arguments."""
        form = self.form
        if isinstance(form, FromValues) and form.within_group is WithinGroup.YES:
            value, _, others = arguments.partition(", ")
            return f"{self.name}({others}) WITHIN GROUP (ORDER BY {value})"
        return f"{self.name}({arguments})"
