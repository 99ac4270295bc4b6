"""Which rows and columns of a stream are buffered until their windows close."""

from __future__ import annotations

from typing import Any, cast

from planner.catalog import StreamTable
from planner.nodes.joins import WindowJoin
from planner.nodes.logical import (
    AttachedWindow,
    NamedExpr,
    Node,
    Project,
    SqlQuery,
    TableScan,
    WindowAggregate,
    WindowColumns,
    WindowRank,
    WindowRows,
    WindowTableFunction,
)
from planner.optimizer import Options, Trace, optimize
from planner.rules import LOGICAL_STAGES
from planner.sql.build import column
from runtime.spec.table import Column
from runtime.windows import Window
from runtime.windows.cumulate import Cumulate
from runtime.windows.session import SessionWindow
from runtime.windows.tumble import Tumble
from sqlwin.parser.parser import parse_query
from tests.planner.catalog import Catalog

MINUTE_US = 60_000_000
WINDOW = ("window_start", "window_end", "window_time")
TYPES = {"ts": "timestamp_ntz", "k": "string", "v": "int", "tags": "array<int>"}
# `events` is a stream, and `names` is bounded
CATALOG = cast(Any, Catalog(StreamTable("events", None)))


def window_node(window: Window, *columns: str, table: str = "events") -> WindowTableFunction:
    schema = tuple(Column(name, TYPES[name], True) for name in columns)
    scan = TableScan(schema, table, parse_query(f"SELECT * FROM {table}"))
    added = tuple(Column(name, "timestamp_ntz", False) for name in WINDOW)
    return WindowTableFunction(
        schema + added, scan, window, "ts", "timestamp_ntz", WindowColumns(*WINDOW)
    )


def chosen(node: Node, *names: str) -> Project:
    schema = tuple(c for c in node.schema if c.name in names)
    return Project(schema, node, tuple(NamedExpr(c.name, column(c.name)) for c in schema))


def rank_node(node: Node, window: Window) -> WindowRank:
    attached = AttachedWindow(window, *WINDOW, ("ts", "window_time"))
    order = parse_query("SELECT 1 ORDER BY v DESC").args["order"].expressions
    return WindowRank(
        (*node.schema, Column("rn", "int", False)),
        node,
        attached,
        "ROW_NUMBER",
        1,
        3,
        ("window_start", "window_end"),
        (),
        tuple(order),
        "rn",
    )


def optimize_plan(node: Node) -> tuple[Node, list[str]]:
    trace = Trace()
    plan = optimize(node, LOGICAL_STAGES, Options(catalog=CATALOG), trace)
    return plan, [entry.reason for entry in trace.entries if entry.reason is not None]


def buffered_columns(node: Node) -> list[WindowRows]:
    below = [result for child in node.inputs for result in buffered_columns(child)]
    return [node, *below] if isinstance(node, WindowRows) else below


def names(node: Node) -> list[str]:
    return [c.name for c in node.schema]


def test_ranked_rows_are_stored_with_the_columns_that_are_read() -> None:
    window = Tumble(MINUTE_US)
    top = rank_node(window_node(window, "ts", "k", "v", "tags"), window)
    plan, refused = optimize_plan(chosen(top, "k", "window_end"))
    (rows,) = buffered_columns(plan)
    assert names(rows) == ["k", "v", "window_start", "window_end"]
    assert isinstance(rows.input, WindowAggregate)
    assert [call.function for call in rows.input.calls] == ["COUNT"]
    assert names(plan) == ["k", "window_end"]
    assert not refused


def test_each_side_of_a_join_is_stored_with_its_columns() -> None:
    window = Tumble(MINUTE_US)
    left = window_node(window, "ts", "k", "tags")
    right = chosen(window_node(window, "ts", "v", "tags"), "v", "window_start", "window_end")
    attached = AttachedWindow(window, *WINDOW)
    renamed = Project(
        tuple(Column(f"{c.name}0", c.type, True) for c in right.schema),
        right,
        tuple(NamedExpr(f"{c.name}0", column(c.name)) for c in right.schema),
    )
    pairs = (("window_start", "window_start0"), ("window_end", "window_end0"))
    join = WindowJoin(
        left.schema + renamed.schema, left, renamed, "Inner", attached, attached, pairs, (), None
    )
    plan, _ = optimize_plan(chosen(join, "k", "v0"))
    first, second = buffered_columns(plan)
    assert names(first) == ["k", "window_start", "window_end"]
    assert names(second) == ["v", "window_start", "window_end"]


def test_sessions_are_stored_if_their_rows_are_read() -> None:
    window = SessionWindow(MINUTE_US, ("k",))
    function = window_node(window, "ts", "k", "v")
    (rows,) = buffered_columns(optimize_plan(function)[0])
    assert names(rows) == ["ts", "k", "v", *WINDOW]
    (narrow,) = buffered_columns(optimize_plan(chosen(function, "v", "window_end"))[0])
    assert names(narrow) == ["k", "v", "window_start", "window_end"]
    text = parse_query("SELECT v + 1 AS w FROM below WHERE v > 2")
    (read,) = buffered_columns(
        optimize_plan(SqlQuery((Column("w", "int", True),), text, (("below", function),)))[0]
    )
    assert names(read) == ["k", "v", "window_start", "window_end"]


def test_plain_rows_of_windows_are_not_buffered() -> None:
    for window in (Tumble(MINUTE_US), Cumulate(MINUTE_US, 5 * MINUTE_US)):
        assert not buffered_columns(optimize_plan(window_node(window, "ts", "v"))[0])
        assert not buffered_columns(optimize_plan(chosen(window_node(window, "ts", "v"), "v"))[0])


def test_rows_of_bounded_tables_are_not_buffered() -> None:
    window = SessionWindow(MINUTE_US, ("k",))
    top = rank_node(window_node(window, "ts", "k", "v", table="names"), window)
    assert optimize_plan(chosen(top, "v"))[0] == chosen(top, "v")


def test_rows_are_emitted_in_each_of_their_steps() -> None:
    window = Cumulate(MINUTE_US, 5 * MINUTE_US, emit_only_on_update=True)
    (rows,) = buffered_columns(optimize_plan(rank_node(window_node(window, "ts", "v"), window))[0])
    assert isinstance(rows.input, WindowAggregate)
    assert rows.input.window == Cumulate(MINUTE_US, 5 * MINUTE_US)


def test_a_column_that_cannot_be_grouped_by_is_named() -> None:
    window = SessionWindow(MINUTE_US, ("k",))
    _, refused = optimize_plan(window_node(window, "ts", "k", "tags"))
    assert refused == [
        "column `tags` of type ARRAY<INT> cannot be buffered on a stream; supported types are "
        "numbers, strings, times, intervals and booleans"
    ]
