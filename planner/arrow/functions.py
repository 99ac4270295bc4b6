"""Functions that the Arrow scan evaluates, by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from sqlglot import exp

from planner.arrow import calls
from planner.arrow.calls import VOID
from planner.arrow.literals import time_zone
from planner.arrow.types import is_integer
from planner.sql.types.scalar_functions import (
    SCALAR_FUNCTIONS,
    ScalarFunction,
    is_orderable,
    time_format_fields,
    widest_type,
)
from runtime.refusal import refuse
from runtime.shown_types import shown_type
from runtime.spec.expressions import Call, Constant, Expression

_Build = Callable[[Sequence[Expression], str], Expression]

# Languages whose upper and lower case differ from Unicode's default
_OWN_CASES = ("az", "el", "hy", "lt", "nl", "tr")
# Arrow shifts by fewer bits than a BIGINT has without its sign
_SHIFTED_BITS = 63
# Fields of DATE_FORMAT that exist for a DATE
_DATE_FIELDS = frozenset({"yyyy", "MM", "dd"})


def is_supported(node: exp.Expr) -> bool:
    """Return whether the scan has a function with a call's name and number of arguments."""
    name, n_args = node.name.upper(), len(node.expressions)
    if (signature := _FUNCTIONS.get(name)) is not None:
        return signature[0] <= n_args <= (signature[1] or n_args)
    return name in SCALAR_FUNCTIONS and n_args > 0


def build_function(name: str, args: Sequence[Expression], zone: str) -> Expression:
    """Build a call of a function.

    Args:
        name: Upper-case name.
        args: Arguments. None: the function has no such number of arguments.
        zone: The session's time zone.

    Raises:
        Refused: The scan cannot evaluate the call. The message says why.
    """
    if not args:
        refuse(f"{name} is not supported by the scan")
    if (signature := _FUNCTIONS.get(name)) is not None:
        return signature[2](args, zone)
    return _scalar(name, SCALAR_FUNCTIONS[name], args, zone)


def _scalar(
    name: str, function: ScalarFunction, args: Sequence[Expression], zone: str
) -> Expression:
    types = [arg.type for arg in args]
    if not function.accepts(types):
        names = ", ".join(shown_type(type_) for type_ in types)
        refuse(f"{name} of {names} is not supported by the scan")
    match function.name:
        case "concat":
            args = [
                calls.cast(arg, "string", zone) if is_integer(arg.type) else arg for arg in args
            ]
        case "upper" | "lower":
            _check_language(name)
        case "substring" | "replace":
            _check_constants(name, args[1:])
            if args[1] == Constant("", "string"):
                refuse(f"{name} of an empty text is not supported by the scan")
        case "starts_with" | "ends_with" | "contains":
            _check_constants(name, args[1:])
        case "shift_right":
            n_bits = args[1].value if isinstance(args[1], Constant) else None
            if not isinstance(n_bits, int) or not 0 <= n_bits < _SHIFTED_BITS:
                refuse("SHIFTRIGHT by other numbers than 0 to 62 is not supported by the scan")
        case "floor" | "ceil" if is_integer(args[0].type):
            return calls.cast(args[0], "bigint", zone)
        case "date_format":
            args = [_time_to_format(args[0], args[1], zone), args[1]]
        case _ if args[0].type == "timestamp":
            args = [calls.on_wall_clock(args[0], zone)]
    return Call(function.name, tuple(args), function.result)


def _check_constants(name: str, args: Sequence[Expression]) -> None:
    if any(not isinstance(arg, Constant) or arg.value is None for arg in args):
        refuse(f"{name} with arguments that are not literals is not supported by the scan")


def _check_language(name: str) -> None:
    """Refuse UPPER and LOWER in languages with special rules for letters beyond ASCII in Java."""
    names = ("LC_ALL", "LC_CTYPE", "LANG")
    language = next((value for key in names if (value := os.environ.get(key))), "")
    if language.partition("_")[0].lower() in _OWN_CASES:
        refuse(f"{name} in the language {language} is not supported by the scan")


def _time_to_format(value: Expression, pattern: Expression, zone: str) -> Expression:
    """Return the wall-clock time that DATE_FORMAT formats."""
    text = pattern.value if isinstance(pattern, Constant) else None
    fields = time_format_fields(text) if isinstance(text, str) else None
    if fields is None:
        refuse("DATE_FORMAT with this pattern is not supported by the scan")
    match value.type:
        case "timestamp":
            return calls.on_wall_clock(value, zone)
        case "timestamp_ntz":
            # Spark formats the instant of the wall-clock time, which is a different one in a gap.
            if time_zone(zone) is None or ("/" in zone and not zone.startswith("Etc/")):
                refuse("DATE_FORMAT of TIMESTAMP in this time zone is not supported by the scan")
            return value
    if any(field.isalpha() and field not in _DATE_FIELDS for field in fields):
        refuse("DATE_FORMAT of a DATE with a time is not supported by the scan")
    return calls.cast(value, "timestamp_ntz", zone)


def _extreme(function: str, args: Sequence[Expression]) -> Expression:
    """Build GREATEST or LEAST."""
    types = [arg.type for arg in args]
    type_ = widest_type([other for other in types if other != VOID])
    if type_ is None or not is_orderable(type_):
        names = ", ".join(other.upper() for other in types)
        refuse(f"{function.upper()} of {names} is not supported by the scan")
    return Call(function, calls.cast_to_common_type(args), type_)


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


# By function: minimum and maximum number of arguments, and the builder
_FUNCTIONS: dict[str, tuple[int, int | None, _Build]] = {
    "ABS": (1, 1, lambda args, zone: calls.absolute(args[0])),
    "COALESCE": (1, None, lambda args, zone: calls.coalesce(args)),
    "EQUAL_NULL": (2, 2, lambda args, zone: calls.compare("<=>", args[0], args[1], zone)),
    "GREATEST": (2, None, lambda args, zone: _extreme("greatest", args)),
    "IF": (3, 3, lambda args, zone: calls.choose(args[:1], args[1:])),
    "IFNULL": (2, 2, lambda args, zone: calls.coalesce(args)),
    "ISNOTNULL": (1, 1, lambda args, zone: calls.negation(calls.is_null(args[0]))),
    "ISNULL": (1, 1, lambda args, zone: calls.is_null(args[0])),
    "LEAST": (2, None, lambda args, zone: _extreme("least", args)),
    "MOD": (2, 2, lambda args, zone: calls.arithmetic("%", args[0], args[1])),
    "NEGATIVE": (1, 1, lambda args, zone: calls.negative(args[0])),
    "NULLIF": (2, 2, lambda args, zone: calls.nullif(args[0], args[1], zone)),
    "NVL": (2, 2, lambda args, zone: calls.coalesce(args)),
    "NVL2": (
        3,
        3,
        lambda args, zone: calls.choose([calls.negation(calls.is_null(args[0]))], args[1:]),
    ),
    "ROUND": (1, 2, lambda args, zone: calls.round_call(args)),
    "SQRT": (1, 1, lambda args, zone: calls.square_root(args[0])),
    "TIMESTAMP_MICROS": (1, 1, lambda args, zone: calls.from_epoch(args[0], 1)),
    "TIMESTAMP_MILLIS": (1, 1, lambda args, zone: calls.from_epoch(args[0], 1_000)),
    "TIMESTAMP_SECONDS": (1, 1, lambda args, zone: calls.from_epoch(args[0], 1_000_000)),
}

# Upper-case names of all functions that the scan evaluates
FUNCTION_NAMES = frozenset((*_FUNCTIONS, *SCALAR_FUNCTIONS))
