"""Columns of a grouped query that are neither grouped nor aggregated.

Spark's analyser finds them too, but an editor runs none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from planner.aggregates.calls import aggregates_in, canonical, is_call
from planner.sql.nodes import WINDOW_COLUMNS

# Reads the names of a table's columns in lower case, empty if they are unknown
ColumnsOf = Callable[[str], frozenset[str]]


def ungrouped_columns(tree: exp.Expr, columns_of: ColumnsOf) -> Iterator[exp.Identifier]:
    """Yield columns in select lists that are neither grouped nor aggregated.

    Only columns of known tables count, outside subqueries and functions that users may have
    written.

    Args:
        tree: Tree of a statement.
        columns_of: Returns the columns of a table.
    """
    for select in tree.find_all(exp.Select):
        group = select.args.get("group")
        is_plain = group is None or (
            not any(value for key, value in group.args.items() if key != "expressions")
            and group.find(exp.GroupingSets, exp.Cube, exp.Rollup) is None
        )
        is_grouped = group is not None or any(map(aggregates_in, select.expressions))
        source = select.args.get("from_")
        if not (is_plain and is_grouped and source is not None):
            continue
        sources = [source, *(select.args.get("joins") or ())]
        tables = {t.name for part in sources for t in part.find_all(exp.Table) if not t.db}
        columns = {name for table in tables for name in columns_of(table)}
        keys = list(_keys(select, group))
        if columns and not any(isinstance(key, exp.Query) for key in keys):
            for item in select.expressions:
                yield from _ungrouped(item, keys, columns - _others(select))


def _keys(select: exp.Select, group: exp.Group | None) -> Iterator[exp.Expr]:
    """Yield the expressions of GROUP BY, with the items that ordinals and aliases mean."""
    by_alias = {item.alias.lower(): item.unalias() for item in select.expressions if item.alias}
    for key in group.expressions if group is not None else ():
        yield key
        if isinstance(key, exp.Literal) and not key.is_string:
            number = int(key.name) - 1 if key.name.isdigit() else -1
            if 0 <= number < len(select.expressions):
                yield select.expressions[number].unalias()
        elif isinstance(key, exp.Column) and not key.table and key.name.lower() in by_alias:
            yield by_alias[key.name.lower()]


def _others(select: exp.Select) -> set[str]:
    """Return names that may be no column of a table: of windows, and aliases of earlier items."""
    return {*WINDOW_COLUMNS, *(item.alias.lower() for item in select.expressions if item.alias)}


def _ungrouped(node: exp.Expr, keys: list[exp.Expr], columns: set[str]) -> Iterator[exp.Identifier]:
    if any(_is_same(node, key) for key in keys):
        return
    if isinstance(node, exp.Column):
        if node.name.lower() in columns and isinstance(node.this, exp.Identifier):
            yield node.this
        return
    is_left = isinstance(node, exp.Query | exp.Window | exp.Anonymous | exp.AggFunc | exp.Lambda)
    if not is_left and not is_call(node):
        for child in node.iter_expressions():
            yield from _ungrouped(child, keys, columns)


def _is_same(node: exp.Expr, key: exp.Expr) -> bool:
    """Return whether a node is a key, or a field of a key."""
    if isinstance(node, exp.Column) and isinstance(key, exp.Column):
        return key.name.lower() in (node.name.lower(), node.table.lower())
    return _unqualified(node) == _unqualified(key)


def _unqualified(node: exp.Expr) -> str:
    """Return a text that is equal for expressions of the same columns, with a table or without."""

    def without_table(part: exp.Expr) -> exp.Expr:
        return exp.column(part.this.copy()) if isinstance(part, exp.Column) else part

    return canonical(node.copy().transform(without_table))
