"""Columns of window joins: USING, and names that both sides have."""

from __future__ import annotations

import pytest
from sqlglot import exp

from planner.binder.joins.sides import Side, Sides
from planner.nodes.logical import AttachedWindow, SqlQuery
from planner.sql.build import to_sql
from runtime.refusal import Refused
from runtime.spec.table import Column
from runtime.windows.tumble import Tumble
from sqlwin.parser.parser import parse_query

WINDOW = AttachedWindow(Tumble(60_000_000), "window_start", "window_end", None, ())


def side(name: str, *columns: str) -> Side:
    schema = tuple(Column(c, "bigint") for c in ("k", *columns, "window_start", "window_end"))
    query = parse_query(f"SELECT * FROM {name}")
    assert isinstance(query, exp.Select)
    return Side(SqlQuery(schema, query), name, WINDOW)


def sides(join_type: str, *using: str) -> Sides:
    return Sides(side("a", "n"), side("b", "s"), join_type, using)


def text(expr: exp.Expr) -> str:
    return to_sql(expr).replace("`", "")


@pytest.mark.parametrize(
    ("join_type", "one", "star"),
    [
        ("Inner", "k", "window_end k n window_start s window_start0"),
        ("LeftOuter", "k", "window_end k n window_start s window_start0"),
        ("RightOuter", "k0", "window_end0 k0 n window_start s window_start0"),
        (
            "FullOuter",
            "COALESCE(k, k0)",
            "COALESCE(window_end, window_end0) COALESCE(k, k0) n window_start s window_start0",
        ),
        ("LeftSemi", "k", "window_end k n window_start"),
    ],
)
def test_using_makes_one_column_of_two_and_puts_it_first(
    join_type: str, one: str, star: str
) -> None:
    joined = sides(join_type, "window_end", "k")
    resolved = joined.resolve(exp.column("K"))
    assert resolved is not None
    assert text(resolved) == one
    assert " ".join(map(text, joined.all_columns())) == star


def test_columns_of_both_sides_have_qualified_names() -> None:
    joined = sides("FullOuter", "window_end", "k")
    for qualified, name in (("a.k", "k"), ("b.k", "k0"), ("b.window_end", "window_end0")):
        resolved = joined.resolve(exp.to_column(qualified))
        assert resolved is not None
        assert text(resolved) == name
    assert joined.resolve(exp.column("window_start")) is None  # ambiguous


def test_using_is_equality_of_each_column() -> None:
    joined = sides("Inner", "window_start", "window_end", "k")
    node = joined.join(joined.equalities(), [None, None, None])
    assert node.window_keys == (("window_start", "window_start0"), ("window_end", "window_end0"))
    assert node.keys == (("k", "k0"),)
    alone = sides("Inner", "k")
    with pytest.raises(Refused) as left:
        alone.join(alone.equalities(), [None])
    assert str(left.value) == "USING does not contain window_end: Spark joins all rows"
