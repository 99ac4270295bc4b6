"""CAST between flat types as in Spark's ANSI mode."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.arrow import decimals, times
from runtime.compute.arrow.parse_text import parse_text
from runtime.compute.arrow.types import INTEGER_TYPES, Datum, arrow_type
from runtime.compute.kernels.conversions import decimal_words, from_buffer, validity
from runtime.errors import ComputationError
from runtime.shown_types import shown_type

_DAY_US = 86_400_000_000
_INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_MAX_DECIMAL128_DIGITS = 38


def cast(value: Datum, source: str, target: str) -> Datum:
    """Compute `CAST(value AS target)`.

    Args:
        value: Values of type `source`, an array or a scalar.
        source: Type that `planner.scalars.types.can_cast` allows for `target`.
        target: Type of the result.

    Raises:
        ComputationError: A value does not fit `target`; NaN and infinity do not fit integers.
    """
    if source == target:
        return value
    if source == "string":
        return _of_text(value, target)
    if pa.types.is_decimal(arrow_type(target)):
        if source in ("float", "double"):
            return decimals.of_doubles(value, arrow_type(target))
        if pa.types.is_decimal(value.type):
            return decimals.fit(value, arrow_type(target), "CAST")
        return _to_decimal(value, source, target)
    match source, target:
        case ("timestamp_ntz", "date"):
            # rounds down, also before 1970
            return pc.cast(value, pa.date32(), safe=False)
        case ("date", "timestamp_ntz"):
            return _midnight(value)
        case ("date", "string"):
            return times.date_text(value)
        case ("timestamp_ntz", "string"):
            return times.time_text(value)
        case (_, "string"):
            return pc.cast(value, pa.string())
        case (("float" | "double"), _) if target in INTEGER_TYPES:
            return _truncate(value, source, target)
    if pa.types.is_decimal(value.type):
        if target in INTEGER_TYPES:
            return decimals.to_integers(value, arrow_type(target))
        return _decimal_to_double(value)
    if source in INTEGER_TYPES and target in INTEGER_TYPES:
        try:
            return pc.cast(value, arrow_type(target))
        except pa.ArrowInvalid as error:
            limit = 1 << (arrow_type(target).bit_width - 1)
            wide = pc.cast(value, pa.int64())
            fits = pc.and_(pc.less(wide, limit), pc.greater_equal(wide, -limit))
            raise _does_not_fit(value, fits, source, target) from error
    # To floating point: rounded to nearest, as in Java. To BOOLEAN: whether it is not zero.
    return pc.cast(value, arrow_type(target), safe=False)


def _to_decimal(value: Datum, source: str, target: str) -> Datum:
    """Return integers as decimals."""
    type_ = arrow_type(target)
    # Arrow requires enough digits for every integer of the type
    digits = max(type_.precision, _INTEGER_DIGITS[source] + type_.scale)
    is_narrow = digits <= _MAX_DECIMAL128_DIGITS
    wide = (pa.decimal128 if is_narrow else pa.decimal256)(digits, type_.scale)
    exact = pc.cast(value, wide)
    try:
        return pc.cast(exact, type_)
    except pa.ArrowInvalid as error:
        raise ComputationError(
            f"value out of range for CAST from {shown_type(source)} to {shown_type(target)}",
            hint="cast to a wider type",
        ) from error


def _of_text(value: Datum, target: str) -> Datum:
    """Return texts as numbers, dates or times on a wall clock.

    Raises:
        ComputationError: A text has no form that Spark reads as the type.
    """
    if isinstance(value, pa.Scalar):
        return _of_text(pa.array([value], value.type), target)[0]
    parsed = parse_text(value, target, "UTC")
    is_wrong = pc.and_(pc.is_valid(value), pc.is_null(parsed))
    if is_wrong.true_count:
        text = value.filter(is_wrong)[0]
        raise ComputationError(
            f"{text.as_py()!r} cannot be cast to {shown_type(target)}",
            hint="use TRY_CAST to get NULL instead",
        )
    return parsed


def _decimal_to_double(value: Datum) -> Datum:
    """Return the nearest doubles of decimals of at most 15 digits.

    Unscaled value and power of ten are exact as doubles, so the quotient is rounded only once.
    """
    if isinstance(value, pa.Scalar):
        return _decimal_to_double(pa.array([value], value.type))[0]
    if not pa.types.is_decimal128(value.type):
        value = pc.cast(value, pa.decimal128(value.type.precision, value.type.scale))
    unscaled = decimal_words(value)[:, 0]
    doubles = unscaled.astype(np.float64) / float(10**value.type.scale)
    return from_buffer(doubles, validity(value), pa.float64(), len(value))


def _midnight(value: Datum) -> Datum:
    days = pc.cast(pc.cast(value, pa.int32()), pa.int64())
    try:
        return pc.cast(pc.multiply_checked(days, pa.scalar(_DAY_US)), pa.timestamp("us"))
    except pa.ArrowInvalid as error:
        raise ComputationError("value out of range for CAST from DATE to TIMESTAMP(6)") from error


def _truncate(value: Datum, source: str, target: str) -> Datum:
    type_ = arrow_type(target)
    doubles = pc.cast(value, pa.float64())
    limit = float(1 << (type_.bit_width - 1))
    if target == "bigint":
        # Spark compares with the double nearest to 2^63 - 1, which is 2^63; Java's cast then
        # returns 2^63 - 1.
        fits = pc.and_(pc.greater_equal(doubles, -limit), pc.less_equal(doubles, limit))
    else:
        fits = pc.and_(pc.greater(doubles, -limit - 1), pc.less(doubles, limit))
    if pc.any(pc.invert(fits)).as_py():
        raise _does_not_fit(value, fits, source, target)
    if target != "bigint":
        return pc.cast(doubles, type_, safe=False)
    is_limit = pc.equal(doubles, limit)
    truncated = pc.cast(pc.if_else(is_limit, 0.0, doubles), type_, safe=False)
    return pc.if_else(is_limit, pa.scalar((1 << 63) - 1, type_), truncated)


def _does_not_fit(value: Datum, fits: Datum, source: str, target: str) -> ComputationError:
    if not isinstance(value, pa.Scalar):
        value = value.filter(pc.invert(fits))[0]
    return ComputationError(
        f"{value.as_py()} is out of range for CAST from {shown_type(source)} to "
        f"{shown_type(target)}",
        hint="cast to a wider type",
    )
