"""Relations with one more column that passes through filters and projections unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from runtime.engines.local.execute import computed_batches
from runtime.local.scan_rows import ScanRows
from runtime.plan.arrow_rows import GivenRows, ProjectedRows, RowScan, UnitedRows, local_rows
from runtime.plan.exchange import MergedWindows
from runtime.plan.local import ArrowBuffer, LocalStep, Streaming, is_local
from runtime.plan.nodes import PlanNode
from runtime.plan.simulated import SimulatedOperator
from runtime.spec.expressions import ColumnRef, columns_of
from runtime.spec.stream import LATE_ROW, ROW_KIND, TIME
from runtime.spec.table import Column

_NUMBER = Column(LATE_ROW, "bigint")
_KIND = Column(ROW_KIND, "string")


def carry(rows: PlanNode, *, is_of_operator: bool = False) -> PlanNode | None:
    """Return rows of tables with the number of each row as LATE_ROW.

    Args:
        rows: Relation.
        is_of_operator: Whether it is over windows of operators, not over tables.

    Returns:
        None if the relation does more than filter and project such rows.
    """
    return _carry(rows, _NUMBER, is_of_operator=is_of_operator)


def scanned_rows(
    windows: MergedWindows,
    mode: ArrowBuffer | Streaming,
    given: Mapping[str, Sequence[pa.RecordBatch]],
    *,
    keeps_filters: bool = True,
) -> pa.Table | None:
    """Return LATE_ROW, TIME and the group keys of the rows that windows count.

    Args:
        windows: Windows.
        mode: Mode of their local stage.
        given: Rows of tables, and windows of operators, with their numbers as LATE_ROW.
        keeps_filters: Whether rows that filters remove are left out.

    Returns:
        None if the rows are not rows of tables or windows that are only filtered and projected.

    Raises:
        ExecutionError: An expression fails.
    """
    local = local_rows(windows)
    assert is_local(local, RowScan, ArrowBuffer), "a simulated operator reads relations"
    source = local.source
    relation = carry(source.input) or carry(source.input, is_of_operator=True)
    if relation is None:
        return None
    if not keeps_filters:
        source, relation = replace(source, filters=()), _unfiltered(relation)
    scan = ScanRows(
        LocalStep(
            source,
            mode,
            local.window,
            local.time_column,
            local.time_type,
            local.slice_end,
        )
    )
    names = (LATE_ROW, TIME, *local.keys)
    parts: dict[str, list[pa.Array]] = {name: [] for name in names}
    for batch in computed_batches(relation, given):
        rows = scan.filter_rows(batch)
        columns = {**scan.columns(rows), LATE_ROW: rows.column(LATE_ROW)}
        for name in names:
            parts[name].append(columns[name])
    return pa.table({name: pa.chunked_array(parts[name]) for name in names})


def columns_counted(operator: SimulatedOperator) -> frozenset[str]:
    """Return the columns of tables that an operator reads to count rows.

    Columns that projections pass on without a use are not among them.
    """
    local = local_rows(operator.windows)
    assert is_local(local, RowScan, ArrowBuffer), "a simulated operator reads relations"
    return _columns_below(local.source.input, frozenset(c.name for c in local.source.columns))


def _columns_below(rows: PlanNode, names: frozenset[str]) -> frozenset[str]:
    """Return the columns of tables from which some columns of a relation are computed."""
    if isinstance(rows, ProjectedRows):
        read = [value for name, value in rows.projection.columns if name in names]
        read += rows.projection.filters
        names = frozenset().union(*map(columns_of, read))
    if isinstance(rows, GivenRows):
        return names
    return frozenset().union(*(_columns_below(below, names) for below in rows.inputs))


def _unfiltered(rows: PlanNode) -> PlanNode:
    """Return a relation of `carry` without its filters."""
    match rows:
        case ProjectedRows():
            projection = replace(rows.projection, filters=())
            return ProjectedRows(_unfiltered(rows.input), projection)
        case UnitedRows():
            return UnitedRows(tuple(_unfiltered(part) for part in rows.parts))
    return rows


def carry_kind(rows: PlanNode) -> PlanNode:
    """Return results of windows with their ROW_KIND."""
    carried = _carry(rows, _KIND, is_of_operator=True)
    assert carried is not None, "windows that are emitted again are only filtered and projected"
    return carried


def _carry(rows: PlanNode, column: Column, *, is_of_operator: bool) -> PlanNode | None:
    match rows:
        case GivenRows():
            if (rows.of is not None) != is_of_operator:
                return None
            # the schema of operators is not read, so the column needs no type here
            return rows if rows.of is not None else replace(rows, columns=(*rows.columns, column))
        case ProjectedRows():
            below = _carry(rows.input, column, is_of_operator=is_of_operator)
            if below is None:
                return None
            item = (column.name, ColumnRef(column.name, column.type))
            columns = (*rows.projection.columns, item)
            return ProjectedRows(below, replace(rows.projection, columns=columns))
        case UnitedRows():
            parts = [_carry(part, column, is_of_operator=is_of_operator) for part in rows.parts]
            carried = [part for part in parts if part is not None]
            return UnitedRows(tuple(carried)) if len(carried) == len(parts) else None
    return None
