"""Joins of a stream's windows with their own greatest value become ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from sqlglot import exp

from planner.catalog import StreamTable
from planner.nodes.joins import WindowJoin
from planner.nodes.logical import (
    Aggregate,
    AggregateCall,
    AttachedWindow,
    Filter,
    NamedExpr,
    Node,
    Project,
    TableScan,
    WindowAggregate,
    WindowKey,
    WindowRank,
)
from planner.optimizer import Options
from planner.rules.convert_join_to_rank import convert_join_to_rank
from planner.sql.build import column, to_sql
from runtime.refusal import Refusal
from runtime.spec.table import Column
from runtime.windows import Window
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from tests.planner.catalog import Catalog

WINDOW = Hop(2_000_000, 10_000_000)
COLUMNS = (Column("ts", "timestamp_ntz"), Column("k", "int"), Column("x", "bigint"))


CATALOG = cast(Any, Catalog(StreamTable("events", None)))
OPTIONS = Options(catalog=CATALOG)


def call(function: str, argument: str | None, name: str) -> AggregateCall:
    args = (exp.Star() if argument is None else column(argument),)
    expr = exp.Anonymous(this=function, expressions=list(args))
    return AggregateCall(name, function, expr, args, to_sql(expr), "bigint")


def windows(
    *calls: AggregateCall, window: Window = WINDOW, table: str = "events"
) -> WindowAggregate:
    """Return an aggregation by `k` and window, with the columns k, s, e and the calls' columns."""
    scan = TableScan(COLUMNS, table, exp.select("*").from_(table))
    schema = (
        Column("k", "int"),
        Column("s", "timestamp_ntz", False),
        Column("e", "timestamp_ntz", False),
        *(Column(entry.name, entry.type) for entry in calls),
    )
    keys = (NamedExpr("k", column("k")),)
    roles = (WindowKey("s", "start"), WindowKey("e", "end"))
    return WindowAggregate(schema, scan, window, "ts", "timestamp_ntz", keys, roles, calls)


def rename(node: Node, **names: str) -> Project:
    """Return the selected columns of a node under new names."""
    types = {c.name: c for c in node.schema}
    schema = tuple(replace(types[old], name=new) for new, old in names.items())
    return Project(schema, node, tuple(NamedExpr(n, column(o)) for n, o in names.items()))


def greatest(of: Node, function: str = "MAX", argument: str = "n") -> Project:
    """Return MAX of a column by window, with the columns s0, e0 and most."""
    extreme = call(function, argument, "most")
    types = {c.name: c for c in of.schema}
    schema = (types["s"], types["e"], Column("most", types[argument].type))
    by = tuple(NamedExpr(name, column(name)) for name in ("s", "e"))
    return rename(Aggregate(schema, of, by, (extreme,)), s0="s", e0="e", most="most")


def join_nodes(
    left: Node, right: Node, on: str | None, keys: tuple[tuple[str, str], ...] = ()
) -> Node:
    return WindowJoin(
        left.schema + right.schema,
        left,
        right,
        "Inner",
        AttachedWindow(WINDOW, "s", "e", None),
        AttachedWindow(WINDOW, "s0", "e0", None),
        (("s", "s0"), ("e", "e0")),
        keys,
        None if on is None else exp.maybe_parse(on),
    )


COUNTS = windows(call("COUNT", None, "n"))
# The same aggregation under another name
AGAIN = rename(windows(call("COUNT", None, "m")), s="s", e="e", n="m")


@pytest.mark.parametrize("on", ["n >= most", "most <= n", "n = most", "N >= Most", None])
def test_rows_equal_to_the_maximum_have_rank_1(on: str | None) -> None:
    keys = () if on else (("n", "most"),)
    join = join_nodes(COUNTS, greatest(AGAIN), on, keys)
    after = convert_join_to_rank(join, OPTIONS)
    assert isinstance(after, Project) and after.schema == join.schema
    assert [(item.name, item.expr.name) for item in after.items] == [
        ("k", "k"), ("s", "s"), ("e", "e"), ("n", "n"), ("s0", "s"), ("e0", "e"), ("most", "n"),
    ]  # fmt: skip
    rank = after.input
    assert isinstance(rank, WindowRank) and rank.input is COUNTS
    assert (rank.rank_type, rank.rank_start, rank.rank_end) == ("RANK", 1, 1)
    assert (rank.window_columns, rank.partition_by) == (("s", "e"), ())
    assert [to_sql(order) for order in rank.order_by] == ["`n` DESC"]


def test_the_least_value_ranks_upwards() -> None:
    after = convert_join_to_rank(join_nodes(COUNTS, greatest(AGAIN, "MIN"), "n <= most"), OPTIONS)
    assert isinstance(after, Project) and isinstance(after.input, WindowRank)
    assert [to_sql(order) for order in after.input.order_by] == ["`n` ASC NULLS LAST"]


def test_a_value_that_may_be_null_stays_in_the_join() -> None:
    sums = windows(call("SUM", "x", "n"))
    after = convert_join_to_rank(join_nodes(sums, greatest(sums), "n >= most"), OPTIONS)
    assert after == Refusal("n may be NULL")


OTHERS = {
    "another comparison": join_nodes(COUNTS, greatest(AGAIN), "n > most"),
    "the wrong way round": join_nodes(COUNTS, greatest(AGAIN), "n <= most"),
    "one more condition": join_nodes(COUNTS, greatest(AGAIN), "n >= most AND k > 1"),
    "no condition": join_nodes(COUNTS, greatest(AGAIN), None),
    "a computed side": join_nodes(COUNTS, greatest(AGAIN), "n + 1 >= most"),
    "another column": join_nodes(COUNTS, greatest(AGAIN), "k >= most"),
    "other windows": join_nodes(
        COUNTS, greatest(windows(call("COUNT", None, "n"), window=Tumble(10_000_000))), "n >= most"
    ),
    "another aggregate": join_nodes(
        COUNTS, greatest(windows(call("COUNT", "x", "n"))), "n >= most"
    ),
    "another table": join_nodes(
        COUNTS, greatest(windows(call("COUNT", None, "n"), table="names")), "n >= most"
    ),
    "a filter on one side": join_nodes(
        Filter(COUNTS.schema, COUNTS, (exp.maybe_parse("k > 1"),)), greatest(AGAIN), "n >= most"
    ),
    "bounded tables": join_nodes(
        windows(call("COUNT", None, "n"), table="names"),
        greatest(windows(call("COUNT", None, "n"), table="names")),
        "n >= most",
    ),
    "a left join": replace(
        join_nodes(COUNTS, greatest(AGAIN), "n >= most"),  # type: ignore[type-var]
        join_type="LeftOuter",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_joins_stay(name: str) -> None:
    assert convert_join_to_rank(OTHERS[name], OPTIONS) is None
