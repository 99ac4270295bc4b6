"""A key group in sub-buckets emits the same as without, and stays within its memory limit."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from runtime.errors import ExecutionError
from runtime.spec.thresholds import Thresholds
from runtime.streaming.operators.buckets import MemoryBound
from runtime.streaming.operators.firing import UpdateRules
from runtime.streaming.state.buckets import Place, is_metadata, metadata_name, n_buckets_of
from runtime.streaming.state.codec import decode_metadata
from runtime.streaming.state.contents import blobs_of
from runtime.streaming.state.split import Split, key_columns, split_group
from runtime.streaming.state.table_cache import CACHE
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from tests.marks import among
from tests.runtime.streaming.model import MS, NO_SPANS, SPANS_FROM_THE_START, Memory, Stream
from tests.runtime.streaming.operators import test_session, test_shared
from tests.runtime.streaming.state.test_split import place_of, random_batches

ALONE = Place(("key",), 1, 0)
# bytes of some rows of a micro-batch
FEW_BYTES = 600


def n_buckets(stream: Any) -> int:
    return n_buckets_of(stream.store.metadata) or 1


def check_blobs(store: Memory) -> None:
    """State holds exactly the blobs that its metadata names."""
    metadata = store.metadata
    parts = [metadata] + [
        decode_metadata(store.blobs[metadata_name(n)]) for n in range(n_buckets_of(metadata))
    ]
    named = [blob for part in parts for blob in blobs_of(part).values()]
    names = {name for blob in named for name in (blob.name, blob.taken) if name is not None}
    assert {name for name in store.blobs if not is_metadata(name)} == names
    assert sum(map(is_metadata, store.blobs)) == len(parts)


def gives_the_same(whole: Any, cut: Any, batches: list[tuple[Any, ...]]) -> list[int]:
    """Drive both streams and return the number of sub-buckets after each micro-batch."""
    result = []
    for number, (rows, watermark) in enumerate([*batches, ([], None)]):
        is_last = watermark is None
        if number % 3 == 0:
            # another worker
            CACHE.clear()
        expected = whole.end() if is_last else whole.micro_batch(rows, watermark)
        emitted = cut.end() if is_last else cut.micro_batch(rows, watermark)
        assert sorted(emitted, key=repr) == sorted(expected, key=repr)
        assert cut.status.next_window_end_us == whole.status.next_window_end_us
        assert (cut.status.watermarks, cut.n_late) == (whole.status.watermarks, whole.n_late)
        check_blobs(cut.store)
        result.append(n_buckets(cut))
    return result


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    "window",
    [Tumble(10_000 * MS), Hop(10_000 * MS, 120_000 * MS), Cumulate(10_000 * MS, 60_000 * MS)],
    ids=["tumble", "hop", "cumulate"],
)
@pytest.mark.parametrize("lateness", [None, 30_000])
def test_windows(window: Any, lateness: int | None) -> None:
    updates = None if lateness is None else UpdateRules(lateness * MS, None, None)
    thresholds = Thresholds(spans_min_rows=0)
    whole, cut = (Stream(window, updates=updates, thresholds=thresholds) for _ in range(2))
    cut.bound = MemoryBound(ALONE, FEW_BYTES)
    result = gives_the_same(whole, cut, random_batches(3))
    assert result[0] == 1 and result[1] > 1 and result == sorted(result)


def test_sessions() -> None:
    random, at, batches = Random(5), 0, []
    for _ in range(15):
        rows = [
            (f"k{random.randrange(40)}", "x", at + random.randrange(-8, 14), random.randrange(99))
            for _ in range(12)
        ]
        at += 5
        batches.append((rows, at))
    thresholds = Thresholds(sessions_max_runs=3)
    whole, cut = (test_session.Stream(thresholds=thresholds) for _ in range(2))
    for stream in (whole, cut):
        stream.end = lambda stream=stream: stream.micro_batch([], "end")  # type: ignore[attr-defined]
    cut.bound = MemoryBound(ALONE, FEW_BYTES // 2)
    assert gives_the_same(whole, cut, batches)[-1] > 1


@pytest.mark.long
@pytest.mark.parametrize(
    "thresholds",
    [pytest.param(SPANS_FROM_THE_START, marks=pytest.mark.long), NO_SPANS],
    ids=["running", "slices"],
)
def test_slices_that_several_windows_share_and_late_rows(thresholds: Thresholds) -> None:
    windows = (
        Tumble(10_000 * MS),
        Hop(10_000 * MS, 120_000 * MS),
        Cumulate(10_000 * MS, 60_000 * MS),
    )
    whole, cut = (test_shared.Shared(*windows, thresholds=thresholds) for _ in range(2))
    cut.bound = MemoryBound(ALONE, FEW_BYTES)
    for rows, watermark in random_batches(2):
        assert cut.micro_batch(rows, watermark) == whole.micro_batch(rows, watermark)
        assert cut.n_late == whole.n_late
        assert [sorted(rows) for rows in cut.late] == [sorted(rows) for rows in whole.late]
        check_blobs(cut.store)
    assert cut.end() == whole.end()
    assert n_buckets(cut) > 1 and sum(whole.n_late) > 0
    check_blobs(cut.store)


def test_a_small_key_group_is_not_split() -> None:
    stream = Stream(Tumble(10_000 * MS), bound=MemoryBound(ALONE, 1 << 20))
    for rows, watermark in random_batches(1):
        stream.micro_batch(rows, watermark)
    assert n_buckets(stream) == 1
    # a limit lowered by a restart takes effect once it is exceeded
    stream.bound = MemoryBound(ALONE, FEW_BYTES)
    for rows, watermark in random_batches(1)[-2:]:
        stream.micro_batch(rows, watermark)
    assert n_buckets(stream) > 1


def test_a_stream_without_keys_is_not_split() -> None:
    stream = Stream(Tumble(10_000 * MS), bound=MemoryBound(Place((), 1, 0), 1))
    for rows, watermark in random_batches(1):
        stream.micro_batch(rows, watermark)
    assert n_buckets(stream) == 1


@pytest.mark.long
@pytest.mark.parametrize("into", among([2, 4, 32], long=[2, 32]))
def test_a_checkpoint_with_sub_buckets_is_rescaled(into: int) -> None:
    batches = random_batches(7)
    stream = Stream(Hop(10_000 * MS, 60_000 * MS), bound=MemoryBound(ALONE, FEW_BYTES))
    for rows, watermark in batches[:6]:
        stream.micro_batch(rows, watermark)
    assert 4 <= n_buckets(stream) <= 16
    assert key_columns(stream.store.blobs) == ["key"]
    parts = []
    for number, blobs in enumerate(split_group(stream.store.blobs, 0, Split(1, into))):
        bound = MemoryBound(Place(("key",), into, number), FEW_BYTES)
        parts.append(Stream(stream.window, bound=bound))
        parts[-1].store.blobs = blobs
        check_blobs(parts[-1].store)
    stream.n_late = 0
    for rows, watermark in [*batches[6:], ([], None)]:
        is_last = watermark is None
        expected = stream.end() if is_last else stream.micro_batch(rows, watermark)
        result = []
        for number, part in enumerate(parts):
            own = [row for row in rows if place_of(row[0], into) == number]
            result += part.end() if is_last else part.micro_batch(own, watermark)
        assert sorted(result) == sorted(expected)
    assert sum(part.n_late for part in parts) == stream.n_late


def test_a_missing_sub_bucket_is_an_error() -> None:
    stream = Stream(Tumble(10_000 * MS), bound=MemoryBound(ALONE, FEW_BYTES))
    for rows, watermark in random_batches(1)[:3]:
        stream.micro_batch(rows, watermark)
    del stream.store.blobs[metadata_name(1)]
    with pytest.raises(ExecutionError, match=r"blob metadata\.1 is missing"):
        stream.micro_batch([], 10**9)
    with pytest.raises(ExecutionError, match=r"blob metadata\.1 is missing"):
        split_group(stream.store.blobs, 0, Split(1, 2))
