"""Tables of Parquet files in an object store as Spark rows, read by Arrow in tasks.

For stores without a file system in Spark, because PySpark does not include the packages.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatch

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType

from runtime.connectors.declared_columns import declared_type, no_columns
from runtime.errors import ExecutionError, SetupError
from runtime.frames.file_rows import METADATA_FIELD, stored_rows
from runtime.options.checks import option_values
from runtime.options.formats import format_of, spark_options
from runtime.refusal import Refused
from runtime.scan.files import (
    NO_FILES,
    Listing,
    list_files,
    partition_pair,
    partition_type,
)
from runtime.scan.paths import expand
from runtime.scan.stored_files import StoredFiles
from runtime.scan.whole_rows import row_schema, spark_arrow_type
from runtime.spark.files import store_package
from runtime.spark.versions.arrow_types import to_arrow_type
from runtime.spark.versions.casts import type_from_ddl
from runtime.spec.scan import ScanFile
from runtime.spec.table import TableSpec

# Options of Spark's reader about the listing of files, and writer options
_KNOWN = ("pathglobfilter", "recursivefilelookup", "basepath", "compression")


def check_readable(spark: SparkSession, spec: TableSpec, origin: str) -> None:
    """Refuse a table in a store that only Spark's own reader could read.

    Raises:
        SetupError: The format or an option needs Spark's reader.
    """
    options = spark_options(spec, format_of(option_values(spec)) or "")
    others = sorted(name for name in options if name.lower() not in _KNOWN)
    what = f"files of format {format_of(option_values(spec))}"
    if what.endswith("parquet"):
        if not others:
            return
        what = f"files with the option '{others[0]}'"
    raise SetupError(
        f"table `{spec.name}`: Spark reads {what} at {origin} only with "
        + store_package(spark, origin),
        subjects=(spec.name,),
    )


def read_stored(
    spark: SparkSession, spec: TableSpec, origin: str, files: StoredFiles
) -> DataFrame | None:
    """Return the rows of a table's files with all their columns, and METADATA if declared.

    None without files but with declared columns.

    Raises:
        ExecutionError: A file cannot be read, or the directory layout is not one that Spark reads.
        CatalogError: Without files and without declared columns.
        SetupError: Only Spark's own reader could read the files.
    """
    check_readable(spark, spec, origin)
    listing = _list_files(spec, origin, files)
    scan_files = [ScanFile(path, (), (), *listing.stamps[path]) for path, _ in listing.files]
    declared = {c.name.lower(): declared_type(spec, c) for c in spec.physical_columns}
    fields, partition_names = [], {name.lower() for name in listing.partition_columns}
    if not scan_files:
        return None
    for field in row_schema(scan_files[0], files.store):
        name = field.name.lower()
        if name not in partition_names and (not declared or name in declared):
            _check_has_type(field, scan_files[0].path)
            fields.append(field)
    fields += _partition_fields(listing, declared)
    if any(c.metadata for c in spec.columns):
        fields.append(METADATA_FIELD)
    return stored_rows(spark, scan_files, dict(listing.files), pa.schema(fields), files.store)


def _list_files(spec: TableSpec, origin: str, files: StoredFiles) -> Listing:
    options = {k.lower(): v for k, v in spark_options(spec, "parquet").items()}
    is_flat = options.get("recursivefilelookup", "").lower() == "true"
    roots = expand(origin, files)
    try:
        listing = list_files(roots, files.store, is_flat=is_flat)
    except Refused as refused:
        if refused.refusal.reason != NO_FILES:
            raise ExecutionError(
                f"table `{spec.name}`: cannot read {origin}: {refused}", subjects=(spec.name,)
            ) from refused
        listing = Listing(())
    pattern = options.get("pathglobfilter", "*")
    selected = [file for file in listing.files if fnmatch(file[0].rpartition("/")[2], pattern)]
    if (base := options.get("basepath")) is not None:
        selected = [(path, _partition_below(base.rstrip("/"), path)) for path, _ in selected]
    if not selected and not spec.columns:
        raise no_columns(spec, origin)
    empty = [path for path, _ in selected if not listing.stamps[path][0]]
    if empty:
        raise ExecutionError(
            f"table `{spec.name}`: {empty[0]} is empty and not a valid file of format parquet",
            subjects=(spec.name,),
            hint="delete the file",
        )
    return Listing(tuple(selected), listing.stamps)


def _check_has_type(field: pa.Field, path: str) -> None:
    try:
        spark_arrow_type(field.type)
    except TypeError as error:
        raise ExecutionError(
            f"column `{field.name}` of {path} has Arrow type {field.type}, for which SQL has no "
            "type",
            subjects=(field.name,),
            hint="declare the other columns with CREATE TABLE",
        ) from error


def _partition_below(base: str, path: str) -> tuple[tuple[str, str], ...]:
    """Return the partition values in the directories of a file below a base directory."""
    directories = path.removeprefix(base).strip("/").split("/")[:-1]
    return tuple(partition_pair(directory) for directory in directories if "=" in directory)


def _partition_fields(listing: Listing, declared: Mapping[str, DataType]) -> list[pa.Field]:
    fields = []
    for number, name in enumerate(listing.partition_columns):
        values = {partition[number][1] for _, partition in listing.files}
        inferred = type_from_ddl(partition_type(values))
        type_ = to_arrow_type(declared.get(name.lower(), inferred))
        fields.append(pa.field(name, type_))
    return fields
