"""Arithmetic on Arrow values as in Spark's ANSI mode: overflow and division by zero are errors.

Operands have the same type, and the same length unless they are scalars. The result is NULL if an
operand is.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.arrow.types import Datum
from runtime.errors import ComputationError
from runtime.shown_types import shown_type

_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_UNCHECKED = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}


def combine(function: str, left: Datum, right: Datum, spark_type: str) -> Datum:
    """Compute `left function right` for one of `+ - *`, on integers or floating-point numbers.

    Raises:
        ComputationError: The result does not fit the integer type.
    """
    if pa.types.is_floating(left.type):
        return _UNCHECKED[function](left, right)
    try:
        return _CHECKED[function](left, right)
    except pa.ArrowInvalid as error:
        raise _overflow(function, spark_type) from error


def negate(value: Datum, spark_type: str) -> Datum:
    """Compute `-value`.

    Raises:
        ComputationError: The value is the smallest integer of its type.
    """
    if not pa.types.is_integer(value.type):
        return pc.negate(value)
    try:
        return pc.negate_checked(value)
    except pa.ArrowInvalid as error:
        raise _overflow("-", spark_type) from error


# Below this, a scaled double is exact to a thousandth
_EXACT = float(1 << 40)
# From here on, doubles are whole numbers
_WHOLE = float(1 << 52)
# First double above BIGINT
_LIMIT = float(1 << 63)


def round_half_up(values: pa.Array, decimals: int) -> pa.Array:
    """Round doubles to a number of decimals, halves away from zero.

    Equals `java.math.BigDecimal.valueOf(x).setScale(decimals, HALF_UP)`, which Spark uses: the
    shortest decimal text of a double decides whether it is a half. If the scaled double is near a
    half, its text is rounded. NaN, infinity and NULL are unchanged, and -0.0 becomes 0.0.
    """
    numbers = values.to_numpy(zero_copy_only=False)
    scale = 10.0**decimals
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.abs(numbers)
        scaled = size * scale
        floor = np.floor(scaled)
        part = scaled - floor
        result = np.copysign((floor + (part > 0.5)) / scale, numbers) + 0.0
        is_kept = ~(size < _WHOLE)
        by_text = ~is_kept & ((scaled >= _EXACT) | (np.abs(part - 0.5) < 1e-3))
    result[is_kept] = numbers[is_kept]
    if by_text.any():
        unit = Decimal(1).scaleb(-decimals)
        with localcontext() as context:
            context.prec, context.rounding = 50, ROUND_HALF_UP
            result[by_text] = [
                float(Decimal(repr(number)).quantize(unit)) + 0.0
                for number in numbers[by_text].tolist()
            ]
    return pa.array(result, pa.float64(), mask=pc.is_null(values).to_numpy(zero_copy_only=False))


def integer_bound(values: Datum, function: str) -> Datum:
    """Return `floor` or `ceil` of doubles as BIGINT. NaN is 0, as in Java.

    Raises:
        ComputationError: A result does not fit.
    """
    if isinstance(values, pa.Scalar):
        return integer_bound(pa.array([values], values.type), function)[0]
    numbers = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False)
    numbers = np.where(np.isnan(numbers), 0.0, numbers)
    rounded = np.floor(numbers) if function == "floor" else np.ceil(numbers)
    if ((rounded >= _LIMIT) | (rounded < -_LIMIT)).any():
        raise _overflow(function.upper(), "bigint")
    is_null = pc.is_null(values).to_numpy(zero_copy_only=False)
    return pa.array(rounded.astype(np.int64), pa.int64(), mask=is_null)


def divide(left: Datum, right: Datum) -> Datum:
    """Compute `left / right` of doubles.

    Raises:
        ComputationError: A divisor is 0.0 or -0.0; ANSI mode does not return infinity.
    """
    check_divisor(left, right, "/")
    return pc.divide(left, right)


def divide_integers(left: Datum, right: Datum) -> Datum:
    """Compute `left DIV right` of bigints, truncated toward zero.

    Raises:
        ComputationError: A divisor is 0, or the quotient is 2^63.
    """
    check_divisor(left, right, "DIV")
    try:
        return pc.divide_checked(left, right)
    except pa.ArrowInvalid as error:
        raise _overflow("DIV", "bigint") from error


def remainder(left: Datum, right: Datum) -> Datum:
    """Compute `left % right`, with the sign of `left`, as in C and Java.

    Raises:
        ComputationError: A divisor is 0.
    """
    check_divisor(left, right, "%")
    if pa.types.is_integer(left.type):
        # x % -1 and x % 1 are both 0, but dividing the smallest integer by -1 would overflow.
        minus_one, one = pa.scalar(-1, right.type), pa.scalar(1, right.type)
        divisor = pc.if_else(pc.equal(right, minus_one), one, right)
        return pc.subtract(left, pc.multiply(pc.divide(left, divisor), divisor))
    is_valid = pc.and_(pc.is_valid(left), pc.is_valid(right))
    with np.errstate(invalid="ignore"):
        values = np.fmod(_numbers(left), _numbers(right))
    if isinstance(is_valid, pa.Scalar):
        return pa.scalar(values.item() if is_valid.as_py() else None, left.type)
    is_null = ~is_valid.to_numpy(zero_copy_only=False)
    return pa.array(values, left.type, mask=is_null, from_pandas=False)  # keep NaN as a value


def _numbers(value: Datum) -> np.ndarray[tuple[int, ...], np.dtype[np.floating]]:
    """Return the values of a floating-point array or scalar; 1 for NULL."""
    filled = pc.fill_null(value, pa.scalar(1, value.type))
    if isinstance(filled, pa.Scalar):
        return np.asarray(filled.as_py(), value.type.to_pandas_dtype())
    numbers: np.ndarray[tuple[int, ...], np.dtype[np.floating]] = filled.to_numpy()
    return numbers


def check_divisor(left: Datum, right: Datum, sign: str) -> None:
    """Check that no divisor of a number is 0.

    Raises:
        ComputationError: A divisor is 0.
    """
    zero = Decimal(0) if pa.types.is_decimal(right.type) else 0
    is_zero = pc.equal(right, pa.scalar(zero, right.type))
    if isinstance(right, pa.Scalar):
        fails = is_zero.as_py() and _any(pc.is_valid(left))
    else:
        fails = _any(is_zero) and _any(pc.and_(is_zero, pc.is_valid(left)))
    if fails:
        raise ComputationError(
            f"division by zero in {sign}", hint="use NULLIF(divisor, 0) to get NULL instead"
        )


def _any(mask: Datum) -> bool:
    return bool(pc.any(mask).as_py())


def _overflow(sign: str, spark_type: str) -> ComputationError:
    return ComputationError(
        f"{shown_type(spark_type)} overflow in {sign}",
        hint="cast an operand to a wider type first",
    )
