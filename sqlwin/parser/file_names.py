"""Files as tables: `FROM 'logs/*.parquet'`, and DuckDB's `read_csv('f.csv', delim = ';')`."""

from __future__ import annotations

import re
from typing import Any, NoReturn

from sqlglot import exp

from planner.sql.nodes import FILE_ALIAS, TABLE_OPTIONS, TableOptions, name_of_files
from runtime.errors import Position, nearest
from sqlwin.parser.base import TokenParser
from sqlwin.parser.hints import table_options
from sqlwin.parser.other_dialects import PortedSyntaxError

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
}
# Their arguments, and the options of a table that say the same
_ARGUMENTS = {
    "compression": "compression",
    "decimal_separator": "csv.decimal-separator",
    "delim": "csv.field-delimiter",
    "delimiter": "csv.field-delimiter",
    "encoding": "encoding",
    "escape": "csv.escape-character",
    "header": "header",
    "ignore_errors": "csv.ignore-parse-errors",
    "nullstr": "csv.null-literals",
    "quote": "csv.quote-character",
    "sep": "csv.field-delimiter",
    "thousands": "csv.thousands-separator",
}
# Those that ask for what is done anyway
_GRANTED = frozenset({"auto_detect", "hive_partitioning", "union_by_name"})


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
        PortedSyntaxError: it has an argument that says nothing here.
    """
    call = table.this if isinstance(table, exp.Table) else None
    if not isinstance(call, exp.Anonymous) or call.name.lower() not in _READERS:
        return table
    name = call.name.lower()
    if not call.expressions:
        _fail(parser, call, f"{name} takes the path of files", f"{name}('data/*.csv')")
    paths = _paths(parser, name, call.expressions[0])
    options = {"format": _READERS[name]}
    for argument in call.expressions[1:]:
        _read_argument(parser, name, argument, options)
    files = _files(paths[0] if len(paths) == 1 else f"{{{','.join(paths)}}}", call)
    start, end = _span(parser, call)
    files.meta[TABLE_OPTIONS] = TableOptions(tuple(options.items()), start, end)
    return files


def _files(path: str, at: exp.Expr) -> exp.Table:
    identifier = exp.Identifier(this=name_of_files(path), quoted=True)
    identifier.meta.update({k: at.meta[k] for k in ("line", "col", "start", "end") if k in at.meta})
    table = exp.Table(this=identifier)
    stem = path.rstrip("/").rpartition("/")[2].partition(".")[0]
    if re.fullmatch(r"\w+", stem):
        table.meta[FILE_ALIAS] = stem
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
    options[option] = "|".join(_text(word) for word in words)


def _text(value: exp.Expr) -> str:
    if isinstance(value, exp.Boolean):
        return "true" if value.this else "false"
    return str(value.name)


def _span(parser: TokenParser, node: exp.Expr) -> tuple[int, int]:
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    last = parser._prev
    return min(starts, default=last.start), last.end


def _fail(parser: TokenParser, node: exp.Expr, message: str, hint: str | None) -> NoReturn:
    start, end = _span(parser, node)
    ends = [part.meta["end"] for part in node.walk() if "end" in part.meta]
    length = max(ends, default=end) - start + 1
    position = Position.at(parser.sql, start, length)
    raise PortedSyntaxError(message, position=position, sql=parser.sql, hint=hint)
