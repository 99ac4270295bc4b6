"""What the files at a path are: everything that CREATE TABLE would say of them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from runtime.connectors.options.formats import (
    FORMATS,
    MOST_CSV_COLUMNS,
    SELF_DESCRIBING,
    format_of,
    spark_options,
)
from runtime.detection.delimited import column_types, find_columns
from runtime.detection.lines import (
    COMMENT,
    IGNORED,
    PATTERN,
    REPEATED,
    SKIP,
    SKIP_BELOW,
    FileLines,
    line_rules,
)
from runtime.detection.log_lines import NAMES, columns_of_lines, pattern_error
from runtime.detection.objects import find_fields
from runtime.detection.sample import (
    FIRST_BYTES,
    OTHER_BYTES,
    Sample,
    magic_format,
    read_sample,
    sampled,
)
from runtime.detection.times import ISO, time_format
from runtime.detection.values import listed
from runtime.errors import CatalogError, ExecutionError
from runtime.files import Files, as_uri
from runtime.scan.files import partition_type
from runtime.scan.metadata import spark_type
from runtime.scan.paths import missing_path
from runtime.spec.table import TableColumn, TableSpec

# Options of text that are no matter of Spark's reader, by what detection calls them
_OWN = {
    "csv.decimal-separator": "decimal",
    "csv.thousands-separator": "thousands",
    "csv.null-literals": "nulls",
    "csv.number-symbols": "symbols",
    COMMENT: "comment",
    SKIP: "skip",
    SKIP_BELOW: "below",
    REPEATED: "repeats",
}
_GLOB = re.compile(r"[*?{\[]")
Columns = tuple[TableColumn, ...]

# Rows of a Parquet file whose strings are looked at
_ROWS = 2_000
# Files of these names say nothing of what is in them
_OPEN_SUFFIXES = ("text", None)


@dataclass(frozen=True)
class Detected:
    """What files are.

    Attributes:
        spec: the table that they are, with all its options.
        notes: what the sample does not say for certain.
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
) -> Detected:
    """A table of files without columns, with what the files say of themselves.

    Args:
        spec: the table; what its options say is taken as it is.
        origin: its path, resolved.
        paths: the files below it, at least one, resolved.
        files: where they are.
        keeps_types: whether columns of files that type them stay as they are, strings too.

    Raises:
        ExecutionError: a file cannot be read, or holds nothing.
        CatalogError: the files are of several formats, or have different columns.
    """
    said = {name.lower(): value for name, value in spec.options}
    file_format = said["format"].lower() if "format" in said else _format(paths, files)
    chosen = sampled(paths)
    if "format" not in said and format_of(said) != file_format:
        spec = replace(spec, options=(*spec.options, ("format", file_format)))
    layout = _layout(origin, paths, said)
    if file_format in SELF_DESCRIBING:
        if keeps_types:
            return Detected(_with(spec, (), layout.options))
        return _typed_by_file(spec, file_format, chosen[0], files, layout)
    is_plain = file_format == "text" and PATTERN not in said
    if is_plain or "inferschema" in said:
        return Detected(_with(spec, (), layout.options))
    given = spark_options(spec, file_format)
    given = {k: v for k, v in given.items() if k.lower() in _said_names(said)}
    own_options = {f"{file_format}.{k.partition('.')[2]}": name for k, name in _OWN.items()}
    given |= {name: said[option] for option, name in own_options.items() if option in said}
    sizes = [FIRST_BYTES, *[OTHER_BYTES] * (len(chosen) - 1)]
    samples = [
        read_sample(files, path, size, given.get("encoding", given.get("charset", "")))
        for path, size in zip(chosen, sizes, strict=True)
    ]
    options = dict(layout.options)
    if file_format == "text":
        columns, text_options, notes = _of_lines(samples, said, given)
        options |= text_options
    elif file_format == "json":
        if "json.records" in said:
            given["records"] = said["json.records"]
        objects = find_fields(samples, given)
        columns, notes = objects.columns, objects.notes
        options |= dict(objects.options)
    else:
        found = find_columns(samples, given)
        if "format" not in said and format_of(said) != "csv" and not found.fits:
            if not any(path.lower().endswith((".csv", ".tsv", ".csv.gz")) for path in chosen):
                plain = tuple(("format", "text") if o[0] == "format" else o for o in spec.options)
                return Detected(_with(replace(spec, options=plain), (), layout.options))
        columns, notes = found.columns, found.notes
        options |= dict(found.options)
        if len(columns) > int(given.get("maxColumns", MOST_CSV_COLUMNS)):
            raise too_many_fields(chosen[0], len(columns), given)
    own = {column.name.lower() for column in columns}
    columns = (*columns, *(c for c in layout.columns if c.name.lower() not in own))
    given_formats = {k: v for k, v in said.items() if k.startswith("fields.")}
    columns = tuple(_with_format(column, given_formats) for column in columns)
    kept = {k: v for k, v in options.items() if k.lower() not in said}
    # how times are written is looked at without the declared patterns
    notes = tuple(n for n in notes if not any(f"'{k}'" in n.lower() for k in given_formats))
    spec = _with(spec, columns, kept, tuple(column.name for column in layout.columns))
    return Detected(spec, notes)


def _of_lines(
    samples: Sequence[Sample], said: Mapping[str, str], given: Mapping[str, str]
) -> tuple[Columns, dict[str, str], tuple[str, ...]]:
    """The columns of lines that a pattern takes apart.

    Raises:
        CatalogError: the pattern is none, or no line matches it.
    """
    pattern = said[PATTERN]
    if (expected := pattern_error(pattern)) is not None:
        raise CatalogError(
            f"'{PATTERN}' is {pattern!r}", subjects=(f"'{PATTERN}'",), hint=f"it takes {expected}"
        )
    rules = line_rules(said, has_header=False, prefix="text")
    lines = [r for s in samples for r in FileLines(rules).records(s.text.splitlines())]
    names, fields, others = columns_of_lines(pattern, lines)
    if len(others) == len(lines):
        first = f": the first one is {others[0][:100]!r}" if others else ""
        raise CatalogError(
            f"no line of {samples[0].path} matches '{PATTERN}' = {pattern!r}{first}",
            subjects=(f"'{PATTERN}'",),
            hint=f"it takes a regular expression with named groups, or {', '.join(NAMES)}",
        )
    distinct = [list(dict.fromkeys(values)) for values in fields]
    columns, options, notes = column_types(names, distinct, given, "text")
    if samples[0].encoding and "encoding" not in given:
        options["encoding"] = samples[0].encoding
    if others and said.get(IGNORED, "false").lower() != "true":
        notes = (
            *notes,
            f"{len(others)} of {len(lines)} lines do not match '{PATTERN}': {listed(others)}; "
            f"'{IGNORED}' = 'true' leaves them out",
        )
    return columns, options, notes


def _with(
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


def _with_format(column: TableColumn, formats: Mapping[str, str]) -> TableColumn:
    """A column that is declared to be a time written in some way, as one."""
    pattern = formats.get(f"fields.{column.name.lower()}.format")
    if pattern is None:
        return column
    bare = re.sub(r"'[^']*'", "", pattern)
    if pattern.startswith("epoch-") or re.search("[XxVzZO]", bare.replace(ISO, "")):
        return replace(column, type="TIMESTAMP")
    return replace(column, type="TIMESTAMP_NTZ" if re.search("[Hh]|ISO", bare) else "DATE")


def _said_names(said: Mapping[str, str]) -> set[str]:
    """Spark's names, in lower case, of the options that are given, in whatever spelling."""
    renamed = {
        "csv.field-delimiter": "sep",
        "csv.quote-character": "quote",
        "csv.disable-quote-character": "quote",
        "csv.escape-character": "escape",
        "csv.null-literal": "nullvalue",
        "csv.allow-comments": "comment",
    }
    bare = {name.removeprefix("csv.").removeprefix("json.") for name in said}
    return bare | {renamed[name] for name in said if name in renamed}


def too_many_fields(path: str, n_fields: int, options: Mapping[str, str]) -> ExecutionError:
    """The error for a file of CSV with more fields than Spark's reader accepts."""
    most = int(options.get("maxColumns", MOST_CSV_COLUMNS))
    return ExecutionError(
        f"{path} has {n_fields:,} columns, and {most:,} are read",
        subjects=(path,),
        hint=f"'maxColumns' = '{n_fields}' reads them, in minutes; JSON or Parquet with arrays is "
        "faster",
    )


# -- formats ---------------------------------------------------------------------------------------


def _format(paths: Sequence[str], files: Files) -> str:
    """The format that the names of files say, or else their first bytes.

    Raises:
        CatalogError: they are of several.
    """
    by_format: dict[str | None, str] = {}
    for path in paths:
        by_format.setdefault(_named_format(path), path)
    for path in by_format.values():
        if os.path.islink(path) and not os.path.exists(path):
            raise missing_path(path)
    if len(by_format) > 1:
        listed = ", ".join(f"{path} is {name or 'unknown'}" for name, path in by_format.items())
        raise CatalogError(
            f"the files are of several formats: {listed}",
            subjects=(next(iter(by_format.values())),),
            hint="give a glob that names those of one format, such as 'dir/*.parquet'",
        )
    name, path = next(iter(by_format.items()))
    if name in FORMATS and name not in _OPEN_SUFFIXES:
        return str(name)
    magic = magic_format(files, path)
    if magic is not None:
        return magic
    text = read_sample(files, path, OTHER_BYTES).text.lstrip()
    return "json" if text[:1] in ("{", "[") else "csv"


def _named_format(path: str) -> str | None:
    lower = path.lower()
    if re.search(r"\.(tsv|tab|psv)(\.\w+)?$", lower):
        return "csv"
    # a compressed file of Spark's is called part-0.snappy.parquet or part-0.c000.csv.gz
    return format_of({"path": path})


# -- directories -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Directories:
    columns: tuple[TableColumn, ...]
    options: Mapping[str, str]


def _layout(origin: str, paths: Sequence[str], said: Mapping[str, str]) -> _Directories:
    """The columns that directories `k=v` name, and what has to be said for Spark to see them."""
    base = _base(origin)
    values: dict[str, dict[str, None]] = {}
    depth = 0
    for path in paths:
        below = os.path.dirname(path)[len(base) :].strip("/")
        directories = below.split("/") if below else []
        depth = max(depth, len(directories))
        for name, value in (part.split("=", 1) for part in directories if "=" in part):
            values.setdefault(name, {})[value] = None
    columns = tuple(TableColumn(name, partition_type(found)) for name, found in values.items())
    options: dict[str, str] = {}
    if columns and base != origin and "basepath" not in said:
        options["basePath"] = as_uri(base)
    if depth and not columns and base == origin and "recursivefilelookup" not in said:
        options["recursiveFileLookup"] = "true"
    return _Directories(columns, options)


def _base(origin: str) -> str:
    """The directory above the first wildcard or `k=v` of a path."""
    if os.path.isdir(origin) and "=" not in origin:
        return origin
    parts = origin.split("/")
    for i, part in enumerate(parts):
        if _GLOB.search(part) or "=" in part:
            return "/".join(parts[:i])
    return os.path.dirname(origin) if os.path.isfile(origin) else origin


# -- files that type their columns -----------------------------------------------------------------


def _typed_by_file(
    spec: TableSpec, file_format: str, path: str, files: Files, layout: _Directories
) -> Detected:
    """Columns stay those of the files, unless strings in them are times."""
    formats = _string_times(path, files) if file_format == "parquet" else None
    options = dict(layout.options)
    if not formats:
        return Detected(_with(spec, (), options, tuple(c.name for c in layout.columns)))
    columns, patterns = formats
    own = {column.name.lower() for column in columns}
    columns = (*columns, *(c for c in layout.columns if c.name.lower() not in own))
    said = {name.lower() for name, _ in spec.options}
    options |= {k: v for k, v in patterns.items() if k.lower() not in said}
    return Detected(_with(spec, columns, options, tuple(c.name for c in layout.columns)))


def _string_times(path: str, files: Files) -> tuple[Columns, dict[str, str]] | None:
    """The columns of a Parquet file, those of strings that are times as times.

    None: there are no such strings, or only Spark knows the type of some column.
    """
    try:
        with files.open(path) as source:
            parquet = pq.ParquetFile(source)
            schema = parquet.schema
            types = {}
            names = {schema.column(i).name.lower() for i in range(len(schema))}
            if len(names) < len(schema):
                return None  # Spark refuses such columns
            for i in range(len(schema)):
                column = schema.column(i)
                if "." in column.path or (type_ := spark_type(column)) is None:
                    return None
                types[column.name] = type_
            texts = [name for name, type_ in types.items() if type_ == "string"]
            batch = next(parquet.iter_batches(_ROWS, columns=texts), None) if texts else None
    except UnicodeDecodeError as error:
        raise ExecutionError(
            f"cannot read {path}: the name of a column is not UTF-8",
            subjects=(path,),
            hint="write the file with other names",
        ) from error
    except (OSError, pa.ArrowException) as error:
        why = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise ExecutionError(f"cannot read {path}: {why}", subjects=(path,)) from error
    if batch is None:
        return None
    patterns: dict[str, str] = {}
    for name in texts:
        # bytes that are no UTF-8 are no time, and Spark reads them
        raw = batch.column(name).cast(pa.binary()).to_pylist()
        values = [value.decode(errors="replace") for value in raw if value]
        found = time_format(values) if values else None
        # dates in strings compare and sort as they are; they are no times to put windows on
        if found is not None and found.ambiguous is None and found.type != "date":
            types[name] = found.type
            patterns[f"fields.{name}.format"] = found.pattern
    if not patterns:
        return None
    return tuple(TableColumn(name, type_.upper()) for name, type_ in types.items()), patterns
