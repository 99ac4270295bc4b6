"""Aggregates over the rows of a group by definition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cmp_to_key, partial
from typing import Any

from runtime.definition.order import compare, key_of, sorted_places
from runtime.functions.aggregates import AGGREGATES
from runtime.functions.aggregates.function import FromValues, Mean, Merged, Picked, Texts
from runtime.plan.definition import DefinedCall
from runtime.spec.aggregates import MergeOp
from runtime.spec.expressions import RankOrder

Values = list[Any]

# Digits after the point to which Spark rounds a quotient first
_QUOTIENT_SCALE = 38
_MAX_DIGITS = 80

_by_value = cmp_to_key(compare)


def result_of(call: DefinedCall, rows: Sequence[Sequence[Any]], columns: Sequence[str]) -> Any:
    """Return the result of a call over the rows of a group, in the order of their arrival.

    Args:
        call: Call.
        rows: Rows of the group; at least one.
        columns: Names of their columns.
    """
    places = {name: place for place, name in enumerate(columns)}
    if call.condition is not None:
        rows = [row for row in rows if row[places[call.condition]] is True]
    if not call.args:
        return len(rows)
    args = [[row[places[name]] for name in call.args] for row in rows]
    function = AGGREGATES[call.function]
    if call.function == "COUNT_IF":
        return sum(row[0] is True for row in args)
    if call.order is not None:
        args = [[row[places[call.args[0]]], row[places[call.order]]] for row in rows]
    if isinstance(function.form, Picked):
        return _pick(args, is_last=function.form.is_last)
    if isinstance(function.form, Texts):
        return _values_by_time(args, is_distinct=call.is_distinct)
    present = [row for row in args if None not in row]
    if call.is_distinct:
        present = list({tuple(map(key_of, row)): row for row in reversed(present)}.values())
    if call.function == "COUNT":
        return len(present)
    values = [row[0] for row in present]
    match function.form:
        case Mean() | Merged(MergeOp.SUM):
            return _sum_or_average(call, values)
    definition = function.definition
    assert definition is not None
    if definition in (min, max):
        definition = partial(definition, key=_by_value)
    if not values:
        return None
    is_percentile = isinstance(function.form, FromValues) and function.form.has_percentage
    return definition(values, float(present[0][1])) if is_percentile else definition(values)


def _sum_or_average(call: DefinedCall, values: Values) -> Any:
    if not values:
        return None
    is_sum = call.function == "SUM"
    if isinstance(values[0], float) or call.column.type == "double":
        total = _float_sum(values)
        return total if is_sum else total / len(values)
    if isinstance(values[0], Decimal):
        exact = sum(map(Fraction, values), Fraction(0))
        return _decimal(exact if is_sum else exact / len(values), call.column.type)
    return sum(values)


def _float_sum(values: Values) -> float:
    finite = [float(value) for value in values]
    try:
        return math.fsum(finite)
    except (OverflowError, ValueError):
        # infinities of both signs, or a sum that is too large
        return sum(finite)


def _decimal(value: Fraction, type_: str) -> Decimal:
    """Return a value rounded to the scale of a decimal type.

    Like Spark, round half up to 38 digits after the point first.
    """
    scale = int(type_.rstrip(")").rpartition(",")[2])
    rounded = _half_up(_half_up(value, _QUOTIENT_SCALE), scale)
    with localcontext() as context:
        context.prec = _MAX_DIGITS
        return Decimal(int(rounded * 10**scale)).scaleb(-scale)


def _half_up(value: Fraction, scale: int) -> Fraction:
    """Return a value rounded half away from zero to some digits after the point."""
    size = math.floor(abs(value) * 10**scale + Fraction(1, 2))
    return Fraction(size if value >= 0 else -size, 10**scale)


def _values_by_time(args: Sequence[Values], *, is_distinct: bool) -> Values:
    """Return values other than NULL by time, then by value; of equal ones perhaps the first.

    Args:
        args: Value and time of each row.
        is_distinct: Whether each value occurs once.
    """
    rows = [(order, value) for value, order in args if value is not None]
    orders = [RankOrder(name, is_descending=False, nulls_first=True) for name in "ov"]
    values = [rows[place][1] for place in sorted_places(orders, rows)]
    if is_distinct:
        values = list({key_of(value): value for value in reversed(values)}.values())[::-1]
    return values


def _pick(args: Sequence[Values], *, is_last: bool) -> Any:
    """Return the value of the row that is first or last in order.

    Among rows of equal order it is the smallest or the largest value, NULL being the smallest.

    Args:
        args: Value and order of each row.
        is_last: Whether the last row is picked.
    """
    rows = [row for row in args if row[1] is not None]
    if not rows:
        return None
    orders = [RankOrder(name, is_descending=is_last, nulls_first=not is_last) for name in "ov"]
    return rows[sorted_places(orders, [(order, value) for value, order in rows])[0]][0]
