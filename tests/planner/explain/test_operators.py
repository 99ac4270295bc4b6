"""Operators: the lines of EXPLAIN as data."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from planner.explain.build import operator_ids
from planner.explain.operator_text import item_text
from planner.explain.operators import logical_operators, physical_operators
from planner.explain.window_texts import window_entries, window_text
from planner.nodes.logical import NamedExpr, TableScan, UnaryNode, WindowKey
from runtime.spec.table import Column
from runtime.windows import Window
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.session import SessionWindow
from runtime.windows.tumble import Tumble

MINUTE = 60_000_000
SCHEMA = (Column("k", "int"),)
SCAN = TableScan(SCHEMA, "t", exp.select("*").from_("t"))


@dataclass(frozen=True)
class RankByWindow(UnaryNode):
    """A kind of node that the planner does not know."""

    window: Window
    keys: tuple[NamedExpr, ...]
    window_keys: tuple[WindowKey, ...]
    idle_timeout_us: int
    time_column: str
    is_ascending: bool = False


def rank(window: Window) -> RankByWindow:
    keys = (NamedExpr("k", exp.column("k")),)
    return RankByWindow(SCHEMA, SCAN, window, keys, (WindowKey("w", "end"),), 5 * MINUTE, "ts")


def test_an_unknown_node_shows_its_fields():
    line = (
        "RankByWindow(window=[TUMBLE(size=[1 min])], groupBy=[k], windows=[end('w$) AS w], "
        "idleTimeout=[5 min], timeColumn=[ts])"
    )
    assert [
        str(physical_operator) for physical_operator in physical_operators(rank(Tumble(MINUTE)))
    ] == [line]
    assert [
        str(physical_operator) for physical_operator in logical_operators(rank(Tumble(MINUTE)))
    ] == ["Logical" + line]


def test_an_item_has_its_name_unless_it_is_that_name_or_has_none():
    texts = [item_text(NamedExpr(name, exp.column("v") + 1)) for name in ("n", "v + 1", "")]
    assert texts == ["v + 1 AS n", "v + 1", "v + 1"]


def test_an_unknown_node_with_a_window_uses_it():
    node = rank(Hop(2 * MINUTE, 5 * MINUTE))
    [use] = window_entries(node, operator_ids(node))
    assert use.slice_widths_us == (MINUTE, MINUTE)
    assert use.time_column == "ts"
    assert use.text == ()


def test_a_node_below_one_with_the_same_window_is_no_use_of_its_own():
    outer = RankByWindow(SCHEMA, rank(Tumble(MINUTE)), Tumble(MINUTE), (), (), 0, "ts")
    assert [use.operator for use in window_entries(outer, operator_ids(outer))] == ["p0"]


def test_windows_are_printed_as_flink_prints_them():
    texts = [
        window_text(window, "time_col=[ts]")
        for window in (
            Tumble(10 * MINUTE),
            Hop(5 * MINUTE, 10 * MINUTE, -MINUTE),
            Cumulate(MINUTE, 60 * MINUTE),
            SessionWindow(90_000_000),
        )
    ]
    assert texts == [
        "TUMBLE(time_col=[ts], size=[10 min])",
        "HOP(time_col=[ts], size=[10 min], slide=[5 min], offset=[-1 min])",
        "CUMULATE(time_col=[ts], max_size=[1 h], step=[1 min])",
        "SESSION(time_col=[ts], gap=[1 min 30 s])",
    ]


def test_a_hop_whose_size_is_no_multiple_of_its_slide_has_two_slice_widths():
    assert Hop(3, 7).slice_widths_us == (2, 1)
    assert Hop(3, 6).slice_widths_us == (3,)
    assert SessionWindow(3).slice_widths_us == ()
