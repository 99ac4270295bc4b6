"""Find and read the aggregate calls of a SELECT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from planner.aggregates.functions import is_aggregate, is_text_list, pick_of, pick_struct
from planner.aggregates.texts import texts_by_time
from planner.catalog import Catalog
from planner.nodes.logical import COPIES, AggregateCall
from planner.sql.build import alias, function_call, is_not_null, replace_call, to_sql
from planner.sql.nodes import UserAggregateCall
from runtime.spec.aggregates import name_with_filter


def aggregates_in(clause: exp.Expr) -> list[exp.Expr]:
    """Return the outermost aggregate calls in a clause, except in OVER and in subqueries."""
    aggregates: list[exp.Expr] = []
    rest = [clause]
    while rest:
        node = rest.pop()
        if isinstance(node, exp.Query):
            continue
        if not isinstance(node, exp.Window) and is_call(node):
            aggregates.append(node)
        else:
            rest += reversed(operands_of(node))
    return aggregates


def operands_of(node: exp.Expr) -> list[exp.Expr]:
    """Return the operands of a node. For OVER, these exclude the function itself."""
    children = list(node.iter_expressions())
    if not isinstance(node, exp.Window):
        return children
    function = node.this
    inner = function.this if isinstance(function, exp.Filter | exp.IgnoreNulls) else function
    return [*inner.iter_expressions(), *(child for child in children if child is not function)]


def is_call(node: exp.Expr) -> bool:
    """Return whether a node is an aggregate call, including its FILTER or NULLS wrappers."""
    if isinstance(node, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        return is_call(node.this)
    return is_aggregate(node)


def skip_nulls(calls: Sequence[exp.Expr]) -> None:
    """Make calls ignore NULLs in Spark too: `FIRST_VALUE(x)` becomes `FIRST_VALUE(x, TRUE)`."""
    for call in calls:
        replace_call(call, function_call(call.name, *call.expressions, exp.true()))


def calls_that_skip_nulls(select: exp.Select) -> list[exp.Expr]:
    """Return the FIRST_VALUE and LAST_VALUE calls of a grouping that have no NULLS clause."""
    clauses = [select.args.get(key) for key in ("having", "order", "qualify")]
    functions = (
        call.this if isinstance(call, exp.Filter) else call
        for clause in (*select.expressions, *clauses)
        if clause is not None
        for call in aggregates_in(clause)
    )
    return [function for function in functions if _skips_nulls(function)]


def _skips_nulls(call: exp.Expr) -> bool:
    """Return whether a call ignores NULLs in Flink and keeps them in Spark."""
    pick = pick_of(call.name.upper()) if isinstance(call, exp.Anonymous) else None
    return (
        pick is not None
        and pick.skips_nulls
        and len(call.expressions) == 1
        and not isinstance(call.expressions[0], exp.IgnoreNulls | exp.RespectNulls)
    )


def canonical(expr: exp.Expr) -> str:
    """Return a text that is equal for expressions with the same meaning."""
    return to_sql(_fold(expr.unnest().copy()))


def _fold(expr: exp.Expr) -> exp.Expr:
    """Normalise in place the names that differ only in spelling."""

    def fold(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Identifier):
            return exp.Identifier(this=node.name.lower(), quoted=True)
        if isinstance(node, exp.Anonymous) and isinstance(node.this, str):
            node.set("this", node.this.upper())
        if isinstance(node, UserAggregateCall):
            node.set("aggregate", None)  # a user's object, which may be unhashable
        return node

    return expr.transform(fold, copy=False)


def canonical_hash(expr: exp.Expr) -> int:
    """Return a hash that is equal if the canonical texts are equal. Collisions are unlikely."""
    return hash(_fold(expr.unnest().copy()))


def canonical_hashes(expr: exp.Expr) -> dict[int, int]:
    """Return the `canonical_hash` of every node of a tree by the node's `id`.

    Takes linear time. A text per node would cost the tree's depth times as much.
    """
    canonical = _fold(expr.copy())
    hash(canonical)  # computes the hashes of all nodes below as well
    pairs = zip(expr.dfs(), canonical.dfs(), strict=True)
    return {id(node): hash(like.unnest()) for node, like in pairs}


def count_of_copies(time_column: str) -> AggregateCall:
    """Return the call that counts equal rows, as `COPIES`."""
    call = read_call(function_call("COUNT", exp.Star()), COPIES, time_column)
    return replace(call, type="bigint")


def read_call(node: exp.Expr, name: str, time_column: str) -> AggregateCall:
    """Read an aggregate call into an `AggregateCall` whose types are still unknown."""
    text = to_sql(node)
    inner, condition = node, None
    ignore_nulls: bool | None = None  # None: not specified in the call
    # FILTER may come before IGNORE NULLS or inside it.
    while isinstance(inner, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        if isinstance(inner, exp.Filter):
            condition = inner.expression.this
        else:
            ignore_nulls = isinstance(inner, exp.IgnoreNulls)
        inner = inner.this
    # WITHIN GROUP and the like: only Spark runs these
    wrapped = not isinstance(inner, exp.Anonymous)
    function = inner.this.name.upper() if wrapped else inner.name.upper()
    args = tuple(inner.expressions)
    distinct = len(args) == 1 and isinstance(args[0], exp.Distinct)
    if distinct:
        args = tuple(args[0].expressions)
    if len(args) == 1 and isinstance(args[0], exp.IgnoreNulls | exp.RespectNulls):
        ignore_nulls, args = isinstance(args[0], exp.IgnoreNulls), (args[0].this,)
    pick = None if wrapped else pick_of(function)
    by_time = pick is not None and pick.by_time
    if by_time and len(args) == 2:  # first(x, true) means first(x) IGNORE NULLS
        if not isinstance(args[1], exp.Boolean):
            by_time = False
        else:
            ignore_nulls, args = ignore_nulls or bool(args[1].this), args[:1]
    if ignore_nulls is None:
        ignore_nulls = pick is not None and pick.skips_nulls
    if by_time and ignore_nulls:
        present = is_not_null(args[0])
        condition = (
            exp.And(this=exp.Paren(this=condition), expression=present) if condition else present
        )
    is_text = is_text_list(function) and not wrapped
    call = AggregateCall(
        name=name,
        function=f"{function} WITHIN GROUP" if wrapped else function,
        expr=node,
        args=args,
        text=text,
        type="",
        condition=condition,
        distinct=distinct,
        order=time_column if by_time or is_text else None,
        user=inner.args["aggregate"] if isinstance(inner, UserAggregateCall) else None,
    )
    if by_time or (pick is not None and len(args) == 2 and not distinct):
        return replace(call, expr=_picking(call))
    if is_text:
        return replace(call, expr=texts_by_time(call))
    return call


def _picking(call: AggregateCall) -> exp.Expr:
    """Return Spark SQL that picks a value from rows, deterministically even with ties."""
    pair = exp.Paren(this=pick_struct(call))
    return exp.Dot(this=pair, expression=exp.to_identifier("v"))


# -- user-defined aggregates ---------------------------------------------------------------------


def mark_user_aggregates(query: exp.Expr, catalog: Catalog) -> None:
    """Replace calls of user-defined aggregate functions, in place, by nodes of their own type."""
    for call in list(query.find_all(exp.Anonymous)):
        if isinstance(call, UserAggregateCall) or not isinstance(call.this, str):
            continue
        aggregate = catalog.user_aggregate(call.name)
        if aggregate is None:
            continue
        marked = UserAggregateCall(
            this=aggregate.name, expressions=call.expressions, aggregate=aggregate
        )
        marked.meta.update(call.meta)
        call.replace(marked)


def with_filters_inside(query: exp.Query) -> exp.Query:
    """Move the FILTER of user-defined aggregates into an argument, as Spark requires.

    Returns:
        The query itself if nothing changes, else a modified copy.
    """
    if not has_user_filters(query):
        return query
    query = query.copy()
    for select in query.find_all(exp.Select):
        # Spark names an unnamed column by its text: keep the original one.
        items = [
            alias(item, to_sql(item).replace("`", ""))
            if not isinstance(item, exp.Alias) and has_user_filters(item)
            else item
            for item in select.expressions
        ]
        select.set("expressions", items)
    for filter_ in _user_filters(query):
        call = filter_.this
        arguments = [filter_.expression.this.copy(), *(arg.copy() for arg in call.expressions)]
        filter_.replace(exp.Anonymous(this=name_with_filter(call.name), expressions=arguments))
    return query


def has_user_filters(query: exp.Expr) -> bool:
    """Return whether the query filters a user-defined aggregate."""
    return bool(_user_filters(query))


def _user_filters(query: exp.Expr) -> list[exp.Filter]:
    return [f for f in query.find_all(exp.Filter) if isinstance(f.this, UserAggregateCall)]
