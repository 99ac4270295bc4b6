"""Stream of a Delta table's versions, each row once: a Spark data source in Python.

The first micro-batch reads the current table; later ones read the files that new versions add. A
version is never split, so rows committed together are read together. An offset is the number of the
last version that was read.

With `'scan.changes'` a stream reads changes: rows with the column CHANGE_TYPE. A version has them
in files below `_change_data`; without such files, all rows of the files that it removes are deleted
and all rows of the files that it adds are inserted. The first micro-batch begins with the rows of
the first version, so that each deleted row was inserted before.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from runtime.connectors.lake.delta.snapshot import (
    MAPPING,
    delta_path,
    delta_schema,
    delta_table,
    lake_column,
    mapping_mode,
    open_delta,
)
from runtime.connectors.lake.stream_files import (
    VersionFile,
    VersionReader,
    column_fields,
    stream_of,
)
from runtime.connectors.lake.table import check_stored_columns
from runtime.errors import ExecutionError
from runtime.lake.delta_log import partition_text
from runtime.lake.places import TablePlace, UnreadableError
from runtime.options.checks import option_values
from runtime.options.formats import CHANGE_TYPE, SCAN_CHANGES
from runtime.scan.lake import LakeColumn
from runtime.spark.versions.newer_classes import DataSource, DataSourceStreamReader, InputPartition
from runtime.spec.table import TableSpec

FORMAT = "sqlwin_delta_versions"
# Maximum number of versions in one micro-batch of a stream that is far behind
_MAX_VERSIONS = 1000
_COMMIT = re.compile(r"(\d{20})\.json")
# Options with the version in which changes begin
_STARTS = ("starting-version", "starting-timestamp")
_INSERT, _DELETE = "insert", "delete"


class _DeltaReader(VersionReader):
    def __init__(self, connector: str, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(connector, options, schema)
        assert self._place is not None
        self._at = self._place
        table = open_delta(self._spec, self._at)
        mode, table_schema = mapping_mode(table), delta_schema(table)
        # the snapshot with which a new stream begins; empty for the newest
        self._start = [
            (name.removeprefix("starting-"), options[name]) for name in _STARTS if name in options
        ]
        self._zone = options.get("zone", "UTC")
        self._has_changes = CHANGE_TYPE in schema.names and CHANGE_TYPE not in table_schema.names
        self._columns = tuple(
            lake_column(table_schema[name], mode)
            if name in table_schema.names
            else LakeColumn(name, "string", (name,))
            for name in schema.names
        )
        # names of the partition columns in the log
        self._logged = {
            name: table_schema[name].metadata.get(MAPPING + "physicalName", name)
            for name in table.metadata().partition_columns
            if name in schema.names
        }

    def initialOffset(self) -> dict[str, int]:
        return {"version": -1}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        names = os.listdir(f"{self._at.path}/_delta_log")
        versions = [int(match[1]) for name in names if (match := _COMMIT.fullmatch(name))]
        newest = max(versions, default=start["version"])
        if self._until is not None:
            newest = min(newest, max(self._until, start["version"]))
        at, n_files = start["version"], 0
        if at < 0:
            at = self._first_version(newest)
            if at < newest and self._most_files is not None:
                n_files = len(self._snapshot(at))
        following = range(at + 1, min(newest, at + _MAX_VERSIONS) + 1)
        return {"version": [at, *self.first_versions(following, self._files_of, n_files)][-1]}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        if end["version"] <= start["version"]:
            return []
        first, parts = start["version"], list[InputPartition]()
        if first < 0:
            # a resumed stream needs no such version, whose log may have been cleaned up
            first = self._first_version(end["version"])
            parts += self._snapshot(first)
        for version in range(first + 1, end["version"] + 1):
            parts += self._files_of(version)
        return parts

    def _first_version(self, newest: int) -> int:
        """Return the version whose rows a new stream reads first."""
        if not self._start:
            return newest
        spec = replace(self._spec, options=(*self._spec.options, *self._start))
        return open_delta(spec, self._at, self._zone).version()

    def _snapshot(self, version: int) -> list[InputPartition]:
        options = (*self._spec.options, ("version", str(version)))
        spec = replace(self._spec, options=options)
        try:
            table = open_delta(spec, self._at)
            snapshot = delta_table(spec, table, self._at, "UTC").snapshot
        except UnreadableError as error:
            raise self._stopped_error(version, error.reason) from error
        types = {column.name: column.type for column in snapshot.columns}
        names = snapshot.partition_columns
        parts: list[InputPartition] = []
        for file in snapshot.files:
            values = dict(zip(names, file.partition, strict=True))
            texts = {name: partition_text(values[name], types[name]) for name in self._logged}
            parts.append(VersionFile(file.path, texts | self._change(_INSERT)))
        return parts

    def _files_of(self, version: int) -> list[InputPartition]:
        """Return the files with the rows or changes of a version.

        Raises:
            ExecutionError: The version removes rows from a stream without changes, its log entry no
                longer exists, or its rows cannot be read.
        """
        try:
            with open(f"{self._at.path}/_delta_log/{version:020}.json", encoding="utf-8") as file:
                actions = [json.loads(line) for line in file if line.strip()]
        except FileNotFoundError as error:
            raise self._stopped_error(
                version, "its log was cleaned up before the stream read it"
            ) from error
        for action in actions:
            if "metaData" in action:
                schema = StructType.fromJson(json.loads(action["metaData"]["schemaString"]))
                if self._has_changes:
                    schema = schema.add(CHANGE_TYPE, StringType())
                if (changed := self.changed_column(schema)) is not None:
                    raise self._stopped_error(version, f"it changes the column {changed}")
        changes = [action["cdc"] for action in actions if "cdc" in action]
        if changes and self._has_changes:
            return [self._file(change, version, {}) for change in changes]
        removed, added = (
            [a[kind] for a in actions if kind in a and a[kind].get("dataChange", True)]
            for kind in ("remove", "add")
        )
        if removed and not self._has_changes:
            if self._skips:
                return []
            raise self._stopped_error(
                version,
                "it deletes or updates rows; 'skip-change-commits' = 'true' skips such versions, "
                "and 'scan.changes' = 'true' reads their changes",
            )
        return [
            *(self._file(entry, version, self._change(_DELETE)) for entry in removed),
            *(self._file(entry, version, self._change(_INSERT)) for entry in added),
        ]

    def _file(
        self, entry: Mapping[str, Any], version: int, change: dict[str, str | None]
    ) -> VersionFile:
        """Return the file of an entry of the log, with the values of partition columns."""
        if entry.get("deletionVector") is not None:
            raise self._stopped_error(version, "it contains deletion vectors")
        try:
            path = self._at.file(entry["path"])
        except UnreadableError as error:
            raise self._stopped_error(version, error.reason) from error
        values = entry.get("partitionValues")
        if values is None and self._logged:
            raise self._stopped_error(version, f"its log lacks the partition of {path}")
        texts = {name: values[logged] for name, logged in self._logged.items()} if values else {}
        return VersionFile(path, texts | change)

    def _change(self, kind: str) -> dict[str, str | None]:
        """Return the value of CHANGE_TYPE for all rows of a file."""
        return {CHANGE_TYPE: kind} if self._has_changes else {}

    def _stopped_error(self, version: int, why: str) -> ExecutionError:
        return self.stop_error(version, self._at.path, why)


class DeltaVersions(DataSource):
    """Data source; for its options see `stream_of`."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format()`."""
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the stream reader."""
        return _DeltaReader("delta", self.options, schema)


def stream_delta(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """Read a table with its new versions, or without a monitor interval only the table.

    Raises:
        ExecutionError: The table does not exist, or its rows would be wrong.
        CatalogError: The table does not have the declared columns.
        SetupError: The package is missing.
    """
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    place = TablePlace(delta_path(spark, spec))
    opened = open_delta(spec, place, zone)
    table = delta_table(spec, opened, place, zone)
    values = option_values(spec)
    has_changes = values.get(SCAN_CHANGES, "").lower() == "true"
    if has_changes and CHANGE_TYPE in table.schema.names:
        raise UnreadableError(f"it stores a column {CHANGE_TYPE}, which '{SCAN_CHANGES}' adds")
    stored = replace(spec, columns=tuple(c for c in spec.columns if c.name != CHANGE_TYPE))
    check_stored_columns(stored if has_changes else spec, table)
    fields = column_fields(spec, table.schema)
    for field in fields:
        is_nested = field.dataType.simpleString().startswith(("struct", "array", "map"))
        if is_nested and table.stored is not table.schema:
            raise UnreadableError(
                f"its column {field.name} is a struct in a table with column mapping"
            )
    starts = {name: values[name] for name in _STARTS if name in values}
    if has_changes:
        fields.append(StructField(CHANGE_TYPE, StringType()))
    origin = f"{table.snapshot.path}, {table.snapshot.version}"
    newest = opened.version()
    return stream_of(
        spark, spec, DeltaVersions, fields, place, newest, origin, starts | {"zone": zone}
    )
