"""Scalar expressions on a target, where it is certain to compute what Spark computes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import NoReturn, TypeGuard

from sqlglot import exp

from planner.lowering.sql.clocks import (
    floor_time,
    format_time,
    instant,
    local_us,
    start_of_date,
)
from planner.lowering.sql.refusals import refuse_part
from planner.lowering.sql.target import Target
from planner.lowering.sql.text import (
    OPERATORS,
    all_of,
    binary,
    call,
    case,
    cast,
    data_type,
    decimal,
    not_null,
    number,
    operand,
)
from planner.scalars.decimals import (
    MAX_DECIMAL_DIGITS,
    decimal_digits,
    decimal_of_integer,
    decimal_result,
)
from planner.scalars.types import INTEGERS, is_integer
from runtime.shown_types import shown_type
from runtime.spec.expressions import Call, ColumnRef, Constant, Expression

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Decimals of at most this many digits are exact doubles times a power of ten, so that any engine
# rounds their conversion correctly
_EXACT_DIGITS = 15
# Decimals whose units are BIGINT
_QUOTIENT_DIGITS = 18
_INT_LIMIT = 1 << 31
_ORDERS = ("<", "<=", ">", ">=")
_LOGIC = {"and": exp.And, "or": exp.Or}
# Parts of a time: name of the function, and Spark's result minus DuckDB's
_FIELDS = {
    "year": ("YEAR", 0),
    "quarter": ("QUARTER", 0),
    "month": ("MONTH", 0),
    "weekofyear": ("WEEKOFYEAR", 0),
    "day": ("DAY", 0),
    "dayofyear": ("DAYOFYEAR", 0),
    "dayofweek": ("DAYOFWEEK", 1),
    "hour": ("HOUR", 0),
    "minute": ("MINUTE", 0),
    "second": ("SECOND", 0),
}
_TESTS = {
    "duckdb": {"contains": "CONTAINS", "starts_with": "STARTS_WITH", "ends_with": "ENDS_WITH"},
    "spark": {"contains": "CONTAINS", "starts_with": "STARTSWITH", "ends_with": "ENDSWITH"},
}


@dataclass(frozen=True)
class TargetExpressions:
    """Writer of expressions.

    Attributes:
        target: Engine.
        columns: Expression of each column, by name.
        above_zero: TargetExpressions that are positive where the result is used.
    """

    target: Target
    columns: Mapping[str, exp.Expr]
    above_zero: frozenset[Expression] = field(default=frozenset())

    def write(self, expression: Expression) -> exp.Expr:
        """Return an expression on the target.

        Raises:
            NotPortable: The target might compute something else.
        """
        if isinstance(expression, Constant):
            return self._constant(expression)
        if isinstance(expression, ColumnRef):
            column = self.columns.get(expression.name)
            if column is None:
                refuse_part(f"{expression.name} is a field of a struct", expression.name)
            return column.copy()
        if expression.function == "/" and decimal_digits(expression.type) is not None:
            return self._decimal_quotient(expression)
        own = self.target.writers.get(expression.function)
        written = None if own is None else own(self, expression)
        if written is not None:
            return written
        writer = _WRITERS.get(expression.function)
        if writer is None:
            self.refuse(expression)
        return writer(self, expression)

    def where(self, conditions: tuple[Expression, ...]) -> exp.Expr | None:
        """Return conditions joined by AND. None without conditions."""
        return all_of(self.write(condition) for condition in conditions)

    def refuse(self, expression: Call, why: str = "") -> NoReturn:
        """Raise `NotPortable` for a call. Without `why` its result may differ."""
        text = expression.text or expression.function.upper()
        reason = why or "is not known to have the same result"
        refuse_part(f"{text}: {reason} on {self.target.title}", expression.text)

    # -- constants -----------------------------------------------------------------------------

    def _constant(self, constant: Constant) -> exp.Expr:
        value, type_ = constant.value, constant.type
        if value is None:
            return cast(exp.Null(), type_)
        if type_ == "boolean":
            return exp.Boolean(this=bool(value))
        if is_integer(type_):
            assert isinstance(value, int)
            if _fits_int(value):
                is_plain = type_ == "int" and self.target.has_int_literals
                return number(value) if is_plain else cast(number(value), type_)
            return cast(exp.Literal.string(str(value)), type_)
        if type_ == "double":
            assert isinstance(value, float)
            if not math.isfinite(value):
                return cast(exp.Literal.string(str(value).replace("inf", "Infinity")), type_)
            return self.target.double(value)
        if type_ == "string":
            assert isinstance(value, str)
            return exp.Literal.string(value)
        if isinstance(value, Decimal):
            return cast(exp.Literal.string(f"{value:f}"), type_)
        if type_ in ("date", "timestamp", "timestamp_ntz") and isinstance(value, int):
            return self._time(value, type_)
        refuse_part(f"constants of {shown_type(type_)} are not written on {self.target.title}")

    def _time(self, value: int, type_: str) -> exp.Expr:
        try:
            if type_ == "date":
                text = (date(1970, 1, 1) + timedelta(days=value)).isoformat()
                return cast(exp.Literal.string(text), type_)
            moment = (_EPOCH + timedelta(microseconds=value)).replace(tzinfo=None)
        except OverflowError:
            refuse_part("a time outside the years 1 to 9999 is not written")
        text = moment.isoformat(" ") + ("+00:00" if type_ == "timestamp" else "")
        return cast(exp.Literal.string(text), type_)

    # -- numbers -------------------------------------------------------------------------------

    def _args(self, expression: Call) -> list[exp.Expr]:
        return [self.write(arg) for arg in expression.args]

    def _operands(self, expression: Call) -> list[exp.Expr]:
        """Return the arguments of an operator. Integers get their type from another operand."""
        if all(isinstance(arg, Constant) for arg in expression.args):
            return self._args(expression)
        return [
            number(arg.value)
            if isinstance(arg, Constant) and is_integer(arg.type) and _fits_int(arg.value)
            else self.write(arg)
            for arg in expression.args
        ]

    def _arithmetic(self, expression: Call) -> exp.Expr:
        function, type_ = expression.function, expression.type
        left, right = self._operands(expression)
        kind = OPERATORS[function]
        if decimal_digits(type_) is not None:
            return self._decimal_arithmetic(expression, left, right)
        result = binary(kind, left, right)
        # next to a narrow integer, a literal may be wider
        return cast(result, type_) if type_ in INTEGERS[:2] else result

    def _decimal_arithmetic(self, expression: Call, left: exp.Expr, right: exp.Expr) -> exp.Expr:
        function, type_ = expression.function, expression.type
        if not _is_unclamped(expression):
            self.refuse(expression, "decimals of more than 38 digits are rounded otherwise")
        kind = OPERATORS[function]
        if self.target.name == "spark":
            return binary(kind, left, right)
        # DuckDB computes with the digits of the operands, of 64 bits up to 18 digits
        if function == "*":
            _, scale = decimal_digits(expression.args[0].type) or (0, 0)
            return cast(binary(kind, cast(left, decimal(MAX_DECIMAL_DIGITS, scale)), right), type_)
        return cast(binary(kind, cast(left, type_), cast(right, type_)), type_)

    def _divided(self, expression: Call) -> exp.Expr:
        function, type_ = expression.function, expression.type
        if decimal_digits(type_) is not None:
            self.refuse(expression, "engines round quotients of decimals differently")
        left, right = self._operands(expression)
        kinds = {"/": exp.Div, "%": exp.Mod, "div": exp.IntDiv}
        quotient = binary(kinds[function], left, right)
        if type_ in INTEGERS[:2]:
            quotient = cast(quotient, type_)
        if self.is_not_zero(expression.args[1]):
            return quotient
        failing = self.target.fail("division by zero")
        if failing is None:
            self.refuse(expression, "the divisor may be zero")
        return case([(binary(exp.EQ, right, 0), failing)], quotient)

    def _decimal_quotient(self, expression: Call) -> exp.Expr:
        """Return a quotient of decimals, rounded half away from zero."""
        _, divisor = expression.args
        types = [decimal_of_integer(arg.type) or "" for arg in expression.args]
        if "" in types:
            self.refuse(expression)
        left, right = (
            value if arg.type == type_ and not isinstance(arg, Constant) else cast(value, type_)
            for value, arg, type_ in zip(
                self._args(expression), expression.args, types, strict=True
            )
        )
        if self.target.name == "spark" and decimal_result("/", *types) == expression.type:
            return binary(exp.Div, left, right)
        (_, scale), (digits, right_scale) = (decimal_digits(type_) or (0, 0) for type_ in types)
        whole = divisor.args[0] if _is_cast(divisor) else divisor
        if digits > _QUOTIENT_DIGITS and not is_integer(whole.type):
            most = f"divisors of more than {_QUOTIENT_DIGITS} digits are not divided exactly"
            self.refuse(expression, most)
        units = number(10**right_scale)
        count = right if right_scale == 0 else binary(exp.Mul, right, units)
        factor = case([(binary(exp.LT, right, 0), number(-(10**right_scale)))], units)
        quotient = self.target.rounded_quotient(
            self.target.product(left, factor, types[0]),
            scale,
            cast(call("ABS", count), "bigint"),
            (decimal_digits(expression.type) or (0, 0))[1],
            expression.type,
        )
        if quotient is None:
            self.refuse(expression, "quotients of decimals are rounded differently")
        if self.is_not_zero(divisor):
            return quotient
        failing = self.target.fail("division by zero")
        if failing is None:
            failing = cast(binary(exp.IntDiv, number(1), cast(right, "bigint")), expression.type)
        is_zero = exp.And(this=binary(exp.EQ, right, 0), expression=not_null(left))
        return case([(is_zero, failing)], quotient)

    def is_not_zero(self, divisor: Expression) -> bool:
        """Return whether a divisor is known not to be zero."""
        if isinstance(divisor, Constant):
            return divisor.value not in (None, 0)
        while _is_cast(divisor):
            (divisor,) = divisor.args
        return divisor in self.above_zero

    def _negated(self, expression: Call) -> exp.Expr:
        (value,) = self._args(expression)
        return exp.Neg(this=operand(value))

    def _rounded(self, expression: Call) -> exp.Expr:
        value, decimals = expression.args
        if not isinstance(decimals, Constant) or not isinstance(decimals.value, int):
            self.refuse(expression)
        if not 0 <= decimals.value <= _EXACT_DIGITS:
            self.refuse(expression, "a negative number of decimals is not the same")
        written = self.write(value)
        if self.target.name == "spark":
            return call("ROUND", written, decimals.value)
        if decimal_digits(value.type) is not None:
            return cast(call("ROUND", written, decimals.value), expression.type)
        # Spark rounds the shortest text of a double. Large doubles are whole numbers.
        text = cast(written, "string")
        for type_ in (decimal(38, decimals.value), data_type("string"), data_type("double")):
            text = cast(text, type_)
        is_small = binary(exp.LT, call("ABS", written), exp.Literal(this="1e16", is_string=False))
        return case([(is_small, text)], written)

    def _bound(self, expression: Call) -> exp.Expr:
        (value,) = self._args(expression)
        bound = call(expression.function.upper(), value)
        if self.target.name == "spark":
            return bound
        # Java's NaN is 0 as an integer
        return case([(call("ISNAN", value), number(0))], cast(bound, "bigint"))

    def _shifted_right(self, expression: Call) -> exp.Expr:
        value, bits = self._args(expression)
        if self.target.name == "spark":
            return call("SHIFTRIGHT", value, bits)
        return exp.BitwiseRightShift(this=operand(value), expression=operand(bits))

    # -- conditions and choices ----------------------------------------------------------------

    def _compared(self, expression: Call) -> exp.Expr:
        left, right = self._operands(expression)
        if expression.args[0].type == "string" and expression.function in _ORDERS:
            left = self.target.compared(left, "string")
        return binary(OPERATORS[expression.function], left, right)

    def _joined(self, expression: Call) -> exp.Expr:
        first, *others = self._args(expression)
        kind = _LOGIC[expression.function]
        whole = operand(first) if not isinstance(first, exp.Binary) else first
        for other in others:
            whole = kind(this=_logical(whole, kind), expression=_logical(other, kind))
        return whole

    def _not(self, expression: Call) -> exp.Expr:
        (value,) = expression.args
        if isinstance(value, Call) and value.function == "is_null":
            return not_null(self.write(value.args[0]))
        return exp.Not(this=operand(self.write(value)))

    def _is_null(self, expression: Call) -> exp.Expr:
        (value,) = self._args(expression)
        return exp.Is(this=operand(value), expression=exp.Null())

    def _in(self, expression: Call) -> exp.Expr:
        value, *members = self._operands(expression)
        return exp.In(this=operand(value), expressions=members)

    def _case(self, expression: Call) -> exp.Expr:
        *parts, default = expression.args
        branches = []
        for condition, value in zip(parts[::2], parts[1::2], strict=True):
            known = self._with_condition(condition)
            branches.append((self.write(condition), known.write(value)))
        is_null = isinstance(default, Constant) and default.value is None
        typed = any(not _is_null(value) for value in parts[1::2])
        whole = case(branches, None if is_null and typed else self.write(default))
        return self.target.typed(whole, expression.type)

    def _with_condition(self, condition: Expression) -> TargetExpressions:
        """Return the writer of expressions that are only evaluated if a condition is true."""
        match condition:
            case Call(function=">", args=(value, Constant(value=0))):
                return replace(self, above_zero=self.above_zero | {value})
        return self

    def _called(self, expression: Call) -> exp.Expr:
        result = call(expression.function.upper(), *self._args(expression))
        return self.target.typed(result, expression.type)

    # -- casts ---------------------------------------------------------------------------------

    def _cast(self, expression: Call) -> exp.Expr:
        (value,) = expression.args
        source, target = value.type, expression.type
        written = self.write(value)
        if source == "double" and is_integer(target) and self.target.name == "duckdb":
            # DuckDB rounds, Spark cuts off
            return cast(call("TRUNC", written), target)
        is_text_on_spark = self.target.name == "spark" and source == "string"
        if not _is_exact_cast(source, target) and not (is_text_on_spark and target != "timestamp"):
            types = f"{shown_type(source)} to {shown_type(target)}"
            self.refuse(expression, f"the cast from {types} is not known to be the same")
        return cast(written, target)

    # -- times ---------------------------------------------------------------------------------

    def _field(self, expression: Call) -> exp.Expr:
        (value,) = expression.args
        name, more = _FIELDS[expression.function]
        written = call(name, self.write(value))
        if self.target.name == "spark":
            return written
        return cast(binary(exp.Add, written, more) if more else written, "int")

    def _weekday(self, expression: Call) -> exp.Expr:
        (value,) = self._args(expression)
        if self.target.name == "spark":
            return call("WEEKDAY", value)
        return cast(binary(exp.Sub, call("ISODOW", value), 1), "int")

    def _wall_clock(self, expression: Call) -> exp.Expr:
        value, zone = expression.args
        assert isinstance(zone, Constant) and isinstance(zone.value, str)
        time = self.write(value)
        return self.target.from_us(
            local_us(self.target, time, value.type, zone.value, expression.text)
        )

    def _instant(self, expression: Call) -> exp.Expr:
        value, zone = expression.args
        assert isinstance(zone, Constant) and isinstance(zone.value, str)
        time_us = self.target.to_us(self.write(value), value.type)
        return instant(self.target, time_us, zone.value, expression.text)

    def _shifted(self, expression: Call) -> exp.Expr:
        value, by_us = expression.args
        assert isinstance(by_us, Constant) and isinstance(by_us.value, int)
        time_us = self.target.to_us(self.write(value), value.type)
        moved = binary(exp.Add if by_us.value >= 0 else exp.Sub, time_us, abs(by_us.value))
        return self.target.from_us(moved, value.type)

    def _floored(self, expression: Call) -> exp.Expr:
        value, width = expression.args
        assert isinstance(width, Constant) and isinstance(width.value, int)
        return floor_time(self.target, self.write(value), value.type, width.value)

    def _start_of_date(self, expression: Call) -> exp.Expr:
        value, unit = expression.args
        assert isinstance(unit, Constant) and isinstance(unit.value, str)
        start = start_of_date(self.target, self.write(value), unit.value)
        if start is None:
            self.refuse(expression)
        return start

    def _micros(self, expression: Call) -> exp.Expr:
        (value,) = expression.args
        return self.target.to_us(self.write(value), value.type)

    def _formatted(self, expression: Call) -> exp.Expr:
        value, pattern = expression.args
        assert isinstance(pattern, Constant) and isinstance(pattern.value, str)
        return format_time(self, self.target, value, pattern.value)

    # -- texts ---------------------------------------------------------------------------------

    def _length(self, expression: Call) -> exp.Expr:
        (value,) = expression.args
        if value.type != "string":
            self.refuse(expression)
        return cast(call("LENGTH", self.write(value)), "int")

    def _concatenated(self, expression: Call) -> exp.Expr:
        first, *others = self._args(expression)
        whole: exp.Expr = first
        for other in others:
            whole = exp.DPipe(this=_side(whole), expression=_side(other))
        return whole

    def _trimmed(self, expression: Call) -> exp.Expr:
        (value,) = self._args(expression)
        name = expression.function.upper()
        # DuckDB's TRIM removes other white space, too
        return call(name, value, " ") if self.target.name == "duckdb" else call(name, value)

    def _substring(self, expression: Call) -> exp.Expr:
        _, *bounds = expression.args
        numbers = [bound.value if isinstance(bound, Constant) else None for bound in bounds]
        whole = [part for part in numbers if isinstance(part, int)]
        if len(whole) < len(numbers) or whole[0] < 1 or min(whole) < 0:
            self.refuse(expression, "a position before 1 or a negative length is not the same")
        return call("SUBSTRING", *self._args(expression))

    def _text_test(self, expression: Call) -> exp.Expr:
        name = _TESTS[self.target.name][expression.function]
        return call(name, *self._args(expression))

    def _like(self, expression: Call) -> exp.Expr:
        name = "REGEXP_MATCHES" if self.target.name == "duckdb" else "REGEXP_LIKE"
        return call(name, *self._args(expression))

    def _in_other_case(self, expression: Call) -> exp.Expr:
        if self.target.name != "spark":
            self.refuse(expression, "the case of letters outside ASCII is not the same")
        return self._called(expression)


def _is_null(value: Expression) -> bool:
    return isinstance(value, Constant) and value.value is None


def _fits_int(value: object) -> TypeGuard[int]:
    # -2147483648 is the negative of a BIGINT
    return isinstance(value, int) and -_INT_LIMIT < value < _INT_LIMIT


def _side(value: exp.Expr) -> exp.Expr:
    return value if isinstance(value, exp.DPipe) else operand(value)


def _logical(value: exp.Expr, kind: type[exp.Expr]) -> exp.Expr:
    """Return an operand of AND or OR, in parentheses if it is the other one."""
    is_other = isinstance(value, exp.And | exp.Or) and not isinstance(value, kind)
    return exp.Paren(this=value) if is_other else value


def _is_unclamped(call: Call) -> bool:
    """Return whether an operation on decimals has an exact result in Spark and in DuckDB."""
    left, right = (arg.type for arg in call.args)
    of_left, of_right = decimal_digits(left), decimal_digits(right)
    if of_left is None or of_right is None:
        return False
    if decimal_result(call.function, left, right) != call.type:
        return False
    (p1, s1), (p2, s2) = of_left, of_right
    if call.function == "*":
        return p1 + p2 + 1 <= MAX_DECIMAL_DIGITS
    scale = max(s1, s2)
    return max(p1 - s1, p2 - s2) + scale + 1 <= MAX_DECIMAL_DIGITS


def _is_cast(value: Expression) -> TypeGuard[Call]:
    return isinstance(value, Call) and value.function == "cast"


def _is_exact_cast(source: str, target: str) -> bool:
    """Return whether both engines cast every value to the same one, or fail."""
    if source == target:
        return True
    digits, new_digits = decimal_digits(source), decimal_digits(target)
    if digits is not None:
        if new_digits is not None:
            return True
        return target in ("double", "string") and digits[0] <= _EXACT_DIGITS and digits[1] <= 6
    if is_integer(source):
        return is_integer(target) or target in ("double", "string") or new_digits is not None
    if source == "boolean":
        return is_integer(target) or target == "string"
    if source == "double":
        return is_integer(target)
    return (source, target) in {
        ("float", "double"),
        ("date", "timestamp_ntz"),
        ("timestamp_ntz", "date"),
    }


_Writer = Callable[[TargetExpressions, Call], exp.Expr]
_WRITERS: dict[str, _Writer] = {
    **dict.fromkeys(("+", "-", "*"), TargetExpressions._arithmetic),
    **dict.fromkeys(("/", "%", "div"), TargetExpressions._divided),
    "neg": TargetExpressions._negated,
    "shift_right": TargetExpressions._shifted_right,
    "round": TargetExpressions._rounded,
    "floor": TargetExpressions._bound,
    "ceil": TargetExpressions._bound,
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "<=>"), TargetExpressions._compared),
    "and": TargetExpressions._joined,
    "or": TargetExpressions._joined,
    "not": TargetExpressions._not,
    "is_null": TargetExpressions._is_null,
    "in": TargetExpressions._in,
    "case": TargetExpressions._case,
    **dict.fromkeys(
        ("coalesce", "greatest", "least", "concat_ws", "sqrt"), TargetExpressions._called
    ),
    "replace": TargetExpressions._called,
    "cast": TargetExpressions._cast,
    **dict.fromkeys(_FIELDS, TargetExpressions._field),
    "weekday": TargetExpressions._weekday,
    "wall_clock": TargetExpressions._wall_clock,
    "instant": TargetExpressions._instant,
    "shift": TargetExpressions._shifted,
    "floor_time": TargetExpressions._floored,
    "start_of_date": TargetExpressions._start_of_date,
    "micros": TargetExpressions._micros,
    "date_format": TargetExpressions._formatted,
    "length": TargetExpressions._length,
    "concat": TargetExpressions._concatenated,
    **dict.fromkeys(("trim", "ltrim", "rtrim"), TargetExpressions._trimmed),
    "substring": TargetExpressions._substring,
    **dict.fromkeys(("contains", "starts_with", "ends_with"), TargetExpressions._text_test),
    "like": TargetExpressions._like,
    "upper": TargetExpressions._in_other_case,
    "lower": TargetExpressions._in_other_case,
}
