"""FILL and GAP_FILL in compiled texts: the same rows on engines as in this process, refusals."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pytest

import sqlwin
from runtime.simulator.compare import is_same
from tests.engines import engine
from tests.sqlwin.compiling.test_compile import SCHEMA, compiled_rows, rows_at, rows_here, run

BY = "GROUP BY k, window_start, window_end FILL (n = 0, v = LOCF, d = 1.5e0)"
ITEMS = "k, window_start, window_end, COUNT(*) AS n, MAX(v) AS v, MAX(d) AS d, MAX(p) AS p"
FROM, TO = "FROM TIMESTAMP '1969-12-31 23:50:01'", "TO TIMESTAMP '1970-01-01 00:25:00'"
WINDOWS = {
    "TUMBLE": "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '2' MINUTES, INTERVAL '7' SECONDS)",
    "HOP": "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '3' MINUTES)",
    "HOP with gaps": "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '3' MINUTES, INTERVAL '1' MINUTE)",
    "CUMULATE": "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '2' MINUTES, INTERVAL '6' MINUTES)",
}


def sparse_rows() -> pa.Table:
    """Return rows of three keys with long gaps, and a row without a time."""
    return rows_at(
        *(0, 1, 130, 700, 1_000, 1_001, None, 1_200, 90, 5_000),
        k=["a", "b", "a", None, "b", "a", "c", "a", None, "d"],
        v=[1, None, None, 7, 3, 4, 5, None, 9, 1],
        d=[0.5, None, float("inf"), 2.0, None, 1.0, 1.0, None, 1.0, 3.0],
        p=[1, 2, None, 3, None, 4, 5, 6, 7, 8],
    )


@pytest.mark.parametrize("bounds", ["", f"{FROM} {TO}"], ids=["", "bounds"])
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS.keys())
def test_filled_windows_are_those_of_this_process(window: str, bounds: str) -> None:
    rows = compiled_rows(f"SELECT {ITEMS} FROM TABLE({window}) {BY} {bounds}", sparse_rows())
    assert any(row[3] == 0 for row in rows)


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT {ITEMS} FROM TABLE({WINDOWS['TUMBLE']}) {BY} {FROM}",
        f"SELECT {ITEMS} FROM TABLE({WINDOWS['TUMBLE']}) {BY} {TO}",
        f"SELECT {ITEMS} FROM TABLE({WINDOWS['TUMBLE']}) {BY} {FROM} {TO} "
        "KEYS (SELECT CONCAT(k, 'x') FROM t)",
        f"SELECT window_end, COUNT(*) AS n FROM TABLE({WINDOWS['HOP']}) WHERE v = 100 "
        f"GROUP BY window_end FILL (n = 0) {FROM} {TO}",
        f"SELECT k, SUM(n) AS n FROM (SELECT {ITEMS} FROM TABLE({WINDOWS['HOP']}) {BY}) GROUP BY k",
        "SELECT * FROM TABLE(GAP_FILL(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' MINUTE, "
        "FILL => (v = LOCF, i = 3)))",
    ],
    ids=["from", "to", "keys", "no rows", "below", "gap_fill"],
)
def test_bounds_keys_and_rows_are_filled_as_in_this_process(query: str) -> None:
    assert compiled_rows(query, sparse_rows())


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("PARTITION BY k, v_count", "PARTITION BY v_count"),
        lambda text: text.replace("is_added = is_empty", "is_added = 0"),
        lambda text: re.sub(r"SERIES\(first_end_us, last_end_us", r"\g<0> - 1", text),
    ],
    ids=["key", "no gaps", "last window"],
)
def test_a_planted_fault_is_found(change: Callable[[str], str]) -> None:
    t = sparse_rows()
    query = f"SELECT {ITEMS} FROM TABLE({WINDOWS['TUMBLE']}) {BY} {TO}"
    text = sqlwin.compile(query, "duckdb", schema=SCHEMA)
    assert change(text) != text
    assert sorted(run(change(text), t), key=repr) != sorted(rows_here(query, t), key=repr)


@pytest.mark.parametrize(
    "window",
    [
        "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' QUARTER, INTERVAL '3' DAYS)",
        "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MONTH, INTERVAL '3' MONTHS)",
        "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' WEEK, INTERVAL '2' MONTHS)",
    ],
    ids=["quarters", "months", "weeks"],
)
def test_windows_of_months_are_filled_as_in_this_process(window: str) -> None:
    t = rows_at(
        *(day * 86_400 for day in (1, 2, 31, 200, 390, 410, 75, 130)),
        k=["a", "a", "b", "a", "b", "a", "c", "c"],
        v=[1, 2, None, 7, 3, 4, 5, 6],
        d=[0.5, None, 1.0, 2.0, None, 1.0, 1.0, 8.0],
    )
    bounds = "FROM TIMESTAMP '1969-11-30 00:00:01' TO TIMESTAMP '1971-03-05 00:00:00'"
    query = f"SELECT {ITEMS} FROM TABLE({window}) {BY[:-11]} d = LINEAR) {bounds}"
    assert any(row[3] == 0 for row in compiled_rows(query, t))


LINES = "i = LINEAR, v = LINEAR, d = LINEAR, p = LINEAR, ts = LINEAR, day = LINEAR"


LINEAR_QUERY = (
    "SELECT k, window_end, MIN(i) AS i, MAX(v) AS v, MAX(d) AS d, MAX(p) AS p, MAX(ts) AS ts, "
    f"MIN(CAST(ts + INTERVAL 1 DAY AS DATE)) AS day FROM TABLE({WINDOWS['CUMULATE']}) "
    f"GROUP BY k, window_start, window_end FILL ({LINES})"
)


def rows_of_lines() -> pa.Table:
    """Return rows whose lines end in halves, in huge values and in infinity."""
    return rows_at(
        *(0, 840, 1_680, 90_000, 90_840, 91_680, 92_520),
        k=["a", "a", "a", "b", "b", "b", "b"],
        v=[-(2**63), 2**63 - 1, None, 1, 4, None, -1],
        i=[1, -2, 2**31 - 1, None, 1, 0, 3],
        d=[-1e308, 1.5e308, float("inf"), 0.1, None, 2.0, float("nan")],
        p=[Decimal("0.01"), Decimal("-0.02"), None, Decimal("99999999.99"), None, None, 0],
    )


@pytest.mark.parametrize("name", ["clickhouse", "datafusion", "duckdb"])
def test_lines_are_rounded_as_in_this_process(name: str) -> None:
    t = rows_of_lines()
    text = sqlwin.compile(LINEAR_QUERY, name, schema=SCHEMA)
    if name == "duckdb":
        rows = run(text, t)
    else:
        rows = [tuple(row.values()) for row in engine(name).run(text, {"t": t}).to_pylist()]
    assert is_same(sorted(rows, key=repr), sorted(rows_here(LINEAR_QUERY, t), key=repr))
    assert len(rows) > 20


def test_lines_of_decimals_with_many_digits_are_refused_on_spark() -> None:
    schema = "CREATE TABLE t (ts TIMESTAMP(6), p DECIMAL(20, 8));"
    query = (
        f"SELECT window_end, MAX(p) AS p FROM TABLE({WINDOWS['TUMBLE']}) GROUP BY window_start, "
        "window_end FILL (p = LINEAR)"
    )
    with pytest.raises(sqlwin.SqlwinError, match=r"LINEAR of DECIMAL\(20, 8\) is rounded"):
        sqlwin.compile(query, "spark", schema=schema)
