"""LATERAL with ORDER BY and LIMIT 1 becomes a merge; other forms are left to Spark."""

from __future__ import annotations

import pytest
from sqlglot import exp

from planner.binder.as_of import join_as_of
from planner.catalog import Schema
from planner.sql.build import to_sql
from runtime.spec.table import Column
from sqlwin.parser.parser import parse_query

COLUMNS = {"k": "string", "ts": "timestamp_ntz", "v": "int", "d": "date"}
PICK = "SELECT r.v AS w FROM r WHERE r.k = l.k AND r.ts <= l.ts ORDER BY r.ts DESC LIMIT 1"


def schema_of(query: exp.Query) -> Schema | None:
    """Return the columns of a query over one table whose items are columns."""
    assert isinstance(query, exp.Select)
    columns = []
    for item in query.expressions:
        if item.is_star:
            columns += [Column(*pair) for pair in COLUMNS.items()]
            continue
        column = item.unalias()
        if not isinstance(column, exp.Column) or column.name not in COLUMNS:
            return None
        columns.append(Column(item.alias_or_name, COLUMNS[column.name]))
    return tuple(columns)


def rewritten(sql: str) -> str | None:
    query = parse_query(sql)
    assert isinstance(query, exp.Select)
    return to_sql(query) if join_as_of(query, schema_of) else None


def test_both_sides_are_sorted_together_and_the_last_row_joins() -> None:
    text = rewritten(
        f"SELECT v, w, l.ts FROM l LEFT JOIN LATERAL ({PICK}) AS x ON TRUE WHERE w > 1"
    )
    assert text is not None
    assert "JOIN" not in text
    assert "PARTITION BY `$key0` ORDER BY `$time` ASC, `$side` ASC ROWS BETWEEN" in text
    assert text.startswith("SELECT `l`.v, `x`.w, l.ts FROM (SELECT `$left` AS `l`, `$right` AS `x`")
    assert text.endswith("WHERE `$side` = 1) AS `$as_of` WHERE `x`.w > 1")


@pytest.mark.parametrize(
    ("comparison", "order", "side", "direction"),
    [
        ("r.ts < l.ts", "DESC", 2, "`$time` ASC"),
        ("l.ts >= r.ts", "DESC", 0, "`$time` ASC"),
        ("r.ts > l.ts", "", 2, "`$time` DESC NULLS FIRST"),
        ("l.ts <= r.ts", "ASC", 0, "`$time` DESC NULLS FIRST"),
    ],
)
def test_comparisons_choose_the_order(
    comparison: str, order: str, side: int, direction: str
) -> None:
    pick = f"SELECT r.v FROM r WHERE r.k = l.k AND {comparison} ORDER BY r.ts {order} LIMIT 1"
    text = rewritten(f"SELECT x.v FROM l, LATERAL ({pick}) AS x")
    assert text is not None
    assert f"{side} AS `$side`" in text and f"ORDER BY {direction}, `$side` ASC" in text
    assert "AND NOT `$right` IS NULL" in text  # an inner join drops rows without a match


@pytest.mark.parametrize(
    "pick",
    [
        PICK.replace("LIMIT 1", "LIMIT 2"),
        PICK.replace("LIMIT 1", ""),
        PICK.replace("DESC", ""),
        PICK.replace("r.ts DESC", "r.v DESC"),
        PICK.replace("r.ts DESC", "r.ts DESC, r.v"),
        PICK.replace("r.ts <= l.ts", "r.d <= l.ts"),
        PICK.replace("r.k = l.k", "r.v = l.k"),  # other types
        PICK.replace("r.k = l.k", "r.k <> l.k"),
        PICK.replace("r.ts <= l.ts", "r.ts <= l.ts AND r.ts < l.ts"),
        PICK.replace("r.v AS w", "r.d AS ts").replace("BY r.ts", "BY ts"),
        PICK.replace("AND r.ts <= l.ts", ""),
        PICK.replace("r.v AS w", "MAX(r.v) AS w"),
        PICK.replace("r.v AS w", "l.v AS w"),
        PICK.replace("SELECT", "SELECT DISTINCT"),
    ],
)
def test_other_subqueries_are_left_to_spark(pick: str) -> None:
    assert rewritten(f"SELECT l.v FROM l LEFT JOIN LATERAL ({pick}) AS x ON TRUE") is None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT l.v FROM l JOIN u ON l.k = u.k LEFT JOIN LATERAL ({pick}) AS x ON TRUE",
        "SELECT l.v FROM l LEFT JOIN LATERAL ({pick}) AS x ON l.v = x.w",
        "SELECT l.v + 1 FROM l LEFT JOIN LATERAL ({pick}) AS x ON TRUE",
        "SELECT nothing FROM l LEFT JOIN LATERAL ({pick}) AS x ON TRUE",
        "SELECT x.nothing FROM l LEFT JOIN LATERAL ({pick}) AS x ON TRUE",
        "SELECT l.v FROM l LEFT JOIN LATERAL ({pick}) AS x(w) ON TRUE",
    ],
)
def test_other_queries_are_left_to_spark(sql: str) -> None:
    assert rewritten(sql.format(pick=PICK)) is None
