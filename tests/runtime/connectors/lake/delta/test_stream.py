"""New versions of a Delta table, each row once, without Spark."""

import datetime as dt
import json
import random
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.types import StringType

from runtime.connectors.lake.delta.snapshot import delta_schema
from runtime.connectors.lake.delta.stream import DeltaVersions
from runtime.errors import ExecutionError
from runtime.options.formats import CHANGE_TYPE
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


SIGNS = {"insert": 1, "update_postimage": 1, "update_preimage": -1, "delete": -1}


def changing_table(path, draw, *, has_feed, partitions=()):
    """Write versions that append, delete, update, merge, overwrite and compact rows."""
    conf = {"delta.enableChangeDataFeed": "true"} if has_feed else None

    def rows(n):
        keys = [draw.randrange(8) for _ in range(n)]
        return pa.table({"k": keys, "p": [str(k % 2) for k in keys], "v": [draw.random()] * n})

    write_deltalake(path, rows(9), partition_by=list(partitions), configuration=conf)
    for step in draw.sample(range(7), 7):
        table = DeltaTable(path)
        match step:
            case 0 | 1:
                write_deltalake(path, rows(4), mode="append")
            case 2:
                table.delete("k = 3")
            case 3:
                table.update(updates={"v": "v + 1"}, predicate="k > 4")
            case 4:
                source = pa.table({"k": [1, 20], "p": ["1", "0"], "v": [0.5, 0.5]})
                merge = table.merge(source, "s.k = t.k", source_alias="s", target_alias="t")
                merge.when_matched_update_all().when_not_matched_insert_all().execute()
            case 5:
                write_deltalake(path, rows(5), mode="overwrite")
            case 6:
                table.optimize.compact()
    return DeltaTable(path).version()


def net_rows(changes):
    """Return how often each row remains after changes."""
    counts = Counter()
    for row in changes:
        sign = SIGNS[row.pop(CHANGE_TYPE)]
        counts[tuple(row.items())] += sign
    assert all(count >= 0 for count in counts.values()), "a row was deleted that was never inserted"
    return +counts


@pytest.mark.variants(1)
@pytest.mark.parametrize("has_feed", [True, False], ids=["feed", "files"])
@pytest.mark.parametrize("partitions", [(), ("p",)], ids=["whole", "partitioned"])
def test_the_changes_up_to_a_version_leave_its_rows(tmp_path, has_feed, partitions):
    last = changing_table(tmp_path, random.Random(4), has_feed=has_feed, partitions=partitions)
    assert last >= 6
    schema = delta_schema(DeltaTable(tmp_path)).add(CHANGE_TYPE, StringType())
    for first in (0, last // 2):
        reader = reader_of(tmp_path, schema, **{"starting-version": str(first)})
        changes = read(reader, -1, first)
        for version in range(first, last + 1):
            if version > first:
                changes += read(reader, version - 1, version)
            rows = DeltaTable(tmp_path, version=version).to_pyarrow_table().to_pylist()
            expected = Counter(tuple((n, row[n]) for n in ("k", "p", "v")) for row in rows)
            assert net_rows([dict(row) for row in changes]) == expected, (first, version)
    feed = {row[CHANGE_TYPE] for row in changes} | {
        row[CHANGE_TYPE]
        for row in read(reader_of(tmp_path, schema, **{"starting-version": "0"}), -1, last)
    }
    assert ("update_preimage" in feed) == has_feed


def test_changes_of_mapped_columns_are_read_from_the_feed_alone(tmp_path):
    file, feed = tmp_path / "a.parquet", tmp_path / "_change_data" / "b.parquet"
    pq.write_table(pa.table({"col-1": [10]}), file)
    feed.parent.mkdir()
    kinds = ["update_preimage", "update_postimage"]
    pq.write_table(pa.table({"col-1": [10, 11], CHANGE_TYPE: kinds}), feed)
    fields = [mapped_field("k", "col-1", 1), mapped_field("day", "col-2", 2, "date")]
    values = {"col-2": "2024-01-02"}
    conf = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    written_by_hand(
        tmp_path, fields, [add_entry(file, partitionValues=values)], conf, 2, partitions=["day"]
    )
    path = "_change_data/b.parquet"
    actions = [
        {"cdc": {"path": path, "partitionValues": values, "size": 1, "dataChange": False}},
        {"remove": {"path": "a.parquet", "dataChange": True}},
    ]
    log = tmp_path / "_delta_log" / f"{1:020}.json"
    log.write_text("\n".join(map(json.dumps, actions)))
    schema = delta_schema(DeltaTable(tmp_path, version=0)).add(CHANGE_TYPE, StringType())
    day = dt.date(2024, 1, 2)
    assert read(reader_of(tmp_path, schema), -1, 0) == [
        {"k": 10, "day": day, CHANGE_TYPE: "insert"}
    ]
    assert read(reader_of(tmp_path, schema), 0, 1) == [
        {"k": 10, "day": day, CHANGE_TYPE: "update_preimage"},
        {"k": 11, "day": day, CHANGE_TYPE: "update_postimage"},
    ]
    # without the feed, the log must have the partition of the removed file
    log.write_text(json.dumps(actions[1]))
    with pytest.raises(ExecutionError, match="its log lacks the partition of"):
        read(reader_of(tmp_path, schema), 0, 1)


def test_a_resumed_stream_needs_no_log_of_its_first_version(tmp_path):
    for start in (0, 6, 12):
        write_deltalake(tmp_path, table_of(6, start), mode="append")
    schema = delta_schema(DeltaTable(tmp_path)).add(CHANGE_TYPE, StringType())
    DeltaTable(tmp_path).create_checkpoint()
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    reader = reader_of(tmp_path, schema, **{"starting-version": "0"})
    assert len(read(reader, 1, 2)) == 6
    with pytest.raises(ExecutionError, match="version 0"):
        read(reader, -1, 2)
    with pytest.raises(ExecutionError, match=r"version 7 of .* does not exist"):
        read(reader_of(tmp_path, schema, **{"starting-version": "7"}), -1, 2)


def steps_of(reader, start=-1, key="version"):
    """Return the offsets at which the micro-batches of a stream end."""
    steps, before = [], {key: start}
    while (after := reader.latestOffset(before, None)) != before:
        steps.append(after[key])
        before = after
    return steps


@pytest.mark.variants(1)
@pytest.mark.parametrize("has_feed", [True, False], ids=["feed", "files"])
@pytest.mark.parametrize("most", ["1", "3"])
def test_changes_are_read_in_parts_of_whole_versions(tmp_path, most, has_feed):
    last = changing_table(tmp_path, random.Random(4), has_feed=has_feed)
    schema = delta_schema(DeltaTable(tmp_path)).add(CHANGE_TYPE, StringType())
    reader = reader_of(tmp_path, schema, most=most, **{"starting-version": "0"})
    steps = steps_of(reader)
    assert steps[-1] == last and len(steps) > 1
    changes = []
    for start, end in zip([-1, *steps], steps, strict=False):
        parts = reader.partitions({"version": start}, {"version": end})
        assert len(parts) <= int(most) or end == max(start + 1, 0)
        changes += read(reader, start, end)
        rows = DeltaTable(tmp_path, version=end).to_pyarrow_table().to_pylist()
        expected = Counter(tuple((n, row[n]) for n in ("k", "p", "v")) for row in rows)
        assert net_rows([dict(row) for row in changes]) == expected
    # a resumed stream goes on from any version
    assert steps_of(reader, 1)[-1] == last


def test_a_stream_without_a_first_version_begins_with_the_newest(tmp_path):
    for start in range(0, 15, 3):
        write_deltalake(tmp_path, table_of(3, start), mode="append")
    assert steps_of(reader_of(tmp_path, most="2")) == [4]
    assert steps_of(reader_of(tmp_path, most="2"), 0) == [2, 4]
    assert steps_of(reader_of(tmp_path, most="2", until="3"), 0) == [2, 3]
    assert steps_of(reader_of(tmp_path), 0) == [4]
