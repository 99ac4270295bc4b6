"""Other ways to write a query, which must have the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count

from sqlglot import exp

from planner.sql.build import identifier, to_sql
from planner.sql.nodes import FillClause, WindowFunctionCall
from sqlwin.parser.parser import parse_query

# Columns of tables by lower name
Tables = Mapping[str, Sequence[str]]

AS_CTES = "subqueries as CTEs"
NAMED_BELOW = "below, a column with a name"
# Twins that are refused if another one is, because they compute more than the query
REFUSED_LIKE = {"below, a column without a name": NAMED_BELOW}
_WINDOW_COLUMNS = ("window_start", "window_end", "window_time")


def twins(sql: str, tables: Tables) -> Iterator[tuple[str, str]]:
    """Yield the twins of a query: how each is written, and its SQL.

    A twin has the columns of the query in the same order, some under other names.

    Args:
        sql: The query.
        tables: Columns of its tables, for those that are known.

    Example:
        >>> list(twins("SELECT k, v + 1 AS n FROM (SELECT * FROM t) AS a", {"t": ["k", "v"]}))[0]
        ('subqueries as CTEs', 'WITH twin_0 AS (SELECT * FROM t) SELECT k, v + 1 AS n FROM twin_0 AS a')
    """
    ways: dict[str, Callable[[exp.Expr], exp.Expr | None]] = {
        "USING for ON": _using,
        "ON for USING": _on,
        AS_CTES: _ctes,
        "CTEs as subqueries": _without_ctes,
        "* for columns": _star,
        "columns for *": lambda query: _listed(query, tables),
        "without names": _unnamed,
        NAMED_BELOW: lambda query: _with_column_below(query, " AS twin"),
        "below, a column without a name": lambda query: _with_column_below(query, ""),
    }
    for way, rewrite in ways.items():
        tree = parse_query(sql)
        twin = rewrite(tree.copy())
        if twin is not None and (text := to_sql(twin)) != to_sql(tree):
            yield way, text


def _using(query: exp.Expr) -> exp.Expr:
    """Write an ON of equal columns of equal names as USING. An inner join may compare, too."""
    for join in list(query.find_all(exp.Join)):
        on, select = join.args.get("on"), join.parent
        if on is None or not isinstance(select, exp.Select) or len(select.args["joins"]) != 1:
            continue
        parts = list(on.flatten()) if isinstance(on, exp.And) else [on]
        same = [part for part in parts if _shared_name(part, join)]
        others = [part for part in parts if part not in same]
        # other conditions of an as-of join choose its row
        is_inner = not (join.side or join.kind or join.method)
        if not same or (others and not is_inner) or _has_star(select):
            continue
        join.set("on", None)
        join.set("using", [identifier(str(_shared_name(part, join))) for part in same])
        for part in others:
            select.where(part, copy=False)
    return query


def _shared_name(condition: exp.Expr, join: exp.Join) -> str | None:
    """Return the name of `l.name = r.name` between a table and the joined one, else None."""
    if not isinstance(condition, exp.EQ):
        return None
    sides = (condition.this, condition.expression)
    if not all(isinstance(side, exp.Column) and side.table for side in sides):
        return None
    left, right = sides
    is_joined = {side.table == join.this.alias_or_name for side in sides}
    return str(left.name) if left.name == right.name and len(is_joined) == 2 else None


def _on(query: exp.Expr) -> exp.Expr:
    """Write USING of a single join as ON, if all columns are qualified."""
    for join in list(query.find_all(exp.Join)):
        names, select = join.args.get("using"), join.parent
        if not names or not isinstance(select, exp.Select) or len(select.args["joins"]) != 1:
            continue
        own = [c for c in select.find_all(exp.Column) if c.parent_select is select]
        if _has_star(select) or not all(column.table for column in own):
            continue
        left, right = select.args["from_"].this.alias_or_name, join.this.alias_or_name
        if not left or not right:
            continue
        parts = [
            exp.EQ(
                this=exp.column(name.name, left, quoted=True),
                expression=exp.column(name.name, right, quoted=True),
            )
            for name in names
        ]
        join.set("using", None)
        join.set("on", exp.and_(*parts, copy=False))
    return query


def _ctes(query: exp.Expr) -> exp.Expr | None:
    """Move the subqueries of FROM, JOIN and window functions into a WITH clause."""
    if query.args.get("with_") is not None:
        return None
    numbers = count()
    parts = []
    for subquery in list(query.find_all(exp.Subquery, bfs=False))[::-1]:
        is_data = isinstance(subquery.parent, WindowFunctionCall) and subquery.arg_key == "data"
        if not (isinstance(subquery.parent, exp.From | exp.Join) or is_data):
            continue
        if not isinstance(subquery.this, exp.Query) or _is_below_expression(subquery):
            continue
        name = f"twin_{next(numbers)}"
        table = exp.Table(this=identifier(name), alias=subquery.args.get("alias"))
        rest = {key: subquery.args.get(key) for key in ("joins", "pivots", "sample", "laterals")}
        if any(rest.values()):
            continue
        subquery.replace(table)
        parts.append(exp.CTE(this=subquery.this, alias=exp.TableAlias(this=identifier(name))))
    if not parts:
        return None
    query.set("with_", exp.With(expressions=parts))
    return query


def _is_below_expression(subquery: exp.Expr) -> bool:
    """Return whether a subquery is in an expression, where it may refer to columns outside."""
    node = subquery.parent
    while node is not None:
        if isinstance(node, exp.Exists | exp.In | exp.Condition) and not isinstance(
            node, exp.Subquery | WindowFunctionCall
        ):
            return True
        if isinstance(node, exp.Subquery) and not isinstance(
            node.parent, exp.From | exp.Join | WindowFunctionCall
        ):
            return True
        node = node.parent
    return False


def _without_ctes(query: exp.Expr) -> exp.Expr | None:
    """Write each CTE where it is read."""
    given = query.args.get("with_")
    if given is None or given.args.get("recursive") or len(list(query.find_all(exp.With))) > 1:
        return None  # names of CTEs inside could hide others
    bodies: dict[str, exp.Expr] = {}
    for cte in given.expressions:
        if cte.args["alias"].columns:
            return None
        _put_in(cte.this, bodies)
        bodies[cte.alias.lower()] = cte.this
    query.set("with_", None)
    _put_in(query, bodies)
    return query


def _put_in(query: exp.Expr, bodies: Mapping[str, exp.Expr]) -> None:
    for table in list(query.find_all(exp.Table)):
        body = None if table.db else bodies.get(table.name.lower())
        if body is None or isinstance(table.parent, exp.Subquery):
            continue
        is_data = isinstance(table.parent, WindowFunctionCall) and not table.alias
        alias = None if is_data else exp.TableAlias(this=identifier(table.alias_or_name))
        made = exp.Subquery(this=body.copy(), alias=table.args.get("alias") or alias)
        for key in ("joins", "pivots", "sample", "laterals"):
            made.set(key, table.args.get(key))
        table.replace(made)


def _star(query: exp.Expr) -> exp.Expr:
    """Read all columns of the query."""
    if query.args.get("with_") is not None:
        given = query.args["with_"].pop()
    else:
        given = None
    alias = exp.TableAlias(this=identifier("twin"))
    outer = exp.Select(
        expressions=[exp.Star()], from_=exp.From(this=exp.Subquery(this=query, alias=alias))
    )
    order = query.args.get("order")
    if order is not None and not query.args.get("limit"):
        order.pop()
    if given is not None:
        outer.set("with_", given)
    return outer


def _listed(query: exp.Expr, tables: Tables) -> exp.Expr:
    """Write the columns of each `*`, from the inside to the outside."""
    for select in list(query.find_all(exp.Select, bfs=False))[::-1]:
        if not _has_star(select) or select.args.get("joins") or select.args.get("laterals"):
            continue
        names = _columns_of(select.args["from_"].this, tables) if select.args.get("from_") else None
        if names is None:
            continue
        items: list[exp.Expr] = []
        for item in select.expressions:
            is_plain = type(item) is exp.Star and not any(item.args.values())
            items += [exp.column(n, quoted=True) for n in names] if is_plain else [item]
        select.set("expressions", items)
    return query


def _columns_of(source: exp.Expr, tables: Tables) -> list[str] | None:
    """Return the columns of a part of FROM, None if they are not known."""
    alias = source.args.get("alias")
    if (isinstance(alias, exp.TableAlias) and alias.columns) or source.args.get("pivots"):
        return None
    if isinstance(source, exp.Table) and not source.db:
        names = tables.get(source.name.lower())
        return None if names is None else list(names)
    if isinstance(source, WindowFunctionCall):
        below = _columns_of(source.args["data"], tables)
        is_plain = not source.args.get("names") and source.kind != "GAP_FILL"
        return [*below, *_WINDOW_COLUMNS] if below is not None and is_plain else None
    if isinstance(source, exp.Subquery) and isinstance(source.this, exp.Select):
        items = source.this.expressions
        if all(isinstance(item, exp.Alias | exp.Column) for item in items):
            if not any(isinstance(item.this, exp.Star) for item in items):
                return [item.alias_or_name for item in items]
    return None


def _unnamed(query: exp.Expr) -> exp.Expr | None:
    """Leave out the names of the columns that nothing refers to."""
    if not isinstance(query, exp.Select):
        return None
    named = [item for item in query.expressions if isinstance(item, exp.Alias)]
    for item in named:
        others = [c for c in query.find_all(exp.Identifier) if c.name.lower() == item.alias.lower()]
        if len(others) == 1 and not isinstance(item.this, exp.Column):
            item.replace(item.this)
    return query


def _with_column_below(query: exp.Expr, named: str) -> exp.Expr:
    """Add a column to each subquery in FROM whose columns are all listed outside."""
    for select in list(query.find_all(exp.Select)):
        joins = select.args.get("joins") or []
        sources = [part.this for part in (select.args.get("from_"), *joins) if part is not None]
        if _has_star(select):
            continue
        for source in sources:
            below = source.this if isinstance(source, exp.Subquery) else None
            if not isinstance(below, exp.Select) or source.alias_column_names:
                continue
            if below.args.get("distinct") or below.find(FillClause) or not below.args.get("from_"):
                continue
            has_groups = below.args.get("group") is not None or below.find(exp.AggFunc)
            added = ("COUNT(*) + 1" if has_groups else "1 + 1") + named
            below.append("expressions", parse_query(f"SELECT {added}").expressions[0])
    return query


def _has_star(select: exp.Select) -> bool:
    return any(
        isinstance(item, exp.Star)
        or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))
        for item in select.expressions
    )
