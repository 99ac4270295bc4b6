"""Nodes that pass rows on unchanged."""

from __future__ import annotations

import pytest
from sqlglot import exp

from planner.nodes.logical import Filter, NamedExpr, Project, SqlQuery, TableScan
from planner.nodes.physical import GlobalWindowAggregate
from planner.nodes.properties import distribution, selection_below
from runtime.spec.table import Column
from runtime.windows.tumble import Tumble
from sqlwin.parser.parser import parse_query

COLUMNS = tuple(Column(name, "int") for name in ("a", "B"))
BELOW = TableScan(COLUMNS, "t", exp.select("*").from_("t"))


def text(sql: str) -> SqlQuery:
    return SqlQuery((), parse_query(sql), (("below", BELOW),))


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT a, b AS c FROM below", {"a": "a", "c": "b"}),
        ("SELECT x.a, (b) AS A2, a + 1 AS d, CAST(b AS STRING) AS e FROM below AS x", {"a": "a", "a2": "b"}),
        ("SELECT * FROM below", {"a": "a", "b": "B"}),
        ("SELECT x.*, a AS c FROM below x", {"a": "a", "b": "B", "c": "a"}),
        ("SELECT a.b FROM below x", {}),
    ],
)  # fmt: skip
def test_columns_that_a_text_hands_on(sql: str, columns: dict[str, str]) -> None:
    assert selection_below(text(sql)) == (BELOW, columns)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM below WHERE b > 1",
        "SELECT DISTINCT a FROM below",
        "SELECT MAX(a) FROM below",
        "SELECT a, EXPLODE(b) AS c FROM below",
        "SELECT a, COUNT(*) OVER () AS n FROM below",
        "SELECT a FROM below LIMIT 3",
        "SELECT a FROM below, other",
        "SELECT a FROM other",
        "SELECT a FROM below AS x(a, c)",
        "SELECT a FROM below TABLESAMPLE (10 PERCENT)",
        "SELECT a FROM below UNION ALL SELECT a FROM below",
        "SELECT a, (SELECT 1) AS b FROM below",
    ],
)
def test_texts_that_do_more(sql: str) -> None:
    assert selection_below(text(sql)) is None


def test_projections_and_filters() -> None:
    items = (NamedExpr("x", parse_query("SELECT B").expressions[0]),)
    assert selection_below(Project((Column("x", "int"),), BELOW, items)) == (BELOW, {"x": "B"})
    exploded = (NamedExpr("x", parse_query("SELECT EXPLODE(a)").expressions[0]),)
    assert selection_below(Project((Column("x", "int"),), BELOW, exploded)) is None
    assert selection_below(Filter(COLUMNS, BELOW, ())) is None
    assert selection_below(BELOW) is None


@pytest.mark.parametrize(
    ("sql", "keys"),
    [
        ("SELECT a AS k, b + 1 AS c FROM below WHERE b > 1", {"k"}),
        ("SELECT b FROM below", None),
        # Spark brings the rows of each b into one task
        ("SELECT a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY a) AS n FROM below", None),
    ],
)
def test_columns_by_which_rows_are_distributed(sql: str, keys: set[str] | None) -> None:
    window = Tumble(3_600_000_000)
    windows = GlobalWindowAggregate(COLUMNS, BELOW, window, "timestamp", ("a",), (), (), "end")
    node = SqlQuery((), parse_query(sql), (("below", windows),))
    assert distribution(node) == keys
