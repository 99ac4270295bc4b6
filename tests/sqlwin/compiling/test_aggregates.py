"""Aggregates whose partials have several columns: their merge from slices on DuckDB."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest

import sqlwin
from tests.sqlwin.compiling.test_compile import SCHEMA, compiled_rows, rows_at, run

BOUNDS = "window_start, window_end"
# Windows with all rows of the first minute, and their slices or pieces
WINDOWS = {
    "TUMBLE": "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '2' MINUTES))",
    "HOP": "TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECONDS, INTERVAL '60' SECONDS))",
    "CUMULATE": "TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECONDS, "
    "INTERVAL '60' SECONDS))",
    "SESSION": "TABLE(SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '15' SECONDS))",
}


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS.keys())
def test_a_small_variance_of_large_values_keeps_its_digits(window: str) -> None:
    values = [1e9 + tenths / 10 for tenths in (2, 6, 0, 4, 9, 3)]
    mean = sum(map(Fraction, values)) / 6
    variance = float(sum((Fraction(value) - mean) ** 2 for value in values) / 6)
    assert variance == pytest.approx(0.08, abs=0.004)
    assert sum(value * value for value in values) / 6 - (sum(values) / 6) ** 2 == -256

    t = rows_at(*range(0, 60, 10), d=values)
    query = f"SELECT VAR_POP(d) AS x, COUNT(*) AS n FROM {window} GROUP BY {BOUNDS}"
    rows = run(sqlwin.compile(query, "duckdb", schema=SCHEMA), t)
    # windows of fewer rows have other variances
    assert [x for x, n in rows if n == 6] == [pytest.approx(variance, rel=1e-6)]


def test_the_variance_of_a_single_nan_or_infinity_is_nan() -> None:
    t = rows_at(0, 200, 400, d=[float("nan"), float("inf"), 1.5])
    query = f"SELECT VAR_POP(d) AS x FROM {WINDOWS['TUMBLE']} GROUP BY {BOUNDS}"
    rows = run(sqlwin.compile(query, "duckdb", schema=SCHEMA), t)
    assert sorted(str(x) for (x,) in rows) == ["0.0", "nan", "nan"]


PICKS = """
MIN_BY(k, v) | MAX_BY(k, v) | MIN_BY(v, k) | MAX_BY(v, d) | MIN_BY(d, v) | MAX_BY(v, p) FILTER (WHERE i > 0 OR k IS NULL)
FIRST_VALUE(v) | LAST_VALUE(v) | FIRST(k) | LAST(p) | ANY_VALUE(v)
"""


def tied_rows() -> pa.Table:
    """Return rows with equal times and orders, and NULLs among both."""
    n = range(120)
    doubles = [1.5, None, float("inf"), -1.0]
    return rows_at(
        *(i // 3 * 7 % 200 for i in n),
        k=[["b", "a", None, "B"][i % 4] for i in n],
        v=[[2, None, 1][i // 2 % 3] for i in n],
        i=[i % 2 for i in n],
        d=[doubles[i // 3 % 4] for i in n],
        p=[[2, 1, None][i // 4 % 3] for i in n],
    )


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS.keys())
def test_picked_values_are_those_of_this_process(window: str) -> None:
    calls = [part.strip() for line in PICKS.strip().splitlines() for part in line.split(" | ")]
    items = ", ".join(f"{text} AS c{number}" for number, text in enumerate(calls))
    rows = compiled_rows(f"SELECT {BOUNDS}, {items} FROM {window} GROUP BY {BOUNDS}", tied_rows())
    assert any(None in row for row in rows)


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS.keys())
@pytest.mark.parametrize("keys", ["", "k, "], ids=["all", "keys"])
def test_distinct_values_are_those_of_this_process(window: str, keys: str) -> None:
    query = (
        f"SELECT {keys}{BOUNDS}, COUNT(DISTINCT v) AS a, COUNT(DISTINCT d, i) AS b, SUM(v) AS c, "
        "SUM(DISTINCT p) FILTER (WHERE i > 0) AS e, SUM(DISTINCT v) AS f "
        f"FROM {window} GROUP BY {keys}{BOUNDS}"
    )
    # the first minute, and two after a gap
    seconds = [i * 7 % 60 + (i % 2) * 240 for i in range(90)]
    n = range(len(seconds))
    columns = {"k": [["a", None][i % 2] for i in n], "v": [[3, None, -5, 2**50][i % 4] for i in n]}
    doubles = [float("nan"), None, 1.5]
    numbers = {"i": [i % 3 for i in n], "d": [doubles[i % 3] for i in n], "p": [i % 5 for i in n]}
    t = rows_at(*seconds, **columns, **numbers)
    rows = compiled_rows(query, t)
    text = sqlwin.compile(query, "duckdb", schema=SCHEMA)
    if "running_totals" in text and "HOP" in window:
        assert sorted(run(text.replace("-1 AS", "0 AS"), t), key=repr) != sorted(rows, key=repr)
    assert ("running_totals" in text) == ("HOP" in window or "CUMULATE" in window)


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS.keys())
def test_texts_of_slices_are_joined_in_order_of_time(window: str) -> None:
    query = (
        f"SELECT {BOUNDS}, LISTAGG(k) AS a, LISTAGG(k, '; ') FILTER (WHERE i > 0) AS b, "
        f"STRING_AGG(k) FILTER (WHERE v > 2) AS c, ROUND(VAR_POP(v), 6) AS d FROM {window} GROUP BY {BOUNDS}"
    )
    rows = compiled_rows(query, tied_rows())
    assert any("B,b" in row[2] for row in rows)
    # v is 1 or 2
    assert {row[4] for row in rows} == {None}


def test_texts_of_grouping_sets_are_joined_in_order_of_time() -> None:
    query = (
        f"SELECT k, v % 2 AS r, {BOUNDS}, LISTAGG(k) AS a, COUNT(*) AS n FROM {WINDOWS['HOP']} "
        f"WHERE i > 0 GROUP BY {BOUNDS}, ROLLUP (k, v % 2)"
    )
    rows = compiled_rows(query, tied_rows())
    # a set without k has texts of several keys
    assert any(row[0] is None and len({*(row[4] or "").split(",")}) > 1 for row in rows)


def test_texts_that_slices_do_not_keep_are_refused() -> None:
    window = WINDOWS["HOP"]
    sets = f"FROM {window} GROUP BY {BOUNDS}, CUBE (v)"
    for query, target, message in (
        (f"SELECT LISTAGG(DISTINCT k) AS a FROM {window} GROUP BY {BOUNDS}", "postgres", "slices"),
        (f"SELECT LISTAGG(k) AS a, LAST_VALUE(v) AS b {sets}", "datafusion", "in one way only"),
    ):
        with pytest.raises(sqlwin.SqlwinError, match=message):
            sqlwin.compile(query, target, schema=SCHEMA)


def test_an_estimate_is_refused_with_the_reason() -> None:
    with pytest.raises(sqlwin.SqlwinError, match="estimate from Spark's hashes") as caught:
        sqlwin.compile("SELECT APPROX_COUNT_DISTINCT(v) AS n FROM t", "spark", schema=SCHEMA)
    assert caught.value.position is not None
    assert caught.value.position.column == 8
