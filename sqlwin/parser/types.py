"""Flink's type names, converted to Spark's types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.flink_meanings import BARE_TIMESTAMP, LENGTH
from planner.sql.render import SparkSql
from runtime.names import quote_name
from runtime.shown_types import shown_type
from sqlwin.parser.base import TokenParser

# Spark's timestamps count microseconds.
_MAX_TIMESTAMP_DIGITS = 6
_MAX_DECIMAL_DIGITS = 38

_TIMESTAMPS = (
    exp.DType.TIMESTAMP,
    exp.DType.TIMESTAMPTZ,
    exp.DType.TIMESTAMPNTZ,
    exp.DType.TIMESTAMPLTZ,
)
_TEXTS = (exp.DType.CHAR, exp.DType.NCHAR, exp.DType.VARCHAR, exp.DType.NVARCHAR)
_BYTES = (exp.DType.BINARY, exp.DType.VARBINARY)

_IS_LOCAL = "local_time_zone"
# Keys in a type's `meta`: Spark has another name for the type; the digits of a TIMESTAMP, and the
# text of a type with a length, which Spark does not have
SPELLED_BY_FLINK = "spelled_by_flink"
_DIGITS = "digits"
_WITH_LENGTH = "with_length"

# Types that CREATE TABLE accepts
_COLUMN_TYPES = frozenset(
    {
        exp.DType.ARRAY,
        exp.DType.BIGINT,
        exp.DType.BINARY,
        exp.DType.BOOLEAN,
        exp.DType.DATE,
        exp.DType.DECIMAL,
        exp.DType.DOUBLE,
        exp.DType.FLOAT,
        exp.DType.INT,
        exp.DType.INTERVAL,
        exp.DType.MAP,
        exp.DType.SMALLINT,
        exp.DType.STRUCT,
        exp.DType.TEXT,
        exp.DType.TIMESTAMPNTZ,
        exp.DType.TIMESTAMPTZ,
        exp.DType.TINYINT,
        exp.DType.VARIANT,
    }
)


# Types without a token of their own, so that columns may have these names
BARE_TYPES = {"BYTES": exp.DType.BINARY, "VOID": exp.DType.NULL}


def parse_bare_type(parser: TokenParser) -> exp.DataType:
    """Read BYTES or VOID."""
    kind = exp.DataType(this=BARE_TYPES[parser._curr.text.upper()])
    parser._advance()
    return kind


def parse_row_type(parser: TokenParser) -> exp.DataType:
    """Read `ROW<a INT, b STRING>` or `ROW(a INT)` as a STRUCT."""
    parser._advance()
    if parser._match(TokenType.L_PAREN):
        closing = TokenType.R_PAREN
    elif parser._match(TokenType.LT):
        closing = TokenType.GT
    else:
        parser.fail("a ROW type needs fields", parser._curr, hint="ROW<a INT, b STRING>")
    fields = parser._parse_csv(lambda: _parse_field(parser))
    if not parser._match(closing):
        closing_text = ")" if closing == TokenType.R_PAREN else ">"
        parser.raise_error(f"Expecting {closing_text}")
    return exp.DataType(this=exp.DType.STRUCT, expressions=fields, nested=True)


def _parse_field(parser: TokenParser) -> exp.ColumnDef:
    name = parser._parse_id_var()
    parser._match(TokenType.COLON)
    first = parser._curr
    kind = parser._parse_types(schema=True)
    if name is None or kind is None:
        parser.fail("a field of a ROW needs a name and a type", first)
    constraints: list[exp.Expr] = []
    if parser._match_text_seq("NOT", "NULL"):
        constraints.append(exp.ColumnConstraint(kind=exp.NotNullColumnConstraint()))
    else:
        parser._match_text_seq("NULL")
    parser._match(TokenType.COMMENT)
    if parser._curr.token_type == TokenType.STRING:  # In Flink, a field's comment has no keyword
        parser._advance()
        text = parser.string_literal(parser._prev)
        constraints.append(exp.ColumnConstraint(kind=exp.CommentColumnConstraint(this=text)))
    return exp.ColumnDef(this=name, kind=kind, constraints=constraints)


def as_spark_type(parser: TokenParser, kind: exp.DataType, first: Token) -> exp.DataType:
    """Convert the type just read, whose first token is `first`, to a Spark type.

    `TIMESTAMP(p)` is Flink's type without zone, a bare `TIMESTAMP` is Spark's. Precisions are
    dropped: all of Spark's timestamps hold microseconds.
    """
    words = [token.text.upper() for token in parser._tokens if first.start <= token.start]
    words = words[: parser._index - parser._tokens.index(first)]
    if kind.this in _TIMESTAMPS:
        is_bare = words == ["TIMESTAMP"]
        digits = kind.expressions[0].name if kind.expressions else str(_MAX_TIMESTAMP_DIGITS)
        kind = _timestamp(parser, kind, first)
        kind.meta[_DIGITS] = digits
        if is_bare:
            kind.meta[BARE_TIMESTAMP] = True
    if _is_of_flink(words):
        kind.meta[SPELLED_BY_FLINK] = True
    if words[0] in ("CHAR", "CHARACTER", "VARCHAR") and words[1:2] == ["("]:
        if not words[2].isdecimal():
            message = f"the length of {words[0]} must be a whole number"
            _refuse(parser, first, message, f"for example {words[0]}(20)")
        kind.meta[LENGTH] = ("VARCHAR" if words[0] == "VARCHAR" else "CHAR", int(words[2]))
    if kind.this in (*_TEXTS, *_BYTES) and words[1:2] == ["("]:
        kind.meta[_WITH_LENGTH] = f"{words[0]}({words[2]})"
    if kind.this == exp.DType.TIMETZ:
        _refuse(parser, first, "a time with a time zone is not supported", "use TIMESTAMP_LTZ(3)")
    return kind


def _is_of_flink(words: Sequence[str]) -> bool:
    """Return whether Spark spells the type in these words differently."""
    first = words[0].partition(" ")[0]
    is_long = len(words) > 1 or " " in words[0]
    return (
        first in ("BYTES", "ROW", "VARBINARY")
        or (is_long and first.startswith(("TIMESTAMP", "DOUBLE")))
        or (first == "VARCHAR" and not is_long)
    )


def _timestamp(parser: TokenParser, kind: exp.DataType, first: Token) -> exp.DataType:
    zone = _zone_phrase(parser, first)
    if zone == "WITH TIME ZONE":
        _refuse(
            parser,
            first,
            "TIMESTAMP WITH TIME ZONE is not supported: values do not store a time zone",
            "use TIMESTAMP_LTZ(3) for an instant, TIMESTAMP(3) for a wall-clock time",
        )
    if kind.expressions:
        digits = kind.expressions[0].name
        if not digits.isdigit() or int(digits) > _MAX_TIMESTAMP_DIGITS:
            _refuse(
                parser,
                first,
                f"{first.text.upper()}({digits}) is not supported: timestamps have "
                "microsecond precision",
                f"use a precision from 0 to {_MAX_TIMESTAMP_DIGITS}",
            )
    is_local = kind.this == exp.DType.TIMESTAMPLTZ or zone == "WITH LOCAL TIME ZONE"
    if is_local:
        bare = not zone and not kind.expressions
        local = exp.DataType(this=exp.DType.TIMESTAMPLTZ if bare else exp.DType.TIMESTAMPTZ)
        local.meta[_IS_LOCAL] = True  # for CREATE TABLE, where a bare TIMESTAMP has no zone
        return local
    if kind.this == exp.DType.TIMESTAMPNTZ or kind.expressions or zone:
        return exp.DataType(this=exp.DType.TIMESTAMPNTZ)
    return kind


def _zone_phrase(parser: TokenParser, first: Token) -> str:
    """Return `WITH LOCAL TIME ZONE` or the like if the type just read ends with it, else ""."""
    read = parser._tokens[max(0, parser._index - 4) : parser._index]
    words = " ".join(token.text.upper() for token in read if token.start > first.start)
    match = re.search(r"\bWITH(OUT)?( LOCAL)? TIME ZONE$", words)
    return match.group() if match else ""


def column_type(parser: TokenParser, kind: exp.DataType, first: Token) -> tuple[str, str]:
    """Return the type of a column in CREATE TABLE ... WITH: as Spark's DDL, and as declared.

    There, a bare TIMESTAMP is Flink's type without zone. VARCHAR(n) and CHAR(n) are STRING, as
    Spark treats them when reading: nothing is truncated or padded.

    Raises:
        SqlSyntaxError: Spark has no such type, or not with this precision.
    """
    kind = kind.copy()
    for part in list(kind.find_all(exp.DataType)):
        _check_column_type(parser, part, first)
    return kind.sql(dialect=SparkSql), _declared(kind)


def _declared(kind: exp.DataType) -> str:
    """Return a column's type in Flink's words, with the digits and lengths that Spark drops."""
    parts = kind.expressions
    match kind.this:
        case exp.DType.TIMESTAMPNTZ:
            return f"TIMESTAMP({kind.meta[_DIGITS]})"
        case exp.DType.TIMESTAMPTZ:
            return f"TIMESTAMP_LTZ({kind.meta[_DIGITS]})"
        case exp.DType.ARRAY | exp.DType.MAP:
            return f"{kind.this.value}<{', '.join(map(_declared, parts))}>"
        case exp.DType.STRUCT:
            return f"ROW<{', '.join(map(_declared_field, parts))}>"
    return str(kind.meta.get(_WITH_LENGTH) or shown_type(kind.sql(dialect=SparkSql)))


def _declared_field(field: exp.ColumnDef) -> str:
    text = f"{quote_name(field.name)} {_declared(field.args['kind'])}"
    for constraint in field.args.get("constraints") or ():
        match constraint.kind:
            case exp.NotNullColumnConstraint():
                text += " NOT NULL"
            case exp.CommentColumnConstraint() as comment:
                text += f" {comment.this.sql(dialect=SparkSql)}"
    return text


def _check_column_type(parser: TokenParser, kind: exp.DataType, first: Token) -> None:
    name = kind.this
    if name in (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ) and not kind.meta.get(_IS_LOCAL):
        name = exp.DType.TIMESTAMPNTZ
    elif kind.meta.get(_IS_LOCAL):
        name = exp.DType.TIMESTAMPTZ
    elif name in _TEXTS or name in _BYTES:
        name = exp.DType.TEXT if name in _TEXTS else exp.DType.BINARY
        kind.set("expressions", None)
    kind.set("this", name)
    if name == exp.DType.TIME:
        _refuse(parser, first, "the type TIME is not supported", "use TIMESTAMP(3)")
    if isinstance(name, exp.DType) and name not in _COLUMN_TYPES:
        _refuse(
            parser,
            first,
            f"unknown type {first.text.upper()}",
            "available types: STRING, BOOLEAN, BYTES, TINYINT, SMALLINT, INT, BIGINT, FLOAT, "
            "DOUBLE, DECIMAL(p, s), DATE, TIMESTAMP(p), TIMESTAMP_LTZ(p), ARRAY<t>, MAP<k, v>, "
            "ROW<a t>",
        )
    if name == exp.DType.DECIMAL:
        _check_decimal(parser, kind, first)


def _check_decimal(parser: TokenParser, kind: exp.DataType, first: Token) -> None:
    digits = [part.name for part in kind.expressions]
    if not digits:
        return
    precision, scale = digits[0], digits[1] if len(digits) > 1 else "0"
    if (
        len(digits) > 2
        or not (precision.isdigit() and scale.isdigit())
        or not 1 <= int(precision) <= _MAX_DECIMAL_DIGITS
        or int(scale) > int(precision)
    ):
        _refuse(
            parser,
            first,
            f"invalid type DECIMAL({', '.join(digits)})",
            f"use DECIMAL(p, s) with 1 to {_MAX_DECIMAL_DIGITS} digits, s of them after the point",
        )


def _refuse(parser: TokenParser, first: Token, message: str, hint: str) -> NoReturn:
    parser.fail(message, first, parser._prev, hint)
