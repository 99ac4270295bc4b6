"""Slices shared by several windows, and the roll-up of fine slices into wider ones.

Every aligned window consists of pieces of one width, cut where windows start and end. Windows over
the same rows have a common grid: the widest one that contains all of their cuts. Rows are
aggregated into that grid once. The slices of each window are rolled up from the widest grid that
they consist of. Where it saves work, an additional grid that no window uses is put in between (a
"factor window": Wu, Bernstein, Raizman, Pavlopoulou: Factor Windows: Cost-based Query Rewriting for
Optimizing Correlated Window Aggregates, ICDE 2022). The cost of a roll-up is the number of slices
it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd

from runtime.plan.exchange import SliceLevel
from runtime.windows import FixedWindow

# Maximum ratio of slices in the common grid to slices of the separate windows. Rolling up a slice
# costs about as much as aggregating a few rows, so a much finer common grid would cost more than
# the scans it saves.
_MAX_SLICES = 8


@dataclass(frozen=True, order=True)
class Grid:
    """Slices [k * width + offset, k * width + offset + width), with 0 <= offset < width."""

    width_us: int
    offset_us: int

    def consists_of(self, finer: Grid) -> bool:
        """Return whether every slice consists of whole slices of `finer`."""
        apart = self.offset_us - finer.offset_us
        return self.width_us % finer.width_us == 0 and apart % finer.width_us == 0


def grid_of(window: FixedWindow) -> Grid:
    """Return the widest grid that the slices of a window consist of."""
    grid = window.slice_grid
    return Grid(grid.size_us, grid.offset_us)


def common_grid(grids: Sequence[Grid]) -> Grid:
    """Return the widest grid that the slices of all `grids` consist of."""
    first = grids[0]
    apart = (grid.offset_us - first.offset_us for grid in grids)
    width = gcd(*(grid.width_us for grid in grids), *apart)
    return Grid(width, first.offset_us % width)


def slices_per_second(window: FixedWindow) -> float:
    """Return the number of slices per second of a window; paired HOP windows have two per slide."""
    return len(window.slice_widths_us) * 1e6 / window.stride.us


def is_cheaper_together(windows: Sequence[FixedWindow], most: int | None = None) -> bool:
    """Return whether one pass over the common grid costs less than one pass per window.

    Args:
        windows: The windows.
        most: Maximum ratio of slices in the common grid to slices of the separate windows. None for
            the ratio that pays off if slices are rolled up immediately.
    """
    common = common_grid([grid_of(window) for window in windows])
    apart = sum(slices_per_second(window) for window in windows)
    return 1e6 / common.width_us <= (most or _MAX_SLICES) * apart


def slice_levels(grids: Sequence[Grid]) -> tuple[SliceLevel, ...]:
    """Return the common grid of `grids`, then the others, each after the one it is rolled up from.

    Only the levels in `grids` are read.

    Example:
        >>> [level.width_us for level in slice_levels([Grid(4, 0), Grid(6, 0)])]
        [2, 4, 6]
    """
    base = common_grid(grids)
    all_grids = {base, *grids}
    sources = {grid: _source(grid, all_grids) for grid in sorted(all_grids) if grid != base}
    for finer in sorted(all_grids):
        targets = [grid for grid, source in sources.items() if source == finer]
        factor = _factor(finer, targets)
        if factor is not None:
            sources |= dict.fromkeys(targets, factor)
            sources[factor] = finer
    order = [base, *sorted(sources)]
    read = set(grids)
    levels = [SliceLevel(grid.width_us, grid.offset_us, is_read=grid in read) for grid in order]
    return tuple(
        level if grid == base else replace(level, source=order.index(sources[grid]))
        for level, grid in zip(levels, order, strict=True)
    )


def _source(grid: Grid, among: set[Grid]) -> Grid:
    """Return the widest other grid that `grid` consists of, which has the fewest slices to read."""
    return max(finer for finer in among if finer < grid and grid.consists_of(finer))


def _factor(finer: Grid, targets: Sequence[Grid]) -> Grid | None:
    """Return a grid between `finer` and all `targets` that lowers the cost, or None.

    Without it, every target reads all slices of `finer`. With it, only the factor does, and the
    targets read the factor's slices.
    """
    if len(targets) < 2:
        return None
    factor = common_grid(targets)
    if factor in (finer, *targets) or not factor.consists_of(finer):
        return None
    cost = len(targets) / finer.width_us
    cost_with_factor = 1 / finer.width_us + len(targets) / factor.width_us
    return factor if cost_with_factor < cost else None
