"""State time-to-live of groups and of first rows that change, against models with a clock."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.local.streaming.messages import EndOfInput
from runtime.spec.aggregates import WindowAggregation
from runtime.spec.state_schema import OperatorSchema, StateAccumulator, StateKey
from runtime.spec.stream import ROW_KIND
from runtime.spec.thresholds import Thresholds
from runtime.streaming.operators.base import KeyGroupSpec, MicroBatch, OperatorRun
from runtime.streaming.operators.expiry import CHANGED
from runtime.streaming.operators.firing import FireRule, UpdateRules
from runtime.streaming.operators.ranks import RankSpec
from runtime.streaming.operators.window import WindowOperator, WindowSpec
from runtime.streaming.slices.levels import one_reader
from runtime.streaming.state.codec import decode_table
from runtime.streaming.state.contents import BlobKind, Decoder, blobs_of
from runtime.streaming.watermarks import WatermarkRules
from runtime.windows.all_time import N_PARTS, AllTime
from tests.runtime.streaming.model import Memory
from tests.runtime.streaming.operators.test_all_time import SMALL, SUMS, partials
from tests.runtime.streaming.operators.test_ranks import Stream, of_changes, spec_of, top

SECOND = 1_000_000
TTL_S = 10
ALL_TIME = AllTime(ttl_us=TTL_S * SECOND)
FORGETFUL = Thresholds(sessions_n_marks=2, sessions_max_runs=2)

# seconds that pass before a micro-batch, and its changes (key, change, value)
GROUP_BATCHES = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 4, 9, 10, 11, 25]),
        st.lists(
            st.tuples(st.integers(0, 3), st.sampled_from([1, 1, 1, -1]), st.integers(0, 3)),
            max_size=4,
        ),
    ),
    max_size=12,
)


class Groups:
    """The window operator over groups with a time-to-live, over one state."""

    def __init__(self, *, may_delete: bool, early: FireRule | None = None) -> None:
        remaining = "n" if may_delete else None
        aggregation = WindowAggregation(ALL_TIME, ("key",), "$end", SUMS, remaining=remaining)
        common = KeyGroupSpec(1, OperatorRun(WatermarkRules()), "", thresholds=SMALL)
        rules = UpdateRules(0, early or FireRule(delay_us=0), None)
        self.spec = WindowSpec(one_reader(aggregation, (*SUMS, CHANGED)), common, rules)
        self.store = Memory()

    def run(self, changes: list[tuple], clock_s: float | None, *, ends: bool = False) -> list:
        """Run a micro-batch. Return the changes (kind, key, n, total)."""
        clock_us = None if clock_s is None else int(clock_s * SECOND)
        tables = [partials(changes)] if changes else []
        batch = MicroBatch(tables, [EndOfInput()] if ends else [], 0, clock_us)
        *windows, _ = (o.result for o in WindowOperator(self.spec, self.store).process(batch))
        rows = [row for window in windows for row in window.to_pylist()]
        return [(row[ROW_KIND], row["key"], row["n"], row["total"]) for row in rows]

    def keys(self) -> set[int]:
        """Return the keys in state."""
        tables = [
            decode_table(self.store.blobs[chunk.name])
            for slab in self.store.slabs
            for chunk in slab.chunks
        ]
        return {key for table in tables for key in table.column("key").to_pylist()}


def expected_groups(batches: list, *, may_delete: bool) -> list[list[tuple]]:
    """Return the changes of each micro-batch by definition: one key after the other."""
    state: dict[int, tuple[int, int, int]] = {}
    clock, result = 100, []
    for wait, changes in batches:
        clock += wait
        state = {key: row for key, row in state.items() if row[2] + TTL_S > clock}
        emitted = []
        for key in dict.fromkeys(change[0] for change in changes):
            old = state.get(key)
            n, total = old[:2] if old else (0, 0)
            n += sum(change for k, change, _ in changes if k == key)
            total += sum(change * value for k, change, value in changes if k == key)
            exists = n > 0 or not may_delete
            if exists:
                state[key] = (n, total, clock)
            else:
                state.pop(key, None)
            if old and not exists:
                emitted.append(("-D", key, *old[:2]))
            elif old and old[:2] != (n, total):
                emitted += [("-U", key, *old[:2]), ("+U", key, n, total)]
            elif not old and exists:
                emitted.append(("+I", key, n, total))
        result.append(sorted(emitted))
    return result


@pytest.mark.long
@pytest.mark.parametrize("may_delete", [False, True])
@given(batches=GROUP_BATCHES)
@settings(max_examples=40, deadline=None)
def test_groups_expire_as_in_a_model_with_a_clock(may_delete, batches):
    if not may_delete:
        batches = [(wait, [(k, 1, v) for k, _, v in changes]) for wait, changes in batches]
    # several keys per part
    batches = [(w, [(k % 2 + k // 2 * N_PARTS, c, v) for k, c, v in cs]) for w, cs in batches]
    groups, clock, emitted = Groups(may_delete=may_delete), 100, []
    for wait, changes in batches:
        clock += wait
        emitted.append(sorted(groups.run(changes, clock)))
    assert emitted == expected_groups(batches, may_delete=may_delete)
    # each part is searched once within the time-to-live
    groups.run([], clock + TTL_S)
    groups.run([], clock + 2 * TTL_S)
    assert not groups.keys()
    assert not [run for run in groups.store.contents.updates.runs if run]


def test_an_expired_key_begins_anew_and_its_deletion_is_ignored():
    groups = Groups(may_delete=True)
    assert groups.run([(1, 1, 5), (1, 1, 6), (2, 1, 1)], 100) == [
        ("+I", 1, 2, 11),
        ("+I", 2, 1, 1),
    ]
    assert groups.run([(2, 1, 1)], 105) == [("-U", 2, 1, 1), ("+U", 2, 2, 2)]
    assert groups.run([(1, -1, 5)], 110) == []  # nothing is retracted from the sink
    assert groups.run([(1, 1, 7)], 111) == [("+I", 1, 1, 7)]
    assert groups.run([(2, 1, 3)], 114) == [("-U", 2, 2, 2), ("+U", 2, 3, 5)]


def test_the_state_of_groups_shows_when_they_changed():
    groups = Groups(may_delete=False)
    groups.run([(1, 1, 5)], 100)
    groups.run([(1, 1, 6)], 105)
    keys = (StateKey("key", "key", "bigint"),)
    sums = [StateAccumulator((name,), "sum", (name,), None, name) for name in ("n", "total")]
    of = OperatorSchema(ALL_TIME, ("$all", "timestamp_ntz"), "$end", keys, tuple(sums))
    decoder = Decoder(of, None)
    rows = [
        row
        for name, blob in blobs_of(groups.store.metadata).items()
        if blob.kind is BlobKind.SLICES
        for row in decoder.decode(blob, groups.store.blobs[name])
        .select(["key", "n", "changed_us"])
        .to_pylist()
    ]
    assert sorted(row["changed_us"] for row in rows)[-1] == 105 * SECOND
    assert sum(row["n"] for row in rows) == 2


def test_keys_whose_results_wait_for_early_firing_stay():
    groups = Groups(may_delete=False, early=FireRule(delay_us=60 * SECOND))
    assert groups.run([(1, 1, 5)], 100) == []
    assert groups.run([(2, 1, 5)], 130) == []
    assert sorted(groups.run([], 165)) == [("+I", 1, 1, 5), ("+I", 2, 1, 5)]
    assert groups.run([(1, 1, 1)], 200) == []
    assert groups.run([], 265) == [("+I", 1, 1, 1)]


def test_a_micro_batch_without_a_clock_drops_no_key():
    groups = Groups(may_delete=False)
    assert groups.run([(1, 1, 5)], None) == [("+I", 1, 1, 5)]
    assert groups.run([(1, 1, 5), (2, 1, 1)], 100) == [
        ("-U", 1, 1, 5),
        ("+U", 1, 2, 10),
        ("+I", 2, 1, 1),
    ]
    assert groups.run([(2, 1, 1)], None) == [("-U", 2, 1, 1), ("+U", 2, 2, 2)]
    assert groups.run([], None, ends=True) == []
    assert not groups.keys()


# seconds that pass before a micro-batch, and its rows (key, time, value, change)
RANK_BATCHES = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 4, 9, 10, 11, 25]),
        st.lists(
            st.tuples(
                st.sampled_from("abcd"),
                st.integers(0, 5),
                st.integers(0, 1),
                st.sampled_from([1, 1, 1, -1]),
            ),
            max_size=3,
        ),
    ),
    max_size=12,
)


class Ranks(Stream):
    """The operator of first rows that change, with a clock."""

    def at(self, rows: list[tuple], clock_s: float) -> list[tuple]:
        """Run a micro-batch. Return the changes (kind, key, value)."""
        return self._run(MicroBatch([self._partials(rows)], [], 0, int(clock_s * SECOND)))


def with_ttl(spec: RankSpec) -> RankSpec:
    return replace(spec, ttl_us=TTL_S * SECOND)


def first_of(rows: Counter, key: str, last: int, function: str) -> list[tuple]:
    given_rows = [row for row in rows.elements() if row[0] == key]
    return sorted(top(given_rows, function, last))


def check_ranks(spec: RankSpec, batches: list, *, may_delete: bool) -> None:
    """Compare the sink of a stream with a model that knows the rows of live keys."""
    of = spec.first
    stream, clock = Ranks(with_ttl(spec), FORGETFUL), 100
    rows: dict[str, Counter] = defaultdict(Counter)
    changed: dict[str, int] = {}
    for wait, batch in batches:
        clock += wait
        for key in [key for key, at in changed.items() if at + TTL_S <= clock]:
            del rows[key], changed[key]
        sink = [row for key in rows for row in first_of(rows[key], key, of.last, of.function)]
        for key in dict.fromkeys(row[0] for row in batch):
            before = sorted(rows[key].elements())[: of.last]
            for *row, change in batch:
                if row[0] == key:
                    rows[key][tuple(row)] += change
            rows[key] = +rows[key]
            # without deletions, rows that are not among the first change no state
            if may_delete or sorted(rows[key].elements())[: of.last] != before:
                changed[key] = clock
            if not rows[key]:
                rows.pop(key)
                changed.pop(key, None)
        for kind, key, value in stream.at(batch, clock):
            sink.append((key, value)) if kind in ("+I", "+U") else sink.remove((key, value))
        now = [row for key in rows for row in first_of(rows[key], key, of.last, of.function)]
        assert sorted(sink) == sorted(now)
    stream.at([], clock + TTL_S)
    stream.at([], clock + 2 * TTL_S)
    assert stream.status.n_rows == 0


@pytest.mark.long
@pytest.mark.parametrize("last", [1, 2])
@pytest.mark.parametrize("function", ["ROW_NUMBER", "RANK"])
@given(batches=RANK_BATCHES)
@settings(max_examples=30, deadline=None)
def test_ranks_over_changes_expire_as_in_a_model_with_a_clock(function, last, batches):
    check_ranks(of_changes(last, function), batches, may_delete=True)


@pytest.mark.long
@pytest.mark.parametrize("last", [1, 2])
@given(batches=RANK_BATCHES)
@settings(max_examples=30, deadline=None)
def test_first_rows_expire_as_in_a_model_with_a_clock(last, batches):
    batches = [(wait, [(*row, 1) for *row, _ in rows]) for wait, rows in batches]
    # rows with equal first columns tie, so that only new ones change the state
    seen: set[tuple] = set()
    distinct = []
    for wait, rows in batches:
        fresh = [row for row in rows if row not in seen and not seen.add(row)]
        distinct.append((wait, fresh))
    check_ranks(spec_of(ALL_TIME, last), distinct, may_delete=False)


def test_a_last_row_that_is_dropped_is_first_again():
    stream = Ranks(with_ttl(of_changes(1)), Thresholds())
    assert stream.at([("a", 5, 1), ("b", 5, 2)], 100) == [("+I", "a", 1), ("+I", "b", 2)]
    assert stream.at([("b", 6, 3)], 105) == []
    # expired rows in state are searched a few times within the time-to-live
    assert stream.at([("c", 5, 5)], 109) == [("+I", "c", 5)]
    assert stream.at([("a", 5, 1, -1)], 110) == []
    assert stream.at([("a", 7, 4)], 110) == [("+I", "a", 4)]
    assert stream.at([("b", 5, 2, -1)], 114) == [("-U", "b", 2), ("+U", "b", 3)]
