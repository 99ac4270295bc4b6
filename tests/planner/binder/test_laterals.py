"""LATERAL over a stream becomes a join where it is equivalent to one."""

from __future__ import annotations

import pytest
from sqlglot import exp

from planner.binder.laterals import join_laterals
from planner.sql.build import to_sql
from runtime.spec.table import Column
from sqlwin.parser.parser import parse_query

NAMES = ("ts", "col", "v", "window_start", "window_end", "window_time")
SCHEMA = tuple(Column(name, "timestamp_ntz") for name in NAMES)


def rewrite_laterals(sql: str) -> str | None:
    """Return the query with joins; None if nothing changed."""
    query = parse_query(sql)
    assert isinstance(query, exp.Select)
    is_changed = join_laterals(query, lambda _: SCHEMA, lambda table: table.name == "s")
    return to_sql(query) if is_changed else None


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "SELECT * FROM u, LATERAL (SELECT * FROM s WHERE col = k) AS h",
            "SELECT * FROM u JOIN (SELECT * FROM s) AS h ON h.`col` = k",
        ),
        (
            "SELECT * FROM u CROSS JOIN LATERAL (SELECT v AS w, col FROM s AS x "
            "WHERE x.col = u.k AND v > 2 AND x.v < u.most) AS h",
            "SELECT * FROM u JOIN (SELECT v AS w, col FROM s AS x WHERE v > 2) AS h "
            "ON h.`col` = u.k AND h.`w` < u.most",
        ),
        (
            "SELECT * FROM u LEFT JOIN LATERAL (SELECT * FROM s WHERE s.col = u.k) AS h ON TRUE",
            "SELECT * FROM u LEFT JOIN (SELECT * FROM s) AS h ON h.`col` = u.k",
        ),
        (
            "SELECT * FROM u CROSS JOIN LATERAL (SELECT * FROM s WHERE v > 2) AS h",
            "SELECT * FROM u CROSS JOIN (SELECT * FROM s WHERE v > 2) AS h",
        ),
    ],
)
def test_a_filter_by_columns_from_outside_is_a_condition_of_a_join(sql: str, expected: str) -> None:
    assert rewrite_laterals(sql) == expected


@pytest.mark.parametrize(
    "inner",
    [
        "SELECT * FROM bounded WHERE col = k",  # Spark computes it
        "SELECT COUNT(*) AS n FROM s WHERE col = k",
        "SELECT * FROM s WHERE col = k LIMIT 1",
        "SELECT v + k AS sum FROM s WHERE col > 1",  # an item of the outer query
        "SELECT v FROM s WHERE col = k",  # a condition on a column that is not selected
        "SELECT EXPLODE(ARRAY(v)) AS e, col FROM s WHERE col = k",
    ],
)
def test_others_stay_as_they_are(inner: str) -> None:
    assert rewrite_laterals(f"SELECT * FROM u, LATERAL ({inner}) AS h") is None


def test_windows_are_joined_too() -> None:
    text = rewrite_laterals(
        "SELECT * FROM u, LATERAL (SELECT * FROM HOP(TABLE s, DESCRIPTOR(ts), "
        "INTERVAL '1' MINUTE, INTERVAL '2' MINUTES) WHERE s.col = k) AS h"
    )
    assert text is not None and text.endswith("AS h ON h.`col` = k")
