"""Which SELECT DISTINCT queries are aggregations of windows."""

from __future__ import annotations

import pytest
from sqlglot import exp

from planner.binder.window_block import distinct_as_grouping
from planner.nodes.logical import AttachedWindow
from planner.sql.build import to_sql
from runtime.windows.cumulate import Cumulate
from runtime.windows.tumble import Tumble
from sqlwin.parser.parser import parse_query

TUMBLE = AttachedWindow(Tumble(60), "window_start", "window_end", "window_time")
CUMULATE = AttachedWindow(Cumulate(20, 60), "window_start", "window_end", "window_time")


def grouping(sql: str, attached: AttachedWindow | None = TUMBLE) -> str | None:
    select = next(s for s in parse_query(sql).find_all(exp.Select) if s.args.get("distinct"))
    result = distinct_as_grouping(select, attached)
    return None if result is None else to_sql(result)


def test_all_selected_columns_except_constants_become_keys() -> None:
    assert grouping("SELECT DISTINCT k, v > 3 AS high, 1 AS one, t.window_end AS e FROM t WHERE v > 1") == (
        "SELECT k, v > 3 AS high, 1 AS one, t.window_end AS e FROM t WHERE v > 1 "
        "GROUP BY k, v > 3, t.window_end"
    )  # fmt: skip


def test_the_start_of_a_window_that_grows_does_not_tell_it() -> None:
    assert grouping("SELECT DISTINCT window_start FROM t") is not None
    assert grouping("SELECT DISTINCT window_start FROM t", CUMULATE) is None
    assert grouping("SELECT DISTINCT window_time FROM t", CUMULATE) is not None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT k FROM t",
        "SELECT DISTINCT * FROM t",
        "SELECT DISTINCT DATE_TRUNC('HOUR', window_end) FROM t",
        "SELECT DISTINCT window_end, COUNT(*) FROM t",
        "SELECT DISTINCT window_end, COUNT(*) OVER (PARTITION BY k) FROM t",
        "SELECT DISTINCT window_end FROM t GROUP BY window_end",
        "SELECT DISTINCT t.window_end FROM t JOIN u ON t.k = u.k",
        "SELECT * FROM u WHERE EXISTS (SELECT DISTINCT t.window_end FROM t WHERE t.k = u.k)",
        "SELECT * FROM u WHERE e IN (SELECT DISTINCT window_end FROM t)",
    ],
)
def test_others_stay_as_they_are(sql: str) -> None:
    assert grouping(sql) is None


def test_rows_without_windows_stay_as_they_are() -> None:
    assert grouping("SELECT DISTINCT window_end FROM t", None) is None
