"""A stream's windows joined with a bounded relation may be grouped in the same SELECT."""

from __future__ import annotations

import pytest

from tests.planner.streams.test_top_n import plan_stream

JOINED = (
    "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) AS w "
    "JOIN (SELECT 'a' AS k, 'x' AS name) AS d ON w.k = d.k"
)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT name, window_end, COUNT(*) AS n FROM (SELECT d.name, w.window_start, w.window_end {JOINED}) "
        "GROUP BY name, window_start, window_end",
        f"SELECT d.name, w.window_end, COUNT(*) AS n {JOINED} GROUP BY d.name, w.window_start, w.window_end",
        f"SELECT name, window_end, COUNT(*) AS n {JOINED} WHERE v > 1 GROUP BY name, window_start, window_end "
        "HAVING SUM(w.v) > 2",
    ],
)
def test_a_grouped_join_runs_with_and_without_a_subquery(sql: str) -> None:
    plan = plan_stream(sql)
    assert [column.name for column in plan.schema] == ["name", "window_end", "n"]
