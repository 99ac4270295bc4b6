"""DataFusion 55 as a target."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from planner.lowering.sql.engines.datafusion_functions import WRITERS, part_of_time
from planner.lowering.sql.engines.months import days_and_months
from planner.lowering.sql.engines.nans import extreme_of_doubles
from planner.lowering.sql.refusals import refuse_part
from planner.lowering.sql.target import FLOATING, PickedRow, Target
from planner.lowering.sql.text import (
    aggregate,
    binary,
    call,
    case,
    cast,
    decimal,
    not_null,
    number,
)
from planner.scalars.decimals import MAX_DECIMAL_DIGITS, decimal_digits
from runtime.spec.aggregates import MergeOp

_UTC, _LOCAL = 'Timestamp(Microsecond, Some("UTC"))', "Timestamp(Microsecond, None)"
# DECIMAL of more than 38 digits has 256 bits
_WIDE_DIGITS = 76
# A sum of 64 bits and one of 128 bits wrap, so there is room for the sum of 10^10 values
_SUMMED_DIGITS = 28
_BIGINT_DIGITS = 19
# Times of 31,688 years around 1970, next to which no window overflows
_TIME_DIGITS = 18
_AGGREGATES = {"ARRAY_AGG", "COUNT", "SUM", *(op.name for op in MergeOp)}
# Years by which months are moved, so that their number is positive in all years of a DATE
_YEARS = 300_000
_SLIDING = (MergeOp.COUNT, MergeOp.SUM, MergeOp.MIN, MergeOp.MAX, MergeOp.BIT_XOR)


class DataFusionTarget(Target):
    """DataFusion. Its integers wrap, so they are added as decimals, and a cast finds overflow."""

    name = "datafusion"
    title = "DataFusion"
    has_fast_frames = True
    has_int_literals = False
    has_orders_of_unions = False
    first_year_without_rules = 2100
    writers = WRITERS

    def partition_of_all(self, time: exp.Expr) -> list[exp.Expr]:
        # without a key it would merge the parts of UNION ALL, whose constants it orders wrongly
        return [exp.Is(this=time.copy(), expression=exp.Null())]

    def to_us(self, time: exp.Expr, type_: str) -> exp.Expr:
        in_us = call("ARROW_CAST", time, _UTC if type_ == "timestamp" else _LOCAL)
        return cast(cast(cast(in_us, "bigint"), decimal(_TIME_DIGITS, 0)), "bigint")

    def wall_clock_us(self, time: exp.Expr, region: str) -> exp.Expr:
        there = call("ARROW_CAST", time, f'Timestamp(Microsecond, Some("{region}"))')
        return self.to_us(call("TO_LOCAL_TIME", there), "timestamp_ntz")

    def from_us(self, time_us: exp.Expr, type_: str = "timestamp_ntz") -> exp.Expr:
        if type_ == "timestamp":
            return call("ARROW_CAST", time_us, _UTC)
        return call("TO_TIMESTAMP_MICROS", time_us)

    def compared(self, value: exp.Expr, type_: str) -> exp.Expr:
        # a NaN with a sign, as of an infinity minus itself, is the smallest number
        if type_ not in FLOATING or isinstance(value, exp.Literal | exp.Neg | exp.Cast):
            return value
        return call("NANVL", value, cast(exp.Literal.string("NaN"), type_))

    def sort_keys(self, value: exp.Expr, type_: str) -> list[exp.Expr]:
        return [self.grouped(value, type_)]

    def grouped(self, value: exp.Expr, type_: str) -> exp.Expr:
        return self.compared(super().grouped(value, type_), type_)

    def merge(
        self, op: MergeOp, value: exp.Expr, type_: str, condition: exp.Expr | None = None
    ) -> exp.Expr:
        if type_ in FLOATING:
            return extreme_of_doubles(op, value, type_, call("ISNAN", value), condition)
        return super().merge(op, value, type_, condition)

    def typed(self, result: exp.Expr, type_: str) -> exp.Expr:
        return cast(result, type_) if decimal_digits(type_) is not None else result

    def can_slide(self, op: MergeOp, type_: str) -> bool:
        # a frame over DOUBLE subtracts rows that leave it, and may take a NaN for the minimum
        return op in _SLIDING and type_ not in FLOATING

    def sum(self, value: exp.Expr, type_: str) -> exp.Expr:
        # names leave out CAST, so a CAST would collide with the SUM(CAST(v AS DOUBLE)) of an AVG
        digits = decimal_digits(type_)
        if digits is not None and digits[0] > _SUMMED_DIGITS:
            wide = f"Decimal256({digits[0] + 10}, {digits[1]})"
        elif type_ == "bigint":
            wide = f"Decimal128({_BIGINT_DIGITS}, 0)"
        else:
            return call("SUM", value)
        return call("SUM", call("ARROW_CAST", value, wide))

    def series(self, first: exp.Expr, last: exp.Expr, step: exp.Expr) -> exp.Expr:
        return call("GENERATE_SERIES", first, last, step)

    def series_before(self, first: exp.Expr, end: exp.Expr, step: int) -> exp.Expr:
        return call("RANGE", first, end, step)

    def transform(self, values: exp.Expr, function: exp.Expr) -> exp.Expr:
        # a function of unnested values is unnested, too
        (parameter,) = function.expressions
        item = call("UNNEST", values)
        result: exp.Expr = function.this.transform(
            lambda node: item.copy() if _is_column(node, parameter.name) else node
        )
        return result

    def unnest(self, values: exp.Expr) -> exp.Expr:
        is_unnested = any(call_.name == "UNNEST" for call_ in values.find_all(exp.Anonymous))
        return values if is_unnested else call("UNNEST", values)

    def pick(self, row: PickedRow) -> exp.Expr:
        return row.in_order("FIRST_VALUE")

    def distinct_list(self, value: exp.Expr) -> exp.Expr:
        distinct = exp.Distinct(expressions=[value.copy()])
        return exp.Anonymous(this="ARRAY_AGG", expressions=[distinct])

    def struct(self, fields: Sequence[exp.Expr]) -> exp.Expr:
        return call("STRUCT", *fields)

    def count_of_union(self, lists: exp.Expr, item: str, *, is_merged: bool) -> exp.Expr:
        values = lists
        if is_merged:
            given = aggregate(call("ARRAY_AGG", lists), not_null(lists))
            values = call("ARRAY_DISTINCT", call("FLATTEN", given))
        return cast(call("COALESCE", call("CARDINALITY", values), 0), "bigint")

    def sum_of_union(self, lists: exp.Expr, item: str, type_: str, *, is_merged: bool) -> None:
        return None

    def month_function(self, name: str, args: Sequence[exp.Expr]) -> exp.Expr | None:
        match name:
            case "UNIX_DATE":
                # a difference of dates and a sum with days may become intervals of nanoseconds
                return cast(args[0], "int")
            case "DATE_FROM_UNIX_DATE":
                return cast(args[0], "date")
        return days_and_months(name, args, _month_after_1970, part_of_time)

    def product(self, value: exp.Expr, factor: exp.Expr, type_: str) -> exp.Expr:
        _, scale = decimal_digits(type_) or (0, 0)
        wide = decimal(MAX_DECIMAL_DIGITS + _BIGINT_DIGITS, scale)
        return binary(exp.Mul, cast(value, wide), cast(factor, decimal(_BIGINT_DIGITS, 0)))

    def rounded_quotient(
        self, total: exp.Expr, sum_scale: int, count: exp.Expr, scale: int, type_: str
    ) -> exp.Expr:
        # whole numbers: (2 * |units| + count) // (2 * count) rounds half up
        wide = decimal(_WIDE_DIGITS, 0)
        factor = cast(exp.Literal.string(str(2 * 10**scale)), decimal(scale + 1, 0))
        positive = cast(call("ABS", total), decimal(MAX_DECIMAL_DIGITS + 1, sum_scale))
        doubled = cast(binary(exp.Add, cast(binary(exp.Mul, positive, factor), wide), count), wide)
        divisor = cast(binary(exp.Mul, count, 2), decimal(_BIGINT_DIGITS + 1, 0))
        rest = binary(exp.Mod, doubled, divisor)
        rounded = binary(exp.Div, binary(exp.Sub, doubled, rest), divisor)
        texts = (f"{sign * 10**-scale:.{scale}f}" for sign in (-1, 1))
        below, above = (cast(exp.Literal.string(t), decimal(scale + 1, scale)) for t in texts)
        unit = case([(binary(exp.LT, total, 0), below)], above)
        average = binary(exp.Mul, cast(rounded, decimal(MAX_DECIMAL_DIGITS, 0)), unit)
        return cast(case([(binary(exp.GT, count, 0), average)]), type_)

    def check(self, query: exp.Query) -> None:
        """Refuse aggregates that differ only in a cast: DataFusion leaves it out of names."""
        for select in query.find_all(exp.Select):
            if not (select.args.get("group") or any(map(_is_aggregate, select.expressions))):
                continue
            names = set()
            for item in select.expressions:
                name = item.unalias().transform(_without_casts).sql()
                if name in names:
                    refuse_part(
                        f"{self.title} gives one name to expressions that differ only in a cast",
                        hint="write one of them as an expression, such as v + 0",
                    )
                names.add(name)


def _is_aggregate(item: exp.Expr) -> bool:
    """Return whether an item of a select list has an aggregate or a window function."""
    return any(
        isinstance(node, exp.Window) or node.name in _AGGREGATES
        for node in item.find_all(exp.Window, exp.Anonymous)
    )


def _without_casts(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Cast):
        node = node.this
    return node


def _is_column(node: exp.Expr, name: str) -> bool:
    return isinstance(node, exp.Column | exp.Identifier) and node.name == name


def _month_after_1970(date: exp.Expr, months: exp.Expr) -> exp.Expr:
    """Return the first day of a month. Windows count months from 1970, and no date takes more."""
    month = binary(exp.Add, months, 12 * _YEARS)
    year = binary(exp.Sub, binary(exp.Div, month, 12), _YEARS - 1970)
    of_year = binary(exp.Add, binary(exp.Mod, month, 12), 1)
    return call("MAKE_DATE", cast(year, "int"), cast(of_year, "int"), cast(number(1), "int"))
