"""Values of FILL: fillers by column, and constants of the columns' types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from planner.arrow.expressions import to_arrow_expression
from planner.catalog import Schema
from planner.scalars.types import TIMES, is_integer, is_numeric
from planner.sql.build import cast_as, is_flat_type, to_sql
from planner.sql.nodes import FillItem, error_at
from runtime.errors import AnalysisError, nearest
from runtime.refusal import tried
from runtime.shown_types import shown_type
from runtime.spec.expressions import Constant
from runtime.spec.filling import FillConstant, Filler, FillLinear, FillLocf

_LIMITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def fillers_of(
    items: Sequence[exp.Expr],
    values: Schema,
    others: Mapping[str, str],
    sql: str,
    zone: str,
) -> tuple[tuple[tuple[str, Filler], ...], tuple[str, ...]]:
    """Return the filler of each column, and the texts that describe them.

    Args:
        items: Items of FILL.
        values: Columns that can be filled.
        others: Reasons why other result columns cannot be filled, by lower-case name.
        sql: Text of the statement.
        zone: Session time zone.

    Raises:
        AnalysisError: A column is unknown or named twice, or a value does not fit its type.
    """
    types = {column.name.lower(): column for column in values}
    named: dict[str, FillItem] = {}
    default: FillItem | None = None
    for item in items:
        assert isinstance(item, FillItem)
        if item.this is None:
            default = item
            continue
        name = item.this.name.lower()
        if name in named:
            raise error_at(sql, f"FILL names column `{item.this.name}` twice", item.this)
        if name not in types:
            raise _unknown(item.this, [column.name for column in values], others, sql)
        named[name] = item
    fillers: list[tuple[str, Filler]] = []
    texts = []
    for column in values:
        filled_by = named.get(column.name.lower(), default)
        if filled_by is None:
            fillers.append((column.name, _null(column.type)))
            continue
        value = filled_by.expression
        text = value.name if isinstance(value, exp.Var) else to_sql(value)
        texts.append(f"{column.name} = {text}")
        fillers.append((column.name, _filler(value, column.name, column.type, sql, zone)))
    return tuple(fillers), tuple(texts)


def _unknown(
    name: exp.Identifier, names: list[str], others: Mapping[str, str], sql: str
) -> AnalysisError:
    reason = others.get(name.name.lower())
    if reason is not None:
        return error_at(sql, f"FILL cannot fill `{name.name}`: {reason}", name)
    close = nearest(name.name, names)
    hint = f"did you mean {close}?" if close else f"columns to fill: {', '.join(names)}"
    return error_at(
        sql, f"FILL cannot fill `{name.name}`: there is no such column", name, hint=hint
    )


def _null(type_: str) -> FillConstant:
    return FillConstant(Constant(None, type_))


def _filler(value: exp.Expr, name: str, type_: str, sql: str, zone: str) -> Filler:
    if isinstance(value, exp.Var) and value.name == "LOCF":
        return FillLocf()
    if isinstance(value, exp.Var):
        if not is_numeric(type_) and type_ not in TIMES:
            raise error_at(
                sql,
                f"LINEAR needs a number or a time, but `{name}` is {shown_type(type_)}",
                value,
                hint="use LOCF, NULL or a constant",
            )
        return FillLinear()
    if isinstance(value, exp.Null):
        return _null(type_)
    constant = constant_of(value, type_, zone)
    if constant is None:
        shown = to_sql(value)
        raise error_at(
            sql,
            f"`{shown}` cannot fill `{name}`, which is {shown_type(type_)}",
            value,
            hint=f"use LOCF, LINEAR, NULL or a constant{_example(type_)}",
        )
    return FillConstant(constant)


def _example(type_: str) -> str:
    if is_integer(type_):
        return " such as 0"
    if is_numeric(type_):
        return " such as 0.0"
    examples = {
        "string": "'none'",
        "boolean": "FALSE",
        "date": "DATE '2026-01-31'",
        "timestamp_ntz": "TIMESTAMP '2026-01-31 10:00:00'",
        "timestamp": "TIMESTAMP_LTZ '2026-01-31 10:00:00'",
    }
    return f" such as {examples[type_]}" if type_ in examples else ""


def constant_of(value: exp.Expr, type_: str, zone: str) -> Constant | None:
    """Return a literal as a constant of a type, or None if it is not one that fits.

    Args:
        value: A literal, possibly negative or typed, as `TIMESTAMP '2026-01-31'`.
        type_: Spark type.
        zone: Session time zone, for instants.
    """
    if not is_flat_type(type_) or type_ == "binary":
        return None
    literal = value.unnest()
    inner = literal.this if isinstance(literal, exp.Neg) else literal
    is_number = isinstance(inner, exp.Literal) and not inner.is_string
    is_text = isinstance(literal, exp.Literal) and literal.is_string
    is_typed = isinstance(literal, exp.Cast) and isinstance(literal.this, exp.Literal)
    if is_numeric(type_):
        if not (is_number or (is_typed and not literal.this.is_string)):
            return None
    elif type_ == "boolean":
        if not isinstance(literal, exp.Boolean):
            return None
    elif type_ == "string":
        if not is_text:
            return None
    elif not (is_text or is_typed):
        return None
    target = cast_as(literal.copy(), type_)
    made = tried(to_arrow_expression, target, (), zone)
    if not isinstance(made, Constant) or made.type != type_ or made.value is None:
        return None
    bits = _LIMITS.get(type_)
    if bits is not None and not (
        isinstance(made.value, int) and -(1 << (bits - 1)) <= made.value < 1 << (bits - 1)
    ):
        return None
    return made
