"""FILL in the batch side of the simulator: histories agree with it, with TO and without."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.refusal import Refusal
from runtime.simulator.check import disagreement
from runtime.simulator.compare import difference
from sqlwin.session import Session
from sqlwin.testing import simulate_query
from tests.runtime.simulator.queries import START, WINDOWS, stream
from tests.runtime.simulator.test_gap_fill import FOREVER, STREAMS, filled, times
from tests.unstarted import unstarted_spark

OF_ROWS = (
    "SELECT * FROM TABLE(GAP_FILL(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECONDS, "
    "FILL => (v = LOCF, d = 7.5){}))"
)
ABOVE = (
    "SELECT window_end, SUM(n) AS n FROM TABLE(TUMBLE((SELECT window_time AS wt, COUNT(*) AS n FROM "
    f"TABLE({WINDOWS['tumble']}) GROUP BY k, window_start, window_end, window_time FILL (n = 0)"
    "{}), DESCRIPTOR(wt), INTERVAL '10' SECONDS)) GROUP BY window_start, window_end"
)
QUERIES = {
    **{
        name: filled(window, "{}")
        for name, window in WINDOWS.items()
        if not name.startswith(("session", "ranges"))
    },
    "rows": OF_ROWS,
    "windows above": ABOVE,
}
LAST = times(45)[0]


def bounded(query: str, bound: str) -> str:
    return query.format(f", TO => {bound}" if query == OF_ROWS else f" TO {bound}")


def sparse(rows: list[tuple]) -> list[tuple]:
    """Return rows in the order of their times, with gaps of ten times the length."""
    return sorted(((ms * 4, *rest) for ms, *rest in rows), key=lambda row: row[0])


@pytest.mark.variants(2)
@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=3, deadline=None)
@given(rows=STREAMS)
def test_the_batch_side_has_the_windows_of_the_definition(name, rows):
    of = stream(bounded(QUERIES[name], LAST), sparse(rows), settings=FOREVER)
    defined = of.defined(of.order)
    assert not isinstance(defined, Refusal), defined
    assert difference(defined.rows, of.batch_rows(of.order)) is None


@pytest.mark.variants(3)
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("keep", ["8 s", "1 d"])
@settings(max_examples=3, deadline=None)
@given(rows=STREAMS, has_end=st.booleans(), seed=st.integers(0, 1 << 30))
def test_histories_add_the_windows_that_their_watermark_passes(name, keep, rows, has_end, seed):
    query = QUERIES[name]
    sql = bounded(query, LAST) if has_end else query.format("")
    of = stream(sql, sparse(rows), settings=(("sqlwin.fill.keep", keep),))
    expected = of.batch_rows(of.order)
    for number in range(seed, seed + 2):
        mismatch = disagreement(of, of.history(number), expected, number)
        assert mismatch is None, mismatch


#   0    5    10   15   20        watermark: the time of the rows
#   [-a--)         [-a--)
#   [-b--)                        the watermark passes 10 and 15
ROWS = [(1, "a"), (2, "b"), (16, "a")]


@pytest.mark.parametrize(("to", "ends_of_b"), [("", [5, 10, 15]), (f" TO {times(10)[0]}", [5, 10])])
def test_simulate_returns_the_windows_of_the_stream(to, ends_of_b):
    rows = [{"ts": START + dt.timedelta(seconds=second), "k": k} for second, k in ROWS]
    sql = (
        f"SELECT k, window_end, COUNT(*) AS n FROM TABLE({WINDOWS['tumble']}) "
        f"GROUP BY k, window_start, window_end FILL (n = 0){to}"
    )
    session = Session(unstarted_spark(), settings={})
    result = simulate_query(session, sql, {"t": rows}, watermarks={"t": "ts"}, histories=5)
    ends = [(row["window_end"] - START).seconds for row in result if row["k"] == "b"]
    assert ends == ends_of_b
