"""Parquet tables of Spark's session catalog whose files the Arrow scan reads for slices.

A refresh must read the same files as Spark: the files of the partitions if the catalog tracks
partitions, otherwise all files in the table's directory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from planner.catalog import Schema
from runtime.errors import CatalogError
from runtime.files import as_uri
from runtime.frames.scan_source import scan_source
from runtime.names import quote_name
from runtime.refusal import refuse
from runtime.scan.files import partition_pair
from runtime.spark.exceptions import spark_error
from runtime.spark.files import resolve
from runtime.spec.scan import ScanFile, ScanSource
from runtime.spec.table import TableSpec
from sqlwin.catalog.entries import Name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Connector of such a table in the definition of a materialized table
SPARK_TABLE = "spark-catalog"
_TABLE, _PATH, _FORMAT, _TRACKED = "table", "path", "format", "partitions"
_CATALOG = "Catalog"
_LAKES = ("delta", "iceberg")


class SparkTables:
    """Tables of Spark's catalog that materialized tables read."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._followed: set[str] = set()
        # by name, for the current statement
        self._tables: dict[Name, TableSpec | None] = {}

    def start_statement(self) -> None:
        """Begin a statement. Tables are looked up again."""
        self._tables.clear()

    def follow(self, table: TableSpec) -> None:
        """Use the Arrow scan for a table's files from now on."""
        self._followed.add(full_name(table))

    def followed_table(self, name: Name) -> TableSpec | None:
        """Return a table whose files the Arrow scan reads, or None."""
        if not self._followed:
            return None
        try:
            table = self.table(name)
        except CatalogError:
            return None
        return table if table is not None and full_name(table) in self._followed else None

    def table(self, name: Name) -> TableSpec | None:
        """Return a table of Spark's catalog, or None if the name is unknown.

        Raises:
            CatalogError: It is a view, or has a format that the scan cannot read.
        """
        if name not in self._tables:
            self._tables[name] = self._look_up(name)
        return self._tables[name]

    def _look_up(self, name: Name) -> TableSpec | None:
        called, shown = quote_name(*name), ".".join(name)
        try:
            exists = all(name) and self._spark.catalog.tableExists(called)
        except spark_error():
            # unknown catalog or invalid name: planning reports the error
            return None
        if not exists:
            return None
        try:
            kind = self._spark.catalog.getTable(called)
            if kind.isTemporary or kind.tableType in ("VIEW", "TEMPORARY"):
                raise CatalogError(
                    f"`{shown}` is a Spark view, so its new rows cannot be tracked",
                    subjects=(shown, name[-1]),
                    hint="use the table that it reads, or recreate the view in this session "
                    "with CREATE VIEW",
                )
            (row,) = self._spark.sql(f"DESCRIBE TABLE EXTENDED {called} AS JSON").collect()
        except spark_error() as error:
            raise CatalogError(
                f"`{shown}` is not in Spark's session catalog, so its new rows cannot be tracked",
                subjects=(shown, name[-1]),
                hint="for Delta and Iceberg tables, use CREATE TABLE ... WITH ('connector' = "
                "'delta' or 'iceberg', ...)",
            ) from error
        return table_from_description(shown, json.loads(row[0]))

    def source(self, table: TableSpec, columns: Schema) -> ScanSource:
        """Return the files of a table for the Arrow scan. See `planner.catalog.Catalog`."""
        options = table.option_map
        path = options[_PATH]
        # List Spark's files first: a file added in between is then skipped rather than read
        # inconsistently.
        partition_files = (
            self._files_of_partitions(table) if options[_TRACKED] == _CATALOG else None
        )
        source = scan_source(self._spark, path, columns)
        root = as_uri(resolve(self._spark, path))
        partition_columns = tuple(column.lower() for column in table.partitioned_by)
        for file in (*source.files, *source.others):
            directories = _directories(as_uri(file.path), root)
            named = tuple(
                partition_pair(directory, file.path)[0].lower() for directory in directories
            )
            if named != partition_columns:
                refuse(f"{file.path} is not in a partition directory of the table")
        if partition_files is None:
            return source

        def files_of_partition(files: tuple[ScanFile, ...]) -> tuple[ScanFile, ...]:
            return tuple(file for file in files if as_uri(file.path) in partition_files)

        return replace(
            source, files=files_of_partition(source.files), others=files_of_partition(source.others)
        )

    def _files_of_partitions(self, table: TableSpec) -> frozenset[str]:
        """Return the file URIs of tracked partitions, or refuse partitions elsewhere."""
        called = quote_name(*full_name(table).split("."))
        root = as_uri(resolve(self._spark, table.option_map[_PATH]))
        # Spark caches file listings.
        self._spark.catalog.refreshTable(called)
        files = [_plain_uri(uri) for uri in self._spark.table(called).inputFiles()]
        partitions = {row[0] for row in self._spark.sql(f"SHOW PARTITIONS {called}").collect()}
        for file in files:
            # A partition can be anywhere, even inside another partition's directory.
            is_below = file.startswith(f"{root}/")
            if not is_below or "/".join(_directories(file, root)) not in partitions:
                refuse(f"the partition of file {file} is outside the table's directory {root}")
        if len(set(files)) < len(files):
            refuse(f"several partitions share a directory below {root}")
        return frozenset(files)


def _directories(uri: str, root: str) -> list[str]:
    """Return the directories between a root and a file."""
    return uri.removeprefix(root).strip("/").split("/")[:-1]


def full_name(table: TableSpec) -> str:
    """Return the lower-case name of a Spark table, with its catalog and database."""
    return table.option_map[_TABLE]


def table_from_description(name: str, description: Mapping[str, Any]) -> TableSpec:
    """Build a table from its description in Spark's catalog.

    Raises:
        CatalogError: Its files are not Parquet.
    """
    provider, location = (
        str(description.get("provider", "")).lower(),
        str(description.get("location", "")),
    )
    if provider != "parquet" or not location:
        hint = "store it as Parquet, Delta or Iceberg"
        is_parquet = (
            provider == "hive" and "parquet" in str(description.get("serde_library", "")).lower()
        )
        if provider in _LAKES or is_parquet:
            connector = "filesystem', 'format' = 'parquet" if is_parquet else provider
            hint = f"use CREATE TABLE ... WITH ('connector' = '{connector}', 'path' = '{location}')"
        raise CatalogError(
            f"`{name}` is a table of format {provider.upper() or 'unknown'}, so its new "
            "rows cannot be tracked",
            subjects=(name, name.rpartition(".")[2]),
            hint=hint,
        )
    full = (
        description.get("catalog_name", ""),
        *description.get("namespace", ()),
        description["table_name"],
    )
    return TableSpec(
        name,
        SPARK_TABLE,
        options=(
            (_TABLE, ".".join(map(str, full)).lower()),
            (_PATH, _plain_uri(location, is_escaped=False)),
            (_FORMAT, provider),
            (_TRACKED, str(description.get("partition_provider", ""))),
        ),
        partitioned_by=tuple(description.get("partition_columns", ())),
    )


def _plain_uri(uri: str, *, is_escaped: bool = True) -> str:
    """Convert a Hadoop URI to the form of `as_uri`: unescaped, with `file://` for local files."""
    plain = unquote(uri) if is_escaped else uri
    if plain.startswith("file:"):
        return "file:///" + plain.removeprefix("file:").lstrip("/")
    return plain
