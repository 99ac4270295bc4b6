"""Flink's hint STATE_TTL: `SELECT /*+ STATE_TTL('orders' = '1d') */ ...`."""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp

from planner.sql.nodes import STATE_TTL, WindowFunctionCall, span_of
from planner.sql.parts import sources_of
from runtime.errors import AnalysisError, Position, nearest
from runtime.options.checks import duration_us
from sqlwin.parser.base import TokenParser

# In `meta` of a hint: the offset of its text in the statement
HINT_START = "hint_start"

_EXAMPLE = "for example /*+ STATE_TTL('orders' = '1 d') */"


def read_state_ttl(select: exp.Select, hint: exp.Hint, parser: TokenParser) -> None:
    """Record the time-to-live in `meta` of a SELECT with a hint, if it has one.

    If the hint names several tables, the longest time counts.

    Raises:
        AnalysisError: The hint names a table that the SELECT does not read, or no duration.
    """
    times = []
    for item in hint.expressions:
        if item.name.upper() != STATE_TTL.upper():
            continue
        if not item.expressions:
            _fail(parser, item, item, "STATE_TTL needs a table and a time", _EXAMPLE)
        for pair in item.expressions:
            times.append(_time_us(select, item, pair, parser))
    if times:
        select.meta[STATE_TTL] = 0 if 0 in times else max(times)


def _time_us(select: exp.Select, item: exp.Expr, pair: exp.Expr, parser: TokenParser) -> int:
    """Return the time for a table in a hint."""
    if not isinstance(pair, exp.EQ) or not all(
        isinstance(part, exp.Literal) and part.is_string for part in (pair.left, pair.right)
    ):
        _fail(parser, item, item, "STATE_TTL takes tables and times in quotes", _EXAMPLE)
    table, time = pair.left, pair.right
    names = _names(select)
    if table.name.lower() not in {name.lower() for name in names}:
        close = nearest(table.name, names)
        reads = ", ".join(names) or "no table with a name"
        problem = f"STATE_TTL names '{table.name}', but this SELECT reads {reads}"
        _fail(parser, item, table, problem, f"did you mean '{close}'?" if close else _EXAMPLE)
    ttl_us = duration_us(time.name)
    if ttl_us is None:
        problem = f"'{time.name}' in STATE_TTL is not a duration"
        _fail(parser, item, time, problem, "write for example '10 min' or '1 d'; '0 s' is forever")
    return ttl_us


def _names(select: exp.Select) -> list[str]:
    """Return the names and aliases of the relations that a SELECT reads."""
    names: dict[str, None] = {}
    for source in sources_of(select):
        is_named = isinstance(source, exp.Table | WindowFunctionCall)
        tables = source.find_all(exp.Table) if is_named else ()
        for name in (source.alias, *(name for table in tables for name in _table_names(table))):
            names.setdefault(name)
    return [name for name in names if name]


def _table_names(table: exp.Table) -> tuple[str, str]:
    """Return a table's name, and its name with catalog and database."""
    return table.name, ".".join(part.name for part in table.parts)


def _fail(parser: TokenParser, item: exp.Expr, part: exp.Expr, message: str, hint: str) -> NoReturn:
    """Raise an error at a part of a hint."""
    span, start = span_of(part), item.meta.get(HINT_START)
    place = None
    if span is not None and start is not None:
        length = span.end + 1 - span.start
        place = Position.at(parser.sql, start + span.start, length)
    raise AnalysisError(message, position=place, sql=parser.sql, hint=hint)
