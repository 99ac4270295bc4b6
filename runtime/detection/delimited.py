"""Columns of delimited text: names from a header, types from the values of a sample."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from runtime.detection.dialect import Dialect, find_dialect
from runtime.detection.sample import Sample
from runtime.detection.values import NULL_WORDS, Habits, ValueKind, habits_of, is_typed, value_kind
from runtime.errors import CatalogError, ExecutionError
from runtime.spec.table import TableColumn

# Between words that stand for NULL, in one option
BETWEEN_WORDS = "|"
_NAME = re.compile(r"[^\W\d][\w .()/%°€$#:-]*")
_FITTING = 0.9


@dataclass(frozen=True)
class Delimited:
    """What delimited text is.

    Attributes:
        columns: with Spark's types.
        options: of a table, beside those that were given.
        notes: what the sample does not say.
        fits: whether most lines have the same number of fields, and more than one.
    """

    columns: tuple[TableColumn, ...]
    options: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    fits: bool


def find_columns(samples: Sequence[Sample], given: Mapping[str, str]) -> Delimited:
    """What some files of delimited text are.

    Args:
        samples: of the files; the first one counts most.
        given: what is declared, by Spark's names of options (`sep`, `quote`, `escape`, `header`,
            `nullValue`), and `decimal`, `thousands`, `nulls`.

    Raises:
        ExecutionError: there is not one line.
        CatalogError: headers or numbers of fields differ between files.
    """
    first = next((sample for sample in samples if sample.text.strip()), None)
    if first is None:
        raise ExecutionError(
            f"{samples[0].path} is empty: there is nothing to take the columns from",
            subjects=(samples[0].path,),
            hint="declare the columns in CREATE TABLE",
        )
    delimiter = given.get("sep", given.get("delimiter"))
    if delimiter is not None and len(delimiter) != 1:
        raise CatalogError(
            f"the delimiter {delimiter!r} has several characters, and such files are not looked "
            "into",
            subjects=(f"'{delimiter}'",),
            hint="declare the columns in CREATE TABLE",
        )
    dialect = find_dialect(first.text, delimiter, given.get("quote"), given.get("escape"))
    tables = [(s, dialect.rows(s.text)) for s in samples if s.text.strip()]
    width = _width(tables[0][1])
    body = [row for _, rows in tables for row in rows[1:]]
    has_header = (
        given["header"].lower() == "true"
        if "header" in given
        else _has_header(tables[0][1][0], [row for row in body if len(row) == width])
    )
    if has_header:
        _check_headers([(sample, rows[0]) for sample, rows in tables])
        header = tables[0][1][0]
        width = len(header)
        rows = [row for row in body if len(row) == width]
    else:
        _check_widths([(sample, _width(rows)) for sample, rows in tables])
        header = []
        rows = [row for _, found in tables for row in found if len(row) == width]
    n_rows = sum(len(found) - has_header for _, found in tables)
    names = _names(header, width)
    # what a value is does not depend on how often it comes
    fields = [list(dict.fromkeys(row[i] for row in rows)) for i in range(width)]
    kinds, habits_options, notes = _kinds(names, fields, given)
    options = {
        **_dialect_options(dialect, given, tables, rows, header),
        **({"header": "true"} if has_header and "header" not in given else {}),
        **habits_options,
    }
    if first.encoding and "encoding" not in given:
        options["encoding"] = first.encoding
        if first.encoding == "UTF-16":
            options["multiLine"] = "true"  # Spark cuts files into lines by single bytes
    if has_header and names != [cell.strip() for cell in header]:
        options["enforceSchema"] = "true"  # names are not those of the header
    if not rows:
        notes = [*notes, "there are no rows to take types from: all columns are STRING"]
    columns = tuple(
        TableColumn(name, kind.type.upper()) for name, kind in zip(names, kinds, strict=True)
    )
    fits = width > 1 and len(rows) >= _FITTING * n_rows
    return Delimited(columns, tuple(options.items()), tuple(notes), fits)


def _width(rows: Sequence[Sequence[str]]) -> int:
    return Counter(map(len, rows)).most_common(1)[0][0] if rows else 0


def _has_header(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first line names the columns: its fields are not what is below them."""
    cells = [cell.strip() for cell in first]
    named = [cell for cell in cells if cell]
    # a header may have some that are no plain names, such as `% of total` or `is ok?`
    plain = [cell for cell in named if _NAME.fullmatch(cell)]
    if 2 * len(plain) <= len(named):
        return False
    if any(is_typed(cell) for cell in named if cell not in NULL_WORDS):
        return False
    if not rows:
        return plain == named
    for cell, values in zip(cells, zip(*rows, strict=False), strict=False):
        full = [value for value in values if value]
        if full and cell in plain and all(map(is_typed, full)):
            return True  # a word above numbers or times
    # texts above texts: names are short, of one kind, and come again in no line
    below = {value.strip() for row in rows for value in row}
    return plain == named and len(set(named)) == len(named) and not below & set(named)


def _check_headers(headers: Sequence[tuple[Sample, Sequence[str]]]) -> None:
    (first, expected), *others = headers
    for sample, header in others:
        if list(header) != list(expected):
            raise CatalogError(
                f"the headers of files differ: {first.path} has {', '.join(expected)}, and "
                f"{sample.path} has {', '.join(header)}",
                subjects=(sample.path,),
                hint="give files of one header, by a glob that leaves the others out",
            )


def _check_widths(widths: Sequence[tuple[Sample, int]]) -> None:
    (first, expected), *others = widths
    for sample, width in others:
        if width != expected:
            raise CatalogError(
                f"files have different columns: {first.path} has {expected}, and {sample.path} "
                f"has {width}",
                subjects=(sample.path,),
                hint="give files of one kind, by a glob that leaves the others out",
            )


def _names(header: Sequence[str], width: int) -> list[str]:
    """Names of columns, as Spark makes them of a header: each once, none empty."""
    if not header:
        return [f"column{i}" for i in range(width)]
    cells = [cell.strip() for cell in header]
    counts = Counter(cell.lower() for cell in cells)
    return [
        f"_c{i}" if not cell else f"{cell}{i}" if counts[cell.lower()] > 1 else cell
        for i, cell in enumerate(cells)
    ]


def _kinds(
    names: Sequence[str], fields: Sequence[Sequence[str]], given: Mapping[str, str]
) -> tuple[list[ValueKind], dict[str, str], list[str]]:
    """What each column is, the options that say how it is written, and notes."""
    said = [word for word in given.get("nulls", "").split(BETWEEN_WORDS) if word]
    said += [given["nullValue"]] if given.get("nullValue") else []
    full = [[v for v in values if v.strip() and v not in said] for values in fields]
    habits = habits_of(full)
    if "decimal" in given:
        habits = replace(habits, decimal=given["decimal"], is_certain=True)
    kinds = [value_kind(name, values, habits) for name, values in zip(names, full, strict=True)]
    decimal = _agreed([kind.decimal for kind in kinds], habits)
    group = given.get("thousands") or next((k.group for k in kinds if k.group), "")
    notes = []
    for i, kind in enumerate(kinds):
        if kind.note:
            notes.append(kind.note)
        # a file has one way of writing numbers; columns that have another one stay as they are
        differs = (kind.decimal or decimal) != decimal or (kind.group or group) != group
        is_plain = kind.type == "double" and not kind.decimal and decimal != "."
        if differs or is_plain:
            notes.append(f"`{names[i]}` is STRING: other columns write numbers another way")
            kinds[i] = ValueKind("string")
    options: dict[str, str] = {}
    words = sorted({word for kind in kinds for word in kind.null_words})
    if words and not said:
        key = "csv.null-literal" if len(words) == 1 else "csv.null-literals"
        options[key] = BETWEEN_WORDS.join(words)
    if decimal != "." and "decimal" not in given:
        options["csv.decimal-separator"] = decimal
    if group and "thousands" not in given:
        options["csv.thousands-separator"] = group
    for name, kind in zip(names, kinds, strict=True):
        if kind.format:
            options[f"fields.{name}.format"] = kind.format
    return kinds, options, notes


def _agreed(decimals: Sequence[str], habits: Habits) -> str:
    found = Counter(filter(None, decimals))
    if not found:
        return habits.decimal if habits.is_certain else "."
    return found.most_common(1)[0][0]


def _dialect_options(
    dialect: Dialect,
    given: Mapping[str, str],
    tables: Sequence[tuple[Sample, Sequence[Sequence[str]]]],
    rows: Sequence[Sequence[str]],
    header: Sequence[str],
) -> dict[str, str]:
    options: dict[str, str] = {}
    if dialect.delimiter != "," and not {"sep", "delimiter"} & set(given):
        options["csv.field-delimiter"] = "\\t" if dialect.delimiter == "\t" else dialect.delimiter
    if dialect.quote != '"' and "quote" not in given:
        options["csv.quote-character"] = dialect.quote
    if dialect.escape == "\\" and "escape" not in given:
        options["csv.escape-character"] = dialect.escape
    if dialect.comment and "comment" not in given:
        options["csv.allow-comments"] = "true"
    if "multiLine" not in given and any(
        "\n" in cell for _, found in tables for row in found for cell in row
    ):
        options["multiLine"] = "true"
    cells = [cell for row in (header, *rows) for cell in row]
    if any(cell != cell.strip() and cell.strip() for cell in cells):
        for name in ("ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace"):
            if name not in given:
                options[name] = "true"
    return options
