"""New versions of a Delta table as a stream, each row once: a data source of Spark's in Python.

The first micro-batch has the table as it is then; those that follow have the files that later
versions have added. A version is never split, so that rows that were committed together are also
read together. An offset is the number of the last version that was read.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from runtime.connectors.lake.delta.snapshot import (
    delta_path,
    delta_schema,
    delta_table,
    lake_column,
    mapping_mode,
    open_delta,
)
from runtime.connectors.lake.delta.write import partition_text
from runtime.connectors.lake.places import TablePlace
from runtime.connectors.lake.stream_files import (
    Columns,
    VersionFile,
    column_fields,
    read_file,
    stream_of,
)
from runtime.connectors.lake.table import UnreadableError
from runtime.connectors.options.checks import option_values
from runtime.errors import ExecutionError
from runtime.spec.table import TableSpec

FORMAT = "sqlwin_delta_versions"
# A stream that is far behind reads so many versions at a time
_MOST_VERSIONS = 1000
_BATCH_ROWS = 1 << 16
_COMMIT = re.compile(r"(\d{20})\.json")
_MAPPING = "delta.columnMapping."


class _DeltaReader(DataSourceStreamReader):
    """Reads a table version by version.

    Args:
        spec: the table.
        path: where it is.
        schema: the columns that are read, as the table calls them.
        until: no version after this one is read; None: all that come.
        skips: versions that delete or update rows are passed over.
    """

    def __init__(
        self, spec: TableSpec, path: str, schema: StructType, until: int | None, skips: bool
    ) -> None:
        self._spec = spec
        self._path = path
        self._schema = schema
        self._until = until
        self._skips = skips
        self._columns = _table_columns(spec, path, schema)

    def initialOffset(self) -> dict[str, int]:
        return {"version": -1}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        names = os.listdir(f"{self._path}/_delta_log")
        found = [int(match[1]) for name in names if (match := _COMMIT.fullmatch(name))]
        newest = max(found, default=start["version"])
        if self._until is not None:
            newest = min(newest, max(self._until, start["version"]))
        if start["version"] >= 0:
            newest = min(newest, start["version"] + _MOST_VERSIONS)
        return {"version": max(newest, start["version"])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        if end["version"] <= start["version"]:
            return []
        if start["version"] < 0:
            return self._snapshot(end["version"])
        versions = range(start["version"] + 1, end["version"] + 1)
        return [part for version in versions for part in self._added(version)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, VersionFile)
        return read_file(partition, self._schema, self._columns)

    def _snapshot(self, version: int) -> list[InputPartition]:
        chosen = (*self._spec.options, ("version", str(version)))
        spec = replace(self._spec, options=chosen)
        try:
            table = open_delta(spec, TablePlace(self._path))
            snapshot = delta_table(spec, table, TablePlace(self._path), "UTC").snapshot
        except UnreadableError as error:
            raise self._stopped(version, error.reason) from error
        types = {column.name: column.type for column in snapshot.columns}
        names = snapshot.partition_columns
        return [
            VersionFile(
                file.path,
                {
                    name: partition_text(value, types[name])
                    for name, value in zip(names, file.partition, strict=True)
                },
            )
            for file in snapshot.files
        ]

    def _added(self, version: int) -> list[InputPartition]:
        """The files that a version adds.

        Raises:
            ExecutionError: it takes rows away, or is gone.
        """
        try:
            with open(f"{self._path}/_delta_log/{version:020}.json", encoding="utf-8") as file:
                actions = [json.loads(line) for line in file if line.strip()]
        except FileNotFoundError as error:
            raise self._stopped(version, "its log was cleaned up before it was read") from error
        found: list[InputPartition] = []
        for action in actions:
            if "remove" in action and action["remove"].get("dataChange", True):
                if self._skips:
                    return []
                raise self._stopped(
                    version,
                    "it deletes or updates rows; 'skip-change-commits' = 'true' passes over such "
                    "versions",
                )
            if "metaData" in action:
                self._check_columns(version, json.loads(action["metaData"]["schemaString"]))
            if "add" in action and action["add"].get("dataChange", True):
                add = action["add"]
                if add.get("deletionVector") is not None:
                    raise self._stopped(version, "rows of it are marked as deleted")
                try:
                    path = TablePlace(self._path).file(add["path"])
                except UnreadableError as error:
                    raise self._stopped(version, error.reason) from error
                found.append(VersionFile(path, add["partitionValues"]))
        return found

    def _check_columns(self, version: int, columns: dict[str, Any]) -> None:
        schema = StructType.fromJson(columns)
        for field in self._schema.fields:
            if field.name not in schema.names or schema[field.name].dataType != field.dataType:
                raise self._stopped(version, f"it changes the column {field.name}")

    def _stopped(self, version: int, why: str) -> ExecutionError:
        return ExecutionError(
            f"table `{self._spec.name}`: the stream stops at version {version} of {self._path}: "
            f"{why}"
        )


def _table_columns(spec: TableSpec, path: str, schema: StructType) -> Columns:
    """How the columns of a table are found in its files now."""
    table = open_delta(spec, TablePlace(path))
    mode = mapping_mode(table)
    there = delta_schema(table)
    columns = tuple(lake_column(there[name], mode) for name in schema.names)
    partitions = {
        name: there[name].metadata.get(_MAPPING + "physicalName", name)
        for name in table.metadata().partition_columns
        if name in schema.names
    }
    return Columns(columns, partitions)


class DeltaVersions(DataSource):
    """The data source; options `table`, `path`, `until`, `skips`."""

    @classmethod
    def name(cls) -> str:
        """Its name in `format()`."""
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of a stream."""
        spec = TableSpec(self.options["table"], "delta", options=(("path", self.options["path"]),))
        until = self.options.get("until")
        return _DeltaReader(
            spec,
            self.options["path"],
            schema,
            int(until) if until else None,
            self.options.get("skips") == "true",
        )


def stream_delta(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """A table and the versions that come, or without a monitor interval the table alone.

    Raises:
        ExecutionError: there is no table, or its rows would be wrong.
        CatalogError: its columns are not those declared.
        SetupError: the package is missing.
    """
    values = option_values(spec)
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    path = delta_path(spark, spec)
    opened = open_delta(spec, TablePlace(path), zone)
    table = delta_table(spec, opened, TablePlace(path), zone)
    fields = column_fields(spec, table.schema)
    for field in fields:
        is_nested = field.dataType.simpleString().startswith(("struct", "array", "map"))
        if is_nested and table.stored is not table.schema:
            raise UnreadableError(f"its column {field.name} has fields, and columns are mapped")
    until = None if "source.monitor-interval" in values else opened.version()
    options = {"path": path, "until": "" if until is None else str(until)}
    origin = f"{values['path']}, version {opened.version()}"
    return stream_of(spark, spec, DeltaVersions, fields, options, origin)
