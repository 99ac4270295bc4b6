"""The first change of CONTRIBUTING.md: its diff alone makes a function merge from slices."""

from __future__ import annotations

import re

import pytest

import sqlwin
from planner.aggregates.functions import SPARK_AGGREGATES
from runtime.functions.aggregates import AGGREGATES, counts
from sqlwin.help.pictures import results
from tests.goldens import ROOT

QUERY = """\
SELECT window_end, REGR_COUNT(x, y) AS n
FROM TABLE(HOP((SELECT * FROM VALUES
    (TIMESTAMP '2026-01-01 00:01', 1, 2), (TIMESTAMP '2026-01-01 00:02', NULL, 2),
    (TIMESTAMP '2026-01-01 00:07', 3, 4) AS v(ts, x, y)),
  DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '10' MINUTE))
GROUP BY window_start, window_end ORDER BY window_end"""


def test_the_diff_of_the_first_change_is_all_that_a_function_needs(
    fresh_session: sqlwin.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "REGR_COUNT" in SPARK_AGGREGATES and "REGR_COUNT" not in AGGREGATES
    added = re.findall(r"^   \+(    .*)$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    entry = "\n".join(line for line in added if '("REGR_COUNT(i, d)"' not in line)
    (function,) = eval(f"({entry})", vars(counts))
    monkeypatch.setitem(AGGREGATES, function.name, function)  # type: ignore[arg-type]
    assert "GlobalWindowAggregate" in fresh_session.explain(QUERY)
    assert [n for _, n in fresh_session.execute(QUERY)[0].rows] == [1, 2, 1]
    assert results(function) == [3, 2]
