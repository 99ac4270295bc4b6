"""Shrink a history that disagrees with the batch query to the fewest rows and steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from runtime.errors import SqlwinError
from runtime.simulator.check import Disagreement, SimulatedStream, disagreement
from runtime.simulator.histories import Arrival, Batch, Step, StreamHistory

# Histories that are run to find a smaller one
_MAX_ATTEMPTS = 2_000


def shrink(stream: SimulatedStream, mismatch: Disagreement) -> Disagreement:
    """Return a disagreement with fewer rows and steps, where every part is needed.

    Args:
        stream: Stream.
        mismatch: History that disagrees with the batch query over its rows.
    """
    n_attempts = 0
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for history in _smaller(mismatch.history):
            if n_attempts == _MAX_ATTEMPTS:
                return mismatch
            n_attempts += 1
            smaller = _disagreement(stream, history)
            if smaller is not None:
                mismatch, is_smaller = smaller, True
                break
    return mismatch


def _disagreement(stream: SimulatedStream, history: StreamHistory) -> Disagreement | None:
    rows = [arrival.row for batch in history.batches for arrival in batch.rows]
    try:
        expected = stream.batch_rows(rows)
    except SqlwinError:
        return None
    return disagreement(stream, history, expected)


def _smaller(history: StreamHistory) -> Iterator[StreamHistory]:
    """Yield smaller histories, those that remove the most first."""
    yield from _with_fewer_rows(history)
    steps = history.steps
    for place in reversed(range(len(steps) - 1)):
        step = steps[place]
        if not isinstance(step, Batch) or not step.rows:
            yield _with_steps(history, (*steps[:place], *steps[place + 1 :]))
    for place, step in enumerate(steps):
        if isinstance(step, Batch) and step.crash is not None:
            calm = replace(step, crash=None)
            yield _with_steps(history, (*steps[:place], calm, *steps[place + 1 :]))
    for place, (one, other) in enumerate(pairwise(steps)):
        if isinstance(one, Batch) and isinstance(other, Batch):
            both = replace(other, rows=(*one.rows, *other.rows))
            yield _with_steps(history, (*steps[:place], both, *steps[place + 2 :]))
    if history.partitions > 1 or history.key_groups > 1:
        yield replace(history, partitions=1, key_groups=1)
    if any(arrival.task for batch in history.batches for arrival in batch.rows):
        yield _map_rows(history, lambda rows: tuple(Arrival(a.row) for a in rows))


def _with_fewer_rows(history: StreamHistory) -> Iterator[StreamHistory]:
    rows = [arrival.row for batch in history.batches for arrival in batch.rows]
    size = len(rows) // 2
    while size:
        for start in range(0, len(rows), size):
            dropped = set(rows[start : start + size])
            yield _map_rows(
                history,
                lambda arrivals, without=dropped: tuple(
                    arrival for arrival in arrivals if arrival.row not in without
                ),
            )
        size //= 2


def _map_rows(history: StreamHistory, change) -> StreamHistory:  # type: ignore[no-untyped-def]
    """Return a history whose micro-batches have other rows."""
    steps: list[Step] = [
        replace(step, rows=change(step.rows)) if isinstance(step, Batch) else step
        for step in history.steps
    ]
    return _with_steps(history, tuple(steps))


def _with_steps(history: StreamHistory, steps: tuple[Step, ...]) -> StreamHistory:
    return replace(history, steps=steps)
