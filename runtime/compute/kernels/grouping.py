"""Groups of rows in the same cell. A cell is a key and a slice as one number.

There are two ways to reduce rows to groups. With few cells, result arrays have an element for every
cell, and rows are added in any order: 1 to 5 ns per row while the arrays fit the cache. With many
cells, rows are sorted first, and each group is a run of rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from runtime.compute.accumulators.segments import run_starts
from runtime.compute.kernels.conversions import AnyArray, BoolArray, Int64Array

# With more cells per row, iterating over all cells costs more than sorting the rows.
_CELLS_PER_ROW = 4
# Upper bound of the number of cells, so that arithmetic on them does not overflow.
MAX_CELLS = 1 << 62
# Arrays of fewer cells than this are always cheap.
_FEW_CELLS = 1 << 16


class Groups(ABC):
    """Rows sorted into groups. `cells` is the cell of each group, int64[n_groups]."""

    cells: Int64Array

    def __len__(self) -> int:
        return len(self.cells)

    @abstractmethod
    def reduce(self, ufunc: np.ufunc, values: AnyArray, identity: Any) -> AnyArray:
        """Combine the values of each group; `identity` is neutral under `ufunc`."""

    @abstractmethod
    def count(self, valid: BoolArray | None) -> Int64Array:
        """Return the number of `valid` rows in each group; None: all rows are valid."""

    @abstractmethod
    def group_of_row(self) -> Int64Array:
        """Return the group of each row."""

    @abstractmethod
    def runs(self) -> tuple[Int64Array, Int64Array]:
        """Return an order that makes groups adjacent, and the start of each group in it."""


class CellGroups(Groups):
    """Groups by an array over all cells."""

    def __init__(self, cell: Int64Array, n_cells: int) -> None:
        self._cell = cell
        self._n_cells = n_cells
        self._n_rows = np.bincount(cell, minlength=n_cells)
        self.cells = np.flatnonzero(self._n_rows)

    def reduce(self, ufunc: np.ufunc, values: AnyArray, identity: Any) -> AnyArray:
        with np.errstate(all="ignore"):
            if ufunc is np.add and values.dtype == np.float64:
                of_cell = np.bincount(self._cell, weights=values, minlength=self._n_cells)
            else:
                of_cell = np.full(self._n_cells, identity, values.dtype)
                ufunc.at(of_cell, self._cell, values)
        reduced: AnyArray = of_cell[self.cells]
        return reduced

    def count(self, valid: BoolArray | None) -> Int64Array:
        if valid is None:
            return self._n_rows[self.cells]
        of_cell = np.bincount(self._cell, weights=valid, minlength=self._n_cells)
        return of_cell[self.cells].astype(np.int64)

    def group_of_row(self) -> Int64Array:
        group_of_cell = np.empty(self._n_cells, np.int64)
        group_of_cell[self.cells] = np.arange(len(self.cells))
        return group_of_cell[self._cell]

    def runs(self) -> tuple[Int64Array, Int64Array]:
        order, ordered = _sort(self._cell, self._n_cells)
        return order, run_starts(ordered[1:] != ordered[:-1])


class RunGroups(Groups):
    """Groups that are adjacent in some order of the rows. Cells are the group numbers.

    Args:
        order: int64[n_rows], the order.
        starts: int64[n_groups], start of each group in the order.
    """

    def __init__(self, order: Int64Array, starts: Int64Array) -> None:
        self._order, self._starts = order, starts
        self.cells = np.arange(len(starts))

    def reduce(self, ufunc: np.ufunc, values: AnyArray, identity: Any) -> AnyArray:
        with np.errstate(all="ignore"):
            reduced: AnyArray = ufunc.reduceat(values[self._order], self._starts)
        return reduced

    def count(self, valid: BoolArray | None) -> Int64Array:
        if valid is None:
            return np.diff(self._starts, append=len(self._order))
        counts: Int64Array = np.add.reduceat(valid[self._order].astype(np.int64), self._starts)
        return counts

    def group_of_row(self) -> Int64Array:
        groups = np.empty(len(self._order), np.int64)
        n_rows = np.diff(self._starts, append=len(self._order))
        groups[self._order] = np.repeat(np.arange(len(self._starts)), n_rows)
        return groups

    def runs(self) -> tuple[Int64Array, Int64Array]:
        return self._order, self._starts


class SortedGroups(RunGroups):
    """Groups by sorting the rows."""

    def __init__(self, cell: Int64Array, n_cells: int) -> None:
        order, ordered = _sort(cell, n_cells)
        super().__init__(order, run_starts(ordered[1:] != ordered[:-1]))
        self.cells = ordered[self._starts]


class SingleRows(Groups):
    """One group per row, for rows that hardly repeat a cell."""

    def __init__(self, n_rows: int) -> None:
        self.cells = np.arange(n_rows)

    def reduce(self, ufunc: np.ufunc, values: AnyArray, identity: Any) -> AnyArray:
        return values

    def count(self, valid: BoolArray | None) -> Int64Array:
        return np.ones(len(self), np.int64) if valid is None else valid.astype(np.int64)

    def group_of_row(self) -> Int64Array:
        return self.cells

    def runs(self) -> tuple[Int64Array, Int64Array]:
        return self.cells, self.cells


def group_cells(cell: Int64Array, n_cells: int) -> Groups:
    """Group rows (at least one) by cells 0 .. n_cells - 1."""
    if _has_few_cells(cell, n_cells):
        return CellGroups(cell, n_cells)
    return SortedGroups(cell, n_cells)


def distinct_cells(cell: Int64Array, n_cells: int) -> Int64Array:
    """Return the distinct cells (at least one), ascending."""
    if _has_few_cells(cell, n_cells):
        occurs = np.zeros(n_cells, np.bool_)
        occurs[cell] = True
        return np.flatnonzero(occurs)
    ordered = np.sort(cell)
    cells: Int64Array = ordered[run_starts(ordered[1:] != ordered[:-1])]
    return cells


def _has_few_cells(cell: Int64Array, n_cells: int) -> bool:
    return n_cells <= max(_FEW_CELLS, _CELLS_PER_ROW * len(cell))


def _sort(cell: Int64Array, n_cells: int) -> tuple[Int64Array, Int64Array]:
    """Return the stable order that sorts the cells, and the sorted cells."""
    row_bits = len(cell).bit_length()
    if (n_cells - 1).bit_length() + row_bits <= 63:
        # Combine cell and row in one number: sorting plain numbers is several times faster than
        # argsort.
        packed = (cell << row_bits) | np.arange(len(cell))
        packed.sort()
        return packed & ((1 << row_bits) - 1), packed >> row_bits
    order = np.argsort(cell, kind="stable")
    return order, cell[order]
