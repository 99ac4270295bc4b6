"""Shared code of the lake connectors: a table at a version, and its rows for Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from runtime.compute.arrow.packed import is_list
from runtime.compute.arrow.types import arrow_type
from runtime.connectors.declared_columns import pick
from runtime.errors import ExecutionError, kind_in_words, packages_of
from runtime.frames.file_rows import (
    FILE_METADATA,
    METADATA_FIELD,
    decode_uri,
    file_metadata,
    file_path,
    stored_rows,
)
from runtime.lake.places import UnreadableError
from runtime.names import quote_name
from runtime.refusal import Refusal, Refused, tried
from runtime.scan.files import is_hidden
from runtime.scan.lake import (
    LakeColumn,
    LakeFile,
    Snapshot,
    columns_in_no_file,
    read_footers,
    stored_names,
)
from runtime.scan.paths import path_for_spark
from runtime.scan.stores import Store
from runtime.spark.files import spark_reads
from runtime.spark.versions.arrow_types import to_arrow_schema
from runtime.spark.versions.frames import from_arrow
from runtime.spec.scan import ScanFile
from runtime.spec.table import TableSpec

# Extra columns while partition values and deletion vectors are joined to the rows
_PATH, _POSITION = "_sqlwin_path", "_sqlwin_position"


@dataclass(frozen=True)
class LakeTable:
    """Table at a version.

    Attributes:
        snapshot: Files of the version.
        schema: Columns of the table.
        stored: The same columns under their names in files, including nested fields.
        store: Object store of the files. None if they are on this machine.
        deleted: Positions of rows in files that are not rows of the table, by file.
    """

    snapshot: Snapshot
    schema: StructType
    stored: StructType
    store: Store | None = None
    deleted: Mapping[str, pa.Array] = field(default_factory=dict)


def lake_packages(spec: TableSpec) -> AbstractContextManager[None]:
    """Return a block whose failed imports are errors of the table, see `packages_of`."""
    return packages_of(
        "lake", f"table `{spec.name}`: connector '{spec.connector}'", subjects=(spec.name,)
    )


def unwritable(spec: TableSpec, why: UnreadableError) -> ExecutionError:
    """Return the error for a table that sqlwin cannot write."""
    return ExecutionError(
        f"table `{spec.name}` cannot be written: {why.reason}", subjects=(spec.name,)
    )


def broken_table(spec: TableSpec, error: Exception) -> ExecutionError:
    """Return a one-line error for a table that the library cannot read or write."""
    reason = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror and error.filename:
        reason = f"{error.filename}: {error.strerror}"
    return ExecutionError(
        f"table `{spec.name}`: {reason or kind_in_words(error)}", subjects=(spec.name,)
    )


def read_lake_table(spark: SparkSession, spec: TableSpec, table: LakeTable) -> DataFrame:
    """Read a table with Spark's Parquet reader, with its physical columns.

    Raises:
        CatalogError: The table does not have the declared columns.
        UnreadableError: Files have nested fields that Spark would not find.
    """
    snapshot = table.snapshot
    groups = [
        _read_group(spark, table, files, names) for names, files in _group_by_names(table).items()
    ]
    if not groups:
        rows = spark.createDataFrame([], table.schema)
    else:
        rows = reduce(DataFrame.unionByName, groups)
        if snapshot.partition_columns:
            rows = _join_partition_values(spark, rows, table)
        rows = rows.select(*(quote_name(field.name) for field in table.schema))
    if not spec.columns:
        return rows
    origin = f"{snapshot.path}, {snapshot.version}"
    return rows.select(*(pick(rows, spec, c, origin) for c in spec.physical_columns))


def check_stored_columns(spec: TableSpec, table: LakeTable) -> tuple[str, ...]:
    """Check that files have columns of the table, and return the columns that no file has.

    Such a column may have been added after all files were written. Files that have none of the
    columns were written under other names or ids than the table's, and would be read as NULL.

    Raises:
        ExecutionError: The files have none of the columns.
    """
    snapshot = table.snapshot
    missing = columns_in_no_file(snapshot, table.store)
    if not missing or len(missing) < len(snapshot.stored_columns):
        return tuple(column.name for column in missing)
    footers = tried(read_footers, [snapshot.files[0].path], table.store)
    actual = () if isinstance(footers, Refusal) else footers[0].schema.to_arrow_schema().names
    raise ExecutionError(
        f"table `{spec.name}`: its files have none of its columns: {_expected(missing[0])}, but "
        f"{snapshot.files[0].path} has the columns {', '.join(actual) or 'of no name'}",
        subjects=(spec.name,),
        hint="the program that wrote the files ignored the table's names or ids of columns "
        "('delta.columnMapping.mode', or Iceberg's field ids); write the rows again with another",
    )


def _expected(column: LakeColumn) -> str:
    """Return how files should name a column."""
    if column.field_id is not None:
        return f"column `{column.name}` has the id {column.field_id}"
    stored = column.stored[0]
    named = f", stored as {stored}" if stored != column.name else ""
    return f"the table has the column `{column.name}`{named}"


def note_on_columns(spec: TableSpec, missing: Sequence[str]) -> str | None:
    """Return a note about columns that no file has, or None."""
    if not missing:
        return None
    names = ", ".join(f"`{name}`" for name in missing)
    if len(missing) == 1:
        return f"no file of `{spec.name}` has the column {names}, which is NULL in all rows"
    return f"no file of `{spec.name}` has the columns {names}, which are NULL in all rows"


def _group_by_names(table: LakeTable) -> dict[tuple[str | None, ...], list[LakeFile]]:
    """Group files by their names of the stored columns."""
    columns = table.snapshot.stored_columns
    if all(column.field_id is None for column in columns):
        # all files use the names in the table; Spark reads missing columns as NULL
        stored = tuple(column.stored[0] for column in columns)
        return {stored: list(table.snapshot.files)} if table.snapshot.files else {}
    try:
        footers = read_footers([file.path for file in table.snapshot.files], table.store)
    except Refused as refused:
        raise ExecutionError(f"cannot read {table.snapshot.path}: {refused}") from refused
    groups: dict[tuple[str | None, ...], list[LakeFile]] = {}
    for file, footer in zip(table.snapshot.files, footers, strict=True):
        try:
            names = stored_names(file.path, footer, columns, file.needed)
        except Refused as refused:
            raise UnreadableError(refused.refusal.reason) from refused
        schema = footer.schema.to_arrow_schema()
        for name, column in zip(names, _stored_fields(table), strict=True):
            if name is not None and not has_fields(schema.field(name).type, column.dataType):
                raise UnreadableError(f"column {column.name} has other fields in {file.path}")
        groups.setdefault(names, []).append(file)
    return groups


def _read_group(
    spark: SparkSession, table: LakeTable, files: Sequence[LakeFile], names: Sequence[str | None]
) -> DataFrame:
    """Read files with the same column names, with their paths if the table is partitioned."""
    for file in files:
        if is_hidden(file.path.rpartition("/")[2]):
            raise UnreadableError(f"Spark ignores files with names like {file.path}")
    fields = list(zip(table.snapshot.stored_columns, _stored_fields(table), names, strict=True))
    stored = StructType([StructField(n, f.dataType) for _, f, n in fields if n is not None])
    if table.store is None or spark_reads(spark, table.store.root):
        paths = [path_for_spark(file.path) for file in files]
        rows = spark.read.schema(stored).parquet(*paths)
        path = F.regexp_replace(file_path(rows), "^file:/+", "/")
    else:
        scan_files = [ScanFile(file.path, n_bytes=file.n_bytes) for file in files]
        fields_read = [*to_arrow_schema(stored), METADATA_FIELD]
        rows = stored_rows(spark, scan_files, {}, pa.schema(fields_read), table.store)
        path = decode_uri(rows[quote_name(FILE_METADATA)]["file_path"])
    deleted = {file.path: table.deleted[file.path] for file in files if file.path in table.deleted}
    if deleted:
        rows = _without_deleted(spark, rows, path, deleted)
        path = rows[_PATH]
    columns: list[Column] = []
    for column, _, name in fields:
        type_ = table.schema[column.name].dataType
        value = F.lit(None) if name is None else rows[quote_name(name)]
        columns.append(value.cast(type_).alias(column.name))
    if table.snapshot.partition_columns:
        columns.append(path.alias(_PATH))
    return rows.select(*columns)


def _without_deleted(
    spark: SparkSession, rows: DataFrame, path: Column, deleted: Mapping[str, pa.Array]
) -> DataFrame:
    """Remove rows by their positions in files. The result has the paths of the files."""
    position = file_metadata(rows)["row_index"]
    placed = rows.select("*", path.alias(_PATH), position.alias(_POSITION))
    paths = [pa.repeat(file, len(positions)) for file, positions in deleted.items()]
    places = [pa.concat_arrays(paths), pa.concat_arrays(deleted.values())]
    gone = pa.table(places, [_PATH, _POSITION])
    schema = StructType([StructField(_PATH, StringType()), StructField(_POSITION, LongType())])
    return placed.join(from_arrow(spark, gone, schema), [_PATH, _POSITION], "left_anti")


def _join_partition_values(spark: SparkSession, rows: DataFrame, table: LakeTable) -> DataFrame:
    """Add the partition values in the log to the rows of their files."""
    snapshot = table.snapshot
    data = {_PATH: pa.array([file.path for file in snapshot.files], pa.string())}
    fields = [StructField(_PATH, StringType())]
    for position, name in enumerate(snapshot.partition_columns):
        field = table.schema[name]
        values = [file.partition[position] for file in snapshot.files]
        data[name] = pa.array(values, arrow_type(field.dataType.simpleString()))
        fields.append(StructField(name, field.dataType))
    values_of = from_arrow(spark, pa.table(data), StructType(fields))
    is_there = values_of[_PATH].isNotNull()
    # A missing file must neither lose its rows nor put them in a wrong partition.
    all_columns = rows.join(F.broadcast(values_of), rows[_PATH] == values_of[_PATH], "left")
    missing = F.raise_error(F.concat(F.lit("the log has no partition for "), rows[_PATH]))
    return all_columns.select(
        *(rows[quote_name(column.name)] for column in snapshot.stored_columns),
        *(
            F.when(is_there, values_of[quote_name(name)]).otherwise(missing).alias(name)
            for name in snapshot.partition_columns
        ),
    )


def _stored_fields(table: LakeTable) -> list[StructField]:
    """Return the stored columns, as files written with the current schema have them."""
    fields = zip(table.schema.fields, table.stored.fields, strict=True)
    names = table.snapshot.partition_columns
    return [stored for field, stored in fields if field.name not in names]


def has_fields(actual: pa.DataType, expected: DataType) -> bool:
    """Return whether nested fields of a file's column have the names that Spark looks for."""
    if isinstance(expected, StructType):
        if not pa.types.is_struct(actual):
            return False
        inside = {actual.field(i).name: actual.field(i).type for i in range(actual.num_fields)}
        # a missing field is NULL only if no other field can be the same one under an older name
        return len(inside) <= len(expected) and all(
            name in expected.names and has_fields(type_, expected[name].dataType)
            for name, type_ in inside.items()
        )
    if isinstance(expected, ArrayType):
        return is_list(actual) and has_fields(actual.value_type, expected.elementType)
    if isinstance(expected, MapType):
        return (
            pa.types.is_map(actual)
            and has_fields(actual.key_type, expected.keyType)
            and has_fields(actual.item_type, expected.valueType)
        )
    return not pa.types.is_nested(actual)
