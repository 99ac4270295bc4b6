"""Rows in RANGES on a stream, which wait until the watermark passes the end of their range.

They wait in the last microsecond before the end, a window like any other. All window columns are
group keys, so ranges with the same end stay apart. The end on the wall clock determines the
microsecond, so rows with equal `window_end` are emitted together.
"""

from __future__ import annotations

from sqlglot import exp

from planner.catalog import Catalog
from planner.nodes.logical import (
    Aggregate,
    Node,
    RangeRows,
    WindowAggregate,
    with_column,
)
from planner.nodes.window_columns import window_properties
from planner.sql.build import cast_as, column, seconds
from planner.streams.tables import arrives_at_once
from runtime.spec.table import Column

_LAST = "$range_time"
_HOUR = exp.Interval(this=exp.Literal.string("1"), unit=exp.var("HOUR"))


def ranges_of_rows(node: Node, catalog: Catalog) -> RangeRows | None:
    """Return the ranges of rows that arrive one by one. None if they carry none, or no end."""
    attached = window_properties(node)
    if attached is None or attached.end is None or arrives_at_once(node, catalog):
        return None
    return next((r for r in node.find_all(RangeRows) if r.window == attached.spec), None)


def aggregate_at_end(groups: Aggregate, ranges: RangeRows) -> WindowAggregate:
    """Return groups of rows in ranges, emitted when their ranges end.

    Args:
        groups: The groups. Their keys determine the end of the range.
        ranges: Ranges of the rows, see `ranges_of_rows`.
    """
    node = groups.input
    attached = window_properties(node)
    assert attached is not None and attached.end is not None, "they carry ranges"
    end: exp.Expr = column(attached.end)
    if ranges.time_type != "timestamp_ntz":
        # Of two instants with this time on the wall clock, the later one. Clocks that go back
        # repeat at most an hour.
        later = cast_as(exp.Add(this=end, expression=_HOUR.copy()), ranges.time_type)
        end = exp.Sub(this=later, expression=_HOUR.copy())
    last = exp.Sub(this=end, expression=seconds("0.000001"))
    timed = with_column(node, Column(_LAST, ranges.time_type), last)
    return WindowAggregate(
        groups.schema,
        timed,
        ranges.window,
        _LAST,
        ranges.time_type,
        groups.keys,
        (),
        groups.calls,
        place=ranges.place,
        time_place=ranges.time_place,
    )
