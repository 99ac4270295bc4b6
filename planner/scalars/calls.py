"""Typed calls of Arrow's kernels, with the implicit casts of Spark's ANSI mode.

Raises `Refused`, with the reason, for anything that a kernel would evaluate differently from Spark.
`zone` is always `spark.sql.session.timeZone` and applies to timestamps in text.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from planner.scalars import signatures
from planner.scalars.literals import (
    cast_number,
    cast_string,
    instant_of_wall_clock_us,
    time_format_fields,
    time_zone,
    wall_clock_bound_us,
)
from planner.scalars.signatures import Value
from planner.scalars.types import VOID, can_cast, integer_fits, is_integer
from runtime.refusal import refuse
from runtime.shown_types import shown_type
from runtime.spec.expressions import Call, Constant, Expression
from runtime.windows.times import DAY_US

# Maximum decimals of a ROUND that the scan evaluates, because doubles have no more digits
_MAX_DECIMALS = 15
# Languages whose upper and lower case differ from Unicode's default
_OWN_CASES = ("az", "el", "hy", "lt", "nl", "tr")
# Arrow shifts by fewer bits than a BIGINT has without its sign
_SHIFTED_BITS = 63
# Fields of DATE_FORMAT that exist for a DATE
_DATE_FIELDS = frozenset({"yyyy", "MM", "dd"})


@dataclass(frozen=True)
class Request:
    """A call to build.

    Attributes:
        name: Name of the function in messages.
        kernel: `Call.function`.
        given: Arguments.
        args: Arguments, cast to the operand types of the signature.
        type: Type of the result.
        zone: The session's time zone.
        text: Function that returns the SQL of the call.
    """

    name: str
    kernel: str
    given: tuple[Expression, ...]
    args: tuple[Expression, ...]
    type: str
    zone: str
    text: Callable[[], str]


Build = Callable[[Request], Expression]


# -- casts ---------------------------------------------------------------------------------------


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
    if isinstance(value, Call) and value.type == VOID:
        return replace(value, type=target)  # it never returns
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


def cast_to_common_type(args: Sequence[Expression]) -> tuple[Expression, ...]:
    """Cast the operands to the common type that Spark finds, or `VOID` if all are NULL."""
    target = signatures.common([arg.type for arg in args])
    return tuple(_convert(arg, target) for arg in args)


# -- calls of kernels ----------------------------------------------------------------------------


def plain(request: Request) -> Expression:
    """Build the call of a kernel that evaluates every call of the function."""
    return Call(request.kernel, request.args, request.type)


def first_argument(request: Request) -> Expression:
    """Return the argument of a call with one argument, else build the call."""
    return request.args[0] if len(request.args) == 1 else plain(request)


def with_literals(request: Request) -> Expression:
    """Build the call of a kernel whose arguments after the first are literals."""
    if any(not isinstance(arg, Constant) or arg.value is None for arg in request.args[1:]):
        refuse(f"{request.name} with arguments that are not literals is not supported by the scan")
    return plain(request)


def part_of_text(request: Request) -> Expression:
    """Build SUBSTRING or REPLACE."""
    call = with_literals(request)
    if request.args[1] == Constant("", "string"):
        refuse(f"{request.name} of an empty text is not supported by the scan")
    return call


def change_case(request: Request) -> Expression:
    """Build UPPER or LOWER. Java has rules of its own in some languages."""
    names = ("LC_ALL", "LC_CTYPE", "LANG")
    language = next((value for key in names if (value := os.environ.get(key))), "")
    if language.partition("_")[0].lower() in _OWN_CASES:
        refuse(f"{request.name} in the language {language} is not supported by the scan")
    return plain(request)


def shift_right(request: Request) -> Expression:
    """Build SHIFTRIGHT by a constant number of bits."""
    n_bits = request.args[1].value if isinstance(request.args[1], Constant) else None
    if not isinstance(n_bits, int) or not 0 <= n_bits < _SHIFTED_BITS:
        refuse("SHIFTRIGHT by other numbers than 0 to 62 is not supported by the scan")
    return plain(request)


def date_format(request: Request) -> Expression:
    """Build DATE_FORMAT of the time on the wall clock."""
    value, pattern = request.args
    text = pattern.value if isinstance(pattern, Constant) else None
    fields = time_format_fields(text) if isinstance(text, str) else None
    if fields is None:
        refuse("DATE_FORMAT with this pattern is not supported by the scan")
    zone = request.zone
    # Spark formats the instant of the wall-clock time, which is a different one in a gap.
    has_gaps = time_zone(zone) is None or ("/" in zone and not zone.startswith("Etc/"))
    if value.type == "timestamp_ntz" and has_gaps:
        refuse("DATE_FORMAT of TIMESTAMP in this time zone is not supported by the scan")
    if value.type == "date" and any(f.isalpha() and f not in _DATE_FIELDS for f in fields):
        refuse("DATE_FORMAT of a DATE with a time is not supported by the scan")
    return Call(request.kernel, (cast(value, "timestamp_ntz", zone), pattern), request.type)


def date_field(request: Request) -> Expression:
    """Build YEAR and the like. Times need no cast to a date."""
    (value,) = request.given
    if value.type == "timestamp":
        value = on_wall_clock(value, request.zone)
    return Call(request.kernel, (value,), request.type)


def integer_bound(request: Request) -> Expression:
    """Build FLOOR or CEIL. An integer is its own bound."""
    (value,) = request.args
    return value if is_integer(value.type) else plain(request)


def round_half_up(request: Request) -> Expression:
    """Build ROUND to a literal number of decimals, 0 by default."""
    value, decimals, *_ = (*request.args, Constant(0, "int"))
    if not isinstance(decimals, Constant) or not isinstance(decimals.value, int):
        refuse("ROUND to decimals that are not a literal is left to Spark")
    if decimals.value > _MAX_DECIMALS:
        refuse(f"ROUND to {decimals.value} decimals is left to Spark")
    if value.type == "float":
        refuse(f"ROUND of {shown_type(value.type)} is left to Spark")
    if is_integer(value.type):
        return value
    return Call("round", (value, decimals), request.type)


def absolute(request: Request) -> Expression:
    """Build ABS."""
    (value,) = request.args
    zero = cast(Constant(0, "int"), value.type, request.zone)
    test, opposite = "<", Call("neg", (value,), value.type)
    if value.type in ("float", "double"):
        # 0.0 - x turns -0.0 into 0.0; neither x nor -x does that for both zeros.
        test, opposite = "<=", Call("-", (zero, value), value.type)
    return Call("case", (Call(test, (value, zero), "boolean"), opposite, value), value.type)


def from_epoch(request: Request) -> Expression:
    """Build the instant of a number of units since 1970, whose length the name tells."""
    unit_us = {"SECONDS": 1_000_000, "MILLIS": 1_000, "MICROS": 1}[request.name.rpartition("_")[2]]
    return Call("from_epoch", (*request.args, Constant(unit_us, "bigint")), "timestamp")


def shift(request: Request) -> Expression:
    """Build a time plus a constant number of microseconds."""
    value, by_us = request.args
    assert isinstance(by_us, Constant) and isinstance(by_us.value, int)
    if value.type == "timestamp" and abs(by_us.value) >= DAY_US:
        # a day may have 23 or 25 hours
        refuse("TIMESTAMP_LTZ plus an interval of days is not supported by the scan")
    return plain(request)


def like(request: Request) -> Expression:
    """Build LIKE with a constant pattern."""
    value, pattern = request.args
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        refuse(f"{request.text()} is not supported by the scan: its pattern is not a literal")
    made = like_call(pattern.value)
    if made is None:
        refuse(f"{request.text()} is not supported by the scan: its pattern is invalid")
    function, argument = made
    return Call(function, (value, Constant(argument, "string")), "boolean")


def is_null(request: Request) -> Expression:
    """Build IS NULL."""
    (value,) = request.args
    return Constant(True, "boolean") if value.type == VOID else plain(request)


def if_present(request: Request) -> Expression:
    """Build NVL2."""
    tested, *results = request.args
    is_present = Call(
        "not", (is_null(replace(request, kernel="is_null", args=(tested,))),), "boolean"
    )
    return Call("case", (is_present, *results), request.type)


def negated(build: Build) -> Build:
    """Return the builder of a function's negation."""
    return lambda request: Call("not", (build(request),), "boolean")


# -- comparisons and choices ---------------------------------------------------------------------


def _compared(args: Sequence[Expression], zone: str) -> tuple[Expression, ...]:
    """Cast operands to the type in which Spark compares them."""
    texts = [arg.value if isinstance(arg, Constant) else None for arg in args]
    written = [text if isinstance(text, str) else None for text in texts]
    values = [Value(arg.type, True, text) for arg, text in zip(args, written, strict=True)]
    operands = signatures.compared("=", values).operands
    args = [cast(*pair, zone) for pair in zip(args, operands, strict=True)]
    if set(operands) == {"timestamp", "timestamp_ntz"}:
        if all(isinstance(arg, Constant) for arg in args if arg.type == "timestamp_ntz"):
            args = [_to_instant(arg, zone) for arg in args]
        else:
            args = [_on_wall_clock(arg, zone) for arg in args]
    return cast_to_common_type(args)


def _to_instant(value: Expression, zone: str) -> Expression:
    """Convert a TIMESTAMP_NTZ literal compared with instants into Spark's instant for it."""
    if not isinstance(value, Constant) or value.type != "timestamp_ntz":
        return value
    if not isinstance(value.value, int):
        return Constant(None, "timestamp")
    instant = instant_of_wall_clock_us(value.value, zone)
    if instant is None:
        refuse(
            "TIMESTAMP together with TIMESTAMP_LTZ is not supported by the scan in this time zone"
        )
    return Constant(instant, "timestamp")


def _on_wall_clock(value: Expression, zone: str) -> Expression:
    """Convert an instant literal to an equivalent TIMESTAMP_NTZ for comparisons, if possible.

    Spark converts the TIMESTAMP_NTZ operand into an instant with the session time zone.
    """
    if not isinstance(value, Constant) or value.type != "timestamp":
        return value
    if not isinstance(value.value, int):
        return Constant(None, "timestamp_ntz")
    local = wall_clock_bound_us(value.value, zone)
    if local is None:
        refuse(f"clocks change in {zone} within two days of a bound of the time")
    return Constant(local, "timestamp_ntz")


def compare(request: Request) -> Expression:
    """Build a comparison of two operands."""
    left, right = request.given
    return _comparison(request.kernel, left, right, request.zone)


def _comparison(kernel: str, left: Expression, right: Expression, zone: str) -> Expression:
    for value, other in ((left, right), (right, left)):
        if is_integer(value.type) and _is_beyond_bigint(other):
            # Spark returns the same result for all rows, even for those with NULL.
            refuse(
                f"{shown_type(value.type)} compared with a number beyond BIGINT is not supported "
                "by the scan"
            )
    left, right = _compared((left, right), zone)
    if left.type == VOID:
        return Constant(True if kernel == "<=>" else None, "boolean")
    return Call(kernel, (left, right), "boolean")


def _is_beyond_bigint(value: Expression) -> bool:
    if not isinstance(value, Constant) or not isinstance(value.value, Decimal):
        return False
    return not integer_fits(int(value.value), "bigint")


def between(request: Request) -> Expression:
    """Build BETWEEN."""
    value, low, high = request.given
    bounds = ((">=", low), ("<=", high))
    args = tuple(_comparison(kernel, value, bound, request.zone) for kernel, bound in bounds)
    return Call("and", args, "boolean")


def is_in(request: Request) -> Expression:
    """Build IN."""
    value, *members = _compared(request.given, request.zone)
    if value.type == VOID:
        return Constant(None, "boolean")
    if all(isinstance(member, Constant) for member in members):
        return Call("in", (value, *members), "boolean")
    equal = tuple(Call("=", (value, member), "boolean") for member in members)
    return equal[0] if len(equal) == 1 else Call("or", equal, "boolean")


def case_of(request: Request) -> Expression:
    """Build `CASE value WHEN other THEN ... ELSE ... END`."""
    value, *args = request.args
    for place in range(0, len(args) - 1, 2):
        args[place] = _comparison("=", value, args[place], request.zone)
    return Call("case", tuple(args), request.type)


def null_if(request: Request) -> Expression:
    """Build NULLIF with the type of the first argument."""
    value, other = request.args
    if value.type == VOID:
        return value
    is_equal = _comparison("=", value, other, request.zone)
    return Call("case", (is_equal, Constant(None, value.type), value), value.type)


def like_call(pattern: str) -> tuple[str, str] | None:
    r"""Return a function and its argument for a LIKE pattern. None for an invalid pattern.

    Example:
        >>> [like_call(pattern) for pattern in ("a", "a%", "%a_")]
        [('=', 'a'), ('starts_with', 'a'), ('like', '(?s)\\A.*a.\\z')]
    """
    texts, regex, n_wildcards = "", "", 0
    chars = iter(pattern)
    for char in chars:
        if char == "\\":
            char = next(chars, "")
            if char not in ("%", "_", "\\"):
                return None
        elif char in "%_":
            n_wildcards += 1
            regex += ".*" if char == "%" else "."
            continue
        texts += char
        is_plain = char.isalnum() or ord(char) > 127
        regex += char if is_plain else f"\\x{{{ord(char):x}}}"
    if n_wildcards == 0:
        return "=", texts
    if n_wildcards == 1 and regex.endswith(".*") and not pattern.endswith("\\%"):
        return "starts_with", texts
    return "like", f"(?s)\\A{regex}\\z"
