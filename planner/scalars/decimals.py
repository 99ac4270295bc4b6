"""Types of decimal arithmetic in Spark."""

from __future__ import annotations

import re

MAX_DECIMAL_DIGITS = 38
# Digits after the point that arithmetic keeps if the result would have more than 38 digits
_MIN_SCALE = 6
# Digits with which Spark converts an integer to a decimal
INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def decimal_digits(type_: str) -> tuple[int, int] | None:
    """Return precision and scale of a decimal type, or None for other types."""
    match = _DECIMAL.fullmatch(type_)
    return (int(match[1]), int(match[2])) if match else None


def decimal_of_integer(type_: str) -> str | None:
    """Return the decimal type that holds every integer of a type, or a decimal type unchanged.

    None for other types.
    """
    if decimal_digits(type_) is not None:
        return type_
    digits = INTEGER_DIGITS.get(type_)
    return None if digits is None else f"decimal({digits},0)"


def decimal_result(function: str, left: str, right: str) -> str:
    """Return the type of `left function right` for decimal types and one of `+ - * / %`.

    Example:
        >>> decimal_result("*", "decimal(10,2)", "decimal(5,1)")
        'decimal(16,3)'
        >>> decimal_result("/", "decimal(38,10)", "decimal(20,0)")
        'decimal(38,10)'
    """
    of_left, of_right = decimal_digits(left), decimal_digits(right)
    assert of_left is not None and of_right is not None
    (p1, s1), (p2, s2) = of_left, of_right
    match function:
        case "*":
            return _within_limit(p1 + p2 + 1, s1 + s2)
        case "/":
            scale = max(_MIN_SCALE, s1 + p2 + 1)
            return _within_limit(p1 - s1 + s2 + scale, scale)
        case "%":
            scale = max(s1, s2)
            return _within_limit(min(p1 - s1, p2 - s2) + scale, scale)
    scale = max(s1, s2)
    return _within_limit(max(p1 - s1, p2 - s2) + scale + 1, scale)


def rounded_type(type_: str, decimals: int) -> str:
    """Return the type of ROUND of a decimal to a number of decimals, at least 0."""
    digits = decimal_digits(type_)
    assert digits is not None
    precision, scale = digits
    new_scale = min(scale, decimals)
    return f"decimal({min(precision - scale + 1 + new_scale, MAX_DECIMAL_DIGITS)},{new_scale})"


def _within_limit(precision: int, scale: int) -> str:
    """Return a decimal type of at most 38 digits, with fewer digits after the point if needed."""
    if precision > MAX_DECIMAL_DIGITS:
        before_point = precision - scale
        scale = max(MAX_DECIMAL_DIGITS - before_point, min(scale, _MIN_SCALE))
        precision = MAX_DECIMAL_DIGITS
    return f"decimal({precision},{scale})"
