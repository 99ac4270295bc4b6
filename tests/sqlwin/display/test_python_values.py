"""Arrow values as Python values, inside and outside the years of Python's calendar."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyspark.sql import Row

from runtime.frames.arrow_tables import arrow_zone
from runtime.spark.versions.arrow_types import in_zone
from runtime.spec.figures import date_text, timestamp_text
from sqlwin.display.charts.data import time_ticks
from sqlwin.display.notation import csv_texts, display_texts, json_texts
from sqlwin.display.python_values import leaves_calendar, python_values

YEAR_10000_US = 253_402_300_800_000_000
LOCAL, BERLIN = pa.timestamp("us"), pa.timestamp("us", "Europe/Berlin")
LAST = datetime(9999, 12, 31, 23, 59, 59, 999_999)  # noqa: DTZ001  # a wall clock


@pytest.mark.parametrize(
    ("type_", "stored", "expected"),
    [
        (LOCAL, [YEAR_10000_US, YEAR_10000_US - 1, None], ["10000-01-01 00:00:00", LAST, None]),
        (
            BERLIN,
            [YEAR_10000_US, 5],
            [
                "10000-01-01 01:00:00",
                datetime(1970, 1, 1, 1, 0, 0, 5, tzinfo=ZoneInfo("Europe/Berlin")),
            ],
        ),
        (pa.timestamp("us", "UTC"), [0], [datetime(1970, 1, 1, tzinfo=UTC)]),
        (
            pa.date32(),
            [2_932_897, 2_932_896, None, -719_163, 100_000_000],
            ["10000-01-01", date(9999, 12, 31), None, "0000-12-31", "275760-09-13"],
        ),
        (
            pa.list_(pa.date32()),
            [[0], None, [2_932_897, None]],
            [[date(1970, 1, 1)], None, ["10000-01-01", None]],
        ),
        (
            pa.struct([("x", LOCAL), ("y", pa.int32())]),
            [{"x": YEAR_10000_US, "y": 1}, None],
            [Row(x="10000-01-01 00:00:00", y=1), None],
        ),
        (
            pa.map_(pa.string(), LOCAL),
            [[("k", YEAR_10000_US)], None, []],
            [{"k": "10000-01-01 00:00:00"}, None, {}],
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else "",
)
@pytest.mark.parametrize("is_sliced", [False, True])
def test_times_that_python_lacks_are_texts(
    type_: pa.DataType, stored: list[Any], expected: list[Any], is_sliced: bool
) -> None:
    array = pa.array(stored, type_)
    if is_sliced:
        array, expected = pa.concat_arrays([array, array]).slice(len(stored)), expected
    assert python_values(array) == expected


def test_dates_of_any_year_are_shown() -> None:
    array = pa.array([2_932_897, None, 100_000_000, 0], pa.date32())
    shown = ["10000-01-01", None, "275760-09-13", "1970-01-01"]
    assert display_texts(array).to_pylist() == csv_texts(array).to_pylist() == shown
    assert json_texts(array.slice(2)).to_pylist() == ['"275760-09-13"', '"1970-01-01"']


def test_values_that_python_lacks_are_converted() -> None:
    assert leaves_calendar(pa.array([2_932_897], pa.date32()))
    assert leaves_calendar(pa.array([[YEAR_10000_US]], pa.list_(LOCAL)))
    assert not leaves_calendar(pa.array([0, None], pa.date32()))
    assert not leaves_calendar(pa.array([None], pa.date32()))
    assert not leaves_calendar(pa.array([YEAR_10000_US], LOCAL))  # pandas holds it
    assert not leaves_calendar(pa.array([["x"]], pa.list_(pa.string())))


def test_texts_of_iso_8601_have_a_sign_beyond_four_digits() -> None:
    assert date_text(-719_528) == "0000-01-01"
    assert timestamp_text(YEAR_10000_US - 1) == "9999-12-31 23:59:59.999999"
    assert timestamp_text(YEAR_10000_US, "T") == "+10000-01-01T00:00:00.000000"


def test_a_chart_of_times_after_9999_has_ticks() -> None:
    first = YEAR_10000_US / 1e6
    _, texts = time_ticks(first - 86_400, first + 2 * 86_400, 5)
    later = [f"+10000-01-{day:02d} 00:00:00" for day in (1, 2, 3)]
    assert texts == ["9999-12-31", *later]


@pytest.mark.parametrize(
    ("zone", "arrow"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        ("+05:30", "+05:30"),
        ("GMT+8", "+08:00"),
        ("UTC-03:30", "-03:30"),
        ("Z", "UTC"),
        ("PST", "UTC"),
    ],
)
def test_zones_are_spelled_as_arrow_spells_them(zone: str, arrow: str) -> None:
    assert arrow_zone(zone) == arrow


def test_nested_instants_have_the_sessions_zone() -> None:
    utc, plus = pa.timestamp("us", "UTC"), pa.timestamp("us", "+08:00")
    nested = pa.struct([("l", pa.list_(utc)), ("m", pa.map_(pa.string(), utc)), ("w", LOCAL)])
    assert in_zone(nested, "+08:00") == pa.struct(
        [("l", pa.list_(plus)), ("m", pa.map_(pa.string(), plus)), ("w", LOCAL)]
    )


def test_texts_that_are_no_utf8_have_a_replacement_character():
    offsets = pa.array([0, 3, 3, 6], pa.int32()).buffers()[1]
    data = pa.py_buffer(b"\xff\xfe\xfdabc")
    texts = pa.Array.from_buffers(pa.string(), 3, [pa.py_buffer(b"\x05"), offsets, data])
    assert python_values(texts) == ["\ufffd" * 3, None, "abc"]
