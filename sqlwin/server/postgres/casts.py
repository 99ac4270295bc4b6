"""Casts and literals of PostgreSQL's types."""

from __future__ import annotations

from sqlglot import exp

from sqlwin.server.postgres.literals import array_items, interval_literal, literal
from sqlwin.server.postgres.reader import TYPE_NAME
from sqlwin.server.postgres.types import FLOATS, INTEGERS, SAME, UNKNOWN, TypeName
from sqlwin.server.postgres.writer import ClientWriter, shown

# A double as PostgreSQL writes it: `{0}` is the number
_DOUBLE_TEXT = (
    "CASE WHEN {0} IS NULL THEN NULL "
    "WHEN {0} = 0 THEN '0' "
    "WHEN ABS({0}) >= 1e15D OR ABS({0}) < 1e-4D OR ISNAN({0}) THEN "
    "REGEXP_REPLACE(REGEXP_REPLACE(REPLACE(LOWER(CAST({0} AS STRING)), '.0e', 'e'), "
    "'e(\\\\d)', 'e+$1'), 'e-(\\\\d)$', 'e-0$1') "
    "ELSE RTRIM('.', RTRIM('0', CAST(CAST({0} AS DECIMAL(38, 20)) AS STRING))) END"
)
# A timestamp with a zone as PostgreSQL writes it
_INSTANT_TEXT = "CONCAT(CAST({0} AS STRING), REPLACE(DATE_FORMAT({0}, 'xxx'), ':00', ''))"
_BYTES = (
    "CASE WHEN STARTSWITH({0}, '\\\\x') THEN UNHEX(SUBSTRING({0}, 3)) ELSE CAST({0} AS BINARY) END"
)


def cast(writer: ClientWriter, node: exp.Cast) -> str | None:
    """Write a cast to a type of PostgreSQL's name."""
    name: TypeName | None = node.to.meta.get(TYPE_NAME)
    if name is None:
        return None
    value = node.this
    while isinstance(value, exp.Paren):
        value = value.this
    if isinstance(value, exp.Literal) and value.is_string:
        text = literal(value.name, name)
        return text or f"CAST({writer.sql(value)} AS {name.sqlwin})"
    return _cast_value(writer, node, name)


def _cast_value(writer: ClientWriter, node: exp.Cast, name: TypeName) -> str | None:
    value, target = node.this, name.sqlwin
    text = writer.sql(value)
    if isinstance(value, exp.Null) or isinstance(value, exp.Placeholder):
        if name.name == "interval":
            return f"({text})"
        return f"CAST({text} AS {target})"
    source = writer.types.of(value)
    if target in ("SMALLINT", "INT", "BIGINT"):
        return _to_integer(writer, value, text, target, source) or (
            None if name.name in SAME else f"CAST({text} AS {target})"
        )
    if target == "STRING":
        return _to_text(writer, node, text, source, name)
    if name.name in ("numeric", "decimal") and not name.arguments and not name.n_dimensions:
        digits = {"decimal": None, "tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
        kind = writer.type_of(value, "the cast to numeric")
        if kind == "decimal":
            return f"({text})"
        size = digits.get(kind)
        return f"CAST({text} AS {f'DECIMAL({size}, 0)' if size else 'DECIMAL(38, 18)'})"
    if target == "INTERVAL":
        if source == "interval":
            return f"({text})"
        writer.refuse(node, f"the server cannot cast {shown(value)} to an interval")
    if target == "BINARY" and source in ("string", UNKNOWN):
        return _BYTES.format(text)
    if name.name in SAME and not name.n_dimensions:
        return None
    return f"CAST({text} AS {target})"


def _to_integer(
    writer: ClientWriter, value: exp.Expr, text: str, target: str, source: str | None
) -> str | None:
    """Round a fraction as PostgreSQL does. None without a fraction."""
    if source in (*INTEGERS, "string", UNKNOWN, "boolean"):
        return None
    kind = writer.type_of(value, "the cast to a whole number")
    if kind in FLOATS:
        return f"CAST(RINT({text}) AS {target})"
    return f"CAST(ROUND({text}) AS {target})" if kind == "decimal" else None


def _to_text(
    writer: ClientWriter, node: exp.Cast, text: str, source: str | None, name: TypeName
) -> str:
    if source in FLOATS:
        result = _DOUBLE_TEXT.format(f"({text})")
    elif source == "timestamp":
        result = _INSTANT_TEXT.format(text)
    else:
        result = f"CAST({text} AS STRING)"
    if name.name == "uuid":
        result = f"LOWER({result})"
    if name.arguments:
        result = f"LEFT({result}, {name.arguments[0]})"
    return result


def interval(writer: ClientWriter, node: exp.Interval) -> str | None:
    """Write `INTERVAL '90 minutes'`, whose text has the units."""
    value = node.this
    if node.args.get("unit") is None and isinstance(value, exp.Literal) and value.is_string:
        return interval_literal(value.name)
    return None


def array(writer: ClientWriter, node: exp.Array) -> str:
    """Write `ARRAY[1, 2]`."""
    return f"ARRAY({', '.join(map(writer.sql, node.expressions))})"


def items_of(writer: ClientWriter, node: exp.Expr) -> list[str] | None:
    """Return the items of an array that is written out, None for another value."""
    inner = node
    while isinstance(inner, exp.Paren | exp.Cast):
        inner = inner.this
    if isinstance(inner, exp.Array):
        return [writer.sql(item) for item in inner.expressions]
    if isinstance(inner, exp.Literal) and inner.is_string:
        values = [exp.Null() if item is None else item for item in array_items(inner.name)]
        return [
            writer.sql(exp.Literal.string(value) if isinstance(value, str) else value)
            for value in values
        ]
    return None
