"""A cell of the general operator as it is kept."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

from pyspark import cloudpickle

from runtime.streaming.general.operator import OperatorState
from runtime.streaming.state.blobs import checked, versioned


@dataclass(frozen=True)
class CellFacts:
    """What is known of a cell without reading it.

    Attributes:
        next_event_us: its next timer by the watermark.
        next_clock_us: its next timer of processing time, on the wall clock.
        n_windows: how many windows it keeps something of.
        n_bytes: the size of its blob.
    """

    next_event_us: int | None
    next_clock_us: int | None
    n_windows: int
    n_bytes: int


def encode_cell(state: OperatorState) -> tuple[bytes, CellFacts]:
    """The blob of a cell, and what is known of it."""
    state.n_late = 0
    # by value, where a class is of a module that only the driver has
    blob = versioned(cloudpickle.dumps(state))  # type: ignore[no-untyped-call]
    timers = state.event_timers.next_us, state.clock_timers.next_us
    return blob, CellFacts(*timers, len(state.contents), len(blob))


def decode_cell(blob: bytes) -> OperatorState:
    """What a cell keeps.

    Raises:
        ExecutionError: the blob is of another version.
    """
    state: OperatorState = pickle.loads(memoryview(blob)[checked(blob) :])
    return state
