"""Bind a SELECT with GROUP BY over one window function to an Aggregate and a SELECT around it.

    SELECT post-expressions FROM (Aggregate of keys and calls) WHERE having ORDER BY ... LIMIT ...

The part around the aggregate stays a single SELECT for Spark. If a block contains something that an
Aggregate node cannot represent, the whole block is left to Spark with a note.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from planner.aggregates.calls import aggregates_in
from planner.aggregates.functions import args_to_type
from planner.binder.grouping_block import GroupingBlock
from planner.binder.grouping_sets import (
    check_grouping_calls,
    groupings_of,
    has_groupings,
    spell_out_grouping_ids,
    two_grouping_sets,
)
from planner.binder.groupings import expand_groupings
from planner.binder.joins.window_join import side_of
from planner.binder.relations import Relations, Scope
from planner.catalog import column_named
from planner.nodes.logical import (
    Aggregate,
    AttachedWindow,
    Filter,
    NetRows,
    Node,
    RangeRows,
    WindowTableFunction,
)
from planner.nodes.window_columns import has_results, identifies_window
from planner.sql.build import (
    alias,
    bare_column,
    column,
    column_names,
    conjuncts,
    function_call,
    identifier,
    named_query,
    relation,
)
from planner.sql.nodes import WindowFunctionCall, name_of_columns, span_of
from planner.sql.parts import has_other_parts, lone_source, select_from_same
from planner.streams.refusals import BATCH, StreamRefusal
from planner.streams.tables import streams_of
from runtime.refusal import refuse

# Clauses that a SELECT DISTINCT must not have to be rewritten as a grouping
_NOT_DISTINCT = ("group", "having", "qualify", "windows")


def is_aggregation(select: exp.Select) -> bool:
    """Return whether a SELECT groups rows, by GROUP BY or by containing an aggregate."""
    if select.args.get("group"):
        return True
    clauses = [*select.expressions, select.args.get("having"), select.args.get("order")]
    return any(aggregates_in(clause) for clause in clauses if clause is not None)


def distinct_as_grouping(select: exp.Select, attached: AttachedWindow | None) -> exp.Select | None:
    """Rewrite a SELECT DISTINCT of window columns as a window aggregation.

    The rows are then aggregated in slices and a stream emits them when windows close. Flink's
    planner also turns every DISTINCT into an aggregation.

    Args:
        select: The SELECT. It is not modified.
        attached: The windows of the rows, if any. The selected columns must identify a window.

    Returns:
        The equivalent GROUP BY, or None if the SELECT does not qualify.
    """
    distinct = select.args.get("distinct")
    if attached is None or distinct is None or distinct.args.get("on"):
        return None
    if (
        has_other_parts(select)
        or any(map(select.args.get, _NOT_DISTINCT))
        or select.find_ancestor(exp.In, exp.Exists)
    ):
        return None  # a lookup subquery is not a set of results, and may read outer columns
    items = [item.unalias() for item in select.expressions]
    if not identifies_window(attached, [i.name for i in items if isinstance(i, exp.Column)]):
        return None
    if any(item.find(exp.Star, exp.Window, exp.Query) or aggregates_in(item) for item in items):
        return None
    grouped = select.copy()
    grouped.set("distinct", None)
    # Constants do not distinguish rows, and a number would be read as an ordinal.
    keys = [item.copy() for item in items if item.find(exp.Column)]
    grouped.set("group", exp.Group(expressions=keys))
    return grouped


def bind_aggregation(
    select: exp.Select,
    function: WindowFunctionCall,
    windowed: WindowTableFunction,
    relations: Relations,
    scope: Scope,
) -> Node:
    """Bind a grouping block over `windowed`.

    Raises:
        Refused: The block stays with Spark.
        AnalysisError: Spark's analyser rejects the block.
    """
    data = function.args["data"]
    name = function.alias or (name_of_columns(data) if isinstance(data, exp.Table) else None)
    return bind_block(select, windowed, name, windowed.time_column, relations, scope)


def bind_regrouping(select: exp.Select, relations: Relations, scope: Scope) -> Node | None:
    """Bind a grouping block over stream rows that already carry windows, or over RANGES.

    In batch, Spark computes other such blocks equally well. On a stream it cannot.

    Returns:
        The nodes, or None if the SELECT is not such a block.

    Raises:
        Refused: The block stays with Spark.
        AnalysisError: Spark's analyser rejects the block.
    """
    if not (is_aggregation(select) or select.args.get("distinct")):
        return None
    if lone_source(select) is None and _reads_stream(select, relations):
        select = over_joined_rows(select, relations, scope) or select
    source = lone_source(select)
    if source is None:
        return None
    side = side_of(source, relations, scope)
    if side is None:
        return None
    assert side.attached is not None, "its rows carry windows"
    # FIRST_VALUE and LAST_VALUE order by time, which is equal for all rows of a window.
    time = side.attached.time or side.attached.end or side.attached.start or ""
    if isinstance(side.node, RangeRows):
        time = side.node.time_column
    elif not streams_of(side.node, relations.catalog):
        return None
    elif any(side.node.find_all(NetRows)):
        time = next(iter(side.attached.times), time)
        if not isinstance(side.node, NetRows):
            refuse_groupings(select, relations.sql)
    select = distinct_as_grouping(select, side.attached) or select
    group = select.args.get("group")
    if group is None or (has_groupings(group) and not isinstance(side.node, RangeRows | NetRows)):
        return None
    bound = bind_block(select, side.node, side.name or None, time, relations, scope)
    if has_results(side.node):
        groups = next(bound.find_all(Aggregate))
        keys = filter(None, (bare_column(key.expr) for key in groups.keys))
        if not identifies_window(side.attached, keys):
            return None  # the results of windows are grouped without a window
    return bound


def refuse_groupings(select: exp.Select, sql: str) -> None:
    """Refuse GROUPING SETS over rows selected from those that remain in windows of a stream.

    Raises:
        StreamRefusal: The SELECT has GROUPING SETS.
    """
    group = select.args.get("group")
    if group is not None and has_groupings(group):
        raise StreamRefusal(
            "GROUPING SETS over rows selected from windows over changes are not supported on "
            "streams",
            f"group the rows of the window function itself; {BATCH}",
            span_of(group),
        ).place_in(sql)


def _reads_stream(select: exp.Select, relations: Relations) -> bool:
    """Return whether a relation of a SELECT that is bound reads a stream."""
    nodes = [node for _, node in relations.relations_in(select)]
    return any(streams_of(node, relations.catalog) for node in nodes)


def over_joined_rows(select: exp.Select, relations: Relations, scope: Scope) -> exp.Select | None:
    """Return a grouping SELECT with joins as one over a subquery of the joined rows, or None."""
    clauses = [select.args.get(key) for key in ("group", "having", "order")]
    group = select.args.get("group")
    if not select.args.get("joins") or group is None or group.args.get("all"):
        return None
    parts = [*select.expressions, *(part for part in clauses if part is not None)]
    aliases = {item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)}
    columns = [col for part in parts for col in part.find_all(exp.Column)]
    if any(part.find(exp.Query) for part in parts) or any(
        col.is_star or len(col.parts) > 2 or (not col.table and col.name.lower() in aliases)
        for col in columns
    ):
        return None
    names: dict[str, str] = {}
    items: list[exp.Expr] = []
    for col in columns:
        if col.sql().lower() not in names:
            names[col.sql().lower()] = f"$joined{len(names)}"
            items.append(alias(col.copy(), names[col.sql().lower()]))
    rows = select_from_same(select, items)
    rows.set("where", select.args["where"].copy() if select.args.get("where") else None)
    outer = select.copy()
    if any(item.is_star for item in select.expressions):
        return None
    names_of_items = [c.name for c in relations.sql_query(select.copy(), scope).schema]
    if len(names_of_items) != len(select.expressions):
        return None
    outer.set(
        "expressions",
        [alias(i.unalias(), n) for i, n in zip(outer.expressions, names_of_items, strict=True)],
    )
    for part in (
        *outer.expressions,
        *(outer.args.get(key) for key in ("group", "having", "order")),
    ):
        for col in [] if part is None else list(part.find_all(exp.Column)):
            name = names[col.sql().lower()]
            col.replace(column(name))
    for key in ("joins", "where"):
        outer.set(key, None)
    outer.set("from_", exp.From(this=named_query(rows, "$joined")))
    return outer


def bind_block(
    select: exp.Select,
    windowed: Node,
    source_alias: str | None,
    time_column: str,
    relations: Relations,
    scope: Scope,
) -> Node:
    """Bind a grouping block over rows.

    Args:
        select: The block.
        windowed: Rows that it groups.
        source_alias: The block's alias for them.
        time_column: Column that orders FIRST_VALUE and LAST_VALUE.
        relations: Relations of the query.
        scope: CTEs in scope.

    Raises:
        Refused: The block stays with Spark.
        AnalysisError: Spark's analyser rejects the block.
    """
    group = select.args.get("group")
    groupings = None
    if group is not None and has_groupings(group):
        groupings = groupings_of(group, lambda key: key)
        check_grouping_calls(select, groupings)
        spell_out_grouping_ids(select, groupings)
    block = GroupingBlock(select, source_alias, windowed, time_column)
    block.check()
    keys = block.keys()
    calls = block.calls(keys)
    original = select.copy()
    original.set("with_", None)
    if groupings is not None:
        original.set("group", two_grouping_sets(groupings))
    table = relation(relations.placeholder(windowed))
    if source_alias:
        table.set("alias", exp.TableAlias(this=identifier(source_alias)))
    original.set("from_", exp.From(this=table))
    # Spark checks the block as written, and types its parts with the same question.
    computed = [key.expr for key in keys if column_named(windowed.schema, key.name) is None]
    values = [function_call("FIRST", value) for call in calls for value in args_to_type(call)]
    parts = [*computed, *(call.expr for call in calls), *values]
    for number, part in enumerate(parts):
        original.append("expressions", alias(part, f"$part{number}"))
    checked = relations.sql_query(original, scope).schema
    block.schema = checked[: len(checked) - len(parts)]
    if len(block.schema) != len(block.items):
        refuse("the select list contains an expression that produces several columns")
    types = iter(checked[len(block.schema) :])
    below = _filter(select, block, relations, scope)
    of_keys = {
        key.name: column_named(windowed.schema, key.name) or replace(next(types), name=key.name)
        for key in keys
    }
    results = [next(types) for _ in calls]
    calls = [
        replace(
            call, type=result.type, arg_types=tuple(next(types).type for _ in args_to_type(call))
        )
        for call, result in zip(calls, results, strict=True)
    ]
    if block.groupings is not None:
        read = [call.expr for call in calls]
        below, keys = expand_groupings(block, block.groupings, below, keys, read, of_keys)
    schema = [column_named(below.schema, key.name) or of_keys[key.name] for key in keys]
    schema += [replace(result, name=call.name) for call, result in zip(calls, results, strict=True)]
    aggregate = Aggregate(
        tuple(schema), below, tuple(keys), tuple(calls), place=group and span_of(group)
    )
    return block.around(aggregate, relations, scope)


def _filter(select: exp.Select, block: GroupingBlock, relations: Relations, scope: Scope) -> Node:
    """Bind WHERE to a Filter above the windows; conditions with subqueries go below them."""
    parts = [block.plain(part) for part in conjuncts(select.args.get("where"))]
    nested = [part for part in parts if part.find(exp.Query)]
    plain = tuple(part for part in parts if not part.find(exp.Query))
    windowed = block.windowed
    if nested:
        if not isinstance(windowed, WindowTableFunction):
            refuse("WHERE contains a subquery")
        window_columns = {c.name.lower() for c in windowed.schema[-3:]}
        if any(column_names(part) & window_columns for part in nested):
            refuse("a subquery in WHERE reads window columns")
        if not windowed.window.has_slices:
            refuse("a subquery in WHERE would remove rows from sessions")
        data = windowed.input
        condition = exp.Where(this=exp.and_(*nested))
        query = relations.select([exp.Star()], data, where=condition)
        windowed = windowed.with_inputs(relations.sql_query(query, scope, data.schema))
    return Filter(windowed.schema, windowed, plain) if plain else windowed
