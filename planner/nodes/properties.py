"""Node properties: the columns that nodes pass on, and the distribution of their rows."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from planner.nodes.logical import Filter, Node, Project, SqlQuery
from planner.nodes.physical import GlobalWindowAggregate
from planner.sql.build import bare_column, has_only, star_leaves_out

_CLAUSES = {"expressions", "from_", "kind"}


def selection_below(node: Node) -> tuple[Node, dict[str, str]] | None:
    """Return the node below one that only selects columns, and the origin of each column.

    Args:
        node: A Project, or a query such as `SELECT a, b AS c, a + b FROM below`.

    Returns:
        The node below, and its columns that are passed on by lower-case output name. None if rows
        may be dropped, multiplied or aggregated.
    """
    match node:
        case Project(input=GlobalWindowAggregate()):
            # Expressions that finish aggregates are evaluated row by row, functions included.
            pairs = [(item.name, item.expr) for item in node.items]
        case Project():
            pairs = [(item.name, item.expr) for item in node.items]
            if not all(_is_one_value(expr) for _, expr in pairs):
                return None
        case SqlQuery():
            return _selection_of_text(node)
        case _:
            return None
    return node.input, _columns(pairs, "")


def _selection_of_text(node: SqlQuery) -> tuple[Node, dict[str, str]] | None:
    query = node.query
    if not isinstance(query, exp.Select) or len(node.relations) != 1:
        return None
    if not has_only(query, _CLAUSES):
        return None
    (placeholder, below), source = node.relations[0], query.args["from_"].this
    is_below = isinstance(source, exp.Table) and source.name == placeholder
    if not is_below or not has_only(source, ("this", "alias")) or source.alias_column_names:
        return None
    columns: dict[str, str] = {}
    for item in query.expressions:
        inner = item.unalias()
        if item.is_star:
            left_out = star_leaves_out(item)
            if left_out is None:
                return None
            columns |= {
                c.name.lower(): c.name for c in below.schema if c.name.lower() not in left_out
            }
        elif not _is_one_value(inner):
            return None
        else:
            columns |= _columns([(item.alias_or_name, inner)], source.alias_or_name.lower())
    return below, columns


def _columns(pairs: Iterable[tuple[str, exp.Expr]], qualifier: str) -> dict[str, str]:
    """Return the plain columns, with this qualifier or none, by lower-case output name."""
    plain = [(name, expr.unnest()) for name, expr in pairs]
    return {
        name.lower(): expr.name
        for name, expr in plain
        if isinstance(expr, exp.Column) and expr.table.lower() in ("", qualifier)
    }


def _is_one_value(expr: exp.Expr) -> bool:
    """Return whether an expression has one value per row. Among functions, only CAST qualifies."""
    if expr.find(exp.Query, exp.Window, exp.Star):
        return False
    return all(isinstance(call, exp.Cast) for call in expr.find_all(exp.Func))


def distribution(node: Node) -> frozenset[str] | None:
    """Return the lower-case columns by which a node's rows are distributed among tasks.

    Rows that agree in these columns are in the same task. None if the distribution is unknown; the
    empty set if all rows are in one task.
    """
    if isinstance(node, GlobalWindowAggregate):
        keys = node.keys if node.window.has_slices else node.window.partition
        return frozenset(key.lower() for key in keys)
    if isinstance(node, Filter):
        return distribution(node.input)
    if isinstance(node, Project):
        names = {bare_column(item.expr): item.name for item in node.items}
        return _rename(distribution(node.input), names)
    if isinstance(node, SqlQuery) and len(node.relations) == 1 and _keeps_rows_in_place(node.query):
        names = {bare_column(item.unalias()): item.alias_or_name for item in node.query.expressions}
        return _rename(distribution(node.inputs[0]), names)
    return None


def _rename(keys: frozenset[str] | None, names: dict[str | None, str]) -> frozenset[str] | None:
    if keys is None:
        return None
    new = {old.lower(): name.lower() for old, name in names.items() if old is not None}
    return frozenset(new[key] for key in keys) if keys <= new.keys() else None


def _keeps_rows_in_place(query: exp.Query) -> bool:
    """Return whether a query is a SELECT that only filters and projects row by row."""
    if not isinstance(query, exp.Select) or query.is_star or query.find(exp.Window):
        return False
    return has_only(query, ("expressions", "from_", "where", "kind", "hint"))
