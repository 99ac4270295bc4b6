"""Fill gaps of a stream with a window operator over the windows."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from planner.aggregates.functions import plan_aggregate
from planner.aggregates.phases import SLICE_END, two_phases
from planner.aggregates.shared_partials import share_partials
from planner.nodes.logical import AggregateCall, GapFill, NamedExpr, Node, Project, WindowKey
from planner.nodes.physical import OnePhaseWindowAggregate
from planner.optimizer import Options, Refusal
from planner.sql.build import column, function_call, is_flat_type, to_sql
from planner.streams.tables import streams_of
from runtime.spec.table import Column
from runtime.spec.windows import (
    CalendarCumulate,
    CalendarHop,
    CalendarTumble,
    Cumulate,
    Hop,
    Tumble,
    Window,
)

_TIME = "$time"


def fill_gaps_of_stream(node: Node, options: Options) -> Node | Refusal | None:
    """Add windows without rows in an operator that keeps the last row of each key.

    Fires on a GapFill over a stream whose values are of flat types. The windows become the rows of
    windows that end where they do and are one after another, so that each holds one row of a key.

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
    filling = node.filling
    values = [c for c in node.schema if c.name not in (*filling.keys, filling.start, filling.end)]
    for value in values:
        if not is_flat_type(value.type):
            return Refusal(f"{value.name} is {value.type}, which the exchange does not support")
    end = column(filling.end)
    last_ms = exp.Interval(this=exp.Literal.string("0.001"), unit=exp.var("SECOND"))
    items = [NamedExpr(c.name, column(c.name)) for c in node.input.schema]
    items.append(NamedExpr(_TIME, exp.Sub(this=end, expression=last_ms)))
    time = Column(_TIME, "timestamp_ntz", False)
    timed = Project((*node.input.schema, time), node.input, tuple(items))
    calls = tuple(_only_value(value) for value in values)
    roles = {filling.start: "start", filling.end: "end"}
    window_keys = tuple(WindowKey(c.name, roles[c.name]) for c in node.schema if c.name in roles)
    one_phase = OnePhaseWindowAggregate(
        node.schema,
        timed,
        _grid(filling.window),
        _TIME,
        "timestamp_ntz",
        tuple(NamedExpr(key, column(key)) for key in filling.keys),
        window_keys,
        calls,
        place=node.place,
    )
    plans = share_partials(tuple(map(plan_aggregate, calls)))
    fillers = dict(filling.fillers)
    of_partials = tuple(
        (name, fillers[plan.call.name])
        for plan in plans
        for part in plan.accumulators
        for name in part.columns
    )
    on_partials = replace(filling, start=None, end=SLICE_END, fillers=of_partials)
    return two_phases(one_phase, filling.keys, plans, on_partials, node.texts)


def _only_value(value: Column) -> AggregateCall:
    """Return the call that returns the only value of a column."""
    call = function_call("MAX", column(value.name))
    return AggregateCall(value.name, "MAX", call, (column(value.name),), to_sql(call), value.type)


def _grid(window: Window) -> Window:
    """Return windows one after another that end where the given ones do."""
    match window:
        case Hop(slide, size, offset):
            return Tumble(slide, (offset + size) % slide)
        case Cumulate(step, _, offset):
            return Tumble(step, offset % step)
        case CalendarHop(slide, size, offset, offset_us):
            return CalendarTumble(slide, (offset + size) % slide, offset_us)
        case CalendarCumulate(step_months=step, offset_months=offset, offset_us=offset_us):
            return CalendarTumble(step, offset % step, offset_us)
    return window
