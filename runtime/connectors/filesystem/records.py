"""Read text whose lines Spark's readers cannot parse.

This is CSV with a preamble, units rows or long comments, and log lines parsed with a pattern. Spark
lists the files, and tasks read their records with `runtime.text`. Batch and streaming use the same
code.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from runtime.connectors.declared_columns import declared_schema
from runtime.connectors.filesystem.text import TextReading
from runtime.detection.delimited import column_names
from runtime.files import is_local_path
from runtime.frames.file_rows import FILE_METADATA, METADATA_FIELD
from runtime.frames.reports import READ_METRIC
from runtime.names import quote_name
from runtime.options.checks import bad_option
from runtime.scan.ranges import FileRange
from runtime.scan.stores import Store
from runtime.spark.files import resolve, store_at
from runtime.spark.session import is_remote
from runtime.spark.versions.frames import metadata_column
from runtime.spark.workers import prepare_worker
from runtime.spec.scan import ScanFile
from runtime.spec.text import LineRecords, Notation, TextColumn, TextSource
from runtime.text.line_records import records_with_header, slices
from runtime.text.lines import PIECE_BYTES, read_pieces
from runtime.text.read import read_fields

# Options of Spark's readers about the choice of files
_OF_FILES = frozenset(
    "basePath pathGlobFilter recursiveFileLookup modifiedAfter modifiedBefore".split()
)
# Options of Spark's CSV reader that `runtime.text` does not have
_UNKNOWN = frozenset(
    "charToEscapeQuoteEscaping emptyValue ignoreCorruptFiles ignoreMissingFiles lineSep "
    "unescapedQuoteHandling".split()
)
FILES_DDL = "path string, modificationTime timestamp, length bigint, content binary"
_PATH, _LENGTH, _CONTENT, _START = "path", "length", "content", "_sqlwin_start"
_OF_PARTS = frozenset((_PATH, _LENGTH, _CONTENT, _START))
_loads = count()
_HEADER, _PARSED = "_sqlwin_header", "_sqlwin_parsed"


@dataclass(frozen=True)
class _Files:
    """Files of a table, for tasks.

    Attributes:
        paths: Paths for Spark to list.
        options: Options about the choice of files.
        partitions: Columns that come from directories.
        store: Store of the files. None for this machine, and if Spark opens them.
        has_content: Whether Spark opens the files, because Arrow has no file system for them.
    """

    paths: list[str] | str
    options: dict[str, str]
    partitions: StructType
    store: Store | None
    has_content: bool


def load_records(
    spark: SparkSession,
    reader: Any,
    text: TextReading,
    paths: list[str] | str,
    *,
    is_empty: bool = False,
) -> DataFrame:
    """Load a table of CSV or log lines as described by `text`.

    Args:
        spark: Spark session.
        reader: Its batch or stream reader, with only the options of a stream.
        text: Rules for records and values.
        paths: Paths of the files.
        is_empty: Whether no file exists yet.

    Returns:
        The fields of the records, most of them as text, the columns that come from directories, and
        Spark's metadata of the file.

    Raises:
        ExecutionError: A file has another header.
        CatalogError: `runtime.text` does not have an option.
    """
    _check_options(text)
    spec, options = text.spec, text.options
    declared = declared_schema(spec, spec.physical_columns)
    partition_names = {name.lower() for name in spec.partitioned_by}
    partitions = [f for f in declared.fields if f.name.lower() in partition_names]
    columns = {c.name.lower(): c for c in spec.physical_columns}
    of_files = {k: v for k, v in options.items() if k in _OF_FILES}
    path = resolve(spark, paths if isinstance(paths, str) else paths[0])
    store = store_at(spark, path)
    has_content = store is None and (is_remote(spark) or not is_local_path(path))
    files = _Files(paths, of_files, StructType(partitions), store, has_content)
    records = text.line_records
    names = [f.name for f in declared.fields if f.name.lower() not in partition_names]
    if records.has_header and not is_empty:
        header = _first_header(spark, files, text, records)
        if header is not None:
            cells = next(text.dialect.reader(io.StringIO(header, newline="")))
            names = column_names(cells, len(cells))
            is_enforced = options.get("enforceSchema", "false").lower() == "true"
            # with other names for the columns than the header
            records = replace(records, header="" if is_enforced else header)
    records = replace(records, n_fields=len(names))
    fields = (
        TextColumn(name, "string", field=place, key=name.lower())
        for place, name in enumerate(names)
        if name.lower() in columns
    )
    source = _source(text, records, tuple(fields))
    rows = _rows(spark, _parts(spark, reader, files), files, source, names)
    if rows.isStreaming:
        # Spark counts the files
        metric = f"{READ_METRIC}{next(_loads)}.{spec.name}"
        rows = rows.observe(metric, F.count(F.lit(1)).alias("rows"))
    if records.pattern:
        return rows
    # in types that are not read as text
    others = {
        name: text.value(rows, column, name).alias(name)
        for name in names
        if (column := columns.get(name.lower())) is not None
        and not text.converts(column)
        and text.type_of(column) != "string"
    }
    return rows.withColumns(others) if others else rows


def _check_options(text: TextReading) -> None:
    spec, options = text.spec, text.options
    unknown = sorted(_UNKNOWN & set(options))
    if unknown or options.get("mode") == "DROPMALFORMED":
        name = unknown[0] if unknown else "mode"
        raise bad_option(
            spec,
            f"option '{name}' has no effect on files whose lines are skipped or split by a pattern",
            "remove the option, or remove the lines from the files",
        )
    for what, sign in (("delimiter", text.dialect.delimiter), ("quote", text.dialect.quote)):
        if len(sign) > 1:
            raise bad_option(
                spec,
                f"the {what} {sign!r} has several characters, and lines are skipped",
                "remove the lines from the file, or replace the delimiter by one character",
                subjects=(sign,),
            )
    try:
        codecs.lookup(text.encoding or "utf-8")
    except LookupError:
        raise bad_option(
            spec,
            f"files in encoding {text.encoding} have no lines to skip or to split by a pattern",
            "convert them to UTF-8",
        ) from None


def _source(text: TextReading, records: LineRecords, fields: tuple[TextColumn, ...]) -> TextSource:
    return TextSource(
        "", (), fields, records, Notation(), broken=text.record_message(), encoding=text.encoding
    )


def _parts(spark: SparkSession, reader: Any, files: _Files) -> DataFrame:
    """Return parts of files, spread over tasks.

    Args:
        spark: Spark session.
        reader: Its batch or stream reader.
        files: Files of the table.
    """
    listed = _list_files(reader, files)
    if files.has_content:
        return listed.withColumn(_START, F.lit(0).cast("bigint"))
    last = F.greatest(listed[_LENGTH] - 1, F.lit(0))
    starts = F.sequence(F.lit(0).cast("bigint"), last, F.lit(PIECE_BYTES).cast("bigint"))
    n_tasks = (
        int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
        if is_remote(spark)
        else spark.sparkContext.defaultParallelism
    )
    parts = listed.withColumn(_START, F.explode(starts))
    if parts.isStreaming:
        return parts.repartition(n_tasks)
    # in the order of the lines
    places = (_PATH, _START)
    return parts.repartitionByRange(n_tasks, *places).sortWithinPartitions(*places)


def _list_files(reader: Any, files: _Files) -> DataFrame:
    directories = "".join(
        f", {quote_name(f.name)} {f.dataType.simpleString()}" for f in files.partitions.fields
    )
    listing = reader.format("binaryFile").options(**files.options).schema(FILES_DDL + directories)
    listed: DataFrame = listing.load(files.paths)
    return listed.select(
        _PATH,
        _LENGTH,
        *([_CONTENT] if files.has_content else []),
        *(
            listed[quote_name(field.name)].alias(f"p{i}")
            for i, field in enumerate(files.partitions.fields)
        ),
        _metadata_of(listed).alias(FILE_METADATA),
    )


def _rows(
    spark: SparkSession, parts: DataFrame, files: _Files, source: TextSource, names: Sequence[str]
) -> DataFrame:
    """Return the records of parts of files.

    Args:
        spark: Spark session.
        parts: Parts of files.
        files: Files of the table.
        source: Fields to read.
        names: Names of all fields of a record. Fields that are not read are NULL.
    """
    texts = [StructField(f"t{i}", StringType()) for i in range(len(names))]
    directories = [StructField(f"p{i}", f.dataType) for i, f in enumerate(files.partitions.fields)]
    metadata = from_arrow_schema(pa.schema([METADATA_FIELD]), True).fields
    rows = parts.mapInArrow(
        _task(files, source, names), StructType([*texts, *directories, *metadata])
    )
    every = [*names, *(field.name for field in files.partitions.fields), FILE_METADATA]
    return rows.select(
        *(rows[old].alias(new) for old, new in zip(rows.columns, every, strict=True))
    )


def _task(
    files: _Files, source: TextSource, names: Sequence[str]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the task function that reads its parts of files."""
    store = files.store

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for batch in batches:
            others = batch.select([n for n in batch.schema.names if n not in _OF_PARTS])
            for row, (part, content) in enumerate(_ranges(batch)):
                for fields in read_fields(source, part, store, content):
                    empty = pa.nulls(fields.n_rows, pa.string())
                    same_row = pa.repeat(row, fields.n_rows)
                    columns = [fields.texts.get(name, empty) for name in names]
                    columns += others.take(same_row).columns
                    schema = [*(f"t{i}" for i in range(len(names))), *others.schema.names]
                    yield pa.RecordBatch.from_arrays(columns, names=schema)

    return read


def _ranges(batch: pa.RecordBatch) -> Iterator[tuple[FileRange, bytes | None]]:
    """Yield the parts of files in the rows of a batch, with their content if Spark has read it."""
    contents = batch.column(_CONTENT) if _CONTENT in batch.schema.names else None
    columns = (batch.column(name).to_pylist() for name in (_PATH, _LENGTH, _START))
    for row, (uri, n_bytes, start) in enumerate(zip(*columns, strict=True)):
        file = ScanFile(re.sub("^file:/+", "/", uri), (), (), n_bytes)
        content = None if contents is None else contents[row].as_py()
        yield FileRange(file, start, min(start + PIECE_BYTES, n_bytes)), content


def _first_header(
    spark: SparkSession, files: _Files, text: TextReading, records: LineRecords
) -> str | None:
    """Return the header of the first file that has one, verbatim, or None."""
    encoding = text.encoding

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for batch in batches:
            for part, content in _ranges(batch):
                pieces = read_pieces(
                    part,
                    files.store,
                    encoding=encoding,
                    is_whole=records.spans_lines,
                    content=content,
                )
                for lines in islice(pieces, 1):
                    header = records_with_header(lines, records).select(slice(1))
                    texts = slices(header.data, header.starts, header.ends)
                    yield pa.record_batch([texts], [_HEADER])

    parts = _list_files(spark.read, files).withColumn(_START, F.lit(0).cast("bigint"))
    headers = parts.mapInArrow(read, f"{_HEADER} string").limit(1).collect()
    return None if not headers else str(headers[0][0])


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
