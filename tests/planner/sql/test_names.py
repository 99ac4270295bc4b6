"""Names in the text of a query."""

from __future__ import annotations

import pytest

from planner.sql.build import to_sql
from planner.sql.names import gather_ctes, has_scattered_ctes, rename_hidden_ctes, with_ctes
from sqlwin.parser.parser import parse_query

WINDOW = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "WITH a AS (SELECT 1 AS x) SELECT * FROM (WITH A AS (SELECT a.x FROM a) SELECT a.x FROM a)",
            "WITH a AS (SELECT 1 AS x) "
            "SELECT * FROM (WITH `a_1` AS (SELECT a.x FROM a) SELECT a.x FROM `a_1` AS a)",
        ),
        (
            "WITH a AS (SELECT 1), b AS (WITH a AS (SELECT 2) SELECT * FROM a AS c) "
            "SELECT * FROM a, b, a_1",
            "WITH a AS (SELECT 1), b AS (WITH `a_2` AS (SELECT 2) SELECT * FROM `a_2` AS c) "
            "SELECT * FROM a, b, a_1",
        ),
        (
            "WITH a AS (SELECT 1) SELECT (WITH a AS (SELECT 2), b AS (SELECT * FROM a) "
            "SELECT (WITH b AS (SELECT 3) SELECT * FROM a, b) FROM b) FROM a",
            "WITH a AS (SELECT 1) SELECT (WITH `a_1` AS (SELECT 2), b AS (SELECT * FROM `a_1` AS a) "
            "SELECT (WITH `b_1` AS (SELECT 3) SELECT * FROM `a_1` AS a, `b_1` AS b) FROM b) FROM a",
        ),
        (
            "WITH a AS (SELECT 1) SELECT * FROM (WITH RECURSIVE a AS "
            "(SELECT 1 AS n UNION ALL SELECT n + 1 FROM a) SELECT n FROM a)",
            "WITH a AS (SELECT 1) SELECT * FROM (WITH RECURSIVE `a_1` AS "
            "(SELECT 1 AS n UNION ALL SELECT n + 1 FROM `a_1` AS a) SELECT n FROM `a_1` AS a)",
        ),
        (
            "WITH a AS (SELECT 1) SELECT * FROM s.a, (WITH a AS (SELECT ts FROM t) "
            f"SELECT a.ts FROM {WINDOW.format('a')})",
            "WITH a AS (SELECT 1) SELECT * FROM s.a, (WITH `a_1` AS (SELECT ts FROM t) "
            f"SELECT a.ts FROM {WINDOW.format('`a_1`')})",
        ),
    ],
)
def test_a_cte_that_hides_an_outer_one_has_another_name(query: str, expected: str) -> None:
    tree = parse_query(query)
    assert rename_hidden_ctes(tree)
    assert to_sql(tree) == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1",
        "WITH a AS (SELECT 1), b AS (SELECT * FROM a) SELECT * FROM b",
        "SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a), (WITH a AS (SELECT 2) SELECT * FROM a)",
        "WITH b AS (WITH a AS (SELECT 1) SELECT * FROM a), a AS (SELECT 2) SELECT * FROM a, b",
    ],
)
def test_ctes_that_hide_no_table_keep_their_names(query: str) -> None:
    tree = parse_query(query)
    assert not rename_hidden_ctes(tree)
    assert to_sql(tree) == query


@pytest.mark.parametrize(
    ("ctes", "query", "expected"),
    [
        # in its own definition, the name of a CTE refers to a table
        (
            "a AS (SELECT * FROM a)",
            "SELECT * FROM a",
            "WITH a AS (SELECT * FROM a) SELECT * FROM a",
        ),
        # and so does the name of a later one
        (
            "a AS (SELECT * FROM b), b AS (SELECT 1)",
            "SELECT * FROM b, a",
            "WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM b, a",
        ),
        (
            "a AS (SELECT * FROM b), b AS (SELECT 1)",
            "SELECT * FROM a",
            "WITH a AS (SELECT * FROM b) SELECT * FROM a",
        ),
        (
            "a AS (SELECT 1), b AS (SELECT * FROM a), c AS (SELECT 2)",
            "SELECT * FROM b",
            "WITH a AS (SELECT 1), b AS (SELECT * FROM a) SELECT * FROM b",
        ),
    ],
)
def test_a_query_gets_the_outer_ctes_that_it_uses_in_their_order(
    ctes: str, query: str, expected: str
) -> None:
    scope = {cte.alias: cte for cte in parse_query(f"WITH {ctes} SELECT 1").ctes}
    assert to_sql(with_ctes(parse_query(query), scope)) == expected


A = "(WITH a AS (SELECT 1 AS x) SELECT 2 AS x)"
B = "(WITH b AS (SELECT 3 AS x) SELECT * FROM b)"
AROUND = "WITH `$with` AS (SELECT NULL) "


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            f"SELECT * FROM {A} UNION ALL SELECT * FROM {B}",
            f"{AROUND}SELECT * FROM {A} UNION ALL SELECT * FROM {B}",
        ),
        (f"SELECT * FROM {A} AS l, {B} AS r", f"{AROUND}SELECT * FROM {A} AS l, {B} AS r"),
        (
            f"SELECT 1 IN (SELECT * FROM {A} UNION ALL SELECT * FROM {B})",
            f"SELECT 1 IN ({AROUND}SELECT * FROM {A} UNION ALL SELECT * FROM {B})",
        ),
        (
            f"SELECT EXISTS(SELECT 1 FROM {A} AS l, {B} AS r) FROM {B}",
            f"SELECT EXISTS({AROUND}SELECT 1 FROM {A} AS l, {B} AS r) FROM {B}",
        ),
        (
            f"SELECT (SELECT MAX(l.x) FROM {A} AS l, {B} AS r)",
            f"SELECT ({AROUND}SELECT MAX(l.x) FROM {A} AS l, {B} AS r)",
        ),
    ],
)
def test_one_with_encloses_parts_that_have_ctes(query: str, expected: str) -> None:
    tree = parse_query(query)
    assert has_scattered_ctes(tree)
    gather_ctes(tree)
    assert to_sql(tree) == expected


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT * FROM {A}",
        f"SELECT * FROM {A} WHERE x IN {B}",
        f"WITH c AS (SELECT 1) SELECT * FROM {A} UNION ALL SELECT * FROM {B}",
        "SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM (WITH b AS (SELECT 2) SELECT 3))",
        f"SELECT {B}, {B}",
    ],
)
def test_a_single_part_with_ctes_gets_no_outer_with(query: str) -> None:
    tree = parse_query(query)
    assert not has_scattered_ctes(tree)
    gather_ctes(tree)
    assert to_sql(tree) == to_sql(parse_query(query))
