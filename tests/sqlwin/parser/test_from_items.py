"""Parentheses in FROM do not change the meaning of tables, joins and window functions."""

from __future__ import annotations

import pytest

import sqlwin
from sqlwin.parser.parser import parse_query, to_spark

TUMBLE = "TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"


@pytest.mark.parametrize(
    ("sql", "plain"),
    [
        ("(a)", "a"),
        ("(a) AS x, (b) AS y", "a AS x, b AS y"),
        ("(a AS y) AS x", "(SELECT * FROM a AS y) AS x"),
        ("a JOIN (b) ON a.k = b.k", "a JOIN b ON a.k = b.k"),
        ("(a JOIN b ON a.k = b.k)", "a JOIN b ON a.k = b.k"),
        ("((a JOIN b ON a.k = b.k))", "a JOIN b ON a.k = b.k"),
        (
            "((a JOIN b ON a.k = b.k) LEFT JOIN c ON a.k = c.k) JOIN d USING (k)",
            "a JOIN b ON a.k = b.k LEFT JOIN c ON a.k = c.k JOIN d USING (k)",
        ),
        ("(a JOIN b ON a.k = b.k) AS w", "(SELECT * FROM a JOIN b ON a.k = b.k) AS w"),
        (
            "x JOIN (a JOIN b ON a.k = b.k) ON x.k = a.k OR x.k = b.k",
            "x CROSS JOIN a JOIN b ON a.k = b.k AND (x.k = a.k OR x.k = b.k)",
        ),
        ("x JOIN (a CROSS JOIN b)", "x CROSS JOIN a CROSS JOIN b"),
        ("((SELECT 1 AS k) AS s JOIN b ON s.k = b.k)", "(SELECT 1 AS k) AS s JOIN b ON s.k = b.k"),
        (f"({TUMBLE}) AS w", f"{TUMBLE} AS w"),
        (f"({TUMBLE} JOIN b ON a.k = b.k) AS w", f"(SELECT * FROM {TUMBLE} JOIN b ON a.k = b.k) AS w"),
    ],
)  # fmt: skip
def test_parentheses_in_from(sql: str, plain: str) -> None:
    assert to_spark(parse_query(f"SELECT * FROM {sql}")) == f"SELECT * FROM {plain}"


def test_an_outer_join_with_a_join_at_its_right_is_refused_where_it_stands() -> None:
    sql = f"SELECT * FROM x LEFT JOIN ({TUMBLE} JOIN b ON a.k = b.k) ON x.k = a.k"
    with pytest.raises(sqlwin.SqlwinError, match="use a subquery"):
        parse_query(sql)


@pytest.mark.spark
def test_joins_in_parentheses_give_their_rows(session: sqlwin.Session) -> None:
    session.sql("CREATE TEMPORARY VIEW pa AS SELECT 1 AS k, 'a' AS x UNION ALL SELECT 2, 'b'")
    session.sql("CREATE TEMPORARY VIEW pb AS SELECT 1 AS k, 10 AS y UNION ALL SELECT 3, 30")
    session.sql("CREATE TEMPORARY VIEW pc AS SELECT 1 AS k UNION ALL SELECT 2")
    rows = session.sql(
        "SELECT pa.x, pb.y FROM (pa LEFT JOIN (pb) ON pa.k = pb.k) JOIN pc ON pc.k = pa.k"
    )
    assert sorted(tuple(row) for row in rows.collect()) == [("a", 10), ("b", None)]
