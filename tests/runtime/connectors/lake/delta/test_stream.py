"""New versions of a Delta table, each row once, without Spark."""

import datetime as dt
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from runtime.connectors.lake.delta.snapshot import delta_schema
from runtime.connectors.lake.delta.stream import DeltaVersions
from runtime.errors import ExecutionError
from tests.runtime.connectors.lake.delta.test_snapshot import (
    EVERY,
    add_entry,
    as_set,
    mapped_field,
    scan_table,
    table_of,
    written_by_hand,
)


def reader_of(path, schema=None, **options):
    options_text = json.dumps([("path", str(path))])
    source = DeltaVersions({"table": "t", "path": str(path), "options": options_text, **options})
    return source.streamReader(schema or delta_schema(DeltaTable(path)))


def read(reader, start, end):
    parts = reader.partitions({"version": start}, {"version": end})
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    "partitions", [[], ["i"], ["d", "s"], ["n", "c", "b"], ["at"]], ids="_".join
)
def test_each_row_is_read_once_for_any_steps(tmp_path, partitions):
    for start in (0, 6, 12, 18):
        write_deltalake(tmp_path, table_of(6, start), partition_by=partitions, mode="append")
    expected = as_set(table_of(24).to_pylist(), EVERY)
    for steps in ([3], [0, 3], [1, 2, 3], [0, 1, 2, 3]):
        reader, rows, before = reader_of(tmp_path), [], -1
        for step in steps:
            rows += read(reader, before, step)
            before = step
        assert as_set(rows, EVERY) == expected


def test_partitions_of_columns_that_are_mapped_have_their_values(tmp_path):
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"col-1": [10]}), file)
    fields = [mapped_field("k", "col-1", 1), mapped_field("day", "col-2", 2, "date")]
    adds = [add_entry(file, partitionValues={"col-2": "2024-01-02"})]
    conf = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    written_by_hand(tmp_path, fields, adds, conf, 2, partitions=["day"])
    expected = [{"k": 10, "day": dt.date(2024, 1, 2)}]
    assert scan_table(tmp_path, ["k", "day"], types={"k": "bigint", "day": "date"})[1] == expected
    assert read(reader_of(tmp_path), -1, 0) == expected
    log = tmp_path / "_delta_log"
    (log / f"{1:020}.json").write_text(json.dumps({"add": adds[0]}))
    assert read(reader_of(tmp_path), 0, 1) == expected


def test_a_bounded_stream_stays_at_its_version(tmp_path):
    write_deltalake(tmp_path, table_of(3))
    bounded, unbounded = reader_of(tmp_path, until="0"), reader_of(tmp_path)
    for reader in (bounded, unbounded):
        assert reader.latestOffset(reader.initialOffset(), None) == {"version": 0}
    write_deltalake(tmp_path, table_of(3), mode="append")
    assert bounded.latestOffset({"version": 0}, None) == {"version": 0}
    assert unbounded.latestOffset({"version": 0}, None) == {"version": 1}
    assert read(unbounded, 1, 1) == []


def test_a_version_that_takes_rows_away_stops_the_stream_or_is_passed_over(tmp_path):
    write_deltalake(tmp_path, table_of(6))
    DeltaTable(tmp_path).delete("k = 2")
    write_deltalake(tmp_path, table_of(1, 9), mode="append")
    with pytest.raises(ExecutionError, match=r"stopped at version 1 of .*: it deletes or updates"):
        read(reader_of(tmp_path), 0, 2)
    assert [row["k"] for row in read(reader_of(tmp_path, skips="true"), 0, 2)] == [9]
    assert len(read(reader_of(tmp_path), -1, 1)) == 5


def test_compacted_files_are_not_read_again(tmp_path):
    for start in (0, 3):
        write_deltalake(tmp_path, table_of(3, start), mode="append")
    DeltaTable(tmp_path).optimize.compact()
    assert read(reader_of(tmp_path), 1, 2) == []


def test_a_missing_log_stops_the_stream(tmp_path):
    for start in (0, 3, 6):
        write_deltalake(tmp_path, table_of(3, start), mode="append")
    DeltaTable(tmp_path).create_checkpoint()
    (tmp_path / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(ExecutionError, match=r"version 1 of .*: its log was cleaned up"):
        read(reader_of(tmp_path), 0, 2)


def test_columns_may_be_added_but_not_removed(tmp_path):
    write_deltalake(tmp_path, pa.table({"k": [1]}))
    schema = delta_schema(DeltaTable(tmp_path))
    more = pa.table({"k": [2], "s": ["x"]})
    write_deltalake(tmp_path, more, mode="append", schema_mode="merge")
    assert sorted(row["k"] for row in read(reader_of(tmp_path, schema), -1, 1)) == [1, 2]
    assert read(reader_of(tmp_path, schema), 0, 1) == [{"k": 2}]
    assert read(reader_of(tmp_path), -1, 0) == [{"k": 1, "s": None}]
    old = reader_of(tmp_path)
    write_deltalake(tmp_path, pa.table({"s": ["y"]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(ExecutionError, match="version 2 of"):
        read(old, 1, 2)
