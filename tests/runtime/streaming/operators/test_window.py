"""The window operator micro-batch by micro-batch: emitted windows and late rows."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.compute.kernels.merge import merge_slices
from runtime.spec.stream import FINAL_US
from runtime.streaming.watermarks import WatermarkRules
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from tests.runtime.streaming.model import MS, Model, Stream, aggregation, partials, result_rows

S = 1000 * MS
WINDOWS = [
    Tumble(10 * S),
    Tumble(7 * S, -3 * S),
    Hop(5 * S, 20 * S),
    Hop(3 * S, 10 * S, 1 * S),
    Hop(10 * S, 4 * S),
    Hop(1 * S, 100 * S),
    Cumulate(10 * S, 60 * S),
    Cumulate(3 * S, 12 * S, 5 * S),
    Cumulate(1 * S, 200 * S),
    Cumulate(4 * S, 4 * S),
]


def test_steps_without_rows_are_not_emitted_with_emitonlyonupdate():
    stream = Stream(Cumulate(10 * S, 60 * S, emit_only_on_update=True))
    assert stream.micro_batch([("a", 1000, 5)], 25_000) == [("a", 0, 10_000, 1, 5, 5)]
    # a late row changes the first step that is still open
    assert stream.micro_batch([("a", 2000, 1)], 60_000) == [("a", 0, 30_000, 2, 6, 5)]


def test_the_slowest_source_determines_the_watermark():
    stream = Stream(Tumble(10 * S), n_sources=2)
    assert stream.micro_batch([("a", 1000, 5)], progress=[(0, 90_000, 90_000)]) == []
    assert stream.status.watermarks.combined_us is None
    assert stream.micro_batch([], progress=[(1, 9_000, 9_000)]) == []
    assert len(stream.micro_batch([], progress=[(1, 10_000, 10_000)])) == 1


def test_the_fastest_source_determines_the_watermark_under_max():
    stream = Stream(Tumble(10 * S), WatermarkRules("max"), n_sources=2)
    assert len(stream.micro_batch([("a", 1000, 5)], progress=[(0, 90_000, 90_000)])) == 1


def test_an_idle_source_is_ignored_until_it_has_rows():
    rules = WatermarkRules(idle_timeout_us=30 * S)
    stream = Stream(Tumble(10 * S), rules, n_sources=2)
    row = ("a", 1000, 5)
    stream.micro_batch([row], progress=[(0, 50_000, 50_000)], clock=1_000_000)
    assert stream.micro_batch([row], progress=[(0, 60_000, 60_000)], clock=1_020_000) == []
    assert len(stream.micro_batch([row], progress=[(0, 70_000, 70_000)], clock=1_030_000)) == 1
    # the other source resumes far behind: the watermark stays, it does not fall
    stream.micro_batch([("a", 71_000, 5)], progress=[(1, 2000, 2000)], clock=1_040_000)
    assert stream.micro_batch([row], progress=[(0, 90_000, 90_000)], clock=1_041_000) == []
    assert stream.status.watermarks.combined_us == 70_000 * MS


def test_silent_sources_do_not_hold_back_the_watermark():
    stream = Stream(Tumble(10 * S), WatermarkRules(idle_timeout_us=30 * S), n_sources=2)
    stream.micro_batch([("a", 1000, 5)], progress=[(0, 15_000, 15_000)], clock=1_000_000)
    assert stream.micro_batch(clock=1_029_999) == []
    assert stream.micro_batch(clock=1_030_000) == [("a", 0, 10_000, 1, 5, 5)]


def test_when_all_sources_are_silent_the_watermark_is_that_of_the_one_ahead():
    stream = Stream(Tumble(10 * S), WatermarkRules(idle_timeout_us=30 * S), n_sources=2)
    progress = [(0, 15_000, 15_000), (1, 3000, 3000)]
    assert stream.micro_batch([("a", 1000, 5)], progress=progress, clock=1_000_000) == []
    assert stream.micro_batch(clock=1_030_000) == [("a", 0, 10_000, 1, 5, 5)]


def test_a_pause_between_two_runs_is_not_silence():
    stream = Stream(Tumble(10 * S), WatermarkRules(idle_timeout_us=30 * S), n_sources=2)
    stream.micro_batch([("a", 1000, 5)], progress=[(0, 15_000, 15_000)], clock=1_000_000)
    stream.run = "the second"
    assert stream.micro_batch(clock=9_000_000) == []
    assert len(stream.micro_batch(clock=9_030_000)) == 1


def test_a_clock_set_back_makes_no_row_late():
    stream = Stream(Tumble(10 * S), is_processing_time=True)
    stream.micro_batch([("a", 25_000, 5)], 24_999)
    assert stream.micro_batch([("a", 31_000, 1)], 30_999) == [("a", 20_000, 30_000, 1, 5, 5)]
    stream.micro_batch([("a", 12_000, 7)], 11_999)
    assert stream.n_late == 0
    assert stream.micro_batch([], 39_999) == [("a", 30_000, 40_000, 2, 8, 7)]


def test_one_row_moves_the_watermark_at_most_by_the_limit():
    rules = WatermarkRules(max_jump_us=60 * S)
    stream = Stream(Tumble(10 * S), rules)
    stream.micro_batch([("a", 1000, 5)], progress=[(0, 10**12, 1000)])
    assert stream.status.watermarks.combined_us == 61_000 * MS
    stream.micro_batch([("a", 62_000, 5)], progress=[(0, 10**12, 62_000)])
    assert stream.status.watermarks.combined_us == 121_000 * MS


@pytest.mark.variants(3)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_state_is_bounded_by_keys_and_live_slices_and_then_freed(window):
    stream = Stream(window)
    size = window.size_us // MS
    for time in range(0, 5 * size, size // 4 or 1):
        rows = [(key, time, 1) for key in "abc" for _ in range(3)]
        stream.micro_batch(rows, time)
    live = window.slices_per_window + (0 if isinstance(window, Cumulate) else 1)
    n_unmerged = 8
    assert stream.status.n_rows <= 3 * live * (1 + n_unmerged)
    stream.micro_batch([], 20 * size)
    assert stream.status.n_rows == 0
    assert set(stream.store.blobs) == {"metadata"}


@pytest.mark.long
def test_a_cumulate_window_keeps_one_slice_of_closed_steps():
    stream = Stream(Cumulate(1 * S, 200 * S))
    for time in range(0, 150_000, 1000):
        stream.micro_batch([("a", time, 1)], time - 1)
    assert stream.status.n_rows == 2


@pytest.mark.long
def test_many_small_micro_batches_leave_few_blobs():
    stream = Stream(Tumble(3600 * S))
    for time in range(300):
        stream.micro_batch([(key, time, 1) for key in "abcde"], time)
    assert len(stream.store.blobs) < 12
    assert sorted(stream.end())[0] == ("a", 0, 3_600_000, 300, 300, 1)


def test_slices_of_a_hop_window_are_in_one_blob_as_soon_as_the_next_ones_come():
    stream = Stream(Hop(10 * S, 3600 * S))
    for time in range(5, 3000, 10):
        back = time - 1700 if time == 2005 else time
        stream.micro_batch([(key, at * 1000, 1) for key in "abc" for at in (time, back)], time)
    # slabs of 450 s; the late row is a separate chunk of its slab
    assert [len(slab.chunks) for slab in stream.store.slabs[:-1]] == [2, 1, 1, 1, 1, 1]


def test_a_micro_batch_without_windows_to_fire_reads_no_slices():
    stream = Stream(Hop(60 * S, 3600 * S))
    for time in range(5):
        stream.micro_batch([("a", time, 1)], time)
    assert stream.store.n_gets == 5


keys = st.sampled_from("ab")
# often the first or the last millisecond of a window
times = st.integers(-100, 100).map(lambda s: s * 1000) | st.integers(-100, 100).map(
    lambda s: s * 1000 - 1
)
times = times | st.integers(-100_000, 100_000)
rows = st.lists(st.tuples(keys, times, st.integers(-5, 5)), max_size=15)
watermarks = st.none() | times


@pytest.mark.variants(5)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@given(batches=st.lists(st.tuples(rows, watermarks), max_size=6))
def test_the_operator_equals_the_row_by_row_model(window, batches):
    stream, model = Stream(window), Model(window)
    for some, watermark in batches:
        assert sorted(stream.micro_batch(some, watermark)) == sorted(
            model.micro_batch(some, watermark)
        )
    assert stream.n_late == model.n_late
    if model.watermark is not None:
        assert stream.status.watermarks.combined_us == model.watermark * MS
    assert sorted(stream.end()) == sorted(model.micro_batch([], FINAL_US // MS))
    assert stream.status.watermarks.has_ended and stream.status.n_rows == 0


@pytest.mark.variants(2)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@given(data=st.data())
@settings(max_examples=30)
def test_rows_in_time_give_the_batch_result_for_any_split(window, data):
    some = sorted(data.draw(rows), key=lambda row: row[1])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(some)), max_size=4)))
    stream, result = Stream(window), []
    for start, end in zip([0, *cuts], [*cuts, len(some)], strict=True):
        part = some[start:end]
        result += stream.micro_batch(part, part[-1][1] - 1 if part else None)
    result += stream.end()
    expected = [
        row
        for table in partials(window, some)
        for batch in merge_slices(table, aggregation(window))
        for row in result_rows(batch)
    ]
    assert sorted(result) == sorted(expected)
    assert stream.n_late == 0
