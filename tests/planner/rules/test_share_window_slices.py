"""Which window aggregates of a plan share a local aggregate, and the resulting nodes."""

from sqlglot import exp

from planner.nodes.logical import (
    AggregateCall,
    Filter,
    NamedExpr,
    Project,
    SqlQuery,
    TableScan,
    WindowKey,
)
from planner.nodes.physical import (
    Exchange,
    LocalWindowAggregate,
    OnePhaseWindowAggregate,
    SharedExchange,
    SharedSlices,
)
from planner.optimizer import Options, Trace
from planner.rules.share_window_slices import share_window_slices
from planner.rules.split_window_aggregate import split_window_aggregate
from planner.sql.build import column, to_sql
from runtime.spec.table import Column
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from tests.planner.catalog import Catalog

MINUTE = 60_000_000
OPTIONS = Options(Catalog())
COLUMNS = tuple(
    Column(name, type_)
    for name, type_ in [
        ("ts", "timestamp_ntz"),
        ("other_ts", "timestamp_ntz"),
        ("k", "int"),
        ("j", "int"),
        ("x", "bigint"),
        ("y", "bigint"),
    ]
)
TABLE = TableScan(COLUMNS, "t", exp.select("*").from_("t"))


def call(function, argument, name, type_="bigint"):
    expr = exp.Anonymous(this=function, expressions=[column(argument)])
    return AggregateCall(name, function, expr, (column(argument),), to_sql(expr), type_)


def window_aggregate(window, *calls, over=TABLE, keys=("k",), time="ts"):
    """Return a window aggregate in two phases."""
    calls = calls or (call("SUM", "x", "s"),)
    schema = (
        *(Column(key, "int") for key in keys),
        Column("window_end", "timestamp_ntz"),
        *(Column(item.name, item.type) for item in calls),
    )
    one_phase = OnePhaseWindowAggregate(
        schema,
        over,
        window,
        time,
        "timestamp_ntz",
        tuple(NamedExpr(key, column(key)) for key in keys),
        (WindowKey("window_end", "end"),),
        calls,
    )
    return split_window_aggregate(one_phase, OPTIONS)


def share(*plans):
    """Return (plans after the rule, the rule's notes for each plan)."""
    traces = [Trace() for _ in plans]
    after = share_window_slices(plans, traces, OPTIONS)
    return after, [[entry.reason for entry in trace.entries] for trace in traces]


def exchange_below(project):
    return project.input.input


def filter_node(condition, over=TABLE):
    return Filter(over.schema, over, (exp.maybe_parse(condition),))


def test_windows_of_several_plans_read_one_and_the_same_exchange():
    after, notes = share(
        window_aggregate(Tumble(MINUTE)),
        window_aggregate(Hop(5 * MINUTE, 60 * MINUTE)),
        window_aggregate(Cumulate(60 * MINUTE, 1440 * MINUTE)),
    )
    assert notes == [[None], [None], [None]]
    readers = [exchange_below(plan) for plan in after]
    assert all(isinstance(reader, SharedSlices) for reader in readers)
    exchange = readers[0].input
    assert isinstance(exchange, SharedExchange)
    assert all(reader.input is exchange for reader in readers)
    assert [reader.level for reader in readers] == [0, 1, 2]
    assert [level.width_us // MINUTE for level in exchange.levels] == [1, 5, 60]
    assert exchange.input.window == Tumble(MINUTE)


def test_windows_of_one_plan_share_too():
    nodes = {"a": window_aggregate(Tumble(MINUTE)), "b": window_aggregate(Tumble(2 * MINUTE))}
    union = exp.maybe_parse("SELECT * FROM a UNION ALL SELECT * FROM b")
    [plan], _ = share(SqlQuery(nodes["a"].schema, union, tuple(nodes.items())))
    first, second = (exchange_below(node) for node in plan.inputs)
    assert first.input is second.input


def test_a_single_window_keeps_its_exchange_and_the_plan_is_the_same_object():
    plan = window_aggregate(Tumble(MINUTE))
    [after], notes = share(plan)
    assert after is plan
    assert notes == [[]]


def test_aggregates_that_several_windows_have_are_computed_once():
    after, _ = share(
        window_aggregate(Tumble(MINUTE), call("SUM", "x", "s"), call("MAX", "y", "m")),
        window_aggregate(Tumble(2 * MINUTE), call("SUM", "y", "s"), call("SUM", "x", "t")),
    )
    first, second = (exchange_below(plan) for plan in after)
    local = first.input.input
    assert isinstance(local, LocalWindowAggregate)
    computed = {p.name: to_sql(p.expr) for plan in local.plans for p in plan.partials}
    assert computed == {"s$0": "SUM(`x`)", "m$0": "MAX(`y`)", "s$0_2": "SUM(`y`)"}
    # Each window keeps its own names.
    assert dict(first.columns) == {"k": "k", "$slice_end": "$slice_end", "s$0": "s$0", "m$0": "m$0"}
    assert [pair for pair in second.columns if "$0" in pair[0]] == [
        ("s$0_2", "s$0"),
        ("s$0", "t$0"),
    ]


def test_the_columns_that_any_window_needs_are_read():
    def pruned(*names):
        columns = tuple(c for c in COLUMNS if c.name in names)
        return Project(columns, TABLE, tuple(NamedExpr(c.name, column(c.name)) for c in columns))

    after, _ = share(
        window_aggregate(Tumble(MINUTE), over=pruned("ts", "k", "x")),
        window_aggregate(Tumble(2 * MINUTE), call("MAX", "y", "m"), over=pruned("ts", "k", "y")),
    )
    read = exchange_below(after[0]).input.input.input
    assert [c.name for c in read.schema] == ["ts", "k", "x", "y"]


def test_keys_may_have_another_order():
    after, _ = share(
        window_aggregate(Tumble(MINUTE), keys=("k", "j")),
        window_aggregate(Tumble(MINUTE), keys=("j", "k")),
    )
    second = exchange_below(after[1])
    assert second.input.keys == ("k", "j")
    assert second.columns[:2] == (("j", "j"), ("k", "k"))


def test_windows_with_other_keys_conditions_or_times_are_not_shared():
    plans = [
        window_aggregate(Tumble(MINUTE)),
        window_aggregate(Tumble(MINUTE), keys=("j",)),
        window_aggregate(Tumble(MINUTE), over=filter_node("x > 0")),
        window_aggregate(Tumble(MINUTE), time="other_ts"),
    ]
    after, notes = share(*plans)
    assert all(isinstance(exchange_below(plan), Exchange) for plan in after)
    others = "the other windows over t"
    assert notes == [
        [f"{others} have other keys"],
        [f"{others} have other keys"],
        [f"{others} have other conditions"],
        [f"{others} have another time column"],
    ]


def test_the_same_conditions_in_another_order_are_the_same():
    orders = filter_node("x > 0", filter_node("y > 0")), filter_node("y > 0", filter_node("x > 0"))
    after, notes = share(*(window_aggregate(Tumble(MINUTE), over=over) for over in orders))
    assert notes == [[None], [None]]
    conditions = exchange_below(after[0]).input.input.input.input
    assert [to_sql(c) for c in conditions.conjuncts] == ["y > 0", "x > 0"]


def test_windows_over_other_tables_are_not_spoken_of():
    other = TableScan(COLUMNS, "u", exp.select("*").from_("u"))
    _, notes = share(window_aggregate(Tumble(MINUTE)), window_aggregate(Tumble(MINUTE), over=other))
    assert notes == [[], []]


def test_a_window_that_needs_very_fine_slices_is_not_shared():
    after, notes = share(
        window_aggregate(Tumble(MINUTE)),
        window_aggregate(Tumble(61_000_000)),
        window_aggregate(Tumble(60 * MINUTE)),
    )
    assert isinstance(exchange_below(after[0]), SharedSlices)
    assert isinstance(exchange_below(after[2]), SharedSlices)
    assert notes == [
        [None],
        ["the slices shared with the other windows would be 1 s wide"],
        [None],
    ]


def test_windows_over_windows_share_on_both_floors():
    inner = window_aggregate(Tumble(MINUTE))
    renamed = tuple(
        Column("ts" if c.name == "window_end" else c.name, c.type) for c in inner.schema
    )
    items = tuple(
        NamedExpr(new.name, column(old.name))
        for new, old in zip(renamed, inner.schema, strict=True)
    )
    above = Project(renamed, inner, items)
    calls = (call("MAX", "s", "m"),)
    after, notes = share(
        window_aggregate(Hop(5 * MINUTE, 10 * MINUTE), *calls, over=above),
        window_aggregate(Hop(10 * MINUTE, 30 * MINUTE), *calls, over=above),
        window_aggregate(Tumble(2 * MINUTE)),
    )
    assert notes == [[None, None], [None, None], [None]]
    upper = exchange_below(after[0]).input
    assert upper is exchange_below(after[1]).input
    lower = exchange_below(after[2]).input
    assert exchange_below(upper.input.input.input).input is lower
    assert {upper.number, lower.number} == {1, 2}
