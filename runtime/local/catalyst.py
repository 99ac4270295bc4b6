"""The local stage in Catalyst: rows of any DataFrame to partials of slices.

Spark's generated code groups by key and slice end, which is much faster than passing rows to
Python. Only its result, one row per key and slice, goes on.
"""

from __future__ import annotations

from runtime.frames.wall_clock import wall_clock_us_sql
from runtime.names import quote_name
from runtime.plan.local import CatalystStep, SqlPartial
from runtime.windows.times import FIRST_TIME, LAST_TIME


def local_aggregate_sql(step: CatalystStep, source: str) -> str:
    """Return Spark SQL that aggregates the relation `source` into partials."""
    time_us = wall_clock_us_sql(step.time_column, step.time_type)
    slice_end = step.window.cells.assigner().slice_end_sql(quote_name("$time_us"))
    sliced = (
        f"SELECT *, {slice_end} AS {quote_name(step.slice_end)} FROM "
        f"(SELECT *, {time_us} AS {quote_name('$time_us')} FROM {source} "
        f"WHERE {quote_name(step.time_column)} IS NOT NULL)"
    )
    read = dict(step.source.keys)
    keys = [f"{read[name]} AS {quote_name(name)}" for name in step.keys]
    partials = [f"{partial.sql} AS {quote_name(partial.name)}" for partial in step.mode.partials]
    times = []
    if not step.window.has_slices:
        time = quote_name("$time_us")
        hidden = step.window.row_length
        last = time if hidden is None else f"{time} + {read[hidden]}"
        partials += [
            f"MIN({time}) AS {quote_name(FIRST_TIME)}",
            f"MAX({last}) AS {quote_name(LAST_TIME)}",
        ]
        times = [quote_name(FIRST_TIME), quote_name(LAST_TIME)]
    groups = ", ".join([read[name] for name in step.keys] + [quote_name(step.slice_end)])
    grouped = (
        f"SELECT {', '.join([*keys, quote_name(step.slice_end), *partials])} FROM ({sliced}) "
        f"GROUP BY {groups}"
    )
    if not any(partial.fields for partial in step.mode.partials):
        return grouped
    columns = [quote_name(name) for name in step.keys] + [quote_name(step.slice_end)]
    columns += [column for partial in step.mode.partials for column in _flat(partial)]
    columns += times
    return f"SELECT {', '.join(columns)} FROM ({grouped})"


def _flat(partial: SqlPartial) -> list[str]:
    """Return a partial's columns, with the fields of a struct (o, v) as separate columns."""
    if not partial.fields:
        return [quote_name(partial.name)]
    order, value = partial.fields
    struct = quote_name(partial.name)
    return [f"{struct}.o AS {quote_name(order)}", f"{struct}.v AS {quote_name(value)}"]
