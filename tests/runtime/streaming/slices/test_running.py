"""Running aggregates give the same windows as slices, for any late rows and watermark steps."""

from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.errors import ExecutionError
from runtime.local.streaming.messages import SourceProgress
from runtime.spec.aggregates import (
    CollectSet,
    Distinct,
    Merge,
    MergeMoments,
    MergeOp,
    Pick,
    WindowAggregation,
)
from runtime.spec.table import Column
from runtime.streaming.operators.base import KeyGroupSpec, MicroBatch, Status
from runtime.streaming.operators.window import WindowOperator, WindowSpec
from runtime.streaming.slices.levels import one_reader
from runtime.streaming.state.table_cache import CACHE
from runtime.windows.hop import CalendarHop, Hop
from tests.marks import among
from tests.runtime.streaming.model import (
    MS,
    NO_SPANS,
    SPANS_FROM_THE_START,
    Memory,
    Model,
    slice_store,
)
from tests.runtime.streaming.model import Stream as AnyStream

S = 1000 * MS
DAY = 86_400 * S
WINDOWS = [
    Hop(10 * S, 60 * S),
    Hop(10 * S, 70 * S, 3 * S),
    Hop(3 * S, 40 * S, 1 * S),
    Hop(5 * S, 200 * S),
]


Stream = partial(AnyStream, thresholds=SPANS_FROM_THE_START)


def live_blobs(stream):
    names = {chunk.name for slab in stream.store.slabs for chunk in slab.chunks}
    for running in stream.store.contents.slices.spans.values():
        for span in [*running.spans, *running.patches, running.middle]:
            names |= set(span.names) if span else set()
    return names | {"metadata"}


def n_patches_of(stream):
    return sum(len(kept.patches) for kept in stream.store.contents.slices.spans.values())


rows = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(-80_000, 25_000), st.integers(-5, 5)), max_size=12
)
steps = st.one_of(st.none(), st.integers(0, 12_000), st.integers(0, 60_000))


batches_of_rows = st.lists(st.tuples(rows, steps), min_size=10, max_size=25)


@pytest.mark.variants(2)
@pytest.mark.parametrize("window", WINDOWS, ids=repr)
@given(batches=batches_of_rows)
@settings(max_examples=4, deadline=None)
def test_windows_equal_the_row_by_row_model(window, batches):
    compare(window, batches)


@pytest.mark.slow
@pytest.mark.parametrize("window", WINDOWS, ids=repr)
@given(batches=batches_of_rows)
@settings(max_examples=100, deadline=None)
def test_windows_equal_the_row_by_row_model_in_long_runs(window, batches):
    compare(window, batches)


def compare(window, batches):
    stream, model, now = Stream(window), Model(window), 0
    for some, step in batches:
        now += step or 0
        moved = [(key, time + now, value) for key, time, value in some]
        watermark = None if step is None else now
        if len(moved) % 3 == 0:
            # another worker
            CACHE.clear()
        result = stream.micro_batch(moved, watermark)
        assert sorted(result) == sorted(model.micro_batch(moved, watermark))
        assert set(stream.store.blobs) == live_blobs(stream)
    assert stream.n_late == model.n_late


@pytest.mark.parametrize("window", among(WINDOWS, slow=WINDOWS[:1] + WINDOWS[3:]), ids=repr)
def test_steady_streams_keep_few_spans_and_take_late_rows_along(window):
    stream, model = Stream(window), Model(window)
    random, slide = np.random.default_rng(3), window.slide_us // MS
    n_spans = n_patches = 0
    for number in range(1, 2 * window.size_us // window.slide_us + 4):
        now = number * slide
        back = random.integers(0, window.size_us // MS, 5) * (random.random(5) < 0.5)
        some = [(str(random.integers(3)), now - 1 - int(at), 1) for at in back]
        result = stream.micro_batch(some, now)
        assert sorted(result) == sorted(model.micro_batch(some, now))
        n_spans = max(n_spans, len(stream.store.spans()))
        n_patches = max(n_patches, n_patches_of(stream))
    assert 4 <= n_spans <= window.size_us // window.slide_us // 4 + 6
    assert 0 < n_patches <= stream.thresholds.spans_max_patches + 1
    stream.end()
    assert set(stream.store.blobs) == {"metadata"}


def test_a_fire_reads_and_writes_as_much_however_many_windows_overlap():
    written = {}
    for n_slides in (8, 24):
        stream = Stream(Hop(10 * S, n_slides * 10 * S))
        for number in range(1, 2 * n_slides):
            puts = stream.store.n_gets, set(stream.store.blobs)
            stream.micro_batch([(key, number * 10_000 - 1, 1) for key in "abc"], number * 10_000)
            n_gets = stream.store.n_gets - puts[0]
            n_puts = len(set(stream.store.blobs) - puts[1])
            CACHE.clear()
            if number > 1.5 * n_slides:
                written.setdefault(n_slides, []).append((n_gets, n_puts))
    medians = [np.median(item, axis=0).tolist() for item in written.values()]
    assert max(n_gets for n_gets, _ in medians) <= 10
    assert max(n_puts for _, n_puts in medians) <= 4


@pytest.mark.long
def test_state_grows_with_the_square_root_of_the_overlap():
    for n_slides in (36, 144):
        stream, most = Stream(Hop(10 * S, n_slides * 10 * S)), 0
        for number in range(1, 3 * n_slides // 2):
            stream.micro_batch([("a", number * 10_000 - 1, 1)], number * 10_000)
            most = max(most, len(stream.store.spans()))
        assert n_slides**0.5 < most <= 3 * n_slides**0.5 + 4


def test_spans_can_be_switched_on_and_off_at_a_restart():
    window = Hop(10 * S, 120 * S)
    stream, model = Stream(window), Model(window)
    random = np.random.default_rng(3)
    had = []
    for number in range(1, 60):
        some = [(str(random.integers(4)), number * 10_000 - 1, 1) for _ in range(3)]
        stream.thresholds = SPANS_FROM_THE_START if number // 15 % 2 else NO_SPANS
        result = stream.micro_batch(some, number * 10_000)
        assert sorted(result) == sorted(model.micro_batch(some, number * 10_000))
        had.append(bool(stream.store.spans()))
        assert set(stream.store.blobs) == live_blobs(stream)
    assert had == [bool(number // 15 % 2) for number in range(1, 60)]


def test_a_missing_span_is_an_error_that_names_it():
    stream = Stream(Hop(10 * S, 120 * S))
    for number in range(1, 20):
        stream.micro_batch([("a", number * 10_000 - 1, 1)], number * 10_000)
    lacking = 0
    kept = dict(stream.store.blobs)
    for after, until, *_, names in stream.store.spans():
        stream.store.blobs = dict(kept)
        del stream.store.blobs[names[0]]
        CACHE.clear()
        if until == 190 * S:
            with pytest.raises(ExecutionError, match=f"blob {names[0]} is missing"):
                stream.micro_batch([("a", 199_999, 1)], 200_000)
            lacking += 1
        assert after < until
    assert lacking == 1


# -- all kinds of accumulators --

PARTIALS = (
    Merge(("n",), MergeOp.COUNT),
    Merge(("least",), MergeOp.MIN),
    Merge(("sum",), MergeOp.SUM),
    Pick(("at", "v"), is_last=True),
    MergeMoments(("c", "mean", "m2")),
    CollectSet(("set",)),
)
MERGED = (*PARTIALS[:-1], Distinct(("set",), Column("distinct", "bigint"), MergeOp.COUNT))


def partials(random, n_rows, ends):
    value = random.integers(0, 40, n_rows)
    halves = pa.array(value / 2, mask=value % 7 == 0)
    return pa.table(
        {
            "key": pa.array([f"k{i}" for i in random.integers(0, 9, n_rows)]),
            "$slice_end": pa.array(ends, pa.int64()),
            "n": np.ones(n_rows, np.int64),
            "least": halves,
            "sum": halves,
            "at": pa.array(ends * 1000 + random.integers(0, 999, n_rows)),
            "v": pa.array(value),
            "c": np.ones(n_rows, np.int64),
            "mean": value.astype(np.float64),
            "m2": np.zeros(n_rows),
            "set": pa.array([[int(item), int(item) % 5] for item in value], pa.list_(pa.int64())),
            "$rows": np.ones(n_rows, np.int64),
        }
    )


def emitted_windows(window, ends, thresholds):
    """Return the windows emitted from random partials, in order, and whether spans were stored."""
    random, store, result, had = np.random.default_rng(11), Memory(), [], 0
    aggregation = WindowAggregation(window, ("key",), "$slice_end", MERGED)
    spec = WindowSpec(
        one_reader(aggregation, PARTIALS, store=slice_store(window)),
        KeyGroupSpec(1, thresholds=thresholds),
    )
    for number, end in enumerate(ends):
        back = random.integers(0, 12, 40) * (random.random(40) < 0.3)
        tables = [partials(random, 40, ends[np.maximum(number - back, 0)])]
        batch = MicroBatch(tables, [SourceProgress(0, int(end) - 1, int(end) - 1, 1)])
        for output in WindowOperator(spec, store).process(batch):
            if not isinstance(output.result, Status):
                result.append(output.result)
        had += bool(store.spans())
    table = pa.Table.from_batches(result)
    return table.sort_by([("window_end", "ascending"), ("key", "ascending")]), had


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("window", "ends"),
    [
        (Hop(S, 12 * S), np.arange(1, 36) * S),
        (
            CalendarHop(1, 12),
            np.arange("1969-06", "1971-02", dtype="M8[M]").astype("M8[us]").astype(np.int64),
        ),
    ],
    ids=["hop", "calendar"],
)
def test_all_accumulators_merge_in_spans(window, ends):
    expected, had_none = emitted_windows(window, ends, NO_SPANS)
    result, had = emitted_windows(window, ends, SPANS_FROM_THE_START)
    assert had_none == 0
    assert had > len(ends) - 5
    assert result.num_rows == expected.num_rows > 8 * len(ends)
    for name in result.column_names:
        one, other = result.column(name), expected.column(name)
        if pa.types.is_floating(one.type):
            assert one.is_null().equals(other.is_null())
            np.testing.assert_allclose(one.fill_null(0), other.fill_null(0), rtol=1e-9)
        else:
            assert one.equals(other), name
