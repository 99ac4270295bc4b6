"""Window operators of a stream that collect late rows, or pass them on."""

import pytest
from sqlglot import exp

from planner.catalog import StreamTable
from planner.lowering.stream.steps import lower_stream
from planner.nodes.logical import (
    AttachedWindow,
    NamedExpr,
    Project,
    SqlQuery,
    TableScan,
    WindowKey,
    WindowRank,
)
from planner.nodes.physical import OnePhaseWindowAggregate
from planner.optimizer import Options
from planner.rules.split_window_aggregate import split_window_aggregate
from planner.sql.build import column
from runtime.errors import AnalysisError
from runtime.plan.arrow_rows import RankedRows
from runtime.plan.streams import StreamWindowStep
from runtime.spec.stream import LATE_ROW
from runtime.spec.table import Column, Watermark
from runtime.windows.session import SessionWindow
from runtime.windows.tumble import Tumble
from tests.planner.catalog import Catalog
from tests.planner.rules.test_share_window_slices import COLUMNS, MINUTE, call, filter_node

WATERMARK = Watermark("ts", "ts - INTERVAL '5' SECOND")
MINUTES = Tumble(MINUTE)
BOUNDS = (("window_start", "start"), ("window_end", "end"), ("window_time", "time"))


# `t` and `v` have a side output; `clock` is processing time
CATALOG = Catalog(
    StreamTable("t", WATERMARK, late_rows="too_late"),
    StreamTable("v", WATERMARK, late_rows="others"),
    StreamTable("u", WATERMARK),
    StreamTable("clock", None, frozenset({"ts"}), late_rows="too_late"),
    columns=COLUMNS,
)


def scan(name):
    return TableScan(COLUMNS, name, exp.select("*").from_(name))


def windows(over, window=MINUTES, time="ts"):
    """Return a window aggregate by `k`, with SUM(x) AS x, so that another one can follow."""
    calls = (call("SUM", "x", "x"),)
    schema = (
        Column("k", "int"),
        *(Column(name, "timestamp_ntz") for name, _ in BOUNDS),
        Column("x", "bigint"),
    )
    keys = (NamedExpr("k", column("k")),)
    bounds = tuple(WindowKey(*bound) for bound in BOUNDS)
    one_phase = OnePhaseWindowAggregate(
        schema, over, window, time, "timestamp_ntz", keys, bounds, calls
    )
    return split_window_aggregate(one_phase, Options(catalog=CATALOG))


def sql_over(query, **inputs):
    """Return SQL over other plans."""
    schema = next(iter(inputs.values())).schema
    return SqlQuery(schema, exp.maybe_parse(query), tuple(inputs.items()))


def without_window(node):
    """Return the node's columns except the window's, with `window_time` as `at`."""
    items = tuple(
        NamedExpr(new, column(old)) for new, old in (("k", "k"), ("at", "window_time"), ("x", "x"))
    )
    schema = (Column("k", "int"), Column("at", "timestamp_ntz"), Column("x", "bigint"))
    return Project(schema, node, items)


def steps_in(step, kind):
    return [node for node in step.walk() if isinstance(node, kind)]


def late_row_targets(plan):
    """Return {operator number: target of late rows}; all operators pass others' rows through."""
    step = lower_stream(plan, CATALOG, "UTC").rows
    operators = steps_in(step, StreamWindowStep)
    assert all(operator.input.mode.carries_late_rows for operator in operators)
    return {operator.number: operator.input.mode.late_rows for operator in operators}


@pytest.mark.parametrize("window", [Tumble(MINUTE), SessionWindow(MINUTE, ("k",))])
def test_an_operator_over_the_table_stores_late_rows_behind_a_filter(window):
    assert late_row_targets(windows(filter_node("x > 1", scan("t")), window)) == {0: "too_late"}


def test_inner_windows_store_late_rows_and_outer_ones_pass_them():
    inner = without_window(windows(scan("t")))
    assert late_row_targets(windows(inner, Tumble(10 * MINUTE), "at")) == {0: "too_late", 1: None}


def test_several_operators_of_a_table_store_their_late_rows():
    inner = without_window(windows(scan("t")))
    both = sql_over("SELECT k, at, x FROM a UNION ALL SELECT k, ts AS at, x FROM t", a=inner)
    assert late_row_targets(windows(both, Tumble(10 * MINUTE), "at")) == {
        0: "too_late",
        1: "too_late",
    }


def test_windows_of_another_table_store_no_late_rows():
    sides = {"a": windows(scan("u")), "b": windows(scan("t"))}
    assert late_row_targets(sql_over("SELECT * FROM a UNION ALL SELECT * FROM b", **sides)) == {
        0: None,
        1: "too_late",
    }


def test_windows_on_processing_time_store_no_late_rows():
    sides = {"a": windows(scan("t")), "b": windows(scan("clock"))}
    assert late_row_targets(sql_over("SELECT * FROM a UNION ALL SELECT * FROM b", **sides)) == {
        0: "too_late",
        1: None,
    }


def test_late_rows_pass_through_ranks():
    below = windows(scan("t"))
    attached = AttachedWindow(Tumble(MINUTE), "window_start", "window_end", "window_time")
    order = (exp.Ordered(this=column("x")),)
    ranked = WindowRank(
        (*below.schema, Column("place", "int")), below, attached, "ROW_NUMBER", 1, 3,
        ("window_start", "window_end"), (), order, "place",
    )  # fmt: skip
    assert late_row_targets(ranked) == {0: "too_late"}
    step = lower_stream(ranked, CATALOG, "UTC").rows
    (rank,) = steps_in(step, RankedRows)
    assert LATE_ROW in rank.input.sql and LATE_ROW in step.sql


def test_operators_that_late_rows_cannot_pass_are_refused():
    joined = sql_over("SELECT a.* FROM a JOIN names ON a.k = names.k", a=windows(scan("t")))
    with pytest.raises(AnalysisError, match="only filters and projections are supported above"):
        late_row_targets(joined)
    below = SqlQuery(COLUMNS, exp.maybe_parse("SELECT t.* FROM t JOIN names ON t.k = names.k"), ())
    with pytest.raises(AnalysisError, match="only filters and projections are supported below"):
        late_row_targets(windows(below))
    sides = {"a": windows(scan("t")), "b": windows(scan("v"))}
    with pytest.raises(AnalysisError, match="`t` and `v` have 'late-rows'"):
        late_row_targets(sql_over("SELECT * FROM a UNION ALL SELECT * FROM b", **sides))


def test_other_inputs_need_not_pass_late_rows():
    other = SqlQuery(COLUMNS, exp.maybe_parse("SELECT u.* FROM u JOIN names ON u.k = names.k"), ())
    sides = {"a": windows(scan("t")), "b": windows(other)}
    assert late_row_targets(sql_over("SELECT * FROM a UNION ALL SELECT * FROM b", **sides)) == {
        0: "too_late",
        1: None,
    }
