"""Sessions that are emitted again: the changelog always adds up to the current sessions."""

from collections import defaultdict
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.local.streaming.messages import EndOfInput, SourceProgress
from runtime.spec.aggregates import WindowAggregation
from runtime.spec.stream import FINAL_US
from runtime.spec.thresholds import Thresholds
from runtime.streaming.operators.base import KeyGroupSpec, MicroBatch, Status
from runtime.streaming.operators.buckets import MemoryBound
from runtime.streaming.operators.firing import FireRule, UpdateRules
from runtime.streaming.operators.session import SessionSpec
from runtime.streaming.operators.updated_sessions import UpdatedSessionOperator
from runtime.streaming.state.buckets import Place
from runtime.streaming.state.contents import BlobKind, Decoder, blobs_of
from runtime.streaming.state.partial_columns import StateColumns
from runtime.streaming.state.split import Split, split_group
from runtime.streaming.state.table_cache import CACHE
from runtime.windows.session import SessionWindow
from tests.runtime.streaming.model import MS, Memory, outputs, result_rows
from tests.runtime.streaming.operators.changelog import Changelog
from tests.runtime.streaming.operators.test_session import GAP, PARTIALS, partials
from tests.runtime.streaming.state.test_split import INTO, place_of, signed_blobs

LATENESS = 30
EVERY_BATCH = FireRule(delay_us=0)


def rules(lateness=LATENESS, early=None, late=None):
    return UpdateRules(lateness * MS, early, late)


@dataclass
class Stream:
    """An operator that is recreated for every micro-batch over one state; times in ms."""

    updates: UpdateRules = field(default_factory=rules)
    partition: tuple = ("key",)
    store: Memory = field(default_factory=Memory)
    status: Status | None = None
    n_late: int = 0
    bound: MemoryBound | None = None
    thresholds: Thresholds = field(default_factory=Thresholds)

    def micro_batch(self, rows=(), watermark=None, clock=None):
        """Return [(row kind, key, page, start, end, n, largest)] in the order of emission."""
        window = SessionWindow(GAP * MS, self.partition)
        spec = SessionSpec(
            WindowAggregation(window, ("key", "page"), "$slice_end", PARTIALS[:2]),
            StateColumns(("key", "page"), "$slice_end", PARTIALS),
            KeyGroupSpec(
                1, by=None if self.bound is None else self.partition, thresholds=self.thresholds
            ),
            updates=self.updates,
        )
        progress = []
        if watermark is not None:
            us = FINAL_US if watermark == "end" else watermark * MS
            progress = [EndOfInput() if us == FINAL_US else SourceProgress(0, us, us, 1)]
        clock_us = None if clock is None else clock * MS
        batch = MicroBatch(partials(window, list(rows)), progress, 0, clock_us)
        result = [output.result for output in outputs(UpdatedSessionOperator, spec, self, batch)]
        *changes, self.status = result
        self.n_late += self.status.n_late
        return [row for batch in changes for row in result_rows(batch)]


class Model:
    """The rules row by row, with the allowed lateness, for sessions of (key, page)."""

    def __init__(self, lateness=LATENESS):
        self.lateness = lateness
        self.rows = []
        self.closed = {}
        self.watermark = -(10**9)
        self.n_late = 0

    def micro_batch(self, rows, watermark):
        closed = self.watermark - self.lateness
        # closed sessions are gone, so no row can join them
        self.rows += rows
        late = [s for s in self._sessions() if s[-1][2] + GAP <= closed]
        self.n_late += sum(map(len, late))
        self.rows = [row for s in self._sessions() if s not in late for row in s]
        self.watermark = max(self.watermark, watermark)
        for session in self._sessions():
            if session[-1][2] + GAP <= self.watermark - self.lateness:
                self.closed |= _results(session)
                self.rows = [row for row in self.rows if row not in session]

    def fired(self):
        """Return the sessions whose end the watermark has reached."""
        return self._current(lambda session: session[-1][2] + GAP <= self.watermark)

    def all(self):
        """Return all sessions."""
        return self._current(lambda _: True)

    def _current(self, is_in):
        sessions = dict(self.closed)
        for session in self._sessions():
            if is_in(session):
                sessions |= _results(session)
        return sessions

    def _sessions(self):
        partitions = defaultdict(list)
        for row in self.rows:
            partitions[row[0]].append(row)
        sessions = []
        for members in partitions.values():
            members.sort(key=lambda row: row[2])
            for number, row in enumerate(members):
                if number == 0 or row[2] - members[number - 1][2] > GAP:
                    sessions.append([])
                sessions[-1].append(row)
        return sessions


def _results(session):
    groups = defaultdict(list)
    for key, page, _, value, *_ in session:
        groups[key, page].append(value)
    bounds = session[0][2], session[-1][2] + GAP
    return {(*group, *bounds): (len(values), max(values)) for group, values in groups.items()}


def test_a_late_row_inside_an_emitted_session_updates_it():
    stream = Stream()
    first = stream.micro_batch([("a", "x", 0, 1), ("a", "x", 8, 5)], 18)
    assert first == [("+I", "a", "x", 0, 18, 2, 5)]
    assert stream.micro_batch([("a", "x", 4, 7)], 20) == [
        ("-U", "a", "x", 0, 18, 2, 5),
        ("+U", "a", "x", 0, 18, 3, 7),
    ]
    assert stream.micro_batch([], 47) == []
    assert stream.status.n_rows == 1
    assert stream.micro_batch([], 48) == []
    assert (stream.status.n_rows, len(stream.store.blobs)) == (0, 1)


def test_a_late_row_that_merges_sessions_deletes_them():
    stream = Stream()
    stream.micro_batch([("a", "x", 0, 1), ("a", "x", 15, 2), ("b", "x", 15, 2)], 30)
    assert stream.micro_batch([("a", "x", 9, 3)], 32) == [
        ("-D", "a", "x", 0, 10, 1, 1),
        ("-D", "a", "x", 15, 25, 1, 2),
        ("+I", "a", "x", 0, 25, 3, 3),
    ]


def test_an_extended_session_stays_for_readers_until_the_longer_one_ends():
    stream = Stream()
    assert stream.micro_batch([("a", "x", 0, 1)], 11) == [("+I", "a", "x", 0, 10, 1, 1)]
    # 9 reaches the emitted session, and 15 reaches 9
    assert stream.micro_batch([("a", "x", 9, 1), ("a", "x", 15, 1)], 16) == []
    assert stream.micro_batch([], 25) == [
        ("-D", "a", "x", 0, 10, 1, 1),
        ("+I", "a", "x", 0, 25, 3, 1),
    ]


def test_rows_of_closed_sessions_are_late():
    stream = Stream()
    stream.micro_batch([("a", "x", 0, 1)], 39)
    assert stream.micro_batch([("b", "x", 0, 1)], 40) == [("+I", "b", "x", 0, 10, 1, 1)]
    assert stream.n_late == 0
    assert stream.micro_batch([("a", "x", 0, 1), ("c", "x", 0, 1)], 40) == []
    assert stream.n_late == 2
    assert len(stream.store.blobs) == 1


def test_early_results_contain_the_rows_so_far():
    stream = Stream(rules(0, EVERY_BATCH))
    assert stream.micro_batch([("a", "x", 0, 1)]) == [("+I", "a", "x", 0, 10, 1, 1)]
    assert stream.micro_batch([("a", "x", 8, 1)], 9) == [
        ("-D", "a", "x", 0, 10, 1, 1),
        ("+I", "a", "x", 0, 18, 2, 1),
    ]
    assert stream.micro_batch([("b", "x", 9, 1)], 17) == [("+I", "b", "x", 9, 19, 1, 1)]
    # nothing has changed since
    assert stream.micro_batch([], 18) == []
    assert stream.micro_batch([], "end") == []
    assert len(stream.store.blobs) == 1


def test_rows_wait_for_the_delay_of_their_rule():
    stream = Stream(rules(1000, FireRule(delay_us=50 * MS), FireRule(delay_us=20 * MS)))
    assert stream.micro_batch([("a", "x", 0, 1), ("b", "x", 90, 1)], 12, clock=0) == [
        ("+I", "a", "x", 0, 10, 1, 1)
    ]
    assert stream.micro_batch([("a", "x", 1, 1)], 12, clock=10) == []
    assert stream.micro_batch([("c", "x", 90, 1)], 12, clock=29) == []
    assert stream.micro_batch([], 12, clock=30) == [
        ("-D", "a", "x", 0, 10, 1, 1),
        ("+I", "a", "x", 0, 11, 2, 1),
    ]
    assert sorted(stream.micro_batch([], 12, clock=50)) == [
        ("+I", "b", "x", 90, 100, 1, 1),
        ("+I", "c", "x", 90, 100, 1, 1),
    ]
    assert stream.micro_batch([], 12, clock=500) == []


def test_late_rows_that_wait_are_emitted_before_their_session_is_closed():
    stream = Stream(rules(late=FireRule(delay_us=10_000 * MS)))
    stream.micro_batch([("a", "x", 0, 1)], 10, clock=0)
    assert stream.micro_batch([("a", "x", 0, 2)], 39, clock=1) == []
    assert stream.micro_batch([], 40, clock=2) == [
        ("-U", "a", "x", 0, 10, 1, 1),
        ("+U", "a", "x", 0, 10, 2, 2),
    ]


def test_rows_are_emitted_after_the_number_of_their_rule():
    stream = Stream(rules(1000, FireRule(rows=3), FireRule(rows=2)))
    assert stream.micro_batch([("a", "x", 100, 1), ("a", "x", 101, 1)], 10) == []
    assert stream.micro_batch([("b", "x", 100, 1)], 10) == [
        ("+I", "a", "x", 100, 111, 2, 1),
        ("+I", "b", "x", 100, 110, 1, 1),
    ]
    assert len(stream.micro_batch([], 200)) == 0
    assert stream.micro_batch([("b", "x", 100, 5)], 200) == []
    assert len(stream.micro_batch([("a", "x", 100, 5)], 200)) == 4


ROWS = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.sampled_from("xy"), st.integers(-60, 25), st.integers(0, 9)
    ),
    max_size=8,
)
BATCHES = st.lists(st.tuples(ROWS, st.integers(0, 25)), min_size=3, max_size=10)
MANY_CHUNKS = Thresholds(sessions_n_marks=4, sessions_max_runs=2)


@pytest.mark.long
@pytest.mark.parametrize("thresholds", [Thresholds(), MANY_CHUNKS], ids=["", "many chunks"])
@settings(deadline=None, max_examples=40)
@given(batches=BATCHES)
def test_the_early_changes_add_up_to_all_sessions(thresholds, batches):
    stream, model = Stream(rules(early=EVERY_BATCH), thresholds=thresholds), Model()
    log, now = Changelog(n_names=4), 0
    for number, (rows, step) in enumerate(batches):
        now += step
        if number % 3 == 0:
            CACHE.clear()
        moved = [(key, page, time + now, value) for key, page, time, value in rows]
        # a number distinguishes equal rows
        log.take(stream.micro_batch(moved, now))
        model.micro_batch([(*row, (number, i)) for i, row in enumerate(moved)], now)
        assert log.rows == model.all()
        assert stream.n_late == model.n_late
        assert set(stream.store.blobs) >= {"metadata", *blobs_of(stream.store.metadata)}
    log.take(stream.micro_batch([], "end"))
    assert log.rows == model.all()
    assert set(stream.store.blobs) == {"metadata"}


@pytest.mark.long
@pytest.mark.parametrize("thresholds", [Thresholds(), MANY_CHUNKS], ids=["", "many chunks"])
@settings(deadline=None, max_examples=40)
@given(batches=BATCHES)
def test_the_changes_add_up_to_the_sessions_that_have_ended(thresholds, batches):
    stream, model = Stream(thresholds=thresholds), Model()
    log, now = Changelog(n_names=4), 0
    for number, (rows, step) in enumerate(batches):
        now += step
        moved = [(key, page, time + now, value) for key, page, time, value in rows]
        log.take(stream.micro_batch(moved, now))
        model.micro_batch([(*row, (number, i)) for i, row in enumerate(moved)], now)
        fired = model.fired()
        assert fired.items() <= log.rows.items()
        # others are parts of sessions that go on
        for key, _, start, end in log.rows.keys() - fired.keys():
            assert any(k == key and s <= start and end < e for k, _, s, e in model.all())
    log.take(stream.micro_batch([], "end"))
    assert log.rows == model.all()
    assert stream.n_late == model.n_late
    assert set(stream.store.blobs) == {"metadata"}


def random_batches(seed, keys, n_batches=12):
    random, at, batches = Random(seed), 0, []
    for _ in range(n_batches):
        rows = [
            (random.choice(keys), "x", at + random.randrange(-40, 25), random.randrange(99))
            for _ in range(30)
        ]
        at += 12
        batches.append((rows, at))
    return [*batches, ([], "end")]


@pytest.mark.variants(1)
@pytest.mark.parametrize("early", [None, FireRule(delay_us=30 * MS)], ids=["", "early"])
@pytest.mark.parametrize("cut_at", [3, 6])
def test_split_key_groups_continue_with_the_same_changes(early, cut_at):
    keys = [f"k{number}" for number in range(40)]
    whole = Stream(rules(early=early, late=FireRule(delay_us=20 * MS)))
    batches = random_batches(cut_at, keys)
    for number, (rows, watermark) in enumerate(batches[:cut_at]):
        whole.micro_batch(rows, watermark, clock=1 + number * 10)
    assert whole.store.contents.results
    assert whole.store.contents.changed
    parts = []
    for blobs in split_group(signed_blobs(whole.store), 0, Split(1, INTO)):
        parts.append(Stream(whole.updates))
        parts[-1].store.blobs = blobs
    whole.n_late = 0
    for number, (rows, watermark) in enumerate(batches[cut_at:], start=cut_at):
        expected = whole.micro_batch(rows, watermark, clock=1 + number * 10)
        changes = []
        for place, part in enumerate(parts):
            own = [row for row in rows if place_of(row[0]) == place]
            changes += part.micro_batch(own, watermark, clock=1 + number * 10)
        assert sorted(changes) == sorted(expected)
    assert sum(part.n_late for part in parts) == whole.n_late


def test_a_large_key_group_is_split_into_buckets():
    keys = [f"k{number}" for number in range(40)]
    whole = Stream(rules(early=EVERY_BATCH))
    bounded = Stream(
        rules(early=EVERY_BATCH), bound=MemoryBound(Place(("key",), 1, 0), n_bytes=1000)
    )
    for rows, watermark in random_batches(1, keys):
        expected = sorted(whole.micro_batch(rows, watermark))
        assert sorted(bounded.micro_batch(rows, watermark)) == expected
    assert bounded.store.contents.n_buckets > 1


def test_the_emitted_results_in_state_can_be_inspected():
    stream = Stream(rules(early=EVERY_BATCH))
    stream.micro_batch([("a", "x", 0, 1), ("b", "y", 5, 2)], 3)
    kinds = {}
    for blob in blobs_of(stream.store.metadata).values():
        table = Decoder(None, None).decode(blob, stream.store.blobs[blob.name])
        kinds[blob.kind] = table
    results = kinds[BlobKind.RESULTS]
    assert results.column_names == ["key", "page", "window_start", "window_end", "n", "largest"]
    assert sorted(row["key"] for row in results.to_pylist()) == ["a", "b"]
    assert kinds[BlobKind.SESSIONS].num_rows == 2
