"""One operator for several windows emits the same as one for each, from slices stored once."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.nodes.slice_levels import grid_of
from runtime.local.streaming.messages import SLICE_END, EndOfInput, LateRows, SourceProgress
from runtime.plan.streams import StreamReader
from runtime.spec.aggregates import Merge, MergeOp, WindowAggregation
from runtime.spec.stream import FINAL_US, LATE_ROW
from runtime.spec.thresholds import Thresholds
from runtime.streaming.operators.base import KeyGroupSpec, MicroBatch, Status
from runtime.streaming.operators.window import WindowOperator, WindowSpec
from runtime.streaming.slices.levels import SharedSpec, common_slices
from runtime.streaming.state.contents import blobs_of
from runtime.streaming.state.partial_columns import StateColumns
from runtime.streaming.state.table_cache import CACHE
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from tests.reference import windows_of
from tests.runtime.streaming.model import (
    KEYS,
    MS,
    NO_SPANS,
    PARTIALS,
    SPANS_FROM_THE_START,
    Memory,
    Model,
    Stream,
    outputs,
    partials,
    result_rows,
    slice_store,
)

S = 1000 * MS
SETS = [
    (Tumble(10 * S), Hop(10 * S, 50 * S), Cumulate(10 * S, 60 * S)),
    (Tumble(10 * S), Tumble(60 * S), Tumble(180 * S)),
    (Tumble(10 * S), Tumble(15 * S), Hop(20 * S, 60 * S, 5 * S)),
    (Cumulate(10 * S, 60 * S), Cumulate(5 * S, 30 * S), Cumulate(20 * S, 120 * S, 60 * S)),
    (Hop(3 * S, 10 * S, 1 * S), Tumble(6 * S)),
    (Hop(10 * S, 4 * S), Hop(20 * S, 40 * S), Cumulate(2 * S, 2 * S)),
    (Tumble(10 * S), Tumble(10 * S)),
    (Tumble(7 * S, -3 * S), Cumulate(7 * S, 70 * S, 4 * S), Hop(7 * S, 700 * S, 11 * S)),
]


def reader(name, window, numbers=(0, 1, 2)):
    """Return COUNT(*), SUM and MAX, or some of them, under the reader's names."""
    grid = grid_of(window)
    names = {"key": "k", "$slice_end": "$end", "n": "n", "total": "s", "largest": "m"}
    kept = [PARTIALS[i] for i in numbers]
    columns = ["key", "$slice_end", *(c for item in kept for c in item.columns)]
    renamed = tuple(replace(a, columns=tuple(names[c] for c in a.columns)) for a in kept)
    return StreamReader(
        name,
        WindowAggregation(window, ("k",), "$end", renamed),
        Tumble(grid.width_us, grid.offset_us),
        tuple((c, names[c]) for c in columns),
        slice_store(window),
    )


RAW = pa.struct([("k", pa.string()), ("at", pa.int64()), ("v", pa.int64())])


class Shared:
    """The shared operator, recreated for every micro-batch over one state."""

    def __init__(self, *windows, readers=None, thresholds=None):
        self.thresholds = thresholds or Thresholds()
        self.readers = readers or tuple(reader(str(i), w) for i, w in enumerate(windows))
        self.slices = common_slices(tuple(r.slices for r in self.readers))
        self.store = Memory()
        self.bound = None
        self.n_late = [0] * len(self.readers)
        # each reader's late rows, with the watermark that they missed
        self.late = [[] for _ in self.readers]
        self.status = []

    def micro_batch(self, rows=(), watermark=None):
        """Return the rows that each reader emits, sorted."""
        shared = SharedSpec(self.readers, StateColumns(KEYS, "$slice_end", PARTIALS))
        mark = None if watermark is None else watermark * MS
        progress = [] if mark is None else [SourceProgress(0, mark, mark, 1)]
        return self._process(self._spec(shared), rows, progress)

    def _process(self, spec, rows, progress):
        assigner = self.slices.assigner()
        times = np.array([row[1] for row in rows], np.int64) * MS
        raw = pa.array([dict(zip(("k", "at", "v"), row, strict=True)) for row in rows], RAW)
        every = pa.table({SLICE_END: assigner.slice_end(times), LATE_ROW: raw})
        batch = MicroBatch(partials(self.slices, list(rows)), progress, candidates=[every])
        result = [[] for _ in self.readers]
        self.status = []
        for output in outputs(WindowOperator, spec, self, batch):
            if isinstance(output.result, Status):
                assert output.reader == len(self.status)
                self.status.append(output.result)
                self.n_late[output.reader] += output.result.n_late
            elif isinstance(output.result, LateRows):
                missed = output.result.watermark_us // MS
                late = output.result.rows.column(LATE_ROW).to_pylist()
                self.late[output.reader] += [(*row.values(), missed) for row in late]
            else:
                result[output.reader] += result_rows(output.result)
        return [sorted(rows) for rows in result]

    def end(self):
        """End the input."""
        shared = SharedSpec(self.readers, StateColumns(KEYS, "$slice_end", PARTIALS))
        return self._process(self._spec(shared), [], [EndOfInput()])

    def _spec(self, shared):
        return WindowSpec(shared, KeyGroupSpec(1, by=KEYS, thresholds=self.thresholds))

    @property
    def n_rows(self):
        """Return the number of partials in state."""
        return sum(status.n_rows for status in self.status)


keys = st.sampled_from("ab")
rows = st.lists(st.tuples(keys, st.integers(-200_000, 200_000), st.integers(-5, 5)), max_size=15)
watermarks = st.one_of(st.none(), st.integers(-220_000, 220_000))


@pytest.mark.variants(1)
@pytest.mark.parametrize("windows", SETS, ids=str)
@given(batches=st.lists(st.tuples(rows, watermarks), max_size=8))
@settings(max_examples=20, deadline=None)
def test_every_reader_equals_the_row_by_row_model(windows, batches):
    shared, models = Shared(*windows), [Model(window) for window in windows]
    late, before = [[] for _ in windows], None
    for some, watermark in batches:
        result = shared.micro_batch(some, watermark)
        assert result == [sorted(model.micro_batch(some, watermark)) for model in models]
        for window, rows_of in zip(windows, late, strict=True):
            ends = [
                max((end for _, end in windows_of(window, at, MS)), default=None)
                for _, at, _ in some
            ]
            over = [before is not None and end is not None and end - 1 <= before for end in ends]
            rows_of += [(*row, before) for row, is_late in zip(some, over, strict=True) if is_late]
        if watermark is not None:
            before = watermark if before is None else max(before, watermark)
    assert shared.n_late == [model.n_late for model in models]
    assert shared.late == late
    assert shared.end() == [sorted(model.micro_batch([], FINAL_US // MS)) for model in models]
    assert shared.n_rows == 0
    assert set(shared.store.blobs) == {"metadata"}


@pytest.mark.long
@pytest.mark.parametrize("windows", SETS, ids=str)
def test_every_reader_gives_the_same_as_without_others(windows):
    shared, alone = Shared(*windows), [Stream(window) for window in windows]
    random = np.random.default_rng(7)
    for time in range(0, 400_000, 8_000):
        # some come late
        times = time - random.integers(0, 90_000, 20) * (random.random(20) < 0.3)
        some = [(str(random.integers(3)), int(at), int(random.integers(9))) for at in times]
        result = shared.micro_batch(some, time - 2_000)
        assert result == [sorted(item.micro_batch(some, time - 2_000)) for item in alone]
        statuses = [item.status for item in alone]
        assert [s.n_late for s in shared.status] == [s.n_late for s in statuses]
        assert [s.next_window_end_us for s in shared.status] == [
            s.next_window_end_us for s in statuses
        ]
    assert shared.end() == [sorted(item.end()) for item in alone]


def live_blobs(shared):
    """Return the names of blobs in the metadata, and the readers with running aggregates."""
    return {"metadata", *blobs_of(shared.store.metadata)}, set(shared.store.contents.slices.spans)


@pytest.mark.variants(2)
@pytest.mark.parametrize("windows", SETS, ids=str)
@given(batches=st.lists(st.tuples(rows, watermarks), min_size=4, max_size=10))
@settings(max_examples=6, deadline=None)
def test_readers_with_running_aggregates_equal_the_model(windows, batches):
    shared = Shared(*windows, thresholds=SPANS_FROM_THE_START)
    models = [Model(window) for window in windows]
    for some, watermark in batches:
        CACHE.clear()
        result = shared.micro_batch(some, watermark)
        assert result == [sorted(model.micro_batch(some, watermark)) for model in models]
        assert set(shared.store.blobs) == live_blobs(shared)[0]
    assert shared.n_late == [model.n_late for model in models]
    assert shared.end() == [sorted(model.micro_batch([], FINAL_US // MS)) for model in models]
    assert set(shared.store.blobs) == {"metadata"}


OVERLAPPING = [
    (Tumble(10 * S), Hop(10 * S, 120 * S), Cumulate(10 * S, 60 * S)),
    (Hop(20 * S, 300 * S, 5 * S), Tumble(15 * S), Hop(15 * S, 180 * S)),
    (Tumble(7 * S, -3 * S), Hop(7 * S, 210 * S, 11 * S)),
]


@pytest.mark.variants(1)
@pytest.mark.parametrize("windows", OVERLAPPING, ids=str)
@pytest.mark.parametrize("starts_with_spans", [True, False], ids=["running", "slices"])
def test_steady_readers_have_running_aggregates_each(windows, starts_with_spans):
    """Readers start running aggregates over state without them, and stop over state with them."""
    shared, models = Shared(*windows), [Model(window) for window in windows]
    shared.thresholds = SPANS_FROM_THE_START if starts_with_spans else NO_SPANS
    overlapping = {n for n, window in enumerate(windows) if isinstance(window, Hop)}
    random = np.random.default_rng(5)
    for number, time in enumerate(range(0, 800_000, 7_000)):
        if number == 50:
            shared.thresholds = NO_SPANS if starts_with_spans else SPANS_FROM_THE_START
        times = time - random.integers(0, 200_000, 8) * (random.random(8) < 0.4)
        some = [(str(random.integers(3)), int(at), int(random.integers(9))) for at in times]
        result = shared.micro_batch(some, time - 2_000)
        assert result == [sorted(model.micro_batch(some, time - 2_000)) for model in models]
        names, having = live_blobs(shared)
        assert set(shared.store.blobs) == names
        if number in (45, 110):
            has_spans = starts_with_spans == (number == 45)
            spans = shared.store.contents.slices.spans
            assert {number for number, item in spans.items() if item.spans} == (
                overlapping if has_spans else set()
            )
            assert having == overlapping
    assert shared.n_late == [model.n_late for model in models]
    shared.end()
    assert set(shared.store.blobs) == {"metadata"}


def test_a_fire_of_a_reader_reads_as_much_however_many_windows_overlap():
    n_gets = {}
    for n_slides in (8, 32):
        windows = Tumble(10 * S), Hop(10 * S, n_slides * 10 * S)
        shared = Shared(*windows, thresholds=SPANS_FROM_THE_START)
        for number in range(1, 2 * n_slides):
            before = shared.store.n_gets
            CACHE.clear()
            some = [(key, number * 10_000 - 1, 1) for key in "abc"]
            shared.micro_batch(some, number * 10_000)
            if number > 1.5 * n_slides:
                n_gets.setdefault(n_slides, []).append(shared.store.n_gets - before)
    assert max(np.median(item) for item in n_gets.values()) <= 12


def test_readers_read_only_their_columns_in_running_aggregates():
    """Under the readers' names; one column serves two aggregates."""
    few = reader("few", Hop(10 * S, 60 * S), (2,))
    twice = replace(
        few,
        aggregation=replace(
            few.aggregation,
            accumulators=(Merge(("m",), MergeOp.MAX), Merge(("again",), MergeOp.MAX)),
        ),
        columns=(*few.columns, ("largest", "again")),
    )
    readers = reader("all", Hop(10 * S, 120 * S)), twice
    shared = Shared(readers=readers, thresholds=SPANS_FROM_THE_START)
    alone = [Model(Hop(10 * S, 120 * S)), Model(Hop(10 * S, 60 * S))]
    random = np.random.default_rng(5)
    for number in range(1, 40):
        some = [(str(random.integers(3)), number * 10_000 - 1, int(random.integers(9)))]
        result = shared.micro_batch(some, number * 10_000)
        expected = [sorted(model.micro_batch(some, number * 10_000)) for model in alone]
        assert result[0] == expected[0]
        assert result[1] == [(*row[:3], row[5], row[5]) for row in expected[1]]
    assert live_blobs(shared)[1] == {0, 1}


def test_shared_state_is_as_large_as_the_finest_readers():
    minute = 60 * S
    windows = (Hop(minute, 5 * minute), Cumulate(minute, 60 * minute), Tumble(minute))
    shared, alone = Shared(*windows), Stream(windows[0])
    for second in range(0, 60, 5):
        some = [(key, second * 1000, 1) for key in "abc"]
        shared.micro_batch(some, second * 1000)
        alone.micro_batch(some, second * 1000)
        assert shared.n_rows == alone.status.n_rows


@pytest.mark.long
def test_slices_used_only_by_wide_windows_are_merged():
    minute = 60 * S
    hour, day = 60 * minute, 1440 * minute
    shared = Shared(Tumble(minute), Tumble(hour), Tumble(day))
    for time in range(0, 26 * 60, 5):
        shared.micro_batch([(key, time * 60_000, 1) for key in "ab"], time * 60_000)
    # for each key the open minute, the hour and the day, and unmerged partials
    n_unmerged = 8
    assert shared.n_rows <= 2 * 3 * (1 + n_unmerged)
    hours, days = shared.end()[1:]
    assert [row[3] for row in hours] == [12, 12]
    assert [row[3] for row in days] == [24, 24]


@pytest.mark.long
def test_cumulate_windows_store_one_slice_each():
    shared = Shared(Cumulate(10 * S, 3600 * S), Cumulate(5 * S, 600 * S), Hop(10 * S, 30 * S))
    for time in range(0, 590_000, 2000):
        shared.micro_batch([("a", time, 1)], time - 1)
    # five seconds and ten seconds for each, six slices of the HOP window, some unmerged
    assert shared.n_rows <= 2 + 7 + 8 * 2


def test_readers_store_only_the_columns_they_read():
    readers = (
        reader("few", Tumble(10 * S), (0,)),
        reader("all", Tumble(60 * S), (1, 2)),
    )
    shared = Shared(readers=readers)
    shared.micro_batch([("a", 1000, 5), ("b", 2000, 7)], 15_000)
    result = shared.micro_batch([("a", 21_000, 6)], 59_999)
    assert result == [[("a", 20_000, 30_000, 1)], [("a", 0, 60_000, 11, 6), ("b", 0, 60_000, 7, 7)]]


def test_a_row_is_late_for_some_readers_and_counts_for_others():
    shared = Shared(Tumble(10 * S), Hop(10 * S, 30 * S), Cumulate(10 * S, 60 * S))
    shared.micro_batch([("a", 1000, 5)], 12_000)
    result = shared.micro_batch([("a", 3000, 1)], 29_999)
    assert result == [
        [],
        [("a", -10_000, 20_000, 2, 6, 5), ("a", 0, 30_000, 2, 6, 5)],
        [("a", 0, 20_000, 2, 6, 5), ("a", 0, 30_000, 2, 6, 5)],
    ]
    assert [status.n_late for status in shared.status] == [1, 0, 0]
    shared.micro_batch([("a", 4000, 1)], 30_000)
    assert shared.n_late == [2, 1, 0]
