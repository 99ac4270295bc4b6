"""Sources of CSV and JSON files for `runtime.text`, or reasons why only Spark reads them.

Imports no PySpark.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.connectors.filesystem.planning import PASSIVE_OPTIONS
from runtime.errors import ExecutionError
from runtime.files import is_local_path
from runtime.frames.scan_source import SETTINGS_OF_TEXT, check_like_spark, roots_of
from runtime.options.checks import option_values
from runtime.options.formats import TIME_FORMAT, TIME_UNITS, format_of, spark_options
from runtime.refusal import refuse
from runtime.scan.files import Listing, list_files, partition_files
from runtime.scan.ranges import FileRange
from runtime.scan.stores import STORE_READERS, Store
from runtime.shown_types import shown_type
from runtime.spark.session import is_remote
from runtime.spark.settings import settings_of
from runtime.spec.scan import ScanFile
from runtime.spec.table import Column, TableColumn, TableSpec
from runtime.spec.text import LineRecords, TextColumn, TextSource
from runtime.text.csv_record import split_record
from runtime.text.json_record import SAMPLED_LINES, spellings
from runtime.text.line_records import records_with_header
from runtime.text.lines import NO_LINES, Lines, read_pieces
from runtime.text.patterns import pattern_regex
from runtime.text.rules import TextRules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = (*PASSIVE_OPTIONS, "connector")
# Options that this process implements, in lower case and without the format
_OPTIONS = {
    "csv": frozenset(
        "field-delimiter quote-character disable-quote-character null-literal allow-comments "
        "comment null-literals decimal-separator thousands-separator number-symbols "
        "skip-lines-starting-with skip-lines skip-lines-below-header skip-repeated-headers "
        "escape-character escape encoding charset header sep delimiter quote nullvalue dateformat "
        "timestampformat timestampntzformat ignoreleadingwhitespace "
        "ignoretrailingwhitespace".split()
    ),
    "json": frozenset(
        "fail-on-missing-field timestamp-format.standard encode.ignore-null-fields null-literals "
        "timestampntzformat".split()
    ),
    "text": frozenset(
        "pattern ignore-parse-errors null-literals decimal-separator thousands-separator "
        "number-symbols comment skip-lines-starting-with skip-lines encoding".split()
    ),
}
# Hadoop's own formats
_FRAMED = (".snappy", ".lz4")
# Maximum bytes of a file's first lines
_HEAD_BYTES = 1 << 20


def text_source(spark: SparkSession, spec: TableSpec, columns: Sequence[Column]) -> TextSource:
    """Return the files of a table for `Table.scan`, which has the same arguments and errors."""
    values = option_values(spec)
    if is_remote(spark):
        refuse("the files are on the host of the Spark Connect server")
    check_like_spark(spark, SETTINGS_OF_TEXT)
    if not spec.columns:
        refuse("the table declares no columns")
    file_format = format_of(values) or ""
    rules = TextRules(spec, file_format, spark_options(spec, file_format))
    _check_options(rules)
    roots, store = roots_of(spark, values["path"])
    listing = list_files(roots, store)
    partitions = {name.lower() for name in spec.partitioned_by}
    if {name.lower() for name in listing.partition_columns} != partitions:
        refuse("its directories have other partition columns than the table")
    in_names = tuple(column for column in columns if column.name.lower() in partitions)
    columns = [column for column in columns if column.name.lower() not in partitions]
    files = _files(listing, in_names)
    notation = rules.notation(settings_of(spark).get("spark.sql.session.timeZone"))
    broken, encoding = rules.record_message(), _encoding(rules)
    if file_format == "json":
        keys = _keys(spec, files, store)

        def json_column(column: Column) -> TextColumn:
            described = _column(rules, column)
            is_cast = rules.is_cast(column.name, described.type)
            if not is_cast and described.type in ("date", "timestamp"):
                refuse(f"Spark reads {column.name} as {shown_type(described.type)}")
            return replace(described, key=keys[column.name.lower()], is_cast=is_cast)

        first, *_ = _stored_columns(spec)
        checked = json_column(Column(first.name, rules.type_of(first)))
        read = tuple(map(json_column, columns))
        return TextSource(
            values["path"], files, read, None, notation, checked, in_names, broken=broken
        )
    for stored in _stored_columns(spec):
        if stored.common_type is None:
            refuse(f"Spark reads {stored.name} as {shown_type(stored.type or '')}")
    records, fields = _records(rules, files, store)

    def line_column(column: Column) -> TextColumn:
        name = column.name.lower()
        return replace(_column(rules, column, fields.index(name)), key=name)

    return TextSource(
        values["path"],
        files,
        tuple(map(line_column, columns)),
        replace(records, n_fields=len(fields)),
        notation,
        partition_columns=in_names,
        broken=broken,
        encoding=encoding,
    )


def _encoding(rules: TextRules) -> str:
    """Return the encoding of the files. Empty for UTF-8."""
    try:
        codecs.lookup(rules.encoding or "utf-8")
    except LookupError:
        refuse(f"Java decodes {rules.encoding}")
    return rules.encoding


def _stored_columns(spec: TableSpec) -> list[TableColumn]:
    """Return the columns that files contain."""
    partitions = {name.lower() for name in spec.partitioned_by}
    return [c for c in spec.physical_columns if c.name.lower() not in partitions]


def _keys(spec: TableSpec, files: Sequence[ScanFile], store: Store | None) -> dict[str, str]:
    """Return the names of JSON fields by lower-case name of their column.

    Spark takes the spelling from the first lines of some files.
    """
    sample: list[str] = []
    for file, lines in zip(files, _heads(files, store), strict=True):
        if file.n_bytes > _HEAD_BYTES and len(lines.starts) <= SAMPLED_LINES:
            refuse(f"the first lines of {file.path} are long")
        sample += map(lines.text, range(min(len(lines.starts), SAMPLED_LINES)))
    spelled = spellings(sample)
    keys = {}
    for column in _stored_columns(spec):
        names = spelled.get(column.name.lower(), [column.name])
        if len(names) > 1:
            refuse(f"the field {column.name} has several spellings")
        (keys[column.name.lower()],) = names
    return keys


def _check_options(rules: TextRules) -> None:
    """Check that this process implements all options of a table."""
    spec, file_format = rules.spec, rules.format
    for name, _ in spec.options:
        bare = name.lower().removeprefix(f"{file_format}.")
        if bare == "multiline" and rules.line_records.spans_lines and rules.line_rules is not None:
            continue
        if not (bare in _SETTINGS or bare in _OPTIONS[file_format] or TIME_FORMAT.fullmatch(name)):
            refuse(f"the table has the option '{name}'")
    for column in spec.columns:
        if column.metadata is not None:
            refuse(f"{column.name} is metadata of the files")


def _files(listing: Listing, partitions: Sequence[Column]) -> tuple[ScanFile, ...]:
    files = []
    for file in partition_files(listing, partitions):
        path = file.path
        if path.lower().endswith(_FRAMED):
            refuse(f"Spark decompresses {path}")
        try:
            is_local = is_local_path(path)
            files.append(replace(file, n_bytes=os.path.getsize(path)) if is_local else file)
        except OSError as error:
            refuse(f"{path}: {error.strerror or error}")
    return tuple(files)


def _records(
    rules: TextRules, files: Sequence[ScanFile], store: Store | None
) -> tuple[LineRecords, list[str]]:
    """Return the rules for records and the lower-case names of their fields."""
    records, declared = rules.line_records, [c.name.lower() for c in _stored_columns(rules.spec)]
    if rules.format == "text":
        return records, declared
    _check_dialect(rules)
    if not records.has_header:
        return records, declared
    heads = zip(files, _heads(files, store, rules.encoding), strict=True)
    headers = {header for head in heads if (header := _header(*head, records)) is not None}
    if len(headers) > 1:
        refuse("its files have different headers")
    if not headers:
        return records, declared
    (header,) = headers
    fields = split_record(header, records.delimiter, records.quote, records.escape, records.trims)
    names = [field.lower() for field in fields if field and field != records.null]
    if len(names) < len(fields) or len(set(names)) < len(names):
        refuse("fields of its header have no name or the same name")
    if missing := [name for name in declared if name not in names]:
        refuse(f"its header has no field {missing[0]}")
    return replace(records, header=header), names


def _check_dialect(rules: TextRules) -> None:
    """Check that this process knows the characters of CSV."""
    dialect = rules.dialect
    delimiter, quote, comment = dialect.delimiter, dialect.quote, dialect.comment
    for name, sign in (("delimiter", delimiter), ("quote", quote), ("comment", comment)):
        is_plain = len(sign) == 1 and " " < sign < "\x7f" and not sign.isalnum() and sign != "\\"
        is_tab = name == "delimiter" and sign in ("\t", " ")
        if not (is_plain or is_tab) and (sign or name == "delimiter"):
            refuse(f"Spark reads CSV with the {name} {sign!r}")
    if len({delimiter, quote, comment} - {""}) < 1 + bool(quote) + bool(comment):
        refuse("delimiter, quote and comment are not different characters")
    if len(dialect.escape) != 1:
        refuse(f"Spark reads CSV with the escape character {dialect.escape!r}")
    if quote not in ("", '"') and dialect.escape == '"' and rules.line_rules is None:
        # Spark then has another escape character than its quote
        refuse(f"Spark reads CSV with the quote {quote!r}")


def _heads(files: Sequence[ScanFile], store: Store | None, encoding: str = "") -> list[Lines]:
    """Return the first lines of files; those in a store are requested at the same time."""

    def head(file: ScanFile) -> Lines:
        part = FileRange(file, 0, min(file.n_bytes, _HEAD_BYTES))
        return next(read_pieces(part, store, encoding=encoding), NO_LINES)

    try:
        if store is None:
            return list(map(head, files))
        with ThreadPoolExecutor(STORE_READERS) as readers:
            return list(readers.map(head, files))
    except ExecutionError as error:
        refuse(error.message)


def _header(file: ScanFile, lines: Lines, records: LineRecords) -> str | None:
    """Return the header among the first lines of a file, None if it has no line."""
    records_of_head = records_with_header(lines, records)
    header = records_of_head.text(0) if len(records_of_head.starts) else None
    if file.n_bytes > _HEAD_BYTES and (header is None or b"\n" not in lines.data):
        refuse(f"the header of {file.path} has more than {_HEAD_BYTES} bytes")
    return header


def _column(rules: TextRules, column: Column, place: int = 0) -> TextColumn:
    name = column.name.lower()
    declared = {c.name.lower(): c for c in rules.spec.physical_columns}.get(name)
    type_ = declared.common_type if declared is not None else None
    if declared is None or type_ is None or type_ == "binary" or type_ != column.type:
        refuse(f"Spark reads {column.name} as {shown_type(column.type)}")
    pattern = rules.pattern(name, type_)
    if pattern and pattern not in TIME_UNITS and pattern_regex(pattern) is None:
        refuse(f"Spark reads times in the format {pattern!r}")
    misfit = rules.value_message(declared.name, type_, place)
    return TextColumn(column.name, type_, place, pattern=pattern, misfit=misfit)
