"""Rows that were inserted into a materialized table: slices of them are kept, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from planner.nodes.logical import Node, SqlQuery, TableScan
from planner.nodes.physical import SliceScan
from planner.optimizer import Trace
from runtime.errors import AnalysisError
from runtime.spec.slices import is_inserted_rows, table_of_rows

_RULE = "answer_from_slices"


def check_kept_rows(plan: Node, trace: Trace) -> None:
    """Check that a plan reads no rows of which slices alone are kept.

    Raises:
        AnalysisError: it does; the message says why slices do not answer it.
    """
    found = next(filter(is_inserted_rows, _tables_read(plan)), None)
    if found is None:
        return
    reasons = [e.reason for e in trace.entries if e.rule == _RULE and e.reason is not None]
    why = reasons[0] if reasons else "it does more with them than to aggregate windows"
    name = table_of_rows(found)
    raise AnalysisError(
        f"`{name}` keeps slices of the rows that were inserted, which do not answer this: {why}",
        subjects=(name,),
        hint="RESET the setting that keeps slices from being read"
        if "sqlwin." in why
        else "windows on its grid, and conditions on its keys, are answered",
    )


def _tables_read(node: Node) -> Iterator[str]:
    """The tables whose rows are read."""
    if isinstance(node, SliceScan):
        return
    if isinstance(node, TableScan):
        yield node.table.lower()
    elif isinstance(node, SqlQuery):
        for table in node.query.find_all(exp.Table):
            yield ".".join(part.name for part in table.parts).lower()
    for child in node.inputs:
        yield from _tables_read(child)
