"""Location of the line in a text file whose value does not fit the declared column.

Spark's readers do not count lines. An error in a task carries only the file and the value, so the
driver searches that one file for the line.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, cast
from urllib.parse import unquote

from runtime.detection.dialect import Dialect
from runtime.detection.json_text import excess_of, load_json, load_json_at
from runtime.detection.kinds import SHOWN_CHARACTERS, affixes_of
from runtime.detection.lines import PATTERN, REPEATED, SKIP_BELOW, SKIP_PREFIXES, prefix_of_cell
from runtime.detection.log_lines import line_parser
from runtime.detection.sample import open_text_bytes
from runtime.errors import ExecutionError
from runtime.files import LocalFiles

# Separator of the parts of a task's message, which starts with one of the kinds below
BETWEEN = "\x1f"
VALUE, RECORD = "sqlwin:value", "sqlwin:record"
# Maximum characters of a value or a record in a message
MAX_CHARACTERS = 1000
# Time limit for searching a file
_SECONDS = 20.0


@dataclass(frozen=True)
class FileReading:
    """Description of how a table's files are read, included in messages from tasks.

    Attributes:
        table: Table name for error messages.
        format: `csv`, `json` or `text`.
        column: Column at fault. Empty if the whole record is.
        type: Type of the column for display.
        pattern: Time pattern of the column, if declared.
        index: Position of the column in a line. None if the header defines it.
        fields: Names and types of all columns.
        delimiter, quote, escape, comment: As in `Dialect`.
        line_pattern: Pattern that parses lines, for format `text`.
        skip, skip_below: As in `runtime.detection.lines.LineRules`.
        encoding: Spark's name of the encoding. Empty for UTF-8.
        has_header: Whether the first line names the columns.
        nulls: Words that already stand for NULL.
        by_name: Whether the table is a path in FROM.
    """

    table: str
    format: str
    column: str = ""
    type: str = ""
    pattern: str = ""
    index: int | None = None
    fields: tuple[tuple[str, str], ...] = ()
    delimiter: str = ","
    quote: str = '"'
    escape: str = '"'
    comment: str = ""
    encoding: str = ""
    has_header: bool = False
    nulls: str = ""
    by_name: bool = False
    skip: int = 0
    skip_below: int = 0
    line_pattern: str = ""

    def is_first_column(self) -> bool:
        """Return whether the column begins the lines."""
        is_declared_first = bool(self.fields) and self.fields[0][0] == self.column
        return is_declared_first if self.index is None else self.index == 0

    def message(self, kind: str) -> str:
        """Return the message of a task up to the file, which the text at fault follows."""
        return BETWEEN.join((kind, json.dumps(asdict(self)), ""))


def explain_message(message: str) -> tuple[str, str | None] | None:
    """Return error text and hint for a task's message, or None for messages of other kinds."""
    kind, *parts = message.split(BETWEEN)
    if kind not in (VALUE, RECORD) or len(parts) != 3:
        return None
    fields: dict[str, Any] = json.loads(parts[0])
    fields["fields"] = tuple((name, type_) for name, type_ in fields["fields"])
    reading, path = FileReading(**fields), _plain(parts[1])
    if kind == VALUE:
        return _misfit_error(reading, path, parts[2], _line_of_value(reading, path, parts[2]))
    line, record = _line_of_record(reading, path, parts[2])
    return _record_error(reading, path, record or parts[2], line)


def _plain(uri: str) -> str:
    if not uri.startswith("file:"):
        return uri
    return "/" + unquote(uri.removeprefix("file:").lstrip("/"))


def _place(path: str, line: int | None) -> str:
    directory = os.getcwd().rstrip("/") + "/"
    shown = path.removeprefix(directory)
    return shown if line is None else f"{shown}, line {line}"


def _misfit_error(
    reading: FileReading, path: str, value: str, line: int | None
) -> tuple[str, str | None]:
    """Return error text and hint for a value that does not fit the type of its column."""
    name = reading.column
    as_written = f" in the format {reading.pattern}" if reading.pattern else ""
    message = (
        f"{_place(path, line)}, column `{name}`: {_shorten(value)} is not a valid "
        f"{reading.type}{as_written}"
    )
    ways = _ways_out(reading, value, line)
    return message, "; ".join([*filter(None, [", ".join(ways)]), _string_advice(reading)])


def _ways_out(reading: FileReading, value: str, line: int | None) -> list[str]:
    """Return the options with which a value that does not fit its column could be read."""
    name, is_csv = reading.column, reading.format == "csv"
    is_text = reading.format in ("csv", "text")
    is_word = not any(c.isdigit() for c in value)
    is_time = reading.type.startswith(("TIMESTAMP", "DATE"))
    if is_csv and is_word and not reading.has_header and line == reading.skip + 1:
        return ["set 'header' = 'true' to use the first line as column names"]
    if is_csv and reading.has_header and value.strip().lower() == name.lower():
        return [f"set '{REPEATED}' = 'true' to skip repeated header lines"]
    ways = []
    if is_time:
        ways.append(f"set 'fields.{name}.format' = '...' to the format of the column")
    elif is_text and (symbols := affixes_of(value.strip())):
        ways.append(
            f"set '{reading.format}.number-symbols' = '{'|'.join(symbols)}' to read the number"
        )
    elif not reading.pattern and "," in value and not is_word:
        ways.append(f"set '{reading.format}.decimal-separator' = ',' for decimal commas")
    if is_csv and is_word and line == reading.skip + 2 and reading.has_header:
        ways.append(f"set '{SKIP_BELOW}' = '1' to skip the line below the header")
    elif is_csv and value[:1].isalpha() and reading.is_first_column() and "|" not in value:
        ways.append(f"set '{SKIP_PREFIXES}' = '{value.strip()}' to skip such lines")
    if reading.format in ("csv", "json", "text") and len(value) <= SHOWN_CHARACTERS:
        words = f"{reading.nulls}|{value}" if reading.nulls else value
        ways.append(f"set '{reading.format}.null-literals' = '{words}' to read it as NULL")
    return ways


def _string_advice(reading: FileReading) -> str:
    if not reading.by_name:
        return "declare the column STRING to accept every value"
    return (
        "options follow the path in /*+ OPTIONS(...) */; to read the column as STRING, "
        f"edit the statement that SHOW CREATE TABLE {reading.table} prints"
    )


def _record_error(
    reading: FileReading, path: str, record: str, line: int | None
) -> tuple[str, str | None]:
    """Return error text and hint for a record that does not fit its table."""
    ignore = f"'{reading.format}.ignore-parse-errors' = 'true'"
    if reading.format == "text":
        return (
            f"{_place(path, line)}: {_shorten(record)} does not match '{PATTERN}'",
            f"set {ignore} to skip such lines",
        )
    if reading.format == "json":
        return _object_error(reading, path, record, line, ignore)
    try:
        cells = next(_dialect(reading).reader(io.StringIO(record, newline="")))
    except (csv.Error, StopIteration, TypeError):
        cells = []
    n_fields = len(cells)
    expected = len(reading.fields)
    what = (
        f"{n_fields} fields instead of {expected}"
        if n_fields not in (0, expected)
        else "an unclosed quote, or fields other than the table's columns"
    )
    index = next((i for i, cell in enumerate(cells) if cell.strip()), len(cells))
    is_label = index < expected and reading.fields[index][1].upper() != "STRING"
    label = cells[index].strip() if is_label else ""
    prefix = prefix_of_cell(record, label) if label[:1].isalpha() else None
    skip = f"set '{SKIP_PREFIXES}' = '{prefix}' to skip such lines, or " if prefix else ""
    return (
        f"{_place(path, line)}: {_shorten(record)} has {what}",
        (
            f"{skip}set {ignore} to read missing fields as NULL and to skip extra ones, or check "
            "'csv.field-delimiter', 'csv.quote-character' and 'csv.escape-character'"
        ),
    )


def _object_error(
    reading: FileReading, path: str, record: str, line: int | None, ignore: str
) -> tuple[str, str | None]:
    place = _place(path, line)
    if (excess := excess_of(record)) is not None:
        what, option = excess
        return f"{place} {what}", f"set {option} to read it, or {ignore} to skip it"
    try:
        object_ = load_json(record)
    except ValueError:
        if len(record) < MAX_CHARACTERS:
            return (
                f"{place}: {_shorten(record)} is not valid JSON",
                f"set {ignore} to skip malformed lines",
            )
        object_ = None
    if not isinstance(object_, dict):
        return f"{place}: {_shorten(record)} does not fit the columns", ignore + " reads it as NULL"
    values = {name.lower(): value for name, value in object_.items()}
    for name, type_ in reading.fields:
        value = values.get(name.lower())
        if value is not None and not _is_of(value, type_):
            text = value if isinstance(value, str) else json.dumps(value)
            reading = FileReading(
                **{**asdict(reading), "column": name, "type": type_, "fields": reading.fields}
            )
            message, hint = _misfit_error(reading, path, text, line)
            return message, hint
    if "\ufffd" in record and reading.encoding.lower() in ("", "utf-8"):
        return (
            f"{place}: {_shorten(record)} is not UTF-8",
            "set 'encoding' to the encoding of the file, such as 'windows-1252'",
        )
    return (
        f"{place}: {_shorten(record)} does not fit the columns",
        f"set {ignore} to read it as NULL",
    )


def _is_of(value: Any, type_: str) -> bool:
    """Return whether Spark reads a JSON value as a type, as far as this module knows."""
    match type_.partition("(")[0].partition("<")[0].upper():
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            return isinstance(value, int) and not isinstance(value, bool)
        case "FLOAT" | "DOUBLE" | "DECIMAL":
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return is_number or value in ("NaN", "Infinity", "-Infinity")
        case "BOOLEAN":
            return isinstance(value, bool)
        case "DATE" | "TIMESTAMP":
            return isinstance(value, str) and value[:1].isdigit() and value[4:5] == "-"
        case "ARRAY":
            return isinstance(value, list)
        case "ROW" | "MAP":
            return isinstance(value, dict)
    return True


def _shorten(text: str) -> str:
    line = text.strip().replace("\n", "\\n").replace("\r", "")
    cut = line if len(line) <= SHOWN_CHARACTERS else f"{line[:SHOWN_CHARACTERS]}…"
    return f"'{cut}'"


# -- lines -----------------------------------------------------------------------------------------


class _Lines:
    """Lines of a file with their numbers, within a time limit.

    Raises:
        TimeoutError: The time limit has passed.
    """

    def __init__(self, reading: FileReading, path: str) -> None:
        self.number = 0
        self._reading = reading
        self._path = path

    def __iter__(self) -> Iterator[str]:
        ends_at = time.monotonic() + _SECONDS
        comment = self._reading.comment
        with open_text_bytes(LocalFiles(), self._path) as file:
            encoding = self._reading.encoding or "utf-8"
            for line in io.TextIOWrapper(file, encoding, errors="replace", newline=""):
                if self.number == 0:
                    line = line.removeprefix("\ufeff")
                self.number += 1
                if not self.number % 4096 and time.monotonic() > ends_at:
                    raise TimeoutError
                if self.number > self._reading.skip and not (comment and line.startswith(comment)):
                    yield line


# Errors of a file that existed a moment ago, or of a dialect that Python lacks: the line is unknown
_UNKNOWN = (OSError, EOFError, LookupError, TypeError, csv.Error, ExecutionError)


def _dialect(reading: FileReading) -> Dialect:
    return Dialect(reading.delimiter, reading.quote, reading.escape, reading.comment)


def _line_of_value(reading: FileReading, path: str, value: str) -> int | None:
    """Return the first line in which a column has a value, or None if it cannot be found."""
    if not path.startswith("/"):
        return None
    try:
        if reading.format in ("json", "text"):
            return _line_of_field(reading, path, value)
        lines = _Lines(reading, path)
        index = reading.index
        n_head = (1 + reading.skip_below) if reading.has_header else 0
        for begin, number, row in _rows(reading, lines):
            if number in range(1, n_head):
                continue
            if number < n_head:
                lower_cells = [cell.strip().lower() for cell in row]
                name = reading.column.lower()
                index = lower_cells.index(name) if name in lower_cells else index
                continue
            if index is not None and index < len(row) and _is_same(row[index], value):
                return begin
    except _UNKNOWN:
        return None
    return None


def _rows(reading: FileReading, lines: _Lines) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the rows of CSV: first line, row number from 0, and fields."""
    rows = cast("Any", _dialect(reading).reader(lines))
    number = n_lines = 0
    for row in rows:
        begin, n_lines = lines.number - (rows.line_num - n_lines) + 1, rows.line_num
        if row:
            yield begin, number, row
            number += 1


def _is_same(text: str, value: str) -> bool:
    # Java writes half of a surrogate pair, as in the JSON text "\\ud800", as a question mark
    whole = text[:MAX_CHARACTERS].encode(errors="replace").decode()
    return whole.strip() == value.strip()


def _line_of_field(reading: FileReading, path: str, value: str) -> int | None:
    lines = _Lines(reading, path)
    parse = _first_json if reading.format == "json" else line_parser(reading.line_pattern)
    for line in lines:
        try:
            values = parse(line)
        except ValueError:
            continue
        if not isinstance(values, dict):
            continue
        for name, value_ in values.items():
            text = value_ if isinstance(value_, str) else json.dumps(value_)
            if name.lower() == reading.column.lower() and _is_same(text, value):
                return lines.number
    return None


def _first_json(line: str) -> Any:
    """Parse the JSON value at the start of a line. Like Spark, ignore the text after it."""
    return load_json_at(line.lstrip(), 0)[0]


def _line_of_record(reading: FileReading, path: str, record: str) -> tuple[int | None, str | None]:
    """Return a record's first line and its text, or None for what cannot be found."""
    # splitlines() would also split at characters such as U+2028, which end no line of a file
    first_line = next((line for line in re.split("[\r\n]", record) if line.strip()), "")
    if not path.startswith("/") or not first_line:
        return None, None
    try:
        lines = _Lines(reading, path)
        for line in lines:
            if line.rstrip("\r\n") == first_line or (
                len(first_line) == MAX_CHARACTERS and line.startswith(first_line)
            ):
                # a CSV record may continue on the next lines
                return lines.number, line if reading.format == "json" else None
    except _UNKNOWN:
        return None, None
    return None, None
