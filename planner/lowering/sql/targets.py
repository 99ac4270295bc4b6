"""DuckDB and Spark as targets, and the list of all targets."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from planner.lowering.sql.engines.clickhouse import ClickHouseTarget
from planner.lowering.sql.engines.datafusion import DataFusionTarget
from planner.lowering.sql.engines.months import days_and_months
from planner.lowering.sql.engines.nans import variance_of_doubles
from planner.lowering.sql.engines.postgres import PostgresTarget
from planner.lowering.sql.target import PickedRow, Target
from planner.lowering.sql.text import (
    aggregate,
    and_not_null,
    binary,
    call,
    case,
    cast,
    decimal,
    number,
    operand,
)
from planner.scalars.decimals import MAX_DECIMAL_DIGITS, decimal_digits, decimal_result

_SECOND_US = 1_000_000
_BIGINT_DIGITS = 19
# Digits after the point that products of decimals on Spark keep
_KEPT_SCALE = 6
_MICROSECOND = exp.Interval(this=exp.Literal.string("0.000001"), unit=exp.Var(this="SECOND"))
_EPOCH = exp.Cast(
    this=exp.Literal.string("1970-01-01 00:00:00"), to=exp.DataType(this=exp.DType.TIMESTAMPNTZ)
)


class DuckDbTarget(Target):
    """DuckDB. SUM of integers is HUGEINT, so a cast finds overflow."""

    name = "duckdb"
    title = "DuckDB"
    has_fast_frames = True
    shares_ctes = True
    has_as_of_joins = True
    has_date_trunc = True

    def to_us(self, time: exp.Expr, type_: str) -> exp.Expr:
        return call("EPOCH_US", time)

    def wall_clock_us(self, time: exp.Expr, region: str) -> exp.Expr:
        return call("EPOCH_US", exp.AtTimeZone(this=operand(time), zone=exp.Literal.string(region)))

    def from_us(self, time_us: exp.Expr, type_: str = "timestamp_ntz") -> exp.Expr:
        name = "MAKE_TIMESTAMP" if type_ == "timestamp_ntz" else "MAKE_TIMESTAMPTZ"
        return call(name, time_us)

    def series(self, first: exp.Expr, last: exp.Expr, step: exp.Expr) -> exp.Expr:
        return call("GENERATE_SERIES", first, last, step)

    def series_before(self, first: exp.Expr, end: exp.Expr, step: int) -> exp.Expr:
        return call("RANGE", first, end, step)

    def unnest(self, values: exp.Expr) -> exp.Expr:
        return call("UNNEST", values)

    def pick(self, row: PickedRow) -> exp.Expr:
        return row.in_order("FIRST")

    def variance(self, value: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
        return variance_of_doubles("VAR_POP", value, condition)

    def distinct_list(self, value: exp.Expr) -> exp.Expr:
        return exp.Anonymous(this="LIST", expressions=[exp.Distinct(expressions=[value.copy()])])

    def struct(self, fields: Sequence[exp.Expr]) -> exp.Expr:
        return call("ROW", *fields)

    def count_of_union(self, lists: exp.Expr, item: str, *, is_merged: bool) -> exp.Expr:
        return call("COALESCE", call("LEN", self._union(lists, is_merged=is_merged)), 0)

    def sum_of_union(self, lists: exp.Expr, item: str, type_: str, *, is_merged: bool) -> exp.Expr:
        return cast(call("LIST_SUM", self._union(lists, is_merged=is_merged)), type_)

    def _union(self, lists: exp.Expr, *, is_merged: bool) -> exp.Expr:
        if not is_merged:
            return lists
        return call("LIST_DISTINCT", call("FLATTEN", call("LIST", lists)))

    def month_function(self, name: str, args: Sequence[exp.Expr]) -> exp.Expr | None:
        return days_and_months(name, args, _add_months, call)

    def fail(self, message: str) -> exp.Expr:
        return call("ERROR", message)

    def rounded_quotient(
        self, total: exp.Expr, sum_scale: int, count: exp.Expr, scale: int, type_: str
    ) -> exp.Expr:
        # whole numbers: (2 * |units| + count) // (2 * count) rounds half up
        units_per_one = cast(number(10**scale), decimal(scale + 1, 0))
        total = cast(total, decimal(MAX_DECIMAL_DIGITS, sum_scale))
        units = cast(binary(exp.Mul, total, units_per_one), exp.DataType(this=exp.DType.INT128))
        doubled = binary(exp.Add, binary(exp.Mul, call("ABS", units), 2), count)
        rounded = binary(exp.IntDiv, doubled, binary(exp.Mul, count, 2))
        signed = cast(binary(exp.Mul, call("SIGN", units), rounded), decimal(MAX_DECIMAL_DIGITS, 0))
        unit = cast(exp.Literal.number(f"{10**-scale:.{scale}f}"), decimal(scale + 1, scale))
        average = cast(binary(exp.Mul, signed, unit), type_)
        return case([(binary(exp.GT, count, 0), average)])


def _add_months(date: exp.Expr, months: exp.Expr) -> exp.Expr:
    return cast(binary(exp.Add, date, call("TO_MONTHS", months)), "date")


def _length(us: int) -> str:
    return f"{us} microseconds" if us % _SECOND_US else f"{us // _SECOND_US} seconds"


class SparkTarget(Target):
    """Spark 4 in ANSI mode, its default: overflow is an error."""

    name = "spark"
    title = "Spark"
    has_fast_frames = False
    least_overlap = 10

    def floor_mod(self, value: exp.Expr, divisor: int) -> exp.Expr:
        return call("PMOD", value, divisor)

    def to_us(self, time: exp.Expr, type_: str) -> exp.Expr:
        if type_ == "timestamp":
            return call("UNIX_MICROS", time)
        # TIMESTAMPDIFF would move times that the session's time zone skips in spring
        return binary(exp.IntDiv, binary(exp.Sub, time, _EPOCH), _MICROSECOND)

    def wall_clock_us(self, time: exp.Expr, region: str) -> exp.Expr:
        return call("UNIX_MICROS", call("FROM_UTC_TIMESTAMP", time, region))

    def offsets_around(self, local_us: exp.Expr, region: str) -> None:
        return None

    def instant(
        self,
        local_us: exp.Expr,
        region: str,
        offsets: tuple[exp.Expr, exp.Expr] | None = None,
    ) -> exp.Expr:
        return call("TO_UTC_TIMESTAMP", self.from_us(local_us, "timestamp"), region)

    def from_us(self, time_us: exp.Expr, type_: str = "timestamp_ntz") -> exp.Expr:
        if type_ == "timestamp":
            return call("TIMESTAMP_MICROS", time_us)
        # Spark 3.5 adds at most an INT with TIMESTAMPADD
        return binary(exp.Add, _EPOCH, binary(exp.Mul, time_us, _MICROSECOND))

    def slice_end(
        self, time: exp.Expr, type_: str, width_us: int, offset_us: int
    ) -> exp.Expr | None:
        if type_ == "timestamp":
            return None
        # `to_us` subtracts dates and times; WINDOW adds to a number
        width, offset = _length(width_us), _length(offset_us % width_us)
        lengths = [width] if offset_us % width_us == 0 else [width, width, offset]
        window = call("WINDOW", time, *lengths)
        return exp.Dot(this=window, expression=exp.to_identifier("end", quoted=True))

    def series(self, first: exp.Expr, last: exp.Expr, step: exp.Expr) -> exp.Expr:
        return call("SEQUENCE", first, last, step)

    def unnest(self, values: exp.Expr) -> exp.Expr:
        return call("EXPLODE", values)

    def pick(self, row: PickedRow) -> exp.Expr:
        # structs are compared field by field, and NULL is the smallest
        name = "MAX_BY" if row.is_last else "MIN_BY"
        return aggregate(call(name, row.value, self.struct(row.keys)), row.condition)

    def joined_texts(
        self,
        text: exp.Expr,
        keys: Sequence[exp.Expr],
        separator: str,
        condition: exp.Expr | None = None,
    ) -> exp.Expr:
        # Spark 3.5 has no LISTAGG, and in Spark 4.3 it fails next to DISTINCT
        order = [key for key in keys if key != text]
        fields = [part for i, key in enumerate(order) for part in (f"o{i}", key)]
        rows = call("COLLECT_LIST", call("NAMED_STRUCT", *fields, "v", text))
        in_order = call("SORT_ARRAY", aggregate(rows, and_not_null(condition, text)))
        texts = exp.Dot(this=in_order, expression=exp.to_identifier("v"))
        has_texts = binary(exp.GT, aggregate(call("COUNT", text), condition), 0)
        return case([(has_texts, call("ARRAY_JOIN", texts, separator))])

    def distinct_list(self, value: exp.Expr) -> exp.Expr:
        return call("COLLECT_SET", value)

    def struct(self, fields: Sequence[exp.Expr]) -> exp.Expr:
        return call("STRUCT", *fields)

    def count_of_union(self, lists: exp.Expr, item: str, *, is_merged: bool) -> exp.Expr:
        values = self._union(lists, is_merged=is_merged)
        return cast(call("COALESCE", call("SIZE", values), 0), "bigint")

    def sum_of_union(self, lists: exp.Expr, item: str, type_: str, *, is_merged: bool) -> exp.Expr:
        values = self._union(lists, is_merged=is_merged)
        _, scale = decimal_digits(item) or (0, 0)
        wide = decimal(MAX_DECIMAL_DIGITS, scale)
        total, value = exp.column("total"), exp.column("value")
        added = exp.Lambda(
            this=cast(binary(exp.Add, total, value), wide), expressions=[total.this, value.this]
        )
        whole = cast(call("AGGREGATE", values, cast(number(0), wide), added), type_)
        return case([(binary(exp.GT, call("SIZE", values), 0), whole)])

    def _union(self, lists: exp.Expr, *, is_merged: bool) -> exp.Expr:
        if not is_merged:
            return lists
        return call("ARRAY_DISTINCT", call("FLATTEN", call("COLLECT_LIST", lists)))

    def month_function(self, name: str, args: Sequence[exp.Expr]) -> exp.Expr | None:
        return call(name, *args)

    def fail(self, message: str) -> exp.Expr:
        return call("RAISE_ERROR", message)

    def product(self, value: exp.Expr, factor: exp.Expr, type_: str) -> exp.Expr:
        # a product keeps the digits of the decimal after the point, if they are few
        wide = value if decimal_digits(type_) else cast(value, decimal(_BIGINT_DIGITS, 0))
        return binary(exp.Mul, wide, cast(factor, decimal(_BIGINT_DIGITS, 0)))

    def rounded_quotient(
        self, total: exp.Expr, sum_scale: int, count: exp.Expr, scale: int, type_: str
    ) -> exp.Expr | None:
        # whole numbers: (2 * |units| + count) // (2 * count) rounds half up
        digits, _ = decimal_digits(type_) or (_BIGINT_DIGITS, 0)
        is_wide = digits + scale + 2 > MAX_DECIMAL_DIGITS
        if sum_scale > _KEPT_SCALE or (is_wide and scale > _KEPT_SCALE):
            return None
        wide = decimal(MAX_DECIMAL_DIGITS, 0)
        factor = exp.Literal.number(f"{2 * 10**scale}BD")
        doubled = cast(binary(exp.Mul, call("ABS", total), factor), wide)
        doubled = binary(exp.Add, doubled, cast(count, decimal(_BIGINT_DIGITS, 0)))
        divisor = cast(binary(exp.Mul, count, 2), decimal(_BIGINT_DIGITS, 0))
        rest = binary(exp.Mod, exp.Paren(this=doubled), divisor)
        rounded = binary(exp.Div, binary(exp.Sub, doubled, rest), divisor)
        units = cast(rounded, decimal(digits, 0))
        unit = exp.Literal.number(f"{10**-scale:.{scale}f}BD")
        signed = case([(binary(exp.LT, total, 0), exp.Neg(this=unit))], unit)
        average = binary(exp.Mul, units, signed)
        return cast(case([(binary(exp.GT, count, 0), average)]), type_)

    def can_add(self, type_: str) -> bool:
        digits = decimal_digits(type_)
        if digits is None:
            return True
        of_sum = decimal_digits(decimal_result("+", type_, type_))
        return of_sum is not None and of_sum[1] == digits[1]

    def checked_sum(self, total: exp.Expr, type_: str) -> exp.Expr:
        # SUM of integers is BIGINT, and fails on overflow
        return super().checked_sum(total, type_) if type_.startswith("decimal") else total


TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        ClickHouseTarget(),
        DataFusionTarget(),
        DuckDbTarget(),
        PostgresTarget(),
        SparkTarget(),
    )
}
