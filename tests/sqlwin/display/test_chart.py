"""Charts of results, read from the text on the screen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runtime.errors import AnalysisError
from sqlwin.display.charts.data import MAX_BARS, MAX_LINES, number_ticks, time_ticks
from sqlwin.display.charts.svg import svg_charts
from sqlwin.display.charts.text import write_chart

START = datetime(2013, 2, 9)  # noqa: DTZ001 (a TIMESTAMP has no zone)
NTZ = pa.timestamp("us")


def draw(columns: dict[str, pa.Array], **options: Any) -> str:
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    pieces: list[str] = []
    arguments = {"size": (90, 16), "color": False, **options}
    n_rows = write_chart(list(columns), [batch], pieces.append, **arguments)
    assert n_rows == batch.num_rows
    return "".join(pieces)


def windows(n_windows: int, keys: list[str | None]) -> dict[str, pa.Array]:
    """Return a row for each key and hour; the n-th key has the values n * hour."""
    rows = [(key, i) for key in keys for i in range(n_windows)]
    return {
        "origin": pa.array([key for key, _ in rows], pa.string()),
        "window_start": pa.array([START + timedelta(hours=i) for _, i in rows], NTZ),
        "window_end": pa.array([START + timedelta(hours=i + 1) for _, i in rows], NTZ),
        "n": pa.array([(keys.index(key) + 1) * i for key, i in rows], pa.int64()),
    }


def test_each_key_is_a_line_over_window_end():
    text = draw(windows(12, ["EWR", "JFK", None]))
    title, *lines = text.splitlines()
    assert title.strip() == "n"
    assert [name for name in ("EWR", "JFK", "NULL") if name in text] == ["EWR", "JFK", "NULL"]
    # the largest value is 3 * 11
    assert [line.split("┤")[0].strip() for line in lines if "┤" in line] == ["30", "20", "10", "0"]
    # window_end, from 01:00 to 12:00, instead of window_start
    assert "03:00" in lines[-1]
    assert "12:00" in lines[-1]
    assert "\x1b" not in text


def test_a_single_window_becomes_bars_the_largest_first():
    columns = windows(2, ["EWR", "JFK", "LGA"])
    second = {
        name: pa.array(array.to_pylist()[1::2], array.type) for name, array in columns.items()
    }
    title, *lines = draw(second).splitlines()
    assert title.strip() == "n"
    assert [(line.split()[0], line.split()[-1]) for line in lines] == [
        ("LGA", "3"),
        ("JFK", "2"),
        ("EWR", "1"),
    ]
    lengths = [line.count("█") for line in lines]
    assert lengths[0] == pytest.approx(3 * lengths[2], abs=3)


def test_rows_without_a_time_become_bars_and_negative_ones_go_the_other_way():
    text = draw({"k": pa.array(["a", "b"]), "x": pa.array([5.0, -5.0])})
    first, second = text.splitlines()[1:]
    assert first.index("█") >= second.rindex("█")


def test_null_and_nan_leave_no_point():
    columns = windows(4, ["a"])
    columns["n"] = pa.array([None, 7.0, float("nan"), 9.0])
    assert "9.0" in draw(columns)
    columns["n"] = pa.array([None] * 4, pa.int64())
    assert "only NULL" in draw(columns)


def test_more_keys_than_can_be_distinguished_are_counted():
    keys: list[str | None] = [f"key{i:02}" for i in range(MAX_LINES + 3)]
    text = draw(windows(5, keys))
    assert "and 3 more keys with smaller values" in text
    assert "key00" not in text
    assert str(keys[-1]) in text
    many = [f"k{i}" for i in range(MAX_BARS + 2)]
    text = draw({"k": pa.array(many), "x": pa.array(range(len(many)), pa.int64())})
    assert "and 2 more with smaller values" in text


def test_every_number_has_a_chart_up_to_four():
    columns = windows(3, ["a"])
    for name in "pqrst":
        columns[name] = columns["n"]
    text = draw(columns)
    assert [
        line.strip() for line in text.splitlines() if line.strip() in "npqrst" and line.strip()
    ] == [*"npqr"]
    assert "not drawn: s, t" in text


def test_a_chart_without_a_number_is_refused():
    with pytest.raises(AnalysisError, match="no numeric column to draw: k") as raised:
        draw({"k": pa.array(["a"])})
    assert "window_end" in str(raised.value.hint)


def test_an_empty_result_says_so():
    pieces: list[str] = []
    assert write_chart(["a"], [], pieces.append) == 0
    assert pieces == ["no rows to draw\n"]


def test_batches_with_different_nullability_form_one_result():
    batches = [
        pa.RecordBatch.from_arrays(
            [pa.array([n])], schema=pa.schema([pa.field("n", pa.int64(), nullable=nullable)])
        )
        for n, nullable in ((1, True), (2, False))
    ]
    pieces: list[str] = []
    assert write_chart(["n"], batches, pieces.append, size=(40, 8), color=False) == 2


def test_colours_are_for_terminals():
    assert "\x1b[" in draw(windows(5, ["a", "b"]), color=True)


def test_ticks_stand_at_round_times():
    day = datetime(2024, 1, 1, tzinfo=UTC).timestamp()
    assert time_ticks(day + 100, day + 7000, 5)[1] == ["00:30", "01:00", "01:30"]
    assert time_ticks(day, day + 3 * 86400, 5)[1][:2] == ["2024-01-01", "2024-01-02"]
    places, _ = time_ticks(day + 5, day + 5, 4)
    assert places == [day + 5]
    for span in (1, 59, 3600, 86400, 400 * 86400, 4000 * 86400):
        places, texts = time_ticks(day + 0.5, day + 0.5 + span, 6)
        assert 1 <= len(places) <= 7
        assert len(places) == len(texts)


@given(
    st.floats(-1e300, 1e300),
    st.floats(-1e300, 1e300),
    st.integers(2, 8),
)
@example(0.0, 9.7e-309, 2)
def test_numbers_of_the_axis_are_between_its_ends_and_differ(one: float, other: float, most: int):
    low, high = sorted((one, other))
    places, texts = number_ticks(low, high, most)
    assert 1 <= len(places) <= most + 1
    slack = (high - low) * 1e-6
    assert all(low - slack <= place <= high + slack for place in places)
    if abs(high - low) > 1e-3 * max(abs(low), abs(high)):
        assert len(set(texts)) == len(texts)


def drawing(columns: dict[str, pa.Array]) -> str:
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    return svg_charts(list(columns), [batch])


def test_a_drawing_has_a_line_for_each_key_and_says_its_values() -> None:
    text = drawing(windows(12, ["EWR", "<b>", None]))
    root = ElementTree.fromstring(text)
    lines = [item for item in root if item.tag.endswith("polyline")]
    assert len(lines) == 3 and all(len(item.get("points", "").split()) == 12 for item in lines)
    labels = [item.text for item in root.iter() if item.tag.endswith("}title")]
    assert "EWR, 2013-02-09 12:00:00: 11" in labels
    assert "<b>, 2013-02-09 12:00:00: 22" in labels
    texts = [item.text for item in root.iter() if item.tag.endswith("}text")]
    assert {"n", "EWR", "<b>", "NULL", "30", "0", "12:00"} <= set(texts)
    inside = [float(p.split(",")[1]) for item in lines for p in item.get("points", "").split()]
    assert min(inside) > 30 and max(inside) < 260


def test_a_drawing_of_a_single_window_has_bars_also_below_zero() -> None:
    text = drawing({"origin": pa.array(["EWR", "JFK", "LGA"]), "n": pa.array([5, -3, None])})
    bars = [bar for bar in ElementTree.fromstring(text) if bar.tag.endswith("rect")]
    starts = [float(bar.get("x", "")) for bar in bars]
    widths = [float(bar.get("width", "")) for bar in bars]
    assert starts[1] < starts[0] and starts[1] + widths[1] == pytest.approx(starts[0], abs=0.2)


def test_a_drawing_without_rows_or_numbers_says_so() -> None:
    assert "no rows to draw" in svg_charts(["n"], [])
    assert "only NULL" in drawing({**windows(2, ["a"]), "n": pa.nulls(2, pa.int64())})
    with pytest.raises(AnalysisError, match="no numeric column"):
        drawing({"k": pa.array(["a"])})
