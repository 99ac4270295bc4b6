"""PostgreSQL 14 and later as a target."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from planner.lowering.sql.engines.months import days_and_months
from planner.lowering.sql.engines.postgres_functions import WRITERS, part_of_time
from planner.lowering.sql.refusals import refuse_part
from planner.lowering.sql.target import PickedRow, Target
from planner.lowering.sql.text import (
    FIRST_DAY,
    aggregate,
    binary,
    call,
    case,
    cast,
    data_type,
    number,
    operand,
)
from planner.scalars.decimals import decimal_digits
from runtime.spec.aggregates import MergeOp

_DAY_US = 86_400_000_000
_MICROSECOND = exp.Interval(this=exp.Literal.string("1"), unit=exp.Var(this="MICROSECOND"))
_MAX_NAME_BYTES = 63
# Regions whose names PostgreSQL takes for offsets
_ABBREVIATIONS = ("CET", "EET", "MET", "WET")
# Names in subqueries over lists
_LISTS, _LIST, _VALUE = "lists", "list", "value"
_BOOLEANS = {MergeOp.MIN: "BOOL_AND", MergeOp.MAX: "BOOL_OR"}


class PostgresTarget(Target):
    """PostgreSQL. SUM of BIGINT is NUMERIC, so a cast finds overflow."""

    name = "postgres"
    title = "PostgreSQL"
    copies_expressions = True
    has_date_trunc = True
    has_fast_frames = True
    shares_ctes = True
    writers = WRITERS

    def to_us(self, time: exp.Expr, type_: str) -> exp.Expr:
        seconds = exp.Extract(this=exp.Var(this="EPOCH"), expression=time.copy())
        return cast(binary(exp.Mul, seconds, 1_000_000), "bigint")

    def wall_clock_us(self, time: exp.Expr, region: str) -> exp.Expr | None:
        if region in _ABBREVIATIONS:
            return None
        return self.to_us(_at(time, region), "timestamp_ntz")

    def from_us(self, time_us: exp.Expr, type_: str = "timestamp_ntz") -> exp.Expr:
        # a product with an interval is exact up to 2^53 microseconds
        day = cast(binary(exp.IntDiv, time_us, _DAY_US), "int")
        rest = exp.Paren(this=binary(exp.Mod, time_us, _DAY_US))
        of_day = exp.Mul(this=rest, expression=_MICROSECOND.copy())
        time = exp.Paren(this=binary(exp.Add, binary(exp.Add, FIRST_DAY, day), of_day))
        if type_ == "timestamp_ntz":
            return time
        return _at(time, "UTC")

    def double(self, value: float) -> exp.Expr:
        # a number with an exponent is NUMERIC, which has no negative zero
        return cast(exp.Literal.string(repr(value)), "double")

    def compared(self, value: exp.Expr, type_: str) -> exp.Expr:
        if type_ != "string":
            return value
        return exp.Collate(this=operand(value), expression=exp.Identifier(this="C", quoted=True))

    def merge(
        self, op: MergeOp, value: exp.Expr, type_: str, condition: exp.Expr | None = None
    ) -> exp.Expr:
        name = op.name
        if op in _BOOLEANS:
            if type_ == "boolean":
                name = _BOOLEANS[op]
            if type_ == "binary":
                refuse_part(f"{op.name} of BINARY is not known on {self.title}", f"{op.name}(")
            value = self.compared(value, type_)
        return aggregate(call(name, value), condition)

    def typed(self, result: exp.Expr, type_: str) -> exp.Expr:
        return cast(result, type_) if decimal_digits(type_) is not None else result

    def series(self, first: exp.Expr, last: exp.Expr, step: exp.Expr) -> exp.Expr:
        return call("GENERATE_SERIES", first, last, step)

    def transform(self, values: exp.Expr, function: exp.Expr) -> exp.Expr:
        (parameter,) = function.expressions
        alias = exp.TableAlias(this=exp.to_identifier(parameter.name))
        table = exp.Table(this=self.unnest(values), alias=alias)
        query = exp.Select(expressions=[function.this.copy()], from_=exp.From(this=table))
        return call("ARRAY", query)

    def unnest(self, values: exp.Expr) -> exp.Expr:
        if _is_series(values):
            return values
        return call("UNNEST", values.transform(_as_array))

    def pick(self, row: PickedRow) -> exp.Expr:
        values = exp.Paren(this=row.in_order("ARRAY_AGG"))
        return exp.Bracket(this=values, expressions=[number(0)], offset=0)

    def distinct_list(self, value: exp.Expr) -> exp.Expr:
        distinct = exp.Distinct(expressions=[value.copy()])
        return exp.Anonymous(this="ARRAY_AGG", expressions=[distinct])

    def struct(self, fields: Sequence[exp.Expr]) -> exp.Expr:
        # the text of a row quotes its fields, so different rows have different texts
        return cast(call("ROW", *fields), "string")

    def count_of_union(self, lists: exp.Expr, item: str, *, is_merged: bool) -> exp.Expr:
        if not is_merged:
            return cast(call("COALESCE", call("CARDINALITY", lists), 0), "bigint")
        return self._over_union("COUNT", lists, item)

    def sum_of_union(self, lists: exp.Expr, item: str, type_: str, *, is_merged: bool) -> exp.Expr:
        if is_merged:
            return cast(self._over_union("SUM", lists, item), type_)
        values = _unnested(lists)
        return cast(_subquery(call("SUM", exp.column(_VALUE)), [values]), type_)

    def _over_union(self, function: str, lists: exp.Expr, item: str) -> exp.Expr:
        """Return an aggregate over the distinct values of all lists of a group.

        Lists of different lengths have no array, rows with lists have one.
        """
        rows = call("UNNEST", call("ARRAY_AGG", call("ROW", lists)))
        column = exp.ColumnDef(this=exp.to_identifier(_LIST), kind=_array(item))
        alias = exp.TableAlias(this=exp.to_identifier(_LISTS), columns=[column])
        values = _unnested(exp.column(_LIST))
        distinct = exp.Distinct(expressions=[exp.column(_VALUE)])
        total = exp.Anonymous(this=function, expressions=[distinct])
        return _subquery(total, [exp.Table(this=rows, alias=alias), values])

    def month_function(self, name: str, args: Sequence[exp.Expr]) -> exp.Expr | None:
        return days_and_months(name, args, _add_months, part_of_time)

    def rounded_quotient(
        self, total: exp.Expr, sum_scale: int, count: exp.Expr, scale: int, type_: str
    ) -> exp.Expr:
        # whole numbers: (2 * |units| + count) // (2 * count) rounds half up
        units = binary(exp.Mul, call("ABS", total), 2 * 10**scale)
        doubled = binary(exp.Add, units, count)
        rounded = call("DIV", doubled, binary(exp.Mul, count, 2))
        unit = exp.Literal.number(f"{10**-scale:.{scale}f}")
        signed = binary(exp.Mul, call("SIGN", total), rounded)
        average = binary(exp.Mul, signed, unit)
        return cast(case([(binary(exp.GT, count, 0), average)]), type_)

    def check(self, query: exp.Query) -> None:
        for name in query.find_all(exp.Identifier):
            if len(name.this.encode()) > _MAX_NAME_BYTES:
                refuse_part(
                    f"{name.this} is cut off on {self.title}, whose names have at most "
                    f"{_MAX_NAME_BYTES} bytes",
                    name.this,
                )
        for type_ in query.find_all(exp.DataType):
            if type_.this == exp.DType.TINYINT:
                refuse_part(f"{self.title} has no TINYINT", "TINYINT", "use SMALLINT")


def _at(time: exp.Expr, zone: str) -> exp.Expr:
    return exp.AtTimeZone(this=operand(time), zone=exp.Literal.string(zone))


def _add_months(date: exp.Expr, months: exp.Expr) -> exp.Expr:
    return cast(binary(exp.Add, date, call("MAKE_INTERVAL", 0, months)), "date")


def _is_series(values: exp.Expr) -> bool:
    return isinstance(values, exp.Anonymous) and values.name == "GENERATE_SERIES"


def _as_array(node: exp.Expr) -> exp.Expr:
    """Return a branch of CASE, which takes no set of rows, as an array."""
    if not isinstance(node.parent, exp.Case | exp.If):
        return node
    if _is_series(node):
        return call("ARRAY", exp.Select(expressions=[node.copy()]))
    return cast(node, _array("bigint")) if isinstance(node, exp.Array) else node


def _array(item: str) -> exp.DataType:
    return exp.DataType(this=exp.DType.ARRAY, expressions=[data_type(item)], nested=True)


def _unnested(values: exp.Expr) -> exp.Expr:
    alias = exp.TableAlias(this=exp.to_identifier(_VALUE))
    return exp.Table(this=call("UNNEST", values), alias=alias)


def _subquery(value: exp.Expr, sources: Sequence[exp.Expr]) -> exp.Expr:
    first, *others = sources
    query = exp.Select(expressions=[value], from_=exp.From(this=first))
    query.set("joins", [exp.Join(this=other) for other in others])
    return exp.Subquery(this=query)
