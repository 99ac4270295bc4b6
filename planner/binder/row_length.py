"""An argument of a window function that is an interval of the row: the gap of SESSION.

The rows get a hidden column with the interval in microseconds. Rows where it is NULL, zero or
negative are dropped, as by Spark's `session_window`.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.aggregates.calls import aggregates_in
from planner.aggregates.intervals import is_day_interval, to_microseconds
from planner.binder.relations import Relations
from planner.catalog import Schema, column_named
from planner.nodes.logical import Filter, Node, with_column
from planner.sql.build import INTEGERS, alias, cast_as, column, is_flat_type, literal, to_sql
from planner.sql.intervals import fold_interval
from planner.sql.nodes import WindowFunctionCall, error_at, name_of_columns
from runtime.errors import AnalysisError
from runtime.shown_types import shown_type
from runtime.spec.table import Column
from runtime.windows.arguments import RowLength


def row_length(expr: exp.Expr, subject: str, sql: str) -> RowLength | None:
    """Return an interval that depends on the row, or None if it reads no column.

    Args:
        expr: The argument.
        subject: The argument in messages, such as `the gap of SESSION`.
        sql: Text of the statement.

    Raises:
        AnalysisError: It has an expression that is not supported.
    """
    if expr.find(exp.Column) is None:
        return None
    beyond = next(iter(aggregates_in(expr)), None) or expr.find(exp.Query, exp.Window)
    if beyond is not None:
        raise error_at(
            sql,
            f"{subject} must be an expression of one row",
            beyond,
            expr,
            hint="compute it in a subquery: TABLE (SELECT *, ... AS gap FROM t)",
        )
    least: list[int] = []

    def note(value: exp.Expr) -> exp.Expr:
        us = _constant_us(value, subject, sql)
        if us is None:
            _check(value, subject, sql)
            us = 1
        if us > 0:
            least.append(us)
        return value

    _each_value(expr, note)
    return RowLength(to_sql(expr), min(least, default=1))


def with_row_length(
    function: WindowFunctionCall,
    hidden: str,
    source: Node,
    relations: Relations,
) -> Node:
    """Add the hidden column of an interval to rows, and drop rows where it is not positive.

    Args:
        function: The call.
        hidden: Name of the column.
        source: Data of the call.
        relations: Relations of the query.

    Raises:
        AnalysisError: A column does not exist, or a value has the wrong type.
    """
    subject, sql = f"the gap of {function.kind}", relations.sql

    def convert(value: exp.Expr) -> exp.Expr:
        us = _constant_us(value, subject, sql)
        if us is not None:
            return cast_as(literal(us), "bigint")
        if isinstance(value, exp.Mul):
            return _product(value, source.schema, subject, sql)
        if isinstance(value, exp.Column):
            return _of_column(value, source.schema, subject, sql)
        return value

    length = _each_value(function.args["gap"].copy(), convert)
    data = function.args["data"]
    rows = relations.select([alias(length, hidden)], source)
    if isinstance(data, exp.Table):
        name = name_of_columns(data)
        rows.args["from_"].this.set("alias", exp.TableAlias(this=exp.to_identifier(name)))
        for read in length.find_all(exp.Column):
            if read.table.lower() == name.lower():
                read.set("table", None)
    names = {table.name for table in rows.find_all(exp.Table)}
    relations.catalog.analyze(rows, dict.fromkeys(names, source.schema))
    with_length = with_column(source, Column(hidden, "bigint"), length)
    positive = exp.GT(this=column(hidden), expression=literal(0))
    return Filter(with_length.schema, with_length, (positive,))


def _each_value(expr: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Apply a function to the values that CASE, IF and COALESCE choose from, in place."""
    values: list[exp.Expr | None]
    match expr:
        case exp.Paren():
            values = [expr.this]
        case exp.Case():
            values = [
                *(branch.args["true"] for branch in expr.args["ifs"]),
                expr.args.get("default"),
            ]
        case exp.If():
            values = [expr.args["true"], expr.args.get("false")]
        case exp.Coalesce():
            values = [expr.this, *expr.expressions]
        case exp.Anonymous() if expr.name.upper() == "IF" and len(expr.expressions) == 3:
            values = expr.expressions[1:]
        case exp.Anonymous() if expr.name.upper() in ("COALESCE", "NVL", "IFNULL"):
            values = list(expr.expressions)
        case exp.Null():
            return expr
        case _:
            return change(expr)
    for value in values:
        if value is None:
            continue
        changed = _each_value(value, change)
        if changed is not value:
            value.replace(changed)
    return expr


def _constant_us(value: exp.Expr, subject: str, sql: str) -> int | None:
    """Return a constant interval in microseconds. None if it reads a column."""
    if value.find(exp.Column) is not None:
        return None
    try:
        interval = fold_interval(value)
    except AnalysisError as error:
        raise error_at(sql, error.message, value, hint=error.hint) from error
    if interval.months:
        raise error_at(
            sql,
            f"{subject} must have a fixed length, but {interval.text} does not",
            value,
            hint="use days: INTERVAL '30' DAYS",
        )
    return interval.us


def _check(value: exp.Expr, subject: str, sql: str) -> None:
    """Refuse a value that is neither a column nor a product of a number and an interval."""
    if isinstance(value, exp.Column):
        return
    if isinstance(value, exp.Mul) and _factors(value):
        return
    raise error_at(
        sql,
        f"{subject} must choose between intervals, columns and products of a number and an "
        f"interval, but it contains {to_sql(value)}",
        value,
        hint="compute it in a subquery: TABLE (SELECT *, ... AS gap FROM t)",
    )


def _factors(value: exp.Mul) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the number and the constant interval of a product, or None."""
    for number, interval in ((value.this, value.expression), (value.expression, value.this)):
        is_constant = interval.find(exp.Column) is None
        if is_constant and interval.find(exp.Interval) and not number.find(exp.Interval):
            return number, interval
    return None


def _product(value: exp.Mul, schema: Schema, subject: str, sql: str) -> exp.Expr:
    factors = _factors(value)
    assert factors is not None, "row_length has checked it"
    number, interval = factors
    us = cast_as(literal(_constant_us(interval, subject, sql) or 0), "bigint")
    type_ = _type_of(number, schema)
    if type_ is not None and not (is_flat_type(type_) and _is_number(type_)):
        raise error_at(
            sql,
            f"{subject} multiplies an interval by `{number.name}`, which is {shown_type(type_)}",
            number,
            hint="multiply it by a number",
        )
    product = exp.Mul(this=exp.Paren(this=number.copy()), expression=us)
    if type_ in INTEGERS:
        return product
    return cast_as(exp.Round(this=product), "bigint")


def _of_column(value: exp.Column, schema: Schema, subject: str, sql: str) -> exp.Expr:
    type_ = _type_of(value, schema)
    if type_ is not None and not is_day_interval(type_):
        hint = f"for example {to_sql(value)} * INTERVAL '1' SECOND" if _is_number(type_) else None
        raise error_at(
            sql,
            f"{subject} must be an INTERVAL of days and less, but `{value.name}` is "
            f"{shown_type(type_)}",
            value,
            hint=hint,
        )
    return to_microseconds(value)


def _type_of(value: exp.Expr, schema: Schema) -> str | None:
    """Return the type of a column of the rows. None if it is another expression."""
    found = column_named(schema, value.name) if isinstance(value, exp.Column) else None
    return None if found is None else found.type


def _is_number(type_: str) -> bool:
    return type_ in (*INTEGERS, "float", "double") or type_.startswith("decimal")
