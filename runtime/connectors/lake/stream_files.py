"""Files of versions that a stream reads: a data source of Spark's hands them to its tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from runtime.connectors.columns import find_column, physical_columns, pick
from runtime.connectors.lake.table import has_fields
from runtime.connectors.options.checks import option_values
from runtime.errors import ExecutionError
from runtime.scan.files import NotScannable
from runtime.scan.lake import LakeColumn, read_footers, stored_names
from runtime.scan.metadata import find_misfit
from runtime.spec.table import Column, TableSpec

_BATCH_ROWS = 1 << 16


@dataclass
class VersionFile(InputPartition):
    """A file of a version.

    Attributes:
        path: where it is.
        texts: what the log has for its partition columns.
        needed: columns that it may not lack.
    """

    path: str
    texts: dict[str, str | None] = field(default_factory=dict)
    needed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Columns:
    """How columns are found: those that are read, and what the log calls those of partitions."""

    columns: tuple[LakeColumn, ...]
    partitions: dict[str, str] = field(default_factory=dict)


def column_fields(spec: TableSpec, there: StructType) -> list[StructField]:
    """The columns of a table that a stream reads: those declared, or all that are there."""
    needed = there.names
    if spec.columns:
        wanted = [column.name for column in physical_columns(spec)]
        needed = [name for name in needed if any(find_column([name], w) for w in wanted)]
    return [StructField(name, there[name].dataType) for name in needed]


def stream_of(
    spark: SparkSession,
    spec: TableSpec,
    source: type[DataSource],
    fields: Sequence[StructField],
    options: Mapping[str, str],
    origin: str,
) -> DataFrame:
    """The rows of a data source as a stream, with the columns that a table declares.

    Args:
        spark: the session.
        spec: the table.
        source: reads its versions.
        fields: the columns that it reads.
        options: for it.
        origin: what errors about columns call the table.
    """
    # makes the session the active one, see `row_numbers`
    spark.createDataFrame([], "id BIGINT")
    spark.dataSource.register(source)
    skips = option_values(spec).get("skip-change-commits", "false").lower()
    reader = spark.readStream.format(source.name()).schema(StructType(list(fields)))
    rows = reader.options(table=spec.name, skips=skips, **options).load()
    if not spec.columns:
        return rows
    return rows.select(*(pick(rows, spec, c, origin) for c in physical_columns(spec)))


def read_file(part: VersionFile, schema: StructType, table: Columns) -> Iterator[pa.RecordBatch]:
    """The rows of a file under the names and types of `schema`.

    Raises:
        ExecutionError: the file is gone, or a column in it is of another type.
    """
    footers = read_footers([part.path])
    if isinstance(footers, NotScannable):
        raise ExecutionError(footers.reason)
    (footer,) = footers
    arrow = to_arrow_schema(schema, timezone="UTC")
    in_files = [c for c in table.columns if c.name not in table.partitions]
    names = stored_names(footer, in_files, part.needed)
    if isinstance(names, NotScannable):
        raise ExecutionError(f"{names.reason} in {part.path}")
    stored = {c.name: name for c, name in zip(in_files, names, strict=True) if name is not None}
    flat = [
        Column(stored[c.name], c.type)
        for c in in_files
        if c.name in stored and not pa.types.is_nested(arrow.field(c.name).type)
    ]
    types = footer.schema.to_arrow_schema()
    for name, found in stored.items():
        if not has_fields(types.field(found).type, schema[name].dataType):
            raise ExecutionError(f"{part.path} has other fields in the column {name}")
    misfit = find_misfit(part.path, footer, flat)
    if misfit is not None:
        raise ExecutionError(f"{misfit.reason}: the stream cannot go on")
    constants = {
        name: _constant(part.texts.get(logged), arrow.field(name).type)
        for name, logged in table.partitions.items()
    }
    with pq.ParquetFile(part.path, coerce_int96_timestamp_unit="us") as file:
        columns = list(dict.fromkeys(stored.values()))
        for batch in file.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
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
    """The value of a partition that a log writes so."""
    if text is None or text == "":
        return pa.scalar(None, type_)
    if pa.types.is_timestamp(type_):
        plain = text.removesuffix("Z").replace("T", " ")
        naive = pa.scalar(plain).cast(pa.timestamp("us"))
        return pa.scalar(naive.value, pa.int64()).cast(pa.timestamp("us")).cast(type_)
    return pa.scalar(text).cast(type_)
