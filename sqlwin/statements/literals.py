"""Python values and typed text as literals of Spark SQL."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlglot import exp

from planner.sql.nodes import MultiUnitInterval
from planner.sql.render import quote_string
from runtime.errors import AnalysisError, SqlSyntaxError
from sqlwin.parser.parser import parser_of, tokenize

# Digits of Spark's widest DECIMAL
_MOST_DIGITS = 38
_BIGINTS = range(-(2**63), 2**63)
_CONTROL = re.compile(r"[\x00-\x1f]")
_ROUNDED_UNITS = (("DAY", 86_400), ("HOUR", 3_600), ("MINUTE", 60), ("SECOND", 1))


@dataclass(frozen=True)
class SqlLiteral:
    """A value that is already written as a literal, as on the command line.

    Attributes:
        text: The literal.
    """

    text: str


def literal_of(value: object, what: str) -> str:
    r"""Return a value as a Spark SQL literal. `what` names its parameter in errors.

    Example:
        >>> [literal_of(v, ":x") for v in (None, True, -5, 2.5, Decimal("1.50"), "it's", b"\x0f")]
        ['NULL', 'TRUE', '(-5)', '2.5D', '1.50', "'it\\'s'", "X'0F'"]
        >>> literal_of(timedelta(minutes=90), ":x"), literal_of([1, 2], ":x")
        ("INTERVAL '90' MINUTE", 'array(1, 2)')
    """
    match value:
        case SqlLiteral():
            return value.text
        case None:
            return "NULL"
        case _ if type(value).__name__ in ("NaTType", "NAType"):  # pandas' NULLs
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return _number(str(int(value)) + "BD" * (int(value) not in _BIGINTS), what)
        case float():
            return _double(value)
        case Decimal():
            return _decimal(value, what)
        case str() | UUID() | os.PathLike():
            return _string(os.fspath(value) if isinstance(value, os.PathLike) else str(value), what)
        case bytes() | bytearray() | memoryview():
            return f"X'{bytes(value).hex().upper()}'"
        case datetime():
            kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP_LTZ"
            return f"{kind} '{datetime.isoformat(value, ' ', 'microseconds')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case time() if value.tzinfo is None:
            return f"TIME '{value.isoformat('microseconds')}'"
        case timedelta():
            return _interval(value)
        case list() | tuple() | set() | frozenset():
            return f"array({', '.join(literal_of(item, what) for item in value)})"
        case Mapping():
            parts = [literal_of(item, what) for pair in value.items() for item in pair]
            return f"map({', '.join(parts)})"
    plain = _to_python(value)
    if plain is not value:
        return literal_of(plain, what)
    raise AnalysisError(
        f"the value of {what} has the unsupported type {type(value).__name__}",
        hint="supported types: numbers, strings, bytes, dates, times, timedeltas, lists, dicts "
        "and None",
    )


def _to_python(value: Any) -> object:
    """Convert a NumPy number to a Python one; return other values unchanged."""
    if not hasattr(value, "item") or getattr(value, "ndim", None) != 0:
        return value
    kind = {"M": "datetime64[us]", "m": "timedelta64[us]"}.get(value.dtype.kind)
    plain: object = (value if kind is None else value.astype(kind)).item()
    return value if type(plain) is type(value) else plain


def _number(digits: str, what: str) -> str:
    n_digits = sum(char.isdigit() for char in digits)
    if n_digits > _MOST_DIGITS:
        raise AnalysisError(
            f"the value of {what} has {n_digits} digits, more than the maximum of {_MOST_DIGITS}"
        )
    return f"({digits})" if digits.startswith("-") else digits


def _decimal(value: Decimal, what: str) -> str:
    if not value.is_finite():
        raise AnalysisError(f"the value of {what} is {value}, which DECIMAL cannot represent")
    digits = format(value, "f")
    return _number(digits if "." in digits else f"{digits}BD", what)


def _double(value: float) -> str:
    if not math.isfinite(value):
        name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return f"CAST('{name}' AS DOUBLE)"
    digits = f"{float(value)!r}D".upper()
    return f"({digits})" if digits.startswith("-") else digits


def _string(text: str, what: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise AnalysisError(
            f"the value of {what} contains half of a surrogate pair, which is not a valid character"
        ) from error
    quoted = _without_variables(quote_string(text))
    return _CONTROL.sub(lambda match: f"\\u{ord(match.group()):04x}", quoted)


def _interval(value: timedelta) -> str:
    """Use a single unit, which window functions accept too."""
    if value.microseconds == 0:
        seconds = value.days * 86_400 + value.seconds
        unit, size = next(rounded for rounded in _ROUNDED_UNITS if seconds % rounded[1] == 0)
        return f"INTERVAL '{seconds // size}' {unit}"
    micros = value // timedelta(microseconds=1)
    sign = "-" if micros < 0 else ""
    return f"INTERVAL '{sign}{abs(micros) // 1_000_000}.{abs(micros) % 1_000_000:06}' SECOND"


# -- values on the command line -------------------------------------------------------------------

_CANONICAL_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_WORD = re.compile(r"NULL|TRUE|FALSE", re.IGNORECASE)
_LITERAL_START = re.compile(
    r"('|\"|(DATE|TIME|TIMESTAMP|TIMESTAMP_NTZ|TIMESTAMP_LTZ|X)\s*'|INTERVAL\s)", re.IGNORECASE
)


def read_value(text: str) -> object:
    """Read a value typed on a command line: a SQL literal, or else a string.

    Literals are numbers in canonical form (`7`, but not `007`), TRUE, FALSE, NULL, quoted strings,
    optionally with a type before the quotes, and INTERVAL.

    Example:
        >>> read_value("7").text, read_value("007"), read_value("2024-05-01"), read_value("'7'")
        ('7', '007', '2024-05-01', '7')
    """
    if _CANONICAL_NUMBER.fullmatch(text):
        return SqlLiteral(_number(text, f"the parameter {text}"))
    if _WORD.fullmatch(text):
        return SqlLiteral(text.upper())
    return _quoted_literal(text) if _LITERAL_START.match(text) else text


def _quoted_literal(text: str) -> object:
    """Return the value of a quoted literal or an INTERVAL, or the text itself."""
    try:
        tokens = tokenize(text)
        node = parser_of().run(lambda parser: parser._parse_unary(), tokens, text)
    except SqlSyntaxError:
        return text
    if isinstance(node, exp.Literal) and node.is_string:
        return node.name
    if not isinstance(node, exp.Cast | exp.Interval | MultiUnitInterval | exp.HexString):
        return text
    # without comments around it, and without `${name}`, which Spark would substitute
    literal = text[tokens[0].start : tokens[-1].end + 1]
    return SqlLiteral(_without_variables(literal))


def _without_variables(literal: str) -> str:
    """Escape `${name}` in strings, which Spark would replace by a setting."""
    return literal.replace("${", r"\u0024{")
