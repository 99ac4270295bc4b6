"""New snapshots of an Iceberg table as a stream, each row once: a data source in Python.

The first micro-batch has the table as it is then; those that follow have the files that later
snapshots have added. A snapshot is never split. An offset is the id of the last snapshot that was
read; 0: none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from runtime.connectors.lake.iceberg.snapshot import (
    from_place,
    iceberg_table,
    lake_columns,
    lake_file,
    place_of,
    spark_schema,
    table_name,
)
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

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

FORMAT = "sqlwin_iceberg_snapshots"


class _IcebergReader(DataSourceStreamReader):
    """Reads a table snapshot by snapshot.

    Args:
        spec: the table.
        place: its path; None: its catalog knows it.
        schema: the columns that are read.
        until: no snapshot after this one is read; None: all that come.
        skips: snapshots that delete or update rows are passed over.
    """

    def __init__(
        self,
        spec: TableSpec,
        place: str | None,
        schema: StructType,
        until: int | None,
        skips: bool,
    ) -> None:
        self._spec = spec
        self._place = place
        self._schema = schema
        self._until = until
        self._skips = skips
        table = self._table()
        there = table.schema()
        by_name = {c.name: c for c in lake_columns(table, there, spark_schema(there))}
        self._columns = Columns(tuple(by_name[name] for name in schema.names))
        self._name = option_values(spec).get("path") or ".".join(table_name(spec))

    def initialOffset(self) -> dict[str, int]:
        return {"snapshot": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        if self._until is not None:
            return {"snapshot": self._until} if start["snapshot"] == 0 else start
        newest = self._table().current_snapshot()
        return start if newest is None else {"snapshot": newest.snapshot_id}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        if end["snapshot"] == start["snapshot"]:
            return []
        table = self._table()
        if start["snapshot"] == 0:
            return self._whole(table, end["snapshot"])
        return [
            part
            for snapshot in self._between(table, start["snapshot"], end["snapshot"])
            for part in self._added(table, snapshot)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, VersionFile)
        return read_file(partition, self._schema, self._columns)

    def _table(self) -> Table:
        try:
            place = TablePlace(self._place) if self._place else None
            return from_place(self._spec, place)
        except UnreadableError as error:
            raise ExecutionError(f"table `{self._spec.name}`: {error.reason}") from error

    def _whole(self, table: Table, snapshot_id: int) -> list[InputPartition]:
        options = (*self._spec.options, ("version", str(snapshot_id)))
        spec = TableSpec(self._spec.name, self._spec.connector, options=options)
        try:
            found = iceberg_table(spec, table, "UTC").snapshot
        except UnreadableError as error:
            raise self._stopped(snapshot_id, error.reason) from error
        return [VersionFile(file.path, {}, file.needed) for file in found.files]

    def _between(self, table: Table, start: int, end: int) -> list[Snapshot]:
        """The snapshots behind one up to another, in order.

        Raises:
            ExecutionError: the one is no older state of the other, as far as is known.
        """
        found: list[Snapshot] = []
        at: int | None = end
        while at is not None and at != start:
            snapshot = table.snapshot_by_id(at)
            if snapshot is None:
                break
            found.append(snapshot)
            at = snapshot.parent_snapshot_id
        if at != start:
            raise self._stopped(
                end,
                f"snapshot {start}, which was read last, is not among those before it: it has "
                "expired, or the table was rolled back",
            )
        return found[::-1]

    def _added(self, table: Table, snapshot: Snapshot) -> list[InputPartition]:
        """The files that a snapshot adds.

        Raises:
            ExecutionError: it takes rows away, or has other columns.
        """
        from pyiceberg.manifest import DataFileContent, ManifestEntryStatus
        from pyiceberg.table.snapshots import Operation

        operation = None if snapshot.summary is None else snapshot.summary.operation
        if operation == Operation.REPLACE:
            return []
        if operation != Operation.APPEND:
            if self._skips:
                return []
            raise self._stopped(
                snapshot.snapshot_id,
                "it deletes or updates rows; 'skip-change-commits' = 'true' passes over such "
                "snapshots",
            )
        there = table.schema()
        try:
            columns = spark_schema(there, table.schemas().values())
        except UnreadableError as error:
            raise self._stopped(snapshot.snapshot_id, error.reason) from error
        self._check_columns(snapshot.snapshot_id, columns)
        entries = [
            entry
            for manifest in snapshot.manifests(table.io)
            if manifest.added_snapshot_id == snapshot.snapshot_id
            for entry in manifest.fetch_manifest_entry(table.io)
            if entry.status == ManifestEntryStatus.ADDED
            and entry.data_file.content == DataFileContent.DATA
        ]
        try:
            files = [lake_file(table, entry.data_file, there) for entry in entries]
        except UnreadableError as error:
            raise self._stopped(snapshot.snapshot_id, error.reason) from error
        return [VersionFile(file.path, {}, file.needed) for file in files]

    def _check_columns(self, snapshot_id: int, there: StructType) -> None:
        for field in self._schema.fields:
            if field.name not in there.names or there[field.name].dataType != field.dataType:
                raise self._stopped(snapshot_id, f"the column {field.name} was changed")

    def _stopped(self, snapshot_id: int, why: str) -> ExecutionError:
        return ExecutionError(
            f"table `{self._spec.name}`: the stream stops at snapshot {snapshot_id} of "
            f"{self._name}: {why}"
        )


class IcebergSnapshots(DataSource):
    """The data source; options `table`, `place`, `options`, `until`, `skips`."""

    @classmethod
    def name(cls) -> str:
        """Its name in `format()`."""
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of a stream."""
        options = tuple((k, v) for k, v in json.loads(self.options["options"]))
        until = self.options.get("until")
        return _IcebergReader(
            TableSpec(self.options["table"], "iceberg", options=options),
            self.options.get("place") or None,
            schema,
            int(until) if until else None,
            self.options.get("skips") == "true",
        )


def stream_iceberg(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """A table and the snapshots that come, or without a monitor interval the table alone.

    Raises:
        ExecutionError: there is no table.
        CatalogError: its columns are not those declared.
        SetupError: the package is missing.
        UnreadableError: its rows would be wrong.
    """
    values = option_values(spec)
    place = place_of(spark, spec)
    if place is not None and place.store is not None:
        raise UnreadableError(f"{place.path} is on no file system of this machine")
    opened = from_place(spec, place)
    table = iceberg_table(spec, opened, str(spark.conf.get("spark.sql.session.timeZone")))
    current = opened.current_snapshot()
    # without a snapshot there is nothing to read: 0 is where a stream begins
    until = (
        "" if "source.monitor-interval" in values else str(current.snapshot_id if current else 0)
    )
    ours = ("version", "timestamp", "source.monitor-interval", "skip-change-commits", "late-rows")
    options = {
        "place": "" if place is None else place.path,
        "options": json.dumps([o for o in spec.options if o[0].lower() not in ours]),
        "until": until,
    }
    fields = column_fields(spec, table.schema)
    origin = f"{table.snapshot.path}, {table.snapshot.version}"
    return stream_of(spark, spec, IcebergSnapshots, fields, options, origin)
