"""Gap filling against its definition, window by window in plain Python."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runtime.compute.kernels.gap_fill import fill_gaps
from runtime.compute.kernels.interpolate import interpolate
from runtime.errors import ExecutionError
from runtime.spec.expressions import Constant
from runtime.spec.filling import FillConstant, FillLinear, FillLocf, GapFilling
from runtime.windows import AlignedWindow
from runtime.windows.cumulate import CalendarCumulate, Cumulate
from runtime.windows.hop import CalendarHop, Hop
from runtime.windows.times import DAY_US
from runtime.windows.tumble import CalendarTumble, Tumble
from tests.reference import windows_of

FILLERS = (
    ("zero", FillConstant(Constant(0, "bigint"))),
    ("locf", FillLocf()),
    ("linear", FillLinear()),
    ("decimal", FillLinear()),
    ("double", FillLinear()),
    ("null", FillConstant(Constant(None, "string"))),
)
SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("start", pa.timestamp("us")),
        ("end", pa.timestamp("us")),
        ("zero", pa.int64()),
        ("locf", pa.string()),
        ("linear", pa.int32()),
        ("decimal", pa.decimal128(38, 2)),
        ("double", pa.float64()),
        ("null", pa.string()),
    ]
)
Window = tuple[int, int]


def of_window(window: AlignedWindow) -> GapFilling:
    return GapFilling(window, ("k",), "start", "end", FILLERS)


def batch(rows: list[tuple[str | None, Window | None, int | None]]) -> pa.RecordBatch:
    """Return rows of a key, a window and a value, in columns of all types."""
    columns: list[list[Any]] = [[] for _ in SCHEMA]
    for key, window, value in rows:
        start, end = window or (None, None)
        decimal = None if value is None else Decimal(value) / 4
        text = None if value is None else str(value)
        double = None if value is None else value / 3
        values = (key, start, end, value, text, value, decimal, double, text)
        for column, part in zip(columns, values, strict=True):
            column.append(part)
    return pa.record_batch(
        [pa.array(column, type_) for column, type_ in zip(columns, SCHEMA.types, strict=True)],
        schema=SCHEMA,
    )


def filled(rows: pa.RecordBatch, of: GapFilling, zone: str = "UTC", size: int = 1 << 18) -> Any:
    """Return the result as tuples, with bounds in microseconds."""
    parts = list(fill_gaps(rows, of, zone, size))
    table = pa.Table.from_batches(parts, SCHEMA)
    for place, name in ((1, "start"), (2, "end")):
        table = table.set_column(place, name, table.column(name).cast(pa.int64()))
    return [tuple(row.values()) for row in table.to_pylist()]


@dataclass(frozen=True)
class Case:
    """Windows of a function, in order of their ends, and rows in some of them."""

    window: AlignedWindow
    windows: tuple[Window, ...]
    rows: tuple[tuple[str | None, Window, int | None], ...]
    from_us: int | None
    to_us: int | None


EVEN = st.one_of(
    st.builds(Tumble, st.integers(1, 5), st.integers(-6, 6)),
    st.builds(Hop, st.integers(1, 5), st.integers(1, 7), st.integers(-6, 6)),
    st.builds(
        lambda step, n, offset: Cumulate(step, step * n, offset),
        st.integers(1, 3),
        st.integers(1, 4),
        st.integers(-6, 6),
    ),
)
_DAYS = st.integers(0, 3).map(lambda days: days * DAY_US)
CALENDAR = st.one_of(
    st.builds(CalendarTumble, st.integers(1, 3), st.integers(0, 2), _DAYS),
    st.builds(CalendarHop, st.integers(1, 3), st.integers(1, 4), st.integers(0, 2), _DAYS),
    st.builds(
        lambda days, offset: CalendarCumulate(1, step_us=days * DAY_US, offset_us=offset),
        st.integers(5, 40),
        _DAYS,
    ),
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    is_even = draw(st.booleans())
    window: AlignedWindow = draw(EVEN if is_even else CALENDAR)
    unit = 1 if is_even else DAY_US
    span = range(-20, 20) if is_even else range(-200, 200)
    every = {bounds for at in span for bounds in windows_of(window, at * unit)}
    windows = sorted(every, key=lambda bounds: bounds[1])
    inner = [w for w in windows if span[0] * unit < w[0] and w[1] < span[-1] * unit]
    places = st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from(inner))
    chosen = draw(st.lists(places, unique=True, max_size=8)) if inner else []
    values = st.one_of(st.none(), st.integers(-9, 9))
    bounds = st.one_of(st.none(), st.integers(-15, 15).map(lambda n: n * unit))
    from_us, to_us = draw(bounds), draw(bounds)
    if from_us is not None and to_us is not None and from_us > to_us:
        from_us, to_us = to_us, from_us
    rows = tuple((key, at, draw(values)) for key, at in chosen)
    return Case(window, tuple(windows), rows, from_us, to_us)


def rounded(value: Fraction) -> int:
    """Round half away from zero."""
    whole = int(abs(value) + Fraction(1, 2))
    return whole if value >= 0 else -whole


def expected(case: Case, declared: tuple[str, ...]) -> list[tuple[Any, ...]]:
    result = []
    has_bounds = case.from_us is not None and case.to_us is not None
    keys = {key for key, _, _ in case.rows} | (set(declared) if has_bounds else set())
    for key in keys:
        own = {at: value for k, at, value in case.rows if k == key}
        ends = [end for _, end in own]
        added = [
            (start, end)
            for start, end in case.windows
            if (start >= case.from_us if case.from_us is not None else end >= min(ends))
            and (end <= case.to_us if case.to_us is not None else end <= max(ends))
            and (start, end) not in own
        ]
        present = sorted((w for w in own if own[w] is not None), key=lambda w: w[1])
        for window, value in own.items():
            (row,) = batch([(key, window, value)]).to_pylist()
            result.append((key, *window, *list(row.values())[3:]))
        for start, end in added:
            before = [w for w in present if w[1] < end][-1:]
            after = [w for w in present if w[1] > end][:1]
            locf = str(own[before[0]]) if before else None
            line: tuple[Any, ...] = (None, None, None)
            if before and after:
                at = 1 if isinstance(case.window, Cumulate | CalendarCumulate) else 0
                x0, x1, x = before[0][at], after[0][at], (start, end)[at]
                y0, y1 = own[before[0]], own[after[0]]
                y = y0 + (y1 - y0) * Fraction(x - x0, x1 - x0)
                line = (rounded(y), Decimal(rounded(y / 4 * 100)).scaleb(-2), float(y / 3))
            result.append((key, start, end, 0, locf, *line, None))
    return result


def by_key_and_window(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    near = ((*row[:7], None if row[7] is None else round(row[7], 9), *row[8:]) for row in rows)
    return sorted(near, key=lambda row: (row[0] or "", row[1:3]))


@given(cases(), st.sampled_from([1, 5, 1 << 18]), st.randoms())
@example(Case(Tumble(5), ((0, 5), (5, 10), (10, 15)), (), 0, 15), 1, Random(0))
def test_windows_are_added_as_defined(case: Case, size: int, random: Any) -> None:
    rows = [*case.rows, ("declared", None, None)]
    random.shuffle(rows)
    of = replace(of_window(case.window), from_us=case.from_us, to_us=case.to_us)
    got = filled(batch(rows), of, size=size)
    assert by_key_and_window(got) == by_key_and_window(expected(case, ("declared",)))


def test_the_result_is_in_order_of_keys_and_windows() -> None:
    rows = batch([("b", (10, 15), 1), ("a", (20, 25), 1), ("a", (0, 5), 1), ("b", (0, 5), 1)])
    ends = [(row[0], row[2]) for row in filled(rows, of_window(Tumble(5)))]
    of_key = {key: [end for k, end in ends if k == key] for key, _ in ends}
    assert of_key == {"b": [5, 10, 15], "a": [5, 10, 15, 20, 25]}
    assert [key for key, _ in ends] in (["b"] * 3 + ["a"] * 5, ["a"] * 5 + ["b"] * 3)


def test_a_key_with_too_many_windows_is_refused() -> None:
    day = DAY_US // 2
    rows = batch([("a", (0, day), 1), ("a", (20 * day, 21 * day), 1), ("b", (0, day), 1)])
    of = of_window(Tumble(day))
    assert len(filled(rows, replace(of, max_windows=21))) == 22
    with pytest.raises(ExecutionError, match="21 windows for k = a, from 1970-01-01 00:00:00 to"):
        filled(rows, replace(of, max_windows=20))


def test_windows_far_from_1970_are_refused_where_they_do_not_fit() -> None:
    far = (1 << 63) - 1
    rows = batch([("a", (far - 3, far), 1)])
    with pytest.raises(ExecutionError, match="ends after the maximum TIMESTAMP"):
        filled(rows, replace(of_window(Tumble(5)), from_us=0, to_us=far))


ZONES = ("America/Los_Angeles", "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo", "UTC")


@pytest.mark.variants(4)
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("minutes", [15, 30, 60, 1440])
def test_windows_that_the_clock_skips_are_not_added(zone: str, minutes: int) -> None:
    """Compare with the windows in which some minute of the year is shown."""
    size = minutes * 60_000_000
    first = datetime(2011, 1, 1, tzinfo=UTC)
    step = timedelta(minutes=min(minutes, 30) / 2)
    local, at = set(), first
    while at.year < 2012:
        clock = at.astimezone(ZoneInfo(zone)).replace(tzinfo=UTC)
        local.add((clock - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) // size)
        at += step
    ends = (min(local) * size, max(local) * size)
    rows = batch([("a", (start, start + size), 1) for start in ends])
    of = replace(of_window(Tumble(size)), is_of_instants=True)
    assert [row[1] // size for row in filled(rows, of, zone)] == sorted(local)


@pytest.mark.parametrize(
    ("type_", "left", "right", "middle"),
    [
        (pa.int8(), -128, 127, -1),
        (pa.int64(), -(1 << 63), (1 << 63) - 1, -1),
        (pa.int64(), (1 << 63) - 1, (1 << 63) - 1, (1 << 63) - 1),
        (pa.int64(), 0, 1, 1),
        (pa.int64(), 0, -1, -1),
        (pa.decimal128(38, 0), Decimal(10**38 - 1), Decimal(10**38 - 3), Decimal(10**38 - 2)),
        (pa.decimal128(38, 0), Decimal(1 - 10**38), Decimal(10**38 - 1), Decimal(0)),
        (pa.float64(), -1.7e308, 1.7e308, 0.0),
        (pa.float64(), float("inf"), 1.0, float("inf")),
        (pa.float32(), 1.0, 2.0, 1.5),
    ],
)
def test_the_middle_of_extreme_values(type_: Any, left: Any, right: Any, middle: Any) -> None:
    sides = (pa.array([left], type_), pa.array([right], type_))
    line = interpolate(*sides, np.array([1 << 40]), np.array([1 << 41]))
    assert line.type == type_
    assert line.to_pylist() == [middle]
