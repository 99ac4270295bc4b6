"""INTERVAL literals and types, in all forms of Flink and Spark."""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from planner.sql.nodes import MultiUnitInterval
from runtime.windows.intervals import UNITS
from sqlwin.parser.base import STRINGS, TokenParser

_UNITS = UNITS | {f"{unit}S" for unit in UNITS}
_VALUES = (*STRINGS, TokenType.NUMBER, TokenType.PLACEHOLDER)


def parse_interval(parser: TokenParser) -> exp.Expr | None:
    """Read the INTERVAL literal at the current token, or return None.

    `INTERVAL value unit [value unit ...]`, `INTERVAL value unit TO unit`, `INTERVAL 'text'`. A
    value is a number or a string, optionally signed. A precision after a unit is ignored: values
    are exact.
    """
    first = parser._curr
    if first.token_type != TokenType.INTERVAL or not _is_value(parser):
        return None  # a column or a function of that name
    parser._advance()
    return parser.span(_parse_parts(parser), first)


def _parse_parts(parser: TokenParser) -> exp.Interval | MultiUnitInterval:
    parts: list[exp.Interval] = []
    while True:
        part = _parse_part(parser)
        parts.append(part)
        unit = part.args.get("unit")
        # A sign is an operator here: `INTERVAL 1 DAY - 2 ...`
        if not isinstance(unit, exp.Var) or not _has_unit(parser, parser._index):
            break
    return parts[0] if len(parts) == 1 else MultiUnitInterval(expressions=parts)


def parse_interval_type(parser: TokenParser) -> exp.DataType:
    """Read `INTERVAL DAY(3) TO SECOND(6)` as a type."""
    parser._advance()
    if parser._curr.text.upper() not in _UNITS:
        return exp.DataType(this=exp.DType.INTERVAL)
    return exp.DataType(this=exp.Interval(unit=_parse_unit(parser)))


def _is_value(parser: TokenParser) -> bool:
    """Return whether INTERVAL is followed by a value, not by an operator on a column `interval`."""
    following = parser._next
    if following.token_type in _VALUES:
        return True
    # `interval - 4` is a difference, `INTERVAL - 4 DAYS` is a literal.
    is_sign = following.token_type in (TokenType.DASH, TokenType.PLUS)
    return is_sign and _has_unit(parser, parser._index + 2)


def _has_unit(parser: TokenParser, i: int) -> bool:
    """Return whether token `i` is an unsigned value followed by a unit."""
    tokens = parser._tokens[i : i + 2]
    return (
        len(tokens) == 2
        and tokens[0].token_type in _VALUES
        and tokens[1].token_type not in STRINGS
        and tokens[1].text.upper() in _UNITS
    )


def _parse_part(parser: TokenParser) -> exp.Interval:
    first = parser._curr
    negative = parser._match(TokenType.DASH)
    if not negative:
        parser._match(TokenType.PLUS)
    token = parser._curr
    parser._advance()
    value: exp.Expr
    if token.token_type in STRINGS:
        value = parser.string_literal(token)
    elif token.token_type == TokenType.NUMBER:
        value = parser.number_literal(token)
    else:
        value = parser.parameter(token)
        if not isinstance(value, exp.Placeholder):
            parser.fail(
                f"the value of an INTERVAL must be a number or a string, but {token.text} is not",
                token,
                hint="for example INTERVAL :n MINUTES with a whole number, or :size alone with a "
                "timedelta",
            )
    if negative:
        value = parser.span(exp.Neg(this=value), first)
    unit: exp.Expr | None = None
    is_unit = parser._curr.token_type not in (*STRINGS, TokenType.IDENTIFIER)
    if is_unit and parser._curr.text.upper() in _UNITS:
        unit = _parse_unit(parser)
    elif not isinstance(value, exp.Placeholder) and not value.is_string:
        parser.fail(
            "an INTERVAL needs a unit after its value",
            parser._curr,
            hint="for example INTERVAL '10' MINUTE",
        )
    part = exp.Interval(this=value, unit=unit)
    parser.span(part, first)
    return part


def _parse_unit(parser: TokenParser) -> exp.Expr:
    unit = _parse_one_unit(parser)
    if parser._curr.text.upper() == "TO":
        following = parser._next.text.upper()
        if following not in _UNITS:
            parser.fail(
                "an INTERVAL of two units needs the second one after TO",
                parser._next,
                hint="for example INTERVAL '1:30' HOUR TO MINUTE",
            )
        parser._advance()
        return exp.IntervalSpan(this=unit, expression=_parse_one_unit(parser))
    return unit


def _parse_one_unit(parser: TokenParser) -> exp.Var:
    unit = exp.Var(this=parser._curr.text.upper())
    parser._advance()
    if parser._curr.token_type == TokenType.L_PAREN:
        parser._parse_wrapped_csv(lambda: _skip_digits(parser))
    return unit


def _skip_digits(parser: TokenParser) -> None:
    """Skip a precision in parentheses, which has no effect."""
    if not parser._match(TokenType.NUMBER):
        parser.fail("expected a number of digits", parser._curr)


def _as_literal(interval: exp.Interval | MultiUnitInterval) -> exp.Interval | MultiUnitInterval:
    """Spell an interval as Flink does: a string, and a unit in the singular."""
    for part in interval.find_all(exp.Interval):
        if isinstance(part.this, exp.Literal):
            part.set("this", exp.Literal.string(part.this.name))
        if isinstance(unit := part.args.get("unit"), exp.Var) and unit.name[:-1] in UNITS:
            unit.set("this", unit.name[:-1])
    return interval


_SHORT_DURATION = re.compile(r"(\d+)(ms|s|m|h|d|w)(?![\w.])")
_SHORT_UNITS = {
    "ms": "MILLISECOND",
    "s": "SECOND",
    "m": "MINUTE",
    "h": "HOUR",
    "d": "DAY",
    "w": "WEEK",
}


def parse_short_duration(parser: TokenParser) -> exp.Interval | MultiUnitInterval | None:
    """Read `5s` or `10m`, Timeplus's durations, or `3 MONTHS`. Elsewhere `5s` is a number."""
    if _has_unit(parser, parser._index):
        return _as_literal(_parse_parts(parser))
    match = _SHORT_DURATION.match(parser.sql, parser._curr.start) if parser._curr else None
    if match is None:
        return None
    while parser._curr and parser._curr.start < match.end():
        parser._advance()
    value, unit = match.groups()
    return exp.Interval(this=exp.Literal.string(value), unit=exp.Var(this=_SHORT_UNITS[unit]))
