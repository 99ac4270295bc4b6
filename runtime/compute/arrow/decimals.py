"""Arithmetic of decimals with Spark's results: exact, then rounded half up to the result's type."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.arrow.types import Datum
from runtime.compute.kernels.conversions import Int64Array, decimal_array, decimal_words, validity
from runtime.errors import ComputationError

_MAX_DIGITS, _MAX_WIDE_DIGITS = 38, 76
# Digits after the point to which Spark rounds a quotient, before rounding to the result's type
_QUOTIENT_SCALE = 38
_INT64_LIMIT = 1 << 62
# Type of the divisor of an average
_COUNT = pa.decimal128(20, 0)
# Digits for exact arithmetic with Python's decimals
_EXACT_DIGITS = 160

_UNCHECKED = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}


def combine(function: str, left: Datum, right: Datum, type_: pa.Decimal128Type) -> Datum:
    """Compute `left function right` for one of `+ - *`.

    Raises:
        ComputationError: The result has more digits than its type.
    """
    digits, scale = _exact_digits(function, left.type, right.type)
    if digits > _MAX_WIDE_DIGITS:
        exact = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}[function]
        powers = [
            1 if function == "*" else 10 ** (scale - side.type.scale) for side in (left, right)
        ]
        return _per_pair(
            function, left, right, type_, lambda a, b: exact(a * powers[0], b * powers[1]), scale
        )
    if function == "*":
        wide = [pa.decimal256(side.type.precision, side.type.scale) for side in (left, right)]
    else:
        wide = [pa.decimal256(digits - 1, scale)] * 2
    operands = [pc.cast(side, type_) for side, type_ in zip((left, right), wide, strict=True)]
    return fit(_UNCHECKED[function](*operands), type_, function)


def _exact_digits(function: str, left: pa.DataType, right: pa.DataType) -> tuple[int, int]:
    if function == "*":
        return left.precision + right.precision + 1, left.scale + right.scale
    scale = max(left.scale, right.scale)
    return max(left.precision - left.scale, right.precision - right.scale) + scale + 1, scale


def divide(left: Datum, right: Datum, type_: pa.Decimal128Type, sign: str = "/") -> Datum:
    """Compute `left / right`, NULL where an operand is. Divisors are not 0.

    Args:
        left: Dividends.
        right: Divisors.
        type_: Type of the quotients.
        sign: Operator or function, for the error.

    Raises:
        ComputationError: The result has more digits than its type.
    """
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return divide(pa.array([left], left.type), right, type_, sign)[0]
    fast = _divide_short(left, right, type_, sign)
    if fast is not None:
        return fast
    # Like Spark, round to 38 digits after the point, then to the type.
    power = 10 ** (_QUOTIENT_SCALE - left.type.scale + right.type.scale)

    def quotient(a: int, b: int) -> int:
        return _half_up(a * power, b)

    return _per_pair(sign, left, right, type_, quotient, _QUOTIENT_SCALE)


def average(total: pa.Array, count: pa.Array, type_: pa.Decimal128Type) -> pa.Array:
    """Divide sums by counts as Spark's AVG does; NULL for a count of 0."""
    divisor = pc.if_else(pc.greater(count, 0), count, None)
    return divide(total, pc.cast(divisor, _COUNT), type_, "AVG")


def _divide_short(left: Datum, right: Datum, type_: pa.Decimal128Type, sign: str) -> Datum | None:
    """Divide numbers whose scaled values fit into 64 bits. None if some do not fit.

    The quotient is only rounded once. That is the same as rounding it to 38 digits first, unless
    the digits after the result's last are 4 followed by nines up to the 38th. A quotient of numbers
    below 2^62 differs from a half by more than that.
    """
    shift = type_.scale - left.type.scale + right.type.scale
    if not 0 <= shift <= 18 or type_.scale > 18:
        return None
    numerators, divisors = _short(left), _short(right)
    if numerators is None or divisors is None:
        return None
    size, by = np.abs(numerators), np.abs(divisors)
    if (size >= _INT64_LIMIT // 10**shift).any() or (by >= _INT64_LIMIT).any():
        return None
    size = size * 10**shift
    quotients = size // by
    quotients += 2 * (size - quotients * by) >= by
    quotients = np.where((numerators < 0) != (divisors < 0), -quotients, quotients)
    is_valid = pc.and_(pc.is_valid(left), pc.is_valid(right))
    valid = is_valid.to_numpy(zero_copy_only=False)
    scaled = pa.decimal128(_MAX_DIGITS, type_.scale)
    return fit(decimal_array(quotients, quotients >> 63, valid, scaled), type_, sign)


def _short(side: Datum) -> Int64Array | None:
    """Return the unscaled values of decimals, 1 for NULL, or None if some exceed 64 bits."""
    array = pa.array([side], side.type) if isinstance(side, pa.Scalar) else side
    words = decimal_words(array)
    valid = validity(array)
    if valid is not None:
        words = np.where(valid[:, np.newaxis], words, np.array([1, 0]))
    low, high = words[:, 0], words[:, 1]
    return low if (high == low >> 63).all() else None


def remainder(left: Datum, right: Datum, type_: pa.Decimal128Type) -> Datum:
    """Compute `left % right`, with the sign of `left`. Divisors are not 0."""
    scale = max(left.type.scale, right.type.scale)
    powers = [10 ** (scale - side.type.scale) for side in (left, right)]

    def rest(a: int, b: int) -> int:
        a, b = a * powers[0], abs(b * powers[1])
        return a % b if a >= 0 else -(-a % b)

    return _per_pair("%", left, right, type_, rest, scale)


def _half_up(numerator: int, divisor: int) -> int:
    """Return a quotient rounded half away from zero."""
    size, by = abs(numerator), abs(divisor)
    quotient = (2 * size + by) // (2 * by)
    return quotient if (numerator < 0) == (divisor < 0) else -quotient


def _per_pair(
    sign: str,
    left: Datum,
    right: Datum,
    type_: pa.Decimal128Type,
    function: Callable[[int, int], int],
    scale: int,
) -> Datum:
    """Compute a function of the unscaled values of each pair, and round its result to a type.

    Args:
        sign: Operator, for the error.
        left: Left operands.
        right: Right operands.
        type_: Type of the result.
        function: Function of two unscaled values.
        scale: Scale of its result.
    """
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return _per_pair(sign, pa.array([left], left.type), right, type_, function, scale)[0]
    n_rows = len(right if isinstance(left, pa.Scalar) else left)
    sides = [_unscaled(side, n_rows) for side in (left, right)]
    limit, power = 10**type_.precision, 10 ** max(0, scale - type_.scale)
    more = 10 ** max(0, type_.scale - scale)
    results: list[Decimal | None] = []
    with localcontext() as context:
        context.prec = _EXACT_DIGITS
        for a, b in zip(*sides, strict=True):
            if a is None or b is None:
                results.append(None)
                continue
            value = _half_up(function(a, b), power) * more
            if not -limit < value < limit:
                raise _overflow(sign, type_)
            results.append(Decimal(value).scaleb(-type_.scale))
    return pa.array(results, type_)


def _unscaled(side: Datum, n_rows: int) -> list[int | None]:
    """Return the unscaled values of decimals."""
    scale = side.type.scale
    values = [side.as_py()] * n_rows if isinstance(side, pa.Scalar) else side.to_pylist()
    with localcontext() as context:
        context.prec = _EXACT_DIGITS
        return [None if value is None else int(value.scaleb(scale)) for value in values]


def fit(value: Datum, type_: pa.Decimal128Type, sign: str) -> Datum:
    """Round decimals half up to the scale of a type.

    Raises:
        ComputationError: A value has more digits than the type.
    """
    if value.type == type_:
        return value
    digits = value.type.precision - value.type.scale + type_.scale + 1
    rounded = value
    if type_.scale < value.type.scale:
        wide = pa.decimal256(min(value.type.precision + 1, _MAX_WIDE_DIGITS), value.type.scale)
        rounded = pc.round(pc.cast(value, wide), type_.scale, round_mode="half_towards_infinity")
    try:
        if digits > _MAX_DIGITS:
            aligned = pc.cast(rounded, pa.decimal256(min(digits, _MAX_WIDE_DIGITS), type_.scale))
        else:
            aligned = pc.cast(rounded, pa.decimal128(max(digits, type_.precision), type_.scale))
        return pc.cast(aligned, type_)
    except pa.ArrowInvalid as error:
        raise _overflow(sign, type_) from error


def of_doubles(values: Datum, type_: pa.Decimal128Type) -> Datum:
    """Return doubles as decimals: their shortest texts, rounded half up.

    Raises:
        ComputationError: A value has more digits than the type, is NaN or infinite.
    """
    if isinstance(values, pa.Scalar):
        return of_doubles(pa.array([values], values.type), type_)[0]
    unit, limit = Decimal(1).scaleb(-type_.scale), Decimal(10) ** (type_.precision - type_.scale)
    results: list[Decimal | None] = []
    with localcontext() as context:
        context.prec, context.rounding = 400, ROUND_HALF_UP
        for number in values.to_pylist():
            if number is None:
                results.append(None)
                continue
            value = Decimal(repr(number))
            if not value.is_finite() or abs(value := value.quantize(unit)) >= limit:
                raise _out_of_range(number, type_)
            results.append(value)
    return pa.array(results, type_)


def to_integers(values: Datum, type_: pa.DataType) -> Datum:
    """Return decimals without their fractions as integers.

    Raises:
        ComputationError: A value does not fit the type.
    """
    # Arrow truncates no decimal whose digits are all after the point
    whole = pc.trunc(pc.cast(values, pa.decimal256(_MAX_WIDE_DIGITS, values.type.scale)))
    try:
        return pc.cast(pc.cast(whole, pa.decimal256(_MAX_WIDE_DIGITS // 2, 0)), type_)
    except pa.ArrowInvalid as error:
        raise ComputationError(
            f"a decimal is out of range for CAST to {_NAMES[type_]}", hint="cast to a wider type"
        ) from error


_NAMES = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
}


def _out_of_range(value: object, type_: pa.Decimal128Type) -> ComputationError:
    return ComputationError(
        f"{value} is out of range for CAST to DECIMAL({type_.precision},{type_.scale})",
        hint="cast to a wider type",
    )


def _overflow(sign: str, type_: pa.Decimal128Type) -> ComputationError:
    return ComputationError(
        f"DECIMAL({type_.precision},{type_.scale}) overflow in {sign}",
        hint="cast the operands to fewer digits first",
    )
