"""Cells of the general operator: the units in which a key group's state is read and written.

A cell is a range of the keys' hashes in a key group. There is one at first. Large cells are split
into halves, and small halves are joined again.
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

# A 32-bit hash is distributed over the positions of all key groups
_MOST_POSITIONS = 1 << 30


@dataclass(frozen=True, order=True)
class Cell:
    """A range of positions.

    Attributes:
        number: Number of the range, from 0.
        of: Number of equal ranges into which the positions of the key group are divided.
    """

    number: int
    of: int

    @property
    def outer(self) -> Cell:
        """The cell that this cell is half of."""
        return Cell(self.number // 2, self.of // 2)

    @property
    def other_half(self) -> Cell:
        """The other half of `outer`."""
        return Cell(self.number ^ 1, self.of)

    @property
    def name(self) -> str:
        """Name in state."""
        return f"{self.number}/{self.of}"


def cell_of(name: str) -> Cell:
    """Return the cell with a name."""
    number, _, of = name.partition("/")
    return Cell(int(number), int(of))


def n_positions(n_groups: int) -> int:
    """Return the number of positions over which the keys of all key groups are distributed.

    Splitting every key group in two does not change it.
    """
    return n_groups << (_MOST_POSITIONS // n_groups).bit_length() - 1


class Cells:
    """Maps positions to cells.

    Args:
        cells: Existing cells; none contains another.
        n_positions: Number of positions of the key group.
    """

    def __init__(self, cells: Iterable[Cell], n_positions: int) -> None:
        self._n_positions = n_positions
        # cells that have been split, by the number of cells of their size
        self._cut: dict[int, set[int]] = {}
        for cell in cells:
            outer = cell
            while outer.of > 1:
                outer = outer.outer
                self._cut.setdefault(outer.of, set()).add(outer.number)

    def has_parts(self, cell: Cell) -> bool:
        """Return whether a cell has been split."""
        return cell.number in self._cut.get(cell.of, ())

    def cells_of(self, positions: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return for each position its cell, as (number, number of cells of that size)."""
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
    """Properties of a cell that are known without reading it.

    Attributes:
        next_event_us: Time of its next event-time timer.
        next_clock_us: Time of its next processing-time timer, on the wall clock.
        n_windows: Number of windows with contents.
        n_bytes: Size of its blob.
    """

    next_event_us: int | None
    next_clock_us: int | None
    n_windows: int
    n_bytes: int


def encode_cell(state: OperatorState) -> tuple[bytes, CellFacts]:
    """Encode a cell's state as a blob. Resets its count of late rows."""
    state.n_late = 0
    # pickle by value classes from modules that only the driver has
    blob = versioned(cloudpickle.dumps(state))  # type: ignore[no-untyped-call]
    timers = state.event_timers.next_us, state.clock_timers.next_us
    return blob, CellFacts(*timers, len(state.contents), len(blob))


def decode_cell(blob: bytes) -> OperatorState:
    """Decode the state of a cell.

    Raises:
        ExecutionError: the blob is of another version.
    """
    state: OperatorState = pickle.loads(memoryview(blob)[checked(blob) :])
    return state
