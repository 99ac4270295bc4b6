"""Drop unused columns from the window rows that a stream buffers and exchanges."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from planner.aggregates.calls import aggregates_in
from planner.nodes.joins import WindowJoin
from planner.nodes.logical import (
    Aggregate,
    Filter,
    NetRows,
    Node,
    Project,
    RangeRows,
    SqlQuery,
    WindowAggregate,
    WindowDeduplicate,
    WindowRank,
    WindowTableFunction,
    with_needed_columns,
)
from planner.optimizer import Options
from planner.sql.build import column_names, has_only, item_name
from planner.sql.parts import PLAIN_SELECT, lone_source, makes_rows
from planner.streams.buffered_rows import columns_read
from planner.streams.tables import streams_of


def narrow_window_rows(node: Node, options: Options) -> Node | None:
    """Drop columns of a window function that the nodes above do not read.

    Fires on a projection, an aggregation or a Spark query over streams that names the columns it
    reads. Spark prunes columns in its own operators, but not through the operators with which a
    stream collects, ranks and joins window rows. Changes are counted by fewer columns.

    Example:
        >>> before_after(
        ...     "narrow_window_rows",
        ...     "SELECT city FROM ("
        ...     "SELECT *, ROW_NUMBER() OVER ("
        ...     "PARTITION BY window_start, window_end ORDER BY fare DESC) AS r "
        ...     "FROM TABLE(TUMBLE(TABLE rides, DESCRIPTOR(ts), INTERVAL '1' HOUR))) "
        ...     "WHERE r <= 3",
        ... )
        before:
        LogicalWindowRank(window=[TUMBLE(win_start=[window_start], win_end=[window_end],
          size=[1 h])], rankType=[ROW_NUMBER], rankRange=[rankStart=1, rankEnd=3],
          orderBy=[fare DESC], select=[ts, city, fare, window_start, window_end, window_time,
          r])
        +- LogicalTableFunctionScan(window=[TUMBLE(time_col=[ts], size=[1 h])])
           +- LogicalTableScan(table=[rides])
        after:
        LogicalWindowRank(window=[TUMBLE(win_start=[window_start], win_end=[window_end],
          size=[1 h])], rankType=[ROW_NUMBER], rankRange=[rankStart=1, rankEnd=3],
          orderBy=[fare DESC], select=[city, fare, window_start, window_end, r])
        +- LogicalProject(select=[city, fare, window_start, window_end])
           +- LogicalTableFunctionScan(window=[TUMBLE(time_col=[ts], size=[1 h])])
              +- LogicalTableScan(table=[rides])
    """
    needed: frozenset[str] | None = None
    match node:
        case Project():
            needed = frozenset().union(*(column_names(item.expr) for item in node.items))
        case Aggregate():
            read = [*(key.expr for key in node.keys), *(call.expr for call in node.calls)]
            needed = frozenset().union(*map(column_names, read))
        case WindowAggregate() if any(map(_ranks_all_rows, node.walk_up())):
            read = [*(key.expr for key in node.keys), *(call.expr for call in node.calls)]
            needed = frozenset().union(*map(column_names, read))
            needed |= _lower((node.time_column, *node.window.partition))
            if node.window.row_length is not None:
                needed |= _lower((node.window.row_length,))
        case SqlQuery():
            needed = columns_read(node)
    if needed is None or not streams_of(node, options.catalog):
        return None
    if isinstance(node, Project) and isinstance(node.input, WindowTableFunction | RangeRows):
        return None
    narrowed = node.with_each_input(lambda child: _narrow(child, needed))
    return None if narrowed is node else narrowed


def _ranks_all_rows(node: Node) -> bool:
    """Return whether a node ranks rows without a window."""
    return isinstance(node, WindowRank | WindowDeduplicate) and not node.window_columns


def _narrow(node: Node, needed: frozenset[str]) -> Node:
    """Reduce a node to the needed lower-case columns, plus those that it needs itself."""
    match node:
        case WindowTableFunction() | RangeRows():
            return with_needed_columns(node, needed)
        case Project():
            # The rule reaches its inputs later and prunes them then.
            kept_items = [
                (item, column)
                for item, column in zip(node.items, node.schema, strict=True)
                if item.name.lower() in needed
            ]
            if not kept_items or len(kept_items) == len(node.items):
                return node
            items, schema = zip(*kept_items, strict=True)
            return replace(node, items=items, schema=schema)
        case SqlQuery():
            return _narrow_text(node, needed)
        case NetRows():
            return _narrow_changes(node, needed)
        case Filter():
            below = needed.union(*map(column_names, node.conjuncts))
        case WindowRank():
            below = needed.union(*(column_names(order.this) for order in node.order_by))
            below = below.union(_lower(node.window_columns + node.partition_by))
        case WindowDeduplicate():
            below = needed.union(_lower((*node.window_columns, *node.partition_by, node.order_key)))
        case WindowJoin():
            below = needed.union(*map(_lower, (*node.window_keys, *node.keys)))
            if node.condition is not None:
                below |= column_names(node.condition)
        case _:
            return node
    narrowed = node.with_each_input(lambda child: _narrow(child, below))
    before = frozenset[str]().union(*(child.column_names for child in node.inputs))
    after = frozenset[str]().union(*(child.column_names for child in narrowed.inputs))
    dropped = before - after
    schema = tuple(c for c in node.schema if c.name.lower() not in dropped)
    return node if narrowed is node else replace(narrowed, schema=schema)


def _narrow_changes(node: NetRows, needed: frozenset[str]) -> NetRows:
    """Count changes by the needed columns and the window."""
    remaining = node.input
    if not isinstance(remaining, Filter) or not isinstance(remaining.input, WindowAggregate):
        return node
    groups = remaining.input
    needed |= _lower(groups.window.partition)
    keys = tuple(key for key in groups.keys if key.name.lower() in needed)
    if len(keys) == len(groups.keys):
        return node
    dropped = {key.name for key in groups.keys} - {key.name for key in keys}
    schema = tuple(c for c in groups.schema if c.name not in dropped)
    below = replace(groups, schema=schema, keys=keys)
    rows = tuple(c for c in node.schema if c.name not in dropped)
    return replace(node, schema=rows, input=replace(remaining, schema=schema, input=below))


def _narrow_text(node: SqlQuery, needed: frozenset[str]) -> SqlQuery:
    """Drop unneeded items from the select list of a query and of the queries below."""
    query = node.query.copy()
    dropped = _drop_items(query, needed)
    if dropped is None:
        return node
    schema = tuple(column for column in node.schema if column.name.lower() not in dropped)
    return replace(node, query=query, schema=schema)


def _drop_items(query: exp.Expr, needed: frozenset[str]) -> frozenset[str] | None:
    """Drop items, in place, from a SELECT and from the SELECT that it reads.

    Items that generate or aggregate rows stay.

    Returns:
        The names that are no longer columns of the result. None if nothing was dropped.
    """
    if not isinstance(query, exp.Select) or not has_only(query, PLAIN_SELECT):
        return None
    items = query.expressions
    stars = [item for item in items if item.is_star]
    named = [item for item in items if not item.is_star]
    if any(not item_name(entry) or aggregates_in(entry) or makes_rows(entry) for entry in named):
        return None
    names = {item_name(item).lower() for item in named}
    kept_items = [item for item in named if item_name(item).lower() in needed] or named
    dropped: frozenset[str] | None = None
    if len(kept_items) < len(named):
        dropped = frozenset(names - needed)
        query.set("expressions", [item for item in items if item.is_star or item in kept_items])
    source = lone_source(query)
    if isinstance(source, exp.Subquery) and not source.alias_column_names:
        read = [*kept_items, *filter(None, [query.args.get("where")])]
        below = frozenset().union(*map(column_names, read), needed if stars else ())
        lost = _drop_items(source.this, below)
        if lost is not None:
            dropped = (dropped or frozenset()) | (lost - names if stars else frozenset())
    return dropped


def _lower(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)
