"""EXPLAIN ANALYZE of queries that run in this process."""

from __future__ import annotations

import time
from collections.abc import Callable

from planner.explain.document import Analysis, Figures, OperatorEntry, QueryDocument, Tree
from runtime.batch.in_process_meter import RelationMeter
from runtime.spec.in_process.relations import (
    DatabaseRows,
    FileRows,
    FilledRows,
    GivenRows,
    InlineRows,
    JoinedRows,
    MergedWindows,
    OrderedRows,
    ProjectedRows,
    RankedRows,
    RepeatedRows,
    Rows,
    RowScan,
    TextRows,
    UnitedRows,
    WindowedRows,
)
from runtime.spec.in_process.step import InProcessStep
from runtime.spec.local import SliceRows
from sqlwin.execution.analyze import with_analysis

_NAMES: dict[type[Rows], str] = {
    FileRows: "ReadFiles",
    TextRows: "ReadText",
    DatabaseRows: "ReadDatabase",
    InlineRows: "Values",
    ProjectedRows: "Calc",
    RankedRows: "Rank",
    JoinedRows: "Join",
    UnitedRows: "Union",
    WindowedRows: "WindowTableFunction",
    RepeatedRows: "WindowRows",
    GivenRows: "Values",
    FilledRows: "GapFill",
}


def measure_in_process(
    query: QueryDocument, place: InProcessStep, run: Callable[[RelationMeter], int]
) -> QueryDocument:
    """Return the document of a query with measurements of its run in this process.

    Args:
        query: Document to add measurements to.
        place: Step that is run.
        run: Computes all rows with a meter and returns their number.

    Raises:
        SqlwinError: The run fails.
    """
    meter = RelationMeter()
    begun = time.perf_counter()
    n_rows = run(meter)
    seconds = time.perf_counter() - begun
    entries: list[OperatorEntry] = []
    figures: dict[str, Figures] = {}
    root = _add(place.rows, meter, entries, figures)
    tree = Tree(root, tuple(reversed(entries)))
    return with_analysis(query, Analysis(seconds, n_rows, figures, (), None, tree=tree))


def _add(
    rows: Rows, meter: RelationMeter, entries: list[OperatorEntry], figures: dict[str, Figures]
) -> str:
    """Add a relation and all below it, and return its id."""
    inputs = [_add(below, meter, entries, figures) for below in rows.inputs]
    measured = meter.figures(rows)
    n_in = sum(meter.figures(below).n_rows for below in rows.inputs) if inputs else None
    seconds = measured.seconds - sum(meter.figures(below).seconds for below in rows.inputs)
    if isinstance(rows, MergedWindows) and not inputs:
        # The relation reads its files itself, so both share one time.
        name = "ReadSlices" if isinstance(rows.local.source, SliceRows) else "ReadFiles"
        n_in = measured.scanned_rows
        is_counted = not isinstance(rows.local.source, SliceRows | RowScan)
        scan = Figures(rows_out=n_in if is_counted else None)
        inputs = [_entry(name, (), scan, entries, figures)]
        n_in = n_in if is_counted else None
    is_window = isinstance(rows, MergedWindows) and rows.has_windows
    is_read_above = isinstance(rows, FileRows) and measured.seconds == 0
    return _entry(
        _name(rows),
        tuple(inputs),
        Figures(
            rows_in=n_in,
            rows_out=measured.n_rows,
            unit_out="windows" if is_window else "rows",
            bytes_out=measured.n_bytes,
            seconds=None if is_read_above else max(seconds, 0.0),
        ),
        entries,
        figures,
    )


def _entry(
    name: str,
    inputs: tuple[str, ...],
    measured: Figures,
    entries: list[OperatorEntry],
    figures: dict[str, Figures],
) -> str:
    id_ = f"r{len(entries)}"
    entries.append(OperatorEntry(id_, name, text=name, inputs=inputs))
    figures[id_] = measured
    return id_


def _name(rows: Rows) -> str:
    match rows:
        case MergedWindows():
            return "WindowAggregate" if rows.has_windows else "GroupAggregate"
        case OrderedRows():
            return "Sort" if rows.order else "Limit"
    return _NAMES[type(rows)]
