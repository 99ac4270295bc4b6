"""Aggregates whose partials have several columns: their merge from slices on DuckDB."""

from __future__ import annotations

from fractions import Fraction

import pytest

import sqlwin
from tests.sqlwin.compiling.test_compile import SCHEMA, rows_at, run

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
