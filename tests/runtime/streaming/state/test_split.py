"""Split key groups continue as the original one would have, for every operator."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from runtime.compute.kernels.keys import bucket_of
from runtime.errors import ExecutionError
from runtime.spec.thresholds import Thresholds
from runtime.streaming.general.assigners import SessionAssigner
from runtime.streaming.general.operator import WindowJob
from runtime.streaming.operators.base import KeyGroupSpec
from runtime.streaming.operators.firing import FireRule, UpdateRules
from runtime.streaming.state.blobs import METADATA
from runtime.streaming.state.codec import decode_metadata, encode_metadata
from runtime.streaming.state.metadata import GroupMetadata, WindowMetadata
from runtime.streaming.state.split import Split, key_columns, split_group
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from tests.runtime.streaming.model import MS, Memory, Stream
from tests.runtime.streaming.operators import test_session, test_shared
from tests.runtime.streaming.operators.test_general import VALUES, Group

INTO = 4
# Spans for any number of partials, where they pay off
SPANS = Thresholds(spans_min_rows=0)
KEYS = [f"k{number}" for number in range(40)]


def place_of(key: str, of: int = INTO) -> int:
    return int(bucket_of([pa.array([key])], 1, of)[0])


def signed_blobs(store: Memory, by: tuple[str, ...] = ("key",)) -> Mapping[str, bytes]:
    """Return the blobs of a state whose metadata names the key columns."""
    return {**store.blobs, METADATA: encode_metadata(replace(store.metadata, by=by))}


def split_stream(stream: Any, by: tuple[str, ...] = ("key",)) -> list[Any]:
    """Return a stream for each part of a stream."""
    split = Split(n_groups=1, into=INTO)
    streams = []
    for blobs in split_group(signed_blobs(stream.store, by), 0, split):
        part = deepcopy(stream)
        part.store, part.n_late = Memory(), 0
        part.store.blobs = blobs
        streams.append(part)
    return streams


def check_parts(whole: Any, batches: list[tuple[Any, ...]], cut_at: int) -> None:
    """Drive a stream, and from some micro-batch on also its parts, to the end."""
    for rows, watermark in batches[:cut_at]:
        whole.micro_batch(rows, watermark)
    whole.n_late = 0
    parts = split_stream(whole)
    assert sum(len(part.store.blobs) > 1 for part in parts) > 1, "there is something to be cut"
    for rows, watermark in [*batches[cut_at:], ([], None)]:
        is_last = watermark is None
        expected = whole.end() if is_last else whole.micro_batch(rows, watermark)
        result = []
        for number, part in enumerate(parts):
            own = [row for row in rows if place_of(row[0]) == number]
            result += part.end() if is_last else part.micro_batch(own, watermark)
        assert sorted(result, key=repr) == sorted(expected, key=repr)
    assert sum(part.n_late for part in parts) == whole.n_late


def random_batches(seed: int, n_keys: int = 40) -> list[tuple[Any, ...]]:
    """Return rows (key, time in ms, value), some of them late, with a watermark."""
    random, at = Random(seed), 0
    batches = []
    for _ in range(12):
        rows = [
            (
                random.choice(KEYS[:n_keys]),
                at + random.randrange(-20_000, 40_000),
                random.randrange(99),
            )
            for _ in range(60)
        ]
        at += 15_000
        batches.append((rows, at))
    return batches


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    "window",
    [
        Tumble(10_000 * MS),
        Hop(10_000 * MS, 120_000 * MS),
        Cumulate(10_000 * MS, 60_000 * MS),
    ],
    ids=["tumble", "hop", "cumulate"],
)
@pytest.mark.parametrize("lateness", [None, 30_000])
@pytest.mark.parametrize("early", [None, FireRule(delay_us=0)], ids=["", "early"])
def test_windows(window: Any, lateness: int | None, early: FireRule | None) -> None:
    updates = None
    if lateness is not None or early is not None:
        updates = UpdateRules((lateness or 0) * MS, early, None)
    for cut_at in (3, 7):
        check_parts(
            Stream(window, updates=updates, thresholds=SPANS), random_batches(cut_at), cut_at
        )


def test_keys_that_wait_to_be_emitted_again() -> None:
    at_last = UpdateRules(0, FireRule(delay_us=5000 * MS), None)
    stream = Stream(Hop(10_000 * MS, 60_000 * MS), updates=at_last)
    before = [(key, 1000, 1) for key in KEYS]
    stream.micro_batch(before, 0, clock=1000)
    stream.micro_batch([], 0, clock=7000)
    stream.micro_batch(before[::2], 0, clock=8000)
    stream.micro_batch([], 0, clock=14_000)
    stream.micro_batch(before[::4], 0, clock=15_000)
    updates = stream.store.contents.updates
    assert len(updates.runs) > 1 or updates.keys
    parts = split_stream(stream)
    expected = stream.micro_batch([], 0, clock=21_000)
    result = [row for part in parts for row in part.micro_batch([], 0, clock=21_000)]
    assert {row[1] for row in expected} == set(KEYS[::4])
    assert sorted(result) == sorted(expected)


def test_running_aggregates_are_rebuilt() -> None:
    stream = Stream(Hop(10_000 * MS, 120_000 * MS), thresholds=SPANS)
    for rows, watermark in random_batches(1, n_keys=3):
        stream.micro_batch(rows, watermark)
    assert stream.store.contents.slices.spans
    for part in split_stream(stream):
        assert not part.store.contents.slices.spans
    windows = Tumble(10_000 * MS), Hop(10_000 * MS, 120_000 * MS)
    shared = test_shared.Shared(*windows, thresholds=SPANS)
    for rows, watermark in random_batches(1, n_keys=3):
        shared.micro_batch(rows, watermark)
    assert shared.store.contents.slices.spans
    for blobs in split_group(signed_blobs(shared.store), 0, Split(1, INTO)):
        assert not decode_metadata(blobs[METADATA]).contents.slices.spans  # type: ignore[union-attr]


def test_chunks_of_a_slab_are_concatenated() -> None:
    stream = Stream(Hop(10_000 * MS, 120_000 * MS))
    for number in range(6):
        stream.micro_batch([(key, 500_000 + number, number) for key in KEYS], 1000)
    n_chunks = [len(slab.chunks) for slab in stream.store.slabs]
    assert max(n_chunks) > 1, "there is something to put together"
    for part in split_stream(stream):
        assert {len(slab.chunks) for slab in part.store.slabs} == {1}


def test_sessions() -> None:
    random, at, batches = Random(5), 0, []
    for _ in range(12):
        rows = [
            (random.choice(KEYS), "x", at + random.randrange(-8, 14), random.randrange(99))
            for _ in range(12)
        ]
        at += 5
        batches.append((rows, at))
    for cut_at in (2, 6, 9):
        whole = test_session.Stream()
        whole.end = lambda: set()  # type: ignore[attr-defined]
        check_parts(whole, batches, cut_at)


def test_slices_that_several_windows_share() -> None:
    shared = test_shared.Shared(
        Tumble(10_000 * MS), Hop(10_000 * MS, 60_000 * MS), Cumulate(10_000 * MS, 60_000 * MS)
    )
    for rows, watermark in random_batches(2)[:6]:
        shared.micro_batch(rows, watermark)
    assert shared.store.contents.slices.levels
    parts = split_group(signed_blobs(shared.store), 0, Split(1, INTO))
    n_rows = [_n_rows(decode_metadata(part[METADATA])) for part in parts]
    assert sum(n_rows) == _n_rows(shared.store.metadata)
    assert min(n_rows) > 0


def _n_rows(metadata: GroupMetadata) -> int:
    assert isinstance(metadata.contents, WindowMetadata)
    slabs = [slab for level in metadata.contents.slices.levels for slab in level.slabs]
    return sum(chunk.n_rows for slab in slabs for chunk in slab.chunks)


def test_state_without_keys_is_unchanged() -> None:
    stream = Stream(Tumble(10_000 * MS))
    stream.micro_batch([("a", 1, 1)], 0)
    assert key_columns(signed_blobs(stream.store, ())) == []
    assert split_group(stream.store.blobs, 0, Split(1, 1)) == [stream.store.blobs]


def test_state_that_cannot_be_cut_is_refused() -> None:
    stream = Stream(Tumble(10_000 * MS))
    stream.micro_batch([("a", 1, 1)], 0)
    other = next(number for number in range(8) if number != place_of("a", 8))
    with pytest.raises(ExecutionError, match="has keys of another key group"):
        split_group(signed_blobs(stream.store), other, Split(8, INTO))
    metadata = signed_blobs(stream.store)[METADATA]
    with pytest.raises(ExecutionError, match=r"blob .* is missing"):
        split_group({METADATA: metadata}, 0, Split(1, INTO))


def test_operators_store_their_key_columns() -> None:
    stream = Stream(Tumble(10_000 * MS))
    stream.micro_batch([("a", 1, 1)], 0)
    assert stream.store.metadata.by is None
    group = Group(WindowJob(SessionAssigner(20 * MS), VALUES))
    group._spec = replace(group._spec, common=KeyGroupSpec(1, by=("k",)))
    list(group.batch([("a", 1, 1)]))
    assert group.store.metadata.by == ("k",)
