"""Sides of a join whose rows arrive one by one, and their times.

Shared by joins of two streams within an interval and temporal joins with a stream of versions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from planner.binder.joins.sides import Side
from planner.binder.relations import Relations, Scope
from planner.catalog import Catalog
from planner.nodes.joins import WindowJoin
from planner.nodes.logical import RangeRows, VersionJoin, WindowAggregate, WindowTableFunction
from planner.sql.build import select_all_from
from planner.sql.nodes import span_of
from planner.sql.parts import has_other_parts
from planner.streams.refusals import BATCH, StreamRefusal
from planner.streams.time_columns import check_time
from runtime.shown_types import shown_type
from runtime.spec.table import Column

# Clauses of a SELECT that may follow its joins and read their rows
EXTRAS = ("laterals", "match", "pivots", "sample")
# Returns an error with a message and a hint
Refuse = Callable[[str, str], StreamRefusal]

_WINDOWED = (WindowTableFunction, RangeRows, WindowAggregate, WindowJoin, VersionJoin)
# Time zones without clock changes, in lower case
_FIXED_ZONES = ("utc", "etc/", "gmt", "z", "+", "-", "zulu", "uct", "universal")


@dataclass(frozen=True)
class JoinWords:
    """Words for a kind of join in error messages.

    Attributes:
        join: Name of the join, at the beginning of a message.
        by_instants: The join by columns of type TIMESTAMP_LTZ.
        by: Words before the time column.
        never: What happens without a watermark.
        use: What to do with the columns of the watermarks.
    """

    join: str
    by_instants: str
    by: str
    never: str
    use: str


def refuser(place: exp.Expr, sql: str) -> Refuse:
    """Return a function that returns errors at a place of the statement."""

    def refuse(message: str, hint: str) -> StreamRefusal:
        return StreamRefusal(message, f"{hint}; {BATCH}", span_of(place)).place_in(sql)

    return refuse


def is_plain_relation(source: exp.Expr) -> bool:
    """Return whether a relation is a table or a subquery with a name and with its own columns."""
    if source.alias_column_names or has_other_parts(source) or not source.alias_or_name:
        return False
    return isinstance(source, exp.Table | exp.Subquery)


def side_of_rows(source: exp.Expr, relations: Relations, scope: Scope) -> Side | None:
    """Return a relation whose rows arrive one by one, or None for any other.

    Raises:
        AnalysisError: A relation or a column is unknown.
    """
    if not is_plain_relation(source):
        return None
    node = relations.node_of(select_all_from(source.copy()), scope)
    names = {c.name.lower() for c in node.schema}
    has_windows = any(any(node.find_all(kind)) for kind in _WINDOWED)
    if has_windows or len(names) < len(node.schema):
        return None
    return Side(node, source.alias_or_name)


def check_times(
    sides: tuple[Side, Side],
    times: tuple[Column, Column],
    catalog: Catalog,
    time_zone: str,
    refuse: Refuse,
    words: JoinWords,
) -> None:
    """Refuse times that no watermark follows, or that are not ordered like the watermark.

    Raises:
        StreamRefusal: The join cannot use the times.
    """
    if times[0].type != times[1].type:
        compared = " with ".join(f"`{time.name}` of type {shown_type(time.type)}" for time in times)
        raise refuse(
            f"{words.join} compares {compared}",
            "declare both columns as TIMESTAMP or both as TIMESTAMP_LTZ",
        )
    if times[0].type == "timestamp" and not time_zone.lower().startswith(_FIXED_ZONES):
        raise refuse(
            f"{words.by_instants} is not supported in {time_zone}, where clocks change",
            "SET 'table.local-time-zone' = 'UTC', or declare the columns as TIMESTAMP",
        )
    for side, time in zip(sides, times, strict=True):
        try:
            check_time(side.node, time.name, catalog)
        except StreamRefusal as refusal:
            no_watermark = "windows over it would never close"
            if no_watermark in refusal.message:
                reason = refusal.message.replace(no_watermark, "the join would never emit its rows")
                mark = f"WATERMARK FOR {time.name} AS {time.name} - INTERVAL '5' SECOND"
                raise refuse(reason, f"add {mark} to it") from refusal
            reason = refusal.message.replace("windows on", words.by)
            raise refuse(reason.replace("never close", words.never), words.use) from refusal
