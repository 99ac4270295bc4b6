"""Compare the rows of histories with the rows of the batch query."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from runtime.errors import ExecutionError
from runtime.spec.stream import ROW_KIND

# Sums of floating-point numbers depend on the order of the rows
_RELATIVE, _ABSOLUTE = 1e-9, 1e-12

# A row by column name
Row = dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """Rows that only one of two results has.

    Attributes:
        missing: Expected rows that are missing.
        unexpected: Rows that are not expected.
    """

    missing: tuple[Row, ...]
    unexpected: tuple[Row, ...]


def difference(expected: Sequence[Row], rows: Sequence[Row]) -> Difference | None:
    """Return how rows differ from the expected ones in any order. None if they are the same.

    Floating-point numbers are equal within a small tolerance, and NaN equals NaN.
    """
    open_rows: dict[Any, list[Row]] = defaultdict(list)
    for row in expected:
        open_rows[_exact(row)].append(row)
    unexpected: list[Row] = []
    # equal parts are matched in the order of their inexact parts
    for row in sorted(rows, key=_inexact):
        candidates = open_rows.get(_exact(row), [])
        match = next(
            (other for other in sorted(candidates, key=_inexact) if _near(other, row)), None
        )
        if match is None:
            unexpected.append(row)
        else:
            candidates.remove(match)
    missing = [row for left in open_rows.values() for row in left]
    return Difference(tuple(missing), tuple(unexpected)) if missing or unexpected else None


def limited_difference(
    expected: Sequence[Row], rows: Sequence[Row], limit: int | None
) -> Difference | None:
    """Return how rows differ from `limit` of the expected ones, whichever they are.

    Args:
        expected: All rows.
        rows: Rows to compare.
        limit: Number of rows. None: all.
    """
    mismatch = difference(expected, rows)
    if limit is None or limit >= len(expected):
        return mismatch
    if mismatch is None:
        return Difference((), tuple(rows[limit:]))
    return None if not mismatch.unexpected and len(rows) == limit else mismatch


def rows_of(tables: Iterable[pa.Table | pa.RecordBatch]) -> list[Row]:
    """Return the rows of tables.

    Raises:
        ExecutionError: A time is outside the years that Python has.
    """
    rows: list[Row] = []
    for table in tables:
        try:
            rows += table.to_pylist()
        except (OverflowError, ValueError) as error:
            raise ExecutionError(
                f"{_column_beyond_years(table)} has a time outside the years 1 to 9999, so its "
                "rows cannot be compared",
                hint="leave such rows out with WHERE",
            ) from error
    return rows


def _column_beyond_years(table: pa.Table | pa.RecordBatch) -> str:
    """Return the name of the column whose values Python does not have."""
    for name, column in zip(table.schema.names, table.columns, strict=True):
        try:
            column.to_pylist()
        except (OverflowError, ValueError):
            return f"column `{name}`"
    return "a column"


def final_rows(changes: Sequence[Row]) -> list[Row]:
    """Return the rows that remain after all changes, without ROW_KIND.

    Raises:
        ExecutionError: A change retracts a row that is not there.
    """
    rows: list[Row] = []
    for change in changes:
        row = {name: value for name, value in change.items() if name != ROW_KIND}
        if change.get(ROW_KIND, "+I") in ("+I", "+U"):
            rows.append(row)
            continue
        place = next((i for i, other in enumerate(rows) if _same(other, row)), None)
        if place is None:
            raise ExecutionError(f"the stream retracts a row that it has not emitted: {row}")
        rows.pop(place)
    return rows


def _same(one: Row, other: Row) -> bool:
    return _exact(one) == _exact(other) and _near(one, other)


def _exact(row: Row) -> Any:
    return tuple(
        (name, None if isinstance(value, float) else _frozen(value)) for name, value in row.items()
    )


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return tuple((key, _frozen(item)) for key, item in value.items())
    return value


def _inexact(row: Row) -> list[tuple[bool, float]]:
    floats = [value for value in row.values() if isinstance(value, float)]
    return [(math.isnan(value), 0.0 if math.isnan(value) else value) for value in floats]


def _near(one: Row, other: Row) -> bool:
    return all(
        not isinstance(value, float)
        or (isinstance(other[name], float) and _is_near(value, other[name]))
        for name, value in one.items()
    )


def _is_near(one: float, other: float) -> bool:
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return math.isclose(one, other, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
