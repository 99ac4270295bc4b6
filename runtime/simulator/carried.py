"""Relations with one more column that passes through filters and projections unchanged."""

from __future__ import annotations

from dataclasses import replace

from runtime.plan.nodes import PlanNode
from runtime.plan.rows import GivenRows, ProjectedRows, UnitedRows
from runtime.spec.expressions import ColumnRef
from runtime.spec.stream import LATE_ROW, ROW_KIND
from runtime.spec.table import Column

_NUMBER = Column(LATE_ROW, "bigint")
_KIND = Column(ROW_KIND, "string")


def carry(rows: PlanNode) -> PlanNode | None:
    """Return rows of tables with the number of each row as LATE_ROW.

    None if the relation does more than filter and project tables.
    """
    return _carry(rows, _NUMBER, is_of_operator=False)


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
