"""Merge an aggregate and the window table function below it into one window aggregate."""

from __future__ import annotations

from planner.nodes.logical import (
    Aggregate,
    Filter,
    NamedExpr,
    Node,
    RangeRows,
    WindowAggregate,
    WindowKey,
    WindowTableFunction,
    is_identified,
)
from planner.nodes.window_columns import identifies_window, window_properties
from planner.optimizer import Options
from planner.sql.build import bare_column, column_names, to_sql
from planner.streams.ranges import aggregate_at_end, ranges_of_rows
from runtime.refusal import Refusal


def fold_window_into_aggregate(node: Node, options: Options) -> Node | Refusal | None:
    """Compute windows inside the aggregate instead of copying each row into its windows.

    Fires on an aggregate directly above a window table function, unless

    - the keys do not identify a window: `window_end` and `window_time` do, `window_start` does
      except for CUMULATE;
    - SESSION is partitioned by a column that is not a group key: equal sessions of several
      partitions would form one group;
    - a key, or an aggregate's argument or FILTER, reads a window column: inside the aggregate a row
      knows its slice, not its windows;
    - a condition in between reads both row and window columns.

    On a stream, an aggregate of rows in RANGES becomes one that emits each range when it ends. The
    window columns stay keys, and one must determine the end.

    Modelled on Flink's PullUpWindowTableFunctionIntoWindowAggregateRule.

    Example:
        >>> before_after(
        ...     "fold_window_into_aggregate",
        ...     "SELECT city, window_end, COUNT(*) AS n "
        ...     "FROM TABLE(TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
        ...     "GROUP BY city, window_start, window_end",
        ... )
        before:
        LogicalAggregate(groupBy=[city, window_start, window_end], select=[COUNT(*) AS n])
        +- LogicalTableFunctionScan(window=[TUMBLE(time_col=[ts], size=[1 h])])
           +- LogicalTableScan(table=[trips])
        after:
        LogicalWindowAggregate(groupBy=[city], window=[TUMBLE(time_col=[ts], size=[1 h])],
          select=[COUNT(*) AS n, start('w$) AS window_start, end('w$) AS window_end])
        +- LogicalTableScan(table=[trips])
    """
    if not isinstance(node, Aggregate):
        return None
    ranges = ranges_of_rows(node.input, options.catalog)
    if ranges is not None:
        return _fold_ranges(node, ranges)
    if isinstance(node.input, Filter) and isinstance(node.input.input, WindowTableFunction):
        text = ", ".join(to_sql(conjunct) for conjunct in node.input.conjuncts)
        return Refusal(f"{text} filters single rows by their windows")
    if not isinstance(node.input, WindowTableFunction):
        return None
    windowed = node.input
    roles = [(key, windowed.columns.role_of(bare_column(key.expr) or "")) for key in node.keys]
    window_keys = tuple(WindowKey(key.name, role) for key, role in roles if role is not None)
    keys = tuple(key for key, role in roles if role is None)
    reason = _ambiguity_reason(window_keys, windowed) or _split_reason(keys, windowed)
    if reason is not None:
        return Refusal(reason)
    names = {c.name.lower() for c in windowed.schema[-3:]}
    for key in keys:
        if column_names(key.expr) & names:
            return Refusal(f"the key {to_sql(key.expr)} reads a window column")
    for call in node.calls:
        if column_names(call.expr) & names:
            return Refusal(f"{call.text} reads a window column")
    return WindowAggregate(
        node.schema,
        windowed.input,
        windowed.window,
        windowed.time_column,
        windowed.time_type,
        keys,
        window_keys,
        node.calls,
        place=windowed.place,
        time_place=windowed.time_place,
    )


def _fold_ranges(node: Aggregate, ranges: RangeRows) -> Node | Refusal:
    attached = window_properties(node.input)
    names = (bare_column(key.expr) for key in node.keys)
    if attached is None or not identifies_window(attached, filter(None, names)):
        end = ranges.columns.end
        return Refusal(f"no key determines the end of the range: add {end} to GROUP BY")
    return aggregate_at_end(node, ranges)


def _split_reason(keys: tuple[NamedExpr, ...], windowed: WindowTableFunction) -> str | None:
    """Return why groups would merge or split sessions, or None."""
    grouped = {key.name for key in keys if bare_column(key.expr)}
    for name in windowed.window.partition:
        if name not in grouped:
            return (
                f"the PARTITION BY column {name} of SESSION is not a group key, so "
                "sessions of several partitions are one group"
            )
    return None


def _ambiguity_reason(keys: tuple[WindowKey, ...], windowed: WindowTableFunction) -> str | None:
    """Return why the keys do not identify a window, or None."""
    if is_identified(windowed.window, {key.role for key in keys}):
        return None
    if not keys:
        return f"no window column is a group key: add {windowed.columns.end} to GROUP BY"
    return (
        f"{windowed.columns.start} alone does not identify a CUMULATE window: add "
        f"{windowed.columns.end} to GROUP BY"
    )
