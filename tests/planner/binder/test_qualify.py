"""QUALIFY as a condition around the query."""

from __future__ import annotations

import pytest

from planner.binder.qualify import unfold_qualify
from planner.sql.build import to_sql
from sqlwin.parser.parser import parse_query

RANK = "ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY n DESC)"


def unfold(sql: str, *input_names: str) -> str:
    select = unfold_qualify(parse_query(sql), lambda: set(input_names))
    assert select is not None
    return to_sql(select).replace("`", "")


def test_a_ranking_that_the_select_list_has_is_compared_around_it() -> None:
    assert unfold(f"SELECT *, {RANK} AS rn FROM t QUALIFY rn <= 3") == (
        f"SELECT * FROM (SELECT *, {RANK} AS rn FROM t) WHERE rn <= 3"
    )
    assert unfold(f"SELECT k, {RANK} AS rn FROM t QUALIFY {RANK} <= 3").endswith("WHERE rn <= 3")


def test_columns_missing_in_the_select_list_are_hidden_columns() -> None:
    assert unfold(f"SELECT k FROM t QUALIFY {RANK} <= 3 AND t.v > 2 ORDER BY w, 1 LIMIT 5") == (
        "SELECT k FROM "
        f"(SELECT k, {RANK} AS $qualify0, t.v > 2 AS $qualify1, w AS $qualify2 FROM t) "
        "WHERE $qualify0 <= 3 AND $qualify1 ORDER BY $qualify2, 1 LIMIT 5"
    )


def test_a_star_omits_hidden_columns() -> None:
    assert unfold(f"SELECT *, v + 1 FROM t QUALIFY {RANK} = 1 ORDER BY v") == (
        f"SELECT * EXCEPT ($qualify0) FROM (SELECT *, v + 1, {RANK} AS $qualify0 FROM t) "
        "WHERE $qualify0 = 1 ORDER BY v"
    )


def test_groups_stay_inside_and_aliases_in_over_are_spelled_out() -> None:
    assert unfold(
        f"SELECT DISTINCT k, COUNT(*) AS n FROM t GROUP BY k QUALIFY {RANK} = 1 ORDER BY SUM(v) + 1"
    ) == (
        "SELECT DISTINCT k, n FROM (SELECT k, COUNT(*) AS n, "
        f"{RANK.replace('n DESC', 'COUNT(*) DESC')} AS $qualify0, SUM(v) + 1 AS $qualify1 "
        "FROM t GROUP BY k) WHERE $qualify0 = 1 ORDER BY $qualify1"
    )


def test_a_column_precedes_an_alias_of_the_same_name() -> None:
    sql = f"SELECT v + 1 AS n FROM t QUALIFY {RANK} = 1"
    assert "ORDER BY v + 1 DESC" in unfold(sql)
    assert "ORDER BY n DESC" in unfold(sql, "n")


def test_named_windows_stay_with_their_functions() -> None:
    assert unfold("SELECT RANK() OVER w AS r FROM t QUALIFY r = 1 WINDOW w AS (ORDER BY a)") == (
        "SELECT * FROM (SELECT RANK() OVER w AS r FROM t WINDOW w AS (ORDER BY a)) WHERE r = 1"
    )


@pytest.mark.parametrize("sql", ["SELECT a FROM t", "SELECT a FROM t QUALIFY a < 2"])
def test_other_queries_are_unchanged(sql: str) -> None:
    assert unfold_qualify(parse_query(sql), lambda: set()) is None
    assert to_sql(parse_query(sql)) == sql
