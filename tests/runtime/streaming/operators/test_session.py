"""The session operator micro-batch by micro-batch: emitted sessions and late rows."""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.compute.buffer import BufferRows, WindowBuffer
from runtime.local.streaming.messages import EndOfInput, SourceProgress
from runtime.spec.aggregates import Merge, MergeOp, WindowAggregation
from runtime.spec.stream import FINAL_US
from runtime.spec.thresholds import Thresholds
from runtime.streaming.operators.base import KeyGroupSpec, MicroBatch, Status
from runtime.streaming.operators.buckets import MemoryBound
from runtime.streaming.operators.session import SessionOperator, SessionSpec
from runtime.streaming.state.partial_columns import StateColumns
from runtime.streaming.state.table_cache import CACHE
from runtime.windows.session import SessionWindow
from runtime.windows.times import FIRST_TIME, LAST_TIME
from tests.marks import among
from tests.runtime.streaming.model import MS, Memory, outputs

GAP = 10
PARTIALS = (
    Merge(("n",), MergeOp.COUNT),
    Merge(("largest",), MergeOp.MAX),
    Merge((FIRST_TIME,), MergeOp.MIN),
    Merge((LAST_TIME,), MergeOp.MAX),
)
NAMES = ("$slice_end", "n", "largest", FIRST_TIME, LAST_TIME, "$rows")
SCHEMA = pa.schema([("key", pa.string()), ("page", pa.string()), *((n, pa.int64()) for n in NAMES)])


def partials(window, rows):
    """Return rows (key, page, time in ms, value) as the local stage aggregates them."""
    if not rows:
        return []
    accumulators = (*PARTIALS, Merge(("$rows",), MergeOp.COUNT))
    buffer = WindowBuffer(
        window.cells, ("key", "page"), "$slice_end", accumulators, SCHEMA, 1 << 20
    )
    keys, pages, times, values = zip(*rows, strict=True)
    time_us = np.array(times, np.int64) * MS
    value, time = pa.array(values, pa.int64()), pa.array(time_us)
    columns = BufferRows(
        time_us,
        [pa.array(keys, pa.string()), pa.array(pages, pa.string())],
        [[], [value], [time], [time], []],
        [None] * 5,
    )
    return [*buffer.add(columns), *buffer.flush()]


@dataclass
class Stream:
    """An operator that is recreated for every micro-batch over one state; times in ms."""

    partition: tuple = ("key",)
    store: Memory = field(default_factory=Memory)
    status: Status | None = None
    n_late: int = 0
    is_processing_time: bool = False
    bound: MemoryBound | None = None
    thresholds: Thresholds = field(default_factory=Thresholds)

    def micro_batch(self, rows=(), watermark=None):
        """Return {(key, page, start, end, n, largest)}."""
        window = SessionWindow(GAP * MS, self.partition)
        aggregation = WindowAggregation(window, ("key", "page"), "$slice_end", PARTIALS[:2])
        spec = SessionSpec(
            aggregation,
            StateColumns(("key", "page"), "$slice_end", PARTIALS),
            KeyGroupSpec(
                1, by=None if self.bound is None else self.partition, thresholds=self.thresholds
            ),
            self.is_processing_time,
        )
        us = FINAL_US if watermark == "end" else watermark and watermark * MS
        progress = []
        if watermark is not None:
            progress = [EndOfInput() if us == FINAL_US else SourceProgress(0, us, us, 1)]
        batch = MicroBatch(partials(window, list(rows)), progress)
        actual = [output.result for output in outputs(SessionOperator, spec, self, batch)]
        *sessions, self.status = actual
        self.n_late += self.status.n_late
        actual = [tuple(row.values()) for output in sessions for row in output.to_pylist()]
        result = {(k, p, _ms(start), _ms(end), n, m) for k, p, start, end, n, m in actual}
        assert len(result) == len(actual)
        return result


def _ms(time):
    return int(np.datetime64(time, "ms").astype(int))


def test_results_are_not_late_by_the_watermark_received_before_them():
    stream = Stream()
    stream.micro_batch([("a", "x", 0, 1)], 9)
    assert (
        stream.status.emitted_us < 9 * MS
    )  # the session's window_time, at which a row may still come
    assert stream.status.watermarks.combined_us == 9 * MS
    assert stream.micro_batch([], 10) == {("a", "x", 0, 10, 1, 1)}
    assert stream.status.emitted_us == 9 * MS
    stream.micro_batch([], "end")
    assert stream.status.emitted_us == FINAL_US


def test_a_clock_set_back_makes_no_row_late():
    stream = Stream(is_processing_time=True)
    assert stream.micro_batch([("a", "x", 20, 1)], 19) == set()
    assert stream.micro_batch([], 40) == {("a", "x", 20, 30, 1, 1)}
    stream.micro_batch([("a", "x", 7, 2), ("a", "x", 8, 3)], 7)
    assert stream.micro_batch([], 60) == {("a", "x", 41, 51, 2, 3)}
    assert stream.n_late == 0


def test_state_is_read_only_when_a_session_may_end():
    stream = Stream()
    for i in range(10):
        stream.micro_batch([("a", "x", 100 + i, i)], 50)
    before = stream.store.n_gets
    stream.micro_batch([], 60)
    assert stream.store.n_gets == before + 1  # the operator's metadata, and no partials
    for i in range(40):
        stream.micro_batch([("a", "x", 110 + i, i)], 60)
    assert stream.status.n_rows <= 17
    assert stream.micro_batch([], "end") == {("a", "x", 100, 159, 50, 39)}


class Model:
    """The rules in plain Python; rows of a micro-batch arrive together."""

    def __init__(self, partition):
        self.places = [("key", "page").index(name) for name in partition]
        self.open = []
        self.watermark = -(10**9)
        self.n_late = 0

    def micro_batch(self, rows, watermark):
        closed = self.watermark
        partitions = defaultdict(list)
        for row in self.open + rows:
            partitions[tuple(row[place] for place in self.places)].append(row)
        self.watermark = max(self.watermark, watermark)
        self.open, out = [], set()
        for members in partitions.values():
            members.sort(key=lambda row: row[2])
            session = []
            for row in [*members, (None, None, 10**12, 0)]:
                if session and row[2] - session[-1][2] > GAP:
                    out |= self.ended(session, closed)
                    session = []
                session.append(row)
        return out

    def ended(self, session, closed):
        start, end = session[0][2], session[-1][2] + GAP
        if closed >= end:
            self.n_late += len(session)
            return set()
        if self.watermark < end:
            self.open += session
            return set()
        groups = defaultdict(list)
        for key, page, _, value in session:
            groups[(key, page)].append(value)
        return {(k, p, start, end, len(vs), max(vs)) for (k, p), vs in groups.items()}


# often exactly a gap apart, and a watermark at the end of a session
times = st.integers(-4, 16).map(lambda n: n * GAP) | st.integers(-40, 160)
batches = st.lists(
    st.tuples(
        st.lists(
            st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), times, st.integers(0, 9)),
            max_size=8,
        ),
        times,
    ),
    max_size=8,
)


@given(batches, st.sampled_from([("key",), ("key", "page"), ()]))
def test_the_operator_equals_the_model(script, partition):
    stream, model = Stream(partition), Model(partition)
    for rows, watermark in script:
        assert stream.micro_batch(rows, watermark) == model.micro_batch(rows, watermark)
        assert stream.n_late == model.n_late
    assert stream.micro_batch([], "end") == model.micro_batch([], 10**9)
    assert (stream.status.n_rows, len(stream.store.blobs)) == (0, 1)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"), st.just("x"),
            # often exactly the gap apart
            st.integers(0, 6).map(lambda n: n * GAP) | st.integers(0, 60), st.integers(0, 9),
        ),
        max_size=30,
    ),
    st.data(),
)  # fmt: skip
def test_sessions_of_ordered_rows_do_not_depend_on_micro_batches(rows, data):
    rows.sort(key=lambda row: row[2])
    whole = Stream().micro_batch(rows, "end")
    stream, actual = Stream(), set()
    while rows:
        n_rows = data.draw(st.integers(1, 7))
        taken, rows = rows[:n_rows], rows[n_rows:]
        actual |= stream.micro_batch(taken, taken[-1][2] - 1)
    actual |= stream.micro_batch([], "end")
    assert actual == whole
    assert stream.n_late == 0


@pytest.mark.parametrize(
    "marks_and_runs",
    among([(1, 2), (4, 16), (4, 2), (1 << 22, 16)], slow=[(4, 2), (4, 16)]),
)
def test_open_sessions_in_many_chunks_are_the_same_sessions(marks_and_runs):
    n_marks, n_runs = marks_and_runs
    stream = Stream(thresholds=Thresholds(sessions_n_marks=n_marks, sessions_max_runs=n_runs))
    model, random = Model(("key",)), np.random.default_rng(n_marks + n_runs)
    partly = 0
    for now in range(0, 240, 3):
        if now % 4 == 0:
            CACHE.clear()
        times = now - random.integers(0, 12, 4) - 40 * (random.random(4) < 0.1)
        rows = [
            (f"k{random.integers(12)}", str(random.integers(2)), int(at), int(random.integers(9)))
            for at in times
        ]
        assert stream.micro_batch(rows, now - 5) == model.micro_batch(rows, now - 5)
        assert stream.n_late == model.n_late
        chunks = stream.store.contents.chunks
        partly += any(chunk[-1] for chunk in chunks)
        named = {name for chunk in chunks for name in (chunk[0], chunk[-1]) if name}
        assert set(stream.store.blobs) == named | {"metadata"}
        assert len({chunk[5] for chunk in chunks}) <= n_runs + 1
    assert stream.n_late > 0
    assert partly > 20 or n_marks < 5
    assert stream.micro_batch([], "end") == model.micro_batch([], 10**9)
    assert (stream.status.n_rows, len(stream.store.blobs)) == (0, 1)
    assert set(stream.store.blobs) == {"metadata"}


def test_writes_depend_on_the_sessions_that_may_end():
    written = {}
    for n_open in (200, 20_000):
        stream = Stream()
        stream.micro_batch([(f"k{n}", "x", 1000, 1) for n in range(n_open)], 900)
        stream.micro_batch([(f"j{n}", "x", 940, 1) for n in range(50)], 901)
        before = set(stream.store.blobs)
        assert len(stream.micro_batch([("n", "x", 1001, 1)], 955)) == 50
        new = set(stream.store.blobs) - before
        written[n_open] = sum(len(stream.store.blobs[name]) for name in new)
    assert written[20_000] < 2 * written[200]
