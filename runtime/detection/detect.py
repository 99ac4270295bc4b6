"""Detect the table in the files at a path: everything that CREATE TABLE would declare.

Modules for text are imported when a file is text, because a query over Parquet needs none of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from runtime.detection.lines import (
    COMMENT,
    IGNORED,
    PATTERN,
    REPEATED,
    SKIP,
    SKIP_BELOW,
    SKIP_PREFIXES,
    line_rules,
)
from runtime.detection.sample import (
    FIRST_BYTES,
    OTHER_BYTES,
    Sample,
    files_to_sample,
    magic_format,
    read_sample,
)
from runtime.detection.times import ISO, time_format
from runtime.errors import CatalogError, ExecutionError
from runtime.files import Files, as_uri
from runtime.options.formats import (
    FORMATS,
    MAX_CSV_COLUMNS,
    SELF_DESCRIBING,
    format_of,
    spark_options,
)
from runtime.scan.faults import why_unreadable
from runtime.scan.files import partition_type
from runtime.scan.metadata import spark_type
from runtime.scan.paths import missing_path
from runtime.spec.table import TableColumn, TableSpec

if TYPE_CHECKING:
    from runtime.detection.delimited import DelimitedText

# Options of text that Spark's reader does not know, with their names in detection
_OWN = {
    "csv.decimal-separator": "decimal",
    "csv.thousands-separator": "thousands",
    "csv.null-literals": "nulls",
    "csv.number-symbols": "symbols",
    COMMENT: "comment",
    SKIP: "skip",
    SKIP_BELOW: "below",
    REPEATED: "repeats",
    SKIP_PREFIXES: "prefixes",
}
# Beginning of JSON with objects: `[2026-01-01 10:00:00] started` is a line of a log
_OBJECTS = re.compile(r"(?:\[\s*)*\{\s*(?:[\"}]|\Z)|\[\s*(?:\]\s*)?\Z")
_GLOB = re.compile(r"[*?{\[]")
Columns = tuple[TableColumn, ...]

# Number of Parquet rows whose strings are sampled
_ROWS = 2_000
# File name formats that leave the actual format open
_OPEN_SUFFIXES = ("text", None)


@dataclass(frozen=True)
class DetectionResult:
    """Result of detection.

    Attributes:
        spec: Table specification with all options.
        notes: Notes about points that the sample leaves uncertain.
    """

    spec: TableSpec
    notes: tuple[str, ...] = ()


def detect(
    spec: TableSpec,
    origin: str,
    paths: Sequence[str],
    files: Files,
    *,
    keeps_types: bool = False,
) -> DetectionResult:
    """Complete a table specification without columns from its files.

    Args:
        spec: Table specification. Its options take precedence.
        origin: Resolved path of the table.
        paths: Resolved paths of the files below it, at least one.
        files: File system of the paths.
        keeps_types: Whether columns of self-describing files keep their types, strings included.

    Raises:
        ExecutionError: A file is empty or cannot be read.
        CatalogError: The files have several formats or different columns.
    """
    declared = {name.lower(): value for name, value in spec.options}
    file_format = declared["format"].lower() if "format" in declared else _format(paths, files)
    sample_paths = files_to_sample(paths)
    if "format" not in declared and format_of(declared) != file_format:
        spec = replace(spec, options=(*spec.options, ("format", file_format)))
    layout = _layout(origin, paths, declared)
    if file_format in SELF_DESCRIBING:
        if keeps_types:
            return DetectionResult(_set_columns(spec, (), layout.options))
        return _detect_self_describing(spec, file_format, sample_paths[0], files, layout)
    is_plain = file_format == "text" and PATTERN not in declared
    if is_plain:
        notes = () if keeps_types else _notes_on_lines(spec, sample_paths[0], files)
        return DetectionResult(_set_columns(spec, (), layout.options), notes)
    if "inferschema" in declared:
        return DetectionResult(_set_columns(spec, (), layout.options))
    reader_options = spark_options(spec, file_format)
    reader_options = {
        k: v for k, v in reader_options.items() if k.lower() in _declared_options(declared)
    }
    own_options = {f"{file_format}.{k.partition('.')[2]}": name for k, name in _OWN.items()}
    reader_options |= {
        name: declared[option] for option, name in own_options.items() if option in declared
    }
    sizes = [FIRST_BYTES, *[OTHER_BYTES] * (len(sample_paths) - 1)]
    samples = [
        read_sample(
            files, path, size, reader_options.get("encoding", reader_options.get("charset", ""))
        )
        for path, size in zip(sample_paths, sizes, strict=True)
    ]
    options = dict(layout.options)
    if file_format == "text":
        columns, text_options, notes = _detect_lines(samples, declared, reader_options)
        options |= text_options
    elif file_format == "json":
        from runtime.detection.objects import find_fields

        if "json.records" in declared:
            reader_options["records"] = declared["json.records"]
        objects = find_fields(samples, reader_options)
        columns, notes = objects.columns, objects.notes
        options |= dict(objects.options)
    else:
        from runtime.detection.delimited import find_columns

        delimited = find_columns(samples, reader_options)
        if "format" not in declared and format_of(declared) != "csv":
            has_suffix = any(p.lower().endswith((".csv", ".tsv", ".csv.gz")) for p in sample_paths)
            if not has_suffix and not (delimited.fits and _is_table(delimited, samples[0])):
                plain = tuple(("format", "text") if o[0] == "format" else o for o in spec.options)
                spec = replace(spec, options=plain)
                notes = () if keeps_types else _notes_on_lines(spec, sample_paths[0], files)
                return DetectionResult(_set_columns(spec, (), layout.options), notes)
        columns, notes = delimited.columns, delimited.notes
        options |= dict(delimited.options)
        if len(columns) > int(reader_options.get("maxColumns", MAX_CSV_COLUMNS)):
            raise too_many_fields(sample_paths[0], len(columns), reader_options)
    file_columns = {column.name.lower() for column in columns}
    columns = (*columns, *(c for c in layout.columns if c.name.lower() not in file_columns))
    given_formats = {k: v for k, v in declared.items() if k.startswith("fields.")}
    columns = tuple(_set_format(column, given_formats) for column in columns)
    detected_options = {k: v for k, v in options.items() if k.lower() not in declared}
    # times were examined without the declared patterns
    notes = tuple(n for n in notes if not any(f"'{k}'" in n.lower() for k in given_formats))
    spec = _set_columns(
        spec, columns, detected_options, tuple(column.name for column in layout.columns)
    )
    return DetectionResult(spec, notes)


def _is_table(delimited: DelimitedText, sample: Sample) -> bool:
    """Return whether commas separate fields. The comma of a time, 10:00:00,123, does not."""
    from runtime.detection.log_lines import log_pattern

    options = dict(delimited.options)
    has_commas = "csv.field-delimiter" not in options and "header" not in options
    return not has_commas or log_pattern(sample.text.splitlines()) is None


def _notes_on_lines(spec: TableSpec, path: str, files: Files) -> tuple[str, ...]:
    """Return the call that splits lines of a log into columns, if their pattern is known."""
    from runtime.detection.log_lines import log_pattern

    pattern = log_pattern(read_sample(files, path, OTHER_BYTES).text.splitlines())
    if pattern is None:
        return ()
    written = spec.option_map.get("path", path)
    return (
        f"each line is one column, `value`; read_text('{written}', pattern => '{pattern}') "
        "splits lines into columns",
    )


def _detect_lines(
    samples: Sequence[Sample], declared: Mapping[str, str], lower_options: Mapping[str, str]
) -> tuple[Columns, dict[str, str], tuple[str, ...]]:
    """Detect the columns of lines that are parsed with a pattern.

    Raises:
        CatalogError: The pattern is invalid, or no line matches it.
    """
    from runtime.detection.delimited import column_types
    from runtime.detection.kinds import values_text
    from runtime.detection.log_lines import NAMES, columns_of_lines, pattern_error

    pattern = declared[PATTERN]
    if (expected := pattern_error(pattern)) is not None:
        raise CatalogError(
            f"invalid value for option '{PATTERN}': {pattern!r}",
            subjects=(f"'{PATTERN}'",),
            hint=f"it must be {expected}",
        )
    rules = line_rules(declared, "text")
    lines = [record for s in samples for record in rules.select(s.text.splitlines())]
    names, fields, others = columns_of_lines(pattern, lines)
    if len(others) == len(lines):
        first = f"; the first line is {others[0][:100]!r}" if others else ""
        raise CatalogError(
            f"no line of {samples[0].path} matches '{PATTERN}' = {pattern!r}{first}",
            subjects=(f"'{PATTERN}'",),
            hint=f"it must be a regular expression with named groups, or {', '.join(NAMES)}",
        )
    distinct = [list(dict.fromkeys(values)) for values in fields]
    columns, options, notes = column_types(names, distinct, lower_options, "text")
    if samples[0].encoding and "encoding" not in lower_options:
        options["encoding"] = samples[0].encoding
    if others and declared.get(IGNORED, "false").lower() != "true":
        notes = (
            *notes,
            (
                f"{len(others)} of {len(lines)} lines do not match '{PATTERN}': "
                f"{values_text(others)}; set '{IGNORED}' = 'true' to skip them"
            ),
        )
    return columns, options, notes


def _set_columns(
    spec: TableSpec,
    columns: tuple[TableColumn, ...],
    options: Mapping[str, str],
    partitions: tuple[str, ...] = (),
) -> TableSpec:
    return replace(
        spec,
        columns=columns,
        options=(*spec.options, *options.items()),
        partitioned_by=spec.partitioned_by or partitions,
    )


def _set_format(column: TableColumn, formats: Mapping[str, str]) -> TableColumn:
    """Return a column as a time column if its time format is declared."""
    pattern = formats.get(f"fields.{column.name.lower()}.format")
    if pattern is None:
        return column
    if pattern == ISO and (column.type or "").startswith("TIMESTAMP"):
        return column
    bare = re.sub(r"'[^']*'", "", pattern)
    if pattern.startswith("epoch-") or re.search("[XxVzZO]", bare.replace(ISO, "")):
        return replace(column, type="TIMESTAMP")
    return replace(column, type="TIMESTAMP_NTZ" if re.search("[Hh]|ISO", bare) else "DATE")


def _declared_options(declared: Mapping[str, str]) -> set[str]:
    """Return Spark's names, in lower case, of the options given in any spelling."""
    renamed = {
        "csv.field-delimiter": "sep",
        "csv.quote-character": "quote",
        "csv.disable-quote-character": "quote",
        "csv.escape-character": "escape",
        "csv.null-literal": "nullvalue",
        "csv.allow-comments": "comment",
    }
    bare = {name.removeprefix("csv.").removeprefix("json.") for name in declared}
    return bare | {renamed[name] for name in declared if name in renamed}


def too_many_fields(path: str, n_fields: int, options: Mapping[str, str]) -> ExecutionError:
    """Return the error for a CSV file with more fields than Spark's reader accepts."""
    most = int(options.get("maxColumns", MAX_CSV_COLUMNS))
    return ExecutionError(
        f"{path} has {n_fields:,} columns, but the maximum is {most:,}",
        subjects=(path,),
        hint=f"set 'maxColumns' = '{n_fields}' to read them, which takes minutes; JSON or "
        "Parquet with arrays is faster",
    )


# -- formats ---------------------------------------------------------------------------------------


def _format(paths: Sequence[str], files: Files) -> str:
    """Return the format from the file names, or else from the first bytes.

    Raises:
        CatalogError: The files have several formats.
    """
    by_format: dict[str | None, str] = {}
    for path in paths:
        by_format.setdefault(_format_by_name(path), path)
    for path in by_format.values():
        if os.path.islink(path) and not os.path.exists(path):
            raise missing_path(path)
    if len(by_format) > 1:
        formats_text = ", ".join(
            f"{path} is {name or 'unknown'}" for name, path in by_format.items()
        )
        raise CatalogError(
            f"the files have different formats: {formats_text}",
            subjects=(next(iter(by_format.values())),),
            hint="use a glob that matches one format, such as 'dir/*.parquet'",
        )
    name, path = next(iter(by_format.items()))
    if name in FORMATS and name not in _OPEN_SUFFIXES:
        return str(name)
    magic = magic_format(files, path)
    if magic is not None:
        return magic
    text = read_sample(files, path, OTHER_BYTES).text.lstrip()
    return "json" if _OBJECTS.match(text) else "csv"


def _format_by_name(path: str) -> str | None:
    lower = path.lower()
    if re.search(r"\.(tsv|tab|psv)(\.\w+)?$", lower):
        return "csv"
    # Spark names compressed files part-0.snappy.parquet or part-0.c000.csv.gz
    return format_of({"path": path})


# -- directories -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Directories:
    columns: tuple[TableColumn, ...]
    options: Mapping[str, str]


def _layout(origin: str, paths: Sequence[str], declared: Mapping[str, str]) -> _Directories:
    """Return the columns of `k=v` directories, and the options that make Spark see them."""
    base = _base(origin)
    values: dict[str, dict[str, None]] = {}
    depth = 0
    for path in paths:
        below = os.path.dirname(path)[len(base) :].strip("/")
        directories = below.split("/") if below else []
        depth = max(depth, len(directories))
        for name, value in (part.split("=", 1) for part in directories if "=" in part):
            values.setdefault(name, {})[value] = None
    columns = tuple(
        TableColumn(name, partition_type(partition_values))
        for name, partition_values in values.items()
    )
    options: dict[str, str] = {}
    if columns and base != origin and "basepath" not in declared:
        options["basePath"] = as_uri(base)
    if depth and not columns and base == origin and "recursivefilelookup" not in declared:
        options["recursiveFileLookup"] = "true"
    return _Directories(columns, options)


def _base(origin: str) -> str:
    """Return the directory above the first wildcard or `k=v` of a path."""
    if os.path.isdir(origin) and "=" not in origin:
        return origin
    parts = origin.split("/")
    for i, part in enumerate(parts):
        if _GLOB.search(part) or "=" in part:
            return "/".join(parts[:i])
    return os.path.dirname(origin) if os.path.isfile(origin) else origin


# -- self-describing files -------------------------------------------------------------------------


def _detect_self_describing(
    spec: TableSpec, file_format: str, path: str, files: Files, layout: _Directories
) -> DetectionResult:
    """Keep the columns of self-describing files, except strings that hold times."""
    formats = _string_times(path, files) if file_format == "parquet" else None
    options = dict(layout.options)
    if not formats:
        return DetectionResult(
            _set_columns(spec, (), options, tuple(c.name for c in layout.columns))
        )
    columns, patterns = formats
    file_columns = {column.name.lower() for column in columns}
    columns = (*columns, *(c for c in layout.columns if c.name.lower() not in file_columns))
    declared = {name.lower() for name, _ in spec.options}
    options |= {k: v for k, v in patterns.items() if k.lower() not in declared}
    return DetectionResult(
        _set_columns(spec, columns, options, tuple(c.name for c in layout.columns))
    )


def _string_times(path: str, files: Files) -> tuple[Columns, dict[str, str]] | None:
    """Return the columns of a Parquet file, with strings that hold times typed as times.

    None without such strings, or if only Spark can tell the type of a column.
    """
    try:
        with files.open(path) as source:
            parquet = pq.ParquetFile(source)
            schema = parquet.schema
            types = {}
            names = {schema.column(i).name.lower() for i in range(len(schema))}
            if len(names) < len(schema):
                return None  # Spark rejects such columns
            for i in range(len(schema)):
                column = schema.column(i)
                if "." in column.path or (type_ := spark_type(column)) is None:
                    return None
                types[column.name] = type_
            texts = [name for name, type_ in types.items() if type_ == "string"]
            batch = next(parquet.iter_batches(_ROWS, columns=texts), None) if texts else None
    except UnicodeDecodeError as error:
        raise ExecutionError(
            f"cannot read {path}: a column name is not UTF-8",
            subjects=(path,),
            hint="rename the columns in the file",
        ) from error
    except (OSError, pa.ArrowException) as error:
        raise ExecutionError(
            f"cannot read {path}: {why_unreadable(error)}", subjects=(path,)
        ) from error
    if batch is None:
        return None
    patterns: dict[str, str] = {}
    for name in texts:
        # invalid UTF-8 is not a time, but Spark reads it
        raw = batch.column(name).cast(pa.binary()).to_pylist()
        values = [value.decode(errors="replace") for value in raw if value]
        format_ = time_format(values) if values else None
        # dates stored as strings compare and sort correctly, and cannot be window times
        if format_ is not None and format_.ambiguous is None and format_.type != "date":
            types[name] = format_.type
            patterns[f"fields.{name}.format"] = format_.pattern
    if not patterns:
        return None
    return tuple(TableColumn(name, type_.upper()) for name, type_ in types.items()), patterns
