"""Parts of a query: the sources it reads and the clauses around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlglot import exp

from planner.sql.build import has_only, identifier, to_sql
from planner.sql.nodes import WindowFunctionCall, copy_place, span_of

# Clauses of FROM that follow a relation
FROM_CLAUSES = ("joins", "laterals", "pivots", "match", "sample")
# Clauses of a SELECT that only filters and projects one source
PLAIN_SELECT = frozenset({"expressions", "from_", "where"})
_UNION_ALL = frozenset({"this", "expression"})
_PLAIN_SOURCE = frozenset({"this", "db", "catalog", "alias"})
# Functions that return several rows per row
_GENERATORS = frozenset("EXPLODE EXPLODE_OUTER POSEXPLODE POSEXPLODE_OUTER INLINE STACK".split())
# Clauses that determine the input rows of a SELECT
_INPUT = ("from_", "joins", "laterals", "with_")


def makes_rows(expr: exp.Expr) -> bool:
    """Return whether an expression calls a function that returns several rows per row."""
    return any(call.name.upper() in _GENERATORS for call in expr.find_all(exp.Anonymous))


def own_clauses(select: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the items and clauses of a SELECT, except FROM and WITH."""
    return (p for p in select.iter_expressions() if p.arg_key not in ("from_", "with_"))


def own_nodes(parts: Iterable[exp.Expr]) -> Iterator[exp.Expr]:
    """Yield the nodes of parts of a SELECT, except those in subqueries."""
    for part in parts:
        yield from part.walk(prune=lambda node: isinstance(node, exp.Query))


def without_qualifier(select: exp.Expr, called: str) -> exp.Select:
    """Return a copy of a SELECT without the name of its source, in lower case, before columns."""

    def unqualified(part: exp.Expr) -> exp.Expr:
        if not isinstance(part, exp.Column) or len(part.parts) == 1:
            return part
        first, *names = part.parts
        if not called or first.name.lower() != called:
            return part
        return exp.Column(**dict(zip(("this", "table", "db"), reversed(names), strict=False)))

    result = select.transform(unqualified)
    assert isinstance(result, exp.Select)
    return result


def name_parts(table: exp.Table) -> tuple[str, ...]:
    """Return the parts of a table's name."""
    return tuple(part.name for part in table.parts) or (to_sql(table),)


def bare_table(table: exp.Table) -> exp.Table:
    """Return a table reference without its alias and joins."""
    bare = table.copy()
    for key in ("alias", *FROM_CLAUSES):
        bare.set(key, None)
    return bare


def replace_relation(old: exp.Expr, new: exp.Expr) -> None:
    """Replace a relation in FROM, keeping the joins and the like after it."""
    for key in FROM_CLAUSES:
        if old.args.get(key):
            new.set(key, old.args[key])
    old.replace(new)


def replace_table(table: exp.Table, source: exp.Subquery) -> None:
    """Replace a table in FROM by a subquery, which keeps the name of its columns."""
    source.set("alias", table.args.get("alias") or exp.TableAlias(this=identifier(table.name)))
    replace_relation(table, source)


def parts_below(query: exp.Query) -> list[exp.Expr]:
    """Return the outermost tables, window functions and queries inside `query`.

    Chained set operations are parts of the whole: `a UNION ALL b UNION ALL c` has three.
    """
    is_set = isinstance(query, exp.SetOperation)

    def is_part(node: exp.Expr) -> bool:
        if node is query or (is_set and is_operand(node)):
            return False
        return isinstance(node, exp.Query | WindowFunctionCall | exp.With)

    parts = []
    for node in query.walk(bfs=not is_set, prune=is_part):
        if isinstance(node, exp.With):
            continue
        if is_part(node) or (isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier)):
            parts.append(node)
    return parts


def is_operand(query: exp.Expr) -> bool:
    """Return whether a set operation is directly below another and has no CTEs of its own."""
    is_below = isinstance(query.parent, exp.SetOperation)
    return isinstance(query, exp.SetOperation) and is_below and not query.ctes


def operands(query: exp.Union) -> list[exp.Expr]:
    """Return the operands of chained UNION ALLs, in order.

    An operand with a clause of its own, such as DISTINCT or LIMIT, is returned as a whole.
    """
    queries: list[exp.Expr] = []
    rest: list[exp.Expr] = [query]
    while rest:
        node = rest.pop()
        is_like = isinstance(node, exp.Union) and has_only(node, _UNION_ALL)
        if node is query or is_like:
            rest += [node.args["expression"], node.this]
        else:
            queries.append(node)
    return queries


def operands_alone(query: exp.Query) -> exp.Query:
    """Return a copy of a set operation without trailing clauses such as ORDER BY."""
    copy = query.copy()
    for key in [key for key in copy.args if key in exp.QUERY_MODIFIERS]:
        copy.set(key, None)
    return copy


def lateral_queries(select: exp.Expr) -> list[exp.Lateral]:
    """Return the LATERAL subqueries in the joins of a SELECT itself."""
    joins: list[exp.Join] = select.args.get("joins") or []
    laterals = [join.this for join in joins if isinstance(join.this, exp.Lateral)]
    return [lateral for lateral in laterals if isinstance(lateral.this, exp.Subquery)]


def is_ordered(query: exp.Query) -> bool:
    """Return whether a query orders the rows of its result."""
    return query.unnest().args.get("order") is not None


def sources_of(select: exp.Select) -> list[exp.Expr]:
    """Return the relations that a SELECT reads, in order."""
    clause = select.args.get("from_")
    first = [] if clause is None else [clause.this]
    return [*first, *(join.this for join in select.args.get("joins") or ())]


def has_other_parts(node: exp.Expr) -> bool:
    """Return whether a SELECT or relation has joins, pivots, samples or the like."""
    return any(node.args.get(key) for key in FROM_CLAUSES)


def lone_source(select: exp.Expr) -> exp.Expr | None:
    """Return the only relation that a SELECT reads, or None if there are others."""
    clause = select.args.get("from_")
    if clause is None or has_other_parts(select) or has_other_parts(clause.this):
        return None
    source: exp.Expr = clause.this
    return source


def only_window_function(query: exp.Query) -> WindowFunctionCall | None:
    """Return the window function of a SELECT that reads nothing else."""
    source = lone_source(query) if isinstance(query, exp.Select) else None
    return source if isinstance(source, WindowFunctionCall) else None


def with_primary_key(query: exp.Expr, primary_key: Sequence[str]) -> exp.Query:
    """Return a query with FROM_CHANGELOG, which it tells the PRIMARY KEY of the table."""
    changed = query.copy()
    call = changed.find(WindowFunctionCall)
    assert isinstance(changed, exp.Query) and call is not None, "the query reads FROM_CHANGELOG"
    call.set("primary_key", [exp.to_identifier(name) for name in primary_key])
    return changed


def place_window_function(query: exp.Query, table: exp.Table) -> None:
    """Give the window function in a query without positions the position of its view or table."""
    call = query.find(WindowFunctionCall)
    if call is not None and span_of(query) is None:
        copy_place(call.this, table)


def only_source(query: exp.Expr) -> exp.Expr | None:
    """Return the source of a SELECT that only filters and projects.

    Its items may still be aggregates, or functions that return several rows per row.

    Returns:
        A table, a subquery or a window function without renamed columns. None if the query does
        more.
    """
    query = query.unnest()
    if not isinstance(query, exp.Select) or not has_only(query, PLAIN_SELECT):
        return None
    clause = query.args.get("from_")
    source: exp.Expr | None = None if clause is None else clause.this
    if source is None or not has_only(source, _PLAIN_SOURCE) or source.alias_column_names:
        return None
    return source


def select_from_same(
    select: exp.Select, items: Iterable[exp.Expr], clauses: Iterable[str] = _INPUT
) -> exp.Select:
    """Build `SELECT items` with copies of some clauses of a SELECT, by default its input."""
    query = exp.Select(expressions=list(items))
    for clause in clauses:
        value = select.args.get(clause)
        if value:
            query.set(
                clause, [v.copy() for v in value] if isinstance(value, list) else value.copy()
            )
    return query
