"""Spark SQL for the calls of `FlinkCall`, as text."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = "'^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?$'"
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
# Digits of a number before it is truncated to an integer
_WIDE = "DECIMAL(38,18)"


def flink_call_sql(name: str, args: Sequence[str], type_: str, wrapper: str) -> str:
    """Return a call as Spark SQL. All failures are NULL.

    Args:
        name: JSON_VALUE, JSON_EXISTS, JSON_QUERY or SPLIT_INDEX.
        args: Arguments as Spark SQL.
        type_: Spark type of the result.
        wrapper: When JSON_QUERY puts brackets around the value: never, conditional, always.
    """
    if name == "SPLIT_INDEX":
        text, separator, index = args
        # SPLIT takes a pattern. An empty text has no parts in Flink.
        return f"GET(SPLIT(NULLIF({text}, ''), {_pattern(separator)}, -1), {index})"
    document, path = args
    value = f"TRY_VARIANT_GET(TRY_PARSE_JSON({document}), {path}, 'variant')"
    kind = f"SCHEMA_OF_VARIANT({value})"
    text = f"TRY_VARIANT_GET({value}, '$', 'string')"
    match name:
        case "JSON_EXISTS":
            exists = f"COALESCE({kind} <> 'VOID', FALSE)"
            return f"CASE WHEN {document} IS NOT NULL THEN {exists} END"
        case "JSON_QUERY":
            return _query(value, kind, wrapper)
    if type_ == "string":
        return f"CASE WHEN LEFT({kind}, 6) NOT IN ('OBJECT', 'ARRAY<') THEN {text} END"
    if type_ == "boolean":
        word = f"LOWER(TRIM({text}))"
        return (
            f"CASE WHEN {kind} NOT IN ('BOOLEAN', 'STRING') THEN NULL "
            f"WHEN {word} IN ('true', 't', 'yes', '1') THEN TRUE "
            f"WHEN {word} IN ('false', 'f', 'no', '0') THEN FALSE END"
        )
    number = f"CASE WHEN {text} RLIKE {_NUMBER} THEN {text} END"
    if type_ in _INTEGERS:
        number = f"TRY_CAST({number} AS {_WIDE})"
    cast = f"TRY_CAST({number} AS {type_.upper()})"
    if type_ in ("float", "double"):
        # A number beyond the type's range is infinite in Spark.
        return f"CASE WHEN ABS({cast}) < CAST('Infinity' AS {type_.upper()}) THEN {cast} END"
    return cast


def _pattern(separator: str) -> str:
    """Return the pattern of a literal: each character that may be special in its own class."""
    inner = separator[1:-1].replace("\\\\", "\\").replace("\\'", "'")
    pattern = re.sub(r"[^\w\s]", lambda match: _class(match[0]), inner)
    escaped = pattern.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _class(character: str) -> str:
    return f"\\{character}" if character.isascii() else character


def _query(value: str, kind: str, wrapper: str) -> str:
    json = f"TO_JSON({value})"
    wrapped = f"'[' || {json} || ']'"
    match wrapper:
        case "never":
            return f"CASE WHEN LEFT({kind}, 6) IN ('OBJECT', 'ARRAY<') THEN {json} END"
        case "conditional":
            return (
                f"CASE WHEN {kind} = 'VOID' THEN NULL "
                f"WHEN LEFT({kind}, 6) = 'ARRAY<' THEN {json} ELSE {wrapped} END"
            )
    return f"CASE WHEN {kind} <> 'VOID' THEN {wrapped} END"
