"""Which INSERTs of a set over streams share slices, and the EXPLAIN of their stream."""

import pytest
from sqlglot import exp

from planner.catalog import StreamTable
from planner.explain.streams import explain_reader, explain_shared
from planner.lowering.stream.statement_set import (
    lower_stream_set,
    shared_below,
    shared_stream_groups,
)
from planner.nodes.logical import (
    AttachedWindow,
    Filter,
    NamedExpr,
    Project,
    SqlQuery,
    TableScan,
    WindowRank,
)
from planner.nodes.physical import SharedExchange
from planner.optimizer import Options, Trace
from planner.rules.share_window_slices import share_window_slices
from planner.sql.build import column
from planner.streams.sharing import MAX_READERS
from runtime.plan.nodes import BatchWindowsStep, SqlStep
from runtime.spec.stream import LATE_ROW
from runtime.spec.table import Column, Watermark
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.session import SessionWindow
from runtime.windows.tumble import Tumble
from tests.planner.catalog import Catalog
from tests.planner.rules.test_share_window_slices import (
    COLUMNS,
    MINUTE,
    call,
    filter_node,
    window_aggregate,
)

HOUR = 60 * MINUTE
WATERMARK = Watermark("ts", "ts - INTERVAL '5' SECOND")


def streams(late_rows=None):
    """Return the streams `t`, `u` and `clock`, whose `ts` is processing time; `names` is bounded."""
    return Catalog(
        StreamTable("t", WATERMARK, late_rows=late_rows),
        StreamTable("u", WATERMARK),
        StreamTable("clock", None, frozenset({"ts"})),
        columns=COLUMNS,
    )


CATALOG = streams()


def scan(name):
    return TableScan(COLUMNS, name, exp.select("*").from_(name))


def share(*plans, apart=(), catalog=None):
    """Return (plans after the rule, the rule's last note for each plan)."""
    traces = [Trace() for _ in plans]
    options = Options(catalog=catalog or CATALOG)
    after = share_window_slices(plans, traces, options, apart)
    return after, [[entry.reason for entry in trace.entries][-1:] for trace in traces]


def names_in(plan):
    """Return windows with a filter and new names, as from HAVING and a select list."""
    kept = Filter(plan.schema, plan, (exp.maybe_parse("s > 1"),))
    text = exp.select("*").from_("below")
    return SqlQuery(plan.schema, text, (("below", kept),))


def test_inserts_over_one_stream_share_common_slices():
    after, notes = share(
        window_aggregate(Tumble(10 * MINUTE)),
        names_in(window_aggregate(Hop(15 * MINUTE, HOUR), call("MAX", "y", "m"))),
        window_aggregate(Cumulate(20 * MINUTE, 2 * HOUR)),
    )
    assert notes == [[None], [None], [None]]
    first, second, third = (shared_below(plan, CATALOG) for plan in after)
    assert isinstance(first, SharedExchange)
    assert first is second is third
    # the state computes wider slices, so only one level is exchanged
    assert [level.width_us for level in first.levels] == [5 * MINUTE]
    assert first.input.window == Tumble(5 * MINUTE)
    assert shared_stream_groups(after, CATALOG) == [[0, 1, 2]]


def test_inserts_are_grouped_by_their_streams():
    after, notes = share(
        window_aggregate(Tumble(MINUTE)),
        window_aggregate(Tumble(MINUTE), over=scan("u")),
        window_aggregate(SessionWindow(MINUTE, ("k",))),
        window_aggregate(Hop(MINUTE, 5 * MINUTE)),
        window_aggregate(Tumble(MINUTE), keys=("j",)),
        window_aggregate(Tumble(MINUTE), over=filter_node("x > 0")),
        window_aggregate(Tumble(MINUTE, 1)),
    )
    assert shared_stream_groups(after, CATALOG) == [[0, 3], [1], [2], [4], [5], [6]]
    assert notes == [
        [None],
        ["the other INSERTs read different rows"],
        ["its slices have different widths"],
        [None],
        ["the other windows over t have other keys"],
        ["the other windows over t have other conditions"],
        ["the slices shared with the other windows would be 1 us wide"],
    ]


def ranked(plan):
    attached = AttachedWindow(plan.input.window, None, "window_end", None)
    schema = (*plan.schema, Column("rn", "int"))
    order = (exp.Ordered(this=column("s"), desc=True),)
    keys = ("window_end",)
    return WindowRank(schema, plan, attached, "ROW_NUMBER", 1, 3, keys, (), order, "rn")


def rows_above(plan):
    """Return the windows of a plan as rows with a time."""
    names = {"window_end": "ts"}
    schema = tuple(Column(names.get(c.name, c.name), c.type) for c in plan.schema)
    items = tuple(NamedExpr(names.get(c.name, c.name), column(c.name)) for c in plan.schema)
    return Project(schema, plan, items)


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (
            ranked(window_aggregate(Tumble(MINUTE))),
            "the INSERT applies rankings such as ROW_NUMBER to its windows",
        ),
        (
            window_aggregate(Cumulate(MINUTE, HOUR, emit_only_on_update=True)),
            "are emitted on updates only",
        ),
        (
            window_aggregate(
                Tumble(HOUR),
                call("MAX", "s", "m"),
                over=rows_above(window_aggregate(Tumble(MINUTE))),
                keys=(),
            ),
            "the input is a stream of other windows",
        ),
    ],
    ids=["top n", "on update", "cascade"],
)
def test_an_insert_with_its_own_stream_gives_the_reason(plan, reason):
    other = window_aggregate(Hop(MINUTE, 5 * MINUTE))
    after, notes = share(plan, other)
    assert shared_stream_groups(after, CATALOG) == [[0], [1]]
    assert reason in notes[0][0]


def test_processing_time_updates_and_bounded_tables_keep_streams_apart():
    on_processing_time = [
        window_aggregate(w, over=scan("clock")) for w in (Tumble(MINUTE), Tumble(HOUR))
    ]
    pair = [window_aggregate(Tumble(MINUTE)), window_aggregate(Tumble(HOUR))]
    at_rest = window_aggregate(Tumble(MINUTE), over=scan("names"))
    for result, reason in (
        (share(*on_processing_time), "the windows of the stream use processing time"),
        (share(*pair, apart=("it goes elsewhere", None)), "it goes elsewhere"),
        (
            share(*pair, at_rest),
            "the input is a stream, but other INSERTs of the set read none",
        ),
    ):
        after, notes = result
        assert all(len(group) == 1 for group in shared_stream_groups(after, CATALOG))
        assert notes[0] == [reason]


def test_windows_with_side_outputs_share_slices_and_send_whole_rows():
    catalog = streams(late_rows="too_late")
    after, notes = share(
        window_aggregate(Tumble(MINUTE)), window_aggregate(Tumble(HOUR)), catalog=catalog
    )
    assert notes == [[None], [None]]
    step = lower_stream_set(after, ["minutes", "hours"], catalog, "UTC").shared
    assert (step.input.mode.late_rows, step.input.mode.carries_late_rows) == ("too_late", True)
    assert LATE_ROW in step.input.source.input.sql
    lines = explain_shared(step, 1, 8, "min").splitlines()
    assert lines[-1] == "    state read per window: all its slices"
    assert lines[-2] == "    slice store: plain, because a window is one slice"
    assert lines[-3].endswith(
        "rows that arrive later are late; late rows are counted and written to too_late"
    )


def test_shared_slices_of_streams_may_not_be_much_finer():
    windows = Hop(HOUR, 24 * HOUR), Hop(HOUR, 24 * HOUR, 10 * MINUTE)
    assert shared_stream_groups(share(*map(window_aggregate, windows))[0], CATALOG) == [[0], [1]]
    tables = [window_aggregate(window, over=scan("names")) for window in windows]
    after, notes = share(*tables)
    assert notes == [[None], [None]]
    # INSERTs of a batch are not on a stream
    assert shared_stream_groups(after, CATALOG) == [[0], [1]]


def test_no_more_windows_share_a_stream_than_it_can_tell_apart():
    plans = [window_aggregate(Tumble(MINUTE)) for _ in range(MAX_READERS + 3)]
    groups = shared_stream_groups(share(*plans)[0], CATALOG)
    assert sorted(map(len, groups)) == [3, MAX_READERS]


def test_each_insert_computes_its_rows_of_the_windows_of_a_micro_batch():
    after, _ = share(
        window_aggregate(Tumble(MINUTE)),
        names_in(window_aggregate(Hop(MINUTE, 5 * MINUTE), call("SUM", "x", "t"))),
    )
    steps = lower_stream_set(after, ["a", "b"], CATALOG, "UTC")
    assert [reader.name for reader in steps.shared.readers] == ["a", "b"]
    assert [reader.slices for reader in steps.shared.readers] == [Tumble(MINUTE)] * 2
    # the same sum is computed once, and keeps both names
    assert [partial.columns for partial in steps.shared.input.source.partials] == [("s$0",)]
    assert dict(steps.shared.readers[1].columns)["s$0"] == "t$0"
    assert steps.shared.readers[1].aggregation.window == Hop(MINUTE, 5 * MINUTE)
    for number, step in enumerate(steps.results):
        assert isinstance(step, SqlStep)
        assert step.inputs == (BatchWindowsStep(number),)
    assert "`s` > 1" in steps.results[1].sql or "s > 1" in steps.results[1].sql


def test_explain_shows_the_stream_once_and_who_reads_it():
    after, _ = share(
        window_aggregate(Tumble(MINUTE)),
        window_aggregate(Hop(MINUTE, HOUR), call("MAX", "y", "m")),
        window_aggregate(Cumulate(10 * MINUTE, HOUR)),
    )
    steps = lower_stream_set(after, ["minutes", "moving", "hours"], CATALOG, "UTC")
    assert (
        explain_shared(steps.shared, shared_below(after[0], CATALOG).number, 4, "min") == EXPLAINED
    )
    assert explain_reader(1, "minutes") == (
        "== Stream ==\nshares the stream of INSERT INTO minutes (reuse_id=[1])\n"
    )


EXPLAINED = """\
== Stream ==
SharedWindowOperator(reuse_id=[1], inserts=[minutes, moving, hours]):
  one stream for all INSERTs: it reads the source once and stores each slice once
  watermark: from t; never decreases
  key groups: 4, by k
  state: one partial per key and live slice of 1 min, merged into wider slices once only \
wider windows need it: k, $slice_end, s$0, m$0
  a window is emitted when the watermark reaches its end
  minutes: TUMBLE(time_col=[ts], size=[1 min]): rows that arrive later are late; late \
rows are dropped and counted
    slice store: plain, because a window is one slice
  moving: HOP(time_col=[ts], size=[1 h], slide=[1 min]): a row is late once all windows of its \
slice are emitted; late rows are dropped and counted
    slice store: running aggregates, because each slice is in 60 windows
    state read per window: three partials per key, from running aggregates; with few rows, \
all its slices
  hours: CUMULATE(time_col=[ts], max_size=[1 h], step=[10 min]): a row is late once all windows of \
its slice are emitted; late rows are dropped and counted
    slice store: plain, because closed steps are merged into one slice
    state read per window: the running total and the last step
"""
