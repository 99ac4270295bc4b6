"""Type rules of functions: the types to which Spark casts arguments, and the type it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from planner.scalars.decimals import (
    decimal_digits,
    decimal_of_integer,
    decimal_result,
    rounded_type,
)
from planner.scalars.literals import cast_string
from planner.scalars.types import INTEGERS, TIMES, VOID, common_type, is_integer, is_numeric
from planner.scalars.types import is_ordered as is_ordered_type
from planner.sql.build import is_flat_type
from runtime.refusal import refuse
from runtime.shown_types import shown_type

Literal = int | Decimal | str | None


@dataclass(frozen=True)
class Value:
    """Type of an expression, and its value if it is a literal.

    Attributes:
        type: Spark type.
        nullable: Whether it may be NULL.
        literal: Exact number or text of a literal. None for other expressions.
    """

    type: str
    nullable: bool
    literal: Literal = None


@dataclass(frozen=True)
class CallTypes:
    """Types of a call.

    Attributes:
        operands: Types to which the arguments are cast.
        result: Type of the result.
    """

    operands: tuple[str, ...]
    result: str


# Returns the type to which an argument of a type is cast; None: the type is not accepted
Accept = Callable[[str], str | None]
# Takes the name for messages and the arguments. Raises `Refused` if the result is not certain.
Rule = Callable[[str, Sequence[Value]], CallTypes]


def fixed(result: str | None, *arguments: Accept, is_variadic: bool = False) -> Rule:
    """Return the rule of a function that takes each argument by its own type.

    Args:
        result: Type of the result. None: the type of the first argument.
        arguments: What each argument accepts.
        is_variadic: Whether the last argument may be repeated.
    """

    def rule(name: str, values: Sequence[Value]) -> CallTypes:
        more = [arguments[-1]] * (len(values) - len(arguments)) if is_variadic else []
        pairs = zip(values, (*arguments, *more), strict=False)
        operands = [type_ for value, accept in pairs if (type_ := accept(value.type)) is not None]
        if len(operands) < len(values):
            refuse(f"{name.upper()} of {shown(values)} is not supported by the scan")
        return CallTypes(tuple(operands), result or operands[0])

    return rule


def shown(values: Sequence[Value], separator: str = ", ") -> str:
    """Return the types of values for a message."""
    return separator.join(shown_type(value.type) for value in values)


def common(types: Sequence[str]) -> str:
    """Return the type to which Spark casts values of several types, or `VOID` if all are NULL."""
    target = VOID
    for type_ in types:
        wider = common_type(target, type_)
        if wider is None:
            refuse(
                f"{shown_type(target)} together with {shown_type(type_)} is not supported by "
                "the scan"
            )
        target = wider
    return target


# -- numbers -------------------------------------------------------------------------------------


def arithmetic(kernel: str) -> Rule:
    """Return the rule of one of `+ - * / % div`."""

    def rule(name: str, values: Sequence[Value]) -> CallTypes:
        types = {value.type for value in values} - {VOID}
        if not types or not all(map(is_numeric, types)):
            refuse(f"{name.upper()} of {shown(values, ' and ')} is not supported by the scan")
        if not types & {"float", "double"} and any(map(decimal_digits, types)):
            return _of_decimals(name, kernel, values)
        target = common([value.type for value in values])
        if kernel == "/":
            return CallTypes(("double", "double"), "double")
        if kernel == "div":
            if not is_integer(target):
                refuse(f"DIV of {shown_type(target)} is not supported by the scan")
            return CallTypes(("bigint", "bigint"), "bigint")
        return CallTypes((target, target), target)

    return rule


def _of_decimals(name: str, kernel: str, values: Sequence[Value]) -> CallTypes:
    """Return the types of arithmetic of decimals, or of a decimal and an integer."""
    if kernel == "div" or any(value.type == VOID for value in values):
        refuse(f"{name.upper()} of decimals is not supported by the scan")
    left, right = map(_as_decimal, values)
    return CallTypes((left, right), decimal_result(kernel, left, right))


def _as_decimal(value: Value) -> str:
    """Return the decimal type of an operand. An integer literal has as many digits as its text."""
    if isinstance(value.literal, int) and is_integer(value.type):
        return f"decimal({len(str(abs(value.literal)))},0)"
    type_ = decimal_of_integer(value.type)
    assert type_ is not None
    return type_


def shifted(name: str, values: Sequence[Value]) -> CallTypes:
    """Return the types of a time plus an interval, which is given in microseconds."""
    type_ = values[0].type
    if type_ not in ("timestamp", "timestamp_ntz"):
        refuse(f"{shown_type(type_)} plus an interval is not supported by the scan")
    return CallTypes((type_, "bigint"), type_)


def rounded(name: str, values: Sequence[Value]) -> CallTypes:
    """Return the types of ROUND."""
    value, decimals = (*values, Value("int", False, 0))[:2]
    if not isinstance(decimals.literal, int):
        refuse("ROUND to decimals that are not a literal is left to Spark")
    if decimals.literal < 0:
        refuse(f"ROUND to {decimals.literal} decimals is left to Spark")
    if not is_numeric(value.type):
        refuse(f"ROUND of {shown_type(value.type)} is left to Spark")
    operands = (value.type, decimals.type)[: len(values)]
    is_decimal = decimal_digits(value.type) is not None
    return CallTypes(
        operands, rounded_type(value.type, decimals.literal) if is_decimal else value.type
    )


# -- comparisons and choices ---------------------------------------------------------------------


def conditions(name: str, values: Sequence[Value]) -> CallTypes:
    """Return the types of AND, OR and NOT."""
    return CallTypes(tuple(map(_condition, values)), "boolean")


def _condition(value: Value) -> str:
    if value.type not in ("boolean", VOID):
        refuse(f"{shown_type(value.type)} is not a condition")
    return "boolean"


def compared(name: str, values: Sequence[Value]) -> CallTypes:
    """Return the types of a comparison. Written strings next to a time are times."""
    types = {value.type for value in values} - {"string", VOID}
    texts = [value.literal for value in values if value.type == "string"]
    if types == {"timestamp", "timestamp_ntz"} and not texts:
        return CallTypes(tuple(value.type for value in values), "boolean")
    written = [text for text in texts if isinstance(text, str)]
    if texts and len(types) == 1 and types <= set(TIMES) and len(written) == len(texts):
        (target,) = types
        for text in written:
            if cast_string(text, "timestamp_ntz", "") is None:
                refuse(f"{text!r} as {shown_type(target)} is not supported by the scan")
    else:
        target = common([value.type for value in values])
    if target != VOID and not is_flat_type(target):
        refuse(f"{name} of {shown(values)} is not supported by the scan")
    return CallTypes((target,) * len(values), "boolean")


def compared_pair(name: str, values: Sequence[Value]) -> CallTypes:
    """Return the types of a comparison of two operands.

    Spark casts an integer literal next to a decimal to a decimal of its digits. It rewrites some
    comparisons of two literals.
    """
    made = compared(name, values)
    if any(decimal_digits(value.type) for value in values):
        if all(isinstance(value.literal, int | Decimal) for value in values):
            refuse(f"{name} of two numbers is not supported by the scan")
        pairs = zip(values, made.operands, strict=True)
        operands = [_as_decimal(v) if isinstance(v.literal, int) else t for v, t in pairs]
        return CallTypes(tuple(operands), "boolean")
    return made


def between(name: str, values: Sequence[Value]) -> CallTypes:
    """Return the types of BETWEEN."""
    value, low, high = values
    pairs = [compared_pair(name, (value, bound)).operands for bound in (low, high)]
    first = next((pair[0] for pair in pairs if pair[0] != value.type), value.type)
    return CallTypes((first, *(pair[1] for pair in pairs)), "boolean")


def first_common(name: str, values: Sequence[Value]) -> CallTypes:
    """Return the types of COALESCE and the like."""
    target = common([value.type for value in values])
    if target == VOID:
        refuse("COALESCE with only NULL arguments is not supported by the scan")
    return CallTypes((target,) * len(values), target)


def extreme(name: str, values: Sequence[Value]) -> CallTypes:
    """Return the types of GREATEST and LEAST of equal types or integers."""
    types = {value.type for value in values} - {VOID}
    target = max(types, key=INTEGERS.index) if types <= set(INTEGERS) and types else None
    if len(types) == 1:
        (target,) = types
    if target is None or not is_ordered_type(target):
        names = ", ".join(value.type.upper() for value in values)
        refuse(f"{name} of {names} is not supported by the scan")
    return CallTypes((target,) * len(values), target)


def chosen(name: str, values: Sequence[Value]) -> CallTypes:
    """Return the types of CASE: a condition and a value, and so on, and the ELSE."""
    for condition in values[:-1:2]:
        if condition.type != "boolean":  # Spark rejects a bare NULL here
            refuse(f"{shown_type(condition.type)} is not a condition")
    return _chosen(values)


def chosen_by_value(name: str, values: Sequence[Value]) -> CallTypes:
    """Return the types of CASE with a value before the WHENs, which is compared with each."""
    for other in values[1:-1:2]:
        compared(name, (values[0], other))
    return _chosen(values[1:], values[0])


def chosen_by_presence(name: str, values: Sequence[Value]) -> CallTypes:
    """Return the types of NVL2: a value, the result if it is not NULL, and the result if it is."""
    tested = values[0]
    if tested.type != VOID and not is_flat_type(tested.type):
        refuse(f"{name} of {shown(values)} is not supported by the scan")
    return _chosen(values)


def _chosen(values: Sequence[Value], *before: Value) -> CallTypes:
    """Return the types of a choice. `values` has a test before each value but the last."""
    target = common([value.type for value in (*values[1::2], values[-1])])
    if target == VOID:
        refuse("CASE with only NULL results is not supported by the scan")
    pairs = [type_ for test in values[:-1:2] for type_ in (test.type, target)]
    return CallTypes((*(value.type for value in before), *pairs, target), target)


def null_if(name: str, values: Sequence[Value]) -> CallTypes:
    """Return the types of NULLIF."""
    compared(name, values)
    return CallTypes(tuple(value.type for value in values), values[0].type)
