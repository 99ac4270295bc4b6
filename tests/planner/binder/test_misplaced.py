"""Aggregates in WHERE, and HAVING without aggregates, are refused at their position."""

from __future__ import annotations

import pytest

from planner.binder.misplaced import check_filters
from runtime.errors import AnalysisError
from sqlwin.parser.parser import parse_query


@pytest.mark.parametrize(
    ("sql", "message", "at"),
    [
        ("SELECT k FROM t WHERE SUM(v) > 1 GROUP BY k", "SUM(v) is not allowed in WHERE", "SUM(v)"),
        (
            "SELECT * FROM (SELECT k FROM t WHERE v > 0 AND NOT (MAX(v) > 1))",
            "MAX(v) is not allowed in WHERE",
            "MAX(v)",
        ),
        (
            "SELECT k FROM t WHERE COUNT(*) FILTER (WHERE v > 1) > 1",
            "COUNT(*) is not allowed in WHERE",
            "COUNT(*)",
        ),
        ("SELECT k FROM t HAVING k > 1", "HAVING without GROUP BY", "k > 1"),
        ("SELECT UPPER(k) AS u FROM t HAVING u > 'a'", "HAVING without GROUP BY", "u > 'a'"),
    ],
)
def test_they_are_refused_at_their_place(sql: str, message: str, at: str) -> None:
    with pytest.raises(AnalysisError) as raised:
        check_filters(parse_query(sql), sql)
    assert raised.value.message.startswith(message)
    position = raised.value.position
    assert position is not None
    assert sql[position.column - 1 :].startswith(at)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(v) FROM t HAVING SUM(v) > 1",
        "SELECT COUNT(*) AS n FROM t HAVING n > 1",
        "SELECT k FROM t GROUP BY k HAVING k > 1",
        "SELECT 1 HAVING 1 > 0",
        "SELECT k FROM t WHERE k = (SELECT MAX(u.k) FROM u WHERE u.v = t.v)",
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u HAVING COUNT(*) = 1)",
        "SELECT k FROM t WHERE ARRAY_MAX(a) > 1",
    ],
)
def test_others_pass(sql: str) -> None:
    check_filters(parse_query(sql), sql)
