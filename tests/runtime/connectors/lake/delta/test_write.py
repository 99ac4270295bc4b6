"""Files that tasks write and the Delta versions that commit them, without Spark."""

import pickle
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from runtime.connectors.lake.delta.snapshot import delta_schema
from runtime.connectors.lake.delta.write import commit_version, existing_table, is_committed
from runtime.errors import ExecutionError
from runtime.lake.delta_log import hive_directory, partition_text
from runtime.spec.table import TableSpec
from runtime.writing.files import NewFiles, file_task
from runtime.writing.places import remove_files
from tests.runtime.connectors.lake.delta.test_snapshot import (
    EVERY,
    as_set,
    compare,
    load,
    scan_table,
    table_of,
)

SCHEMA = from_arrow_schema(table_of(8).schema, prefer_timestamp_ntz=True)


def write_files(path, rows, partitions=(), mark="mark", schema=None, batch_rows=5):
    """Return the files that one task writes for rows."""
    sort = [(name, "ascending") for name in partitions]
    rows = rows.take(pc.sort_indices(rows, sort)) if sort else rows
    columns = tuple((name, EVERY[name]) for name in partitions)
    place = partial(hive_directory, columns)
    files = NewFiles(str(path), schema or rows.schema, tuple(partitions), place, mark)
    output = file_task(files)(rows.to_batches(batch_rows))
    return [pickle.loads(cell) for batch in output for cell in batch["file"].to_pylist()]


def put(path, rows, partitions=(), overwrite=False, **more):
    files = write_files(path, rows, partitions)
    table = DeltaTable(path) if (path / "_delta_log").exists() else None
    commit_version(table, str(path), SCHEMA, partitions, files, overwrite, **more)
    return files


PARTITIONS = [[], ["i"], ["d", "s"], ["n", "c", "b"]]


@pytest.mark.parametrize("partitions", PARTITIONS, ids="_".join)
def test_deltalake_reads_the_rows_that_were_written(tmp_path, partitions):
    for start in (0, 12):
        put(tmp_path, table_of(12, start), partitions)
    table = DeltaTable(tmp_path)
    assert table.version() == 1
    assert table.metadata().partition_columns == partitions
    expected = as_set([*table_of(12).to_pylist(), *table_of(12, 12).to_pylist()], EVERY)
    assert as_set(table.to_pyarrow_table().to_pylist(), EVERY) == expected
    _, rows = scan_table(tmp_path, list(EVERY))
    assert as_set(rows, EVERY) == expected


def test_a_task_makes_a_file_for_each_partition(tmp_path):
    files = put(tmp_path, table_of(24), ["i"])
    assert [file.partition for file in files] == [(0,), (1,), (2,)]
    assert [file.n_rows for file in files] == [8, 8, 8]
    assert all(file.path.startswith(f"i={file.partition[0]}/part-mark-") for file in files)


def test_written_files_have_statistics(tmp_path):
    for start in (0, 12):
        put(tmp_path, table_of(12, start))
    for condition, n_files in [
        (compare(">=", "k", 20), 1),
        (compare("<", "n", 1_704_067_200_000_000), 0),
        (compare("<=", "at", 1_704_067_200_000_000), 1),
        (compare(">", "d", 30_000), 0),
        (compare("=", "s", "\U0001f600"), 0),
        (compare(">", "x", 1000.0), 2),
    ]:
        assert len(scan_table(tmp_path, ["k"], [condition])[0].files) == n_files
    snapshot = load(tmp_path, EVERY).snapshot
    assert [file.n_rows for file in snapshot.files] == [12, 12]
    assert {file.ranges["d"].n_nulls for file in snapshot.files} == {3, 2}


@pytest.mark.parametrize(
    ("partitions", "left"), [([], [20, 21, 22, 23]), (["i"], [1, 4, 7, 10, 20, 21, 22, 23])]
)
def test_overwriting_replaces_all_or_the_partitions_that_get_rows(tmp_path, partitions, left):
    put(tmp_path, table_of(12), partitions)
    new = table_of(4, 20)
    new = new.set_column(4, "i", pa.array([0, 2, 0, 2], pa.int16()))
    put(tmp_path, new, partitions, overwrite=True)
    assert sorted(DeltaTable(tmp_path).to_pyarrow_table()["k"].to_pylist()) == left
    assert DeltaTable(tmp_path).version() == 1


def test_partitions_of_odd_texts_and_nulls_are_replaced_too(tmp_path):
    put(tmp_path, table_of(12), ["d", "s"])
    files = put(tmp_path, table_of(12), ["d", "s"], overwrite=True)
    assert len(DeltaTable(tmp_path).file_uris()) == len(files)
    assert as_set(scan_table(tmp_path, list(EVERY))[1], EVERY) == as_set(
        table_of(12).to_pylist(), EVERY
    )


def test_an_empty_write_is_a_version_only_if_it_overwrites(tmp_path):
    put(tmp_path, table_of(3))
    put(tmp_path, table_of(3).slice(0, 0))
    assert DeltaTable(tmp_path).version() == 0
    put(tmp_path, table_of(3).slice(0, 0), overwrite=True)
    assert DeltaTable(tmp_path).to_pyarrow_table().num_rows == 0


def test_a_version_says_which_micro_batch_it_has(tmp_path):
    for batch in (0, 1):
        transaction = Transaction("sqlwin-w", batch)
        properties = CommitProperties(app_transactions=[transaction])
        put(tmp_path, table_of(2, batch), properties=properties)
    assert DeltaTable(tmp_path).transaction_version("sqlwin-w") == 1
    assert DeltaTable(tmp_path).transaction_version("another") is None


def test_files_without_a_version_are_removed_and_others_stay(tmp_path):
    put(tmp_path, table_of(3), ["i"])
    write_files(tmp_path, table_of(6), ["s"], mark="lost")
    assert is_committed(str(tmp_path), "mark") and not is_committed(str(tmp_path), "lost")
    remove_files(None, str(tmp_path), "lost")
    assert not list(tmp_path.rglob("*lost*")) and not list(tmp_path.glob("s=*"))
    assert len(list(tmp_path.glob("i=*/*.parquet"))) == 3


def test_files_of_a_failed_creation_belong_to_no_table(tmp_path):
    write_files(tmp_path, table_of(3))
    assert not is_committed(str(tmp_path), "mark")


def test_a_table_can_be_created_after_a_killed_creation(tmp_path):
    write_files(tmp_path, table_of(4), ["i"], mark="0123456789abcdef" * 2)
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / "_commit_0c4e.json.tmp").write_text("{}")
    spec = TableSpec("t", "delta")
    assert existing_table(spec, str(tmp_path)) is None
    commit_version(
        None, str(tmp_path), SCHEMA, ["i"], write_files(tmp_path, table_of(6), ["i"]), False
    )
    table = existing_table(spec, str(tmp_path))
    assert table is not None
    assert table.to_pyarrow_table().num_rows == 6
    other = tmp_path / "other"
    other.mkdir()
    (other / "part-00000-1.c000.snappy.parquet").write_bytes(b"somebody's")
    with pytest.raises(ExecutionError, match="exists and is not a Delta table"):
        existing_table(spec, str(other))


def test_a_forbidden_null_leaves_no_file(tmp_path):
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False)])
    rows = pa.table({"k": [1, None]})
    with pytest.raises(
        ExecutionError, match="column k is NOT NULL in the table, but a row has NULL"
    ):
        write_files(tmp_path, rows, schema=schema, batch_rows=1)
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_table_is_created_with_the_declared_columns(tmp_path):
    schema = StructType([StructField("k", SCHEMA["k"].dataType, False), SCHEMA["at"]])
    rows = table_of(2).select(["k", "at"])
    files = write_files(tmp_path, rows)
    commit_version(None, str(tmp_path), schema, [], files, False)
    assert delta_schema(DeltaTable(tmp_path)) == schema


@pytest.mark.parametrize(
    ("value", "type_", "text"),
    [
        (None, "string", None),
        ("", "string", None),
        (True, "boolean", "true"),
        (19_723, "date", "2024-01-01"),
        (-1, "date", "1969-12-31"),
        (1, "timestamp_ntz", "1970-01-01 00:00:00.000001"),
        (7, "bigint", "7"),
    ],
)
def test_values_of_partitions_are_written_as_the_protocol_says(value, type_, text):
    assert partition_text(value, type_) == text
