"""Aggregate calls as Spark computes them on rows."""

from __future__ import annotations

import pytest

from planner.aggregates.calls import read_call
from planner.sql.build import to_sql
from sqlwin.parser.parser import parse_query


@pytest.mark.parametrize(
    ("call", "condition"),
    [
        ("FIRST_VALUE(a OR b) IGNORE NULLS", "(NOT (a OR b) IS NULL) AND NOT `ts` IS NULL"),
        ("LAST_VALUE(a)", "(NOT a IS NULL) AND NOT `ts` IS NULL"),
        ("FIRST_VALUE(a) FILTER (WHERE b)", "((b) AND NOT a IS NULL) AND NOT `ts` IS NULL"),
        ("LAST_VALUE(a) RESPECT NULLS", "NOT `ts` IS NULL"),
        ("FIRST_VALUE(a, false)", "NOT `ts` IS NULL"),
        ("FIRST(a)", "NOT `ts` IS NULL"),
        ("ANY_VALUE(a)", "NOT `ts` IS NULL"),
        ("LAST_VALUE(a) IGNORE NULLS", "(NOT a IS NULL) AND NOT `ts` IS NULL"),
        (
            "LAST_VALUE(a) FILTER (WHERE x > 1) IGNORE NULLS",
            "((x > 1) AND NOT a IS NULL) AND NOT `ts` IS NULL",
        ),
        ("MAX_BY(x, a AND b)", "NOT (a AND b) IS NULL"),
        ("MIN_BY(x, NOT a) FILTER (WHERE x > 1)", "(x > 1) AND NOT (NOT a) IS NULL"),
    ],
)
def test_null_is_looked_for_in_the_whole_argument(call: str, condition: str) -> None:
    (node,) = parse_query(f"SELECT {call} FROM t").expressions
    text = to_sql(read_call(node, "n", "ts").expr)
    assert text.endswith(f"FILTER(WHERE {condition})).v")
