"""New snapshots of an Iceberg table, each row once, without Spark."""

import json

import pyarrow as pa
import pytest
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType

from runtime.connectors.lake.iceberg.snapshot import spark_schema
from runtime.connectors.lake.iceberg.stream import IcebergSnapshots
from runtime.errors import ExecutionError
from tests.runtime.connectors.lake.delta.test_snapshot import as_set
from tests.runtime.connectors.lake.delta.test_stream import steps_of
from tests.runtime.connectors.lake.iceberg.test_snapshot import (
    TYPES,
    catalog,
    create_table,
    rows_of,
)

__all__ = ["catalog"]


@pytest.fixture
def reader_of(tmp_path):
    def made_reader(table, schema=None, **options):
        places = [
            ("catalog-type", "sql"),
            ("uri", f"sqlite:///{tmp_path}/c.db"),
            ("catalog-table", "db.t"),
            ("catalog-name", "c"),
        ]
        source = IcebergSnapshots({"table": "t", "options": json.dumps(places), **options})
        return source.streamReader(schema or spark_schema(table.schema()))

    return made_reader


def read(reader, start, end):
    parts = reader.partitions({"snapshot": start}, {"snapshot": end})
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


@pytest.mark.parametrize("partitions", [[], ["i"], ["d", "s"]], ids="_".join)
def test_each_row_is_read_once_for_any_steps(catalog, reader_of, partitions):
    table = create_table(catalog, *((name, IdentityTransform()) for name in partitions))
    for start in (0, 6, 12, 18):
        table.append(rows_of(6, start))
    ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
    reader = reader_of(table)
    assert reader.latestOffset(reader.initialOffset(), None) == {"snapshot": ids[-1]}
    for steps in ([3], [0, 3], [1, 2, 3], [0, 1, 2, 3]):
        rows, before = [], 0
        for step in steps:
            rows += read(reader, before, ids[step])
            before = ids[step]
        assert as_set(rows, TYPES) == as_set(rows_of(24).to_pylist(), TYPES)
    assert read(reader, ids[2], ids[2]) == []


def test_a_snapshot_that_takes_rows_away_stops_the_stream_or_is_passed_over(catalog, reader_of):
    table = create_table(catalog)
    table.append(rows_of(6))
    table.delete("k = 2")
    table.append(rows_of(1, 9))
    first, *_, last = [snapshot.snapshot_id for snapshot in table.snapshots()]
    with pytest.raises(ExecutionError, match="it deletes or updates rows"):
        read(reader_of(table), first, last)
    assert [row["k"] for row in read(reader_of(table, skips="true"), first, last)] == [9]
    assert len(read(reader_of(table), 0, last)) == 6


def test_a_missing_snapshot_stops_the_stream(catalog, reader_of):
    table = create_table(catalog)
    table.append(rows_of(6))
    with pytest.raises(ExecutionError, match="snapshot 7, the last one read, is not among"):
        read(reader_of(table), 7, table.current_snapshot().snapshot_id)


def test_a_bounded_stream_stays_where_it_was(catalog, reader_of):
    table = create_table(catalog)
    table.append(rows_of(6))
    first = table.current_snapshot().snapshot_id
    reader = reader_of(table, until=str(first))
    table.append(rows_of(6))
    assert reader.latestOffset({"snapshot": 0}, None) == {"snapshot": first}
    assert reader.latestOffset({"snapshot": first}, None) == {"snapshot": first}


def test_columns_may_be_added_but_not_removed_if_read(catalog, reader_of):
    table = create_table(catalog)
    table.append(rows_of(2))
    first = table.current_snapshot().snapshot_id
    reader = reader_of(table)
    with table.update_schema() as update:
        update.add_column("more", IntegerType())
    table.append(rows_of(1, 9).append_column("more", pa.array([5], pa.int32())))
    second = table.current_snapshot().snapshot_id
    assert [row["k"] for row in read(reader, first, second)] == [9]
    with table.update_schema() as update:
        update.rename_column("k", "key")
    table.append(rows_of(1, 9).select(["i"]))
    with pytest.raises(ExecutionError, match="the column k was changed"):
        read(reader, second, table.current_snapshot().snapshot_id)


def test_snapshots_are_read_in_parts(catalog, reader_of):
    table = create_table(catalog)
    for start in (0, 6, 12, 18):
        table.append(rows_of(6, start))
    ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
    reader = reader_of(table, most="2")
    assert steps_of(reader, 0, "snapshot") == [ids[-1]]
    assert steps_of(reader, ids[0], "snapshot") == [ids[2], ids[3]]
