"""Types of Spark's scalar functions.

Only calls whose result is certain are listed: functions of texts, times and numbers without
implicit casts other than from integers to integers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import exp

from planner.sql.nodes import KeywordCall
from planner.sql.types.decimals import decimal_digits

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_TIMES = ("date", "timestamp_ntz", "timestamp")
_CLOCKS = ("timestamp_ntz", "timestamp")


@dataclass(frozen=True)
class ScalarFunction:
    """A function whose result depends on the types of its arguments.

    Attributes:
        name: Name of the function that computes it.
        arguments: Types that each argument may have.
        result: Type of the result.
        n_optional: Number of arguments at the end that may be missing.
        is_variadic: Whether the last argument may be repeated.
        nullable: Whether the result may be NULL: if `any` argument is, if the `first` is, or
            `always`.
    """

    name: str
    arguments: tuple[tuple[str, ...], ...]
    result: str
    n_optional: int = 0
    is_variadic: bool = False
    nullable: str = "any"

    def accepts(self, types: Sequence[str]) -> bool:
        """Return whether arguments of these types are accepted."""
        n_most = len(types) if self.is_variadic else len(self.arguments)
        if not len(self.arguments) - self.n_optional <= len(types) <= n_most:
            return False
        last = self.arguments[-1]
        allowed = [*self.arguments, *[last] * (len(types) - len(self.arguments))]
        return all(type_ in of for type_, of in zip(types, allowed, strict=False))

    def is_nullable(self, nullable: Sequence[bool]) -> bool:
        """Return whether the result may be NULL, from whether each argument may be."""
        match self.nullable:
            case "any":
                return any(nullable)
            case "first":
                return nullable[0]
        return True


_TEXT, _NUMBER = ("string",), ("tinyint", "smallint", "int")


def _of_text(name: str, result: str = "string") -> ScalarFunction:
    return ScalarFunction(name, (_TEXT,), result)


def _of_texts(name: str) -> ScalarFunction:
    return ScalarFunction(name, (_TEXT, _TEXT), "boolean")


def _of_time(name: str) -> ScalarFunction:
    return ScalarFunction(name, (_TIMES,), "int")


def _of_clock(name: str) -> ScalarFunction:
    return ScalarFunction(name, (_CLOCKS,), "int")


_SUBSTRING = ScalarFunction("substring", (_TEXT, _NUMBER, _NUMBER), "string", n_optional=1)
_LENGTH = ScalarFunction("length", (("string", "binary"),), "int")
_FLOOR = ScalarFunction("floor", ((*_INTEGERS, "double"),), "bigint")
_CEIL = ScalarFunction("ceil", ((*_INTEGERS, "double"),), "bigint")

SCALAR_FUNCTIONS: dict[str, ScalarFunction] = {
    "CEIL": _CEIL,
    "CEILING": _CEIL,
    "CHARACTER_LENGTH": _LENGTH,
    "CHAR_LENGTH": _LENGTH,
    "CONCAT": ScalarFunction("concat", (("string", *_INTEGERS),), "string", is_variadic=True),
    "CONCAT_WS": ScalarFunction(
        "concat_ws", (_TEXT, _TEXT), "string", is_variadic=True, nullable="first"
    ),
    "CONTAINS": _of_texts("contains"),
    "DATE_FORMAT": ScalarFunction("date_format", (_TIMES, _TEXT), "string"),
    "DAY": _of_time("day"),
    "DAYOFMONTH": _of_time("day"),
    "DAYOFWEEK": _of_time("dayofweek"),
    "DAYOFYEAR": _of_time("dayofyear"),
    "ENDSWITH": _of_texts("ends_with"),
    "FLOOR": _FLOOR,
    "HOUR": _of_clock("hour"),
    "LCASE": _of_text("lower"),
    "LEN": _LENGTH,
    "LENGTH": _LENGTH,
    "LOWER": _of_text("lower"),
    "LTRIM": _of_text("ltrim"),
    "MINUTE": _of_clock("minute"),
    "MONTH": _of_time("month"),
    "QUARTER": _of_time("quarter"),
    "REPLACE": ScalarFunction("replace", (_TEXT, _TEXT, _TEXT), "string"),
    "REVERSE": _of_text("reverse"),
    "RTRIM": _of_text("rtrim"),
    "SECOND": _of_clock("second"),
    # GROUPING is one bit of the grouping set's number
    "SHIFTRIGHT": ScalarFunction("shift_right", (("bigint",), _NUMBER), "bigint"),
    "STARTSWITH": _of_texts("starts_with"),
    "SUBSTR": _SUBSTRING,
    "SUBSTRING": _SUBSTRING,
    "TRIM": _of_text("trim"),
    "UCASE": _of_text("upper"),
    "UPPER": _of_text("upper"),
    "WEEKDAY": _of_time("weekday"),
    "WEEKOFYEAR": _of_time("weekofyear"),
    "YEAR": _of_time("year"),
}
# Functions behind `EXTRACT(field FROM time)`
_FIELDS = {
    "DAY": "DAY",
    "DOW": "DAYOFWEEK",
    "DOY": "DAYOFYEAR",
    "HOUR": "HOUR",
    "MINUTE": "MINUTE",
    "MONTH": "MONTH",
    "QUARTER": "QUARTER",
    "WEEK": "WEEKOFYEAR",
    "YEAR": "YEAR",
}
# A time format whose fields have one meaning for every year: letters and separators
_TIME_FORMAT = re.compile(r"(?:yyyy|MM|dd|HH|mm|ss|SSSSSS|SSS|'[^']+'|[-/:., _])+")
_TIME_FIELD = re.compile(r"yyyy|MM|dd|HH|mm|ss|SSSSSS|SSS|'[^']+'|.", re.DOTALL)


def plain_call(node: KeywordCall) -> exp.Anonymous | None:
    """Return `EXTRACT(YEAR FROM t)` as `YEAR(t)` and `SUBSTRING(a FROM 1 FOR 2)` without keywords.

    Return None for other calls and fields.
    """
    name, args = node.name.upper(), list(node.expressions)
    words = [str(word).upper() for word in node.args["words"]]
    if name in ("SUBSTRING", "SUBSTR") and words in (["", "FROM"], ["", "FROM", "FOR"]):
        return exp.Anonymous(this=name, expressions=[arg.copy() for arg in args])
    if name == "EXTRACT" and words == ["", "FROM"] and isinstance(args[0], exp.Var):
        function = _FIELDS.get(args[0].name.upper())
        if function is not None:
            return exp.Anonymous(this=function, expressions=[args[1].copy()])
    return None


def time_format_fields(pattern: str) -> tuple[str, ...] | None:
    """Return the fields and separators of a DATE_FORMAT pattern. None if only Spark can tell.

    Example:
        >>> time_format_fields("yyyy-MM'T'HH")
        ('yyyy', '-', 'MM', "'T'", 'HH')
    """
    if not _TIME_FORMAT.fullmatch(pattern):
        return None
    parts: list[str] = _TIME_FIELD.findall(pattern)
    # A repeated letter may be another field, and two quotes are one quote.
    for before, after in pairwise(parts):
        if before[0] == after[0] and (before[0].isalpha() or before[0] == "'"):
            return None
    return tuple(parts)


def widest_type(types: Sequence[str]) -> str | None:
    """Return the type of GREATEST, LEAST or COALESCE for equal types or integers."""
    distinct = set(types)
    if len(distinct) == 1:
        return types[0]
    if distinct <= set(_INTEGERS):
        return max(distinct, key=_INTEGERS.index)
    return None


def is_orderable(type_: str) -> bool:
    """Return whether GREATEST and LEAST accept a type."""
    is_number = type_ in (*_INTEGERS, "float", "double") or decimal_digits(type_) is not None
    return is_number or type_ in (*_TIMES, "string", "boolean")
