"""Cells of the general operator: what of a key group is read and written at a time.

A cell is a range of the keys' hash in a key group. There is one to begin with; one that has become
large is cut into halves, and halves that have become small are one again.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from pyspark import cloudpickle

from runtime.compute.kernels.columns import Int64Array
from runtime.streaming.general.operator import OperatorState
from runtime.streaming.state.blobs import checked, versioned

# A hash of 32 bits is spread over the positions of all key groups
_MOST_POSITIONS = 1 << 30


@dataclass(frozen=True, order=True)
class Cell:
    """A range of positions.

    Attributes:
        number: which of the ranges it is, from 0.
        of: into how many equal ranges the positions of the key group are cut.
    """

    number: int
    of: int

    @property
    def outer(self) -> Cell:
        """The cell that it is half of."""
        return Cell(self.number // 2, self.of // 2)

    @property
    def other_half(self) -> Cell:
        """The other half of that cell."""
        return Cell(self.number ^ 1, self.of)

    @property
    def name(self) -> str:
        """Its name in state."""
        return f"{self.number}/{self.of}"


def cell_of(name: str) -> Cell:
    """The cell of a name."""
    number, _, of = name.partition("/")
    return Cell(int(number), int(of))


def n_positions(n_groups: int) -> int:
    """Return how many positions the keys of all key groups are spread over.

    Cutting each key group in two does not change it.
    """
    return n_groups << (_MOST_POSITIONS // n_groups).bit_length() - 1


class Cells:
    """In which cells positions are.

    Args:
        there: the cells that there are, none in another.
        n_positions: how many positions the key group has.
    """

    def __init__(self, there: Iterable[Cell], n_positions: int) -> None:
        self._n_positions = n_positions
        # cells that have been cut, by how many there are of their size
        self._cut: dict[int, set[int]] = {}
        for cell in there:
            outer = cell
            while outer.of > 1:
                outer = outer.outer
                self._cut.setdefault(outer.of, set()).add(outer.number)

    def has_parts(self, cell: Cell) -> bool:
        """Whether there are cells in one."""
        return cell.number in self._cut.get(cell.of, ())

    def cells_of(self, positions: Int64Array) -> tuple[Int64Array, Int64Array]:
        """(the number, how many there are of its size) of the cell of each position."""
        of = np.ones(len(positions), np.int64)
        number = np.zeros(len(positions), np.int64)
        size = 1
        while size in self._cut:
            is_cut = (of == size) & np.isin(number, list(self._cut[size]))
            size *= 2
            of[is_cut] = size
            number[is_cut] = positions[is_cut] // (self._n_positions // size)
        return number, of


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
