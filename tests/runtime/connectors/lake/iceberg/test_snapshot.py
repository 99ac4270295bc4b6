"""The files of an Iceberg table to read, and their columns, without Spark."""

import datetime as dt
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType

from runtime.connectors.lake.iceberg.snapshot import from_catalog, from_path, iceberg_table
from runtime.errors import ExecutionError
from runtime.lake.places import TablePlace, UnreadableError
from runtime.refusal import Refused
from runtime.scan.lake import scan_source_of
from runtime.scan.read import read_batches
from runtime.scan.splits import plan_splits
from runtime.spec.expressions import Call, ColumnRef
from runtime.spec.scan import ScanSource
from runtime.spec.table import Column, TableSpec
from tests.runtime.connectors.lake.delta.test_snapshot import (
    AFTER_LAST_ROW,
    CONDITIONS,
    EVERY,
    as_set,
    compare,
    table_of,
)

# Iceberg has no short integers
TYPES = EVERY | {"i": "int"}


def rows_of(n, start=0):
    rows = table_of(n, start)
    return rows.set_column(4, "i", rows["i"].cast(pa.int32()))


@pytest.fixture
def catalog(tmp_path):
    catalog = load_catalog(
        "c", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}"
    )
    catalog.create_namespace("db")
    return catalog


def create_table(catalog, *transforms):
    table = catalog.create_table("db.t", schema=rows_of(8).schema)
    if transforms:
        with table.update_spec() as update:
            for name, transform in transforms:
                update.add_field(name, transform)
    return table


def load(table, zone="UTC", filters=(), **options):
    spec = TableSpec("t", "iceberg", options=(("path", table.location()), *options.items()))
    return iceberg_table(spec, table, zone, filters)


def scan_table(table, names, filters=(), types=TYPES, **options):
    snapshot = load(table, filters=filters, **options).snapshot
    source = scan_source_of(snapshot, [Column(name, types[name]) for name in names], filters)
    assert isinstance(source, ScanSource), source
    rows = []
    for split in plan_splits(source, filters, 3, least_bytes=1):
        for batch in read_batches(split, source, frozenset()):
            rows += batch.to_pylist()
    return source, rows


@pytest.mark.parametrize(
    "transforms",
    [[], [("i", IdentityTransform())], [("d", IdentityTransform()), ("s", IdentityTransform())]],
)
def test_the_rows_equal_those_of_pyiceberg(catalog, transforms):
    table = create_table(catalog, *transforms)
    for start in (0, 12):
        table.append(rows_of(12, start))
    _, rows = scan_table(table, list(TYPES))
    assert as_set(rows, TYPES) == as_set(table.scan().to_arrow().to_pylist(), TYPES)
    assert len(rows) == 24


@pytest.mark.parametrize(
    ("condition", "n_files"),
    [
        *CONDITIONS,
        (AFTER_LAST_ROW, 0),
        (Call("or", (compare("<", "k", 2), compare(">", "k", 22)), "boolean"), 2),
        (Call("in", (ColumnRef("k", "bigint"), compare("=", "k", 3).args[1]), "boolean"), 1),
    ],
)
def test_manifests_rule_files_out(catalog, condition, n_files):
    table = create_table(catalog)
    for start in (0, 12):
        table.append(rows_of(12, start))
    source, _ = scan_table(table, ["k"], [condition])
    assert len(source.files) == n_files


def test_columns_match_by_their_field_id(catalog):
    table = create_table(catalog)
    table.append(rows_of(4))
    with table.update_schema() as update:
        update.rename_column("s", "text")
        update.delete_column("x")
        update.add_column("i2", IntegerType())
        update.add_column("x", LongType())
    more = table_of(1, 9).select(["k"])
    table.append(more.append_column("x", pa.array([7])))
    types = TYPES | {"text": "string", "x": "bigint", "i2": "int"}
    _, rows = scan_table(table, ["k", "text", "x", "i2"], types=types)
    expected = table.scan(selected_fields=("k", "text", "x", "i2")).to_arrow().to_pylist()
    assert as_set(rows, ["k", "text", "x", "i2"]) == as_set(expected, ["k", "text", "x", "i2"])
    assert {row["x"] for row in rows} == {None, 7}


def test_a_snapshot_is_read_with_the_columns_that_it_had(catalog):
    table = create_table(catalog)
    table.append(rows_of(4))
    first = table.current_snapshot()
    with table.update_schema() as update:
        update.rename_column("s", "text")
    table.append(table_of(2, 20).select(["k"]))
    assert len(scan_table(table, ["k"])[1]) == 6
    _, rows = scan_table(table, ["k", "s"], version=str(first.snapshot_id))
    assert len(rows) == 4
    at = dt.datetime.fromtimestamp(first.timestamp_ms / 1000, dt.UTC).isoformat()
    assert len(scan_table(table, ["k", "s"], timestamp=at)[1]) == 4
    with pytest.raises(ExecutionError, match="snapshot 7 does not exist") as error:
        load(table, version="7")
    assert str(first.snapshot_id) in error.value.hint
    with pytest.raises(ExecutionError, match="no snapshot exists as of '2001-01-01'"):
        load(table, timestamp="2001-01-01")


def test_tables_are_found_in_directories_and_catalogs(catalog, tmp_path):
    table = create_table(catalog)
    table.append(rows_of(4))
    path = table.location().removeprefix("file://")
    spec = TableSpec("t", "iceberg")
    assert len(from_path(spec, TablePlace(path)).snapshots()) == 1
    file = table.metadata_location.removeprefix("file://")
    assert len(from_path(spec, TablePlace(file)).snapshots()) == 1
    other = Path(file).with_name("00001-0000.metadata.json")
    other.write_text(Path(file).read_text())
    with pytest.raises(UnreadableError, match="2 newest metadata files"):
        from_path(spec, TablePlace(path))
    with pytest.raises(ExecutionError, match="no Iceberg table exists at"):
        from_path(spec, TablePlace(str(tmp_path)))
    options = (
        ("catalog-type", "sql"),
        ("uri", f"sqlite:///{tmp_path}/c.db"),
        ("catalog-name", "c"),
        ("catalog-table", "db.t"),
    )
    assert len(from_catalog(TableSpec("t", "iceberg", options=options)).snapshots()) == 1
    missing = (*options[:-1], ("catalog-table", "db.gone"))
    with pytest.raises(ExecutionError, match=r"at `db\.gone` in catalog 'c' \(sqlite:///"):
        from_catalog(TableSpec("t", "iceberg", options=missing))


def test_a_table_without_a_snapshot_is_empty(catalog):
    source, rows = scan_table(create_table(catalog), ["k"])
    assert rows == [] and source.files == ()


def test_columns_only_in_the_manifest_are_not_null(catalog, tmp_path):
    table = create_table(catalog)
    pq.write_table(rows_of(3).drop_columns(["i"]), tmp_path / "x.parquet")
    table.add_files([f"file://{tmp_path}/x.parquet"])
    assert {row["i"] for row in scan_table(table, ["k", "i"])[1]} == {None}
    lake = load(table).snapshot
    assert not lake.files[0].needed
    files = tuple(replace(file, needed=frozenset({"i"})) for file in lake.files)
    with pytest.raises(Refused, match="column i is missing"):
        scan_source_of(replace(lake, files=files), [Column("i", "int")])
