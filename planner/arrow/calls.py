"""Typed calls of the Arrow scan, with the implicit casts of Spark's ANSI mode.

Raises `Refused`, with the reason, for anything that the scan would evaluate differently from
Spark. `time_zone` is always `spark.sql.session.timeZone` and applies to timestamps in text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from planner.arrow.literals import (
    cast_number,
    cast_string,
    instant_of_wall_clock_us,
    time_zone,
    wall_clock_bound_us,
)
from planner.arrow.types import can_cast, common_type, integer_fits, is_integer, is_numeric
from planner.sql.types.decimals import (
    decimal_digits,
    decimal_of_integer,
    decimal_result,
    rounded_type,
)
from runtime.refusal import refuse
from runtime.shown_types import shown_type
from runtime.spec.expressions import Call, Constant, Expression
from runtime.windows.times import DAY_US

# Type of a bare NULL before it meets a typed operand
VOID = "void"
_TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})


def cast(value: Expression, target: str, zone: str) -> Expression:
    """Build `CAST(value AS target)`. Literals that fit are cast right away."""
    text = value.value if isinstance(value, Constant) else None
    if value.type == "timestamp" and target in ("date", "timestamp_ntz", "string"):
        value = on_wall_clock(value, zone)
    if not isinstance(text, str) or target == "string":
        return _convert(value, target)
    literal = cast_string(text, target, zone)
    if literal is None and is_integer(target):
        return Call("cast", (value,), target)
    if literal is None:
        refuse(f"{text!r} as {shown_type(target)} is not supported by the scan")
    return Constant(literal, target)


def on_wall_clock(value: Expression, zone: str) -> Expression:
    """Return an instant's time on the wall clock of a zone, as TIMESTAMP_NTZ."""
    if time_zone(zone) is None:
        refuse(f"the time zone {zone} is not supported by the scan")
    return Call("wall_clock", (value, Constant(zone, "string")), "timestamp_ntz")


def _convert(value: Expression, target: str) -> Expression:
    if value.type == target:
        return value
    if isinstance(value, Constant):
        constant = cast_number(value.value, value.type, target)
        if value.value is None or constant is not None:
            return Constant(constant, target)
    if isinstance(value, Call) and value.function == "cast" and target == "date":
        (inner,) = value.args
        if inner.type == "date":
            return inner  # a date becomes midnight and then a date again
    if not can_cast(value.type, target):
        refuse(
            f"the cast from {shown_type(value.type)} to {shown_type(target)} is not supported "
            "by the scan"
        )
    return Call("cast", (value,), target)


def cast_to_common_type(values: Iterable[Expression]) -> tuple[Expression, ...]:
    """Cast the operands to the common type that Spark finds, or `VOID` if all are NULL."""
    operands = tuple(values)
    target = VOID
    for operand in operands:
        wider = common_type(target, operand.type)
        if wider is None:
            refuse(
                f"{shown_type(target)} together with {shown_type(operand.type)} is not "
                "supported by "
                "the scan"
            )
        target = wider
    return tuple(_convert(operand, target) for operand in operands)


def to_compare(values: Sequence[Expression], time_zone: str) -> tuple[Expression, ...]:
    """Cast operands to a common type; string literals adopt a date or timestamp type."""
    types = {value.type for value in values} - {"string", VOID}
    texts = [value for value in values if value.type == "string"]
    if len(types) == 1 and types <= _TIMES and all(isinstance(v, Constant) for v in texts):
        (target,) = types
        return tuple(cast(value, target, time_zone) for value in values)
    if types == {"timestamp", "timestamp_ntz"}:
        if all(isinstance(v, Constant) for v in values if v.type == "timestamp_ntz"):
            values = [_to_instant(value, time_zone) for value in values]
        else:
            values = [_on_wall_clock(value, time_zone) for value in values]
    return cast_to_common_type(values)


def _to_instant(value: Expression, time_zone: str) -> Expression:
    """Convert a TIMESTAMP_NTZ literal compared with instants into Spark's instant for it."""
    if not isinstance(value, Constant) or value.type != "timestamp_ntz":
        return value
    if not isinstance(value.value, int):
        return Constant(None, "timestamp")
    instant = instant_of_wall_clock_us(value.value, time_zone)
    if instant is None:
        refuse(
            "TIMESTAMP together with TIMESTAMP_LTZ is not supported by the scan in this time zone"
        )
    return Constant(instant, "timestamp")


def _on_wall_clock(value: Expression, time_zone: str) -> Expression:
    """Convert an instant literal to an equivalent TIMESTAMP_NTZ for comparisons, if possible.

    Spark converts the TIMESTAMP_NTZ operand into an instant with the session time zone.
    """
    if not isinstance(value, Constant) or value.type != "timestamp":
        return value
    if not isinstance(value.value, int):
        return Constant(None, "timestamp_ntz")
    local = wall_clock_bound_us(value.value, time_zone)
    if local is None:
        refuse(f"clocks change in {time_zone} within two days of a bound of the time")
    return Constant(local, "timestamp_ntz")


# Maximum decimals of a ROUND that the scan evaluates, because doubles have no more digits
_MAX_DECIMALS = 15


def round_call(args: Sequence[Expression]) -> Expression:
    """Build `ROUND(value, decimals)`, half up, for a literal number of decimals, 0 by default."""
    value, decimals, *_ = (*args, Constant(0, "int"))
    if not isinstance(decimals, Constant) or not isinstance(decimals.value, int):
        refuse("ROUND to decimals that are not a literal is left to Spark")
    if not 0 <= decimals.value <= _MAX_DECIMALS:
        refuse(f"ROUND to {decimals.value} decimals is left to Spark")
    if is_integer(value.type):
        return value
    if decimal_digits(value.type) is not None:
        return Call("round", (value, decimals), rounded_type(value.type, decimals.value))
    if value.type != "double":
        refuse(f"ROUND of {shown_type(value.type)} is left to Spark")
    return Call("round", (value, Constant(decimals.value, "int")), "double")


def square_root(value: Expression) -> Expression:
    """Build `SQRT(value)`; NaN for a negative number."""
    if value.type != VOID and not is_numeric(value.type):
        refuse(f"SQRT of {shown_type(value.type)} is not supported by the scan")
    return Call("sqrt", (_convert(value, "double"),), "double")


def arithmetic(function: str, left: Expression, right: Expression) -> Expression:
    """Build `left function right` for one of `+ - * / % div`."""
    types = {left.type, right.type} - {VOID}
    if not types or not all(map(is_numeric, types)):
        names = " and ".join(shown_type(value.type) for value in (left, right))
        refuse(f"{function.upper()} of {names} is not supported by the scan")
    if all(type_ not in ("float", "double") for type_ in types) and any(map(decimal_digits, types)):
        return _decimal_arithmetic(function, left, right)
    operands = cast_to_common_type((left, right))
    type_ = operands[0].type
    if function == "/":
        return Call("/", tuple(_convert(value, "double") for value in (left, right)), "double")
    if function == "div":
        if not is_integer(type_):
            refuse(f"DIV of {shown_type(type_)} is not supported by the scan")
        return Call("div", tuple(_convert(v, "bigint") for v in operands), "bigint")
    return Call(function, operands, type_)


def _decimal_arithmetic(function: str, left: Expression, right: Expression) -> Expression:
    """Build arithmetic of decimals, or of a decimal and an integer."""
    if function == "div" or VOID in (left.type, right.type):
        refuse(f"{function.upper()} of decimals is not supported by the scan")
    operands = tuple(_as_decimal(value) for value in (left, right))
    type_ = decimal_result(function, *(value.type for value in operands))
    return Call(function, operands, type_)


def _as_decimal(value: Expression) -> Expression:
    """Return an operand as a decimal that can hold every value of its type."""
    type_ = decimal_of_integer(value.type)
    assert type_ is not None
    return _convert(value, type_)


def literal_as_decimal(value: Expression) -> Expression:
    """Return an integer literal as a decimal of its own digits, as in arithmetic with decimals."""
    if not isinstance(value, Constant) or not isinstance(value.value, int):
        return value
    return Constant(Decimal(value.value), f"decimal({len(str(abs(value.value)))},0)")


def shift(value: Expression, by_us: int) -> Expression:
    """Build a time plus a constant number of microseconds."""
    if value.type not in ("timestamp", "timestamp_ntz"):
        refuse(f"{shown_type(value.type)} plus an interval is not supported by the scan")
    if value.type == "timestamp" and abs(by_us) >= DAY_US:
        # a day may have 23 or 25 hours
        refuse("TIMESTAMP_LTZ plus an interval of days is not supported by the scan")
    return Call("shift", (value, Constant(by_us, "bigint")), value.type)


def negative(value: Expression) -> Expression:
    """Build `-value`."""
    if not is_numeric(value.type):
        refuse(f"- of {shown_type(value.type)} is not supported by the scan")
    return Call("neg", (value,), value.type)


def absolute(value: Expression) -> Expression:
    """Build `ABS(value)`."""
    if not is_numeric(value.type):
        refuse(f"ABS of {shown_type(value.type)} is not supported by the scan")
    zero: Expression = Constant(0, "int")
    if value.type in ("float", "double"):
        # 0.0 - x turns -0.0 into 0.0; neither x nor -x does that for both zeros.
        zero = _convert(zero, value.type)
        opposite: Expression = Call("-", (zero, value), value.type)
        return choose([Call("<=", (value, zero), "boolean")], [opposite, value])
    is_negative = Call("<", cast_to_common_type((value, zero)), "boolean")
    return choose([is_negative], [negative(value), value])


def from_epoch(value: Expression, unit_us: int) -> Expression:
    """Return the instant `value` units of `unit_us` microseconds after 1970."""
    if not is_integer(value.type):
        refuse(f"an instant of {shown_type(value.type)} is not supported by the scan")
    units = _convert(value, "bigint")
    return Call("from_epoch", (units, Constant(unit_us, "bigint")), "timestamp")


def to_condition(value: Expression) -> Expression:
    """Return `value` where a BOOLEAN is expected."""
    if value.type == VOID:
        return Constant(None, "boolean")
    if value.type != "boolean":
        refuse(f"{shown_type(value.type)} is not a condition")
    return value


def negation(value: Expression) -> Expression:
    """Build `NOT value`."""
    return Call("not", (to_condition(value),), "boolean")


def is_null(value: Expression) -> Expression:
    """Build `value IS NULL`."""
    if value.type == VOID:
        return Constant(True, "boolean")
    return Call("is_null", (value,), "boolean")


def compare(function: str, left: Expression, right: Expression, time_zone: str) -> Expression:
    """Build `left function right` for one of `= <> < <= > >= <=>`."""
    for value, other in ((left, right), (right, left)):
        if is_integer(value.type) and _is_beyond_bigint(other):
            # Spark returns the same result for all rows, even for those with NULL.
            refuse(
                f"{shown_type(value.type)} compared with a number beyond BIGINT is not supported "
                "by the scan"
            )
    left, right = to_compare((left, right), time_zone)
    if left.type == VOID:
        return Constant(True if function == "<=>" else None, "boolean")
    return Call(function, (left, right), "boolean")


def _is_beyond_bigint(value: Expression) -> bool:
    if not isinstance(value, Constant) or not isinstance(value.value, Decimal):
        return False
    return not integer_fits(int(value.value), "bigint")


def choose(conditions: Sequence[Expression], values: Sequence[Expression]) -> Expression:
    """Build CASE WHEN. `values` has one more element than `conditions`: the ELSE."""
    *branches, default = cast_to_common_type(values)
    if default.type == VOID:
        refuse("CASE with only NULL results is not supported by the scan")
    args: list[Expression] = []
    for condition, branch in zip(conditions, branches, strict=True):
        args += (to_condition(condition), branch)
    return Call("case", (*args, default), default.type)


def coalesce(args: Sequence[Expression]) -> Expression:
    """Build `COALESCE(args)`."""
    values = cast_to_common_type(args)
    if values[0].type == VOID:
        refuse("COALESCE with only NULL arguments is not supported by the scan")
    return values[0] if len(values) == 1 else Call("coalesce", values, values[0].type)


def nullif(value: Expression, other: Expression, time_zone: str) -> Expression:
    """Build `NULLIF(value, other)` with the type of `value`."""
    if value.type == VOID:
        return value
    nothing = Constant(None, value.type)
    return choose([compare("=", value, other, time_zone)], [nothing, value])
