"""Tiers: merge old slices into wider ones and drop the oldest.

Times are slice ends in int64 microseconds on the wall clock of the windows. Ages count from the
newest stored slice and not from a clock, so a table without new rows does not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.compute.kernels.conversions import int64_values, one_chunk
from runtime.materialized.changes import Intervals, union_of
from runtime.spec.materialized import SLICE_END, Reached, Tier
from runtime.windows.tumble import SliceGrid

# Divisor of a tier's age: slices are merged or dropped once that fraction of the age has
# accumulated, so that files are not rewritten for every slice that expires
_GATHERED = 8


@dataclass(frozen=True)
class TierRules:
    """Rules for old slices from CREATE MATERIALIZED TABLE.

    Attributes:
        widths: Width and age of each tier except the finest, in microseconds, both ascending.
            Slices older than the age are at least as wide.
        retention_us: Age after which slices are dropped. None to keep all.
    """

    widths: tuple[tuple[int, int], ...] = ()
    retention_us: int | None = None

    def __bool__(self) -> bool:
        """Return whether there is any rule."""
        return bool(self.widths) or self.retention_us is not None


def due_tiers(
    rules: TierRules, grid: SliceGrid, reached: Reached, first_us: int, newest_us: int
) -> Reached:
    """Return the extent to which old slices should be merged and dropped now.

    Args:
        rules: Rules of the table.
        grid: Finest slices.
        reached: Extent to which slices are already merged and dropped.
        first_us: End of the oldest stored slice.
        newest_us: End of the newest stored slice, from which ages count.
    """
    offset_us = 0 if grid.is_calendar else grid.offset_us
    widest_us = max((width for width, _ in rules.widths), default=1)
    if not grid.is_calendar:
        widest_us = max(widest_us, grid.size_us)

    def next_bound(from_us: int | None, width_us: int, age_us: int) -> int | None:
        until_us = (newest_us - age_us - offset_us) // width_us * width_us + offset_us
        if from_us is None:
            return until_us if first_us <= until_us else None
        step_us = max(width_us, age_us // _GATHERED)
        return until_us if until_us - from_us >= step_us else from_us

    done_us = {tier.width_us: tier.until_us for tier in reached.tiers}
    ends = [(width, next_bound(done_us.get(width), width, age)) for width, age in rules.widths]
    tiers = tuple(Tier(width, until) for width, until in ends if until is not None)
    since_us = reached.since_us
    if rules.retention_us is not None:
        since_us = next_bound(since_us, widest_us, rules.retention_us)
    return Reached(tiers, since_us)


def is_touched(first_us: int, last_us: int, before: Reached, after: Reached) -> bool:
    """Return whether any slice between two ends is merged or dropped between two states."""
    if after.since_us is not None and first_us <= after.since_us:
        return True
    until_us = {tier.width_us: tier.until_us for tier in before.tiers}
    for tier in after.tiers:
        done_us = until_us.get(tier.width_us)
        if tier.until_us != done_us and first_us <= tier.until_us:
            if done_us is None or last_us > done_us:
                return True
    return False


def apply_tiers(table: pa.Table, grid: SliceGrid, reached: Reached) -> pa.Table:
    """Return partials under the slice ends that tiers merge them to, without dropped slices."""
    if not reached or table.num_rows == 0:
        return table
    ends = int64_values(one_chunk(table.column(SLICE_END)))
    if reached.since_us is not None and ends.min() <= reached.since_us:
        is_kept = ends > reached.since_us
        table, ends = table.filter(pa.array(is_kept)), ends[is_kept]
    position = table.schema.get_field_index(SLICE_END)
    merged_ends = pa.array(_merged_ends(ends, grid, reached.tiers), pa.int64())
    return table.set_column(position, table.schema.field(SLICE_END), merged_ends)


def widen(intervals: Intervals, grid: SliceGrid, reached: Reached) -> Intervals:
    """Extend intervals of fine slices to whole stored slices, without dropped slices."""
    if not reached or not intervals:
        return intervals
    firsts, lasts = (np.array(bounds, np.int64) for bounds in zip(*intervals, strict=True))
    if reached.tiers:
        assert not grid.is_calendar
        for tier in reached.tiers:
            is_old = firsts <= tier.until_us
            start = _round_up(firsts, grid.offset_us, tier.width_us) - tier.width_us + grid.size_us
            firsts = np.where(is_old, start, firsts)
        lasts = _merged_ends(lasts, grid, reached.tiers)
    after_us = reached.since_us
    pairs = list(zip(firsts.tolist(), lasts.tolist(), strict=True))
    if after_us is not None:
        pairs = [(max(first, after_us + 1), last) for first, last in pairs if last > after_us]
    return union_of(pairs)


def cuts_of(reached: Reached) -> tuple[int, ...]:
    """Return the slice ends after which new files start so that older files stay untouched."""
    return tuple(sorted(tier.until_us for tier in reached.tiers))


def _merged_ends(
    ends: npt.NDArray[np.int64], grid: SliceGrid, tiers: Sequence[Tier]
) -> npt.NDArray[np.int64]:
    for tier in tiers:
        assert not grid.is_calendar, "tiers are of slices of one width"
        wide = _round_up(ends, grid.offset_us, tier.width_us)
        ends = np.where(ends <= tier.until_us, wide, ends)
    return ends


def _round_up(ends: npt.NDArray[np.int64], offset_us: int, width_us: int) -> npt.NDArray[np.int64]:
    return -((offset_us - ends) // width_us) * width_us + offset_us
