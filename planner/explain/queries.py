"""A SELECT that Spark carries out, as operators: Limit, Sort, Calc where it is that simple."""

from __future__ import annotations

from sqlglot import exp

from planner.explain.format import Operator, item_text, operator, unquoted
from planner.nodes.logical import NamedExpr, SqlQuery
from planner.sql.build import bare_column, star_leaves_out, to_sql


def query_operators(node: SqlQuery, prefix: str) -> list[Operator]:
    """A SELECT over one relation as Limit, Sort, Calc; anything else as the text for Spark.

    Args:
        node: the query.
        prefix: `Logical`, or nothing for a physical plan.
    """
    query = node.query
    if not _is_plain_select(node):
        return [operator(f"{prefix}SparkSql", sql=_with_input_numbers(query, node))]
    assert isinstance(query, exp.Select)
    found = []
    limit, offset, order = (query.args.get(k) for k in ("limit", "offset", "order"))
    if limit is not None or offset is not None:
        found.append(
            operator(
                f"{prefix}Limit",
                offset=to_sql(offset.expression) if offset is not None else None,
                fetch=to_sql(limit.expression) if limit is not None else None,
            )
        )
    if order is not None:
        keys = [unquoted(key) for key in order.expressions]
        found.append(operator(f"{prefix}Sort", orderBy=keys))
    if query.args.get("distinct"):
        found.append(operator(f"{prefix}Distinct"))
    items = [
        NamedExpr(item.alias_or_name, item.this if isinstance(item, exp.Alias) else item)
        for item in query.expressions
    ]
    where = query.args.get("where")
    condition = unquoted(where.this) if where is not None else None
    names = [c.name for c in node.inputs[0].schema]
    same = [bare_column(i.expr) for i in items] == names and [i.name for i in items] == names
    select = [item_text(item) for item in items]
    is_whole = any(
        item.is_star and star_leaves_out(item) == frozenset() for item in query.expressions
    )
    if is_whole or (same and where is None and found):
        if condition is not None and prefix:
            found.append(operator("LogicalFilter", condition=condition))
        elif condition is not None:
            found.append(operator("Calc", where=condition))
    elif prefix:
        found.append(operator(f"{prefix}Project", select=select))
        if condition is not None:
            found.append(operator(f"{prefix}Filter", condition=condition))
    else:
        found.append(operator("Calc", select=select, where=condition))
    return found or [operator(f"{prefix}Project" if prefix else "Calc", select="*")]


def _is_plain_select(node: SqlQuery) -> bool:
    query = node.query
    allowed = {"expressions", "from_", "where", "order", "limit", "offset", "distinct", "kind"}
    if not isinstance(query, exp.Select) or len(node.relations) != 1:
        return False
    if any(value for key, value in query.args.items() if key not in allowed):
        return False
    source = query.args["from_"].this
    is_input = isinstance(source, exp.Table) and source.name == node.relations[0][0]
    return is_input and not any(q is not query for q in query.find_all(exp.Query))


def _with_input_numbers(query: exp.Query, node: SqlQuery) -> str:
    """The text with `input#0`, `input#1` for the placeholders, in the order of the inputs."""
    query = query.copy()
    numbers = {name: f"input#{i}" for i, (name, _) in enumerate(node.relations)}
    for table in query.find_all(exp.Table):
        if table.name in numbers:
            table.set("this", exp.Identifier(this=numbers[table.name], quoted=False))
    return to_sql(query)
