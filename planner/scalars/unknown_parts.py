"""The part of a query that `output_schema` leaves to Spark, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from planner.catalog import Schema
from planner.scalars.functions import FUNCTIONS
from planner.scalars.inference import ONLY_SPARK, ColumnScope, UnknownPart, is_aggregate
from planner.scalars.output_schema import require_schema
from planner.sql.build import to_sql
from planner.sql.nodes import WRITTEN, KeywordCall
from runtime.refusal import Refusal, Refused, tried

_LONGEST_QUOTE = 60
_ONLY = "only Spark knows"
_SUFFIX = " is not supported by the scan"
# Words for a clause, and the keyword with which it starts
_CLAUSES: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Cluster: ("CLUSTER BY", "CLUSTER BY"),
    exp.Cube: ("CUBE", "CUBE("),
    exp.Distribute: ("DISTRIBUTE BY", "DISTRIBUTE BY"),
    exp.Except: ("EXCEPT", "EXCEPT"),
    exp.Group: ("CUBE and ROLLUP", "GROUP BY"),
    exp.Intersect: ("INTERSECT", "INTERSECT"),
    exp.Lateral: ("LATERAL VIEW", "LATERAL"),
    exp.Rollup: ("ROLLUP", "ROLLUP("),
    exp.Sort: ("SORT BY", "SORT BY"),
    exp.Union: ("UNION without ALL or of different types", "UNION"),
}
# Parts around expressions, and words within expressions
_AROUND = (exp.Distinct, exp.Filter, exp.If, exp.Order, exp.Ordered, exp.Where)
_WORDS = (exp.DataType, exp.Identifier, exp.Interval, exp.Lambda, exp.Star, exp.Var, exp.WindowSpec)
# Parts between a function and its OVER
_WRAPPERS = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)


@dataclass(frozen=True)
class UnknownText:
    """What only Spark knows about a query.

    Attributes:
        reason: The reason, with the name of the part.
        parts: Spellings of the part, the query as written has one of them.
    """

    reason: str
    parts: tuple[str, ...]


def unknown_text(query: exp.Expr, relations: Mapping[str, Schema]) -> UnknownText | None:
    """Return why `output_schema` knows no columns. None if it does, or no part is the reason.

    Args:
        query: Spark SQL.
        relations: Columns of its tables by lower-case name.
    """
    try:
        require_schema(query, relations)
    except UnknownPart as unknown:
        part = unknown.part
        if unknown.scope is None:
            return _in_words(part, unknown.refusal)
        part = _smallest(part, unknown.scope)
        refusal = tried(unknown.scope.value, part)
        return _in_words(part, refusal if isinstance(refusal, Refusal) else unknown.refusal)
    except Refused:
        return None
    return None


def _smallest(part: exp.Expr, scope: ColumnScope) -> exp.Expr:
    """Return the smallest refused part of a refused expression."""
    if isinstance(part, exp.Query):
        return part
    for operand in _operands(part):
        if isinstance(tried(scope.value, operand), Refusal):
            return _smallest(operand, scope)
    return part


def _operands(part: exp.Expr) -> Iterator[exp.Expr]:
    operands = [*part.iter_expressions()]
    if isinstance(part, exp.Window):
        call = part.this
        while isinstance(call, _WRAPPERS):
            call = call.this
        operands = [*call.iter_expressions(), *(o for o in operands if o is not part.this)]
    for operand in operands:
        if isinstance(operand, _AROUND):
            yield from _operands(operand)
        elif not isinstance(operand, (*_AROUND, *_WORDS)):
            yield operand


def _in_words(part: exp.Expr, refusal: Refusal) -> UnknownText:
    for outer in (part, *_ancestors(part)):
        written = outer.meta.get(WRITTEN)
        if written is not None and to_sql(part).lower() not in written.lower():
            # the query has another call, which was rewritten
            name = written.partition("(")[0]
            return UnknownText(f"{_ONLY} the type of {_shortened(written)}", (written, f"{name}("))
    text = " ".join(to_sql(part).split())
    shown = _shortened(text)
    call = part.this if isinstance(part, exp.Window) else part
    is_call = isinstance(call, exp.Anonymous | KeywordCall)
    name = call.name.upper() if is_call else ""
    parts = (text, f"{name}(") if is_call else (text,)
    if refusal.reason != ONLY_SPARK:
        subject = refusal.reason.removesuffix(_SUFFIX)
        is_short = subject == refusal.reason
        return UnknownText(subject if is_short else f"{_ONLY} {subject}", parts)
    if isinstance(part, exp.Window):
        return UnknownText(f"{_ONLY} {shown}", parts)
    if isinstance(part, exp.Join):
        words = " ".join([*filter(None, (part.method, part.side, part.kind)), "JOIN"])
        return UnknownText(f"{_ONLY} this {words}", (f"{words} {to_sql(part.this)}", words))
    if type(part) in _CLAUSES:
        words, keyword = _CLAUSES[type(part)]
        return UnknownText(f"{_ONLY} {words}", (keyword,))
    if isinstance(part, exp.Query):
        return UnknownText(f"{_ONLY} subqueries in expressions", parts)
    if is_call and name not in FUNCTIONS and not is_aggregate(part):
        return UnknownText(f"{_ONLY} the function {name}", parts)
    return UnknownText(f"{_ONLY} the type of {shown}", parts)


def _ancestors(part: exp.Expr) -> Iterator[exp.Expr]:
    while part.parent is not None:
        part = part.parent
        yield part


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_QUOTE else f"{text[: _LONGEST_QUOTE - 3]}..."
