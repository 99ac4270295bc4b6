"""Types of columns, by which a target decides how to compare them."""

from __future__ import annotations

from planner.lowering.sql.partials import Partial
from runtime.plan.exchange import MergedWindows
from runtime.plan.nodes import PlanNode
from runtime.plan.rows import (
    GivenRows,
    InlineRows,
    ProjectedRows,
    RankedRows,
    WindowedRows,
    local_rows,
)


def types_of_partial(part: Partial) -> dict[str, str]:
    """Return the Spark types of a partial's columns, by name."""
    types = part.into.partial_types([arg.type for arg in part.args])
    return dict(zip(part.columns, types.values(), strict=True))


def column_types(node: PlanNode) -> dict[str, str]:
    """Return the Spark types of a node's columns, by their names in the plan."""
    match node:
        case GivenRows() | InlineRows():
            return {column.name: column.type for column in node.columns}
        case ProjectedRows():
            return {name: value.type for name, value in node.projection.columns}
        case MergedWindows():
            scan = local_rows(node).source
            types = {name: key.type for name, key in scan.keys}
            for part in scan.partials:
                types |= types_of_partial(part)
            return types | {column.name: column.type for column in node.aggregation.results}
    types = {name: type_ for part in node.inputs for name, type_ in column_types(part).items()}
    match node:
        case RankedRows():
            types[node.column] = "int"
        case WindowedRows():
            types |= dict.fromkeys(node.names, "timestamp_ntz")
    return types
