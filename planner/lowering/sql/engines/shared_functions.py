"""Writers of scalar functions that several engines share."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.lowering.sql.target import ExpressionWriter
from planner.lowering.sql.text import OPERATORS, binary, cast
from planner.scalars.decimals import decimal_digits
from planner.scalars.types import is_integer
from runtime.spec.expressions import Call, Constant

Writer = Callable[[ExpressionWriter, Call], exp.Expr | None]

_PARTS = "year quarter month weekofyear day dayofyear dayofweek weekday hour minute second".split()
# Fields of DATE_PART and EXTRACT with another name than Spark's function
_FIELDS = {"weekofyear": "WEEK", "dayofyear": "DOY", "dayofweek": "DOW", "weekday": "ISODOW"}
# What Spark adds to DOW and ISODOW
DAY_SHIFTS = {"dayofweek": 1, "weekday": -1}


def field_of(function: str) -> str:
    """Return the field of DATE_PART and EXTRACT for a function of Spark in lower case."""
    return _FIELDS.get(function, function.upper())


def writers_of_parts(part_of_time: Callable[[str, exp.Expr], exp.Expr]) -> dict[str, Writer]:
    """Return the writers of YEAR, HOUR and the like, which refuse instants.

    Args:
        part_of_time: Function that returns the part that Spark's function of a name returns.
    """

    def write(rows: ExpressionWriter, expression: Call) -> exp.Expr:
        (time,) = expression.args
        if time.type == "timestamp":
            rows.refuse(expression, "the time zone of the session decides")
        return part_of_time(expression.function, rows.write(time))

    return dict.fromkeys(_PARTS, write)


def check_division(rows: ExpressionWriter, expression: Call) -> None:
    """Refuse `/`, `%` and `div` of decimals and floats."""
    types = [expression.type, *(arg.type for arg in expression.args)]
    if any(decimal_digits(type_) is not None for type_ in types):
        rows.refuse(expression, "engines round quotients of decimals differently")
    if expression.type == "float":
        rows.refuse(expression)


def write_in_wider_type(
    rows: ExpressionWriter, expression: Call, widen: Callable[[exp.Expr, str], exp.Expr]
) -> exp.Expr | None:
    """Write `+`, `-`, `*` or a sign of integers on an engine whose integers wrap.

    Args:
        rows: Writer of the arguments.
        expression: Call.
        widen: Function that converts an argument, for a result of a type, to a wider type.
    """
    type_ = expression.type
    if not is_integer(type_):
        return None
    args = [widen(rows.write(arg), type_) for arg in expression.args]
    if expression.function == "neg":
        return cast(exp.Neg(this=args[0]), type_)
    return cast(binary(OPERATORS[expression.function], *args), type_)


def check_replace(rows: ExpressionWriter, expression: Call) -> None:
    """Refuse REPLACE of a text that may be empty."""
    part = expression.args[1]
    if not isinstance(part, Constant) or not part.value:
        rows.refuse(expression, "an empty text to replace is not known to be the same")
