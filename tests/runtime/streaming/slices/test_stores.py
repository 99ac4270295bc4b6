"""Both slice stores give the windows of brute force, also after failures and restarts.

A script is a list of micro-batches. Each adds rows, reads windows (firing, fired, and early), and
frees slices. It may die between any two calls, and then runs again from the committed state. Rows,
windows, watermark steps and the kind of store are random.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.local.streaming.stage import ROW_COUNT
from runtime.plan.streams import SliceStoreKind
from runtime.spec.thresholds import Thresholds
from runtime.streaming.slices.levels import one_reader
from runtime.streaming.slices.opening import open_slices
from runtime.streaming.slices.plain import PlainSlices
from runtime.streaming.slices.running_slices import RunningSlices
from runtime.streaming.slices.store import Horizon, SliceStore
from runtime.streaming.state.codec import decode_metadata, encode_metadata
from runtime.streaming.state.contents import blobs_of
from runtime.streaming.state.key_sets import KeySet
from runtime.streaming.state.metadata import GroupMetadata, SliceMetadata, WindowMetadata
from runtime.streaming.state.table_cache import CACHE
from runtime.streaming.watermarks import Watermarks
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from tests.reference import windows_of
from tests.runtime.streaming.model import (
    KEYS,
    MS,
    PARTIALS,
    SPANS_FROM_THE_START,
    Memory,
    aggregation,
    partials,
    result_rows,
)

PLAIN, RUNNING, TOTALS = SliceStoreKind
S = 1000 * MS
Row = tuple[str, int, int]
Window = Tumble | Hop | Cumulate


class DiedError(Exception):
    """The process died."""


def metadata_of(slices: SliceMetadata) -> GroupMetadata:
    return GroupMetadata(Watermarks(()), "", None, None, None, 0, WindowMetadata(slices, None))


@dataclass
class MicroBatch:
    """One step of a script. Times in ms.

    Attributes:
        rows: (key, time behind the watermark, value).
        step: Advance of the watermark.
        lateness: Time for which windows that have fired stay open.
        kind: Index of the store kind among those of the window.
        keys: Keys to read; None: all.
        dies_after: Number of calls after which the first attempt dies.
        is_other_worker: Whether nothing is cached.
    """

    rows: list[Row]
    step: int
    lateness: int
    kind: int
    keys: frozenset[str] | None = None
    dies_after: int | None = None
    is_other_worker: bool = False


micro_batches = st.builds(
    MicroBatch,
    rows=st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(-25_000, 40_000), st.integers(-5, 5)),
        max_size=10,
    ),
    step=st.integers(0, 15_000),
    lateness=st.sampled_from([0, 0, 4_000, 20_000]),
    kind=st.integers(0, 1),
    keys=st.sampled_from([None, None, frozenset("a"), frozenset("bc")]),
    dies_after=st.none() | st.integers(0, 6),
    is_other_worker=st.booleans(),
)
scripts = st.lists(micro_batches, min_size=3, max_size=12)
seconds = st.integers(1, 12)
windows = st.one_of(
    st.builds(lambda size, offset: Tumble(size * S, offset * S), seconds, st.integers(-5, 5)),
    st.builds(
        lambda slide, n, more, offset: Hop(slide * S, (slide * n + more) * S, offset * S),
        st.integers(1, 5),
        seconds,
        st.integers(0, 3),
        st.integers(-5, 5),
    ),
    st.builds(
        lambda step, n, offset: Cumulate(step * S, step * n * S, offset * S),
        st.integers(1, 5),
        seconds,
        st.integers(-5, 5),
    ),
)


def kinds_of(window: Window) -> list[SliceStoreKind]:
    """Return the stores that a window can have."""
    match window:
        # running aggregates need slices that are in several windows
        case Hop() if window.windows_per_row > 1:
            return [PLAIN, RUNNING]
        case Cumulate():
            return [PLAIN, TOTALS]
    return [PLAIN, PLAIN]


@dataclass
class Script:
    """Runs micro-batches over one state and compares them with brute force over all rows."""

    window: Window
    now: int = 0
    closed: int | None = None
    fired: int | None = None
    store: Memory = field(default_factory=Memory)
    metadata: bytes | None = None
    values: dict[tuple[str, int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    n_read: int = 0

    def run(self, batch: MicroBatch) -> SliceMetadata:
        """Run a micro-batch until it succeeds."""
        rows = [
            (key, self.now - behind, value)
            for key, behind, value in batch.rows
            if self._may_come(self.now - behind)
        ]
        for key, time, value in rows:
            for start, end in windows_of(self.window, time, MS):
                if self.closed is None or end > self.closed:
                    self.values[key, start, end].append(value)
        after = self.now + batch.step
        closed = max(after - batch.lateness, -(10**9) if self.closed is None else self.closed)
        horizon = Horizon((us(self.fired), us(after)), (us(self.closed), us(closed)))
        if batch.dies_after is not None:
            alive = Memory()
            alive.blobs = dict(self.store.blobs)
            with pytest.raises(DiedError):
                self._calls(alive, batch, rows, horizon, batch.dies_after)
        if batch.is_other_worker:
            CACHE.clear()
        metadata = self._calls(self.store, batch, rows, horizon, None)
        self.metadata = encode_metadata(metadata_of(metadata))
        assert set(self.store.blobs) == set(blobs_of(decode_metadata(self.metadata)))
        self.now, self.fired, self.closed = after, after, closed
        return metadata

    def _may_come(self, time: int) -> bool:
        """Return whether a row may arrive; the operator itself moves rows of closed CUMULATE steps."""
        ends = [end for _, end in windows_of(self.window, time, MS)]
        is_growing = isinstance(self.window, Cumulate)
        return not is_growing or self.closed is None or min(ends) > self.closed

    def _calls(
        self,
        blobs: Memory,
        batch: MicroBatch,
        rows: list[Row],
        horizon: Horizon,
        dies_after: int | None,
    ) -> SliceMetadata:
        """Make the calls of a micro-batch, and die after some of them."""
        left = [dies_after]

        def called() -> None:
            if left[0] == 0:
                raise DiedError
            left[0] = None if left[0] is None else left[0] - 1

        kind = kinds_of(self.window)[batch.kind]
        spec = one_reader(aggregation(self.window), PARTIALS, store=kind)
        stored = None if self.metadata is None else decode_metadata(self.metadata).contents
        assert stored is None or isinstance(stored, WindowMetadata)
        slices = None if stored is None else stored.slices
        store = open_slices(spec, blobs, slices, 0, SPANS_FROM_THE_START)
        assert isinstance(store, PlainSlices if kind is PLAIN else RunningSlices)
        called()
        store.add([t.drop_columns([ROW_COUNT]) for t in partials(self.window, rows)], horizon)
        called()
        first, last = store.window_ends(0)
        if len(first):
            ends = [int(first.min()) // MS - 1, int(last.max()) // MS]
            bounds = [self.closed, self.fired, horizon.fired_us[1] // MS, ends[1]]  # type: ignore[operator]
            edges = [ends[0] if bound is None else max(bound, ends[0]) for bound in bounds]
            # windows that have fired, that fire, and that will fire
            for after, until in pairwise(edges):
                if after < until:
                    self._compare(store, after, min(until, ends[1]), batch.keys)
                called()
        else:
            called()
        store.expire(horizon.closed_us[1])
        if dies_after is not None:
            raise DiedError
        return store.metadata()

    def _compare(
        self, store: SliceStore, after: int, until: int, keys: frozenset[str] | None
    ) -> None:
        """Compare the windows of a range with brute force."""
        chosen = None
        if keys is not None:
            chosen = KeySet([pa.table({"key": pa.array(sorted(keys))})], KEYS)
        read = [
            row
            for batch in store.windows(0, (after * MS, until * MS), chosen)
            for row in result_rows(batch)
        ]
        expected = {
            (key, start, end, len(values), sum(values), max(values))
            for (key, start, end), values in self.values.items()
            if after < end <= until
        }
        assert len(set(read)) == len(read)
        assert set(read) <= expected
        assert {row for row in expected if keys is None or row[0] in keys} <= set(read)
        self.n_read += len(read)


def us(time: int | None) -> int | None:
    return None if time is None else time * MS


def check(window: Window, script: list[MicroBatch]) -> None:
    run = Script(window)
    for batch in script:
        run.run(batch)
    # all windows close
    run.run(MicroBatch([], 200_000, 0, script[-1].kind))
    assert run.store.blobs == {}


@pytest.mark.long
@given(window=windows, script=scripts)
@settings(max_examples=40, deadline=None)
def test_stores_equal_brute_force(window: Window, script: list[MicroBatch]) -> None:
    check(window, script)


@pytest.mark.slow
@given(window=windows, script=scripts)
@settings(max_examples=2_000, deadline=None)
def test_stores_equal_brute_force_in_long_runs(window: Window, script: list[MicroBatch]) -> None:
    check(window, script)


@pytest.mark.long
@pytest.mark.parametrize(
    ("window", "kind"),
    [
        (Hop(2 * S, 24 * S), 1),
        (Hop(3 * S, 40 * S, 1 * S), 1),
        (Cumulate(2 * S, 60 * S), 1),
        (Hop(2 * S, 24 * S), 0),
        (Cumulate(2 * S, 60 * S), 0),
    ],
    ids=str,
)
def test_steady_streams_are_read_from_spans_where_the_store_has_them(
    window: Window, kind: int
) -> None:
    run, had_spans = Script(window), 0
    for number in range(60):
        rows = [(key, behind, number % 7) for key in "abc" for behind in (-500, 100, 3_000)]
        dies_after = number % 7 if number % 3 == 0 else None
        metadata = run.run(MicroBatch(rows, 1_000, 6_000, kind, None, dies_after, number % 5 == 0))
        had_spans += any(spans.spans for spans in metadata.spans.values())
    assert run.n_read > 500
    assert (had_spans > 30) == (kind == 1)


@pytest.mark.variants(1)
@pytest.mark.parametrize("window", [Hop(2 * S, 24 * S), Cumulate(2 * S, 60 * S)], ids=str)
def test_a_change_of_the_store_removes_its_spans(window: Window) -> None:
    run, had_spans = Script(window), []
    for number in range(60):
        rows = [(key, behind, 1) for key in "abc" for behind in (-500, 3_000)]
        metadata = run.run(MicroBatch(rows, 1_000, 6_000, number // 20 % 2))
        had_spans.append(any(spans.spans for spans in metadata.spans.values()))
    assert not any(had_spans[:20]) and not any(had_spans[40:])
    assert any(had_spans[20:40])


def test_a_large_slice_is_written_in_few_blobs() -> None:
    # each call of the state is a round trip to the JVM
    store = Memory()
    window = Tumble(60 * S)
    spec = one_reader(aggregation(window), PARTIALS)
    tables = partials(window, [(f"key {n}", n % 60_000, n) for n in range(40_000)])
    tables = [table.drop_columns([ROW_COUNT]) for table in tables]
    n_bytes = sum(table.nbytes for table in tables)
    slices = open_slices(spec, store, None, 0, Thresholds())
    slices.add(tables, Horizon((None, None), (None, None)))
    slices.expire(None)
    assert slices.n_rows == 40_000
    assert n_bytes > 1 << 20 and len(store.blobs) == 1
