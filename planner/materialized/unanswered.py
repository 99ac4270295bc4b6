"""Queries that slices cannot answer: the slices are too wide or deleted, or rows are needed."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from planner.materialized.form import slice_grid, time_text
from planner.materialized.slice_conditions import range_of_slices
from planner.nodes.logical import Node, SqlQuery, TableScan
from planner.nodes.physical import SliceScan
from planner.optimizer import Trace
from runtime.errors import AnalysisError
from runtime.refusal import Refusal
from runtime.spec.materialized import SliceTable, is_inserted_rows, table_of_rows
from runtime.windows import Window
from runtime.windows.intervals import render_duration
from runtime.windows.tumble import Tumble


def too_wide(plan: Node) -> Iterator[tuple[str, Refusal]]:
    """Yield materialized tables whose slices a plan must not read although it does, and why."""
    for scan in plan.find_all(SliceScan):
        refusal = _out_of_reach(scan.table, scan.window, range_of_slices(scan.rows.filters))
        if refusal is not None:
            yield scan.table.name, refusal


def _out_of_reach(
    table: SliceTable, window: Window, range_us: tuple[int | None, int | None]
) -> Refusal | None:
    """Return why slices of some period cannot answer windows, or None.

    Args:
        table: The materialized table.
        window: The windows.
        range_us: Exclusive lower and inclusive upper bound of the slice ends to read, in
            microseconds. None means unbounded.
    """
    after_us, until_us = range_us
    since_us = table.reached.since_us
    # Only the slices of inserted rows remain.
    if since_us is not None and not is_inserted_rows(table.form.base):
        if after_us is None or after_us < since_us:
            return Refusal(f"its slices up to {time_text(since_us)} were dropped")
    grid, stored_grid = slice_grid(window), table.form.grid
    for tier in table.reached.tiers:
        if after_us is not None and after_us >= tier.until_us:
            continue
        assert not stored_grid.is_calendar
        wide = Tumble(tier.width_us, stored_grid.offset_us % tier.width_us)
        edges = [after_us, until_us if until_us is None or until_us < tier.until_us else None]
        is_cut = all(us is None or (us - wide.offset_us) % wide.size_us == 0 for us in edges)
        if not grid.consists_of(wide) or not is_cut:
            width = render_duration(tier.width_us)
            return Refusal(f"its slices up to {time_text(tier.until_us)} are {width} wide")
    return None


def check_inserted_rows(plan: Node, trace: Trace) -> None:
    """Check that a plan does not read rows that are only stored as slices.

    Raises:
        AnalysisError: The plan reads such rows. The message says why slices cannot answer it.
    """
    table = next(filter(is_inserted_rows, _tables_read(plan)), None)
    if table is None:
        return
    reasons = (entry.reason for entry in trace.entries if entry.rule == "answer_from_slices")
    why = next(filter(None, reasons), "the query does more than aggregate windows")
    name = table_of_rows(table)
    raise AnalysisError(
        f"`{name}` stores slices of the inserted rows, which cannot answer this query: {why}",
        subjects=(name,),
        hint="RESET the setting that disables reading slices"
        if "sqlwin." in why
        else "aggregate windows on its grid, with conditions on its keys only",
    )


def _tables_read(node: Node) -> Iterator[str]:
    """Yield the tables whose rows are read."""
    if isinstance(node, SliceScan):
        return
    if isinstance(node, TableScan):
        yield node.table.lower()
    elif isinstance(node, SqlQuery):
        for table in node.query.find_all(exp.Table):
            yield ".".join(part.name for part in table.parts).lower()
    for child in node.inputs:
        yield from _tables_read(child)
