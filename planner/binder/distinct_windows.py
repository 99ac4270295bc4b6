"""SELECT DISTINCT of windows is a grouping by all that is selected."""

from __future__ import annotations

from sqlglot import exp

from planner.aggregates.calls import aggregates_in
from planner.nodes.logical import AttachedWindow
from planner.nodes.windows import identifies_window

_OTHERS = (
    "group",
    "having",
    "qualify",
    "windows",
    "joins",
    "laterals",
    "pivots",
    "match",
    "sample",
)


def distinct_as_grouping(select: exp.Select, attached: AttachedWindow | None) -> exp.Select | None:
    """A SELECT DISTINCT of window columns as the window aggregation that it is.

    So its rows are aggregated in slices, and a stream puts them out when windows close, as in
    Flink, whose planner makes an aggregation of every DISTINCT.

    Args:
        select: the SELECT; it is not changed.
        attached: the windows of the rows, if they have any; what is selected must tell one from
            another.

    Returns:
        The same rows by GROUP BY; None if it is no such SELECT.
    """
    distinct = select.args.get("distinct")
    if attached is None or distinct is None or distinct.args.get("on"):
        return None
    if any(map(select.args.get, _OTHERS)) or select.find_ancestor(exp.In, exp.Exists):
        return None  # what is looked up in is no set of results, and may name columns from outside
    items = [item.unalias() for item in select.expressions]
    if not identifies_window(attached, [i.name for i in items if isinstance(i, exp.Column)]):
        return None
    if any(item.find(exp.Star, exp.Window, exp.Query) or aggregates_in(item) for item in items):
        return None
    grouped = select.copy()
    grouped.set("distinct", None)
    # a constant tells no rows apart, and a number would name an item by its place
    keys = [item.copy() for item in items if item.find(exp.Column)]
    grouped.set("group", exp.Group(expressions=keys))
    return grouped
