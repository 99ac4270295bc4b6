"""Rows merged into a Delta table by key, as one version with its transaction."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from runtime.connectors.lake.delta.merge import merge_version
from runtime.connectors.upserts import Upserts
from runtime.spec.table import TableSpec

SPEC = TableSpec("t", "delta", primary_key=("K 1", "day"))
SCHEMA = pa.schema(
    [("K 1", pa.string()), ("day", pa.date32()), ('a"b', pa.int64()), ("at", pa.timestamp("us"))]
)


def rows(*values: tuple[str, int, int]) -> pa.Table:
    columns = [
        pa.array([k for k, _, _ in values], pa.string()),
        pa.array([day for _, day, _ in values], pa.int32()).cast(pa.date32()),
        pa.array([n for *_, n in values], pa.int64()),
        pa.array([n for *_, n in values], pa.int64()).cast(pa.timestamp("us")),
    ]
    return pa.table(columns, schema=SCHEMA)


def merge(path: Path, new: pa.Table, *deleted: tuple[str, int], batch: int = 0) -> int:
    keys = rows(*((k, day, 0) for k, day in deleted)).select(["K 1", "day"])
    properties = CommitProperties(app_transactions=[Transaction("w", batch)])
    table = DeltaTable(path)
    return merge_version(table, SPEC, Upserts(new, keys), ["K 1", "day"], properties)


def contents(path: Path) -> list[tuple[str, int]]:
    table = DeltaTable(path).to_pyarrow_table().to_pylist()
    assert all(row["at"].microsecond == row['a"b'] for row in table)
    return sorted((f"{row['K 1']}{row['day'].day}", row['a"b']) for row in table)


def test_rows_replace_those_with_the_same_key_in_one_version(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows(("a", 0, 1), ("b", 0, 2), ("a", 1, 3)))
    assert merge(tmp_path, rows(("a", 0, 10), ("c", 0, 4)), ("b", 0), ("z", 0), batch=7) == 4
    assert contents(tmp_path) == [("a1", 10), ("a2", 3), ("c1", 4)]
    table = DeltaTable(tmp_path)
    assert table.version() == 1
    assert table.transaction_version("w") == 7


def test_only_deletes_and_no_changes(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows(("a", 0, 1), ("b", 0, 2)))
    assert merge(tmp_path, rows()) == 0
    assert DeltaTable(tmp_path).version() == 0
    assert merge(tmp_path, rows(), ("a", 0)) == 1
    assert contents(tmp_path) == [("b1", 2)]


def test_files_without_rows_of_the_keys_stay(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows(("a", 0, 1)), partition_by=["day"])
    write_deltalake(tmp_path, rows(("a", 1, 2)), mode="append")
    before = set(DeltaTable(tmp_path).file_uris())
    merge(tmp_path, rows(("a", 1, 5)))
    after = set(DeltaTable(tmp_path).file_uris())
    assert len(before & after) == 1 and len(after) == 2
    assert contents(tmp_path) == [("a1", 1), ("a2", 5)]
