"""Where in a file of text a value stands that is not what its column is declared to be.

Spark's readers count no lines. What fails in a task carries the file and the value with it; the
line is looked for here, on the driver, in the one file.
"""

from __future__ import annotations

import csv
import io
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, cast
from urllib.parse import unquote

from runtime.detection.dialect import Dialect
from runtime.detection.json_text import excess_of, load_json
from runtime.detection.lines import PATTERN, REPEATED, SKIP_BELOW
from runtime.detection.log_lines import line_parser
from runtime.detection.sample import open_text_bytes
from runtime.detection.values import affixes_of
from runtime.errors import ExecutionError
from runtime.files import LocalFiles

# Between the parts of a message from a task, of which this is the first
BETWEEN = "\x1f"
VALUE, RECORD = "sqlwin:value", "sqlwin:record"
# Of a value or a record so many characters come with a message
MOST_CHARACTERS = 1000
_SHOWN_CHARACTERS = 60
# So long a file is searched
_SECONDS = 20.0


@dataclass(frozen=True)
class FileReading:
    """How the files of a table are read, as messages from tasks say it.

    Attributes:
        table: as errors call it.
        format: `csv`, `json` or `text`.
        column: the one at fault; empty: a record is.
        type: of the column, as it is shown.
        pattern: how its times are written, if that is said.
        index: of the column in a line; None: its header says.
        fields: names and types of all columns.
        delimiter, quote, escape, comment: those of `Dialect`.
        line_pattern: how lines are taken apart, of format `text`.
        skip, skip_below: those of `runtime.detection.lines.LineRules`.
        encoding: Spark's name of it; empty: UTF-8.
        has_header: whether the first line names the columns.
        nulls: words that stand for NULL already.
        by_name: whether the table is files by their path.
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

    def text(self) -> str:
        """As it goes into a message."""
        return json.dumps(asdict(self))


def explained_message(message: str) -> tuple[str, str | None] | None:
    """What a message from a task says and a hint; None if it is of another kind."""
    kind, *parts = message.split(BETWEEN)
    if kind not in (VALUE, RECORD) or len(parts) != 3:
        return None
    said: dict[str, Any] = json.loads(parts[0])
    said["fields"] = tuple((name, type_) for name, type_ in said["fields"])
    reading, path = FileReading(**said), _plain(parts[1])
    if kind == VALUE:
        return _misfit(reading, path, parts[2], _line_of_value(reading, path, parts[2]))
    line, whole = _line_of_record(reading, path, parts[2])
    return _broken(reading, path, whole or parts[2], line)


def _plain(uri: str) -> str:
    if not uri.startswith("file:"):
        return uri
    return "/" + unquote(uri.removeprefix("file:").lstrip("/"))


def _place(path: str, line: int | None) -> str:
    here = os.getcwd().rstrip("/") + "/"
    shown = path.removeprefix(here)
    return shown if line is None else f"{shown}, line {line}"


def _misfit(
    reading: FileReading, path: str, value: str, line: int | None
) -> tuple[str, str | None]:
    """A value that is not of its column's type."""
    name = reading.column
    as_written = f" written as {reading.pattern}" if reading.pattern else ""
    message = (
        f"{_place(path, line)}, column `{name}`: {_shown(value)} is no {reading.type}{as_written}"
    )
    ways = _ways_out(reading, value, line)
    return message, "; ".join([*filter(None, [", ".join(ways)]), _declared(reading)])


def _ways_out(reading: FileReading, value: str, line: int | None) -> list[str]:
    """The options that read a value which is not of its column's type."""
    name, is_csv = reading.column, reading.format == "csv"
    is_text = reading.format in ("csv", "text")
    is_word = not any(c.isdigit() for c in value)
    is_time = reading.type.startswith(("TIMESTAMP", "DATE"))
    if is_csv and is_word and not reading.has_header and line == reading.skip + 1:
        return ["'header' = 'true' takes the first line as the names of the columns"]
    if is_csv and reading.has_header and value.strip().lower() == name.lower():
        return [f"'{REPEATED}' = 'true' leaves out lines that repeat the header"]
    ways = []
    if is_time:
        ways.append(f"'fields.{name}.format' = '...' says how it is written")
    elif is_text and (symbols := affixes_of(value.strip())):
        ways.append(f"'{reading.format}.number-symbols' = '{'|'.join(symbols)}' reads the number")
    elif not reading.pattern and "," in value and not is_word:
        ways.append(f"'{reading.format}.decimal-separator' = ',' reads decimal commas")
    if is_csv and is_word and line == reading.skip + 2 and reading.has_header:
        ways.append(f"'{SKIP_BELOW}' = '1' leaves out the line below the header")
    if reading.format in ("csv", "json", "text") and len(value) <= _SHOWN_CHARACTERS:
        words = f"{reading.nulls}|{value}" if reading.nulls else value
        ways.append(f"'{reading.format}.null-literals' = '{words}' reads it as NULL")
    return ways


def _declared(reading: FileReading) -> str:
    if not reading.by_name:
        return "declared STRING the column takes every value"
    return (
        f"options stand behind the path, in /*+ OPTIONS(...) */, and SHOW CREATE TABLE "
        f"{reading.table} gives a statement in which the column can be STRING"
    )


def _broken(
    reading: FileReading, path: str, record: str, line: int | None
) -> tuple[str, str | None]:
    """A record that is no line of its table."""
    ignore = f"'{reading.format}.ignore-parse-errors' = 'true'"
    if reading.format == "text":
        return (
            f"{_place(path, line)}: {_shown(record)} does not match '{PATTERN}'",
            f"{ignore} leaves out such lines",
        )
    if reading.format == "json":
        return _broken_object(reading, path, record, line, ignore)
    try:
        n_fields = len(next(_dialect(reading).reader(io.StringIO(record, newline=""))))
    except (csv.Error, StopIteration, TypeError):
        n_fields = 0
    expected = len(reading.fields)
    what = (
        f"{n_fields} fields in place of {expected}"
        if n_fields not in (0, expected)
        else "a quote that is not closed, or other fields than its columns"
    )
    return (
        f"{_place(path, line)}: {_shown(record)} has {what}",
        f"{ignore} reads what is missing as NULL and leaves out what is too much; "
        "'csv.field-delimiter', 'csv.quote-character' and 'csv.escape-character' say how fields "
        "are separated",
    )


def _broken_object(
    reading: FileReading, path: str, record: str, line: int | None, ignore: str
) -> tuple[str, str | None]:
    place = _place(path, line)
    if (excess := excess_of(record)) is not None:
        what, option = excess
        return f"{place} {what}", f"{option} reads it, {ignore} leaves it out"
    try:
        found = load_json(record)
    except ValueError:
        if len(record) < MOST_CHARACTERS:
            return f"{place}: {_shown(record)} is no JSON", f"{ignore} leaves broken lines out"
        found = None
    if not isinstance(found, dict):
        return f"{place}: {_shown(record)} does not fit the columns", ignore + " reads it as NULL"
    values = {name.lower(): value for name, value in found.items()}
    for name, type_ in reading.fields:
        value = values.get(name.lower())
        if value is not None and not _is_of(value, type_):
            text = value if isinstance(value, str) else json.dumps(value)
            reading = FileReading(
                **{**asdict(reading), "column": name, "type": type_, "fields": reading.fields}
            )
            message, hint = _misfit(reading, path, text, line)
            return message, hint
    if "\ufffd" in record and reading.encoding.lower() in ("", "utf-8"):
        return (
            f"{place}: {_shown(record)} is not written in UTF-8",
            "'encoding' = 'windows-1252', or another one, says how it is written",
        )
    return f"{place}: {_shown(record)} does not fit the columns", f"{ignore} reads it as NULL"


def _is_of(value: Any, type_: str) -> bool:
    """Whether Spark reads a value of JSON as a type, as far as it is known here."""
    match type_.partition("(")[0].partition("<")[0].upper():
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            return isinstance(value, int) and not isinstance(value, bool)
        case "FLOAT" | "DOUBLE" | "DECIMAL":
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return is_number or value in ("NaN", "Infinity", "-Infinity")
        case "BOOLEAN":
            return isinstance(value, bool)
        case "DATE" | "TIMESTAMP" | "TIMESTAMP_NTZ":
            return isinstance(value, str) and value[:1].isdigit() and value[4:5] == "-"
        case "ARRAY":
            return isinstance(value, list)
        case "STRUCT" | "MAP":
            return isinstance(value, dict)
    return True


def _shown(text: str) -> str:
    line = text.strip().replace("\n", "\\n").replace("\r", "")
    cut = line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"
    return f"'{cut}'"


# -- lines -----------------------------------------------------------------------------------------


class _Lines:
    """The lines of a file, counted, for as long as there is time.

    Raises:
        TimeoutError: there is none left.
    """

    def __init__(self, reading: FileReading, path: str) -> None:
        self.number = 0
        self._reading = reading
        self._path = path

    def __iter__(self) -> Iterator[str]:
        ends_at = time.monotonic() + _SECONDS
        comment = self._reading.comment
        with open_text_bytes(LocalFiles(), self._path) as file:
            encoding = self._reading.encoding or "utf-8-sig"
            for line in io.TextIOWrapper(file, encoding, errors="replace", newline=""):
                self.number += 1
                if not self.number % 4096 and time.monotonic() > ends_at:
                    raise TimeoutError
                if self.number > self._reading.skip and not (comment and line.startswith(comment)):
                    yield line


# What can go wrong with a file that was there a moment ago: then its line is not known
# or the dialect is none of Python's
_UNKNOWN = (OSError, EOFError, LookupError, TypeError, csv.Error, ExecutionError)


def _dialect(reading: FileReading) -> Dialect:
    return Dialect(reading.delimiter, reading.quote, reading.escape, reading.comment)


def _line_of_value(reading: FileReading, path: str, value: str) -> int | None:
    """The line in which a column first has a value; None if that cannot be known."""
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
                folded = [cell.strip().lower() for cell in row]
                name = reading.column.lower()
                index = folded.index(name) if name in folded else index
                continue
            if index is not None and index < len(row) and _is_same(row[index], value):
                return begin
    except _UNKNOWN:
        return None
    return None


def _rows(reading: FileReading, lines: _Lines) -> Iterator[tuple[int, int, list[str]]]:
    """The rows of CSV: the line that each begins in, its number from 0 on, and its fields."""
    rows = cast("Any", _dialect(reading).reader(lines))
    number = n_lines = 0
    for row in rows:
        begin, n_lines = lines.number - (rows.line_num - n_lines) + 1, rows.line_num
        if row:
            yield begin, number, row
            number += 1


def _is_same(found: str, value: str) -> bool:
    return found[:MOST_CHARACTERS].strip() == value.strip()


def _line_of_field(reading: FileReading, path: str, value: str) -> int | None:
    lines = _Lines(reading, path)
    parse = load_json if reading.format == "json" else line_parser(reading.line_pattern)
    for line in lines:
        try:
            found = parse(line)
        except ValueError:
            continue
        if not isinstance(found, dict):
            continue
        for name, each in found.items():
            text = each if isinstance(each, str) else json.dumps(each)
            if name.lower() == reading.column.lower() and _is_same(text, value):
                return lines.number
    return None


def _line_of_record(reading: FileReading, path: str, record: str) -> tuple[int | None, str | None]:
    """The line at which a record begins, and its whole text; None if that cannot be known."""
    wanted = next((line for line in record.splitlines() if line.strip()), "").rstrip("\r\n")
    if not path.startswith("/") or not wanted:
        return None, None
    try:
        lines = _Lines(reading, path)
        for line in lines:
            if line.rstrip("\r\n") == wanted or (
                len(wanted) == MOST_CHARACTERS and line.startswith(wanted)
            ):
                # a record of CSV may go on in the next lines
                return lines.number, line if reading.format == "json" else None
    except _UNKNOWN:
        return None, None
    return None, None
