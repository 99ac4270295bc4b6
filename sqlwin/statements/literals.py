"""Python values and typed text as literals: trees and Spark SQL text."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlglot import exp

from planner.sql.nodes import MultiUnitInterval
from planner.sql.render import RAW, RAW_VALUE, quote_string
from runtime.errors import AnalysisError, SqlSyntaxError
from sqlwin.parser.base import PLACE
from sqlwin.parser.parser import TYPED_LITERALS, parser_of, to_spark, tokenize

# Digits of Spark's widest DECIMAL
_MAX_DIGITS = 38
# Key in the metadata of the tree of a dict
FROM_DICT = "from_dict"
_BIGINTS = range(-(2**63), 2**63)
_CONTROL = re.compile(r"[\x00-\x1f]")
# Largest offset from UTC in Spark's timestamps
_MAX_OFFSET = timedelta(hours=18)
_ROUNDED_UNITS = (("DAY", 86_400), ("HOUR", 3_600), ("MINUTE", 60), ("SECOND", 1))


@dataclass(frozen=True)
class SqlLiteral:
    """A value that is already a literal, as given on the command line.

    Attributes:
        text: The literal.
        node: Its tree.
    """

    text: str
    node: exp.Expr = field(repr=False, compare=False)


def literal_text(value: object, what: str) -> str:
    r"""Return a value as a Spark SQL literal. `what` names its parameter in errors.

    Example:
        >>> [literal_text(v, ":x") for v in (None, True, -5, 2.5, Decimal("1.50"), "it's", b"\x0f")]
        ['NULL', 'TRUE', '(-5)', '2.5D', '1.50', "'it\\'s'", "X'0F'"]
        >>> literal_text(timedelta(minutes=90), ":x"), literal_text([1, 2], ":x")
        ("INTERVAL '90' MINUTE", 'array(1, 2)')
    """
    return to_spark(literal_of(value, what))


def literal_of(value: object, what: str) -> exp.Expr:
    """Return a value as the tree that the parser makes of its literal.

    Args:
        value: A Python value.
        what: Description of its parameter in errors.

    Raises:
        AnalysisError: SQL has no literal for the value.
    """
    match value:
        case SqlLiteral():
            return value.node.copy()
        case None:
            return exp.Null()
        case _ if type(value).__name__ in ("NaTType", "NAType"):  # pandas' NULLs
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case int():
            suffix = "" if int(value) in _BIGINTS else "BD"
            return _number(str(int(value)), suffix, what)
        case float():
            return _double(value, what)
        case Decimal():
            return _decimal(value, what)
        case str() | UUID() | os.PathLike():
            return _string(os.fspath(value) if isinstance(value, os.PathLike) else str(value), what)
        case bytes() | bytearray() | memoryview():
            digits = bytes(value).hex().upper()
            return _spell(exp.HexString(this=digits), f"X'{digits}'")
        case datetime():
            kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP_LTZ"
            spelled = _with_spark_offset(value, what)
            return _typed_literal(kind, datetime.isoformat(spelled, " ", "microseconds"))
        case date():
            return _typed_literal("DATE", value.isoformat())
        case time() if value.tzinfo is None:
            return _typed_literal("TIME", value.isoformat("microseconds"))
        case timedelta():
            return _interval(value)
        case list() | tuple() | set() | frozenset():
            items = [literal_of(item, what) for item in value]
            return exp.Anonymous(this="array", expressions=items)
        case Mapping():
            parts = [literal_of(item, what) for pair in value.items() for item in pair]
            made = exp.Anonymous(this=_function_of(value), expressions=parts)
            made.meta[FROM_DICT] = True
            return made
    plain = to_python(value)
    if plain is not value:
        return literal_of(plain, what)
    raise AnalysisError(
        f"the value of {what} has the unsupported type {type(value).__name__}",
        hint="supported types: numbers, strings, bytes, dates, times, timedeltas, lists, dicts "
        "and None",
    )


def _function_of(value: Mapping[object, object]) -> str:
    """Return the function that makes a dict: a ROW if no MAP has such keys and values.

    Example:
        >>> _function_of({"a": 1, "b": 2.5}), _function_of({"a": 1, "b": "x", "c": None})
        ('map', 'named_struct')
    """
    families = {_family(to_python(item)) for item in value.values() if item is not None}
    is_row = len(families) > 1 and all(isinstance(key, str) for key in value)
    return "named_struct" if is_row else "map"


def _family(value: object) -> type:
    """Return a class for values whose SQL types have a type in common."""
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return float
    families = (bool, str, bytes, datetime, date, time, timedelta, Mapping, list)
    return next((family for family in families if isinstance(value, family)), type(value))


def to_python(value: Any) -> object:
    """Convert a NumPy number to a Python one; return other values unchanged."""
    if not hasattr(value, "item") or getattr(value, "ndim", None) != 0:
        return value
    kind = {"M": "datetime64[us]", "m": "timedelta64[us]"}.get(value.dtype.kind)
    plain: object = (value if kind is None else value.astype(kind)).item()
    return value if type(plain) is type(value) else plain


def _with_spark_offset(value: datetime, what: str) -> datetime:
    """Return the instant with an offset that Spark reads: whole minutes, at most 18 hours.

    Zones had offsets with seconds until the 20th century.

    Raises:
        AnalysisError: The instant in UTC is before year 1 or after year 9999.
    """
    offset = value.utcoffset()
    if offset is None or (abs(offset) <= _MAX_OFFSET and not offset % timedelta(minutes=1)):
        return value
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise AnalysisError(
            f"the value of {what} is before year 1 or after year 9999 in UTC"
        ) from error


def _spell(node: exp.Expr, text: str) -> exp.Expr:
    """Make a literal render as `text`, and return it."""
    node.meta[RAW] = text
    if isinstance(node, exp.Literal):
        node.meta[RAW_VALUE] = node.this
    return node


def _typed_literal(kind: str, text: str) -> exp.Expr:
    """Return `DATE '2024-05-01'` and the like."""
    node = exp.Cast(
        this=exp.Literal.string(text), to=exp.DataType(this=TYPED_LITERALS[kind], nested=False)
    )
    return _spell(node, f"{kind} '{text}'")


def _number(digits: str, suffix: str, what: str) -> exp.Expr:
    """Return a number from digits (with sign, point and exponent) and a type suffix."""
    n_digits = sum(char.isdigit() for char in digits)
    if suffix != "D" and n_digits > _MAX_DIGITS:
        raise AnalysisError(
            f"the value of {what} has {n_digits} digits, more than the maximum of {_MAX_DIGITS}"
        )
    absolute = digits.removeprefix("-")
    node: exp.Expr = exp.Literal.number(absolute)
    match suffix:
        case "D":
            node = exp.Cast(this=node, to=exp.DataType(this=exp.DType.DOUBLE, nested=False))
        case "BD":
            # as sqlglot does, which has no number with this suffix
            node = exp.Cast(
                this=exp.Literal.string(absolute),
                to=exp.DataType.build(f"DECIMAL({n_digits}, 0)"),
            )
    _spell(node, absolute + suffix)
    return node if absolute == digits else exp.Paren(this=exp.Neg(this=node))


def _decimal(value: Decimal, what: str) -> exp.Expr:
    if not value.is_finite():
        raise AnalysisError(f"the value of {what} is {value}, which DECIMAL cannot represent")
    digits = format(value, "f")
    return _number(digits, "" if "." in digits else "BD", what)


def _double(value: float, what: str) -> exp.Expr:
    if not math.isfinite(value):
        name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return exp.Cast(
            this=exp.Literal.string(name), to=exp.DataType(this=exp.DType.DOUBLE, nested=False)
        )
    return _number(repr(float(value)).upper(), "D", what)


def _string(text: str, what: str) -> exp.Expr:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise AnalysisError(
            f"the value of {what} contains half of a surrogate pair, which is not a valid character"
        ) from error
    raw = _without_variables(quote_string(text))
    raw = _CONTROL.sub(lambda match: f"\\u{ord(match.group()):04x}", raw)
    return _spell(exp.Literal.string(text), raw)


def _interval(value: timedelta) -> exp.Expr:
    """Return an INTERVAL with a single unit, which window functions accept too."""
    if value.microseconds == 0:
        seconds = value.days * 86_400 + value.seconds
        unit, size = next(rounded for rounded in _ROUNDED_UNITS if seconds % rounded[1] == 0)
        digits = str(seconds // size)
    else:
        micros = value // timedelta(microseconds=1)
        sign = "-" if micros < 0 else ""
        unit, digits = "SECOND", f"{sign}{abs(micros) // 1_000_000}.{abs(micros) % 1_000_000:06}"
    return exp.Interval(this=exp.Literal.string(digits), unit=exp.Var(this=unit))


# -- values on the command line -------------------------------------------------------------------

_CANONICAL_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_WORDS = {"NULL": exp.Null(), "TRUE": exp.Boolean(this=True), "FALSE": exp.Boolean(this=False)}
_LITERAL_START = re.compile(
    r"('|\"|(DATE|TIME|TIMESTAMP|TIMESTAMP_NTZ|TIMESTAMP_LTZ|X)\s*'|INTERVAL\s)", re.IGNORECASE
)


def read_value(text: str) -> object:
    """Read a command line value: a SQL literal, or else a string.

    Literals are numbers in canonical form (`7`, but not `007`), TRUE, FALSE, NULL, quoted strings,
    optionally with a type before the quotes, and INTERVAL.

    Example:
        >>> read_value("7").text, read_value("007"), read_value("2024-05-01"), read_value("'7'")
        ('7', '007', '2024-05-01', '7')
    """
    if _CANONICAL_NUMBER.fullmatch(text):
        return _sql_literal(_number(text, "", f"the parameter {text}"))
    if (word := _WORDS.get(text.upper())) is not None:
        return _sql_literal(word)
    return _literal_in_quotes(text) if _LITERAL_START.match(text) else text


def _sql_literal(node: exp.Expr) -> SqlLiteral:
    return SqlLiteral(to_spark(node), node)


def _literal_in_quotes(text: str) -> object:
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
    for part in node.walk():
        if RAW in part.meta:
            part.meta[RAW] = _without_variables(part.meta[RAW])
        for key in PLACE:  # its positions do not refer to the statement
            part.meta.pop(key, None)
    return _sql_literal(node)


def _without_variables(literal: str) -> str:
    """Escape `${name}` in strings, which Spark would replace by a setting."""
    return literal.replace("${", r"\u0024{")
