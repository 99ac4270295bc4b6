"""The state of streams in EXPLAIN."""

import pytest

from planner.explain.streams import explain_stream
from tests.end_to_end.streams.queries import QUERIES
from tests.end_to_end.streams.streams import Streams

SCHEMA = "ts timestamp_ntz, lts timestamp, k string, v bigint"


@pytest.fixture
def streams(fresh_session, tmp_path):
    return Streams(fresh_session, tmp_path)


def test_explain_shows_operators_without_state(streams):
    streams.table("events", SCHEMA, "ts")
    for name, head in (
        ("top n", "WindowRank(partitionBy=[window_start, window_end], ranks=[RANK 1 to 2]):"),
        ("the item with the most, by a join of windows", "WindowRank(partitionBy=["),
        ("the same window again, and a wider one behind it", "WindowRegroup(groupBy=["),
        ("a full join of windows", "WindowJoin(joinType=[FullOuter], on=["),
    ):
        lines = explain_stream(streams.step(QUERIES[name]), 8, "min").splitlines()
        (result,) = [n for n, line in enumerate(lines) if line.startswith(head)]
        assert lines[result + 1] == "  no state: all results of a window arrive in one micro-batch"


def test_explain_shows_the_state_and_the_watermark_of_a_stream(streams):
    streams.table("events", SCHEMA, "ts")
    text = explain_stream(streams.step(QUERIES["cascade"]), 8, "min")
    assert text == (
        "== Stream ==\n"
        "StreamWindowOperator(number=[0], window=[TUMBLE(time_col=[ts], size=[30 s])]):\n"
        "  watermark: from events; never decreases\n"
        "  key groups: 8, by k\n"
        "  state: one partial per key and open window: k, $slice_end, n$0, s$0\n"
        "  slice store: plain, because a window is one slice\n"
        "  a window is emitted when the watermark reaches its end; rows that arrive later are "
        "late; late rows are dropped and counted\n"
        "StreamWindowOperator(number=[1], window=[TUMBLE(time_col=[t], size=[5 min])]):\n"
        "  watermark: from window operator 0; never decreases\n"
        "  key groups: 1, because the query has no keys\n"
        "  state: one partial per key and open window: $slice_end, $agg0$0, $agg1$0\n"
        "  slice store: plain, because a window is one slice\n"
        "  a window is emitted when the watermark reaches its end; rows that arrive later are "
        "late; late rows are dropped and counted\n"
    )
