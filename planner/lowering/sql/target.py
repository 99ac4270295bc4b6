"""The base class of engines that the portable lowering writes SQL for.

Times are microseconds since 1970 as BIGINT wherever windows are computed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NoReturn, Protocol

from sqlglot import exp

from planner.lowering.sql.text import (
    aggregate,
    binary,
    call,
    case,
    cast,
    decimal,
    number,
    ordered,
)
from planner.scalars.decimals import MAX_DECIMAL_DIGITS, decimal_digits
from runtime.spec.aggregates import MergeOp
from runtime.spec.expressions import Call, Expression
from runtime.windows.times import DAY_US

FLOATING = ("float", "double")
_BIGINT_DIGITS = 19


class ExpressionWriter(Protocol):
    """Writer of scalar expressions on a target."""

    def write(self, expression: Expression) -> exp.Expr:
        """Return an expression on the target."""

    def refuse(self, expression: Call, why: str = "") -> NoReturn:
        """Raise `NotPortable` for a call."""

    def is_not_zero(self, divisor: Expression) -> bool:
        """Return whether a divisor is known not to be zero."""


@dataclass(frozen=True)
class PickedRow:
    """The first or last row of a group.

    Attributes:
        value: Value of a row. NULL is a value like any other.
        keys: Keys of the order, in which NULL is the smallest.
        condition: Condition of FILTER. None: all rows.
        is_last: Whether the last row is picked.
    """

    value: exp.Expr
    keys: Sequence[exp.Expr]
    condition: exp.Expr | None
    is_last: bool

    def in_order(self, function: str) -> exp.Expr:
        """Return an aggregate that takes the values of the rows, the picked one first."""
        values = ordered(function, self.value, self.keys, is_descending=self.is_last)
        return aggregate(values, self.condition)


class Target(ABC):
    """An engine."""

    writers: ClassVar[Mapping[str, Callable[[ExpressionWriter, Call], exp.Expr | None]]] = {}
    """Writers of functions that only this engine writes so, by name. They return None otherwise."""

    name: ClassVar[str]
    """Name for `--to`, which is also the name of sqlglot's dialect."""

    title: ClassVar[str]
    """Name in messages."""

    has_fast_frames: ClassVar[bool]
    """Whether the costs of `ROWS n PRECEDING` do not grow with n."""

    shares_ctes: ClassVar[bool] = False
    """Whether a CTE that several others read is computed once."""

    copies_expressions: ClassVar[bool] = False
    """Whether expressions of a CTE are copied to each place that reads them, without a limit."""

    has_semi_joins: ClassVar[bool] = False
    """Whether semi and anti joins are written as joins, not as EXISTS."""

    has_as_of_joins: ClassVar[bool] = False
    """Whether ASOF JOIN picks the rows that sqlwin picks."""

    has_date_trunc: ClassVar[bool] = False
    """Whether DATE_TRUNC of a TIMESTAMP is exact for all times."""

    has_orders_of_unions: ClassVar[bool] = True
    """Whether aggregates of one SELECT over UNION ALL may order their rows differently."""

    has_int_literals: ClassVar[bool] = True
    """Whether the type of a small whole number is INT."""

    first_year_without_rules: ClassVar[int | None] = None
    """Year from which the engine no longer changes clocks to summer time. None: it always does."""

    least_overlap: ClassVar[int] = 2
    """Windows per slice from which frames cost less than copies of slices."""

    def floor_mod(self, value: exp.Expr, divisor: int) -> exp.Expr:
        """Return the remainder of a BIGINT, from 0 to below the divisor."""
        below = binary(exp.Mod, value, divisor)
        return binary(exp.Mod, binary(exp.Add, below, divisor), divisor)

    @abstractmethod
    def to_us(self, time: exp.Expr, type_: str) -> exp.Expr:
        """Return the microseconds since 1970 of a `timestamp_ntz`, or of a `timestamp` in UTC."""

    def wall_clock_us(self, time: exp.Expr, region: str) -> exp.Expr | None:
        """Return the microseconds since 1970 that the clocks of a region show at a `timestamp`.

        None if the engine may have other clocks than Spark.
        """
        return None

    def offsets_around(self, local_us: exp.Expr, region: str) -> tuple[exp.Expr, exp.Expr] | None:
        """Return how far the clocks of a region are ahead of UTC a day before a time and after.

        None if the engine may have other clocks, or needs no offsets for instants.
        """
        if self.wall_clock_us(local_us, region) is None:
            return None
        # clocks change at most once in two days
        before = exp.Paren(this=binary(exp.Sub, local_us, DAY_US))
        after = exp.Paren(this=binary(exp.Add, local_us, DAY_US))
        return self._offset(before, region), self._offset(after, region)

    def _offset(self, time_us: exp.Expr, region: str) -> exp.Expr:
        there = self.wall_clock_us(self.from_us(time_us, "timestamp"), region)
        assert there is not None
        return exp.Paren(this=binary(exp.Sub, there, time_us))

    def instant(
        self,
        local_us: exp.Expr,
        region: str,
        offsets: tuple[exp.Expr, exp.Expr] | None = None,
    ) -> exp.Expr | None:
        """Return the `timestamp` at which the clocks of a region show a time, as java.time does.

        A time that they show twice is the earlier instant, and one that they skip moves forward by
        the length of the gap. None if the engine may have other clocks.

        Args:
            local_us: Microseconds since 1970 that clocks show.
            region: Time zone of the clocks.
            offsets: Columns with the results of `offsets_around`. None: they are written here.
        """
        offsets = offsets or self.offsets_around(local_us, region)
        if offsets is None:
            return None
        before, after = offsets
        earlier = exp.Paren(this=binary(exp.Sub, local_us, before))
        later = exp.Paren(this=binary(exp.Sub, local_us, after))
        # after the change, and not in a gap
        is_later = exp.And(
            this=binary(exp.NEQ, self._offset(earlier, region), before),
            expression=binary(exp.EQ, self._offset(later, region), after),
        )
        return self.from_us(case([(is_later, later)], earlier), "timestamp")

    @abstractmethod
    def from_us(self, time_us: exp.Expr, type_: str = "timestamp_ntz") -> exp.Expr:
        """Return the time with these microseconds since 1970."""

    def slice_end(
        self, time: exp.Expr, type_: str, width_us: int, offset_us: int
    ) -> exp.Expr | None:
        """Return the end of a row's slice as a time, to group by.

        Slices begin at the offset and its multiples of the width. None if the engine computes the
        end faster from microseconds.
        """
        return None

    @abstractmethod
    def series(self, first: exp.Expr, last: exp.Expr, step: exp.Expr) -> exp.Expr:
        """Return a list of numbers from the first to the last one."""

    def series_before(self, first: exp.Expr, end: exp.Expr, step: int) -> exp.Expr:
        """Return a list of numbers from the first one to below the end."""
        return self.series(first, binary(exp.Sub, end, 1), number(step))

    def transform(self, values: exp.Expr, function: exp.Expr) -> exp.Expr | None:
        """Return the results of a function for the values of a list. None: as sqlglot writes it."""
        return None

    @abstractmethod
    def unnest(self, values: exp.Expr) -> exp.Expr:
        """Return an item of a select list that repeats the row for each value of a list."""

    @abstractmethod
    def pick(self, row: PickedRow) -> exp.Expr:
        """Return the aggregate for the value of a row of the group."""

    def joined_texts(
        self,
        text: exp.Expr,
        keys: Sequence[exp.Expr],
        separator: str,
        condition: exp.Expr | None = None,
    ) -> exp.Expr:
        """Return the aggregate that concatenates texts. NULLs are left out; NULL for no texts.

        Args:
            text: Text of a row.
            keys: Keys of the order, without NULLs.
            separator: Text between two texts.
            condition: Condition of FILTER.
        """
        order = [exp.Ordered(this=key.copy()) for key in keys]
        last = exp.Order(this=exp.Literal.string(separator), expressions=order)
        return aggregate(call("STRING_AGG", text, last), condition)

    @abstractmethod
    def distinct_list(self, value: exp.Expr) -> exp.Expr:
        """Return the aggregate that lists the distinct values of a group, without NULLs."""

    @abstractmethod
    def struct(self, fields: Sequence[exp.Expr]) -> exp.Expr:
        """Return a struct of values."""

    @abstractmethod
    def count_of_union(self, lists: exp.Expr, item: str, *, is_merged: bool) -> exp.Expr:
        """Return the number of distinct values, BIGINT.

        Args:
            lists: Column with lists of distinct values, NULL for none.
            item: Type of the values, `string` for rows of them.
            is_merged: Whether the lists of a group are united. Otherwise they are counted row by
                row.
        """

    @abstractmethod
    def sum_of_union(
        self, lists: exp.Expr, item: str, type_: str, *, is_merged: bool
    ) -> exp.Expr | None:
        """Return the sum of distinct integers or decimals. None if the engine cannot compute it.

        Args:
            lists: As in `count_of_union`.
            item: As in `count_of_union`.
            type_: Type of the sum.
            is_merged: As in `count_of_union`.
        """

    @abstractmethod
    def month_function(self, name: str, args: Sequence[exp.Expr]) -> exp.Expr | None:
        """Return a function of Spark SQL with which windows of months are computed, or None."""

    def fail(self, message: str) -> exp.Expr | None:
        """Return an expression that fails with a message. None if the engine has none."""
        return None

    def double(self, value: float) -> exp.Expr:
        """Return a finite DOUBLE literal."""
        text = repr(abs(value))
        literal = exp.Literal(this=text if "e" in text else f"{text}e0", is_string=False)
        return exp.Neg(this=literal) if math.copysign(1, value) < 0 else literal

    def can_slide(self, op: MergeOp, type_: str) -> bool:
        """Return whether frames over rows compute an aggregate exactly."""
        return True

    def nullable(self, value: exp.Expr) -> exp.Expr:
        """Return a value whose LAG and LEAD are NULL where there is no row."""
        return value

    def compared(self, value: exp.Expr, type_: str) -> exp.Expr:
        """Return a value that is compared, ordered or searched for its minimum like in Spark."""
        return value

    def sort_keys(self, value: exp.Expr, type_: str) -> list[exp.Expr]:
        """Return the keys that order rows by a value."""
        return [self.compared(value, type_)]

    def grouped(self, value: exp.Expr, type_: str) -> exp.Expr:
        """Return a value to group, join or count by: -0.0 is 0.0, and all NaNs are equal."""
        if type_ not in FLOATING:
            return value
        return binary(exp.Add, value, exp.Literal(this="0e0", is_string=False))

    def sum(self, value: exp.Expr, type_: str) -> exp.Expr:
        """Return the sum of values of a type, for `checked_sum`."""
        return call("SUM", value)

    def variance(self, value: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
        """Return the population variance of DOUBLE, not computed from a sum of squares."""
        return aggregate(call("VAR_POP", value), condition)

    def merge(
        self, op: MergeOp, value: exp.Expr, type_: str, condition: exp.Expr | None = None
    ) -> exp.Expr:
        """Return the aggregate MIN, MAX or BIT_* of values of a type, with a FILTER or without."""
        return aggregate(call(op.name, value), condition)

    def typed(self, result: exp.Expr, type_: str) -> exp.Expr:
        """Return a result of MIN, MAX, CASE or a function with the digits of its DECIMAL type."""
        return result

    def can_add(self, type_: str) -> bool:
        """Return whether `added` of two sums of a type is exact, or fails."""
        return True

    def added(self, left: exp.Expr, right: exp.Expr, type_: str) -> exp.Expr:
        """Return the sum of two sums of a type, for `checked_sum`."""
        return binary(exp.Add, left, right)

    def partition_of_all(self, time: exp.Expr) -> list[exp.Expr]:
        """Return the PARTITION BY of a frame over all rows. Rows without a time may be apart."""
        return []

    def stored(self, value: exp.Expr, type_: str) -> exp.Expr:
        """Return a value as a column of this type."""
        return value

    def counted(self, count: exp.Expr) -> exp.Expr:
        """Return a number of rows as BIGINT."""
        return count

    def finish(self, query: exp.Query) -> None:
        """Add clauses, such as settings, to a finished query."""
        return

    def check(self, query: exp.Query) -> None:
        """Check a finished query.

        Raises:
            NotPortable: The engine cannot run it, or not with this result.
        """
        return

    def product(self, value: exp.Expr, factor: exp.Expr, type_: str) -> exp.Expr:
        """Return the exact product of an integer or a decimal of a type and a BIGINT, or fail."""
        _, scale = decimal_digits(type_) or (0, 0)
        wide = cast(value, decimal(MAX_DECIMAL_DIGITS, scale))
        return binary(exp.Mul, wide, cast(factor, decimal(_BIGINT_DIGITS, 0)))

    def rounded_quotient(
        self, total: exp.Expr, sum_scale: int, count: exp.Expr, scale: int, type_: str
    ) -> exp.Expr | None:
        """Return the average of decimals, rounded half up. None if the engine cannot compute it.

        Args:
            total: Sum, DECIMAL.
            sum_scale: Its digits after the point.
            count: Number of values, BIGINT. The average of none is NULL.
            scale: Digits after the point of the average, not fewer than the sum has.
            type_: Type of the average.
        """
        return None

    def checked_sum(self, total: exp.Expr, type_: str) -> exp.Expr:
        """Return a sum in the type of the query; a sum outside its range fails."""
        return total if type_ == "double" else cast(total, type_)
