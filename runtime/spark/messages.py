"""Spark's error conditions in plain words.

Spark identifies every error by a condition (listed in its error-conditions.json) with parameters.
Frequent ones have a message and a hint here; for the others Spark's first sentence is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple
from urllib.parse import unquote

from runtime.errors import AnalysisError, ErrorKind, nearest
from runtime.shown_types import shown_type
from runtime.spark.versions.capabilities import TEXT_AGGREGATES, has, refusal_text


class ErrorText(NamedTuple):
    """Plain text of an error.

    Attributes:
        message: Description of the error.
        hint: What to do instead.
        kind: Kind of the error. None if the condition's class is enough.
        subject: Name at fault, if known separately from the message.
    """

    message: str
    hint: str | None = None
    kind: ErrorKind | None = None
    subject: str | None = None


# Found in names that Spark or sqlwin gives to unnamed columns: `count(1)`, `w$start`
_INTERNAL = re.compile(r"[$(]")
# Minimum ratio of common letters between a misspelling and the name
_ALIKE = 0.5
_MAX_PROPOSALS = 5
# First words of a hint that lists columns
AVAILABLE = "available columns"
_STATE = re.compile(r"\s*SQLSTATE: \w{5}.*", re.DOTALL)
_CONDITION = re.compile(r"^\s*\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]\s*")
_CLASS = re.compile(r"^(?:Caused by: )?(?:[\w$]+\.)+[\w$]*(?:Exception|Error|Throwable)[\w$]*:\s*")
_TRY = re.compile(r"\s*Use (?:the SQL function )?[`']([\w()]+)[`'] to [^.]*\.")
_SINGLE_QUOTED = re.compile(r"(?<!\w)'[^']*'")
_QUOTED = re.compile(r"`((?:[^`]|``)+)`")
# Types whose words differ in CREATE TABLE
_QUOTED_TYPE = re.compile(r'"(TIMESTAMP|TIMESTAMP_NTZ|BINARY|(?:ARRAY|MAP|STRUCT)<[^"]*>)"')
# Catalog of a session's own tables in Flink scripts
_OWN_CATALOG = "default_catalog"
_ANSI = re.compile(r"\s*If necessary set \S+ to \"false\" to bypass this error\.")


def condition_in(text: str) -> str | None:
    """Return the condition that a message starts with, `[DIVIDE_BY_ZERO] Division by zero. ...`."""
    match = _CONDITION.match(_CLASS.sub("", text))
    return match.group(1) if match else None


# Spark's column number, as in `k#17` and `v#18L`
_COLUMN_NUMBER = re.compile(r"(?<=\w)#\d+L?\b")


# Reference to the Jackson setting of a limit, which users cannot change
_JACKSON = re.compile(r", from `Stream(?:Read|Write)Constraints\.\w+\(\)`")


def first_sentence(text: str) -> ErrorText:
    """Reduce a Spark message to one line without condition, class name, SQLSTATE and plan."""
    while True:
        bare = _CONDITION.sub("", _CLASS.sub("", text.strip()))
        if bare == text:
            break
        text = bare
    text = _with_shown_types(_ANSI.sub("", _STATE.sub("", text)))
    hint = None
    if match := _TRY.search(text):
        hint = f"use {match.group(1)} to get NULL instead"
        text = _TRY.sub("", text, count=1)
    # later lines hold plans, stacks, and advice about Spark's own settings
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = _JACKSON.sub("", _COLUMN_NUMBER.sub("", line.rstrip(".:; ")))
    return ErrorText((line[:1].lower() + line[1:] if line[1:2].islower() else line), hint)


def error_text(condition: str, parameters: Mapping[str, str]) -> ErrorText | None:
    """Return the plain text of `condition`, or None if Spark's own text should be used."""
    names = (condition, condition.split(".")[0])
    try:
        for name in names:
            if name in _TEMPLATES:
                return _fill(_TEMPLATES[name], parameters)
            if name in _WORDS:
                return _WORDS[name](parameters)
    except KeyError:
        pass  # parameters vary between Spark releases
    return None


def names_in(message: str) -> tuple[str, ...]:
    """Return the names in a Spark message as SQL spells them: quoted texts first, then names.

    Of several options the last one is at fault; those before it give the context.
    """
    quoted = _SINGLE_QUOTED.findall(message)
    if "option" in message:
        quoted.reverse()
    return (*quoted, *message.split("`")[1::2])


def plain_name(quoted: str) -> str:
    """Return a name as users write it: `spark_catalog`.`default`.`t` is `t`."""
    parts = _QUOTED.findall(quoted) or [quoted.strip('"')]
    if parts[:2] == ["spark_catalog", "default"] and len(parts) == 3:
        parts = parts[2:]
    return "`" + ".".join(part.replace("``", "`") for part in parts) + "`"


def plain_path(uri: str) -> str:
    """Return a file URI as a path: file:///a%20b is /a b."""
    match = re.match(r"file:(?://)?(/.*)", uri)
    return unquote(match.group(1)) if match else uri


def strip_type_quotes(quoted: str) -> str:
    """Remove the double quotes that Spark puts around a type or expression."""
    return _with_shown_types(quoted).replace('"', "")


def _with_shown_types(text: str) -> str:
    """Return a text with the types that Spark quotes in the words of CREATE TABLE."""
    return _QUOTED_TYPE.sub(lambda match: f'"{shown_type(match[1])}"', text)


def _names(listed: str) -> str:
    return ", ".join(plain_name(name) for name in re.split(r",\s*(?=`)", listed.strip("[]")))


def _did_you_mean(wanted: str, parameters: Mapping[str, str]) -> str | None:
    """Return Spark's proposals that resemble the name; all proposals if none does."""
    proposal = parameters.get("proposal")
    if not proposal:
        return None
    listed = _names(proposal).split(", ")
    names = [name for name in listed if not _INTERNAL.search(name)]
    if not names:
        unnamed = any("(" in name for name in listed)
        return "name the expression: COUNT(*) AS n" if unnamed else None
    likeness = {name: SequenceMatcher(None, _last(wanted), _last(name)).ratio() for name in names}
    alike = sorted((n for n in names if likeness[n] >= _ALIKE), key=lambda n: -likeness[n])
    if alike:
        return f"did you mean {', '.join(alike)}?"
    # Spark proposes no more than these, however many exist
    listed_all = len(listed) < _MAX_PROPOSALS
    return f"{AVAILABLE if listed_all else f'{AVAILABLE} include'}: {', '.join(names)}"


def _last(name: str) -> str:
    """Return the column name without its table."""
    return name.strip("`").split(".")[-1].strip("`").lower()


def _unknown(kind: ErrorKind, what: str, quoted: str, hint: str | None) -> ErrorText:
    """Return the error text for a name that does not exist."""
    name = plain_name(quoted)
    return ErrorText(f"{what} {name} does not exist", hint, kind, name.strip("`"))


def _column(p: Mapping[str, str]) -> ErrorText:
    return _unknown(
        ErrorKind.UNKNOWN_COLUMN, "column", p["objectName"], _did_you_mean(p["objectName"], p)
    )


def _field(p: Mapping[str, str]) -> ErrorText:
    where = plain_name(p["columnPath"])
    return ErrorText(
        f"{where} has no field {plain_name(p['fieldName'])}", _did_you_mean(p["fieldName"], p)
    )


def _table(p: Mapping[str, str]) -> ErrorText:
    name = p["relationName"]
    bare = name.replace("`", "")
    hint = "use SHOW TABLES to list tables"
    if "." in bare and Path(bare).is_file():
        hint = f"to read the file of that name, quote it: '{bare}'"
    return _unknown(ErrorKind.UNKNOWN_TABLE, "table", name, hint)


def _catalog(p: Mapping[str, str]) -> ErrorText:
    hint = "to add one, use --conf spark.sql.catalog.NAME=CLASS"
    return _unknown(ErrorKind.UNKNOWN_CATALOG, "catalog", p["catalogName"], hint)


def _below_catalog(name: str, in_own: Callable[[], ErrorText]) -> ErrorText:
    """Return the error text for a name whose first part Spark looked up in its own catalog.

    Args:
        name: Name in backticks.
        in_own: Returns the error text if the catalog is the session's own.
    """
    first = _QUOTED.findall(name)[0]
    if first.lower() == _OWN_CATALOG:
        return in_own()
    return _catalog({"catalogName": f"`{first}`"})


def _database(p: Mapping[str, str]) -> ErrorText:
    name = p["schemaName"].removeprefix("`spark_catalog`.")
    return _unknown(
        ErrorKind.UNKNOWN_DATABASE, "database", name, "use SHOW DATABASES to list databases"
    )


# Functions of Flink that Spark has under another name
_FLINKS_FUNCTIONS = {
    "array_concat": "CONCAT(array, array)",
    "from_base64": "UNBASE64(text)",
    "to_base64": "BASE64(value)",
}


def _function(p: Mapping[str, str]) -> ErrorText:
    name = p["routineName"]
    lower_name = plain_name(name).strip("`").lower()
    sparks = _FLINKS_FUNCTIONS.get(lower_name)
    hint = "use SHOW FUNCTIONS to list functions" if sparks is None else f"use Spark's {sparks}"
    if lower_name in ("listagg", "string_agg") and not has(TEXT_AGGREGATES):
        hint = refusal_text(TEXT_AGGREGATES)
    return _unknown(ErrorKind.UNKNOWN_FUNCTION, "function", name, hint)


# Keywords proposed for mistyped words
_KEYWORDS = (
    *("ALTER", "CREATE", "DELETE", "DESCRIBE", "DROP", "EXPLAIN", "FROM", "GROUP", "HAVING"),
    *("INSERT", "INTO", "JOIN", "LIMIT", "MERGE", "ORDER", "SELECT", "SHOW", "UNION", "UPDATE"),
    *("VALUES", "WHERE", "WINDOW", "WITH"),
)
# Keywords similar to those above that are not typing errors
_ALL_KEYWORDS = frozenset({*_KEYWORDS, *"INT ROLLUP SET SETS USE WHEN".split()})


def _syntax(p: Mapping[str, str]) -> ErrorText:
    near = _unquoted_string(p["error"])
    word = near.strip("'")
    close = (
        nearest(word, _KEYWORDS) if word.isalpha() and word.upper() not in _ALL_KEYWORDS else None
    )
    hint = _unquoted_string(p.get("hint", ""))
    message = f"syntax error at or near {near}{hint}"
    return ErrorText(message, f"did you mean {close}?" if close else None)


def _unquoted_string(text: str) -> str:
    """Remove the quotes that Spark adds to a string of the SQL text, which has its own."""
    return text.replace("''", "'")


def _overflow(p: Mapping[str, str]) -> ErrorText:
    match = re.search(r"'(try_\w+)'", p.get("alternative", ""))
    alternative = match.group(1) if match else None
    what = p["message"].rstrip(". ")
    return ErrorText(
        "numeric overflow" if what in ("overflow", "Overflow") else what,
        f"cast to DECIMAL first, or use {alternative} to get NULL instead"
        if alternative
        else "cast to DECIMAL or a wider type first",
        ErrorKind.DATA,
    )


def _raised_error(p: Mapping[str, str]) -> ErrorText:
    # imported only for an error: it reads files and needs more modules
    from runtime.detection.places import explain_message

    message = p["errorMessage"]
    text = explain_message(message)
    return ErrorText(message, kind=ErrorKind.RAISED) if text is None else ErrorText(*text)


def _no_provider(p: Mapping[str, str]) -> ErrorText:
    name = p.get("provider", "").rsplit(".", 1)[-1]
    return ErrorText(
        f"data source `{name}` does not exist", "it may require --conf spark.jars.packages=..."
    )


_CAST = ErrorText("cannot cast {srcType:type} to {targetType:type}")
_DIVISION = ErrorText(
    "division by zero",
    "use try_divide, or NULLIF(divisor, 0), to get NULL instead",
    ErrorKind.DATA,
)
_STATIC_SETTING = ErrorText("{config} can only be set before Spark starts", "set it with --conf")
# Texts that need only the parameters, which are formatted by _SPELLED
_TEMPLATES = {
    "FIELD_NOT_FOUND": ErrorText(
        "field {fieldName:name} does not exist", "available fields: {fields:names}"
    ),
    "WRONG_NUM_ARGS": ErrorText(
        "{functionName:name} takes {expectedNum} arguments, not {actualNum}"
    ),
    "AMBIGUOUS_REFERENCE": ErrorText("column {name:name} is ambiguous", "use {referenceNames:or}"),
    "MISSING_AGGREGATION": ErrorText(
        "`{expression:type}` must be in GROUP BY or in an aggregate function",
        "add it to GROUP BY, or use any_value({expression:type})",
    ),
    "MISSING_GROUP_BY": ErrorText(
        "columns cannot be combined with an aggregate function without GROUP BY",
        "add GROUP BY with the columns, or OVER () after the function",
    ),
    "INVALID_WHERE_CONDITION": ErrorText(
        "{expressionList} is not allowed in WHERE", "use HAVING to filter after aggregation"
    ),
    "NESTED_AGGREGATE_FUNCTION": ErrorText(
        "aggregate functions cannot be nested", "compute the inner aggregate in a subquery"
    ),
    "GROUPING_COLUMN_MISMATCH": ErrorText(
        "the argument of GROUPING is not a group key",
        "group keys: {groupingColumns:columns}",
        subject="GROUPING(",
    ),
    "GROUPING_ID_COLUMN_MISMATCH": ErrorText(
        "GROUPING_ID requires all group keys in order, or no arguments",
        "group keys: {groupByColumns:columns}",
        subject="GROUPING_ID(",
    ),
    "NUM_COLUMNS_MISMATCH": ErrorText(
        "{operator} of {firstNumColumns} and {invalidNumColumns} columns",
        "both sides need the same number of columns",
    ),
    "INVALID_TYPED_LITERAL": ErrorText("{value} is not a valid {valueType:type}"),
    "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION": _CAST,
    "DATATYPE_MISMATCH.CAST_WITH_CONF_SUGGESTION": _CAST,
    "DATATYPE_MISMATCH.CAST_WITH_FUNC_SUGGESTION": _CAST,
    "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE": ErrorText(
        "{inputSql:type} is {inputType:type}, but {sqlExpr:type} requires {requiredType:bare}"
    ),
    "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES": ErrorText(
        "{sqlExpr:type} mixes {left:type} and {right:type}", "cast one of them"
    ),
    "CAST_INVALID_INPUT": ErrorText(
        "{expression} is not a valid {targetType:type}",
        "use try_cast to get NULL instead",
        ErrorKind.DATA,
    ),
    "CAST_OVERFLOW": ErrorText(
        "{value} does not fit {targetType:type}",
        "use try_cast to get NULL instead",
        ErrorKind.DATA,
    ),
    "DIVIDE_BY_ZERO": _DIVISION,
    "REMAINDER_BY_ZERO": _DIVISION,
    "BINARY_ARITHMETIC_OVERFLOW": ErrorText(
        "{value1} {symbol} {value2} overflows",
        "cast to a wider type first, or use {functionName:word} to get NULL instead",
        ErrorKind.DATA,
    ),
    "SCALAR_SUBQUERY_TOO_MANY_ROWS": ErrorText(
        "a scalar subquery returned more than one row", "add LIMIT 1, or aggregate"
    ),
    "PATH_NOT_FOUND": ErrorText("{path:path} does not exist"),
    "PATH_ALREADY_EXISTS": ErrorText("{outputPath:path} already exists"),
    "CANNOT_LOAD_FUNCTION_CLASS": ErrorText(
        "Spark cannot find the class {className}",
        "load it with ADD JAR 'path', or add USING JAR 'path' to the statement",
    ),
    "DISTINCT_WINDOW_FUNCTION_UNSUPPORTED": ErrorText(
        "DISTINCT is not supported with OVER",
        "use SIZE(COLLECT_SET(x) OVER (...)) to count the distinct values of a frame",
    ),
    "UNSUPPORTED_OVERWRITE": ErrorText(
        "the query reads the table that it would overwrite", "write to another table first"
    ),
    "UNABLE_TO_INFER_SCHEMA": ErrorText(
        "no {format} file exists to infer columns from", "declare the columns in CREATE TABLE"
    ),
    "PARQUET_TYPE_ILLEGAL": ErrorText("Spark has no type for Parquet's {parquetType}"),
    "CANNOT_MODIFY_CONFIG": _STATIC_SETTING,
    "CANNOT_MODIFY_STATIC_CONFIG": _STATIC_SETTING,
}
_SPELLED: Mapping[str, Callable[[str], str]] = {
    "": str,
    "name": plain_name,
    "names": _names,
    "or": lambda listed: _names(listed).replace(", ", " or "),
    "columns": lambda listed: _COLUMN_NUMBER.sub("", listed).replace(",", ", "),
    "path": plain_path,
    "type": strip_type_quotes,
    "bare": lambda quoted: strip_type_quotes(quoted).strip("()"),
    "word": lambda quoted: quoted.strip("`"),
}


class _Filled(Formatter):
    """Template formatter. The text after a colon selects the spelling of a parameter."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return _SPELLED[format_spec](value)


def _fill(template: ErrorText, parameters: Mapping[str, str]) -> ErrorText:
    fill = partial(_Filled().vformat, args=(), kwargs=parameters)
    hint = None if template.hint is None else fill(template.hint)
    return template._replace(message=fill(template.message), hint=hint)


# Conditions that need code
_WORDS: Mapping[str, Callable[[Mapping[str, str]], ErrorText]] = {
    "UNRESOLVED_COLUMN": _column,
    "UNRESOLVED_FIELD": _field,
    "TABLE_OR_VIEW_NOT_FOUND": _table,
    "CATALOG_NOT_FOUND": _catalog,
    "REQUIRES_SINGLE_PART_NAMESPACE": lambda p: _below_catalog(
        p["identifier"], lambda: _table({"relationName": p["identifier"]})
    ),
    "NESTED_DATABASE_UNSUPPORTED_BY_V1_SESSION_CATALOG": lambda p: _below_catalog(
        p["namespace"], lambda: _database({"schemaName": p["namespace"]})
    ),
    "SCHEMA_NOT_FOUND": _database,
    "UNRESOLVED_ROUTINE": _function,
    "PARSE_SYNTAX_ERROR": _syntax,
    "ARITHMETIC_OVERFLOW": _overflow,
    "USER_RAISED_EXCEPTION": _raised_error,
    "DATA_SOURCE_NOT_FOUND": _no_provider,
}


def unknown_column_error(name: str, suggestions: Sequence[str]) -> AnalysisError:
    """Return the error for a column that does not exist.

    Args:
        name: Quoted name of the column.
        suggestions: Quoted names of existing columns, the most similar first.
    """
    parameters = {"objectName": name, "proposal": ", ".join(suggestions)}
    return _unknown_name_error("UNRESOLVED_COLUMN.WITH_SUGGESTION", parameters)


def unknown_table_error(name: str) -> AnalysisError:
    """Return the error for a table that does not exist.

    Args:
        name: Quoted name of the table.
    """
    return _unknown_name_error("TABLE_OR_VIEW_NOT_FOUND", {"relationName": name})


def _unknown_name_error(condition: str, parameters: Mapping[str, str]) -> AnalysisError:
    text = error_text(condition, parameters)
    assert text is not None
    assert text.subject is not None
    return AnalysisError(text.message, hint=text.hint, kind=text.kind, subjects=(text.subject,))
