"""Stream of an Iceberg table's snapshots, each row once: a Spark data source in Python.

The first micro-batch reads the current table; later ones read the files that new snapshots add. A
snapshot is never split. An offset is the id of the last snapshot that was read, or 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from runtime.connectors.lake.iceberg.snapshot import (
    from_place,
    iceberg_table,
    lake_columns,
    lake_file,
    name_of,
    place_of,
    spark_schema,
)
from runtime.connectors.lake.stream_files import (
    VersionFile,
    VersionReader,
    column_fields,
    stream_of,
)
from runtime.connectors.lake.table import check_stored_columns
from runtime.errors import ExecutionError
from runtime.lake.places import UnreadableError
from runtime.spark.versions.newer_classes import DataSource, DataSourceStreamReader, InputPartition
from runtime.spec.table import TableSpec

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

FORMAT = "sqlwin_iceberg_snapshots"


class _IcebergReader(VersionReader):
    unit = "snapshot"

    def __init__(self, connector: str, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(connector, options, schema)
        table = self._table()
        table_schema = table.schema()
        by_name = {c.name: c for c in lake_columns(table, table_schema, spark_schema(table_schema))}
        self._columns = tuple(by_name[name] for name in schema.names)

    def initialOffset(self) -> dict[str, int]:
        return {"snapshot": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        if self._until is not None:
            return {"snapshot": self._until} if start["snapshot"] == 0 else start
        table, at = self._table(), start["snapshot"]
        newest = table.current_snapshot()
        if newest is None:
            return start
        if at == 0 or self._most_files is None:
            return {"snapshot": newest.snapshot_id}
        following = self._snapshots_between(table, at, newest.snapshot_id)
        first = self.first_versions(following, partial(self._added_files, table))
        return {"snapshot": [at, *(snapshot.snapshot_id for snapshot in first)][-1]}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        if end["snapshot"] == start["snapshot"]:
            return []
        table = self._table()
        if start["snapshot"] == 0:
            return self._all_files(table, end["snapshot"])
        return [
            part
            for snapshot in self._snapshots_between(table, start["snapshot"], end["snapshot"])
            for part in self._added_files(table, snapshot)
        ]

    def _table(self) -> Table:
        try:
            return from_place(self._spec, self._place)
        except UnreadableError as error:
            raise ExecutionError(f"table `{self._spec.name}`: {error.reason}") from error

    def _all_files(self, table: Table, snapshot_id: int) -> list[InputPartition]:
        options = (*self._spec.options, ("version", str(snapshot_id)))
        spec = replace(self._spec, options=options)
        try:
            snapshot = iceberg_table(spec, table, "UTC").snapshot
        except UnreadableError as error:
            raise self._stopped_error(snapshot_id, error.reason) from error
        return [VersionFile(file.path, {}, file.needed) for file in snapshot.files]

    def _snapshots_between(self, table: Table, start: int, end: int) -> list[Snapshot]:
        """Return the snapshots after `start` up to `end`, in order.

        Raises:
            ExecutionError: `start` is not a known ancestor of `end`.
        """
        snapshots: list[Snapshot] = []
        at: int | None = end
        while at is not None and at != start:
            snapshot = table.snapshot_by_id(at)
            if snapshot is None:
                break
            snapshots.append(snapshot)
            at = snapshot.parent_snapshot_id
        if at != start:
            raise self._stopped_error(
                end,
                f"snapshot {start}, the last one read, is not among its ancestors: it "
                "has expired, or the table was rolled back",
            )
        return snapshots[::-1]

    def _added_files(self, table: Table, snapshot: Snapshot) -> list[InputPartition]:
        """Return the files that a snapshot adds.

        Raises:
            ExecutionError: The snapshot removes rows or has other columns.
        """
        from pyiceberg.manifest import DataFileContent, ManifestEntryStatus
        from pyiceberg.table.snapshots import Operation

        operation = None if snapshot.summary is None else snapshot.summary.operation
        if operation == Operation.REPLACE:
            return []
        if operation != Operation.APPEND:
            if self._skips:
                return []
            raise self._stopped_error(
                snapshot.snapshot_id,
                "it deletes or updates rows; 'skip-change-commits' = 'true' skips such snapshots",
            )
        schema = table.schema()
        try:
            columns = spark_schema(schema, table.schemas().values())
        except UnreadableError as error:
            raise self._stopped_error(snapshot.snapshot_id, error.reason) from error
        if (changed := self.changed_column(columns)) is not None:
            raise self._stopped_error(snapshot.snapshot_id, f"the column {changed} was changed")
        entries = [
            entry
            for manifest in snapshot.manifests(table.io)
            if manifest.added_snapshot_id == snapshot.snapshot_id
            for entry in manifest.fetch_manifest_entry(table.io)
            if entry.status == ManifestEntryStatus.ADDED
            and entry.data_file.content == DataFileContent.DATA
        ]
        try:
            files = [lake_file(table, entry.data_file, schema) for entry in entries]
        except UnreadableError as error:
            raise self._stopped_error(snapshot.snapshot_id, error.reason) from error
        return [VersionFile(file.path, {}, file.needed) for file in files]

    def _stopped_error(self, snapshot_id: int, why: str) -> ExecutionError:
        return self.stop_error(snapshot_id, name_of(self._spec), why)


class IcebergSnapshots(DataSource):
    """Data source; for its options see `stream_of`."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format()`."""
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the stream reader."""
        return _IcebergReader("iceberg", self.options, schema)


def stream_iceberg(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """Read a table with its new snapshots, or without a monitor interval only the table.

    Raises:
        ExecutionError: The table does not exist.
        CatalogError: The table does not have the declared columns.
        SetupError: The package is missing.
        UnreadableError: Rows would be wrong.
    """
    place = place_of(spark, spec)
    if place is not None and place.store is not None:
        raise UnreadableError(f"{place.path} is not on a local file system")
    opened = from_place(spec, place)
    table = iceberg_table(spec, opened, str(spark.conf.get("spark.sql.session.timeZone")))
    check_stored_columns(spec, table)
    current = opened.current_snapshot()
    # 0 is the start of a stream, where there is nothing to read without a snapshot
    newest = current.snapshot_id if current else 0
    fields = column_fields(spec, table.schema)
    origin = f"{table.snapshot.path}, {table.snapshot.version}"
    return stream_of(spark, spec, IcebergSnapshots, fields, place, newest, origin)
