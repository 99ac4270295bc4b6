"""Filter on window columns below an aggregate that groups by them: to above it."""

from __future__ import annotations

from planner.nodes.logical import Aggregate, Filter, Node, WindowTableFunction
from planner.optimizer import Options, Refusal
from planner.sql.build import bare_column, column_names, to_sql


def pull_window_filter_above_aggregate(node: Node, options: Options) -> Node | Refusal | None:
    """Filter windows after they are put together, so that their slices stay shared.

    A condition on window columns keeps or drops a whole group if the aggregate groups by the
    columns it reads. Without this rule it would stand between the window table function and
    the aggregate and force every row to be copied into its windows.
    """
    if not (isinstance(node, Aggregate) and isinstance(node.input, Filter)):
        return None
    filter_, windowed = node.input, node.input.input
    if not isinstance(windowed, WindowTableFunction):
        return None
    grouped = {
        key.name.lower()
        for key in node.keys
        if windowed.columns.role_of(bare_column(key.expr) or "") is not None
    }
    movable = tuple(c for c in filter_.conjuncts if column_names(c) <= grouped)
    staying = tuple(c for c in filter_.conjuncts if c not in movable)
    if not movable:
        text = ", ".join(to_sql(conjunct) for conjunct in staying)
        return Refusal(f"{text} reads more than the grouped window columns")
    below: Node = Filter(filter_.schema, windowed, staying) if staying else windowed
    return Filter(node.schema, node.with_inputs(below), movable)
