"""Bind Top-N and deduplication over all rows of a stream: ROW_NUMBER without a window.

The first row of each key by the time of the watermark is final once the watermark has passed it. It
waits in short windows and is emitted once, so that windows can follow. Other first rows change, and
so do first rows of results that change and of tables given by their changes.
"""

from __future__ import annotations

from sqlglot import exp

from planner.binder.all_time.groups import in_all_time
from planner.binder.changes.net_rows import net_rows
from planner.catalog import Catalog, column_named
from planner.nodes.logical import (
    Node,
    WindowColumns,
    WindowRank,
    columns_of,
    in_windows,
)
from planner.nodes.window_columns import window_properties
from planner.sql.nodes import TextSpan
from planner.streams.tables import streams_of
from planner.streams.time_columns import is_event_time
from runtime.spec.table import Column
from runtime.windows.tumble import Tumble

# How long a row may wait after the watermark has passed it
_WAIT = Tumble(1_000_000)
_COLUMNS = WindowColumns("$first_start", "$first_end", "$first_time")
# Time zones without clock changes, in lower case
_FIXED_ZONES = ("utc", "etc/", "gmt", "z", "+", "-", "zulu", "uct", "universal")


def rank_over_all_time(
    rows: Node,
    changes: Node | None,
    function: str,
    ranks: tuple[int, int],
    partition: tuple[str, ...],
    order: tuple[exp.Ordered, ...],
    rank: str,
    catalog: Catalog,
    time_zone: str,
    place: TextSpan | None,
    ttl_us: int | None,
) -> Node | None:
    """Return the first rows of each key, with their ranks as the last column.

    Args:
        rows: Rows without windows.
        changes: Their changes, see `signed_rows`. None if they stay.
        function: ROW_NUMBER, RANK or DENSE_RANK.
        ranks: First and last rank to keep.
        partition: Columns of PARTITION BY.
        order: Ordering over the columns of the rows.
        rank: Name of the rank.
        catalog: Catalog that identifies streams and their watermarks.
        time_zone: The session's time zone.
        place: Source position of the function.
        ttl_us: Time-to-live of the state of keys. None: forever.

    Returns:
        The node. None if the rows are not of a stream.
    """
    if not streams_of(rows, catalog):
        return None
    time = None
    if changes is None and (function, ranks, len(order)) == ("ROW_NUMBER", (1, 1), 1):
        (ordered,) = order
        if not ordered.args.get("desc") and is_event_time(rows, ordered.this.name, catalog):
            time = column_named(rows.schema, ordered.this.name)
    if time is not None and (
        time.type != "timestamp" or time_zone.lower().startswith(_FIXED_ZONES)
    ):
        windowed: Node = in_windows(rows, _WAIT, time, _COLUMNS, place)
    elif changes is None:
        windowed = in_all_time(rows, place, ttl_us)
    else:
        windowed = net_rows(in_all_time(changes, place, ttl_us), place)
    attached = window_properties(windowed)
    assert attached is not None, "its rows have windows"
    column = Column(rank, "int", False)
    schema = (*windowed.schema, column)
    ranked = WindowRank(
        schema,
        windowed,
        attached,
        function,
        *ranks,
        (),
        partition,
        order,
        rank,
        place=place,
        ttl_us=ttl_us,
    )
    return columns_of(ranked, (*rows.schema, column))
