"""The files of a Delta table to read, and their columns, without Spark."""

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from runtime.connectors.lake.delta.snapshot import delta_table, open_delta
from runtime.connectors.lake.table import check_stored_columns, note_on_columns
from runtime.errors import ExecutionError
from runtime.lake.places import TablePlace, UnreadableError
from runtime.refusal import Refused
from runtime.scan.lake import scan_source_of
from runtime.scan.read import read_batches
from runtime.scan.splits import plan_splits
from runtime.spec.expressions import Call, ColumnRef, Constant
from runtime.spec.scan import ScanSource
from runtime.spec.table import Column, TableSpec

EVERY = {
    "k": "bigint",
    "d": "date",
    "at": "timestamp",
    "n": "timestamp_ntz",
    "i": "smallint",
    "c": "decimal(5,2)",
    "b": "boolean",
    "x": "double",
    "s": "string",
}


def table_of(n, start=0):
    numbers = range(start, start + n)
    day = dt.datetime(2024, 1, 1)  # noqa: DTZ001
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "d": [day.date() + dt.timedelta(i // 4) if i % 5 else None for i in numbers],
            "at": pa.array(
                [(day + dt.timedelta(hours=i)).replace(tzinfo=dt.UTC) for i in numbers],
                pa.timestamp("us", "UTC"),
            ),
            "n": pa.array([day + dt.timedelta(hours=i, microseconds=7) for i in numbers]),
            "i": pa.array([i % 3 for i in numbers], pa.int16()),
            "c": pa.array([Decimal(i % 4) / 4 for i in numbers], pa.decimal128(5, 2)),
            "b": [i % 2 == 0 for i in numbers],
            "x": [float("nan") if i == 3 else i / 2 for i in numbers],
            "s": [None if i % 4 == 3 else ["a b/%", "é", "_=x"][i % 3] for i in numbers],
        }
    )


def spec_of(path, **options):
    return TableSpec("t", "delta", options=(("path", str(path)), *options.items()))


def load(path, ranges_of=(), zone="UTC", **options):
    spec = spec_of(path, **options)
    return delta_table(
        spec, open_delta(spec, TablePlace(str(path)), zone), TablePlace(str(path)), zone, ranges_of
    )


def compare(function, name, value, type_=None):
    type_ = type_ or EVERY[name]
    return Call(function, (ColumnRef(name, type_), Constant(value, type_)), "boolean")


def scan_table(path, names, filters=(), types=EVERY, **options):
    """Return the files that remain after pruning, and their rows as dictionaries."""
    used = [ref.name for item in filters for ref in item.args if isinstance(ref, ColumnRef)]
    snapshot = load(path, used, **options).snapshot
    columns = [Column(name, types[name]) for name in names]
    source = scan_source_of(snapshot, columns, filters)
    assert isinstance(source, ScanSource), source
    rows = []
    for split in plan_splits(source, filters, 3, least_bytes=1):
        for batch in read_batches(split, source, frozenset()):
            rows += batch.to_pylist()
    return source, rows


def as_set(rows, names):
    return sorted(repr([row[name] for name in names]) for row in rows)


@pytest.mark.parametrize(
    "partitions", [[], ["i"], ["d", "s"], ["n", "c", "b"], ["at"], ["x"]], ids="_".join
)
def test_the_rows_equal_those_of_deltalake(tmp_path, partitions):
    for start in (0, 12):
        write_deltalake(tmp_path, table_of(12, start), partition_by=partitions, mode="append")
    _, rows = scan_table(tmp_path, list(EVERY))
    expected = DeltaTable(tmp_path).to_pyarrow_table()
    assert as_set(rows, EVERY) == as_set(expected.to_pylist(), EVERY)


# Conditions on two files, with 12 rows each, and the number of files that may have such rows
CONDITIONS = [
    (compare(">=", "k", 20), 1),
    (compare("<", "k", 10), 1),
    (compare("=", "d", (dt.date(2024, 1, 2) - dt.date(1970, 1, 1)).days), 1),
    (compare("<", "n", 1_704_067_200_000_000), 0),
    (compare("<=", "at", 1_704_067_200_000_000), 1),
    (compare("=", "s", "\U0001f600"), 0),
    (compare(">", "x", 1000.0), 2),
    (Call("is_null", (ColumnRef("k", "bigint"),), "boolean"), 0),
    (compare("=", "b", True), 2),
]


# No row is later than the last one of the second file
AFTER_LAST_ROW = compare(">", "at", 1_704_067_200_000_000 + 23 * 3_600_000_000)


# Delta truncates the statistics of times to milliseconds
@pytest.mark.parametrize(("condition", "n_files"), [*CONDITIONS, (AFTER_LAST_ROW, 1)])
def test_statistics_rule_files_out_without_a_look_at_them(tmp_path, condition, n_files):
    for start in (0, 12):
        write_deltalake(tmp_path, table_of(12, start), mode="append")
    source, _ = scan_table(tmp_path, ["k"], [condition])
    assert len(source.files) == n_files


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        (compare("=", "i", 1), {1}),
        (compare(">", "i", 0), {1, 2}),
        (Call("is_null", (ColumnRef("i", "smallint"),), "boolean"), set()),
    ],
)
def test_partitions_rule_files_out(tmp_path, condition, values):
    write_deltalake(tmp_path, table_of(12), partition_by=["i"])
    source, rows = scan_table(tmp_path, ["k", "i"], [condition])
    assert {row["i"] for row in rows} == values
    assert len(source.files) == len(values)


def test_a_pruned_file_may_be_missing(tmp_path):
    write_deltalake(tmp_path, table_of(12), partition_by=["i"])
    for file in tmp_path.glob("i=2/*"):
        file.unlink()
    _, rows = scan_table(tmp_path, ["k"], [compare("<", "i", 2)])
    assert len(rows) == 8


def test_columns_that_came_later_are_null_in_older_files(tmp_path):
    write_deltalake(tmp_path, pa.table({"k": [1, 2]}))
    write_deltalake(
        tmp_path, pa.table({"k": [3], "s": ["new"]}), mode="append", schema_mode="merge"
    )
    _, rows = scan_table(tmp_path, ["k", "s"])
    assert as_set(rows, ["k", "s"]) == ["[1, None]", "[2, None]", "[3, 'new']"]
    _, rows = scan_table(tmp_path, ["s"])
    assert as_set(rows, ["s"]) == ["['new']", "[None]", "[None]"]
    condition = Call("is_null", (ColumnRef("s", "string"),), "boolean")
    _, rows = scan_table(tmp_path, ["k", "s"], [condition])
    assert {row["k"] for row in rows} == {1, 2}
    _, rows = scan_table(tmp_path, ["k", "s"], [compare("=", "s", "new")])
    assert [row["k"] for row in rows] == [3]


def test_older_versions_are_read_by_number_and_by_time(tmp_path):
    for i in range(3):
        write_deltalake(tmp_path, pa.table({"k": [i]}), mode="append")
        log = tmp_path / "_delta_log" / f"{i:020}.json"
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        for line in lines:
            if "commitInfo" in line:
                line["commitInfo"]["timestamp"] = 1_700_000_000_000 + i * 60_000
        log.write_text("\n".join(map(json.dumps, lines)))
    assert len(load(tmp_path).snapshot.files) == 3
    assert len(load(tmp_path, version="0").snapshot.files) == 1
    # 1_700_000_000 is 2023-11-14 22:13:20 UTC
    assert len(load(tmp_path, timestamp="2023-11-14 22:14:20").snapshot.files) == 2
    assert len(load(tmp_path, timestamp="2023-11-14T23:14:19+01:00").snapshot.files) == 1
    berlin = load(tmp_path, zone="Europe/Berlin", timestamp="2023-11-14 23:14:20")
    assert len(berlin.snapshot.files) == 2
    with pytest.raises(
        ExecutionError, match="no version exists as of '2023-11-14 22:13:19'"
    ) as error:
        load(tmp_path, timestamp="2023-11-14 22:13:19")
    assert "version is 0, of 2023-11-14 22:13:20" in error.value.hint
    with pytest.raises(ExecutionError, match=r"version 3 of .* does not exist") as error:
        load(tmp_path, version="3")
    assert error.value.hint == "the newest version is 2"


def test_a_version_without_its_log_is_refused(tmp_path):
    for i in range(3):
        write_deltalake(tmp_path, pa.table({"k": [i]}), mode="append")
    DeltaTable(tmp_path).create_checkpoint()
    for i in range(2):
        (tmp_path / "_delta_log" / f"{i:020}.json").unlink()
    assert len(load(tmp_path).snapshot.files) == 3
    with pytest.raises(ExecutionError, match=r"version 1 of .* was removed"):
        load(tmp_path, version="1")


def test_a_path_without_a_table_says_so(tmp_path):
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(ExecutionError, match="no Delta table exists at"):
            load(path)


def written_by_hand(path, fields, adds, configuration=None, reader=1, features=None, partitions=()):
    """Write a table with one version, possibly with features that deltalake cannot write."""
    (path / "_delta_log").mkdir(parents=True, exist_ok=True)
    protocol = {"minReaderVersion": reader, "minWriterVersion": 7 if features else 5}
    if features:
        protocol |= {"readerFeatures": features, "writerFeatures": features}
    schema = {"type": "struct", "fields": fields}
    metadata = {
        "id": "680b0a6e-ebf4-45db-8278-b46f7f3c20c6",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": list(partitions),
        "configuration": configuration or {},
        "createdTime": 1,
    }
    lines = [{"protocol": protocol}, {"metaData": metadata}, *({"add": add} for add in adds)]
    log = path / "_delta_log" / f"{0:020}.json"
    log.write_text("\n".join(map(json.dumps, lines)))


def add_entry(path, **more):
    size = path.stat().st_size
    add = {"path": path.name, "partitionValues": {}, "size": size, "modificationTime": 1}
    return {**add, "dataChange": True, **more}


def mapped_field(name, stored, number, type_="long"):
    metadata = {
        "delta.columnMapping.id": number,
        "delta.columnMapping.physicalName": stored,
    }
    return {"name": name, "type": type_, "nullable": True, "metadata": metadata}


def numbered_field(name, number):
    return pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(number)})


def test_columns_are_mapped_by_name_and_by_number(tmp_path):
    fields = [
        mapped_field("k", "col-1", 1),
        mapped_field("new name", "col-2", 2),
        mapped_field("later", "c3", 3),
    ]
    types = {"k": "bigint", "new name": "bigint", "later": "bigint"}
    names = ["k", "new name", "later"]
    by_name, by_id = tmp_path / "name", tmp_path / "id"
    by_name.mkdir()
    by_id.mkdir()
    file = by_name / "a.parquet"
    pq.write_table(pa.table({"col-2": [20], "col-1": [10]}), file)
    conf = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"}
    written_by_hand(by_name, fields, [add_entry(file)], conf, 2)
    _, rows = scan_table(by_name, names, types=types)
    assert rows == [{"k": 10, "new name": 20, "later": None}]

    file = by_id / "a.parquet"
    schema = pa.schema([numbered_field("k", 2), numbered_field("x", 1)])
    pq.write_table(pa.table({"k": [20], "x": [10]}, schema=schema), file)
    written_by_hand(by_id, fields, [add_entry(file)], conf | {"delta.columnMapping.mode": "id"}, 2)
    _, rows = scan_table(by_id, names, types=types)
    assert rows == [{"k": 10, "new name": 20, "later": None}]


def test_columns_that_no_file_has_are_found(tmp_path):
    fields = [mapped_field("k", "col-1", 1), mapped_field("later", "col-2", 2)]
    conf = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    file, other = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(pa.table({"col-1": [10], "later": [1]}), file)
    pq.write_table(pa.table({"col-2": [20]}), other)
    spec = TableSpec("t", "delta", options=(("path", str(tmp_path)),))
    written_by_hand(tmp_path, fields, [add_entry(file)], conf, 2)
    missing = check_stored_columns(spec, load(tmp_path))
    assert missing == ("later",)
    assert note_on_columns(spec, missing) == (
        "no file of `t` has the column `later`, which is NULL in all rows"
    )
    written_by_hand(tmp_path, fields, [add_entry(file), add_entry(other)], conf, 2)
    assert check_stored_columns(spec, load(tmp_path)) == ()


def test_files_with_none_of_the_columns_are_refused(tmp_path):
    """As a writer leaves them that sets column mapping and writes the table's own names."""
    fields = [mapped_field("k", "col-1", 1), mapped_field("v", "col-2", 2)]
    conf = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"k": [10], "v": [20]}), file)
    written_by_hand(tmp_path, fields, [add_entry(file)], conf, 2)
    with pytest.raises(ExecutionError) as caught:
        check_stored_columns(TableSpec("t", "delta"), load(tmp_path))
    assert caught.value.message == (
        "table `t`: its files have none of its columns: the table has the column `k`, stored as "
        f"col-1, but {file} has the columns k, v"
    )


def test_rows_that_are_marked_as_deleted_are_left_to_spark(tmp_path):
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"k": list(range(40))}), file)
    field = {"name": "k", "type": "long", "nullable": True, "metadata": {}}
    # positions 3, 4, 7, 11, 18 and 29 of the file, as in the protocol's example
    inline = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
    vector = {"storageType": "i", "pathOrInlineDv": inline, "sizeInBytes": 44, "cardinality": 6}
    features = ["deletionVectors"]
    entry = add_entry(file, deletionVector=vector, stats='{"numRecords": 40}')
    written_by_hand(tmp_path, [field], [entry], None, 3, features)
    with pytest.raises(UnreadableError, match="deletion"):
        load(tmp_path)
    place = TablePlace(str(tmp_path))
    spec = TableSpec("t", "delta", options=(("path", str(tmp_path)),))
    table = delta_table(spec, open_delta(spec, place), place, "UTC", with_deleted=True)
    assert {path: rows.to_pylist() for path, rows in table.deleted.items()} == {
        str(file): [3, 4, 7, 11, 18, 29]
    }


def test_unused_deletion_vectors_are_accepted(tmp_path):
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"k": [1, 2, 3]}), file)
    field = {"name": "k", "type": "long", "nullable": True, "metadata": {}}
    written_by_hand(tmp_path, [field], [add_entry(file)], None, 3, ["deletionVectors"])
    _, rows = scan_table(tmp_path, ["k"])
    assert len(rows) == 3


@pytest.mark.parametrize("feature", ["typeWidening", "somethingNew", "catalogManaged"])
def test_features_that_are_not_known_are_refused(tmp_path, feature):
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"k": [1, 2, 3]}), file)
    field = {"name": "k", "type": "long", "nullable": True, "metadata": {}}
    written_by_hand(tmp_path, [field], [add_entry(file)], None, 3, [feature])
    with pytest.raises(UnreadableError, match="cat" if feature == "catalogManaged" else feature):
        load(tmp_path)


def test_a_refusal_names_all_features_that_are_not_known(tmp_path):
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"k": [1, 2, 3]}), file)
    field = {"name": "k", "type": "long", "nullable": True, "metadata": {}}
    features = ["variantType", "typeWidening", "deletionVectors", "typeWidening-preview"]
    written_by_hand(tmp_path, [field], [add_entry(file)], None, 3, features)
    with pytest.raises(UnreadableError, match=r"features typeWidening, typeWidening-preview$"):
        load(tmp_path)


def test_a_file_of_another_type_leaves_the_table_to_spark(tmp_path):
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"k": pa.array([1], pa.int32())}), file)
    field = {"name": "k", "type": "long", "nullable": True, "metadata": {}}
    written_by_hand(tmp_path, [field], [add_entry(file)])
    with pytest.raises(Refused, match="is INT, but BIGINT in the table"):
        scan_source_of(load(tmp_path).snapshot, [Column("k", "bigint")])


def test_partitions_of_instants_need_the_zone_that_they_are_written_in(tmp_path):
    write_deltalake(tmp_path, table_of(3), partition_by=["at"])
    with pytest.raises(UnreadableError, match="TIMESTAMP_LTZ"):
        load(tmp_path, zone="Europe/Berlin")
