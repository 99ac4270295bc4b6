"""Parquet tables of Spark's session catalog whose files the Arrow scan reads, for slices of them.

What a refresh reads has to be what Spark would read. Of a table whose partitions the catalog knows
that is the files of those partitions; of another one those in its directory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from planner.catalog import Schema
from runtime.errors import CatalogError
from runtime.files import as_uri
from runtime.frames.scan_source import scan_source
from runtime.names import quoted
from runtime.scan.files import NotScannable, partition_pair
from runtime.spark.files import resolve
from runtime.spec.scan import ScanFile, ScanSource
from runtime.spec.table import TableSpec
from sqlwin.catalog.entries import Name

# The connector of such a table in the definition of a materialized one
SPARK_TABLE = "spark-catalog"
_TABLE, _PATH, _FORMAT, _TRACKED = "table", "path", "format", "partitions"
_CATALOG = "Catalog"
_LAKES = ("delta", "iceberg")


class SparkTables:
    """The tables of Spark's catalog that materialized tables are over, as this session asks."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._followed: set[str] = set()
        # by name, for as long as a statement
        self._found: dict[Name, TableSpec | None] = {}

    def start_statement(self) -> None:
        """Begin a statement: tables are looked up again."""
        self._found.clear()

    def follow(self, table: TableSpec) -> None:
        """Read the files of a table by the Arrow scan from here on."""
        self._followed.add(full_name(table))

    def followed(self, name: Name) -> TableSpec | None:
        """A table whose files are read so; None: there is none of that name."""
        if not self._followed:
            return None
        try:
            table = self.table(name)
        except CatalogError:
            return None
        return table if table is not None and full_name(table) in self._followed else None

    def table(self, name: Name) -> TableSpec | None:
        """What a name stands for in Spark's catalog; None: nothing.

        Raises:
            CatalogError: it is a view, or of a format that the scan does not read.
        """
        if name not in self._found:
            self._found[name] = self._look_up(name)
        return self._found[name]

    def _look_up(self, name: Name) -> TableSpec | None:
        called, shown = quoted(*name), ".".join(name)
        try:
            is_there = all(name) and self._spark.catalog.tableExists(called)
        except PySparkException:
            # no such catalog, or no name of a table: whoever plans the query says so
            return None
        if not is_there:
            return None
        try:
            kind = self._spark.catalog.getTable(called)
            if kind.isTemporary or kind.tableType in ("VIEW", "TEMPORARY"):
                raise CatalogError(
                    f"`{shown}` is a view of Spark's, of which nobody knows the rows that are new",
                    subjects=(shown, name[-1]),
                    hint="name the table that it reads, or write its query as CREATE VIEW here",
                )
            (row,) = self._spark.sql(f"DESCRIBE TABLE EXTENDED {called} AS JSON").collect()
        except PySparkException as error:
            raise CatalogError(
                f"`{shown}` is not described by its catalog as tables of Spark's session catalog "
                "are: of its rows nobody knows which are new",
                subjects=(shown, name[-1]),
                hint="tables of lakes: CREATE TABLE ... WITH ('connector' = 'delta' or 'iceberg', "
                "...)",
            ) from error
        return described_table(shown, json.loads(row[0]))

    def source(self, table: TableSpec, columns: Schema) -> ScanSource | str:
        """The files of a table as the Arrow scan reads them, or why it cannot."""
        options = table.option_map
        path = options[_PATH]
        # first what Spark reads: a file that comes meanwhile is in none of both, or left out
        known = self._files_of_partitions(table) if options[_TRACKED] == _CATALOG else None
        if isinstance(known, str):
            return known
        source = scan_source(self._spark, path, columns)
        if isinstance(source, NotScannable):
            return source.reason
        root = as_uri(resolve(self._spark, path))
        wanted = tuple(column.lower() for column in table.partitioned_by)
        for file in (*source.files, *source.others):
            directories = _directories(as_uri(file.path), root)
            named = tuple(partition_pair(each, file.path)[0].lower() for each in directories)
            if named != wanted:
                return f"{file.path} is in no directory of the table's partitions"
        if known is None:
            return source

        def of(files: tuple[ScanFile, ...]) -> tuple[ScanFile, ...]:
            return tuple(file for file in files if as_uri(file.path) in known)

        return replace(source, files=of(source.files), others=of(source.others))

    def _files_of_partitions(self, table: TableSpec) -> frozenset[str] | str:
        """The files of the partitions that the catalog knows, by URI, or why they are not read."""
        called = quoted(*full_name(table).split("."))
        root = as_uri(resolve(self._spark, table.option_map[_PATH]))
        # Spark goes by what it listed last
        self._spark.catalog.refreshTable(called)
        files = [_plain_uri(uri) for uri in self._spark.table(called).inputFiles()]
        partitions = {row[0] for row in self._spark.sql(f"SHOW PARTITIONS {called}").collect()}
        for file in files:
            # a partition may be anywhere, also where another one belongs
            is_below = file.startswith(f"{root}/")
            if not is_below or "/".join(_directories(file, root)) not in partitions:
                return f"its file {file} is not where the table has that partition: below {root}"
        if len(set(files)) < len(files):
            return f"partitions of it are in the same directory below {root}"
        return frozenset(files)


def _directories(uri: str, root: str) -> list[str]:
    """The directories between a root and a file."""
    return uri.removeprefix(root).strip("/").split("/")[:-1]


def full_name(table: TableSpec) -> str:
    """The name of a table of Spark's catalog with its catalog and database, in lower case."""
    return table.option_map[_TABLE]


def described_table(name: str, found: Mapping[str, Any]) -> TableSpec:
    """A table that Spark's catalog describes.

    Raises:
        CatalogError: its files are not Parquet.
    """
    provider, location = str(found.get("provider", "")).lower(), str(found.get("location", ""))
    if provider != "parquet" or not location:
        hint = "write it as Parquet, or as a Delta or an Iceberg table"
        is_parquet = provider == "hive" and "parquet" in str(found.get("serde_library", "")).lower()
        if provider in _LAKES or is_parquet:
            connector = "filesystem', 'format' = 'parquet" if is_parquet else provider
            hint = f"CREATE TABLE ... WITH ('connector' = '{connector}', 'path' = '{location}')"
        raise CatalogError(
            f"`{name}` is a table of {provider.upper() or 'another kind'}, of which Spark's "
            "catalog does not say which rows are new",
            subjects=(name, name.rpartition(".")[2]),
            hint=hint,
        )
    full = (found.get("catalog_name", ""), *found.get("namespace", ()), found["table_name"])
    return TableSpec(
        name,
        SPARK_TABLE,
        options=(
            (_TABLE, ".".join(map(str, full)).lower()),
            (_PATH, _plain_uri(location, is_escaped=False)),
            (_FORMAT, provider),
            (_TRACKED, str(found.get("partition_provider", ""))),
        ),
        partitioned_by=tuple(found.get("partition_columns", ())),
    )


def _plain_uri(uri: str, *, is_escaped: bool = True) -> str:
    """A URI of Hadoop's as `as_uri` spells it: nothing escaped, files of this machine `file://`."""
    plain = unquote(uri) if is_escaped else uri
    if plain.startswith("file:"):
        return "file:///" + plain.removeprefix("file:").lstrip("/")
    return plain
