"""Which ORDER BY a stream can keep, and how the rows of a micro-batch are sorted for it."""

from __future__ import annotations

import pytest

from planner.lowering.stream.steps import lower_stream
from planner.optimizer import Options
from planner.plan import plan_query
from planner.streams.refusals import StreamRefusal
from runtime.spec.expressions import RankOrder
from sqlwin.parser.parser import parse_query
from tests.planner.test_growth import Catalog

TUMBLE = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTE))"
SESSION = "TABLE(SESSION(TABLE t PARTITION BY k1, DESCRIPTOR(ts), INTERVAL '5' MINUTE))"
COUNTED = f"SELECT k1, window_start, window_end, COUNT(*) AS n FROM {TUMBLE} GROUP BY k1, window_start, window_end"
SESSIONS = COUNTED.replace(TUMBLE, SESSION)


def order(sql: str, *, emits_updates: bool = False) -> list[RankOrder]:
    """Return the sort order of a micro-batch's rows."""
    catalog = Catalog(is_stream=True)
    plan = plan_query(parse_query(sql), sql, Options(catalog))
    return list(lower_stream(plan.physical, catalog, "UTC", emits_updates).order)


END = RankOrder("window_end", is_descending=False, nulls_first=True)


@pytest.mark.parametrize(
    ("sql", "keys"),
    [
        (f"{COUNTED} ORDER BY window_end", [END]),
        (f"{COUNTED} ORDER BY 3, 4 DESC", [END, RankOrder("n", True, False)]),
        (f"{COUNTED} ORDER BY window_end, COUNT(*) DESC NULLS FIRST", [END, RankOrder("n", True, True)]),
        (f"{COUNTED} ORDER BY window_start, k1", [RankOrder("window_start", False, True), RankOrder("k1", False, True)]),
        (f"SELECT window_end AS e, n FROM ({COUNTED}) ORDER BY e, n", [RankOrder("e", False, True), RankOrder("n", False, True)]),
        (f"SELECT window_end AS e, n FROM ({COUNTED}) AS c ORDER BY c.window_end", [RankOrder("e", False, True)]),
        (f"SELECT * FROM ({COUNTED}) ORDER BY window_end", [END]),
        (f"{SESSIONS} ORDER BY window_end", [END]),
        (COUNTED, []),
    ],
)  # fmt: skip
def test_windows_are_sorted_by_their_time_first(sql: str, keys: list[RankOrder]) -> None:
    assert order(sql) == keys


@pytest.mark.parametrize(
    "sql",
    [
        f"{COUNTED} ORDER BY n",
        f"{COUNTED} ORDER BY n, window_end",
        f"{COUNTED} ORDER BY window_end DESC",
        f"{COUNTED} ORDER BY window_end, n + 1",
        f"{COUNTED} ORDER BY window_end LIMIT 3",
        # a session that began later may end, and be emitted, earlier
        f"{SESSIONS} ORDER BY window_start",
        # each side has its own watermark
        f"SELECT * FROM ({COUNTED} UNION ALL {COUNTED}) ORDER BY window_end",
        f"SELECT * FROM ({COUNTED} ORDER BY window_end) WHERE n > 1",
        "SELECT ts, x FROM t ORDER BY ts",
    ],
)
def test_queries_that_need_all_rows_are_refused(sql: str) -> None:
    with pytest.raises(StreamRefusal) as raised:
        order(sql)
    assert "ORDER BY requires all rows" in raised.value.message or "LIMIT" in raised.value.message


def test_windows_that_are_emitted_again_have_no_order() -> None:
    with pytest.raises(StreamRefusal):
        order(f"{COUNTED} ORDER BY window_end", emits_updates=True)


@pytest.mark.parametrize(
    ("sql", "instead"),
    [
        (
            "SELECT k1, SUM(x) OVER (PARTITION BY k1 ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR "
            "PRECEDING AND CURRENT ROW) AS s FROM t",
            "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '1' HOUR)",
        ),
        ("SELECT SUM(x) OVER (ORDER BY ts) AS s FROM t", "CUMULATE for running totals"),
        (
            "SELECT k1, ROW_NUMBER() OVER (PARTITION BY k1, k2 ORDER BY ts) AS rn FROM t",
            "filter the rank in a query around it, with a condition such as = 1, or rank within "
            "windows: FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)), PARTITION BY "
            "window_start, window_end, k1, k2",
        ),
        ("SELECT LAG(x) OVER (PARTITION BY k1 ORDER BY ts) AS p FROM t", "Session.windows"),
        (
            "SELECT a.x FROM t AS a FULL JOIN t AS b ON a.k1 = b.k1 AND b.ts BETWEEN a.ts AND "
            "a.ts + INTERVAL '1' HOUR",
            "UNION ALL of a LEFT JOIN and a LEFT ANTI JOIN",
        ),
        (
            "SELECT a.x FROM t AS a, t AS b WHERE a.k1 = b.k1 AND b.ts > a.ts - INTERVAL '1' HOUR",
            "a.ts BETWEEN b.ts - INTERVAL '4' HOUR AND b.ts",
        ),
        ("SELECT a.x FROM t AS a JOIN t AS b ON a.k1 = b.k1", "join rows of the same window"),
    ],
)
def test_refusals_name_an_alternative(sql: str, instead: str) -> None:
    with pytest.raises(StreamRefusal) as raised:
        order(sql)
    assert instead in (raised.value.hint or "")
