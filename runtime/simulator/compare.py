"""Compare rows: of histories with batch, of batch with its definition, of tests with results."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
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


def is_same(one: Any, other: Any) -> bool:
    """Return whether two values, or two rows, are equal. The order of the two does not matter.

    - Floating-point numbers, also in arrays, structs and maps, are equal within the larger of a
      relative tolerance of 1e-9 and an absolute one of 1e-12. NaN equals NaN, and -0.0 equals 0.0.
      Infinity equals only itself.
    - All other values are equal if SQL says so: DECIMAL 1.0 equals 1.00, and an instant equals
      itself in any time zone. The order of the entries of a map does not matter.
    - NULL equals only NULL, and values of different kinds are never equal: a floating-point number
      and an integer, a truth value and a number, a date and a timestamp.
    """
    return _Comparable.of(one).is_near(_Comparable.of(other))


def difference(expected: Sequence[Row], rows: Sequence[Row]) -> Difference | None:
    """Return how rows differ from the expected ones in any order. None if they are the same.

    Rows are compared as by `is_same`. As many rows as possible are matched.
    """
    groups: dict[Any, tuple[list[_Placed], list[_Placed]]] = {}
    for side, given in enumerate((expected, rows)):
        for place, row in enumerate(given):
            value = _Comparable.of(row)
            sides = groups.setdefault(value.exact, ([], []))
            sides[side].append(_Placed(value, place))
    missing: list[int] = []
    unexpected: list[int] = []
    for left, right in groups.values():
        of_left, of_right = _unmatched(left, right)
        missing += of_left
        unexpected += of_right
    if not missing and not unexpected:
        return None
    return Difference(
        tuple(expected[place] for place in sorted(missing)),
        tuple(rows[place] for place in sorted(unexpected)),
    )


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
    rows: dict[int, Row] = {}
    places: defaultdict[Any, list[_Placed]] = defaultdict(list)
    for number, change in enumerate(changes):
        row = {name: value for name, value in change.items() if name != ROW_KIND}
        value = _Comparable.of(row)
        candidates = places[value.exact]
        if change.get(ROW_KIND, "+I") in ("+I", "+U"):
            rows[number] = row
            candidates.append(_Placed(value, number))
            continue
        retracted = next((other for other in candidates if other.value.is_near(value)), None)
        if retracted is None:
            raise ExecutionError(f"the stream retracts a row that it has not emitted: {row}")
        candidates.remove(retracted)
        del rows[retracted.place]
    return list(rows.values())


@dataclass(frozen=True)
class _Comparable:
    """A value in two parts.

    Attributes:
        exact: Everything except finite floating-point numbers. It has their places.
        floats: The finite floating-point numbers in the order of their places.
    """

    exact: Any
    floats: tuple[float, ...]

    @staticmethod
    def of(value: Any) -> _Comparable:
        floats: list[float] = []
        return _Comparable(_exact(value, floats), tuple(floats))

    def is_near(self, other: _Comparable) -> bool:
        return self.exact == other.exact and all(map(_is_near, self.floats, other.floats))


@dataclass(frozen=True)
class _Placed:
    """A row and its place in a list."""

    value: _Comparable
    place: int


def _exact(value: Any, floats: list[float]) -> Any:
    """Return a value without its finite floating-point numbers, which are added to `floats`."""
    match value:
        case bool():
            # True equals 1 in Python
            return "truth", value
        case float():
            if not math.isfinite(value):
                return "float", str(value)
            floats.append(value)
            return "float"
        case dict():
            return "struct", tuple((name, _exact(value[name], floats)) for name in sorted(value))
        case list() if value and all(type(entry) is tuple and len(entry) == 2 for entry in value):
            entries = sorted(
                map(_Comparable.of, value), key=lambda entry: (repr(entry.exact), entry.floats)
            )
            floats += (number for entry in entries for number in entry.floats)
            return "map", tuple(entry.exact for entry in entries)
        case list():
            return "array", tuple(_exact(item, floats) for item in value)
        case _ if type(value) is tuple:
            return "entry", tuple(_exact(item, floats) for item in value)
    return "other", value


def _is_near(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)


def _unmatched(left: list[_Placed], right: list[_Placed]) -> tuple[list[int], list[int]]:
    """Return the places of rows on both sides that have no partner on the other one.

    Args:
        left: Rows.
        right: Rows. Both differ in their floating-point numbers only.
    """
    left, right = _without_equal(left, right)
    if not left or not right or not left[0].value.floats:
        return [row.place for row in left], [row.place for row in right]
    # rows are near only if their first numbers are
    right.sort(key=lambda row: row.value.floats)
    firsts = [row.value.floats[0] for row in right]
    near: list[list[int]] = []
    for row in left:
        first = row.value.floats[0]
        apart = 2 * (_RELATIVE * abs(first) + _ABSOLUTE)
        span = range(bisect_left(firsts, first - apart), bisect_right(firsts, first + apart))
        near.append([n for n in span if row.value.is_near(right[n].value)])
    partner_of_left: dict[int, int] = {}
    partner_of_right: dict[int, int] = {}
    for number in range(len(left)):
        _match(number, near, partner_of_left, partner_of_right)
    return (
        [row.place for n, row in enumerate(left) if n not in partner_of_left],
        [row.place for n, row in enumerate(right) if n not in partner_of_right],
    )


def _without_equal(
    left: list[_Placed], right: list[_Placed]
) -> tuple[list[_Placed], list[_Placed]]:
    """Return the rows that are left after pairs with the very same numbers are removed."""
    places: defaultdict[tuple[float, ...], list[_Placed]] = defaultdict(list)
    for row in reversed(right):
        places[row.value.floats].append(row)
    others = []
    for row in left:
        if places[row.value.floats]:
            places[row.value.floats].pop()
        else:
            others.append(row)
    return others, [row for rows in places.values() for row in rows]


def _match(
    number: int,
    near: Sequence[Sequence[int]],
    partner_of_left: dict[int, int],
    partner_of_right: dict[int, int],
) -> None:
    """Give a left row a partner; rows that have one may get another one, but never lose it."""
    reached_from: dict[int, int] = {}
    queue = [number]
    for left in queue:
        for right in near[left]:
            if right in reached_from:
                continue
            reached_from[right] = left
            if right in partner_of_right:
                queue.append(partner_of_right[right])
                continue
            free: int | None = right
            while free is not None:
                row = reached_from[free]
                partner_of_right[free] = row
                before = partner_of_left.get(row)
                partner_of_left[row] = free
                free = before
            return
