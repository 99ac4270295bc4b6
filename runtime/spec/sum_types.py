"""Spark's types of sums."""

from __future__ import annotations

import re

from runtime.errors import AnalysisError

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_MAX_DECIMAL_DIGITS = 38


def sum_type(arg: str) -> str:
    """Return the Spark type of a sum, given the type of its argument.

    Example:
        >>> sum_type("int"), sum_type("float"), sum_type("decimal(10,2)")
        ('bigint', 'double', 'decimal(20,2)')
    """
    if match := _DECIMAL.fullmatch(arg):
        return f"decimal({min(int(match[1]) + 10, _MAX_DECIMAL_DIGITS)},{match[2]})"
    if arg in ("tinyint", "smallint", "int", "bigint"):
        return "bigint"
    if arg in ("float", "double"):
        return "double"
    raise AnalysisError(f"SUM of {arg} is not supported", hint="cast it to a number")


def sum_type_of_average(type_: str) -> str:
    """Return a type of the sum of decimals whose average has this type.

    Example:
        >>> sum_type_of_average("decimal(14,6)")
        'decimal(20,2)'
    """
    match = _DECIMAL.fullmatch(type_)
    assert match is not None
    # An average has four digits more than its argument, of 38 at most.
    digits, scale = int(match[1]), max(int(match[2]) - 4, 0)
    return f"decimal({min(digits + 6, _MAX_DECIMAL_DIGITS)},{scale})"
