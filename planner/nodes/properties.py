"""Facts about plan nodes that rules ask for."""

from __future__ import annotations

from sqlglot import exp

from planner.nodes.logical import Filter, Node, Project, SqlQuery
from planner.nodes.physical import GlobalWindowAggregate
from planner.sql.build import bare_column
from runtime.spec.windows import Session


def distribution(node: Node) -> frozenset[str] | None:
    """The columns by which a node's rows are distributed among tasks, in lower case.

    Rows that agree in these columns are in the same task. None where nothing is known; the empty
    set where all rows are in one task.
    """
    if isinstance(node, GlobalWindowAggregate):
        keys = node.window.partition if isinstance(node.window, Session) else node.keys
        return frozenset(key.lower() for key in keys)
    if isinstance(node, Filter):
        return distribution(node.input)
    if isinstance(node, Project):
        names = {bare_column(item.expr): item.name for item in node.items}
        return _renamed(distribution(node.input), names)
    if isinstance(node, SqlQuery) and len(node.relations) == 1 and _keeps_rows_in_place(node.query):
        names = {
            bare_column(item.this if isinstance(item, exp.Alias) else item): item.alias_or_name
            for item in node.query.expressions
        }
        return _renamed(distribution(node.inputs[0]), names)
    return None


def _renamed(keys: frozenset[str] | None, names: dict[str | None, str]) -> frozenset[str] | None:
    if keys is None:
        return None
    new = {old.lower(): name.lower() for old, name in names.items() if old is not None}
    return frozenset(new[key] for key in keys) if keys <= new.keys() else None


def _keeps_rows_in_place(query: exp.Query) -> bool:
    """Whether a query is a SELECT that only filters and computes."""
    if not isinstance(query, exp.Select) or query.is_star:
        return False
    allowed = {"expressions", "from_", "where", "kind", "hint"}
    return not any(value for key, value in query.args.items() if key not in allowed)
