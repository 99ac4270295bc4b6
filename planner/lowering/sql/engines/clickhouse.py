"""ClickHouse 26 as a target."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from planner.lowering.sql.engines.clickhouse_functions import WRITERS, part_of_time
from planner.lowering.sql.engines.months import days_and_months
from planner.lowering.sql.engines.nans import extreme_of_doubles, variance_of_doubles
from planner.lowering.sql.refusals import refuse_part
from planner.lowering.sql.target import FLOATING, PickedRow, Target
from planner.lowering.sql.text import (
    aggregate,
    and_not_null,
    binary,
    call,
    case,
    cast,
    decimal,
    not_null,
)
from planner.scalars.decimals import MAX_DECIMAL_DIGITS, decimal_digits
from runtime.spec.aggregates import MergeOp

# A cast to DECIMAL checks its bytes, not its digits
_WIDE_DIGITS = 76
_SETTINGS = {
    # results without rows are NULL, not 0
    "aggregate_functions_null_for_empty": "1",
    "join_use_nulls": "1",
    # a name in an expression is a column, not an alias next to it
    "prefer_column_name_to_alias": "1",
    "session_timezone": "'UTC'",
}


class ClickHouseTarget(Target):
    """ClickHouse. Integers and casts wrap, so ACCURATECAST of wider integers finds overflow."""

    name = "clickhouse"
    title = "ClickHouse"
    has_fast_frames = False
    least_overlap = 5
    has_int_literals = False
    has_semi_joins = True
    writers = WRITERS

    def to_us(self, time: exp.Expr, type_: str) -> exp.Expr:
        return call("toUnixTimestamp64Micro", time)

    def from_us(self, time_us: exp.Expr, type_: str = "timestamp_ntz") -> exp.Expr:
        zone = ["UTC"] if type_ == "timestamp" else []
        return call("fromUnixTimestamp64Micro", time_us, *zone)

    def sort_keys(self, value: exp.Expr, type_: str) -> list[exp.Expr]:
        # ORDER BY has NaN next to NULL
        return [call("isNaN", value), value] if type_ in FLOATING else [value]

    def grouped(self, value: exp.Expr, type_: str) -> exp.Expr:
        if type_ not in FLOATING:
            return self.stored(value, type_)
        nan = cast(exp.Literal.string("NaN"), type_)
        return case([(call("isNaN", value), nan)], super().grouped(value, type_))

    def stored(self, value: exp.Expr, type_: str) -> exp.Expr:
        is_plain = isinstance(value, exp.Column | exp.Boolean | exp.Cast)
        # a condition is UInt8
        return value if type_ != "boolean" or is_plain else cast(value, type_)

    def counted(self, count: exp.Expr) -> exp.Expr:
        return cast(count, "bigint")

    def variance(self, value: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
        return variance_of_doubles("varPopStable", value, condition)

    def merge(
        self, op: MergeOp, value: exp.Expr, type_: str, condition: exp.Expr | None = None
    ) -> exp.Expr:
        if type_ in FLOATING:
            return extreme_of_doubles(op, value, type_, call("isNaN", value), condition)
        return super().merge(op, self.stored(value, type_), type_, condition)

    def typed(self, result: exp.Expr, type_: str) -> exp.Expr:
        return cast(result, type_) if decimal_digits(type_) is not None else result

    def can_slide(self, op: MergeOp, type_: str) -> bool:
        # MIN and MAX of doubles are two aggregates each
        return type_ not in FLOATING or op == MergeOp.SUM

    def nullable(self, value: exp.Expr) -> exp.Expr:
        # before the first and after the last row, LAG and LEAD of a column without NULLs are 0
        return call("toNullable", value)

    def sum(self, value: exp.Expr, type_: str) -> exp.Expr:
        digits = decimal_digits(type_)
        if digits is not None:
            value = call("toDecimal256", value, digits[1])
        elif type_ == "bigint":
            value = call("toInt128", value)
        return call("SUM", value)

    def added(self, left: exp.Expr, right: exp.Expr, type_: str) -> exp.Expr:
        # a sum of Int64 wraps
        return super().added(call("toInt128", left) if type_ == "bigint" else left, right, type_)

    def checked_sum(self, total: exp.Expr, type_: str) -> exp.Expr:
        digits = decimal_digits(type_)
        if digits is not None and digits[0] == MAX_DECIMAL_DIGITS:
            # a cast lets digits pass that do not fit
            bound = call("toDecimal256", f"1{'0' * (digits[0] - digits[1])}", digits[1])
            has_more = call("ifNull", binary(exp.GTE, call("abs", total), bound), 0)
            message = f"a sum has more than {MAX_DECIMAL_DIGITS} digits"
            total = binary(exp.Add, total, call("throwIf", has_more, message))
        return super().checked_sum(total, type_)

    def series(self, first: exp.Expr, last: exp.Expr, step: exp.Expr) -> exp.Expr:
        return call("range", first, binary(exp.Add, last, 1), step)

    def transform(self, values: exp.Expr, function: exp.Expr) -> exp.Expr:
        return call("arrayMap", function, values)

    def unnest(self, values: exp.Expr) -> exp.Expr:
        return call("arrayJoin", values)

    def pick(self, row: PickedRow) -> exp.Expr:
        # a tuple may have NULLs, and a flag before each key decides about them
        name = "argMax" if row.is_last else "argMin"
        order = [part for key in row.keys for part in (not_null(key), key)]
        picked = call(name, call("tuple", row.value), call("tuple", *order))
        found = aggregate(picked, row.condition)
        return call("tupleElement", found, 1)

    def joined_texts(
        self,
        text: exp.Expr,
        keys: Sequence[exp.Expr],
        separator: str,
        condition: exp.Expr | None = None,
    ) -> exp.Expr:
        fields = [*(key for key in keys if key != text), text]
        row = call("tuple", *(call("assumeNotNull", part) for part in fields))
        rows = aggregate(call("groupArray", row), and_not_null(condition, text))
        texts = call("tupleElement", call("arraySort", rows), len(fields))
        has_texts = binary(exp.GT, aggregate(call("count", text), condition), 0)
        return case([(has_texts, call("arrayStringConcat", texts, separator))])

    def distinct_list(self, value: exp.Expr) -> exp.Expr:
        return call("groupUniqArray", value)

    def struct(self, fields: Sequence[exp.Expr]) -> exp.Expr:
        return call("tuple", *fields)

    def count_of_union(self, lists: exp.Expr, item: str, *, is_merged: bool) -> exp.Expr:
        return cast(call("length", _union(lists, is_merged=is_merged)), "bigint")

    def sum_of_union(self, lists: exp.Expr, item: str, type_: str, *, is_merged: bool) -> exp.Expr:
        union = _union(lists, is_merged=is_merged)
        digits = decimal_digits(item)
        value = exp.column("x")
        wide = call("toInt128", value) if digits is None else call("toDecimal256", value, digits[1])
        function = exp.Lambda(this=wide, expressions=[exp.to_identifier("x")])
        total = self.checked_sum(call("arraySum", call("arrayMap", function, union)), type_)
        return case([(binary(exp.GT, call("length", union), 0), total)])

    def month_function(self, name: str, args: Sequence[exp.Expr]) -> exp.Expr | None:
        if name == "UNIX_DATE":
            return call("toInt32", args[0])
        return days_and_months(name, args, _add_months, part_of_time)

    def product(self, value: exp.Expr, factor: exp.Expr, type_: str) -> exp.Expr:
        _, scale = decimal_digits(type_) or (0, 0)
        return binary(exp.Mul, call("toDecimal256", value, scale), factor)

    def rounded_quotient(
        self, total: exp.Expr, sum_scale: int, count: exp.Expr, scale: int, type_: str
    ) -> exp.Expr:
        # whole numbers: (2 * |units| + count) // (2 * count) rounds half up
        factor = call("toInt256", str(2 * 10**scale))
        positive = cast(call("abs", total), decimal(_WIDE_DIGITS, sum_scale))
        doubled = binary(exp.Add, call("toInt256", binary(exp.Mul, positive, factor)), count)
        rounded = call("intDiv", doubled, binary(exp.Mul, count, 2))
        texts = (f"{sign * 10**-scale:.{scale}f}" for sign in (-1, 1))
        below, above = (cast(exp.Literal.string(t), decimal(scale + 1, scale)) for t in texts)
        unit = case([(binary(exp.LT, total, 0), below)], above)
        average = binary(exp.Mul, call("toDecimal128", rounded, 0), unit)
        return cast(case([(binary(exp.GT, count, 0), average)]), type_)

    def finish(self, query: exp.Query) -> None:
        query.set(
            "settings",
            [
                exp.EQ(this=exp.Var(this=name), expression=exp.Var(this=value))
                for name, value in _SETTINGS.items()
            ],
        )

    def check(self, query: exp.Query) -> None:
        for type_ in query.find_all(exp.DataType):
            if type_.this == exp.DType.BINARY:
                refuse_part(f"{self.title} has no BINARY", "BINARY")


def _union(lists: exp.Expr, *, is_merged: bool) -> exp.Expr:
    return call("groupUniqArrayArray", lists) if is_merged else lists


def _add_months(date: exp.Expr, months: exp.Expr) -> exp.Expr:
    return call("addMonths", date, months)
