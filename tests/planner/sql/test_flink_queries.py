"""Flink's clauses and constructors, translated to Spark's."""

from __future__ import annotations

import pytest
from sqlglot import exp

from planner.sql.build import to_sql
from planner.sql.flink_queries import rewrite_clauses, unnest_maps
from runtime.errors import AnalysisError
from sqlwin.parser.parser import parse_query

TYPES = {"arr": "array<int>", "rows": "array<struct<a:int,b:string>>", "m": "map<string,int>"}


def rewritten(query: str) -> str:
    tree = parse_query(query)
    rewrite_clauses(tree, query)
    for select in list(tree.find_all(exp.Select)):
        unnest_maps(select, lambda value: TYPES[value.name])
    return to_sql(tree)


@pytest.mark.parametrize(
    ("flink", "expected"),
    [
        ("ARRAY[1, 2]", "ARRAY(1, 2)"),
        ("ARRAY[x]", "ARRAY(x)"),
        ("array[1, 2][0]", "array(1, 2)[0]"),
        ("MAP['a', 1]['a']", "MAP('a', 1)['a']"),
        ("ROW(1, 'a')", "NAMED_STRUCT('f0', 1, 'f1', 'a')"),
        (
            "ARRAY[ROW(1), ROW(ARRAY[2])]",
            "ARRAY(NAMED_STRUCT('f0', 1), NAMED_STRUCT('f0', ARRAY(2)))",
        ),
        ("price BETWEEN SYMMETRIC 3 AND 1", "(price BETWEEN 3 AND 1 OR price BETWEEN 1 AND 3)"),
        # elements of columns with these names
        ("array[0]", "array[0]"),
        ("`ARRAY`[0]", "`ARRAY`[0]"),
        ("t.map['a']", "t.map['a']"),
        ("arr[1]", "arr[1]"),
        ("price BETWEEN 1 AND 3", "price BETWEEN 1 AND 3"),
    ],
)
def test_expressions(flink: str, expected: str) -> None:
    assert rewritten(f"SELECT {flink} AS x FROM t") == f"SELECT {expected} AS x FROM t"


@pytest.mark.parametrize(
    ("flink", "expected"),
    [
        ("t CROSS JOIN UNNEST(arr) AS u(x)", "t LATERAL VIEW EXPLODE(arr) u AS x"),
        ("t, UNNEST(arr) AS u(x)", "t LATERAL VIEW EXPLODE(arr) u AS x"),
        ("t JOIN UNNEST(arr) AS u(x) ON TRUE", "t LATERAL VIEW EXPLODE(arr) u AS x"),
        ("t LEFT JOIN UNNEST(arr) AS u(x) ON TRUE", "t LATERAL VIEW OUTER EXPLODE(arr) u AS x"),
        ("t, UNNEST(rows) AS u(a, b)", "t LATERAL VIEW INLINE(rows) u AS a, b"),
        ("t, UNNEST(m) AS u(k, v)", "t LATERAL VIEW EXPLODE(m) u AS k, v"),
        (
            "t LEFT JOIN UNNEST(arr) WITH ORDINALITY AS u(x, n) ON TRUE",
            "t LATERAL VIEW OUTER INLINE(TRANSFORM(arr, (element, place) -> "
            "STRUCT(element, place + 1))) u AS x, n",
        ),
        (
            "t JOIN s ON t.k = s.k, UNNEST(arr) AS u(x)",
            "t JOIN s ON t.k = s.k LATERAL VIEW EXPLODE(arr) u AS x",
        ),
        (
            "t, UNNEST(m) AS u(k, v), UNNEST(rows) AS w(a, b)",
            "t LATERAL VIEW EXPLODE(m) u AS k, v LATERAL VIEW INLINE(rows) w AS a, b",
        ),
        ("UNNEST(ARRAY[1, 2]) AS u(x)", "EXPLODE(ARRAY(1, 2)) AS u(x)"),
        (
            "UNNEST(arr) WITH ORDINALITY AS u(x, n)",
            "INLINE(TRANSFORM(arr, (element, place) -> STRUCT(element, place + 1))) AS u(x, n)",
        ),
        (
            "t WHERE EXISTS (SELECT 1 FROM s LEFT JOIN UNNEST(s.arr) AS u(x) ON TRUE)",
            "t WHERE EXISTS(SELECT 1 FROM s LATERAL VIEW OUTER EXPLODE(s.arr) u AS x)",
        ),
        ("t, LATERAL TABLE(split(k)) AS u(x)", "t, LATERAL split(k) AS u(x)"),
        (
            "t LEFT JOIN LATERAL TABLE(split(k)) AS u(x) ON TRUE",
            "t LEFT JOIN LATERAL split(k) AS u(x) ON TRUE",
        ),
        ("(VALUES ROW(1, 'a'), ROW(2, 'b')) AS t(a, b)", "VALUES (1, 'a'), (2, 'b') AS t(a, b)"),
        ("t ORDER BY x FETCH FIRST 2 ROWS ONLY", "t ORDER BY x LIMIT 2"),
        ("t ORDER BY x OFFSET 3 ROWS FETCH NEXT ROW ONLY", "t ORDER BY x LIMIT 1 OFFSET 3"),
    ],
)
def test_clauses(flink: str, expected: str) -> None:
    assert rewritten(f"SELECT * FROM {flink}") == f"SELECT * FROM {expected}"


@pytest.mark.parametrize(
    ("flink", "message", "marked"),
    [
        ("t LEFT JOIN UNNEST(arr) AS u(x) ON x > 1", "UNNEST supports CROSS JOIN", "arr"),
        ("t JOIN UNNEST(arr) AS u(x) ON x > 1", "UNNEST supports CROSS JOIN", "arr"),
        ("t RIGHT JOIN UNNEST(arr) AS u(x) ON TRUE", "UNNEST supports CROSS JOIN", "arr"),
        ("t NATURAL JOIN UNNEST(arr) AS u(x)", "UNNEST supports CROSS JOIN", "arr"),
        ("t JOIN UNNEST(arr) AS u(x) USING (x)", "UNNEST supports CROSS JOIN", "arr"),
        ("t LEFT SEMI JOIN UNNEST(arr) AS u(x)", "UNNEST supports CROSS JOIN", "arr"),
        ("t, UNNEST(arr) AS u(x) RIGHT JOIN s ON TRUE", "UNNEST must be the last join", "arr"),
        ("t, UNNEST(arr) AS u(x), s", "UNNEST must be the last join", "arr"),
        ("t, UNNEST(arr, m) AS u(x, y)", "UNNEST takes one array or map", "arr"),
        ("t ORDER BY x FETCH FIRST 5 PERCENT ROWS ONLY", "FETCH requires a number of rows", "5"),
        ("t ORDER BY x FETCH FIRST 5 ROWS WITH TIES", "FETCH requires a number of rows", "5"),
    ],
)
def test_clauses_that_spark_lacks_are_refused(flink: str, message: str, marked: str) -> None:
    query = f"SELECT * FROM {flink}"
    with pytest.raises(AnalysisError, match=message) as caught:
        rewritten(query)
    position = caught.value.position
    assert position is not None
    assert query[position.column - 1 :].startswith(marked)
    assert caught.value.hint


def test_queries_without_flinks_syntax_are_unchanged() -> None:
    tree = parse_query(
        "SELECT array(1, 2), arr[0] FROM t JOIN LATERAL explode(arr) AS u(x) LIMIT 3"
    )
    assert not rewrite_clauses(tree, None)
