"""Slices that were merged to wide ones, or dropped: which queries they do not answer any more."""

from __future__ import annotations

from collections.abc import Iterator

from planner.materialized.form import is_made_of, slice_grid, time_text
from planner.materialized.windows import range_of_slices
from planner.nodes.logical import Node
from planner.nodes.physical import SliceScan
from planner.sql.intervals import render_duration
from runtime.spec.slices import SliceTable, is_inserted_rows
from runtime.spec.windows import Tumble, Window


def too_wide(plan: Node) -> Iterator[tuple[str, str]]:
    """The materialized tables whose slices a plan reads and may not, and why."""
    for scan in plan.find_all(SliceScan):
        reason = _out_of_reach(scan.table, scan.window, range_of_slices(scan.rows.filters))
        if reason is not None:
            yield scan.table.name, reason


def _out_of_reach(
    table: SliceTable, window: Window, range_us: tuple[int | None, int | None]
) -> str | None:
    """Why slices of some time do not give windows, if so.

    Args:
        table: the materialized table.
        window: the windows.
        range_us: slices that end after the first and not after the second are read; None: all.
    """
    after_us, until_us = range_us
    since_us = table.reached.since_us
    # of rows that were inserted nothing else is left
    if since_us is not None and not is_inserted_rows(table.form.base):
        if after_us is None or after_us < since_us:
            return f"its slices up to {time_text(since_us)} were dropped"
    grid, own = slice_grid(window), table.form.grid
    for tier in table.reached.tiers:
        if after_us is not None and after_us >= tier.until_us:
            continue
        assert isinstance(own, Tumble) and not isinstance(grid, str)
        wide = Tumble(tier.width_us, own.offset_us % tier.width_us)
        edges = [after_us, until_us if until_us is None or until_us < tier.until_us else None]
        is_cut = all(us is None or (us - wide.offset_us) % wide.size_us == 0 for us in edges)
        if not is_made_of(grid, wide) or not is_cut:
            width = render_duration(tier.width_us)
            return f"its slices up to {time_text(tier.until_us)} are of {width}"
    return None
