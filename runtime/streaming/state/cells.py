"""Cells of the general operator: the units in which a key group's state is read and written.

A cell is a range of the keys' hashes in a key group. There is one at first. Large cells are split
into halves, and small halves are joined again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from runtime.compute.kernels.conversions import Int64Array
from runtime.streaming.general.operator import OperatorState
from runtime.streaming.state.metadata import CellMetadata

# A 32-bit hash is distributed over the positions of all key groups
_MAX_POSITIONS = 1 << 30


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
    def blob(self) -> str:
        """Name of its blob."""
        return f"c{self.number}/{self.of}"


def n_positions(n_groups: int) -> int:
    """Return the number of positions over which the keys of all key groups are distributed.

    Splitting every key group in two does not change it.
    """
    return n_groups << (_MAX_POSITIONS // n_groups).bit_length() - 1


class Cells:
    """Map of positions to cells.

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


def metadata_of_cell(cell: Cell, state: OperatorState, n_bytes: int) -> CellMetadata:
    """Return the metadata of a cell whose encoded state has `n_bytes`."""
    timers = state.event_timers.next_us, state.clock_timers.next_us
    return CellMetadata(cell.number, cell.of, *timers, len(state.contents), n_bytes)
