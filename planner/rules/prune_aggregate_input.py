"""Columns that a window aggregate does not read: out of its input."""

from __future__ import annotations

from planner.nodes.logical import NamedExpr, Node, Project, WindowAggregate
from planner.optimizer import Options
from planner.sql.build import column, column_names
from runtime.spec.windows import Session


def prune_aggregate_input(node: Node, options: Options) -> Node | None:
    """Read only the columns that keys, arguments, filters and the window need."""
    if not isinstance(node, WindowAggregate) or isinstance(node.input, Project):
        return None
    needed = {node.time_column.lower()}
    if isinstance(node.window, Session):
        needed |= {name.lower() for name in node.window.partition}
    for key in node.keys:
        needed |= column_names(key.expr)
    for call in node.calls:
        needed |= column_names(call.expr)
    kept = tuple(c for c in node.input.schema if c.name.lower() in needed)
    if len(kept) == len(node.input.schema):
        return None
    items = tuple(NamedExpr(c.name, column(c.name)) for c in kept)
    return node.with_inputs(Project(kept, node.input, items))
