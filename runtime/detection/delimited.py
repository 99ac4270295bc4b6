"""Detect the columns of delimited text: names from a header, types from sampled values."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from runtime.detection.dialect import Dialect, find_dialect
from runtime.detection.epochs import whole_times_note, years_of
from runtime.detection.heads import Head, find_head, has_header
from runtime.detection.kinds import (
    NULL_WORDS,
    Habits,
    ValueKind,
    habits_of,
    is_number,
    value_kind,
    without_symbols,
)
from runtime.detection.lines import (
    SKIP,
    SKIP_BELOW,
    LineRules,
    named_delimiter,
    prefixes_of,
    without_head,
    without_prefixes,
)
from runtime.detection.misfits import BETWEEN_WORDS, Given, SampledTable, notes_on_misfits
from runtime.detection.sample import Sample
from runtime.errors import CatalogError, ExecutionError
from runtime.spec.table import TableColumn

_FITTING = 0.9


@dataclass(frozen=True)
class DelimitedText:
    """Result of detecting delimited text.

    Attributes:
        columns: Columns with Spark types.
        options: Detected table options, in addition to the declared ones.
        notes: Notes about points that the sample leaves open.
        fits: Whether most lines have the same number of fields, and more than one.
    """

    columns: tuple[TableColumn, ...]
    options: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    fits: bool


def find_columns(samples: Sequence[Sample], declared: Mapping[str, str]) -> DelimitedText:
    """Detect the columns and options of files of delimited text.

    Args:
        samples: Samples of the files. The first one determines dialect and header.
        declared: Declared options under Spark's names (`sep`, `quote`, `escape`, `header`,
            `nullValue`, `comment`), and `decimal`, `thousands`, `nulls`, `symbols`, `skip`,
            `below`, `repeats`, `prefixes`.

    Raises:
        ExecutionError: All samples are empty.
        CatalogError: Headers or numbers of fields differ between files.
    """
    first = next((sample for sample in samples if sample.text.strip()), None)
    if first is None:
        raise ExecutionError(
            f"{samples[0].path} is empty, so columns cannot be inferred",
            subjects=(samples[0].path,),
            hint="declare the columns in CREATE TABLE",
        )
    delimiter = declared.get("sep", declared.get("delimiter"))
    if delimiter is not None and len(delimiter) != 1:
        raise CatalogError(
            f"columns cannot be inferred with the multi-character delimiter {delimiter!r}",
            subjects=(f"'{delimiter}'",),
            hint="declare the columns in CREATE TABLE",
        )
    skip = _count(declared.get("skip", "0"))
    excel_delimiter = None if "skip" in declared else named_delimiter(first.text)
    if excel_delimiter is not None:
        skip, delimiter = 1, delimiter or excel_delimiter
    text = without_head(first.text, LineRules(skip))
    quoting = (delimiter, declared.get("quote"), declared.get("escape"), declared.get("comment"))
    dialect = find_dialect(text, *quoting)
    head = _head(text, dialect, declared, is_named=excel_delimiter is not None)
    if head.skip:
        text = without_head(text, LineRules(head.skip))
        dialect = find_dialect(text, *quoting)
    head = Head(skip + head.skip, head.below)
    rules = LineRules(head.skip)
    prefixes = prefixes_of(declared.get("prefixes", ""))
    tables = [
        (s, dialect.rows(without_prefixes(without_head(s.text, rules), prefixes, dialect.comment)))
        for s in samples
        if s.text.strip()
    ]
    if not tables[0][1]:
        raise ExecutionError(
            f"{first.path} has no line after the {head.skip} lines that '{SKIP}' skips",
            subjects=(first.path,),
        )
    tables = [(sample, rows) for sample, rows in tables if rows]
    width = _width(tables[0][1])
    body = [row for _, rows in tables for row in rows[1 + head.below :]]
    is_headed = (
        declared["header"].lower() == "true"
        if "header" in declared
        else head.below > 0
        or has_header(
            tables[0][1][0],
            [row for row in body if len(row) == width and row != tables[0][1][0]],
        )
    )
    if is_headed:
        _check_headers([(sample, rows[0]) for sample, rows in tables])
        header = tables[0][1][0]
        width = len(header)
        if declared.get("repeats", "").lower() == "true":
            body = [row for row in body if row != header]
        rows = [row for row in body if len(row) == width]
    else:
        _check_widths([(sample, _width(rows)) for sample, rows in tables])
        header = []
        rows = [row for _, table in tables for row in table if len(row) == width]
    n_rows = sum(len(table) - is_headed for _, table in tables)
    names = column_names(header, width)
    # the type depends on the distinct values only
    fields = [list(dict.fromkeys(row[i] for row in rows)) for i in range(width)]
    table = SampledTable([sample for sample, _ in tables], dialect, head.skip, rows, tables[0][1])
    kinds, habits_options, notes = _kinds(names, fields, declared, table, is_headed)
    on_head = _notes_on_head(head, declared, is_named=excel_delimiter is not None)
    notes = [*_notes_on_names(header, names), *on_head, *notes]
    options = {
        **_head_options(head, declared),
        **_dialect_options(dialect, declared, tables, rows, header),
        **({"header": "true"} if is_headed and "header" not in declared else {}),
        **habits_options,
    }
    if first.encoding and "encoding" not in declared:
        options["encoding"] = first.encoding
        if first.encoding == "UTF-16":
            options["multiLine"] = "true"  # Spark splits files into lines at single bytes
    if is_headed and names != [cell.strip() for cell in header]:
        options["enforceSchema"] = "true"  # the header has other names
    if not rows:
        notes = [*notes, "all columns are STRING, because there are no rows to infer types from"]
    columns = tuple(
        TableColumn(name, kind.type.upper()) for name, kind in zip(names, kinds, strict=True)
    )
    fits = width > 1 and len(rows) >= _FITTING * n_rows
    return DelimitedText(columns, tuple(options.items()), tuple(notes), fits)


def _width(rows: Sequence[Sequence[str]]) -> int:
    return Counter(map(len, rows)).most_common(1)[0][0] if rows else 0


def _check_headers(headers: Sequence[tuple[Sample, Sequence[str]]]) -> None:
    (first, expected), *others = headers
    for sample, header in others:
        if list(header) != list(expected):
            raise CatalogError(
                f"the headers of files differ: {first.path} has {', '.join(expected)}; "
                f"{sample.path} has {', '.join(header)}",
                subjects=(sample.path,),
                hint="use a glob that matches only files with the same header",
            )


def _check_widths(widths: Sequence[tuple[Sample, int]]) -> None:
    (first, expected), *others = widths
    for sample, width in others:
        if width != expected:
            raise CatalogError(
                f"files have different numbers of columns: {first.path} has {expected}; "
                f"{sample.path} has {width}",
                subjects=(sample.path,),
                hint="use a glob that matches only files with the same columns",
            )


def column_names(header: Sequence[str], width: int) -> list[str]:
    """Return column names as Spark derives them from a header: unique and not empty."""
    if not header:
        return [f"column{i}" for i in range(width)]
    cells = [cell.strip() for cell in header]
    counts = Counter(cell.lower() for cell in cells)
    return [
        f"_c{i}" if not cell else f"{cell}{i}" if counts[cell.lower()] > 1 else cell
        for i, cell in enumerate(cells)
    ]


def _notes_on_names(header: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return which columns of a header have other names, because they share one."""
    renamed: dict[str, list[str]] = {}
    spelled: dict[str, str] = {}
    for cell, name in zip(header, names, strict=False):
        if cell.strip() and cell.strip() != name:
            renamed.setdefault(cell.strip().lower(), []).append(f"`{name}`")
            spelled.setdefault(cell.strip().lower(), cell.strip())
    return [
        f"{len(new)} columns are named `{spelled[folded]}`; they are "
        f"{', '.join(new[:-1])} and {new[-1]} here"
        for folded, new in renamed.items()
    ]


def _count(text: str) -> int:
    """Return a number of lines; 0 for other texts, which option validation rejects."""
    return int(text) if text.strip().isdecimal() else 0


def _head(text: str, dialect: Dialect, declared: Mapping[str, str], *, is_named: bool) -> Head:
    """Detect those parts of a text's head that are not declared."""
    below = _count(declared["below"]) if "below" in declared else None
    if declared.get("header", "true").lower() == "false":
        return Head()
    try:
        width = _width(dialect.rows(text))
    except csv.Error:
        return Head(0, below or 0)
    return find_head(
        text, dialect, width, skips="skip" not in declared and not is_named, below=below
    )


def _head_options(head: Head, declared: Mapping[str, str]) -> dict[str, str]:
    options = {}
    if head.skip and "skip" not in declared:
        options[SKIP] = str(head.skip)
    if head.below and "below" not in declared:
        options[SKIP_BELOW] = str(head.below)
    return options


def _notes_on_head(head: Head, declared: Mapping[str, str], *, is_named: bool) -> list[str]:
    notes = []
    if head.skip and "skip" not in declared and not is_named:
        lines = "line is" if head.skip == 1 else f"{head.skip} lines are"
        notes.append(
            f"the first {lines} skipped as text above the header: '{SKIP}' = '{head.skip}'"
        )
    if head.below and "below" not in declared:
        lines = "line" if head.below == 1 else f"{head.below} lines"
        notes.append(
            f"the {lines} of units or types below the header "
            f"{'is' if head.below == 1 else 'are'} skipped: '{SKIP_BELOW}' = "
            f"'{head.below}'"
        )
    return notes


def column_types(
    names: Sequence[str], fields: Sequence[Sequence[str]], declared: Mapping[str, str], prefix: str
) -> tuple[tuple[TableColumn, ...], dict[str, str], tuple[str, ...]]:
    """Return columns, notation options and notes for tables of texts other than CSV.

    Args:
        names: Column names.
        fields: Distinct values of each column.
        declared: Declared options, see `find_columns`.
        prefix: Prefix of the options: the format.
    """
    kinds, options, notes = _kinds(names, fields, declared, None, True)
    columns = tuple(TableColumn(n, kind.type.upper()) for n, kind in zip(names, kinds, strict=True))
    renamed = {
        name.replace("csv.null-literal", "csv.null-literals")
        if name == "csv.null-literal"
        else name: value
        for name, value in options.items()
    }
    return (
        columns,
        {name.replace("csv.", f"{prefix}."): value for name, value in renamed.items()},
        tuple(note.replace("'csv.", f"'{prefix}.") for note in notes),
    )


def _kinds(
    names: Sequence[str],
    fields: Sequence[Sequence[str]],
    declared: Mapping[str, str],
    table: SampledTable | None,
    is_headed: bool,
) -> tuple[list[ValueKind], dict[str, str], list[str]]:
    """Return the kind of each column, the options for its notation, and notes.

    Args:
        names: Column names.
        fields: Distinct values of each column.
        declared: Declared options, see `find_columns`.
        table: Lines with the values. None if they have no fields.
        is_headed: Whether the first line is a header.
    """
    declared_nulls = [word for word in declared.get("nulls", "").split(BETWEEN_WORDS) if word]
    declared_nulls += [declared["nullValue"]] if declared.get("nullValue") else []
    symbols = [symbol for symbol in declared.get("symbols", "").split(BETWEEN_WORDS) if symbol]
    null_words = frozenset(declared_nulls) if "nulls" in declared else NULL_WORDS
    full = [[v for v in values if v.strip() and v not in declared_nulls] for values in fields]
    full = [_numbers(values, symbols, null_words) for values in full]
    habits = habits_of(full)
    given_decimal = declared.get("decimal")
    if given_decimal is None and "thousands" in declared:
        given_decimal = "," if declared["thousands"] == "." else "."
    if given_decimal is not None:
        habits = replace(habits, decimal=given_decimal, is_certain=True)
    last = table.last_line() if table is not None else ()
    kinds = [
        value_kind(name, values, habits, null_words, last[i] if i < len(last) else "")
        for i, (name, values) in enumerate(zip(names, full, strict=True))
    ]
    decimal = _common_decimal([kind.decimal for kind in kinds], habits)
    group = declared.get("thousands") or next((k.group for k in kinds if k.group), "")
    notes = []
    for i, kind in enumerate(kinds):
        if kind.note:
            notes.append(kind.note)
        # a file has one number notation; columns in another one stay text
        differs = (kind.decimal or decimal) != decimal or (kind.group or group) != group
        is_plain = kind.type == "double" and not kind.decimal and decimal != "."
        if differs or is_plain:
            notes.append(
                f"`{names[i]}` is STRING, because other columns use a different number format"
            )
            kinds[i] = ValueKind("string")
    notes += _notes_on_whole_times(names, kinds, full)
    words = sorted({word for kind in kinds for word in kind.null_words})
    declared_prefixes = prefixes_of(declared.get("prefixes", ""))
    given = Given((*declared_nulls, *words), tuple(symbols), declared_prefixes)
    notes += notes_on_misfits(names, kinds, given, table, is_headed=is_headed)
    options: dict[str, str] = {}
    if words and not declared_nulls:
        key = "csv.null-literal" if len(words) == 1 else "csv.null-literals"
        options[key] = BETWEEN_WORDS.join(words)
    elif words and "nulls" not in declared:
        options["csv.null-literals"] = BETWEEN_WORDS.join(words)
    if decimal != "." and "decimal" not in declared:
        options["csv.decimal-separator"] = decimal
    if group and "thousands" not in declared:
        options["csv.thousands-separator"] = group
    for name, kind in zip(names, kinds, strict=True):
        if kind.format:
            options[f"fields.{name}.format"] = kind.format
    return kinds, options, notes


def _notes_on_whole_times(
    names: Sequence[str], kinds: Sequence[ValueKind], fields: Sequence[Sequence[str]]
) -> list[str]:
    """Return notes about columns of integers that may be times."""
    times = [
        values
        for kind, values in zip(kinds, fields, strict=True)
        if kind.type in ("date", "timestamp", "timestamp_ntz")
    ]
    years = {year for values in times for year in years_of(values)}
    notes = []
    for name, kind, values in zip(names, kinds, fields, strict=True):
        if kind.type == "bigint" and not kind.group:
            whole = [int(value) for value in values if value not in kind.null_words]
            notes.append(whole_times_note(name, whole, years))
    return list(filter(None, notes))


def _numbers(values: list[str], symbols: Sequence[str], null_words: frozenset[str]) -> list[str]:
    """Return the values without symbols if that makes all of them numbers."""
    if not symbols:
        return values
    bare = [v if v in null_words else without_symbols(v, symbols) for v in values]
    return bare if all(is_number(v.strip()) or v in null_words for v in bare) else values


def _common_decimal(decimals: Sequence[str], habits: Habits) -> str:
    counts = Counter(filter(None, decimals))
    if not counts:
        return habits.decimal if habits.is_certain else "."
    return counts.most_common(1)[0][0]


def _dialect_options(
    dialect: Dialect,
    user_options: Mapping[str, str],
    tables: Sequence[tuple[Sample, Sequence[Sequence[str]]]],
    rows: Sequence[Sequence[str]],
    header: Sequence[str],
) -> dict[str, str]:
    options: dict[str, str] = {}
    if dialect.delimiter != "," and not {"sep", "delimiter"} & set(user_options):
        options["csv.field-delimiter"] = "\\t" if dialect.delimiter == "\t" else dialect.delimiter
    if dialect.quote != '"' and "quote" not in user_options:
        options["csv.quote-character"] = dialect.quote
    if dialect.escape == "\\" and "escape" not in user_options:
        options["csv.escape-character"] = dialect.escape
    if dialect.comment and "comment" not in user_options:
        options["csv.allow-comments"] = "true"
    if "multiLine" not in user_options and any(
        "\n" in cell for _, table in tables for row in table for cell in row
    ):
        options["multiLine"] = "true"
    cells = [cell for row in (header, *rows) for cell in row]
    if any(cell != cell.strip() and cell.strip() for cell in cells):
        for name in ("ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace"):
            if name not in user_options:
                options[name] = "true"
    return options
