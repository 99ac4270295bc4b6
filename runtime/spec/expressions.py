"""Scalar expressions that the Arrow scan evaluates itself, with Spark's meaning.

The planner builds them, typed, from the query; what it cannot express here stays with Catalyst.
Types are Spark's DDL spellings, such as `bigint` or `decimal(10,2)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal

Value = None | bool | int | float | str | bytes | Decimal


@dataclass(frozen=True)
class ColumnRef:
    """A column of the scanned file, or `column.field` of one that is a struct."""

    name: str
    type: str


@dataclass(frozen=True)
class Constant:
    """A literal. Dates are days, timestamps microseconds since 1970 (UTC for `timestamp`)."""

    value: Value
    type: str


@dataclass(frozen=True)
class Call:
    """A function of other expressions.

    `function` is one of: `+ - * / % div` (arithmetic; `/` is of doubles, `div` of bigints), `neg`,
    `= <> < <= > >= <=>`, `and`, `or` (of two or more), `not`, `is_null`, `in` (first argument
    against the constants that follow), `starts_with` (a constant prefix), `case` (condition,
    value, condition, value, ..., else), `coalesce`, `cast` (to `type`). Operands of arithmetic,
    of comparisons and of `in`, and the values of `case` and `coalesce` have one type: the planner
    puts the casts in that Spark would put in. `from_epoch` is the instant so many units after
    1970; its second argument is the unit in microseconds, BIGINT. `register` is the HyperLogLog
    register of the first argument with its rank, `register << 6 | rank`; the second is the
    precision.

    `text` is the SQL that the call stands for, for errors; calls that differ in it are equal.
    """

    function: str
    args: tuple[Expression, ...]
    type: str
    text: str = field(default="", compare=False, repr=False)


Expression = ColumnRef | Constant | Call

_INTEGERS = ("tinyint", "smallint", "int", "bigint")


def columns_of(expression: Expression) -> frozenset[str]:
    """Names of the columns that an expression reads."""
    return frozenset(ref.name for ref in column_refs(expression))


def column_refs(expression: Expression) -> frozenset[ColumnRef]:
    """The columns that an expression reads."""
    return frozenset(part for part in _parts(expression) if isinstance(part, ColumnRef))


def terms_of(condition: Expression) -> Iterator[Expression]:
    """The parts of a condition that are joined by AND."""
    if isinstance(condition, Call) and condition.function == "and":
        for arg in condition.args:
            yield from terms_of(arg)
    else:
        yield condition


def can_fail(expression: Expression) -> bool:
    """Whether there are rows for which the expression is an error: overflow, division by zero.

    One that cannot fail may be evaluated for rows that do not need it.
    """
    return any(_fails_by_itself(part) for part in _parts(expression) if isinstance(part, Call))


def _parts(expression: Expression) -> Iterator[Expression]:
    pending: list[Expression] = [expression]
    while pending:
        part = pending.pop()
        yield part
        if isinstance(part, Call):
            pending += part.args


def _fails_by_itself(call: Call) -> bool:
    match call.function:
        case "+" | "-" | "*" | "neg":
            return call.type in _INTEGERS
        case "from_epoch":
            return call.args[1] != Constant(1, "bigint")
        case "/" | "%" | "div":
            # bigint's smallest value divided by -1 is one too many
            divisor = call.args[1]
            return not (isinstance(divisor, Constant) and divisor.value not in (None, 0, -1))
        case "cast":
            return not _is_total_cast(call.args[0].type, call.type)
    return False


def _is_total_cast(source: str, target: str) -> bool:
    """Whether every value of type `source` has one of type `target`."""
    if source == target or target in ("float", "double", "boolean") or source == "boolean":
        return True
    if source in _INTEGERS and target in _INTEGERS:
        return _INTEGERS.index(source) <= _INTEGERS.index(target)
    return source == "timestamp_ntz" and target == "date"
