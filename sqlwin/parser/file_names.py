"""Files and state as tables: `FROM 'logs/*.parquet'`, and calls in FROM.

Calls are DuckDB's `read_csv('f.csv', delim = ';')`, and `TABLE(STATE('/data/checkpoints/name',
version => 12))` for the state of a stream in its checkpoint.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from planner.sql.nodes import (
    COLUMN_PREFIX,
    TABLE_OPTIONS,
    StateTable,
    TableOptions,
    name_of_files,
    name_of_state,
    position_of,
    span_of,
)
from planner.sql.render import RAW
from runtime.errors import nearest
from sqlwin.parser.base import PLACE, STRINGS, TokenParser, UnknownToSparkError, read_string
from sqlwin.parser.hints import table_options
from sqlwin.parser.strings import pattern_value

# DuckDB's functions and their format. None detects the format.
_READERS = {
    "read_csv": "csv",
    "read_csv_auto": "csv",
    "read_json": "json",
    "read_json_auto": "json",
    "read_ndjson": "json",
    "read_ndjson_auto": "json",
    "read_parquet": "parquet",
    "parquet_scan": "parquet",
    "read_text": "text",
}
# Arguments of these functions and the equivalent table options
_ARGUMENTS = {
    "comment": "csv.comment",
    "compression": "compression",
    "decimal_separator": "csv.decimal-separator",
    "delim": "csv.field-delimiter",
    "delimiter": "csv.field-delimiter",
    "encoding": "encoding",
    "escape": "csv.escape-character",
    "header": "header",
    "ignore_errors": "csv.ignore-parse-errors",
    "nullstr": "csv.null-literals",
    "pattern": "text.pattern",
    "number_symbols": "csv.number-symbols",
    "quote": "csv.quote-character",
    "records": "json.records",
    "sep": "csv.field-delimiter",
    "skip": "csv.skip-lines",
    "skip_below_header": "csv.skip-lines-below-header",
    "skip_starting_with": "csv.skip-lines-starting-with",
    "thousands": "csv.thousands-separator",
}
# Arguments that request the default behaviour
_GRANTED = frozenset({"auto_detect", "hive_partitioning", "union_by_name"})

_STATE_USAGE = "TABLE(STATE('/data/checkpoints/name' [, operator => 0] [, version => 12]))"
_STATE_NUMBERS = ("operator", "version")


def parse_files(parser: TokenParser) -> exp.Table:
    """Read the files whose path is the string at the current token, and the options after it."""
    first = parser._curr
    parser._advance()
    literal = parser.string_literal(first)
    table = _files(str(literal.name), literal)
    if not literal.name.strip():
        _fail(parser, literal, "the file path is empty", None)
    if (options := table_options(parser)) is not None:
        table.meta[TABLE_OPTIONS] = options
    return table


def files_of_call(parser: TokenParser, table: Any) -> Any:
    """Replace `read_csv('f.csv')` and the like by the files; return any other table unchanged.

    Raises:
        UnknownToSparkError: An argument is not supported.
    """
    call = table.this if isinstance(table, exp.Table) else None
    if not isinstance(call, exp.Anonymous) or call.name.lower() not in _READERS:
        return table
    name = call.name.lower()
    if not call.expressions:
        _fail(parser, call, f"{name} requires a file path", f"{name}('data/*.csv')")
    paths = _paths(parser, name, call.expressions[0])
    options: dict[str, str] = {"format": _READERS[name]}
    for argument in call.expressions[1:]:
        _read_argument(parser, name, argument, options)
    files = _files(paths[0] if len(paths) == 1 else f"{{{','.join(paths)}}}", call)
    span, last = span_of(call), parser._prev
    start = last.start if span is None else span.start
    files.meta[TABLE_OPTIONS] = TableOptions(tuple(options.items()), start, last.end)
    return files


def _files(path: str, at: exp.Expr) -> exp.Table:
    identifier = exp.Identifier(this=name_of_files(path), quoted=True)
    identifier.meta.update({k: at.meta[k] for k in PLACE if k in at.meta})
    table = exp.Table(this=identifier)
    stem = path.rstrip("/").rpartition("/")[2].partition(".")[0]
    if re.fullmatch(r"\w+", stem):
        table.meta[COLUMN_PREFIX] = stem
    return table


def _paths(parser: TokenParser, name: str, argument: exp.Expr) -> list[str]:
    paths = argument.expressions if isinstance(argument, exp.Array) else [argument]
    if not paths or not all(isinstance(path, exp.Literal) and path.is_string for path in paths):
        _fail(parser, argument, f"{name} requires a file path or a list of file paths", None)
    return [str(path.name) for path in paths]


def _read_argument(
    parser: TokenParser, name: str, argument: exp.Expr, options: dict[str, str]
) -> None:
    if not isinstance(argument, exp.EQ | exp.PropertyEQ | exp.Kwarg):
        _fail(parser, argument, f"{name} takes one path, followed by name = value", None)
    keyword = argument.this.name.lower()
    if keyword in _GRANTED:
        return
    option = _ARGUMENTS.get(keyword)
    if option is not None and options["format"] in ("json", "text"):
        option = option.replace("csv.", f"{options['format']}.")
    if option is None:
        close = nearest(keyword, _ARGUMENTS)
        _fail(
            parser,
            argument.this,
            f"unknown argument {keyword} of {name}",
            f"did you mean {close}?"
            if close
            else "for other options, edit the result of SHOW CREATE TABLE 'path'",
        )
    value = argument.expression
    words = value.expressions if isinstance(value, exp.Array) else [value]
    if option == "text.pattern" and RAW in value.meta:
        options[option] = pattern_value(value.meta[RAW])
        return
    options[option] = "|".join(_text(word) for word in words)


def _text(value: exp.Expr) -> str:
    return str(value.this).lower() if isinstance(value, exp.Boolean) else str(value.name)


def _fail(parser: TokenParser, node: exp.Expr, message: str, hint: str | None) -> NoReturn:
    position = position_of(node, parser.sql) or parser.place(parser._prev)
    raise UnknownToSparkError(message, position=position, sql=parser.sql, hint=hint)


def is_state(parser: TokenParser) -> bool:
    """Return whether `TABLE(STATE(` starts at the current token."""
    return parser.is_at_words("TABLE", "(", "STATE", "(")


def parse_state(parser: TokenParser) -> exp.Table:
    """Read the state at the current token; see `is_state`.

    Raises:
        UnknownToSparkError: An argument is missing, unknown or not a number.
    """
    first = parser._curr
    parser._advance(4)
    if parser._curr.token_type not in STRINGS:
        _fail_state(parser, "STATE requires the directory of a checkpoint")
    directory = read_string(parser, "STATE requires the directory of a checkpoint")
    numbers: dict[str, int] = {}
    while parser._match(TokenType.COMMA):
        argument, has_arrow = parser._curr.text.lower(), parser._next.token_type == TokenType.FARROW
        if argument not in _STATE_NUMBERS or not has_arrow or argument in numbers:
            _fail_state(
                parser, "STATE takes a directory, then operator => number and version => number"
            )
        parser._advance(2)
        number = parser._curr
        if number.token_type != TokenType.NUMBER or not number.text.isdecimal():
            _fail_state(parser, f"{argument} must be a whole number")
        parser._advance()
        numbers[argument] = int(number.text)
    for _ in range(2):
        if parser._curr.token_type != TokenType.R_PAREN:
            _fail_state(parser, "missing closing parenthesis")
        parser._advance()
    table = StateTable(directory, numbers.get("operator"), numbers.get("version"))
    identifier = exp.Identifier(this=name_of_state(table), quoted=True)
    parser.span(identifier, first)
    state_table = exp.Table(this=identifier)
    state_table.meta[COLUMN_PREFIX] = "state"
    return state_table


def _fail_state(parser: TokenParser, message: str) -> NoReturn:
    at = parser._curr or parser._prev
    parser.fail(message, at, hint=_STATE_USAGE, error=UnknownToSparkError)
