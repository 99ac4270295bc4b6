"""Clauses of a SELECT in this process: names, positions and numbers in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.aggregates.calls import aggregates_in
from planner.catalog import Schema, column_named
from planner.lowering.relation import QueryScope
from planner.sql.build import (
    bare_column,
    column,
    has_only,
    is_whole_star,
    item_name,
)
from runtime.refusal import refuse


@dataclass(frozen=True)
class Item:
    """An item of a select list: name of the column and its expression over the source."""

    name: str
    expr: exp.Expr


def with_ctes(query: exp.Expr, scope: QueryScope) -> QueryScope:
    """Return the scope inside a query with the queries of its WITH."""
    clause = query.args.get("with_")
    if clause is None:
        return scope
    if clause.args.get("recursive"):
        refuse("Spark computes recursive queries")
    for cte in clause.expressions:
        if cte.args["alias"].columns:
            refuse("Spark renames the columns of a query in WITH")
        scope = replace(scope, ctes={**scope.ctes, cte.alias.lower(): (cte.this, scope)})
    return scope


def items_of(select: exp.Select, schema: Schema) -> list[Item]:
    """Return the items of a select list. Unnamed items get a name with a dollar sign."""
    items = []
    for number, item in enumerate(select.expressions):
        inner = item.unalias()
        if is_whole_star(inner):
            items += [Item(c.name, column(c.name)) for c in schema]
        elif inner.is_star and not isinstance(inner, exp.Anonymous):
            refuse("Spark expands * with exceptions or of one relation")
        else:
            items.append(Item(item_name(item) or f"$item{number}", inner))
    return items


def meant_by(
    expr: exp.Expr,
    items: Sequence[Item],
    schema: Schema,
    *,
    is_key: bool = False,
    is_having: bool = False,
) -> exp.Expr:
    """Return an expression of ORDER BY, GROUP BY or HAVING over the source's columns.

    A name may refer to an item. If the source has a column of the same name, GROUP BY takes the
    column and ORDER BY the item. A number in ORDER BY or GROUP BY is a position.

    Args:
        expr: Expression.
        items: Items of the select list.
        schema: Columns of the source.
        is_key: Whether the expression is a key of GROUP BY.
        is_having: Whether it is a condition of HAVING.
    """
    if isinstance(expr, exp.Literal) and not expr.is_string and not is_having:
        place = int(expr.this) - 1 if expr.is_int else -1
        if not 0 <= place < len(items):
            refuse("Spark checks the positions of ORDER BY and GROUP BY")
        return items[place].expr.copy()
    by_name: dict[str, exp.Expr] = {}
    for item in items:
        if by_name.setdefault(item.name.lower(), item.expr) is not item.expr:
            refuse("two columns have the same name")

    def meant(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.table:
            return node
        name = node.name
        item = by_name.get(name.lower())
        if item is None or (bare_column(item) or "").lower() == name.lower():
            return node
        is_column = column_named(schema, name) is not None
        if is_key and is_column:
            return node
        if (is_having and is_column) or aggregates_in(expr):
            refuse(f"Spark decides which column {name} is")
        return exp.Paren(this=item.copy())

    return expr.copy().transform(meant).unnest()


def count_of(clause: exp.Expr | None) -> int | None:
    """Return the number of LIMIT or OFFSET, or None without the clause."""
    if clause is None:
        return None
    count = clause.args.get("expression")
    if (
        not isinstance(clause, exp.Limit | exp.Offset)
        or not isinstance(count, exp.Literal)
        or not count.is_int
        or not has_only(clause, {"expression"})
    ):
        refuse("Spark computes a LIMIT or OFFSET that is not a number")
    return int(count.name)
