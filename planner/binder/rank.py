"""Window Top-N: `WHERE rn <= N` over ROW_NUMBER, RANK or DENSE_RANK by window, as a node.

The model is Flink's StreamPhysicalWindowRankRule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from planner.aggregates.calls import canonical
from planner.binder.relations import Relations
from planner.nodes.logical import LeftToSpark, NamedExpr, Node, Project, SqlQuery, WindowRank
from planner.nodes.windows import identifies_window, window_properties
from planner.sql.build import (
    alias,
    bare_column,
    column,
    conjunction,
    conjuncts,
    identifier,
    is_number_literal,
    relation,
)
from planner.sql.nodes import placed_like, span_of
from runtime.errors import AnalysisError
from runtime.spec.table import Column

_RANKS = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK"})
_HIDDEN = "$order{}"


@dataclass(frozen=True)
class _RankRange:
    first: int
    last: int | None


def bind_rank(
    outer: exp.Select, relations: Relations, scope: Mapping[str, exp.CTE]
) -> exp.Select | LeftToSpark | None:
    """The SELECT over a WindowRank, if `outer` chooses ranks of a query that ranks by window.

    Returns:
        The SELECT; why the ranking stays with Spark, if it is one of rows in windows; None if it
        is no such ranking at all.
    """
    inner = _ranked(outer, relations, scope)
    if inner is None:
        return None
    query, source = inner
    found = [item for item in query.expressions if _ranking(item) is not None]
    if len(found) != 1:
        return None
    item = found[0]
    over = _ranking(item)
    assert over is not None
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
        return LeftToSpark(
            f"{function} ranks without {ends} in PARTITION BY", "Spark ranks all rows"
        )
    name = item.alias
    chosen = _chosen(outer, name, source.alias_or_name)
    if chosen is None:
        return LeftToSpark(
            f"no condition says up to which {name} rows are wanted", "Spark ranks all rows"
        )
    range_, rest = chosen
    if range_.last is None or range_.first > range_.last:
        return LeftToSpark(
            f"no condition says up to which {name} rows are wanted", "Spark ranks all rows"
        )
    windows = tuple(p for p in partition if attached.role_of(p) is not None)
    ranked: Node = WindowRank(
        (*node.schema, Column(name, "int", False)),
        node,
        attached,
        function,
        range_.first,
        range_.last,
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
    parts = [select.args.get(key) for key in ("where", "having", "order", "qualify")]
    parts += select.expressions
    return any(isinstance(part, exp.Expr) and part.find(exp.Query) for part in parts)


def _ranked(
    outer: exp.Select, relations: Relations, scope: Mapping[str, exp.CTE]
) -> tuple[exp.Select, exp.Expr] | None:
    """The query that `outer` reads alone, with what stands in FROM."""
    clause = outer.args.get("from_")
    extras = ("joins", "laterals", "pivots", "match", "sample")
    if clause is None or any(outer.args.get(key) for key in extras):
        return None
    source = clause.this
    if any(source.args.get(key) for key in extras):
        return None
    names = source.args.get("alias")
    if names is not None and names.columns:
        return None
    query: exp.Expr | None = None
    if isinstance(source, exp.Subquery):
        query = source.this.unnest() if isinstance(source.this, exp.Subquery) else source.this
    elif isinstance(source, exp.Table) and not source.db and source.name.lower() in scope:
        cte = scope[source.name.lower()]
        query = None if cte.args["alias"].columns else cte.this
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
    query: exp.Select,
    item: exp.Expr,
    over: exp.Window,
    relations: Relations,
    scope: Mapping[str, exp.CTE],
) -> tuple[Node, tuple[str, ...], tuple[exp.Ordered, ...]] | None:
    """The query without its rank; PARTITION BY and ORDER BY over what it yields."""
    clauses = ("limit", "offset", "distinct", "order", "qualify", "windows")
    if any(query.args.get(clause) for clause in clauses):
        return None
    items = [other for other in query.expressions if other is not item]
    known: dict[str, str] = {}
    has_star = False
    for other in items:
        inner = other.unalias()
        has_star = has_star or isinstance(inner, exp.Star)
        if isinstance(other, exp.Alias) or isinstance(inner, exp.Column):
            known.setdefault(canonical(inner), other.alias_or_name)
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
        node = relations.whole_relation(below) or relations.sql_query(below, scope)
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
    place = 0
    for other in query.expressions:
        if other is item:
            break
        inner = other.unalias()
        is_star = isinstance(inner, exp.Star)
        place += 1 if not is_star else len(visible) - (len(query.expressions) - 2)
    columns = (*visible[:place], rank, *visible[place:])
    if columns == ranked.schema:
        return ranked
    return Project(columns, ranked, tuple(NamedExpr(c.name, column(c.name)) for c in columns))


def _chosen(outer: exp.Select, name: str, source: str) -> tuple[_RankRange, list[exp.Expr]] | None:
    """The ranks that WHERE keeps, and the conditions that are not about them."""
    where = outer.args.get("where")
    first, last = 1, None
    rest: list[exp.Expr] = []
    for part in conjuncts(where.this if where is not None else None):
        bounds = _bounds(part, name, source)
        if bounds is None:
            rest.append(part)
            continue
        first = max(first, bounds.first)
        if bounds.last is not None:
            last = bounds.last if last is None else min(last, bounds.last)
    return None if last is None else (_RankRange(first, last), rest)


def _bounds(condition: exp.Expr, name: str, source: str) -> _RankRange | None:
    """The ranks between which a condition on the rank alone keeps rows."""

    def is_rank(expr: exp.Expr) -> bool:
        return (
            isinstance(expr, exp.Column)
            and expr.name.lower() == name.lower()
            and expr.table.lower() in ("", source.lower())
        )

    if isinstance(condition, exp.Between):
        low, high = _integer(condition.args["low"]), _integer(condition.args["high"])
        if is_rank(condition.this) and low is not None and high is not None:
            return _RankRange(low, high)
        return None
    if not isinstance(condition, exp.LT | exp.LTE | exp.GT | exp.GTE | exp.EQ):
        return None
    left, right = condition.this.unnest(), condition.expression.unnest()
    kind: type[exp.Expr] = type(condition)
    if is_rank(right):
        left, right = right, left
        kind = _MIRRORED[kind]
    number = _integer(right)
    if not is_rank(left) or number is None:
        return None
    ranges: dict[type[exp.Expr], _RankRange] = {
        exp.LT: _RankRange(1, number - 1),
        exp.LTE: _RankRange(1, number),
        exp.GT: _RankRange(number + 1, None),
        exp.GTE: _RankRange(number, None),
        exp.EQ: _RankRange(number, number),
    }
    return ranges[kind]


# What a comparison is called when its sides change places
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
}


def _integer(expr: exp.Expr) -> int | None:
    expr = expr.unnest()
    return int(expr.name) if is_number_literal(expr) and expr.name.isdigit() else None
