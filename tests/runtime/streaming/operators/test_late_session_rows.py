"""Exactly the rows that no open session accepts leave the session operator unchanged."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.compute.kernels.keys import bucket_of
from runtime.local.stage import BufferPlan
from runtime.local.streaming.messages import LateCandidates, LateRows, Partials, SourceProgress
from runtime.local.streaming.stage import LocalPlan, LocalTask
from runtime.spec.aggregates import Merge, MergeOp, WindowAggregation
from runtime.spec.stream import FINAL_US, KEEP, LATE_ROW, SOURCE, TIME, WATERMARK
from runtime.streaming.operators.base import KeyGroupSpec, MicroBatch, Status
from runtime.streaming.operators.session import SessionOperator, SessionSpec
from runtime.streaming.state.partial_columns import StateColumns
from runtime.streaming.watermarks import closed_until_us
from runtime.windows.session import SessionWindow
from runtime.windows.times import FIRST_TIME, LAST_TIME
from tests.runtime.streaming.model import MS, Memory, decode_messages

GAP = 10
KEYS = ("key", "page")
PARTIALS = (
    Merge(("n",), MergeOp.COUNT),
    Merge((FIRST_TIME,), MergeOp.MIN),
    Merge((LAST_TIME,), MergeOp.MAX),
)
NAMES = ("$slice_end", "n", FIRST_TIME, LAST_TIME, "$rows")
SCHEMA = pa.schema(
    [("key", pa.string()), ("page", pa.float64()), *((n, pa.int64()) for n in NAMES)]
)
GROUPS = (0, 1, 2)


class Stream:
    """Tasks and the operators of three key groups, each over its own state; times in ms.

    The tasks know the closed windows before each micro-batch, or nothing.
    """

    def __init__(self, partition=("key",), *, knows=True):
        window = SessionWindow(GAP * MS, partition)
        self.plan = LocalPlan(
            BufferPlan(
                window, KEYS, "$slice_end", (*PARTIALS, Merge(('$rows',), MergeOp.COUNT)),
                ((), (TIME,), (TIME,), ()), (None,) * 4, SCHEMA,
            ), 1, GROUPS, GROUPS, keeps_late_rows=True,
        )  # fmt: skip
        aggregation = WindowAggregation(window, KEYS, "$slice_end", PARTIALS[:1])
        self.spec = SessionSpec(
            aggregation, StateColumns(KEYS, "$slice_end", PARTIALS), KeyGroupSpec(1)
        )
        self.knows = knows
        self.stores = {group: Memory() for group in GROUPS}
        self.watermark = None
        self.n_late = 0
        self.n_carried = 0

    def micro_batch(self, rows, watermark=None):
        """Return late rows (key, page, time, value), each with the watermark that it missed."""
        closed = FINAL_US
        if self.knows:
            closed_us = closed_until_us(None if self.watermark is None else self.watermark * MS, 0)
            closed = -FINAL_US if closed_us is None else closed_us
        partials, candidates = defaultdict(list), defaultdict(list)
        # two tasks, so that rows of a session meet only in the operator
        for task in (rows[::2], rows[1::2]):
            for group, message in decode_messages(LocalTask(self.plan, closed).run([_batch(task)])):
                match message:
                    case Partials(table):
                        partials[group].append(table)
                    case LateCandidates(table):
                        candidates[group].append(table)
        mark = None if watermark is None else watermark * MS
        progress = [] if mark is None else [SourceProgress(0, mark, mark, len(rows))]
        result = []
        for group in GROUPS:
            self.n_carried += sum(table.num_rows for table in candidates[group])
            batch = MicroBatch(partials[group], progress, candidates=candidates[group])
            operator = SessionOperator(self.spec, self.stores[group])
            for out in (item.result for item in operator.process(batch)):
                if isinstance(out, LateRows):
                    assert out.rows.column_names == [LATE_ROW]
                    missed = out.watermark_us // MS
                    result += [(*r.values(), missed) for r in out.rows.column(0).to_pylist()]
                if isinstance(out, Status):
                    self.n_late += out.n_late
        if watermark is not None:
            self.watermark = max(watermark, self.watermark or watermark)
        return sorted(result, key=repr)


def _batch(rows):
    keys, pages, times, values = zip(*rows, strict=True) if rows else ((), (), (), ())
    n_rows = len(rows)
    time = pa.array(times, pa.int64())
    columns = {
        KEEP: pa.array([True] * n_rows, pa.bool_()),
        SOURCE: pa.array([0] * n_rows, pa.int32()),
        WATERMARK: pa.nulls(n_rows, pa.int64()),
        TIME: pa.array(np.array(times, np.int64) * MS),
        # in the order of file readers
        "key": pa.array(keys, pa.string()).dictionary_encode(),
        "page": pa.array(pages, pa.float64()),
    }
    raw = [columns["key"].dictionary_decode(), columns["page"], time, pa.array(values, pa.int64())]
    columns[LATE_ROW] = pa.StructArray.from_arrays(raw, ["who", "where", "when", "what"])
    return pa.RecordBatch.from_pydict(columns)


def test_a_row_without_an_open_session_has_the_missed_watermark():
    stream = Stream()
    assert stream.micro_batch([("a", 1.0, 20, 1)], 25) == []
    # the rows at 5 and 12 reach no open session; the session of 16 would end at 26
    rows = [("a", 1.0, 5, 2), ("b", 1.0, 12, 3), ("b", 1.0, 16, 4), ("c", 1.0, 12, 5)]
    assert stream.micro_batch(rows, 30) == [("a", 1.0, 5, 2, 25), ("c", 1.0, 12, 5, 25)]
    assert stream.n_late == 2


def test_a_late_row_near_an_open_session_joins_it():
    stream = Stream()
    stream.micro_batch([("a", 1.0, 30, 1)], 32)
    assert stream.micro_batch([("a", 1.0, 20, 2), ("a", 1.0, 10, 3)], 40) == []
    # after the session was emitted, a row between the two is late
    assert stream.micro_batch([("a", 1.0, 15, 4)], 41) == [("a", 1.0, 15, 4, 40)]


def test_a_row_is_late_if_its_session_ends_at_the_watermark():
    stream = Stream()
    stream.micro_batch([], 30)
    rows = [("a", 1.0, 20, 1), ("b", 1.0, 21, 2)]
    assert stream.micro_batch(rows, 31) == [("a", 1.0, 20, 1, 30)]


def test_rows_of_other_keys_of_a_partition_take_a_late_row_in():
    stream = Stream(("key",))
    stream.micro_batch([("a", 1.0, 20, 1)], 25)
    assert stream.micro_batch([("a", 2.0, 12, 2)], 25) == []
    everybody = Stream(())
    everybody.micro_batch([("a", 1.0, 20, 1)], 25)
    assert everybody.micro_batch([("b", 2.0, 12, 2), ("b", 2.0, 5, 3)], 25) == []
    assert everybody.micro_batch([("b", 2.0, -9, 4)], 25) == [("b", 2.0, -9, 4, 25)]


@pytest.mark.parametrize("page", [-0.0, float("nan"), None])
def test_late_rows_join_sessions_for_any_key_type(page):
    stream = Stream(("key", "page"))
    stream.micro_batch([("a", 0.0 if page == 0 else page, 20, 1)], 25)
    assert stream.micro_batch([("a", page, 12, 2)], 25) == []
    result = stream.micro_batch([("a", page, -5, 3)], 25)
    assert [row[2:] for row in result] == [(-5, 3, 25)]


@pytest.mark.long
def test_only_possibly_late_rows_are_sent_raw_if_the_watermark_is_known():
    stream = Stream()
    for second in range(0, 1000, 10):
        stream.micro_batch([("a", 1.0, second, 1), ("b", 1.0, -5, 1)], second)
    # from the micro-batch after 10 on, when only the session of -5 was over
    assert stream.n_carried == stream.n_late == 98


class Model:
    """The rule in plain Python: a row is late if its session ended by the previous watermark."""

    def __init__(self, partition):
        self.places = [KEYS.index(name) for name in partition]
        self.open = []
        self.watermark = None

    def micro_batch(self, rows, watermark):
        missed, late = self.watermark, []
        if watermark is not None:
            self.watermark = watermark if missed is None else max(watermark, missed)
        partitions = defaultdict(list)
        for row in self.open + rows:
            partitions[tuple(row[place] for place in self.places)].append(row)
        self.open = []
        for members in partitions.values():
            for session in _split_rows(sorted(members, key=lambda row: row[2])):
                end = session[-1][2] + GAP
                if missed is not None and end <= missed:
                    late += [(*row, missed) for row in session]
                elif self.watermark is None or end > self.watermark:
                    self.open += session
        return sorted(late, key=repr)


def _split_rows(rows):
    session = []
    for row in rows:
        if session and row[2] - session[-1][2] > GAP:
            yield session
            session = []
        session.append(row)
    yield session


@pytest.mark.long
@given(
    st.lists(
        st.tuples(
            st.lists(
                st.tuples(
                    st.sampled_from("abc"), st.sampled_from([0.0, 1.0]), st.integers(-40, 160),
                    st.integers(0, 9),
                ),
                max_size=8,
            ),
            st.none() | st.integers(-50, 170),
        ),
        max_size=8,
    ),
    st.sampled_from([("key",), ("key", "page"), ("page",), ()]),
    st.booleans(),
)  # fmt: skip
def test_late_rows_equal_the_counted_rows_of_closed_sessions(script, partition, knows):
    stream, model = Stream(partition, knows=knows), Model(partition)
    n_late = 0
    for rows, watermark in script:
        expected = model.micro_batch(rows, watermark)
        assert stream.micro_batch(rows, watermark) == expected
        n_late += len(expected)
    assert stream.n_late == n_late


def test_rows_go_to_the_key_group_of_their_partition():
    stream = Stream(("key",), knows=False)
    rows = [(key, 1.0, 0, 1) for key in "abcdefgh"]
    expected_rows = bucket_of([pa.array([row[0] for row in rows])], len(rows), len(GROUPS))
    for group, message in decode_messages(LocalTask(stream.plan, FINAL_US).run([_batch(rows)])):
        if isinstance(message, Partials | LateCandidates):
            keys = message.rows.column("key").to_pylist()
            assert {int(expected_rows["abcdefgh".index(key)]) for key in keys} == {group}
