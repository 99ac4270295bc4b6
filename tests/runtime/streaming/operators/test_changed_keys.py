"""Emitted windows are recomputed only for keys with new rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runtime.spec.thresholds import Thresholds
from runtime.streaming.operators.firing import FireRule
from runtime.streaming.state import results
from runtime.streaming.state.contents import BlobKind, blobs_of
from runtime.streaming.state.metadata import UpdateMetadata
from runtime.streaming.state.table_cache import CACHE
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from tests.runtime.streaming.model import MS, Stream
from tests.runtime.streaming.operators.changelog import Changelog
from tests.runtime.streaming.operators.test_updates import Brute, rules

S = 1000 * MS
WINDOWS = [Tumble(10 * S), Hop(5 * S, 60 * S), Cumulate(10 * S, 60 * S)]
AT_ONCE, SOME_ROWS = FireRule(delay_us=0), FireRule(rows=20)


def updates(stream: Stream) -> UpdateMetadata:
    result: UpdateMetadata = stream.store.contents.updates
    return result


@pytest.mark.parametrize("window", WINDOWS, ids=repr)
def test_only_keys_with_new_rows_are_read_and_written(
    window: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [f"k{number}" for number in range(500)]
    stream, log = Stream(window, updates=rules(0, AT_ONCE)), Changelog()
    log.take(stream.micro_batch([(key, 1000, 1) for key in keys], 0))
    n_windows = len(log.rows) // len(keys)
    compared: list[int] = []
    read = results.ResultStore.read

    def counted(*arguments: Any) -> Any:
        result = read(*arguments)
        compared.append(0 if result is None else result.num_rows)
        return result

    monkeypatch.setattr(results.ResultStore, "read", counted)
    changes = stream.micro_batch([("k7", 2000, 1)], 0)
    assert [row[1] for row in changes] == ["k7"] * 2 * n_windows
    assert compared == [n_windows]
    first, second = updates(stream).runs
    assert sum(part.n_rows for part in first) == 500 * n_windows
    assert sum(part.n_rows for part in second) == n_windows
    log.take(changes)
    log.take(stream.end())
    assert set(stream.store.blobs) == {"metadata"}


@pytest.mark.variants(3)
@pytest.mark.parametrize("limits", [(1 << 16, 8, 0), (12, 2, 4)], ids=["plenty", "few"])
@pytest.mark.parametrize("late", [None, FireRule(rows=2)], ids=["", "late"])
@pytest.mark.parametrize("early", [AT_ONCE, SOME_ROWS], ids=["at once", "some rows"])
@pytest.mark.parametrize("window", WINDOWS, ids=repr)
def test_pending_updates_are_emitted_when_due(
    window: Any,
    early: FireRule,
    late: FireRule | None,
    limits: tuple[int, int, int],
) -> None:
    thresholds = Thresholds(
        changed_keys_max_rows=limits[0],
        results_max_runs=limits[1],
        merge_size_ratio=limits[2],
        spans_min_rows=0,
    )
    lateness = 30_000 if late else 0
    stream = Stream(window, updates=rules(lateness, early, late), thresholds=thresholds)
    brute, log, random = Brute(window, lateness), Changelog(), np.random.default_rng(limits[1])
    n_whole = n_runs = n_kept = 0
    for number in range(60):
        now, n_rows = number * 2500, int(random.integers(0, 12))
        back = random.integers(0, 40_000, n_rows) * (random.random(n_rows) < 0.4)
        some = [(f"k{random.integers(80)}", now - int(at), 1) for at in back]
        # occasionally another worker continues
        if random.random() < 0.2:
            CACHE.clear()
        log.take(stream.micro_batch(some, now - 15_000, clock=now))
        brute.take(some, now - 15_000)
        assert set(stream.store.blobs) == {"metadata", *blobs_of(stream.store.metadata)}
        update_log = updates(stream)
        if not update_log.n_pending and not update_log.n_late:
            n_whole += 1
            assert log.rows == brute.rows(fired_only=False)
        n_runs += len(update_log.runs) > 1
        n_kept += bool(update_log.keys)
    assert n_whole > 5
    assert n_runs or limits[0] < 20
    assert n_kept or (early is AT_ONCE and late is None) or limits[0] < 20
    log.take(stream.end())
    assert log.rows == brute.rows(fired_only=False)
    assert set(stream.store.blobs) == {"metadata"}


def test_keys_that_wait_are_in_state_by_themselves() -> None:
    stream = Stream(Hop(5 * S, 20 * S), updates=rules(0, FireRule(rows=5)))
    stream.micro_batch([(key, 1000, 1) for key in "abcde"], 0)
    stream.micro_batch([("b", 2000, 1), ("b", 3000, 1)], 0)
    stream.micro_batch([("d", 2000, 1)], 0)
    blobs = blobs_of(stream.store.metadata).values()
    result = [blob for blob in blobs if blob.kind is BlobKind.CHANGED]
    assert [blob.n_rows for blob in result] == [1, 1]
    assert {row[1] for row in stream.micro_batch([("a", 1, 1), ("a", 2, 1)], 0)} == set("abd")
    assert not updates(stream).keys


@pytest.mark.long
def test_runs_of_few_keys_are_merged_early() -> None:
    stream, log = Stream(Hop(5 * S, 60 * S), updates=rules(0, AT_ONCE)), Changelog()
    brute = Brute(Hop(5 * S, 60 * S), 0)
    random = np.random.default_rng(4)
    every = [(f"k{number}", 1000, 1) for number in range(400)]
    log.take(stream.micro_batch(every, 0))
    brute.take(every, 0)
    for _ in range(60):
        some = [(f"k{random.integers(400)}", 1000, 1) for _ in range(3)]
        log.take(stream.micro_batch(some, 0))
        brute.take(some, 0)
        assert len(updates(stream).runs) <= stream.thresholds.results_max_runs
    assert log.rows == brute.rows(fired_only=False)
