"""Spark's flat types: which are numbers and times, where they meet, and which casts exist."""

from __future__ import annotations

import re

from sqlglot import exp

from planner.scalars.decimals import MAX_DECIMAL_DIGITS, decimal_digits, decimal_of_integer
from planner.sql.build import decimal_type

# Type of a bare NULL before it meets a typed operand
VOID = "void"
# From narrow to wide
_INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
INTEGERS = tuple(_INTEGER_BITS)
_FLOATING = ("float", "double")
# From narrow to wide, as in Spark's `TypeCoercionBase.numericPrecedence`
_PRECEDENCE = (*INTEGERS, *_FLOATING)
TIMES = ("date", "timestamp", "timestamp_ntz")

# Integers below 10^15 and powers of ten up to 10^22 are exact doubles, so a single division rounds
# their quotient correctly.
_EXACT_DOUBLE_DIGITS = 15
# Java writes decimals of a larger scale with an exponent if they are small
_PLAIN_DECIMALS = 6

_FIELD = re.compile(r"`((?:[^`]|``)*)`: (.*)", re.DOTALL)
# A quoted name, or one other character
_TYPE_PARTS = re.compile(r"`(?:[^`]|``)*`|.", re.DOTALL)

# CHAR and VARCHAR are missing because their comparison depends on padding.
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
    """Return the name and type of a struct field, spelled as in the catalog; case is ignored.

    None if the type is not a struct, or the name matches no field or several.

    Example:
        >>> field_type("struct<`id`: bigint, `at`: struct<`x`: int, `y`: decimal(3,1)>>", "AT")
        ('at', 'struct<`x`: int, `y`: decimal(3,1)>')
    """
    if not type_.startswith("struct<"):
        return None
    nested_fields: list[tuple[str, str]] = []
    depth, field = 0, ""
    for part in _TYPE_PARTS.findall(type_.removeprefix("struct<").removesuffix(">")):
        depth += (part in "<(") - (part in ">)")
        if part == "," and depth == 0:
            nested_fields.append(_name_and_type(field))
            field = ""
        else:
            field += part
    nested_fields.append(_name_and_type(field))
    matches = [
        struct_field for struct_field in nested_fields if struct_field[0].lower() == name.lower()
    ]
    return matches[0] if len(matches) == 1 else None


def _name_and_type(field: str) -> tuple[str, str]:
    match = _FIELD.fullmatch(field.strip())
    return (match[1].replace("``", "`"), match[2]) if match else ("", "")


def is_integer(type_: str) -> bool:
    """Return whether the type is one of the four integer types."""
    return type_ in _INTEGER_BITS


def is_numeric(type_: str) -> bool:
    """Return whether the type is an integer, floating-point or decimal type."""
    return type_ in _PRECEDENCE or decimal_digits(type_) is not None


def is_ordered(type_: str) -> bool:
    """Return whether values of a type can be compared with certain results."""
    return is_numeric(type_) or type_ in (*TIMES, "string", "boolean")


def integer_fits(value: int, type_: str) -> bool:
    """Return whether `value` is in the range of the integer type `type_`."""
    half = 1 << (_INTEGER_BITS[type_] - 1)
    return -half <= value < half


def cast_type(node: exp.Expr | None) -> str | None:
    """Return Spark's DDL name of a cast's target type, or None if the scan does not support it.

    Example:
        >>> cast_type(exp.DataType.build("decimal(10)", dialect="spark"))
        'decimal(10,0)'
    """
    if not isinstance(node, exp.DataType):
        return None
    if node.this == exp.DType.DECIMAL:
        return decimal_type(node)
    return _SPARK_NAMES.get(node.this)


def common_type(left: str, right: str) -> str | None:
    """Return the type to which Spark casts two operands in ANSI mode, or None.

    Follows `AnsiTypeCoercion.findTightestCommonType` and `DecimalPrecision.widerDecimalType`. None
    if Spark would round decimals to stay within 38 digits, parse strings, or mix dates and
    timestamps. `void` is the type of a bare NULL.
    """
    if left == right or right == VOID:
        return left
    if left == VOID:
        return right
    if left in _PRECEDENCE and right in _PRECEDENCE:
        wider = max(left, right, key=_PRECEDENCE.index)
        # 24 bits are too few for an integer.
        return "double" if wider == "float" else wider
    digits = [decimal_digits(decimal_of_integer(type_) or "") for type_ in (left, right)]
    if None not in digits:
        (p1, s1), (p2, s2) = (d for d in digits if d is not None)
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale
        return f"decimal({precision},{scale})" if precision <= MAX_DECIMAL_DIGITS else None
    if is_numeric(left) and is_numeric(right):
        return "double"
    return None


def has_cast(source: str, target: str) -> bool:
    """Return whether Spark's ANSI mode certainly casts `source` to `target`."""
    if source in (target, VOID):
        return True
    if target == "string":
        return is_ordered(source)
    if is_numeric(target):
        return is_numeric(source) or source in ("boolean", "string")
    if target == "boolean":
        return source in _PRECEDENCE
    return target in TIMES and (source in TIMES or source == "string")


def may_be_null_after_cast(source: str, target: str) -> bool:
    """Return whether Spark always declares the result of a cast as nullable."""
    if source == target or target == "string":
        return False
    digits = decimal_digits(target)
    operand = decimal_digits(decimal_of_integer(source) or "")
    if digits is not None and operand is not None:
        # rounding may add a digit before the point
        more = (digits[0] - digits[1]) - (operand[0] - operand[1])
        return more < 0 or (more == 0 and digits[1] < operand[1])
    if source == "string" or digits is not None or (source, target) == ("timestamp_ntz", "date"):
        return True
    is_fraction = source in _FLOATING or decimal_digits(source) is not None
    return is_fraction and is_integer(target)


def can_cast(source: str, target: str) -> bool:
    """Return whether the scan casts `source` to `target` with Spark's results, errors included."""
    if source == target:
        return True
    from_digits, to_digits = decimal_digits(source), decimal_digits(target)
    if source == "string":
        # the time zone in a text may be one that only Java knows, so no TIMESTAMP_LTZ
        is_time = target in ("date", "timestamp_ntz")
        return is_numeric(target) or is_time
    if to_digits is not None:
        return is_numeric(source)
    if target == "string":
        is_plain = from_digits is not None and from_digits[1] <= _PLAIN_DECIMALS
        return is_plain or is_integer(source) or source in ("boolean", "date", "timestamp_ntz")
    if from_digits is not None:
        is_exact = target == "double" and from_digits[0] <= _EXACT_DOUBLE_DIGITS
        return is_exact or is_integer(target)
    simple = (*_PRECEDENCE, "boolean")
    if source in simple and target in simple:
        return True
    return {source, target} == {"date", "timestamp_ntz"}
