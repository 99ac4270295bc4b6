"""EXPLAIN ANALYZE of queries that run in this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from planner.explain.document import Analysis, Figures, OperatorEntry, QueryDocument, Tree
from runtime.engines.local.meter import RelationMeter
from runtime.plan.arrow_rows import (
    AsOfRows,
    DatabaseRows,
    FileRows,
    FilledRows,
    GivenRows,
    InlineRows,
    JoinedRows,
    OrderedRows,
    ProjectedRows,
    RangedRows,
    RankedRows,
    RepeatedRows,
    RowScan,
    UnitedRows,
    WindowedRows,
    local_rows,
)
from runtime.plan.exchange import (
    ExchangeStep,
    ExpandedPartials,
    MergedWindows,
    SharedExchangeStep,
    SharedSlicesStep,
)
from runtime.plan.in_process import InProcessStep
from runtime.plan.local import LocalSource, LocalStep, SliceRows
from runtime.plan.nodes import PlanNode
from sqlwin.execution.analyze import with_analysis

# Nodes of partials, which the relation above them computes itself
_OF_PARTIALS = (
    ExchangeStep,
    ExpandedPartials,
    LocalSource,
    LocalStep,
    SharedExchangeStep,
    SharedSlicesStep,
)
_NAMES: dict[type[PlanNode], str] = {
    FileRows: "ReadFiles",
    DatabaseRows: "ReadDatabase",
    InlineRows: "Values",
    ProjectedRows: "Calc",
    RankedRows: "Rank",
    JoinedRows: "Join",
    AsOfRows: "AsOfJoin",
    UnitedRows: "Union",
    WindowedRows: "WindowTableFunction",
    RangedRows: "WindowTableFunction",
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
    rows: PlanNode, meter: RelationMeter, entries: list[OperatorEntry], figures: dict[str, Figures]
) -> str:
    """Add a relation and all below it, and return its id."""
    relations = list(_relations_below(rows))
    inputs = [_add(below, meter, entries, figures) for below in relations]
    measured = meter.figures(rows)
    n_in = sum(meter.figures(below).n_rows for below in relations) if inputs else None
    seconds = measured.seconds - sum(meter.figures(below).seconds for below in relations)
    if isinstance(rows, MergedWindows) and not inputs:
        # The relation reads its files itself, so both share one time.
        source = local_rows(rows).source
        name = "ReadSlices" if isinstance(source, SliceRows) else "ReadFiles"
        n_in = measured.scanned_rows
        is_counted = not isinstance(source, SliceRows | RowScan)
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


def _relations_below(rows: PlanNode) -> Iterator[PlanNode]:
    """Yield the measured relations that one reads. Windows compute their partials themselves."""
    for below in rows.inputs:
        if isinstance(below, _OF_PARTIALS):
            yield from _relations_below(below)
        else:
            yield below


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


def _name(rows: PlanNode) -> str:
    match rows:
        case MergedWindows():
            return "WindowAggregate" if rows.has_windows else "GroupAggregate"
        case OrderedRows():
            return "Sort" if rows.order else "Limit"
    return _NAMES[type(rows)]
