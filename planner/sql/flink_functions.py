"""Translation of Flink functions that Spark lacks or names differently."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.sql.build import case_when, cast_as, function_call, literal, replace_call
from planner.sql.constants import constant_integer
from planner.sql.json_functions.rewrite import json_string, rewrite_json_call, split_index
from planner.sql.nodes import KeywordCall, error_at
from planner.sql.parts import own_clauses, own_nodes
from planner.sql.wall_clocks import EPOCH_PRECISIONS, floor_clock, from_epoch, midnight_of
from runtime.shown_types import shown_type

_RENAMED = {
    # In batch there is a single processing time, the start of the query.
    "PROCTIME": "CURRENT_TIMESTAMP",
    "CURRENT_ROW_TIMESTAMP": "CURRENT_TIMESTAMP",
    "WEEK": "WEEKOFYEAR",
}

# Functions that Flink calls without parentheses and Spark would read as columns. LOCALTIME is not
# included, because it is a plausible column name.
_KEYWORDS = frozenset({"LOCALTIMESTAMP"})


# Functions without arguments that return the current time, which is an instant
_CURRENT_TIME = ("CURRENT_TIMESTAMP", "PROCTIME", "NOW", "CURRENT_ROW_TIMESTAMP")

# In `meta` of a NULL that replaces CURRENT_WATERMARK
_WATERMARK = "current_watermark"


def is_current_time(expr: exp.Expr) -> bool:
    """Return whether an expression is a call that returns the current time."""
    is_call = isinstance(expr, exp.Anonymous) and not expr.expressions
    return (is_call and expr.name.upper() in _CURRENT_TIME) or isinstance(
        expr, exp.CurrentTimestamp
    )


def current_watermarks(query: exp.Expr) -> list[tuple[exp.Case, exp.Expr]]:
    """Return the NULLs that replaced calls of CURRENT_WATERMARK, and the calls' arguments.

    `rewrite_functions` replaces the calls. On a stream they become the watermark.
    """
    cases = [case for case in query.find_all(exp.Case) if _WATERMARK in case.meta]
    return [(case, case.args["ifs"][0].args["true"]) for case in cases]


def with_current_watermarks(query: exp.Query) -> exp.Query:
    """Return the query with its original CURRENT_WATERMARK calls, for EXPLAIN."""
    if not current_watermarks(query):
        return query
    shown = query.copy()
    for case, argument in current_watermarks(shown):
        case.replace(function_call("CURRENT_WATERMARK", argument))
    return shown


def rewrite_functions(tree: exp.Expr, *, keep: frozenset[str] = frozenset()) -> bool:
    """Replace Flink functions by Spark's, in place; return whether there were any.

    Args:
        tree: A query or an expression. If the root is such a call, it must have a parent.
        keep: Upper-case names of functions to leave unchanged.
    """
    changed = False
    # Inner calls first, because arguments are copied.
    for call in reversed(list(tree.find_all(exp.Anonymous, exp.Column, KeywordCall))):
        name = call.name.upper()
        new: exp.Expr | None = None
        if isinstance(call, exp.Column):
            is_plain = isinstance(call.this, exp.Identifier) and not call.this.quoted
            if is_plain and not call.table and name in _KEYWORDS:
                new = exp.Anonymous(this=name)
        elif isinstance(call, exp.Anonymous) and name not in keep:
            new = _rewrite(name, call)
        elif isinstance(call, KeywordCall) and not _is_part_of_json(call):
            new = rewrite_json_call(call)
        if new is not None:
            changed = True
            new.meta.update(call.meta)
            replace_call(call, new)
    return changed


def _is_part_of_json(call: KeywordCall) -> bool:
    """Return whether a call is a JSON_OBJECT that becomes an object within other JSON."""
    outer = call.parent
    is_object = call.name.upper() == "JSON_OBJECT"
    return (
        is_object
        and isinstance(outer, KeywordCall | exp.Anonymous)
        and (outer.name.upper() in ("JSON_OBJECT", "JSON_STRING"))
    )


def _rewrite(name: str, call: exp.Anonymous) -> exp.Expr | None:
    args = call.expressions
    if name in _RENAMED and len(args) == (1 if name == "WEEK" else 0):
        return function_call(_RENAMED[name], *args)
    if name == "LISTAGG" and len(args) == 1 and not isinstance(call.parent, exp.WithinGroup):
        # Spark puts no separator between the texts.
        texts = args[0].copy()
        if isinstance(texts, exp.Distinct):
            if len(texts.expressions) > 1:
                return None
            texts.append("expressions", literal(","))
            return function_call(call.this, texts)
        return function_call(call.this, texts, literal(","))
    if name == "TO_TIMESTAMP_LTZ" and len(args) == 2:
        precision = constant_integer(args[1])
        if precision in EPOCH_PRECISIONS:
            return from_epoch(args[0], precision)
    if name == "JSON_STRING" and len(args) == 1:
        return json_string(args[0])
    if name == "SPLIT_INDEX":
        return split_index(call)
    if name == "CONVERT_TZ" and len(args) == 3:
        value, source, target = args
        local = function_call("TO_TIMESTAMP_NTZ", value)
        moved = function_call("CONVERT_TIMEZONE", source, target, local)
        return function_call("DATE_FORMAT", moved, literal("yyyy-MM-dd HH:mm:ss"))
    if name == "CURRENT_WATERMARK" and len(args) == 1:
        # A batch has no watermark. The column supplies the type.
        never = exp.If(this=exp.false(), true=args[0].copy())
        case = exp.Case(ifs=[never])
        case.meta[_WATERMARK] = True
        return case
    return None


# -- FLOOR and CEIL of times ---------------------------------------------------------------------

_DATE_UNITS = {"WEEK": "", "MONTH": "MM", "QUARTER": "QUARTER", "YEAR": "YEAR"}
_TIME_UNITS = ("SECOND", "MINUTE", "HOUR", "DAY")


def time_rounding_calls(select: exp.Select) -> list[KeywordCall]:
    """Return the calls of `FLOOR(ts TO HOUR)` and `CEIL(ts TO HOUR)` outside subqueries."""
    return [
        node
        for node in own_nodes(own_clauses(select))
        if isinstance(node, KeywordCall)
        and node.name.upper() in ("FLOOR", "CEIL", "CEILING")
        and node.args["words"][1:] == ["TO"]
    ]


def round_time(call: KeywordCall, type_: str, sql: str) -> None:
    """Replace, in place, a call from `time_rounding_calls` by Spark SQL.

    A TIMESTAMP without a zone is rounded on its own wall clock, an instant on the wall clock of the
    session's time zone.

    Args:
        call: The call.
        type_: Spark type of the argument.
        sql: Text of the statement, for errors.

    Raises:
        AnalysisError: The unit does not exist or does not apply to a DATE.
    """
    value, unit_node = call.expressions
    unit = unit_node.name.upper()
    if unit not in (*_TIME_UNITS, *_DATE_UNITS) or (type_ == "date" and unit in _TIME_UNITS[:3]):
        hint = "available units: SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, QUARTER, YEAR"
        message = f"{call.name.upper()} cannot round {shown_type(type_)} to {unit}"
        raise error_at(sql, message, call, hint=hint)
    floor = _FLOORS.get(type_, _floor_instant)(value, unit)
    new: exp.Expr = floor
    if call.name.upper() != "FLOOR":
        same = exp.EQ(this=exp.Paren(this=value.copy()), expression=floor)
        next_ = function_call("TIMESTAMPADD", exp.Var(this=unit), literal(1), floor)
        if type_ == "date":
            next_ = cast_as(next_, "date")
        new = case_when(same, floor.copy(), next_)
    replace_call(call, new)


def _floor_instant(value: exp.Expr, unit: str) -> exp.Expr:
    if unit == "WEEK":
        # Spark's weeks begin on Monday.
        return _days(-1, function_call("DATE_TRUNC", literal(unit), _days(1, value)))
    return function_call("DATE_TRUNC", literal(unit), value)


def _days(number: int, value: exp.Expr) -> exp.Expr:
    return function_call("TIMESTAMPADD", exp.Var(this="DAY"), exp.Var(this=str(number)), value)


def _floor_date(value: exp.Expr, unit: str) -> exp.Expr:
    if unit == "DAY":
        return value.copy()
    if unit == "WEEK":
        # Flink's weeks begin on Sunday (org.apache.flink.table.utils.DateTimeUtils).
        since = exp.Sub(this=function_call("DAYOFWEEK", value), expression=literal(1))
        return function_call("DATE_SUB", value, since)
    return function_call("TRUNC", value, literal(_DATE_UNITS[unit]))


def _floor_wall_clock(value: exp.Expr, unit: str) -> exp.Expr:
    if unit in ("SECOND", "MINUTE", "HOUR", "DAY"):
        return floor_clock(value, unit)
    date: exp.Expr = cast_as(value.copy(), "date")
    return midnight_of(_floor_date(date, unit))


_FLOORS: dict[str, Callable[[exp.Expr, str], exp.Expr]] = {
    "timestamp_ntz": _floor_wall_clock,
    "date": _floor_date,
}
