"""Read text whose lines Spark's readers cannot parse.

This is CSV with a preamble, units rows or long comments, and log lines parsed with a pattern. Spark
reads lines of text, and a Python function drops lines that are not records. It also parses log
lines; Spark parses CSV records. Batch and streaming use the same code.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from runtime.connectors.columns import BROKEN_RECORD, declared_schema
from runtime.connectors.filesystem.text import TextReading
from runtime.detection.delimited import column_names
from runtime.detection.lines import FileLines, LineRules
from runtime.detection.log_lines import LineParser, line_parser
from runtime.errors import ExecutionError
from runtime.frames.file_rows import FILE_METADATA
from runtime.names import quote_name
from runtime.options.checks import bad_option
from runtime.spark.versions.columns import type_from_ddl
from runtime.spark.versions.frames import metadata_column
from runtime.spark.workers import prepare_worker

# Options of Spark's CSV reader about files and lines
_OF_FILES = frozenset(
    "basePath pathGlobFilter recursiveFileLookup modifiedAfter modifiedBefore ignoreCorruptFiles "
    "ignoreMissingFiles lineSep".split()
)
_OF_LINES = frozenset(
    "comment header encoding charset multiLine enforceSchema compression inferSchema extension "
    "samplingRatio columnPruning".split()
)
_RECORD, _START = "_sqlwin_record", "_sqlwin_start"
_PARSED = "_sqlwin_parsed"
# Schema of whole records
_WHOLE = StructType([StructField(_RECORD, StringType())])
_METADATA_DDL = (
    f"{FILE_METADATA} struct<file_path: string, file_name: string, file_size: bigint, "
    "file_modification_time: timestamp>"
)


def load_records(
    spark: SparkSession,
    reader: Any,
    text: TextReading,
    rules: LineRules,
    paths: list[str] | str,
    *,
    is_empty: bool = False,
) -> DataFrame:
    """Load a table of CSV or log lines as described by `text`.

    Args:
        spark: Spark session.
        reader: Its batch or stream reader, with only the options of a stream.
        text: Rules for values.
        rules: Rules for records.
        paths: Paths of the files.
        is_empty: Whether no file exists yet.

    Raises:
        ExecutionError: A file has another header.
        CatalogError: The header has a delimiter of several characters.
    """
    spec, options = text.spec, text.options
    declared = declared_schema(spec, spec.physical_columns)
    partition_names = {name.lower() for name in spec.partitioned_by}
    partitions = StructType([f for f in declared.fields if f.name.lower() in partition_names])
    fields = [f for f in declared.fields if f.name.lower() not in partition_names]
    if rules.pattern:
        schema = text.schema(StructType(fields))
        return text.check_records(_read_records(reader, rules, options, partitions, paths, schema))
    header = None
    if rules.has_header and not is_empty:
        _check_delimiter(text)
        all_paths = [paths] if isinstance(paths, str) else paths
        header = _first_header(spark.read, rules, options, all_paths)
    if header is not None:
        types = {f.name.lower(): f.dataType for f in fields}
        cells = next(text.dialect.reader(io.StringIO(header, newline="")))
        names = column_names(cells, len(cells))
        fields = [StructField(n, types.get(n.lower(), StringType())) for n in names]
    if options.get("enforceSchema", "false").lower() == "true":
        header = None  # the columns have other names than the header
    rows = _read_records(reader, rules, options, partitions, paths, header=header)
    return text.check_records(
        _parse_csv(rows, text.schema(StructType(fields)), text.reader_options)
    )


def _read_records(
    reader: Any,
    rules: LineRules,
    options: dict[str, str],
    partitions: StructType,
    paths: list[str] | str,
    schema: StructType = _WHOLE,
    header: str | None = None,
) -> DataFrame:
    """Read the records of files as text, with information about their files.

    Args:
        reader: Spark's batch or stream reader, with only the options of a stream.
        rules: Rules for records.
        options: Options of Spark's CSV reader.
        partitions: Columns that come from directories.
        paths: Paths of the files.
        schema: Columns into which the pattern parses a line. A line that does not match goes to
            BROKEN_RECORD if `schema` has that column, or else is dropped. Without a pattern, whole
            records.
        header: Expected header of each file. None to accept any or none.

    Returns:
        The columns of `schema` and `partitions`, and Spark's file metadata.
    """
    lines = _lines(reader, options, partitions, paths, is_whole=rules.needs_whole_files)
    encoding = options.get("encoding", options.get("charset", "utf-8"))
    names = [field.name for field in schema.fields]
    texts = [StructField(f"t{i}", StringType()) for i in range(len(names))]
    run = _record_task(rules, encoding, names, header)
    rows: DataFrame = lines.mapInArrow(run, _output_schema(texts, partitions))
    every = [*names, *(field.name for field in partitions.fields), FILE_METADATA]
    return rows.select(
        *(rows[old].alias(new) for old, new in zip(rows.columns, every, strict=True))
    )


def load_objects(
    reader: Any, text: TextReading, schema: StructType, name: str, paths: list[str] | str
) -> DataFrame:
    """Load the objects in an array field of the single object in each JSON file.

    Args:
        reader: Spark's batch or stream reader for JSON, with its options.
        text: Rules for values.
        schema: Schema of the objects, including the columns that come from directories.
        name: Name of the field.
        paths: Paths of the files.
    """
    directories = {name.lower() for name in text.spec.partitioned_by}
    from_directories = [f for f in schema.fields if f.name.lower() in directories]
    fields = [f for f in schema.fields if f.name.lower() not in directories]
    file_schema = StructType([StructField(name, ArrayType(StructType(fields))), *from_directories])
    files: DataFrame = reader.option("multiLine", "true").schema(file_schema).load(paths)
    objects = files[quote_name(name)]
    if text.refuses:
        place = metadata_column(files, FILE_METADATA)["file_path"]
        missing = F.raise_error(F.concat(place, F.lit(f" has no array '{name}' of JSON objects")))
        objects = F.coalesce(objects, missing.cast(file_schema.fields[0].dataType))
    rows = files.select(
        F.explode(objects).alias(_PARSED),
        *(files[quote_name(f.name)] for f in from_directories),
        _metadata_of(files).alias(FILE_METADATA),
    )
    return rows.select(
        *(rows[_PARSED].getField(f.name).alias(f.name) for f in fields),
        *(rows[quote_name(f.name)] for f in from_directories),
        rows[FILE_METADATA],
    )


def _metadata_of(files: DataFrame) -> Column:
    metadata = metadata_column(files, FILE_METADATA)
    names = ("file_path", "file_name", "file_size", "file_modification_time")
    return F.struct(*(metadata[name].alias(name) for name in names))


def _output_schema(output_fields: list[StructField], partitions: StructType) -> StructType:
    """Return the schema that a Python function produces."""
    numbered = [StructField(f"p{i}", f.dataType) for i, f in enumerate(partitions.fields)]
    metadata = cast(StructType, type_from_ddl(_METADATA_DDL))
    return StructType([*output_fields, *numbered, *metadata.fields])


def _lines(
    reader: Any,
    options: dict[str, str],
    partitions: StructType,
    paths: list[str] | str,
    *,
    is_whole: bool,
) -> DataFrame:
    """Read the bytes of lines, or of whole files, with information about their files."""
    of_files = {k: v for k, v in options.items() if k in _OF_FILES}
    schema = StructType([StructField("value", StringType()), *partitions.fields])
    text = reader.format("text").options(**of_files, wholetext=str(is_whole).lower())
    lines: DataFrame = text.schema(schema).load(paths)
    metadata = metadata_column(lines, FILE_METADATA)
    return lines.select(
        lines["value"].cast("binary").alias(_RECORD),
        *(
            lines[quote_name(field.name)].alias(f"p{i}")
            for i, field in enumerate(partitions.fields)
        ),
        _metadata_of(lines).alias(FILE_METADATA),
        metadata["file_block_start"].alias(_START),
    )


def _parse_csv(rows: DataFrame, schema: StructType, options: dict[str, str]) -> DataFrame:
    """Parse CSV records into fields, keeping the other columns of `rows`."""
    options = {k: v for k, v in options.items() if k not in _OF_FILES | _OF_LINES}
    ddl = ", ".join(f"{quote_name(f.name)} {f.dataType.simpleString()}" for f in schema.fields)
    # a column of its own, so that a record is parsed once for all its fields
    parsed = rows.withColumn(_PARSED, F.from_csv(rows[_RECORD], ddl, options))
    fields: list[Column] = [parsed[_PARSED].getField(f.name).alias(f.name) for f in schema.fields]
    others = [parsed[quote_name(name)] for name in rows.columns if name != _RECORD]
    return parsed.select(*fields, *others)


def _first_header(
    reader: Any, rules: LineRules, options: dict[str, str], paths: list[str]
) -> str | None:
    """Return the header of the first file that has one, verbatim, or None."""
    rows = _read_records(reader, _only_header(rules), options, StructType(), paths)
    headers = rows.select(_RECORD).limit(1).collect()
    return None if not headers else str(headers[0][0])


def _only_header(rules: LineRules) -> LineRules:
    """Return rules that make the header the first record."""
    return LineRules(rules.skip, comment=rules.comment, quote=rules.quote, escape=rules.escape)


def _record_task(
    rules: LineRules, encoding: str, names: Sequence[str], header: str | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the task function that returns the columns `names` of records in its file parts."""
    texts = [f"t{i}" for i in range(len(names))]

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        parse = line_parser(rules.pattern) if rules.pattern else None
        for batch, rows, records in _records_in(batches, rules, encoding, header):
            if parse is None:
                columns = [pa.array(records, pa.string())]
            else:
                rows, columns = _parse(parse, names, rows, records)
            others = batch.take(pa.array(rows, pa.int64())).drop_columns([_RECORD, _START])
            yield pa.RecordBatch.from_arrays(
                [*columns, *others.columns], names=[*texts, *others.schema.names]
            )

    return read


def _parse(
    parse: LineParser, names: Sequence[str], rows: Sequence[int], records: Sequence[str]
) -> tuple[list[int], list[pa.Array]]:
    """Return the rows of the lines that match and their columns; see `_read_records`."""
    values: list[dict[str, str | None]] = []
    kept_rows: list[int] = []
    for row, record in zip(rows, records, strict=True):
        fields = parse(record)
        if fields is not None:
            values.append({name.lower(): value for name, value in fields.items()})
        elif BROKEN_RECORD in names:
            values.append({BROKEN_RECORD: record})
        else:
            continue
        kept_rows.append(row)
    lower = [name.lower() for name in names]
    return kept_rows, [pa.array([v.get(name) for v in values], pa.string()) for name in lower]


def _records_in(
    batches: Iterable[pa.RecordBatch], rules: LineRules, encoding: str, header: str | None
) -> Iterator[tuple[pa.RecordBatch, list[int], list[str]]]:
    """Yield the batches of a task with their records and the rows that these come from."""
    part: tuple[str, int] | None = None
    lines = FileLines(rules)
    for batch in batches:
        texts = batch.column(0).to_pylist()
        paths = batch.column(FILE_METADATA).field("file_path").to_pylist()
        starts = batch.column(_START).to_pylist()
        records: list[str] = []
        rows: list[int] = []
        for i, (data, path, start) in enumerate(zip(texts, paths, starts, strict=True)):
            if (path, start) != part:
                part = (path, start)
                lines = FileLines(rules, is_start=start == 0)
            text = data.decode(encoding, errors="replace")
            had_header = lines.header is not None
            is_whole = rules.needs_whole_files
            complete = list(lines.records(re.split("\r\n|\r|\n", text) if is_whole else [text]))
            if is_whole:
                complete += lines.rest()
            records += complete
            rows += [i] * len(complete)
            if not had_header and lines.header is not None:
                _check_header(lines.header, header, path)
        yield batch, rows, records


def _check_delimiter(text: TextReading) -> None:
    """Check that the header can be split into names here."""
    delimiter = text.reader_options.get("sep", text.reader_options.get("delimiter", ","))
    if len(delimiter) > 1:
        raise bad_option(
            text.spec,
            f"the delimiter {delimiter!r} has several characters, and lines are skipped",
            "remove the lines from the file, or replace the delimiter by one character",
            subjects=(delimiter,),
        )


def _check_header(actual: str, header: str | None, path: str) -> None:
    if header is not None and actual.strip() != header.strip():
        raise ExecutionError(
            f"the headers of files differ: {path} has {actual[:200]!r}, other files have "
            f"{header[:200]!r}",
            hint="use a glob that matches only files with the same header",
        )
