"""Fill gaps of a stream with a window operator over the windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from sqlglot import exp

from planner.aggregates.calls import count_of_copies
from planner.aggregates.functions import plan_aggregate
from planner.aggregates.phases import two_phases
from planner.aggregates.shared_partials import share_partials
from planner.nodes.aggregate_plans import SLICE_END
from planner.nodes.logical import (
    Aggregate,
    AggregateCall,
    Filter,
    GapFill,
    NamedExpr,
    Node,
    Project,
    SqlQuery,
    WindowKey,
    columns_of,
    repeated,
    with_column,
)
from planner.nodes.physical import (
    GlobalWindowAggregate,
    OnePhaseWindowAggregate,
    StreamGapFill,
    StreamVersionJoin,
)
from planner.nodes.window_columns import identifies_window, window_properties
from planner.optimizer import Options
from planner.sql.build import (
    alias,
    bare_column,
    column,
    function_call,
    has_only,
    is_flat_type,
    is_whole_star,
    item_name,
    last_time_before,
    to_sql,
)
from planner.sql.parts import PLAIN_SELECT, lone_source, makes_rows
from planner.streams.tables import arrives_at_once, streams_of
from runtime.refusal import Refusal
from runtime.shown_types import shown_type
from runtime.spec.expressions import Constant
from runtime.spec.filling import FillConstant, GapFilling
from runtime.spec.table import Column

_TIME = "$time"
_ONE_COPY = FillConstant(Constant(1, "bigint"))


def fill_gaps_of_stream(node: Node, options: Options) -> Node | Refusal | None:
    """Add windows without rows in an operator that keeps the last row of each key.

    Fires on a GapFill over a stream whose columns are of flat types. The windows become the rows of
    windows that end where they do and are one after another, so that each holds one row of a key.
    If a key may have several rows in a window, as in GAP_FILL of a table, all their columns are
    group keys, with a count.

    Example:
        >>> before_after(
        ...     "fill_gaps_of_stream",
        ...     "SELECT city, window_end, COUNT(*) AS n "
        ...     "FROM TABLE(TUMBLE(TABLE rides, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
        ...     "GROUP BY city, window_start, window_end FILL (n = 0)",
        ... )
        before:
        GapFill(window=[TUMBLE(win_start=[window_start], win_end=[window_end], size=[1 h])],
             partitionBy=[city], fill=[n = 0])
        +- Exchange(distribution=[hash[city]])
           +- Calc(select=[city, window_start, window_end, n])
              +- Calc(select=[city, window_start, window_end, n$0 AS n])
                 +- GlobalWindowAggregate(groupBy=[city],
                      window=[TUMBLE(slice_end=[$slice_end], size=[1 h])], select=[city,
                      COUNT(n$0), start('w$) AS window_start, end('w$) AS window_end])
                    +- Exchange(distribution=[hash[city]], carries=[Arrow blobs])
                       +- LocalWindowAggregate(groupBy=[city], window=[TUMBLE(time_col=[ts],
                            size=[1 h])], select=[city, COUNT(*) AS n$0, slice_end('w$) AS
                            $slice_end])
                          +- Calc(select=[ts, city])
                             +- TableSourceScan(table=[rides], connector=[filesystem],
                                  fields=[ts, city, fare])
        after:
        Calc(select=[city, window_start, window_end, n$0 AS n])
        +- GlobalWindowAggregate(groupBy=[city], window=[TUMBLE(slice_end=[$slice_end],
             size=[1 h])], select=[city, MAX(n$0), start('w$) AS window_start, end('w$) AS
             window_end], fill=[n = 0], keep=[1 d])
           +- Exchange(distribution=[hash[city]], carries=[Arrow blobs])
              +- LocalWindowAggregate(groupBy=[city], window=[TUMBLE(time_col=[$time], size=[1
                   h])], select=[city, MAX(`n`) AS n$0, slice_end('w$) AS $slice_end])
                 +- Calc(select=[city, window_start, window_end, n, window_end - INTERVAL
                      '0.001' SECOND AS $time])
                    +- Calc(select=[city, window_start, window_end, n])
                       +- Calc(select=[city, window_start, window_end, n$0 AS n])
                          +- GlobalWindowAggregate(groupBy=[city],
                               window=[TUMBLE(slice_end=[$slice_end], size=[1 h])], select=[city,
                               COUNT(n$0), start('w$) AS window_start, end('w$) AS window_end])
                             +- Exchange(distribution=[hash[city]], carries=[Arrow blobs])
                                +- LocalWindowAggregate(groupBy=[city],
                                     window=[TUMBLE(time_col=[ts], size=[1 h])], select=[city,
                                     COUNT(*) AS n$0, slice_end('w$) AS $slice_end])
                                   +- Calc(select=[ts, city])
                                      +- TableSourceScan(table=[rides],
                                           connector=[filesystem], fields=[ts, city, fare])
    """
    if not isinstance(node, GapFill) or not streams_of(node, options.catalog):
        return None
    if not arrives_at_once(node.input, options.catalog):
        return None
    filling = node.filling
    bounds = {filling.start: "start", filling.end: "end"}
    values = [c for c in node.schema if c.name not in (*filling.keys, *bounds)]
    for value in values:
        if not is_flat_type(value.type):
            return Refusal(
                f"{value.name} is {shown_type(value.type)}, which the exchange does not support"
            )
    if _has_one_row(node.input, filling):
        return _filled(node, filling.keys, tuple(_only_value(value) for value in values))
    rows = tuple(c.name for c in node.schema if c.name not in bounds)
    filled = _filled(node, rows, (count_of_copies(filling.end),))
    return columns_of(repeated(filled, node.place), node.schema)


def _has_one_row(node: Node, filling: GapFilling) -> bool:
    """Return whether each key has at most one row in a window."""
    names: dict[str, str] = {
        name: name.lower() for name in (*filling.keys, filling.start, filling.end) if name
    }
    while isinstance(node, Project | Filter | SqlQuery):
        if isinstance(node, SqlQuery):
            selects = _plain_selects(node)
            if selects is None:
                return False
            for select in selects:
                names = _below(names, select.expressions)
        elif isinstance(node, Project):
            names = _below(names, [alias(item.expr, item.name) for item in node.items])
        node = node.inputs[0]
    attached = window_properties(node)
    match node:
        case StreamGapFill() | StreamVersionJoin():
            return False
        case GlobalWindowAggregate():
            groups = node.keys
        case Aggregate():
            groups = tuple(key.name for key in node.keys)
        case _:
            return False
    columns = set(names.values())
    return (
        attached is not None
        and identifies_window(attached, columns)
        and {name.lower() for name in groups if attached.role_of(name) is None} <= columns
    )


def _plain_selects(node: SqlQuery) -> list[exp.Select] | None:
    """Return the nested SELECTs of a query that keeps or drops each row of its only relation.

    From the outermost one. None for any other query.
    """
    selects = []
    query: exp.Expr = node.query
    while isinstance(query, exp.Select) and has_only(query, PLAIN_SELECT):
        source = lone_source(query)
        items = query.expressions
        if source is None or source.alias_column_names or any(i.find(exp.UDTF) for i in items):
            return None
        if any(map(makes_rows, items)):
            return None
        selects.append(query)
        if isinstance(source, exp.Table):
            return selects if source.name in dict(node.relations) else None
        query = source.unnest()
    return None


def _below(names: Mapping[str, str], items: Sequence[exp.Expr]) -> dict[str, str]:
    """Return the columns below a select list, by the same names as the columns above it.

    Args:
        names: Columns above, by name. Expressions are left out of the result.
        items: Select list.
    """
    has_star = any(is_whole_star(item) for item in items)
    of_items = {item_name(item).lower(): bare_column(item.unalias()) for item in items}
    below: dict[str, str] = {}
    for own, name in names.items():
        column_below = of_items.get(name, name if has_star else None)
        if column_below is not None:
            below[own] = column_below.lower()
    return below


def _filled(node: GapFill, keys: tuple[str, ...], calls: tuple[AggregateCall, ...]) -> Node:
    """Return the aggregation that adds the windows.

    Args:
        node: Rows to fill.
        keys: Group keys.
        calls: Calls that return the other columns.
    """
    filling = node.filling
    time = Column(_TIME, "timestamp_ntz", False)
    timed = with_column(node.input, time, last_time_before(filling.end))
    roles = {filling.start: "start", filling.end: "end"}
    window_keys = tuple(WindowKey(c.name, roles[c.name]) for c in node.schema if c.name in roles)
    names = {c.name for c in node.schema}
    added = tuple(Column(call.name, call.type, False) for call in calls if call.name not in names)
    one_phase = OnePhaseWindowAggregate(
        (*node.schema, *added),
        timed,
        filling.window.tiling,
        _TIME,
        "timestamp_ntz",
        tuple(NamedExpr(key, column(key)) for key in keys),
        window_keys,
        calls,
        place=node.place,
    )
    plans = share_partials(tuple(map(plan_aggregate, calls)))
    fillers = dict(filling.fillers)
    of_partials = tuple(
        (name, fillers.get(plan.call.name, _ONE_COPY))
        for plan in plans
        for part in plan.accumulators
        for name in part.columns
    )
    of_keys = tuple((key, fillers[key]) for key in keys if key in fillers)
    on_partials = replace(filling, start=None, end=SLICE_END, fillers=(*of_keys, *of_partials))
    merged = partial(StreamGapFill, filling=on_partials, fill=node.texts)
    return two_phases(one_phase, keys, plans, filling.keys, merged)


def _only_value(value: Column) -> AggregateCall:
    """Return the call that returns the only value of a column."""
    call = function_call("MAX", column(value.name))
    return AggregateCall(value.name, "MAX", call, (column(value.name),), to_sql(call), value.type)
