"""Files and state as tables: `FROM 'logs/*.parquet'`, and what is written as a call in FROM.

That is DuckDB's `read_csv('f.csv', delim = ';')`, and the state of a stream in its checkpoint,
`TABLE(STATE('/data/checkpoints/name', version => 12))`.
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

# DuckDB's functions, and the format that each says; None: whatever the files are
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
# Their arguments, and the options of a table that say the same
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
    "thousands": "csv.thousands-separator",
}
# Those that ask for what is done anyway
_GRANTED = frozenset({"auto_detect", "hive_partitioning", "union_by_name"})

_STATE_USAGE = "TABLE(STATE('/data/checkpoints/name' [, operator => 0] [, version => 12]))"
_STATE_NUMBERS = ("operator", "version")


def parse_files(parser: TokenParser) -> exp.Table:
    """The files whose path is the string at the current token, with the options behind it."""
    first = parser._curr
    parser._advance()
    literal = parser.string_literal(first)
    table = _files(str(literal.name), literal)
    if not literal.name.strip():
        _fail(parser, literal, "the path of the files is empty", None)
    if (options := table_options(parser)) is not None:
        table.meta[TABLE_OPTIONS] = options
    return table


def files_of_call(parser: TokenParser, table: Any) -> Any:
    """What `read_csv('f.csv')` and its like stand for; any other table as it is.

    Raises:
        UnknownToSparkError: it has an argument that says nothing here.
    """
    call = table.this if isinstance(table, exp.Table) else None
    if not isinstance(call, exp.Anonymous) or call.name.lower() not in _READERS:
        return table
    name = call.name.lower()
    if not call.expressions:
        _fail(parser, call, f"{name} takes the path of files", f"{name}('data/*.csv')")
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
    listed = argument.expressions if isinstance(argument, exp.Array) else [argument]
    if not listed or not all(isinstance(each, exp.Literal) and each.is_string for each in listed):
        _fail(parser, argument, f"{name} takes the path of files, or a list of paths", None)
    return [str(each.name) for each in listed]


def _read_argument(
    parser: TokenParser, name: str, argument: exp.Expr, options: dict[str, str]
) -> None:
    if not isinstance(argument, exp.EQ | exp.PropertyEQ | exp.Kwarg):
        _fail(parser, argument, f"{name} takes one path, and then name = value", None)
    said = argument.this.name.lower()
    if said in _GRANTED:
        return
    option = _ARGUMENTS.get(said)
    if option is not None and options["format"] in ("json", "text"):
        option = option.replace("csv.", f"{options['format']}.")
    if option is None:
        close = nearest(said, _ARGUMENTS)
        _fail(
            parser,
            argument.this,
            f"{name} has no argument {said} here",
            f"did you mean {close}?"
            if close
            else "SHOW CREATE TABLE of the path gives a CREATE TABLE in which all can be said",
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
    """Whether `TABLE(STATE(` starts at the current token."""
    return parser.is_at_words("TABLE", "(", "STATE", "(")


def parse_state(parser: TokenParser) -> exp.Table:
    """The state at the current token, see `is_state`.

    Raises:
        UnknownToSparkError: an argument is missing, unknown or no number.
    """
    first = parser._curr
    parser._advance(4)
    if parser._curr.token_type not in STRINGS:
        _fail_state(parser, "STATE takes the directory of a checkpoint")
    directory = read_string(parser, "STATE takes the directory of a checkpoint")
    numbers: dict[str, int] = {}
    while parser._match(TokenType.COMMA):
        said, has_arrow = parser._curr.text.lower(), parser._next.token_type == TokenType.FARROW
        if said not in _STATE_NUMBERS or not has_arrow or said in numbers:
            _fail_state(parser, "STATE takes a directory, and then operator and version by name")
        parser._advance(2)
        number = parser._curr
        if number.token_type != TokenType.NUMBER or not number.text.isdecimal():
            _fail_state(parser, f"{said} is a whole number")
        parser._advance()
        numbers[said] = int(number.text)
    for _ in range(2):
        if parser._curr.token_type != TokenType.R_PAREN:
            _fail_state(parser, "a closing parenthesis is missing")
        parser._advance()
    table = StateTable(directory, numbers.get("operator"), numbers.get("version"))
    identifier = exp.Identifier(this=name_of_state(table), quoted=True)
    parser.span(identifier, first)
    found = exp.Table(this=identifier)
    found.meta[COLUMN_PREFIX] = "state"
    return found


def _fail_state(parser: TokenParser, message: str) -> NoReturn:
    at = parser._curr or parser._prev
    parser.fail(message, at, hint=_STATE_USAGE, error=UnknownToSparkError)
