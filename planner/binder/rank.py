"""Bind window Top-N: `WHERE rn <= N` over ROW_NUMBER, RANK or DENSE_RANK per window.

Modelled on Flink's StreamPhysicalWindowRankRule.
"""

from __future__ import annotations

from sqlglot import exp

from planner.aggregates.calls import canonical
from planner.binder.all_time.ranks import rank_over_all_time
from planner.binder.changes.net_rows import signed_rows
from planner.binder.changes.remaining_rows import check_kept_columns
from planner.binder.rank_bounds import rank_bounds
from planner.binder.relations import Relations, Scope
from planner.binder.window_block import is_aggregation
from planner.nodes.logical import Node, SqlQuery, WindowRank, columns_of
from planner.nodes.window_columns import has_results, identifies_window, window_properties
from planner.sql.build import (
    alias,
    bare_column,
    column,
    conjunction,
    conjuncts,
    identifier,
    relation,
)
from planner.sql.nodes import STATE_TTL, copy_place, span_of
from planner.sql.parts import lone_source, own_clauses
from planner.streams.tables import streams_of
from runtime.errors import AnalysisError
from runtime.refusal import refuse
from runtime.spec.table import Column

_RANKS = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK"})
_HIDDEN = "$order{}"


def bind_rank(
    outer: exp.Select, relations: Relations, scope: Scope, time_zone: str
) -> exp.Select | None:
    """Return the SELECT over a WindowRank, if `outer` filters ranks of rows.

    Returns:
        The SELECT, or None if it ranks neither rows in windows nor all rows of a stream.

    Raises:
        Refused: The ranking stays with Spark.
    """
    inner = _ranked_query(outer, relations, scope)
    if inner is None:
        return None
    query, source = inner
    rankings = [(item, over) for item in query.expressions if (over := _ranking(item)) is not None]
    if len(rankings) != 1:
        return None
    ((item, over),) = rankings
    input_ = _without_rank(query, item, over, relations, scope)
    if input_ is None:
        return None
    node, partition, order = input_
    attached = window_properties(node)
    function, name = over.this.name.upper(), item.alias
    chosen = _rank_range(outer, name, source.alias_or_name)
    is_within = attached is not None and identifies_window(attached, partition)
    if not is_within and has_results(node) and streams_of(node, relations.catalog):
        attached = None  # the results of windows are ranked without a window
    if attached is not None and not is_within:
        ends = attached.end or attached.start or "window_end"
        refuse(f"{function} has no {ends} in PARTITION BY", "Spark ranks all rows")
    if chosen is None:
        if attached is None:
            return None
        # the name of a hidden column is not one of the query
        shown = function if name.startswith("$") else name
        refuse(f"no condition limits {shown}", "Spark ranks all rows")
    first, last, rest = chosen
    ranked: Node | None
    if attached is None:
        changes = signed_rows(node, windows_change=relations.windows_change(node))
        if changes is not None:
            check_kept_columns(changes, node.schema, "ranks", span_of(over), relations.sql)
        ranked = rank_over_all_time(
            node,
            changes,
            function,
            (first, last),
            partition,
            order,
            name,
            relations.catalog,
            time_zone,
            span_of(over),
            relations.ttl_us_of(
                query if STATE_TTL in query.meta or is_aggregation(outer) else outer
            ),
        )
        if ranked is None:
            return None
    else:
        ranked = WindowRank(
            (*node.schema, Column(name, "int", False)),
            node,
            attached,
            function,
            first,
            last,
            tuple(p for p in partition if attached.role_of(p) is not None),
            tuple(p for p in partition if attached.role_of(p) is None),
            order,
            name,
            place=span_of(over),
        )
    ranked = _place_rank(ranked, query, item)
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
    return any(part.find(exp.Query) for part in own_clauses(select))


def _ranked_query(
    outer: exp.Select, relations: Relations, scope: Scope
) -> tuple[exp.Select, exp.Expr] | None:
    """Return the only query that `outer` reads, and its relation in FROM."""
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
        return None  # before making an expensive copy
    return query.copy(), source


def _ranking(item: exp.Expr) -> exp.Window | None:
    """Return the window of `ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...) AS name`, or None."""
    over = item.this if isinstance(item, exp.Alias) else None
    if not isinstance(over, exp.Window) or not isinstance(over.this, exp.Anonymous):
        return None
    is_plain = over.args.get("order") is not None and not over.args.get("spec")
    is_rank = over.this.name.upper() in _RANKS and not over.this.expressions
    return over if is_plain and is_rank and not over.alias else None


def _without_rank(
    query: exp.Select, item: exp.Expr, over: exp.Window, relations: Relations, scope: Scope
) -> tuple[Node, tuple[str, ...], tuple[exp.Ordered, ...]] | None:
    """Return the query without its rank, with PARTITION BY and ORDER BY over its columns."""
    clauses = ("limit", "offset", "distinct", "order", "qualify", "windows")
    if any(query.args.get(clause) for clause in clauses):
        return None
    items = [other for other in query.expressions if other is not item]
    stars = [other for other in items if other.is_star]
    if len(stars) > 1:
        return None  # the position of the rank among the columns is unknown
    # `a.*` means all columns too, unless there are other relations.
    has_star = any(isinstance(star, exp.Star) or not query.args.get("joins") for star in stars)
    names: dict[str, str] = {}
    for other in items:
        if isinstance(other, exp.Alias | exp.Column) and not other.is_star:
            names.setdefault(canonical(other.unalias()), other.alias_or_name)
    hidden: list[exp.Expr] = []

    def name_of(expr: exp.Expr) -> str:
        plain = bare_column(expr)
        name = names.get(canonical(expr))
        if name is None and plain is not None and has_star:
            name = plain
        if name is None:
            name = _HIDDEN.format(len(hidden))
            hidden.append(alias(expr, name))
            names[canonical(expr)] = name
        return name

    partition = tuple(name_of(key) for key in over.args.get("partition_by") or [])
    order = []
    for ordered in over.args["order"].expressions:
        new = ordered.copy()
        new.set("this", copy_place(column(name_of(ordered.this)), ordered.this))
        order.append(new)
    below = query.copy()
    below.set("expressions", [i.copy() for i in items] + hidden)
    try:
        node = relations.node_of(below, scope)
    except AnalysisError:
        return None  # it reads columns of an outer query, or Spark reports the error
    lower = [c.name.lower() for c in node.schema]
    needed = {name.lower() for name in (*partition, *(o.this.name for o in order))}
    if len(set(lower)) != len(lower) or not needed <= set(lower):
        return None
    return node, partition, tuple(order)


def _place_rank(ranked: Node, query: exp.Select, item: exp.Expr) -> Node:
    """Move the rank to its position in the select list and drop hidden columns."""
    *others, rank = ranked.schema
    visible = [c for c in others if not c.name.startswith("$order")]
    place = next(i for i, other in enumerate(query.expressions) if other is item)
    if any(other.is_star for other in query.expressions[:place]):
        place = len(visible) - len(query.expressions[place + 1 :])
    columns = (*visible[:place], rank, *visible[place:])
    return ranked if columns == ranked.schema else columns_of(ranked, columns)


def _rank_range(
    outer: exp.Select, name: str, source: str
) -> tuple[int, int, list[exp.Expr]] | None:
    """Return the first and last rank that WHERE keeps, and the remaining conditions."""
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
