"""Lake tables as streams: Python data sources that read the files of versions in tasks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from runtime.connectors.connector import register_source
from runtime.connectors.declared_columns import find_column, pick
from runtime.connectors.lake.table import has_fields
from runtime.errors import ExecutionError
from runtime.lake.places import TablePlace
from runtime.options.checks import is_monitored, option_values
from runtime.options.formats import MAX_FILES
from runtime.refusal import Refused
from runtime.scan.lake import LakeColumn, read_footers, stored_names
from runtime.scan.metadata import check_types
from runtime.spark.versions.arrow_types import to_arrow_schema
from runtime.spark.versions.newer_classes import DataSource, DataSourceStreamReader, InputPartition
from runtime.spec.table import OPTIONS_OF_STREAMS, Column, TableSpec

Version = TypeVar("Version")

_BATCH_ROWS = 1 << 16
# Options about versions, and options of streams of any connector
_OF_STREAMS = (
    "version",
    "timestamp",
    "source.monitor-interval",
    "skip-change-commits",
    "scan.changes",
    "starting-version",
    "starting-timestamp",
    MAX_FILES,
    *OPTIONS_OF_STREAMS,
)


@dataclass
class VersionFile(InputPartition):
    """File of a version.

    Attributes:
        path: Path of the file.
        texts: Log values of the partition columns to read, by the table's column names.
        needed: Columns that the file must have.
    """

    path: str
    texts: dict[str, str | None] = field(default_factory=dict)
    needed: frozenset[str] = frozenset()


class VersionReader(DataSourceStreamReader):
    """Reader of a table version by version. Iceberg snapshots count as versions.

    Args:
        connector: Connector of the table.
        options: Options of the data source, see `stream_of`.
        schema: Columns to read, under the table's names.
    """

    unit = "version"
    # Rules by which columns are found in files.
    _columns: tuple[LakeColumn, ...]

    def __init__(self, connector: str, options: Mapping[str, str], schema: StructType) -> None:
        table_options = tuple((name, value) for name, value in json.loads(options["options"]))
        self._spec = TableSpec(options["table"], connector, options=table_options)
        self._place = TablePlace(options["path"]) if options.get("path") else None
        # last version to read; None to read all future ones
        self._until = int(options["until"]) if options.get("until") else None
        # whether to skip versions that delete or update rows
        self._skips = options.get("skips") == "true"
        # most files in a micro-batch of several versions; None for any number
        self._most_files = int(options["most"]) if options.get("most") else None
        self._schema = schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of a file."""
        assert isinstance(partition, VersionFile)
        return read_file(partition, self._schema, self._columns)

    def first_versions(
        self,
        versions: Iterable[Version],
        files_of: Callable[[Version], Sequence[InputPartition]],
        n_files: int = 0,
    ) -> list[Version]:
        """Return the versions that a micro-batch reads, the first ones of the given.

        They have at most `max-files-per-trigger` files. A version that has more is read alone.

        Args:
            versions: Versions in order.
            files_of: Returns the files that the stream reads of a version.
            n_files: Number of files that the micro-batch reads before them. 0 if there are none.
        """
        if self._most_files is None:
            return [*versions]
        first, n_before = list[Version](), n_files
        for version in versions:
            n_files += len(files_of(version))
            if n_files > self._most_files and (first or n_before):
                break
            first.append(version)
        return first

    def changed_column(self, schema: StructType) -> str | None:
        """Return a column that a version no longer has or has with another type, or None."""
        for name in self._schema.names:
            if name not in schema.names or schema[name].dataType != self._schema[name].dataType:
                return name
        return None

    def stop_error(self, version: int, table: str, why: str) -> ExecutionError:
        """Return the error for a version that the stream cannot read."""
        return ExecutionError(
            f"table `{self._spec.name}`: the stream stopped at {self.unit} {version} of "
            f"{table}: {why}"
        )


def column_fields(spec: TableSpec, schema: StructType) -> list[StructField]:
    """Return the columns that a stream reads: the declared ones, or else all columns."""
    needed = schema.names
    if spec.columns:
        declared = [column.name for column in spec.physical_columns]
        needed = [name for name in needed if any(find_column([name], w) for w in declared)]
    return [StructField(name, schema[name].dataType) for name in needed]


def stream_of(
    spark: SparkSession,
    spec: TableSpec,
    source: type[DataSource],
    fields: Sequence[StructField],
    place: TablePlace | None,
    newest: int,
    origin: str,
    more: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the versions of a table as a stream with its declared columns.

    Args:
        spark: Spark session.
        spec: Table specification.
        source: Data source for its versions, with the options `table`, `path`, `options`, `until`,
            `skips`, `most`.
        fields: Columns to read.
        place: Place of the table. None if it is in a catalog.
        newest: Newest version. Without a monitor interval, later ones are not read.
        origin: Name of the table in errors about columns.
        more: Further options of the data source.
    """
    register_source(spark, source)
    values = option_values(spec)
    reader = spark.readStream.format(source.name()).schema(StructType(list(fields)))
    rows = reader.options(
        table=spec.name,
        path="" if place is None else place.path,
        options=json.dumps([o for o in spec.options if o[0].lower() not in _OF_STREAMS]),
        until="" if is_monitored(spec) else str(newest),
        skips=values.get("skip-change-commits", "false").lower(),
        most=values.get(MAX_FILES, ""),
        **(more or {}),
    ).load()
    if not spec.columns:
        return rows
    return rows.select(*(pick(rows, spec, c, origin) for c in spec.physical_columns))


def read_file(
    part: VersionFile, schema: StructType, columns: Sequence[LakeColumn]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file under the names and types of `schema`.

    Raises:
        ExecutionError: The file no longer exists, or a column has another type.
    """
    arrow = to_arrow_schema(schema)
    in_files = [c for c in columns if c.name not in part.texts]
    try:
        (footer,) = read_footers([part.path])
        names = stored_names(part.path, footer, in_files, part.needed)
    except Refused as refused:
        raise ExecutionError(refused.refusal.reason) from refused
    stored = {c.name: name for c, name in zip(in_files, names, strict=True) if name is not None}
    flat = [
        Column(stored[c.name], c.type)
        for c in in_files
        if c.name in stored and not pa.types.is_nested(arrow.field(c.name).type)
    ]
    types = footer.schema.to_arrow_schema()
    for name, stored_name in stored.items():
        if not has_fields(types.field(stored_name).type, schema[name].dataType):
            raise ExecutionError(f"column {name} has other fields in {part.path}")
    try:
        check_types(part.path, footer, flat)
    except Refused as refused:
        raise ExecutionError(f"{refused}: the stream cannot continue") from refused
    constants = {name: _constant(t, arrow.field(name).type) for name, t in part.texts.items()}
    with pq.ParquetFile(part.path, coerce_int96_timestamp_unit="us") as file:
        names_read = list(dict.fromkeys(stored.values()))
        for batch in file.iter_batches(_BATCH_ROWS, columns=names_read, use_threads=False):
            arrays = []
            for field in arrow:
                if field.name in constants:
                    array = pa.repeat(constants[field.name], batch.num_rows)
                elif field.name in stored:
                    array = batch.column(stored[field.name]).cast(field.type)
                else:
                    array = pa.nulls(batch.num_rows, field.type)
                arrays.append(array)
            yield pa.RecordBatch.from_arrays(arrays, schema=arrow)


def _constant(text: str | None, type_: pa.DataType) -> pa.Scalar:
    """Return the partition value for its text in a log."""
    if text is None or text == "":
        return pa.scalar(None, type_)
    if pa.types.is_timestamp(type_):
        plain = text.removesuffix("Z").replace("T", " ")
        return pa.scalar(plain).cast(pa.timestamp("us")).cast(type_)
    return pa.scalar(text).cast(type_)
