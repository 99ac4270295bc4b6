"""Exactly the rows that are late for all their windows leave the operator unchanged."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from runtime.local.stage import BufferPlan
from runtime.local.streaming.messages import LateCandidates, LateRows, Partials, SourceProgress
from runtime.local.streaming.stage import LocalPlan, LocalTask
from runtime.spec.aggregates import Merge, MergeOp
from runtime.spec.stream import FINAL_US, KEEP, LATE_ROW, SOURCE, TIME, WATERMARK
from runtime.streaming.operators.base import KeyGroupSpec, MicroBatch, Status
from runtime.streaming.operators.firing import UpdateRules
from runtime.streaming.operators.window import WindowOperator, WindowSpec
from runtime.streaming.slices.levels import one_reader
from runtime.streaming.watermarks import closed_until_us
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from tests.reference import windows_of
from tests.runtime.streaming.model import (
    KEYS,
    MS,
    PARTIALS,
    SCHEMA,
    Memory,
    aggregation,
    decode_messages,
    slice_store,
)

S = 1000 * MS
WINDOWS = [
    Tumble(10 * S),
    Tumble(7 * S, -3 * S),
    Hop(5 * S, 20 * S),
    Hop(10 * S, 4 * S),
    Cumulate(10 * S, 60 * S),
    Cumulate(3 * S, 12 * S, 5 * S),
]


class Stream:
    """Local stage and operator of one key group over one state; times in ms.

    The local stage knows the closed windows before each micro-batch, or nothing.
    """

    def __init__(self, window, lateness=0, *, knows=True):
        accumulators = (*PARTIALS, Merge(("$rows",), MergeOp.COUNT))
        self.plan = LocalPlan(
            BufferPlan(
                window, KEYS, "$slice_end", accumulators, ((), ("value",), ("value",), ()),
                (None,) * 4, SCHEMA,
            ), 1, (0,), (0,), keeps_late_rows=True,
        )  # fmt: skip
        updates = UpdateRules(lateness * MS, None, None) if lateness else None
        self.spec = WindowSpec(
            one_reader(aggregation(window), PARTIALS, store=slice_store(window, updates)),
            KeyGroupSpec(1),
            updates,
        )
        self.lateness = lateness
        self.knows = knows
        self.store = Memory()
        self.watermark = None
        self.n_late = 0
        self.n_carried = 0

    def micro_batch(self, rows, watermark):
        """Return late rows of (key, time, value), each with the watermark that it missed."""
        closed = FINAL_US
        if self.knows:
            before = None if self.watermark is None else self.watermark * MS
            closed_us = closed_until_us(before, self.lateness * MS)
            closed = -FINAL_US if closed_us is None else closed_us
        partials, candidates = [], []
        for _, message in decode_messages(LocalTask(self.plan, closed).run([_batch(rows)])):
            match message:
                case Partials(table):
                    partials.append(table)
                case LateCandidates(table):
                    candidates.append(table)
        self.n_carried += sum(table.num_rows for table in candidates)
        mark = None if watermark is None else watermark * MS
        progress = [] if mark is None else [SourceProgress(0, mark, mark, len(rows))]
        result = []
        batch = MicroBatch(partials, progress, candidates=candidates)
        for out in (o.result for o in WindowOperator(self.spec, self.store).process(batch)):
            if isinstance(out, LateRows):
                assert out.rows.column_names == [LATE_ROW]
                missed = out.watermark_us // MS
                result += [(*r.values(), missed) for r in out.rows.column(0).to_pylist()]
            if isinstance(out, Status):
                self.n_late += out.n_late
                combined = out.watermarks.combined_us
                self.watermark = None if combined is None else combined // MS
        return sorted(result)


def _batch(rows):
    keys, times, values = zip(*rows, strict=True) if rows else ((), (), ())
    n_rows = len(rows)
    columns = {
        KEEP: pa.array([True] * n_rows, pa.bool_()),
        SOURCE: pa.array([0] * n_rows, pa.int32()),
        WATERMARK: pa.nulls(n_rows, pa.int64()),
        TIME: pa.array(np.array(times, np.int64) * MS),
        "key": pa.array(keys, pa.string()),
        "value": pa.array(values, pa.int64()),
    }
    raw = [columns["key"], pa.array(times, pa.int64()), columns["value"]]
    columns[LATE_ROW] = pa.StructArray.from_arrays(raw, ["who", "when", "what"])
    return pa.RecordBatch.from_pydict(columns)


def test_only_late_rows_are_sent_raw_if_the_watermark_is_known():
    stream = Stream(Tumble(10 * S))
    for second in range(100):
        stream.micro_batch([("a", second * 1000, 1), ("a", 0, 1)], second * 1000)
    # from the row at 11 s on, after the previous micro-batch reached 10 s
    assert stream.n_carried == stream.n_late == 89


# often the first or the last millisecond of a window
TIMES = st.integers(-20, 90).map(lambda s: s * 1000) | st.integers(-20, 90).map(
    lambda s: s * 1000 - 1
)
TIMES = TIMES | st.integers(-20_000, 90_000)


@given(
    window=st.sampled_from(WINDOWS),
    lateness=st.sampled_from([0, 1, 8000]),
    knows=st.booleans(),
    script=st.lists(
        st.tuples(
            st.lists(
                st.tuples(st.sampled_from("ab"), TIMES, st.integers(0, 9)),
                max_size=6,
            ),
            st.none() | TIMES,
        ),
        max_size=6,
    ),
)
def test_rows_are_late_if_all_their_windows_are_closed(window, lateness, knows, script):
    stream = Stream(window, lateness, knows=knows)
    watermark = None
    n_late = 0
    for rows, mark in script:
        expected = []
        for row in rows:
            ends = [end for _, end in windows_of(window, row[1], MS)]
            if ends and watermark is not None and watermark - lateness >= max(ends) - 1:
                expected.append((*row, watermark))
        assert stream.micro_batch(rows, mark) == sorted(expected)
        n_late += len(expected)
        if mark is not None:
            watermark = mark if watermark is None else max(mark, watermark)
    assert stream.n_late == n_late


def test_a_late_row_of_an_operator_below_passes_without_a_watermark():
    stream = Stream(Tumble(10 * S))
    plan = replace(stream.plan, keeps_late_rows=False, carries_late_rows=True)
    # a result, a row with the watermark of the operator below, two rows that were late for it
    batch = _batch([("a", 1000, 1), ("a", 0, 0), ("b", 2000, 2), ("c", 3000, 3)])
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns[KEEP] = pa.array([True, False, False, False])
    columns[TIME] = pa.array([1_000_000, None, None, None], pa.int64())
    columns[WATERMARK] = pa.array([None, 5, 90, 80], pa.int64())
    has_one = pa.array([False, False, True, True])
    columns[LATE_ROW] = pc.if_else(has_one, columns[LATE_ROW], None)
    stage = LocalTask(plan).run([pa.RecordBatch.from_pydict(columns)])
    messages = [message for _, message in decode_messages(stage)]
    passing = [item for item in messages if isinstance(item, LateRows)]
    assert {item.watermark_us: item.rows.to_pylist() for item in passing} == {
        90: [{LATE_ROW: {"who": "b", "when": 2000, "what": 2}}],
        80: [{LATE_ROW: {"who": "c", "when": 3000, "what": 3}}],
    }
    (partials,) = (item for item in messages if isinstance(item, Partials))
    assert partials.rows.column("$rows").to_pylist() == [1]
    assert messages[-1:] == [SourceProgress(0, 5, 5, 1)]
    assert len(messages) == 4
