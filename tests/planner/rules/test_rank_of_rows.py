"""Top-N of a stream's rows: which rows the local stage keeps."""

from __future__ import annotations

from dataclasses import replace

from planner.nodes.logical import Filter, NamedExpr, Node, Project, WindowDeduplicate, WindowRank
from planner.nodes.physical import LocalWindowAggregate, to_physical
from planner.optimizer import Options, Trace, optimize
from planner.rules import LOGICAL_STAGES, PHYSICAL_STAGES, SCAN_STAGES
from planner.sql.build import column
from runtime.spec.expressions import FirstRows, RankOrder
from runtime.spec.table import Column
from runtime.windows.hop import Hop
from runtime.windows.session import SessionWindow
from runtime.windows.tumble import Tumble
from sqlwin.parser.parser import parse_query
from tests.planner.rules.test_window_rows import CATALOG, MINUTE_US, chosen, rank_node, window_node

HIGHEST = RankOrder("v", True, False)


def optimize_plan(node: Node) -> tuple[Node, list[str]]:
    """Return the physical plan and the rule's refusals."""
    options, trace = Options(catalog=CATALOG), Trace()
    plan = to_physical(optimize(node, LOGICAL_STAGES, options, trace))
    plan = optimize(plan, (*PHYSICAL_STAGES, *SCAN_STAGES[-1:]), options, trace)
    rule = "push_rank_into_local_aggregate"
    return plan, [e.reason for e in trace.entries if e.rule == rule and e.reason is not None]


def first(node: Node) -> FirstRows | None:
    if isinstance(node, LocalWindowAggregate):
        return node.first
    return first(node.inputs[0])


def test_a_slice_stores_its_first_rows() -> None:
    for window in (Tumble(MINUTE_US), Hop(MINUTE_US, 5 * MINUTE_US)):
        top = rank_node(window_node(window, "ts", "k", "v"), window)
        assert first(optimize_plan(top)[0]) == FirstRows((), (HIGHEST,), "ROW_NUMBER", 3)
        by_key = replace(top, partition_by=("k",), rank_type="RANK", rank_start=2, rank_end=2)
        assert first(optimize_plan(by_key)[0]) == FirstRows(("k",), (HIGHEST,), "RANK", 2)


def test_projections_on_the_way_are_seen_through() -> None:
    window = Tumble(MINUTE_US)
    rows = window_node(window, "ts", "k", "v")
    items = [("price", "v"), ("window_start", "window_start"), ("window_end", "window_end")]
    types = {c.name: c for c in rows.schema}
    named = Project(
        tuple(replace(types[old], name=new) for new, old in items),
        rows,
        tuple(NamedExpr(new, column(old)) for new, old in items),
    )
    top = rank_node(named, window)
    order = parse_query("SELECT 1 ORDER BY price NULLS LAST").args["order"].expressions
    plan, refused = optimize_plan(replace(top, order_by=tuple(order)))
    assert first(plan) == FirstRows((), (RankOrder("v", False, False),), "ROW_NUMBER", 3)
    assert not refused


def test_the_last_row_by_time_is_stored_first() -> None:
    window = Tumble(MINUTE_US)
    top = rank_node(window_node(window, "ts", "k", "v"), window)
    last = WindowDeduplicate(
        top.schema, top.input, top.attached, top.window_columns, ("k",), "ts", "LastRow", "rn"
    )
    result = first(optimize_plan(last)[0])
    assert result == FirstRows(("k",), (RankOrder("ts", True, False),), "ROW_NUMBER", 1)


def test_all_rows_are_stored_if_rows_are_filtered_before_the_rank() -> None:
    window = Tumble(MINUTE_US)
    top = rank_node(window_node(window, "ts", "k", "v"), window)
    (condition,) = [parse_query("SELECT 1 WHERE window_end > ts").args["where"].this]
    chosen_before = top.with_inputs(Filter(top.input.schema, top.input, (condition,)))
    assert first(optimize_plan(chosen_before)[0]) is None


def test_all_rows_are_stored_if_the_rank_order_is_computed_later() -> None:
    window = Tumble(MINUTE_US)
    rows = window_node(window, "ts", "k", "v")
    computed = Project(
        (*rows.schema, Column("w", "int")),
        rows,
        (
            *(NamedExpr(c.name, column(c.name)) for c in rows.schema),
            NamedExpr("w", parse_query("SELECT v + 1").expressions[0]),
        ),
    )
    order = tuple(parse_query("SELECT 1 ORDER BY w").args["order"].expressions)
    plan, refused = optimize_plan(replace(rank_node(computed, window), order_by=order))
    assert first(plan) is None
    assert refused == ["the ranked expressions are computed after rows are buffered"]


def test_all_rows_of_sessions_are_stored() -> None:
    window = SessionWindow(MINUTE_US, ("k",))
    plan, refused = optimize_plan(rank_node(window_node(window, "ts", "k", "v"), window))
    assert first(plan) is None
    assert refused == ["the length of a session depends on all of its rows"]


def test_ranks_of_aggregates_and_of_tables_at_rest_are_not_concerned() -> None:
    window = Tumble(MINUTE_US)
    top = rank_node(window_node(window, "ts", "k", "v", table="names"), window)
    plan, refused = optimize_plan(chosen(top, "v"))
    assert isinstance(plan.inputs[0], WindowRank) and not refused
