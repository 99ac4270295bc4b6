"""Comparisons of Arrow values as in Spark.

Operands have the same type, and the same length unless they are scalars. NaN equals NaN and is
greater than all other numbers; -0.0 equals 0.0. Strings and binaries compare by their bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.arrow.types import Datum


def compare(function: str, left: Datum, right: Datum) -> Datum:
    """Compute `left function right` for one of `= <> < <= > >= <=>`. Only `<=>` compares NULLs."""
    match function:
        case "=":
            return _equal(left, right)
        case "<>":
            return pc.invert(_equal(left, right))
        case "<":
            return _less(left, right)
        case ">":
            return _less(right, left)
        case "<=":
            # the order is total
            return pc.invert(_less(right, left))
        case ">=":
            return pc.invert(_less(left, right))
        case _:
            same = pc.fill_null(_equal(left, right), False)
            return pc.or_(same, pc.and_(pc.is_null(left), pc.is_null(right)))


def is_in(value: Datum, members: Sequence[pa.Scalar]) -> Datum:
    """Compute `value IN (members)`: NULL for NULL, or if nothing matches and a member is NULL."""
    unknown = pa.scalar(None, pa.bool_())
    not_null = [member for member in members if member.is_valid]
    if not not_null:
        return unknown
    if isinstance(value, pa.Scalar):
        return is_in(pa.array([value], value.type), members)[0]
    values = pa.array(not_null, value.type)
    if pa.types.is_floating(value.type):
        # Hashing distinguishes -0.0 from 0.0, and one NaN from another.
        zero = pa.scalar(0.0, value.type)
        is_member = pc.or_(
            pc.is_in(pc.add(value, zero), value_set=pc.add(values, zero)),
            pc.and_(pc.fill_null(pc.is_nan(value), False), pc.any(pc.is_nan(values))),
        )
    else:
        is_member = pc.is_in(value, value_set=values)
    if len(values) < len(members):
        is_member = pc.if_else(is_member, is_member, unknown)
    return pc.if_else(pc.is_valid(value), is_member, unknown)


def extreme(function: str, values: Sequence[Datum]) -> Datum:
    """Compute GREATEST or LEAST (`greatest`, `least`), without the NULLs among the values."""
    result, *others = values
    for value in others:
        is_beyond = _less(result, value) if function == "greatest" else _less(value, result)
        # NULL, if one of the two is
        is_taken = pc.if_else(pc.is_null(is_beyond), pc.is_null(result), is_beyond)
        result = pc.if_else(is_taken, value, result)
    return result


def _equal(left: Datum, right: Datum) -> Datum:
    equal = pc.equal(left, right)
    if not pa.types.is_floating(left.type) or _is_number(left) or _is_number(right):
        return equal
    return pc.or_(equal, pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _less(left: Datum, right: Datum) -> Datum:
    less = pc.less(left, right)
    if not pa.types.is_floating(left.type) or _is_number(right):
        return less
    below_nan = pc.is_nan(right)
    if not _is_number(left):
        below_nan = pc.and_not(below_nan, pc.is_nan(left))
    return pc.or_(less, below_nan)


def _is_number(value: Datum) -> bool:
    """Return whether `value` is a scalar and not NaN."""
    return isinstance(value, pa.Scalar) and value.is_valid and not pc.is_nan(value).as_py()
