"""Other windows on the same slices after a restart: no duplicates, and complete ones are right."""

from __future__ import annotations

from collections import defaultdict
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.streaming.changes import first_complete
from runtime.streaming.state.contents import blobs_of
from runtime.windows import Window
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from tests.marks import among
from tests.reference import windows_of
from tests.runtime.streaming.model import MS, SPANS_FROM_THE_START, Stream

S = 1000 * MS
SLICED = [Tumble(10 * S), Hop(10 * S, 60 * S), Hop(10 * S, 240 * S), Cumulate(10 * S, 120 * S)]
CHANGES = [pair for pair in permutations(SLICED, 2) if not isinstance(pair[0], Cumulate)]

Row = tuple[str, int, int]
batches = st.lists(
    st.tuples(
        st.lists(
            st.tuples(st.sampled_from("ab"), st.integers(-20_000, 20_000), st.integers(-5, 5)),
            max_size=8,
        ),
        st.integers(1_000, 30_000),
    ),
    min_size=12,
    max_size=20,
)


@pytest.mark.parametrize("change", among(CHANGES, long=CHANGES[2:]), ids=repr)
@given(batches=batches)
@settings(max_examples=3, deadline=None)
def test_windows_go_on_with_other_windows(
    change: tuple[Window, Window], batches: list[tuple[list[Row], int]]
) -> None:
    was, now = change
    stream = Stream(was, thresholds=SPANS_FROM_THE_START)
    values: dict[tuple[str, int, int], list[int]] = defaultdict(list)
    time, emitted, closed = 0, [], 0
    for number, (result, step) in enumerate(batches):
        rows = [(key, time + at, value) for key, at, value in result]
        before, time = time, time + step
        if number == len(batches) // 2:
            # a watermark passes windows whose end is one millisecond later
            closed = before + 1
            stream = Stream(now, store=stream.store, generation=1)
            emitted = []
        for key, at, value in rows:
            of = stream.window
            if number and all(end <= before + 1 for _, end in windows_of(of, at, MS)):
                continue  # late for the windows at its time
            for start, end in windows_of(now, at, MS):
                if not number or end > before + 1:  # it has not been emitted
                    values[key, start, end].append(value)
        emitted += stream.micro_batch(rows, time)
        assert set(stream.store.blobs) == {"metadata", *blobs_of(stream.store.metadata)}
    emitted += stream.end()
    assert all(end > closed for _, _, end, *_ in emitted)
    named = [row[:3] for row in emitted]
    assert len(set(named)) == len(named)
    whole = first_complete(was, now, closed * MS)
    kept = -(10**12) if whole is None else whole[0] // MS
    expected = {
        (key, start, end, len(result), sum(result), max(result))
        for (key, start, end), result in values.items()
        if end > closed and start >= kept
    }
    assert {row for row in emitted if row[1] >= kept} == expected
