"""Windows that are emitted again: the changelog is always right and has only changed results."""

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.spec.thresholds import Thresholds
from runtime.streaming.operators.firing import FireRule, UpdateRules
from runtime.streaming.state.contents import blobs_of
from runtime.streaming.state.ranges import union, within, without
from runtime.streaming.state.table_cache import CACHE
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from tests.reference import windows_of
from tests.runtime.streaming.model import MS, NO_SPANS, SPANS_FROM_THE_START, Stream
from tests.runtime.streaming.operators.changelog import Changelog

S = 1000 * MS
LATENESS = 30_000
WINDOWS = [
    Tumble(10 * S),
    Hop(5 * S, 20 * S),
    Hop(3 * S, 20 * S, 1 * S),
    Hop(10 * S, 4 * S),
    Cumulate(10 * S, 60 * S),
]


def rules(lateness=LATENESS, early=None, late=None):
    return UpdateRules(lateness * MS, early, late)


class Brute:
    """The windows of rows, by the rules."""

    def __init__(self, window, lateness=LATENESS):
        self.window, self.lateness = window, lateness
        self.members, self.watermark = defaultdict(list), -(10**12)

    def take(self, rows, watermark):
        for key, time, value in rows:
            for start, end in windows_of(self.window, time, MS):
                if end - 1 + self.lateness > self.watermark:
                    self.members[key, start, end].append(value)
        self.watermark = max(self.watermark, watermark)

    def rows(self, fired_only=True):
        return {
            name: (len(values), sum(values), max(values))
            for name, values in self.members.items()
            if not fired_only or name[2] - 1 <= self.watermark
        }


rows = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(-70_000, 25_000), st.integers(-5, 5)), max_size=10
)
steps = st.one_of(st.just(0), st.integers(0, 12_000), st.integers(0, 60_000))


@pytest.mark.variants(5)
@pytest.mark.parametrize("window", WINDOWS, ids=repr)
@pytest.mark.parametrize("early", [None, FireRule(delay_us=0)], ids=["", "early"])
@given(batches=st.lists(st.tuples(rows, steps), min_size=4, max_size=12))
@settings(max_examples=4, deadline=None)
def test_changes_add_up_to_the_windows(window, early, batches):
    add_up(window, early, batches)


def add_up(window, early, batches, thresholds=None):
    stream = Stream(window, updates=rules(early=early), thresholds=thresholds or Thresholds())
    brute, log = Brute(window), Changelog()
    now = 0
    for number, (some, step) in enumerate(batches):
        now += step
        moved = [(key, time + now, value) for key, time, value in some]
        if number % 3 == 0:
            CACHE.clear()
        log.take(stream.micro_batch(moved, now))
        brute.take(moved, now)
        assert log.rows == brute.rows(fired_only=early is None)
    log.take(stream.end())
    assert log.rows == brute.rows(fired_only=False)
    assert set(stream.store.blobs) == {"metadata"}


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    "window",
    [
        Hop(5 * S, 60 * S),
        Hop(3 * S, 200 * S, 1 * S),
        Cumulate(5 * S, 60 * S),
        Cumulate(2 * S, 200 * S, 1 * S),
    ],
    ids=repr,
)
@pytest.mark.parametrize("early", [None, FireRule(delay_us=45 * S)], ids=["", "early"])
def test_running_aggregates_serve_windows_that_are_emitted_again(window, early):
    stream, brute, log = (
        Stream(window, updates=rules(early=early), thresholds=SPANS_FROM_THE_START),
        Brute(window),
        Changelog(),
    )
    random, had = np.random.default_rng(5), 0
    for number, now in enumerate(range(0, 330_000, 4000)):
        most = 90_000 if number % 5 == 0 else 12_000
        back = random.integers(0, most, 6) * (random.random(6) < 0.4)
        some = [(str(random.integers(3)), now - int(at), 1) for at in back]
        # occasionally the watermark waits, or another worker continues
        mark = now if random.random() < 0.8 else now - 20_000
        if random.random() < 0.2:
            CACHE.clear()
        log.take(stream.micro_batch(some, mark, clock=now))
        brute.take(some, mark)
        fired = {name: row for name, row in log.rows.items() if name[2] - 1 <= brute.watermark}
        assert fired == brute.rows()
        assert set(stream.store.blobs) == {"metadata", *blobs_of(stream.store.metadata)}
        had += bool(stream.store.spans())
    assert had > 30
    log.take(stream.end())
    assert log.rows == brute.rows(fired_only=False)
    assert set(stream.store.blobs) == {"metadata"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "window", [Hop(5 * S, 60 * S), Hop(3 * S, 70 * S, 1 * S), Cumulate(5 * S, 100 * S)], ids=repr
)
@pytest.mark.parametrize("early", [None, FireRule(delay_us=0)], ids=["", "early"])
@given(batches=st.lists(st.tuples(rows, steps), min_size=10, max_size=25))
@settings(max_examples=100, deadline=None)
def test_running_aggregates_add_up_at_length(window, early, batches):
    add_up(window, early, batches, SPANS_FROM_THE_START)


@pytest.mark.long
@pytest.mark.parametrize("early", [None, FireRule(delay_us=45 * S)], ids=["", "early"])
def test_totals_give_the_same_steps_with_emitonlyonupdate(early):
    """Steps without rows are omitted, as without totals."""
    window = Cumulate(5 * S, 100 * S, emit_only_on_update=True)
    stream, other = (
        Stream(window, updates=rules(early=early), thresholds=thresholds)
        for thresholds in (SPANS_FROM_THE_START, NO_SPANS)
    )
    random, had = np.random.default_rng(6), 0
    for now in range(0, 250_000, 4000):
        back = random.integers(0, 50_000, 5) * (random.random(5) < 0.5)
        some = [(str(random.integers(6)), now - int(at), 1) for at in back]
        result = stream.micro_batch(some, now, clock=now)
        had += bool(stream.store.spans())
        assert sorted(result) == sorted(other.micro_batch(some, now, clock=now))
    assert had > 40


@pytest.mark.long
def test_late_rows_read_as_much_however_many_windows_overlap():
    most = {}
    for n_slides in (48, 144):
        stream = Stream(
            Hop(10 * S, n_slides * 10 * S), updates=rules(60_000), thresholds=SPANS_FROM_THE_START
        )
        for number in range(1, 2 * n_slides):
            before = stream.store.n_gets
            late = [("b", number * 10_000 - 25_000, 1)] if number > n_slides else []
            stream.micro_batch([("a", number * 10_000 - 1, 1), *late], number * 10_000)
            CACHE.clear()
            if number > 1.5 * n_slides:
                gets = stream.store.n_gets - before
                most.setdefault(n_slides, []).append(gets)
    assert np.median(most[144]) <= np.median(most[48]) + 2 < 20, most


def test_rows_that_wait_for_the_late_rule_are_emitted_when_it_is_due():
    stream, log = Stream(Tumble(10 * S), updates=rules(100_000, late=FireRule(rows=3))), Changelog()
    log.take(stream.micro_batch([("a", 1000, 1), ("a", 11_000, 1), ("a", 21_000, 1)], 30_000))
    assert stream.micro_batch([("a", 2000, 1)], 30_000) == []
    assert stream.micro_batch([("a", 12_000, 1)], 30_000) == []
    log.take(stream.micro_batch([("a", 3000, 1), ("a", 35_000, 1)], 30_000))
    assert sorted((end, n) for (_, _, end), (n, *_) in log.rows.items()) == [
        (10_000, 3),
        (20_000, 2),
        (30_000, 1),
    ]


def test_the_late_rule_counts_only_late_rows():
    stream = Stream(Tumble(10 * S), updates=rules(100_000, late=FireRule(rows=2)))
    assert len(stream.micro_batch([("a", n, 1) for n in range(9)], 10_000)) == 1
    for _ in range(3):
        assert stream.micro_batch([("a", 1, 1), ("a", 11_000, 1), ("a", 12_000, 1)], 12_000) == []
        assert [kind for kind, *_ in stream.micro_batch([("a", 2, 1)], 12_000)] == ["-U", "+U"]


def test_late_rows_wait_for_their_rule_while_the_watermark_moves():
    stream = Stream(Tumble(10 * S), updates=rules(100_000, late=FireRule(delay_us=60 * S)))
    stream.micro_batch([("a", 1, 1)], 10_000, clock=0)
    for now in range(1000, 60_000, 1000):
        assert stream.micro_batch([("a", 2, 1)], 10_000 + now, clock=now) == []
    assert [row[-2] for row in stream.micro_batch([("a", 2, 1)], 71_000, clock=61_000)] == [1, 61]
    # windows that had no late rows are closed for good
    assert stream.micro_batch([("b", 95_000, 1)], 105_000, clock=62_000)[0][0] == "+I"
    assert stream.micro_batch([("b", 95_000, 1)], 109_000, clock=63_000) == []
    assert stream.micro_batch([("a", 3, 1)], 109_000, clock=64_000) == []
    # the last chance
    late = stream.micro_batch([], 110_000, clock=65_000)
    assert [(row[1], row[-2]) for row in late if row[0] == "+U"] == [("a", 62), ("b", 2)]


def test_windows_without_new_rows_are_neither_read_nor_written():
    stream = Stream(Tumble(10 * S), updates=rules(3_600_000))
    gets, puts = [], []
    for number in range(1, 110):
        before = stream.store.n_gets, set(stream.store.blobs)
        CACHE.clear()
        stream.micro_batch([(key, number * 10_000 - 1, 1) for key in "abc"], number * 10_000)
        gets.append(stream.store.n_gets - before[0])
        puts.append(len(set(stream.store.blobs) - before[1]))
    assert max(gets) == 1
    assert max(puts[1:]) == 2
    late = [("a", 55_000, 1), ("b", 1_005_000, 1)]
    before = stream.store.n_gets, set(stream.store.blobs)
    assert len(stream.micro_batch(late, 1_090_000)) == 4
    # the metadata, and for each window its slice and its results
    assert stream.store.n_gets - before[0] == 5


def test_few_results_of_many_windows_are_few_parts():
    stream = Stream(Tumble(10 * S), updates=rules(3_600_000))
    stream.micro_batch([("a", at, 1) for at in range(0, 1_000_000, 5000)], 1_000_000)
    runs = stream.store.contents.updates.runs
    assert [len(run) for run in runs] == [1]
    stream.micro_batch([("a", 503_000, 1)], 1_000_000)
    runs = stream.store.contents.updates.runs
    assert [[part[:2] for part in run] for run in runs] == [
        [(10 * S - 1, 1000 * S)],
        [(510 * S - 1, 510 * S)],
    ]
    assert len({name for run in runs for part in run for name in part.names}) == 2


ranges = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)), max_size=6).map(
    lambda found: [(start, start + length) for start, length in found]
)


def members(actual):
    return {at for after, until in actual for at in range(after + 1, until + 1)}


@given(ranges, st.integers(0, 30), st.integers(1, 8))
def test_ranges_are_sets_of_times(found, after, length):
    whole, other = union(found), set(range(after + 1, after + length + 1))
    assert members(whole) == members(found)
    assert all(one[1] < next_[0] for one, next_ in pairwise(whole))
    assert members(within(whole, after, after + length)) == members(found) & other
    assert members(without(whole, after, after + length)) == members(found) - other


def test_totals_go_with_the_lateness_that_they_are_for():
    window = Cumulate(5 * S, 100 * S)
    stream, brute, log = (
        Stream(window, updates=rules(), thresholds=SPANS_FROM_THE_START),
        Brute(window),
        Changelog(),
    )
    for now in range(1000, 180_000, 1000):
        if now == 100_000:
            assert stream.store.spans()
            stream.updates, brute.lateness = rules(0), 0
        some = [("a", now, 1), ("b", now - 1, 2)]
        log.take(stream.micro_batch(some, now))
        brute.take(some, now)
        assert log.rows == brute.rows()
        assert set(stream.store.blobs) == {"metadata", *blobs_of(stream.store.metadata)}
    assert not stream.store.contents.slices.spans


def test_running_aggregates_go_though_no_window_fires_after_the_last_one():
    stream = Stream(
        Hop(5 * S, 60 * S),
        updates=rules(early=FireRule(delay_us=45 * S)),
        thresholds=SPANS_FROM_THE_START,
    )
    some = [([("a", 0, 0)], 0), ([("a", -17_045, 0)], 0), ([], 5072), ([("a", 3561, 0)], 5072)]
    for new, watermark in some:
        stream.micro_batch(new, watermark)
    assert stream.store.spans()
    stream.end()
    assert set(stream.store.blobs) == {"metadata"}
