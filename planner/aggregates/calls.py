"""Find and read the aggregate calls of a SELECT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from planner.aggregates.functions import is_aggregate, pick_of, pick_struct, texts_of
from planner.aggregates.texts import texts_by_time
from planner.catalog import Catalog
from planner.nodes.logical import COPIES, AggregateCall
from planner.sql.build import (
    alias,
    cast_as,
    function_call,
    is_not_null,
    literal,
    replace_call,
    to_sql,
)
from planner.sql.nodes import KeywordCall, PlacedError, UserAggregateCall, span_of
from runtime.errors import AnalysisError
from runtime.functions.aggregates import AGGREGATES
from runtime.functions.aggregates.function import FromValues, WithinGroup
from runtime.spec.user_aggregates import name_with_filter


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
    ordered = _order_within_group(inner)
    if ordered is not None:
        wrapped, args = False, (ordered.this, *inner.this.expressions)
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
    texts = None if wrapped or not args else texts_of(function)
    call = AggregateCall(
        name=name,
        function=f"{function} WITHIN GROUP" if wrapped else function,
        expr=node,
        args=args,
        text=text,
        type="",
        condition=condition,
        distinct=distinct,
        order=time_column if by_time or texts is not None else None,
        user=inner.args["aggregate"] if isinstance(inner, UserAggregateCall) else None,
        is_descending=ordered is not None and bool(ordered.args.get("desc")),
    )
    if by_time or (pick is not None and len(args) == 2 and not distinct):
        return replace(call, expr=_picking(call))
    if texts is not None and texts.is_joined:
        return replace(call, expr=texts_by_time(call))
    return call


def _order_within_group(node: exp.Expr) -> exp.Ordered | None:
    """Return the order in WITHIN GROUP of a function that takes one, or None for other calls."""
    if not isinstance(node, exp.WithinGroup) or not isinstance(node.this, exp.Anonymous):
        return None
    function = AGGREGATES.get(node.this.name.upper())
    form = None if function is None else function.form
    if not isinstance(form, FromValues) or form.within_group is WithinGroup.NO:
        return None
    orders = node.expression.expressions
    return orders[0] if len(orders) == 1 else None


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


def for_spark(query: exp.Query) -> exp.Query:
    """Return the query with calls that Spark can run.

    The FILTER of a user-defined aggregate becomes an argument. An aggregate that Spark lacks
    becomes an expression over the list of its values.

    Returns:
        The query itself if nothing changes, else a modified copy.
    """
    if not has_calls_for_spark(query):
        return query
    query = query.copy()
    for select in query.find_all(exp.Select):
        # Spark names an unnamed column by its text: keep the original one.
        items = [
            alias(item, to_sql(item).replace("`", ""))
            if not isinstance(item, exp.Alias) and has_calls_for_spark(item)
            else item
            for item in select.expressions
        ]
        select.set("expressions", items)
    for filter_ in _user_filters(query):
        call = filter_.this
        arguments = [filter_.expression.this.copy(), *(arg.copy() for arg in call.expressions)]
        filter_.replace(exp.Anonymous(this=name_with_filter(call.name), expressions=arguments))
    for call in _unknown_to_spark(query):
        _compute_from_values(call)
    return query


def has_calls_for_spark(query: exp.Expr) -> bool:
    """Return whether the query has calls that Spark cannot run as written."""
    return bool(_user_filters(query) or _unknown_to_spark(query))


def _user_filters(query: exp.Expr) -> list[exp.Filter]:
    return [f for f in query.find_all(exp.Filter) if isinstance(f.this, UserAggregateCall)]


def _unknown_to_spark(query: exp.Expr) -> list[exp.Anonymous]:
    return [call for call in query.find_all(exp.Anonymous) if _spark_form(call) is not None]


def _spark_form(call: exp.Anonymous) -> FromValues | None:
    """Return the form of a function that Spark lacks, or None for other functions."""
    function = AGGREGATES.get(call.name.upper())
    if function is None or isinstance(call, UserAggregateCall):
        return None
    form = function.form
    return form if isinstance(form, FromValues) and form.spark else None


def _compute_from_values(call: exp.Anonymous) -> None:
    """Replace a call of a function that Spark lacks, in place, with its FILTER and OVER."""
    form = _spark_form(call)
    assert form is not None
    arguments = call.expressions
    is_distinct = len(arguments) == 1 and isinstance(arguments[0], exp.Distinct)
    if is_distinct:
        arguments = arguments[0].expressions
    if len(arguments) != 1 or isinstance(arguments[0], exp.Star):
        name = call.name.upper()
        hint = f"use {AGGREGATES[name].signature}"
        error = AnalysisError(f"{name} takes one argument", hint=hint, subjects=(name,))
        raise PlacedError(error, span_of(call))
    value = cast_as(arguments[0].copy(), form.values) if form.values else arguments[0].copy()
    if is_distinct:
        value = exp.Distinct(expressions=[value])
    outermost: exp.Expr = call
    while isinstance(outermost.parent, exp.Filter | exp.Window) and outermost.arg_key == "this":
        outermost = outermost.parent
    call.set("this", "COLLECT_LIST")
    call.set("expressions", [value])
    values = function_call("SORT_ARRAY", outermost.copy())
    body = f"), v -> CASE WHEN SIZE(v) > 0 THEN {form.spark} END),"
    words = ("TRANSFORM(ARRAY(", body)
    outermost.replace(KeywordCall(this="ELEMENT_AT", words=words, expressions=[values, literal(1)]))
