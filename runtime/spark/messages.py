"""Spark's error conditions in plain words.

Spark names every error by a condition (its error-conditions.json lists them) with parameters.
Those that users meet often have one line here, with what would be right; the rest keep
Spark's own first sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from runtime.errors import ErrorKind, nearest


class ErrorText(NamedTuple):
    """What is wrong in plain words.

    Attributes:
        message: what is wrong.
        hint: what would be right.
        kind: of the error; None where the condition's class says enough.
        subject: the name at fault, if it is known apart from the message.
    """

    message: str
    hint: str | None = None
    kind: ErrorKind | None = None
    subject: str | None = None


# From this ratio of common letters on, one name is taken for a misspelling of another.
_ALIKE = 0.5
_STATE = re.compile(r"\s*SQLSTATE: \w{5}.*", re.DOTALL)
_CONDITION = re.compile(r"^\s*\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]\s*")
_CLASS = re.compile(r"^(?:Caused by: )?(?:[\w$]+\.)+[\w$]*(?:Exception|Error|Throwable)[\w$]*:\s*")
_TRY = re.compile(r"\s*Use (?:the SQL function )?[`']([\w()]+)[`'] to [^.]*\.")
_SINGLE_QUOTED = re.compile(r"(?<!\w)'[^']*'")
_QUOTED = re.compile(r"`((?:[^`]|``)+)`")
# The catalog of a session's own tables, as Flink's scripts call it
_OWN_CATALOG = "default_catalog"
_ANSI = re.compile(r"\s*If necessary set \S+ to \"false\" to bypass this error\.")


def condition_in(text: str) -> str | None:
    """The condition that a message starts with, `[DIVIDE_BY_ZERO] Division by zero. ...`."""
    match = _CONDITION.match(_CLASS.sub("", text))
    return match.group(1) if match else None


# Spark's number of a column, as in `k#17` and `v#18L`
_COLUMN_NUMBER = re.compile(r"(?<=\w)#\d+L?\b")


def first_sentence(text: str) -> ErrorText:
    """A message of Spark's without condition, class name, SQLSTATE and plan, in one line."""
    while True:
        bare = _CONDITION.sub("", _CLASS.sub("", text.strip()))
        if bare == text:
            break
        text = bare
    text = _ANSI.sub("", _STATE.sub("", text))
    hint = None
    if match := _TRY.search(text):
        hint = f"{match.group(1)} gives NULL instead"
        text = _TRY.sub("", text, count=1)
    # After the first line come plans, stacks, and advice about Spark's own settings.
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = _COLUMN_NUMBER.sub("", line.rstrip(".:; "))
    return ErrorText((line[:1].lower() + line[1:] if line[1:2].islower() else line), hint)


def error_text(condition: str, parameters: Mapping[str, str]) -> ErrorText | None:
    """What `condition` means in plain words; None if Spark's own words must do."""
    made = _WORDS.get(condition) or _WORDS.get(condition.split(".")[0])
    try:
        return made(parameters) if made else None
    except KeyError:
        # Parameters come and go between releases of Spark.
        return None


def names_in(message: str) -> tuple[str, ...]:
    """What a message of Spark's names, as SQL spells it: first what is in quotes, then names.

    Of several options the last one is at fault, and those before it say where.
    """
    quoted = _SINGLE_QUOTED.findall(message)
    if "option" in message:
        quoted.reverse()
    return (*quoted, *message.split("`")[1::2])


def plain_name(quoted: str) -> str:
    """A name as users write it: `spark_catalog`.`default`.`t` is `t`."""
    parts = _QUOTED.findall(quoted) or [quoted.strip('"')]
    if parts[:2] == ["spark_catalog", "default"] and len(parts) == 3:
        parts = parts[2:]
    return "`" + ".".join(part.replace("``", "`") for part in parts) + "`"


def plain_path(uri: str) -> str:
    """A file as users name it: file:///a%20b is /a b."""
    match = re.match(r"file:(?://)?(/.*)", uri)
    return unquote(match.group(1)) if match else uri


def plain_type(quoted: str) -> str:
    """A type or expression without the double quotes that Spark puts around it."""
    return quoted.replace('"', "")


def _names(listed: str) -> str:
    return ", ".join(plain_name(name) for name in re.split(r",\s*(?=`)", listed.strip("[]")))


def _did_you_mean(wanted: str, parameters: Mapping[str, str]) -> str | None:
    """Those of Spark's proposals that are like what was written; all of them if none is."""
    proposal = parameters.get("proposal")
    if not proposal:
        return None
    names = _names(proposal).split(", ")
    likeness = {name: SequenceMatcher(None, _last(wanted), _last(name)).ratio() for name in names}
    alike = sorted((n for n in names if likeness[n] >= _ALIKE), key=lambda n: -likeness[n])
    return f"did you mean {', '.join(alike)}?" if alike else f"there is {', '.join(names)}"


def _last(name: str) -> str:
    """The column itself, without the table before it."""
    return name.strip("`").split(".")[-1].strip("`").lower()


def _unknown(kind: ErrorKind, what: str, quoted: str, hint: str | None) -> ErrorText:
    """A name that stands for nothing."""
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


def _struct_field(p: Mapping[str, str]) -> ErrorText:
    return ErrorText(
        f"there is no field {plain_name(p['fieldName'])}",
        f"the fields are {_names(p['fields'])}",
    )


def _table(p: Mapping[str, str]) -> ErrorText:
    name = p["relationName"]
    bare = name.replace("`", "")
    hint = "SHOW TABLES lists those that do"
    if "." in bare and Path(bare).is_file():
        hint = f"the file of that name is '{bare}', in quotes"
    return _unknown(ErrorKind.UNKNOWN_TABLE, "table", name, hint)


def _catalog(p: Mapping[str, str]) -> ErrorText:
    hint = "--conf spark.sql.catalog.NAME=CLASS adds one"
    return _unknown(ErrorKind.UNKNOWN_CATALOG, "catalog", p["catalogName"], hint)


def _name_below_catalog(p: Mapping[str, str]) -> ErrorText:
    """The first part of a name is no catalog, so Spark asks its own one, and that refuses."""
    first = _QUOTED.findall(p["identifier"])[0]
    if first.lower() == _OWN_CATALOG:
        return _table({"relationName": p["identifier"]})
    return _catalog({"catalogName": f"`{first}`"})


def _database_below_catalog(p: Mapping[str, str]) -> ErrorText:
    """The same of the name of a database."""
    first = _QUOTED.findall(p["namespace"])[0]
    if first.lower() == _OWN_CATALOG:
        return _database({"schemaName": p["namespace"]})
    return _catalog({"catalogName": f"`{first}`"})


def _database(p: Mapping[str, str]) -> ErrorText:
    name = p["schemaName"].removeprefix("`spark_catalog`.")
    return _unknown(
        ErrorKind.UNKNOWN_DATABASE, "database", name, "SHOW DATABASES lists those that do"
    )


# Functions of Flink's that Spark has under another name
_FLINKS_FUNCTIONS = {
    "array_concat": "CONCAT(array, array)",
    "from_base64": "UNBASE64(text)",
    "json_query": "GET_JSON_OBJECT(text, path)",
    "json_value": "GET_JSON_OBJECT(text, path)",
    "split_index": "SPLIT_PART(text, delimiter, n), which counts from 1",
    "to_base64": "BASE64(value)",
}


def _function(p: Mapping[str, str]) -> ErrorText:
    name = p["routineName"]
    known = _FLINKS_FUNCTIONS.get(plain_name(name).strip("`").lower())
    hint = "SHOW FUNCTIONS lists all" if known is None else f"Spark's is {known}"
    return _unknown(ErrorKind.UNKNOWN_FUNCTION, "function", name, hint)


def _argument_count(p: Mapping[str, str]) -> ErrorText:
    name, expected, actual = plain_name(p["functionName"]), p["expectedNum"], p["actualNum"]
    return ErrorText(f"{name} takes {expected} arguments, not {actual}")


def _ambiguous(p: Mapping[str, str]) -> ErrorText:
    return ErrorText(
        f"column {plain_name(p['name'])} is ambiguous", f"say {_or(p['referenceNames'])}"
    )


def _or(listed: str) -> str:
    return _names(listed).replace(", ", " or ")


def _not_grouped(p: Mapping[str, str]) -> ErrorText:
    expression = plain_type(p["expression"])
    return ErrorText(
        f"`{expression}` is neither grouped by nor aggregated",
        f"add it to GROUP BY, or take any_value({expression})",
    )


def _no_group_by(_: Mapping[str, str]) -> ErrorText:
    return ErrorText(
        "columns stand beside an aggregate function, but there is no GROUP BY",
        "add GROUP BY with the columns, or OVER () after the function",
    )


def _where_aggregate(p: Mapping[str, str]) -> ErrorText:
    return ErrorText(
        f"{p['expressionList']} cannot stand in WHERE", "HAVING filters after aggregation"
    )


def _nested_aggregate(_: Mapping[str, str]) -> ErrorText:
    return ErrorText(
        "an aggregate function stands inside another one", "aggregate in a subquery first"
    )


def _keys_are(listed: str) -> str:
    return f"the keys are {_COLUMN_NUMBER.sub('', listed).replace(',', ', ')}"


def _grouping_of_no_key(p: Mapping[str, str]) -> ErrorText:
    return ErrorText(
        "GROUPING asks about what is not among the group keys",
        _keys_are(p["groupingColumns"]),
        subject="GROUPING(",
    )


def _grouping_id_of_other_keys(p: Mapping[str, str]) -> ErrorText:
    return ErrorText(
        "GROUPING_ID takes all the group keys in their order, or nothing",
        _keys_are(p["groupByColumns"]),
        subject="GROUPING_ID(",
    )


def _union_columns(p: Mapping[str, str]) -> ErrorText:
    return ErrorText(
        f"{p['operator']} of {p['firstNumColumns']} and {p['invalidNumColumns']} columns",
        "both sides need the same number of columns",
    )


# Words that are mistyped where Spark expects one of them
_KEYWORDS = (
    *("ALTER", "CREATE", "DELETE", "DESCRIBE", "DROP", "EXPLAIN", "FROM", "GROUP", "HAVING"),
    *("INSERT", "INTO", "JOIN", "LIMIT", "MERGE", "ORDER", "SELECT", "SHOW", "UNION", "UPDATE"),
    *("VALUES", "WHERE", "WINDOW", "WITH"),
)
# Words of SQL that are near to one of those and no mistake
_ALL_KEYWORDS = frozenset({*_KEYWORDS, *"INT ROLLUP SET SETS USE WHEN".split()})


def _syntax(p: Mapping[str, str]) -> ErrorText:
    word = p["error"].strip("'")
    close = (
        nearest(word, _KEYWORDS) if word.isalpha() and word.upper() not in _ALL_KEYWORDS else None
    )
    said = f"syntax error at or near {p['error']}{p.get('hint', '')}"
    return ErrorText(said, f"did you mean {close}?" if close else None)


def _typed_literal(p: Mapping[str, str]) -> ErrorText:
    return ErrorText(f"{p['value']} is not a valid {plain_type(p['valueType'])}")


def _cast(p: Mapping[str, str]) -> ErrorText:
    return ErrorText(f"cannot cast {plain_type(p['srcType'])} to {plain_type(p['targetType'])}")


def _input_type(p: Mapping[str, str]) -> ErrorText:
    return ErrorText(
        f"{plain_type(p['inputSql'])} is {plain_type(p['inputType'])}, but "
        f"{plain_type(p['sqlExpr'])} needs {plain_type(p['requiredType']).strip('()')} there",
        None,
    )


def _operand_types(p: Mapping[str, str]) -> ErrorText:
    left, right = plain_type(p["left"]), plain_type(p["right"])
    return ErrorText(f"{plain_type(p['sqlExpr'])} mixes {left} and {right}", "cast one of the two")


def _bad_value(p: Mapping[str, str]) -> ErrorText:
    value, target = p["expression"], plain_type(p["targetType"])
    return ErrorText(f"{value} is not a valid {target}", "try_cast gives NULL instead")


def _too_big(p: Mapping[str, str]) -> ErrorText:
    value, target = p["value"], plain_type(p["targetType"])
    return ErrorText(f"{value} does not fit {target}", "try_cast gives NULL instead")


def _divide(_: Mapping[str, str]) -> ErrorText:
    return ErrorText(
        "division by zero", "try_divide, or NULLIF around the divisor, gives NULL instead"
    )


def _overflow(p: Mapping[str, str]) -> ErrorText:
    found = re.search(r"'(try_\w+)'", p.get("alternative", ""))
    alternative = found.group(1) if found else None
    what = p["message"].rstrip(". ")
    return ErrorText(
        "a number overflowed" if what in ("overflow", "Overflow") else what,
        f"cast to DECIMAL first, or {alternative} gives NULL instead"
        if alternative
        else "cast to DECIMAL or a wider type first",
    )


def _binary_overflow(p: Mapping[str, str]) -> ErrorText:
    return ErrorText(
        f"{p['value1']} {p['symbol']} {p['value2']} overflows",
        f"cast to a wider type first, or {p['functionName'].strip('`')} gives NULL instead",
    )


def _raised(p: Mapping[str, str]) -> ErrorText:
    # only where something failed: reading files takes modules of its own
    from runtime.detection.places import explained

    said = p["errorMessage"]
    text = explained(said)
    return ErrorText(said, kind=ErrorKind.RAISED) if text is None else ErrorText(*text)


def _scalar_subquery(_: Mapping[str, str]) -> ErrorText:
    return ErrorText(
        "a subquery that stands for one value gave more than one row", "LIMIT 1, or aggregate"
    )


def _no_path(p: Mapping[str, str]) -> ErrorText:
    return ErrorText(f"{plain_path(p['path'])} does not exist")


def _path_exists(p: Mapping[str, str]) -> ErrorText:
    return ErrorText(f"{plain_path(p['outputPath'])} exists already")


def _own_target(_: Mapping[str, str]) -> ErrorText:
    return ErrorText("the query reads what it would overwrite", "write to another table first")


def _no_schema(p: Mapping[str, str]) -> ErrorText:
    return ErrorText(
        f"there is no {p['format']} file to take the columns from", "declare the columns"
    )


def _no_provider(p: Mapping[str, str]) -> ErrorText:
    name = p.get("provider", "").rsplit(".", 1)[-1]
    return ErrorText(
        f"there is no data source `{name}`", "it may need --conf spark.jars.packages=..."
    )


def _illegal_parquet(p: Mapping[str, str]) -> ErrorText:
    return ErrorText(f"Spark has no type for Parquet's {p['parquetType']}")


def _static_setting(p: Mapping[str, str]) -> ErrorText:
    return ErrorText(f"{p['config']} can only be set when Spark starts", "give it as --conf")


_WORDS: Mapping[str, Callable[[Mapping[str, str]], ErrorText]] = {
    "UNRESOLVED_COLUMN": _column,
    "UNRESOLVED_FIELD": _field,
    "FIELD_NOT_FOUND": _struct_field,
    "TABLE_OR_VIEW_NOT_FOUND": _table,
    "CATALOG_NOT_FOUND": _catalog,
    "REQUIRES_SINGLE_PART_NAMESPACE": _name_below_catalog,
    "NESTED_DATABASE_UNSUPPORTED_BY_V1_SESSION_CATALOG": _database_below_catalog,
    "SCHEMA_NOT_FOUND": _database,
    "UNRESOLVED_ROUTINE": _function,
    "WRONG_NUM_ARGS": _argument_count,
    "AMBIGUOUS_REFERENCE": _ambiguous,
    "MISSING_AGGREGATION": _not_grouped,
    "MISSING_GROUP_BY": _no_group_by,
    "INVALID_WHERE_CONDITION": _where_aggregate,
    "NESTED_AGGREGATE_FUNCTION": _nested_aggregate,
    "GROUPING_COLUMN_MISMATCH": _grouping_of_no_key,
    "GROUPING_ID_COLUMN_MISMATCH": _grouping_id_of_other_keys,
    "NUM_COLUMNS_MISMATCH": _union_columns,
    "PARSE_SYNTAX_ERROR": _syntax,
    "INVALID_TYPED_LITERAL": _typed_literal,
    "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION": _cast,
    "DATATYPE_MISMATCH.CAST_WITH_CONF_SUGGESTION": _cast,
    "DATATYPE_MISMATCH.CAST_WITH_FUNC_SUGGESTION": _cast,
    "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE": _input_type,
    "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES": _operand_types,
    "CAST_INVALID_INPUT": _bad_value,
    "CAST_OVERFLOW": _too_big,
    "DIVIDE_BY_ZERO": _divide,
    "REMAINDER_BY_ZERO": _divide,
    "ARITHMETIC_OVERFLOW": _overflow,
    "BINARY_ARITHMETIC_OVERFLOW": _binary_overflow,
    "USER_RAISED_EXCEPTION": _raised,
    "SCALAR_SUBQUERY_TOO_MANY_ROWS": _scalar_subquery,
    "PATH_NOT_FOUND": _no_path,
    "PATH_ALREADY_EXISTS": _path_exists,
    "UNSUPPORTED_OVERWRITE": _own_target,
    "UNABLE_TO_INFER_SCHEMA": _no_schema,
    "DATA_SOURCE_NOT_FOUND": _no_provider,
    "PARQUET_TYPE_ILLEGAL": _illegal_parquet,
    "CANNOT_MODIFY_CONFIG": _static_setting,
    "CANNOT_MODIFY_STATIC_CONFIG": _static_setting,
}
