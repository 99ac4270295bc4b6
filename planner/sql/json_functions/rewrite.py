"""Flink's JSON functions and SPLIT_INDEX, which Spark computes by other expressions.

`JSON_VALUE`, `JSON_EXISTS` and `JSON_QUERY` become a `FlinkCall` that returns NULL on every
failure, inside the CASE and COALESCE that their ON EMPTY and ON ERROR clauses mean. As in Flink, a
path is strict unless it begins with `lax`: a missing value is an error in strict mode and empty in
lax mode.
"""

from __future__ import annotations

import re
from typing import TypeGuard

from sqlglot import exp

from planner.sql.build import (
    case_when,
    cast_as,
    decimal_type,
    function_call,
    is_not_null,
    literal,
    operand,
)
from planner.sql.constants import constant_integer, constant_text
from planner.sql.nodes import FlinkCall, KeywordCall, PlacedError, span_of
from runtime.errors import AnalysisError

_PATH = re.compile(r"\s*(?:(strict|lax)\s+)?\$(.*)", re.IGNORECASE | re.DOTALL)
_STEP = re.compile(r"""\.?\[\s*(?:'([^'\\]+)'|"([^"\\]+)"|(\d+))\s*\]|\.([^\s.\[\]*'"()?@$]+)""")
_ARRAYS = "JSON_QUERY returns STRING here: RETURNING ARRAY is not supported"
# Types after RETURNING, by sqlglot's type
_RETURNED = {
    exp.DType.BOOLEAN: "boolean",
    exp.DType.TINYINT: "tinyint",
    exp.DType.SMALLINT: "smallint",
    exp.DType.INT: "int",
    exp.DType.BIGINT: "bigint",
    exp.DType.FLOAT: "float",
    exp.DType.DOUBLE: "double",
}


def rewrite_json_call(call: KeywordCall) -> exp.Expr | None:
    """Return the expression that a JSON function with keywords means, None for other calls.

    Raises:
        AnalysisError: The path or a clause is not supported.
    """
    match call.name.upper():
        case "JSON_VALUE":
            return _json_value(call)
        case "JSON_EXISTS":
            return _json_exists(call)
        case "JSON_QUERY":
            return _json_query(call)
        case "JSON_OBJECT":
            return _json_object(call)
    return None


def json_string(value: exp.Expr) -> exp.Expr:
    """Return `JSON_STRING(value)`: the value as JSON, NULL for NULL."""
    # TO_JSON takes no scalars, so the value is an element of an array: without its brackets.
    if _is_object(value):
        return _json_object(value)
    text = function_call("TO_JSON", function_call("ARRAY", value), _with_nulls())
    length = exp.Sub(this=function_call("LENGTH", text), expression=literal(2))
    inner = function_call("SUBSTRING", text, literal(2), length)
    return case_when(is_not_null(operand(value)), inner)


def split_index(call: exp.Anonymous) -> exp.Expr | None:
    """Return `SPLIT_INDEX(text, separator, index)`, whose parts count from 0, as a FlinkCall."""
    if len(call.expressions) != 3:
        return None
    text, separator, index = call.expressions
    delimiter, number = constant_text(separator), constant_integer(index)
    if (code := constant_integer(separator)) is not None and 0 < code <= 0x10FFFF:
        delimiter = chr(code)
    if not delimiter:
        raise _error(call, "the separator of SPLIT_INDEX must be a text of at least one character")
    if number is None:
        position = index.copy()
    else:
        position = literal(number) if number >= 0 else exp.Neg(this=literal(-number))
    return FlinkCall(
        this="SPLIT_INDEX",
        expressions=[text.copy(), literal(delimiter), position],
        returns="string",
    )


# -- clauses -------------------------------------------------------------------------------------


def _clauses(call: KeywordCall) -> dict[str, tuple[str, exp.Expr | None]]:
    """Return the clauses after the path: by their last words, their first words and the value.

    Example: `DEFAULT 0 ON EMPTY` is `{"ON EMPTY": ("DEFAULT", 0)}`.
    """
    clauses: dict[str, tuple[str, exp.Expr | None]] = {}
    pending: exp.Expr | None = None
    words = call.args["words"][2:]
    for word, node in zip(words, call.expressions[2:], strict=True):
        if word in ("RETURNING", "DEFAULT"):
            pending = node
            if word == "RETURNING":
                clauses[word] = ("", node)
            continue
        first, _, last = node.name.partition(" ON ")
        if not last and node.name.startswith("ON "):
            first, last = "DEFAULT", node.name.removeprefix("ON ")
        key = f"ON {last}" if last else "WRAPPER"
        if key in clauses:
            raise _error(call, f"{call.name.upper()} has two clauses {key}")
        clauses[key] = (first, pending if first == "DEFAULT" else None)
    return clauses


def _json_value(call: KeywordCall) -> exp.Expr:
    clauses = _clauses(call)
    _check_clauses(call, clauses, {"RETURNING", "ON EMPTY", "ON ERROR"})
    _check_words(call, clauses, ("NULL", "ERROR", "DEFAULT"))
    text, path, is_lax = _arguments(call)
    type_ = _returned_type(call, clauses)
    value = FlinkCall(this="JSON_VALUE", expressions=[text, path], returns=type_)
    missing = _instead(call, clauses, "ON EMPTY" if is_lax else "ON ERROR", type_)
    unreadable = _instead(call, clauses, "ON ERROR", type_)
    if missing is None and unreadable is None:
        return value
    if is_lax and type_ != "string":
        present = FlinkCall(
            this="JSON_VALUE", expressions=[text.copy(), path.copy()], returns="string"
        )
        absent = exp.Is(this=present, expression=exp.Null())
        ifs = [exp.If(this=absent, true=missing or exp.Null())]
        result: exp.Expr = exp.Case(ifs=ifs, default=_coalesce(value, unreadable))
    else:
        result = _coalesce(value, missing)
    return case_when(is_not_null(operand(text)), result)


def _json_exists(call: KeywordCall) -> exp.Expr:
    clauses = _clauses(call)
    _check_clauses(call, clauses, {"ON ERROR"})
    _check_words(call, clauses, ("TRUE", "FALSE", "UNKNOWN", "ERROR"))
    text, path, is_lax = _arguments(call)
    value = FlinkCall(this="JSON_EXISTS", expressions=[text, path], returns="boolean")
    # A lax path has no errors.
    match "FALSE" if is_lax else clauses.get("ON ERROR", ("FALSE", None))[0]:
        case "FALSE":
            return value
        case "TRUE":
            otherwise: exp.Expr = exp.true()
        case "UNKNOWN":
            otherwise = cast_as(exp.Null(), "boolean")
        case _:
            otherwise = _raise(call, "boolean")
    missing = exp.EQ(this=value, expression=exp.false())
    return case_when(missing, otherwise, value.copy())


def _json_query(call: KeywordCall) -> exp.Expr:
    clauses = _clauses(call)
    if "RETURNING" in clauses and not _is_text(clauses["RETURNING"][1]):
        raise _error(call, _ARRAYS, hint="use FROM_JSON(text, 'array<string>') around it")
    _check_clauses(call, clauses, {"RETURNING", "WRAPPER", "ON EMPTY", "ON ERROR"})
    _check_words(call, clauses, ("NULL", "ERROR", "EMPTY ARRAY", "EMPTY OBJECT"))
    text, path, is_lax = _arguments(call)
    wrapper = clauses.get("WRAPPER", ("WITHOUT", None))[0]
    kind = "conditional" if "WITH CONDITIONAL" in wrapper else "always"
    kind = "never" if wrapper.startswith("WITHOUT") else kind
    value = FlinkCall(this="JSON_QUERY", expressions=[text, path], returns="string", wrapper=kind)
    key = "ON EMPTY" if is_lax else "ON ERROR"
    match clauses.get(key, ("NULL", None))[0]:
        case "NULL":
            return value
        case "EMPTY ARRAY":
            otherwise = literal("[]")
        case "EMPTY OBJECT":
            otherwise = literal("{}")
        case _:
            otherwise = _raise(call, "string")
    return case_when(is_not_null(operand(text)), _coalesce(value, otherwise))


def _is_object(value: exp.Expr) -> TypeGuard[KeywordCall]:
    return isinstance(value, KeywordCall) and value.name.upper() == "JSON_OBJECT"


def _json_object(call: KeywordCall) -> exp.Expr:
    struct, with_nulls = _object(call)
    if struct is None:
        return literal("{}")
    return function_call("TO_JSON", struct, *([_with_nulls()] if with_nulls else []))


def _object(call: KeywordCall) -> tuple[exp.Expr | None, bool]:
    """Return a struct with the members, None without any, and whether NULLs are members."""
    nodes = list(call.expressions)
    with_nulls = True
    if len(nodes) % 2:
        with_nulls = nodes.pop().name == "NULL ON NULL"
    members: dict[str, exp.Expr] = {}
    for key, value in zip(nodes[::2], nodes[1::2], strict=True):
        name = constant_text(key)
        if name is None:
            raise _error(call, "a key of JSON_OBJECT must be a text in quotes")
        members[name] = _json_member(value, with_nulls)
    # Flink sorts the members by their keys.
    parts = [part for name in sorted(members) for part in (literal(name), members[name])]
    return (function_call("NAMED_STRUCT", *parts) if parts else None), with_nulls


def _json_member(value: exp.Expr, with_nulls: bool) -> exp.Expr:
    """Return the value of a member. A JSON_OBJECT is an object in it and not a text."""
    if not _is_object(value):
        return value
    struct, inner_nulls = _object(value)
    if struct is None:
        raise _error(value, "a JSON_OBJECT inside another one must have members")
    if inner_nulls != with_nulls:
        raise _error(value, "a JSON_OBJECT inside another one must have the same clause ON NULL")
    return struct


def _with_nulls() -> exp.Expr:
    return function_call("MAP", literal("ignoreNullFields"), literal("false"))


# -- parts ---------------------------------------------------------------------------------------


def _error(call: exp.Expr, message: str, hint: str | None = None) -> AnalysisError:
    return PlacedError(AnalysisError(message, hint=hint), span_of(call))


def _check_clauses(
    call: KeywordCall, clauses: dict[str, tuple[str, exp.Expr | None]], allowed: set[str]
) -> None:
    for key in clauses.keys() - allowed:
        raise _error(call, f"{call.name.upper()} has no clause {key}")


def _check_words(
    call: KeywordCall,
    clauses: dict[str, tuple[str, exp.Expr | None]],
    words: tuple[str, ...],
) -> None:
    for key, (first, _) in clauses.items():
        if key.startswith("ON ") and first not in words:
            choices = ", ".join(words[:-1]) + f" or {words[-1]}"
            hint = f"use {choices}"
            raise _error(call, f"{call.name.upper()} has no clause {first} {key}", hint)


def _arguments(call: KeywordCall) -> tuple[exp.Expr, exp.Expr, bool]:
    """Return the text, the path as a literal without its mode, and whether the path is lax."""
    text, path = call.expressions[:2]
    written = constant_text(path)
    match = None if written is None else _PATH.fullmatch(written)
    if written is None:
        raise _error(call, f"the path of {call.name.upper()} must be a text in quotes")
    steps = None if match is None else json_steps(f"${match[2]}")
    if match is None or steps is None:
        hint = "use members and elements, for example '$.a.b' or 'lax $.items[0][''unit price'']'"
        raise _error(call, f"the path '{written}' is not supported", hint)
    return text.copy(), literal(_as_spark_path(steps)), (match[1] or "").lower() == "lax"


def _as_spark_path(steps: tuple[str | int, ...]) -> str:
    """Return a path as TRY_VARIANT_GET reads it."""
    parts = (
        f"[{step}]" if isinstance(step, int) else f'["{step}"]' if "'" in step else f"['{step}']"
        for step in steps
    )
    return f"${''.join(parts)}"


def json_steps(path: str) -> tuple[str | int, ...] | None:
    """Return the members and elements of a JSON path without its mode, None for other paths.

    Example:
        >>> json_steps("$.a[0]['b c']")
        ('a', 0, 'b c')
    """
    steps: list[str | int] = []
    rest = path.strip().removeprefix("$")
    while rest:
        match = _STEP.match(rest)
        if match is None:
            return None
        steps.append(int(match[3]) if match[3] else match[1] or match[2] or match[4])
        rest = rest[match.end() :]
    return tuple(steps)


def _returned_type(call: KeywordCall, clauses: dict[str, tuple[str, exp.Expr | None]]) -> str:
    node = clauses.get("RETURNING", ("", None))[1]
    if node is None or _is_text(node):
        return "string"
    assert isinstance(node, exp.DataType)
    is_decimal = node.this == exp.DType.DECIMAL
    type_ = decimal_type(node) if is_decimal else _RETURNED.get(node.this)
    if type_ is None:
        hint = "use STRING, BOOLEAN, an integer type, FLOAT, DOUBLE or DECIMAL"
        raise _error(call, f"JSON_VALUE cannot return {node.sql().upper()}", hint)
    return type_


def _is_text(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.DataType) and node.this in exp.DataType.TEXT_TYPES


def _instead(
    call: KeywordCall, clauses: dict[str, tuple[str, exp.Expr | None]], key: str, type_: str
) -> exp.Expr | None:
    """Return the value of a clause. None for NULL."""
    word, value = clauses.get(key, ("NULL", None))
    if word == "ERROR":
        return _raise(call, type_)
    if value is None or isinstance(value, exp.Null):
        return None
    return cast_as(value.copy(), type_)


def _raise(call: KeywordCall, type_: str) -> exp.Expr:
    path = constant_text(call.expressions[1])
    message = f"{call.name.upper()} has no value of its type at '{path}'"
    if call.name.upper() == "JSON_EXISTS":
        message = f"JSON_EXISTS has no value at '{path}'"
    failure = function_call("RAISE_ERROR", literal(message))
    return cast_as(failure, type_)


def _coalesce(value: exp.Expr, otherwise: exp.Expr | None) -> exp.Expr:
    return value if otherwise is None else function_call("COALESCE", value, otherwise)
