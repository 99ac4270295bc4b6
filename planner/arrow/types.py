"""Spark's numeric types, and the casts between flat types that the Arrow scan does."""

from __future__ import annotations

import re

from sqlglot import exp

_INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_FLOATING = ("float", "double")
# From narrow to wide, as in Spark's `TypeCoercionBase.numericPrecedence`
_PRECEDENCE = (*_INTEGER_DIGITS, *_FLOATING)

MAX_DECIMAL_DIGITS = 38
# An integer below 10^15 and a power of ten up to 10^22 are doubles, so that one division rounds
# their quotient as it should be rounded.
_EXACT_DOUBLE_DIGITS = 15

_FIELD = re.compile(r"`((?:[^`]|``)*)`: (.*)", re.DOTALL)
# names in quotes, and one character of all else
_TYPE_PARTS = re.compile(r"`(?:[^`]|``)*`|.", re.DOTALL)
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")

# CHAR and VARCHAR are not here: how they compare depends on padding.
_SPARK_NAMES = {
    exp.DType.TINYINT: "tinyint",
    exp.DType.SMALLINT: "smallint",
    exp.DType.INT: "int",
    exp.DType.BIGINT: "bigint",
    exp.DType.FLOAT: "float",
    exp.DType.DOUBLE: "double",
    exp.DType.BOOLEAN: "boolean",
    exp.DType.TEXT: "string",
    exp.DType.BINARY: "binary",
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMPTZ: "timestamp",
    exp.DType.TIMESTAMPLTZ: "timestamp",
    exp.DType.TIMESTAMPNTZ: "timestamp_ntz",
}


def field_type(type_: str, name: str) -> tuple[str, str] | None:
    """Name and type of a field of a struct type, as the catalog spells it; case does not matter.

    None if the type is no struct, or it has no such field or several.

    Example:
        >>> field_type("struct<`id`: bigint, `at`: struct<`x`: int, `y`: decimal(3,1)>>", "AT")
        ('at', 'struct<`x`: int, `y`: decimal(3,1)>')
    """
    if not type_.startswith("struct<"):
        return None
    own: list[tuple[str, str]] = []
    depth, field = 0, ""
    for part in _TYPE_PARTS.findall(type_.removeprefix("struct<").removesuffix(">")):
        depth += (part in "<(") - (part in ">)")
        if part == "," and depth == 0:
            own.append(_named(field))
            field = ""
        else:
            field += part
    own.append(_named(field))
    found = [each for each in own if each[0].lower() == name.lower()]
    return found[0] if len(found) == 1 else None


def _named(field: str) -> tuple[str, str]:
    found = _FIELD.fullmatch(field.strip())
    return (found[1].replace("``", "`"), found[2]) if found else ("", "")


def is_integer(type_: str) -> bool:
    """Whether this is one of the four integer types."""
    return type_ in _INTEGER_BITS


def is_numeric(type_: str) -> bool:
    """Whether this is an integer, floating-point or decimal type."""
    return type_ in _PRECEDENCE or decimal_digits(type_) is not None


def decimal_digits(type_: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type; None for any other."""
    match = _DECIMAL.fullmatch(type_)
    return (int(match[1]), int(match[2])) if match else None


def integer_fits(value: int, type_: str) -> bool:
    """Whether `value` is a value of the integer type `type_`."""
    half = 1 << (_INTEGER_BITS[type_] - 1)
    return -half <= value < half


def cast_type(node: exp.Expr | None) -> str | None:
    """Spark's DDL spelling of the type in a cast; None if it is none the scan knows.

    Example:
        >>> cast_type(exp.DataType.build("decimal(10)", dialect="spark"))
        'decimal(10,0)'
    """
    if not isinstance(node, exp.DataType):
        return None
    if node.this == exp.DType.DECIMAL:
        digits = [int(part.name) for part in node.expressions]
        precision, scale = (*digits, 0)[:2] if digits else (10, 0)
        if not 0 <= scale <= precision <= MAX_DECIMAL_DIGITS:
            return None
        return f"decimal({precision},{scale})"
    return _SPARK_NAMES.get(node.this)


def common_type(left: str, right: str) -> str | None:
    """The type that Spark, in ANSI mode, casts two operands to; None where the scan has none.

    After `AnsiTypeCoercion.findTightestCommonType` and `DecimalPrecision.widerDecimalType`. Where
    Spark would round decimals to keep within 38 digits, and where it would parse strings or mix
    dates and timestamps, the answer is None. `void` is the type of a bare NULL.
    """
    if left == right or right == "void":
        return left
    if left == "void":
        return right
    if left in _PRECEDENCE and right in _PRECEDENCE:
        wider = max(left, right, key=_PRECEDENCE.index)
        # 24 bits would not do for an integer
        return "double" if wider == "float" else wider
    digits = [_as_decimal(type_) for type_ in (left, right)]
    if None not in digits:
        (p1, s1), (p2, s2) = (d for d in digits if d is not None)
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale
        return f"decimal({precision},{scale})" if precision <= MAX_DECIMAL_DIGITS else None
    if is_numeric(left) and is_numeric(right):
        return "double"
    return None


def _as_decimal(type_: str) -> tuple[int, int] | None:
    return (_INTEGER_DIGITS[type_], 0) if is_integer(type_) else decimal_digits(type_)


def can_cast(source: str, target: str) -> bool:
    """Whether the scan casts `source` to `target` with Spark's results, errors included."""
    if source == target:
        return True
    from_digits, to_digits = decimal_digits(source), decimal_digits(target)
    if to_digits is not None:
        # To fewer digits behind the point would mean to round.
        return is_integer(source) or (from_digits is not None and from_digits[1] <= to_digits[1])
    if from_digits is not None:
        return target == "double" and from_digits[0] <= _EXACT_DOUBLE_DIGITS
    simple = (*_PRECEDENCE, "boolean")
    if source in simple and target in simple:
        return True
    return {source, target} == {"date", "timestamp_ntz"}
