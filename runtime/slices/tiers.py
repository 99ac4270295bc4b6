"""Old slices as wide ones, and the oldest as none: which are due, and what that makes of partials.

Times are ends of slices, int64 microseconds on the wall clock of the windows. Ages count from the
newest slice that is kept, not from a clock: a table that nothing is added to stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.compute.kernels.columns import int64_values, one_chunk
from runtime.slices.changes import Intervals, united
from runtime.spec.slices import SLICE_END, Reached, SliceGrid, Tier
from runtime.spec.windows import Tumble

# Slices are merged, or dropped, when this part of their age has gathered: files are not written
# again for each slice that becomes old
_GATHERED = 8


@dataclass(frozen=True)
class TierRules:
    """What CREATE says of old slices.

    Attributes:
        widths: width and age of each tier but the finest, microseconds: slices that are older
            than the age are at least as wide; both ascend.
        retention_us: slices that are older are dropped; None: none are.
    """

    widths: tuple[tuple[int, int], ...] = ()
    retention_us: int | None = None

    def __bool__(self) -> bool:
        """Whether anything becomes of old slices."""
        return bool(self.widths) or self.retention_us is not None


def due(
    rules: TierRules, grid: SliceGrid, reached: Reached, first_us: int, newest_us: int
) -> Reached:
    """How far old slices are to be merged and dropped.

    Args:
        rules: what is wanted.
        grid: the finest slices.
        reached: how far they are.
        first_us: the end of the oldest slice that is kept.
        newest_us: the end of the newest one, which ages count from.
    """
    offset_us = grid.offset_us if isinstance(grid, Tumble) else 0
    widest_us = max((width for width, _ in rules.widths), default=1)
    if isinstance(grid, Tumble):
        widest_us = max(widest_us, grid.size_us)

    def moved(from_us: int | None, width_us: int, age_us: int) -> int | None:
        until_us = (newest_us - age_us - offset_us) // width_us * width_us + offset_us
        if from_us is None:
            return until_us if first_us <= until_us else None
        step_us = max(width_us, age_us // _GATHERED)
        return until_us if until_us - from_us >= step_us else from_us

    known = {tier.width_us: tier.until_us for tier in reached.tiers}
    ends = [(width, moved(known.get(width), width, age)) for width, age in rules.widths]
    tiers = tuple(Tier(width, until) for width, until in ends if until is not None)
    since_us = reached.since_us
    if rules.retention_us is not None:
        since_us = moved(since_us, widest_us, rules.retention_us)
    return Reached(tiers, since_us)


def is_touched(first_us: int, last_us: int, before: Reached, after: Reached) -> bool:
    """Whether slices between two ends become others."""
    if after.since_us is not None and first_us <= after.since_us:
        return True
    known = {tier.width_us: tier.until_us for tier in before.tiers}
    for tier in after.tiers:
        done_us = known.get(tier.width_us)
        if tier.until_us != done_us and first_us <= tier.until_us:
            if done_us is None or last_us > done_us:
                return True
    return False


def in_tiers(table: pa.Table, grid: SliceGrid, reached: Reached) -> pa.Table:
    """Partials with the ends of the slices that theirs are merged to; without those dropped."""
    if not reached or table.num_rows == 0:
        return table
    ends = int64_values(one_chunk(table.column(SLICE_END)))
    if reached.since_us is not None and ends.min() <= reached.since_us:
        is_kept = ends > reached.since_us
        table, ends = table.filter(pa.array(is_kept)), ends[is_kept]
    place = table.schema.get_field_index(SLICE_END)
    moved = pa.array(_moved(ends, grid, reached.tiers), pa.int64())
    return table.set_column(place, table.schema.field(SLICE_END), moved)


def widened(intervals: Intervals, grid: SliceGrid, reached: Reached) -> Intervals:
    """Intervals of fine slices, made of whole slices as they are kept; without those dropped."""
    if not reached or not intervals:
        return intervals
    firsts, lasts = (np.array(each, np.int64) for each in zip(*intervals, strict=True))
    if reached.tiers:
        assert isinstance(grid, Tumble)
        for tier in reached.tiers:
            is_old = firsts <= tier.until_us
            start = _ceiled(firsts, grid.offset_us, tier.width_us) - tier.width_us + grid.size_us
            firsts = np.where(is_old, start, firsts)
        lasts = _moved(lasts, grid, reached.tiers)
    after_us = reached.since_us
    pairs = list(zip(firsts.tolist(), lasts.tolist(), strict=True))
    if after_us is not None:
        pairs = [(max(first, after_us + 1), last) for first, last in pairs if last > after_us]
    return united(pairs)


def cuts_of(reached: Reached) -> tuple[int, ...]:
    """Ends of slices behind which files begin anew, so that they are not touched again."""
    return tuple(sorted(tier.until_us for tier in reached.tiers))


def _moved(
    ends: npt.NDArray[np.int64], grid: SliceGrid, tiers: Sequence[Tier]
) -> npt.NDArray[np.int64]:
    for tier in tiers:
        assert isinstance(grid, Tumble), "tiers are of slices of one width"
        wide = _ceiled(ends, grid.offset_us, tier.width_us)
        ends = np.where(ends <= tier.until_us, wide, ends)
    return ends


def _ceiled(ends: npt.NDArray[np.int64], offset_us: int, width_us: int) -> npt.NDArray[np.int64]:
    return -((offset_us - ends) // width_us) * width_us + offset_us
