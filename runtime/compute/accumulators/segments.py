"""Running combines within segments of rows, used to merge slices to windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from runtime.compute.kernels.conversions import AnyArray, Int64Array

# Replaces each row of equally shaped matrices by its running combine, in place.
RunningCombine = Callable[[Sequence[AnyArray]], None]

# Below this width, a call per column is faster than numpy's accumulate, which costs about 10 ns a
# row.
_FEW_COLUMNS = 16


@dataclass(frozen=True)
class _Block:
    """Segments of similar length, stored as the rows of a matrix within a flat array."""

    offset: int
    n_segments: int
    width: int

    def matrix(self, flat: AnyArray) -> AnyArray:
        size = self.n_segments * self.width
        return flat[self.offset : self.offset + size].reshape(self.n_segments, self.width)


class Segments:
    """Consecutive runs of rows, and their layout as padded matrices.

    Segments are grouped by length (1, 2, 3..4, 5..8, ...); each group becomes one matrix as wide as
    its longest segment. So padding at most doubles the data, however uneven the lengths, and every
    scan goes left to right in row order. The layout is computed once for all accumulators and both
    directions.

    Args:
        starts: First row of each segment, int64, ascending, starting with 0.
        n_rows: Number of rows.
    """

    def __init__(self, starts: Int64Array, n_rows: int) -> None:
        self.starts = starts
        self.n_rows = n_rows
        self.lengths: Int64Array = np.diff(starts, append=n_rows)
        self._layout: tuple[list[_Block], int, Int64Array | None] | None = None

    def scan(
        self,
        arrays: Sequence[AnyArray],
        identities: Sequence[Any],
        scan_rows: RunningCombine,
        reverse: bool,
    ) -> list[AnyArray]:
        """Compute inclusive running combines within each segment, from its end if `reverse`.

        Args:
            arrays: One or more arrays of `n_rows` rows that are combined together.
            identities: Neutral element for each array, used as padding.
            scan_rows: Running combine of matrices along their rows.
            reverse: Whether to combine each row with the later rows instead of the earlier ones.
        """
        if len(self.starts) == self.n_rows:
            return list(arrays)
        blocks, size, position = self._matrices()
        if position is None:
            flats = [array.copy() for array in arrays]
        else:
            flats = []
            for array, identity in zip(arrays, identities, strict=True):
                flat = np.full(size, identity, array.dtype)
                flat[position] = array
                flats.append(flat)
        for block in blocks:
            if block.width > 1:
                matrices = [block.matrix(flat) for flat in flats]
                scan_rows([matrix[:, ::-1] for matrix in matrices] if reverse else matrices)
        return flats if position is None else [flat[position] for flat in flats]

    def scan_sums(self, values: Int64Array, reverse: bool) -> Int64Array:
        """Like `scan` for integer sums: differences of one running sum, exact modulo 2**64."""
        running = np.cumsum(values)
        last = self.starts + self.lengths - 1
        if reverse:
            sums: Int64Array = np.repeat(running[last], self.lengths) - running + values
        else:
            before = running[self.starts] - values[self.starts]
            sums = running - np.repeat(before, self.lengths)
        return sums

    def _matrices(self) -> tuple[list[_Block], int, Int64Array | None]:
        """Return the blocks, the flat array's size, and each row's position (None: unchanged)."""
        if self._layout is None:
            self._layout = self._arrange()
        return self._layout

    def _arrange(self) -> tuple[list[_Block], int, Int64Array | None]:
        longest = int(self.lengths.max())
        if longest == int(self.lengths.min()):
            return [_Block(0, len(self.starts), longest)], self.n_rows, None
        # frexp's exponent of length - 1 is its number of bits: 0 for 1, 1 for 2, 2 for 3 and 4.
        length_class = np.frexp(self.lengths - 1)[1].astype(np.uint8)
        blocks: list[_Block] = []
        size = 0
        offset_of_segment = np.empty(len(self.starts), np.int64)
        # np.unique would sort, and import numpy.ma
        for class_number in np.flatnonzero(np.bincount(length_class)):
            (members,) = np.nonzero(length_class == class_number)
            block = _Block(size, len(members), int(self.lengths[members].max()))
            offset_of_segment[members] = size + np.arange(len(members)) * block.width
            blocks.append(block)
            size += block.n_segments * block.width
        position = np.arange(self.n_rows) + np.repeat(offset_of_segment - self.starts, self.lengths)
        return blocks, size, position


def accumulate_rows(ufunc: np.ufunc) -> RunningCombine:
    """Return a running combine with `ufunc`."""

    def scan_rows(matrices: Sequence[AnyArray]) -> None:
        for matrix in matrices:
            n_columns = matrix.shape[1]
            if n_columns > _FEW_COLUMNS:
                ufunc.accumulate(matrix, axis=1, out=matrix)
                continue
            for column in range(1, n_columns):
                ufunc(matrix[:, column - 1], matrix[:, column], out=matrix[:, column])

    return scan_rows


def run_starts(is_new: npt.NDArray[np.bool_]) -> Int64Array:
    """Return row 0 and every row n for which `is_new[n - 1]` is true."""
    return np.concatenate((np.zeros(1, np.int64), np.flatnonzero(is_new) + 1))
