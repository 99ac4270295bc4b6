"""Rule out row groups and files by their statistics."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from runtime.spec.expressions import Call, ColumnRef, Constant, Expression
from runtime.spec.scan import PartitionValue

if TYPE_CHECKING:
    import pyarrow.parquet as pq

# Writers truncate longer strings in statistics.
_WHOLE_BYTES = 63
_INTEGERS = ("tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz")
_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class ValueRange:
    """Statistics of a column over some rows.

    Attributes:
        low, high: Bounds of the values other than NULL and NaN, in the form of `Constant`; None if
            unknown.
        n_nulls: Number of NULLs; None if unknown.
        n_rows: Number of rows.
        has_nan: Whether the values may include NaN, which statistics ignore and Spark treats as the
            largest number.
    """

    low: Any
    high: Any
    n_nulls: int | None
    n_rows: int
    has_nan: bool = False


def can_be_true(expression: Expression, range_of: Callable[[str], ValueRange | None]) -> bool:
    """Return False only if `expression` is certainly not TRUE for any row.

    Args:
        expression: Filter. Handles AND, OR, and comparisons of a column with constants.
        range_of: Function that returns the statistics of a column, or None.
    """
    if not isinstance(expression, Call):
        return True
    args = expression.args
    match expression.function:
        case "and":
            return all(can_be_true(arg, range_of) for arg in args)
        case "or":
            return any(can_be_true(arg, range_of) for arg in args)
        case "=" | "<" | "<=" | ">" | ">=":
            left, right = args
            if isinstance(left, ColumnRef) and isinstance(right, Constant):
                return _can_compare(expression.function, left, right, range_of)
            if isinstance(right, ColumnRef) and isinstance(left, Constant):
                return _can_compare(_FLIPPED[expression.function], right, left, range_of)
        case "in":
            column, *members = args
            if isinstance(column, ColumnRef) and all(isinstance(m, Constant) for m in members):
                constants = [member for member in members if isinstance(member, Constant)]
                not_null = [member for member in constants if member.value is not None]
                return any(_can_compare("=", column, member, range_of) for member in not_null)
        case "is_null":
            (column,) = args
            if isinstance(column, ColumnRef):
                values = range_of(column.name)
                return values is None or values.n_nulls != 0
        case "not":
            (inner,) = args
            if isinstance(inner, Call) and inner.function == "is_null":
                (column,) = inner.args
                if isinstance(column, ColumnRef):
                    values = range_of(column.name)
                    return values is None or values.n_nulls != values.n_rows
    return True


def column_range(
    statistics: pq.Statistics | None, column: pq.ColumnSchema, type_: str, n_rows: int
) -> ValueRange | None:
    """Return the statistics of a row group for a column of Spark type `type_`; None if unusable."""
    if statistics is None:
        return None
    n_nulls = statistics.null_count if statistics.has_null_count else None
    unknown = ValueRange(None, None, n_nulls, n_rows)
    if not statistics.has_min_max:
        return unknown
    low, high = statistics.min_raw, statistics.max_raw
    if type_ in _INTEGERS and isinstance(low, int):
        if "milliseconds" in column.logical_type.to_json():
            low, high = low * 1000, high * 1000
        return ValueRange(low, high, n_nulls, n_rows)
    if type_.startswith("decimal") and isinstance(low, int):
        return ValueRange(
            Decimal(low).scaleb(-column.scale), Decimal(high).scaleb(-column.scale), n_nulls, n_rows
        )
    if type_ == "double":
        if math.isnan(low) or math.isnan(high):
            return unknown
        return ValueRange(low, high, n_nulls, n_rows, has_nan=True)
    if type_ == "string" and isinstance(low, bytes):
        if max(len(low), len(high)) > _WHOLE_BYTES:
            return unknown
        return ValueRange(low, high, n_nulls, n_rows)
    return unknown


def range_of_value(value: PartitionValue, n_rows: int) -> ValueRange:
    """Return the statistics of a column with the same value in all rows."""
    if value is None:
        return ValueRange(None, None, n_rows, n_rows)
    if value != value:  # NaN never equals itself
        return ValueRange(None, None, 0, n_rows, has_nan=True)
    bound = value.encode() if isinstance(value, str) else value
    return ValueRange(bound, bound, 0, n_rows)


def _can_compare(
    function: str,
    column: ColumnRef,
    constant: Constant,
    range_of: Callable[[str], ValueRange | None],
) -> bool:
    values = range_of(column.name)
    if values is None:
        return True
    if values.n_nulls == values.n_rows:
        return False
    value: Any = constant.value
    if isinstance(value, str):
        value = value.encode()
    # NaN is not ordered; lake logs may have it as a bound
    if any(number is None or _is_nan(number) for number in (values.low, values.high, value)):
        return True
    match function:
        case "=":
            return bool(values.low <= value <= values.high)
        case "<":
            return bool(values.low < value)
        case "<=":
            return bool(values.low <= value)
        case ">":
            return values.has_nan or bool(values.high > value)
        case _:
            return values.has_nan or bool(values.high >= value)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
