"""Window Top-N: `WHERE rn <= N` over ROW_NUMBER, RANK or DENSE_RANK by window, as a node.

The model is Flink's StreamPhysicalWindowRankRule.
"""

from __future__ import annotations

from sqlglot import exp

from planner.aggregates.calls import canonical
from planner.binder.rank_bounds import rank_bounds
from planner.binder.relations import NotBound, Relations, Scope
from planner.nodes.logical import Node, SqlQuery, WindowRank, columns_of
from planner.nodes.windows import identifies_window, window_properties
from planner.sql.build import (
    alias,
    bare_column,
    column,
    conjunction,
    conjuncts,
    identifier,
    relation,
)
from planner.sql.nodes import placed_like, span_of
from planner.sql.parts import lone_source
from runtime.errors import AnalysisError
from runtime.spec.table import Column

_RANKS = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK"})
_HIDDEN = "$order{}"


def bind_rank(outer: exp.Select, relations: Relations, scope: Scope) -> exp.Select | None:
    """The SELECT over a WindowRank, if `outer` chooses ranks of a query that ranks by window.

    Returns:
        The SELECT; None if it is no ranking of rows in windows.

    Raises:
        NotBound: the ranking stays with Spark.
    """
    inner = _ranked(outer, relations, scope)
    if inner is None:
        return None
    query, source = inner
    found = [(item, over) for item in query.expressions if (over := _ranking(item)) is not None]
    if len(found) != 1:
        return None
    ((item, over),) = found
    input_ = _without(query, item, over, relations, scope)
    if input_ is None:
        return None
    node, partition, order = input_
    attached = window_properties(node)
    if attached is None:
        return None
    function = over.this.name.upper()
    if not identifies_window(attached, partition):
        ends = attached.end or attached.start or "window_end"
        raise NotBound(f"{function} ranks without {ends} in PARTITION BY", "Spark ranks all rows")
    name = item.alias
    chosen = _chosen(outer, name, source.alias_or_name)
    if chosen is None:
        raise NotBound(
            f"no condition says up to which {name} rows are wanted", "Spark ranks all rows"
        )
    first, last, rest = chosen
    windows = tuple(p for p in partition if attached.role_of(p) is not None)
    ranked: Node = WindowRank(
        (*node.schema, Column(name, "int", False)),
        node,
        attached,
        function,
        first,
        last,
        windows,
        tuple(p for p in partition if attached.role_of(p) is None),
        order,
        name,
        place=span_of(over),
    )
    ranked = _in_order(ranked, query, item)
    result = outer.copy()
    condition = conjunction(rest)
    result.set("where", exp.Where(this=condition) if condition is not None else None)
    table = relation(relations.placeholder(ranked))
    called = source.alias_or_name
    if called and _has_subqueries(result):
        table.set("alias", exp.TableAlias(this=identifier(called)))
    result.set("from_", None)
    for col in result.find_all(exp.Column):
        if called and table.args.get("alias") is None and col.table.lower() == called.lower():
            col.set("table", None)
    result.set("from_", exp.From(this=table))
    return result


def _has_subqueries(select: exp.Select) -> bool:
    parts = (part for part in select.iter_expressions() if part.arg_key not in ("from_", "with_"))
    return any(part.find(exp.Query) for part in parts)


def _ranked(
    outer: exp.Select, relations: Relations, scope: Scope
) -> tuple[exp.Select, exp.Expr] | None:
    """The query that `outer` reads alone, with what stands in FROM."""
    source = lone_source(outer)
    if source is None or source.alias_column_names:
        return None
    query: exp.Expr | None = None
    if isinstance(source, exp.Subquery):
        query = source.this.unnest() if isinstance(source.this, exp.Subquery) else source.this
    elif isinstance(source, exp.Table) and not source.db and source.name.lower() in scope:
        cte = scope[source.name.lower()]
        query = None if cte.alias_column_names else cte.this
    if not isinstance(query, exp.Select):
        return None
    behind = relations.whole_relation(query)
    if isinstance(behind, SqlQuery) and isinstance(behind.query, exp.Select):
        query = behind.query  # an aggregation that ranks its own rows
    if not any(_ranking(item) for item in query.expressions):
        return None  # before it is copied with all that is in it
    return query.copy(), source


def _ranking(item: exp.Expr) -> exp.Window | None:
    """`ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...) AS name`."""
    over = item.this if isinstance(item, exp.Alias) else None
    if not isinstance(over, exp.Window) or not isinstance(over.this, exp.Anonymous):
        return None
    is_plain = over.args.get("order") is not None and not over.args.get("spec")
    is_rank = over.this.name.upper() in _RANKS and not over.this.expressions
    return over if is_plain and is_rank and not over.alias else None


def _without(
    query: exp.Select, item: exp.Expr, over: exp.Window, relations: Relations, scope: Scope
) -> tuple[Node, tuple[str, ...], tuple[exp.Ordered, ...]] | None:
    """The query without its rank; PARTITION BY and ORDER BY over what it yields."""
    clauses = ("limit", "offset", "distinct", "order", "qualify", "windows")
    if any(query.args.get(clause) for clause in clauses):
        return None
    items = [other for other in query.expressions if other is not item]
    stars = [other for other in items if other.is_star]
    if len(stars) > 1:
        return None  # where the rank stands among the columns is not known
    # `a.*` is all columns too, unless there are other relations
    has_star = any(isinstance(star, exp.Star) or not query.args.get("joins") for star in stars)
    known: dict[str, str] = {}
    for other in items:
        if isinstance(other, exp.Alias | exp.Column) and not other.is_star:
            known.setdefault(canonical(other.unalias()), other.alias_or_name)
    hidden: list[exp.Expr] = []

    def name_of(expr: exp.Expr) -> str:
        plain = bare_column(expr)
        name = known.get(canonical(expr))
        if name is None and plain is not None and has_star:
            name = plain
        if name is None:
            name = _HIDDEN.format(len(hidden))
            hidden.append(alias(expr, name))
            known[canonical(expr)] = name
        return name

    partition = tuple(name_of(key) for key in over.args.get("partition_by") or [])
    order = []
    for ordered in over.args["order"].expressions:
        new = ordered.copy()
        new.set("this", placed_like(column(name_of(ordered.this)), ordered.this))
        order.append(new)
    below = query.copy()
    below.set("expressions", [i.copy() for i in items] + hidden)
    try:
        node = relations.node_of(below, scope)
    except AnalysisError:
        return None  # it reads columns of a query around it, or Spark will say what is wrong
    lower = [c.name.lower() for c in node.schema]
    needed = {name.lower() for name in (*partition, *(o.this.name for o in order))}
    if len(set(lower)) != len(lower) or not needed <= set(lower):
        return None
    return node, partition, tuple(order)


def _in_order(ranked: Node, query: exp.Select, item: exp.Expr) -> Node:
    """The rank at its place in the select list, hidden columns left out."""
    *others, rank = ranked.schema
    visible = [c for c in others if not c.name.startswith("$order")]
    place = next(i for i, other in enumerate(query.expressions) if other is item)
    if any(other.is_star for other in query.expressions[:place]):
        place = len(visible) - len(query.expressions[place + 1 :])
    columns = (*visible[:place], rank, *visible[place:])
    return ranked if columns == ranked.schema else columns_of(ranked, columns)


def _chosen(outer: exp.Select, name: str, source: str) -> tuple[int, int, list[exp.Expr]] | None:
    """The first and the last rank that WHERE keeps, and the conditions that say more than that."""
    first = 1
    lasts: list[int] = []
    rest: list[exp.Expr] = []
    for part in conjuncts(outer.args.get("where")):
        bounds = rank_bounds(part, name, source)
        first = max(first, bounds.first)
        if bounds.last is not None:
            lasts.append(bounds.last)
        if not bounds.is_all:
            rest.append(part)
    return (first, min(lasts), rest) if lasts and first <= min(lasts) else None
