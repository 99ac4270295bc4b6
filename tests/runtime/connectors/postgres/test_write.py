"""Rows in a real PostgreSQL: by key and appended, once per micro-batch, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from runtime.connectors.postgres.connector import PostgresTable
from runtime.connectors.postgres.retries import AwayLimit
from runtime.connectors.postgres.write import BATCHES, BatchWriter, insert_rows
from runtime.errors import SqlwinError
from runtime.spec.stream import ROW_KIND
from runtime.spec.table import Column, TableColumn, TableSpec
from tests.postgres import Server, rows, run, server

COLUMNS = (Column("k", "string"), Column("we", "int"), Column("n", "bigint"))
TYPES = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}


def table(
    url: str,
    columns: Sequence[Column] = COLUMNS,
    key: tuple[str, ...] = ("k", "we"),
    **options: str,
) -> TableSpec:
    named = {"url": url, "table-name": "t", "create-table": "true"} | {
        name.replace("_", "-"): value for name, value in options.items()
    }
    declared = tuple(TableColumn(c.name, c.type.upper()) for c in columns)
    return TableSpec("t", "postgres", declared, tuple(named.items()), primary_key=key)


def batch(
    *values: tuple[Any, ...], columns: Sequence[Column] = COLUMNS, has_kinds: bool = False
) -> list[pa.RecordBatch]:
    """Return rows as one batch. With kinds, the first value of a row is its kind."""
    fields = [(c.name, TYPES[c.type]) for c in columns]
    if has_kinds:
        fields.insert(0, (ROW_KIND, pa.string()))
    schema = pa.schema(fields)
    arrays = [pa.array([v[i] for v in values], field.type) for i, field in enumerate(schema)]
    return [pa.RecordBatch.from_arrays(arrays, schema=schema)]


def insert(spec: TableSpec, *values: tuple[Any, ...], overwrite: bool = False) -> int:
    return insert_rows(spec, COLUMNS, batch(*values), overwrite=overwrite)


def contents(url: str) -> list[tuple[Any, ...]]:
    return sorted(rows(url, "SELECT * FROM t"), key=str)


def test_rows_with_the_same_key_are_replaced_and_others_stay(database: str) -> None:
    spec = table(database)
    assert insert(spec, ("a", 1, 10), ("b", 1, 20)) == 2
    assert insert(spec, ("a", 1, 11), ("a", 2, 30)) == 2
    assert contents(database) == [("a", 1, 11), ("a", 2, 30), ("b", 1, 20)]


def test_rows_without_a_key_are_appended(database: str) -> None:
    spec = table(database, key=())
    insert(spec, ("a", 1, 10), ("a", 1, 10))
    insert(spec, ("a", 1, 10))
    assert contents(database) == [("a", 1, 10)] * 3


def test_overwriting_replaces_all_rows(database: str) -> None:
    spec = table(database)
    insert(spec, ("a", 1, 10), ("b", 1, 20))
    assert insert(spec, ("c", 1, 30), overwrite=True) == 1
    assert contents(database) == [("c", 1, 30)]


def test_a_failed_insert_leaves_no_row(database: str) -> None:
    spec = table(database, key=())
    insert(spec, ("a", 1, 10))

    def failing() -> Iterator[pa.RecordBatch]:
        yield from batch(*(("b", i, i) for i in range(100_000)))
        raise ZeroDivisionError

    for overwrite in (False, True):
        with pytest.raises(ZeroDivisionError):
            insert_rows(spec, COLUMNS, failing(), overwrite=overwrite)
    assert contents(database) == [("a", 1, 10)]


def test_changes_of_a_micro_batch_are_folded_to_one_upsert_or_delete_per_key(database: str) -> None:
    writer = BatchWriter(table(database), COLUMNS, "w")
    writer.write(batch(("+I", "a", 1, 1), ("+I", "b", 1, 1), ("+I", "c", 1, 1), has_kinds=True), 0)
    changes = [
        ("-U", "a", 1, 1), ("+U", "a", 1, 2), ("-U", "b", 1, 1), ("+I", "d", 1, 7),
        ("-D", "e", 1, 1),
    ]  # fmt: skip
    assert writer.write(batch(*changes, has_kinds=True), 1) == 4
    assert contents(database) == [("a", 1, 2), ("c", 1, 1), ("d", 1, 7)]
    writer.close()


def test_a_micro_batch_is_written_once_and_its_number_is_recorded(database: str) -> None:
    spec = table(database, key=())
    first = BatchWriter(spec, COLUMNS, "w")
    assert first.write(batch(("a", 1, 1)), 4) == 1
    first.close()
    again = BatchWriter(spec, COLUMNS, "w")
    assert again.write(batch(("a", 1, 1)), 4) == 0
    assert again.write(batch(("a", 1, 1)), 3) == 0
    assert again.write(batch(("b", 1, 2)), 5) == 1
    other = BatchWriter(spec, COLUMNS, "other")
    assert other.write(batch(("c", 1, 3)), 0) == 1
    assert contents(database) == [("a", 1, 1), ("b", 1, 2), ("c", 1, 3)]
    assert sorted(rows(database, f"SELECT writer, batch FROM {BATCHES}")) == [
        ("other", 0),
        ("w", 5),
    ]
    again.close()
    other.close()


def test_the_rows_of_a_repeated_micro_batch_are_computed(database: str) -> None:
    """Computing them stores the state of the stream."""
    writer = BatchWriter(table(database), COLUMNS, "w")
    writer.write(batch(("a", 1, 1)), 0)
    computed = []

    def computing() -> Iterator[pa.RecordBatch]:
        computed.append(True)
        yield from batch(("a", 1, 1))

    writer.write(computing(), 0)
    assert computed
    writer.close()


@pytest.mark.parametrize("number", [None, 3])
def test_rows_of_one_key_without_an_order_are_an_error_with_the_key(
    database: str, number: int | None
) -> None:
    spec = table(database)
    values = batch(("a", 1, 1), ("b", 1, 1), ("a", 1, 2))
    with pytest.raises(SqlwinError, match=r"PRIMARY KEY \(k, we\) = \('a', 1\)") as raised:
        if number is None:
            insert_rows(spec, COLUMNS, values, overwrite=False)
        else:
            BatchWriter(spec, COLUMNS, "w").write(values, number)
    assert ("micro-batch 3" if number else "rows of this INSERT") in raised.value.message
    assert contents(database) == []


def test_the_last_row_of_a_key_counts_if_the_rows_have_an_order(database: str) -> None:
    writer = BatchWriter(table(database), COLUMNS, "w", is_ordered=True)
    writer.write([*batch(("a", 1, 1), ("a", 1, 2)), *batch(("b", 1, 5), ("a", 1, 3))], 0)
    assert contents(database) == [("a", 1, 3), ("b", 1, 5)]
    writer.close()


def test_a_key_may_be_all_columns(database: str) -> None:
    spec = table(database, key=("k", "we", "n"))
    insert(spec, ("a", 1, 1))
    insert(spec, ("a", 1, 1), ("a", 1, 2))
    assert contents(database) == [("a", 1, 1), ("a", 1, 2)]


EVERY_TYPE = {
    "b": "boolean", "y": "tinyint", "s": "smallint", "i": "int", "l": "bigint", "f": "float",
    "d": "double", "m": "decimal(20,3)", "t": "string", "x": "binary", "da": "date",
    "ts": "timestamp_ntz", "at": "timestamp",
}  # fmt: skip


def test_every_type_arrives_with_its_value(database: str) -> None:
    columns = [Column(*item) for item in EVERY_TYPE.items()]
    schema = pa.schema([
        ("b", pa.bool_()), ("y", pa.int8()), ("s", pa.int16()), ("i", pa.int32()),
        ("l", pa.int64()), ("f", pa.float32()), ("d", pa.float64()), ("m", pa.decimal128(20, 3)),
        ("t", pa.string()), ("x", pa.binary()), ("da", pa.date32()), ("ts", pa.timestamp("us")),
        ("at", pa.timestamp("us", "Europe/Berlin")),
    ])  # fmt: skip
    year_10000, day = 253_402_300_800_000_000, 86_400_000_000
    ides_of_march = int(np.datetime64("-0043-03-15", "us").astype("int64"))  # 44 BC
    data = [
        [True, False, None], [1, -128, None], [2, 3, None], [3, 4, None], [2**63 - 1, -5, None],
        [0.5, float("inf"), None], [0.1, float("nan"), None],
        [Decimal("1.250"), Decimal("-99999999999999999.999"), None],
        ['é, "x"\n\\.', "", None], [b"\x00\xff", b"", None],
        [0, year_10000 // day, None], [-1, year_10000, None], [0, ides_of_march, None],
    ]  # fmt: skip
    plain = {"da": pa.int32(), "ts": pa.int64(), "at": pa.int64()}
    arrays = [
        pa.array(values, plain[field.name]).cast(field.type)
        if field.name in plain
        else pa.array(values, field.type)
        for values, field in zip(data, schema, strict=True)
    ]
    spec = table(database, columns, ())
    written = pa.RecordBatch.from_arrays(arrays, schema=schema)
    assert insert_rows(spec, columns, [written], overwrite=False) == 3
    read = rows(
        database,
        "SELECT b::text, y::text, s::text, i::text, l::text, f::text, d::text, m::text, t, "
        "encode(x, 'hex'), da::text, ts::text, (at AT TIME ZONE 'UTC')::text FROM t",
    )
    assert read == [
        ("true", "1", "2", "3", str(2**63 - 1), "0.5", "0.1", "1.250", 'é, "x"\n\\.', "00ff",
         "1970-01-01", "1969-12-31 23:59:59.999999", "1970-01-01 00:00:00"),
        ("false", "-128", "3", "4", "-5", "Infinity", "NaN", "-99999999999999999.999", "", "",
         "10000-01-01", "10000-01-01 00:00:00", "0044-03-15 00:00:00 BC"),
        (None,) * 13,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE t (k text, we int)", "column `n` of table `t` does not exist"),
        ("CREATE TABLE t (k text, we smallint, n bigint)", "INT, which does not fit smallint"),
        ("CREATE TABLE t (k uuid, we int, n bigint, z int NOT NULL)", "lacks column `z`"),
        ("CREATE TABLE t (k text, we int, n bigint)", "no unique index on the PRIMARY KEY"),
        ("CREATE TABLE t (k text, we int, n bigint GENERATED ALWAYS AS (we + 1) STORED)",
         "generated by the database"),
        ("CREATE TABLE other (k text)", "the database has no table \"t\""),
    ],
)  # fmt: skip
def test_a_table_that_does_not_fit_is_refused_before_rows_are_computed(
    database: str, statement: str, message: str
) -> None:
    run(database, statement)
    spec = table(database, create_table="false")

    def computed() -> Iterator[pa.RecordBatch]:
        raise AssertionError("rows are computed")
        yield

    with pytest.raises(SqlwinError) as raised:
        insert_rows(spec, COLUMNS, computed(), overwrite=False)
    assert message in raised.value.message and "\n" not in raised.value.message
    with pytest.raises(SqlwinError):
        BatchWriter(spec, COLUMNS, "w").open()


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("k varchar(3)", "abcd", "column `k`: value too long for type character varying(3)"),
        ("k uuid", "abcd", 'invalid input syntax for type uuid: "abcd"'),
        ("k text CHECK (k <> 'x')", "x", 'violates check constraint "t_k_check"'),
        ("k text", "a\0b", 'invalid byte sequence for encoding "UTF8": 0x00'),
        ("k text NOT NULL", None, 'column `k`: null value in column "k"'),
    ],
)
def test_a_value_that_does_not_fit_writes_nothing(
    database: str, column: str, value: str | None, message: str
) -> None:
    run(database, f"CREATE TABLE t ({column}, we int, n bigint)")
    spec = table(database, key=())
    with pytest.raises(SqlwinError) as raised:
        insert(spec, ("", 0, 0) if column == "k text" else (value, 1, 1), (value, 1, 1))
    assert message in raised.value.message and "\n" not in raised.value.message
    assert contents(database) == []


def test_a_null_in_the_key_is_refused(database: str) -> None:
    with pytest.raises(SqlwinError, match="k"):
        insert(table(database), (None, 1, 1))
    changes = batch(("+I", None, 1, 1), has_kinds=True)
    with pytest.raises(SqlwinError, match="column `k` of the PRIMARY KEY is NULL"):
        BatchWriter(table(database), COLUMNS, "w").write(changes, 0)


def test_names_are_quoted_as_in_sql(database: str) -> None:
    run(
        database,
        'CREATE SCHEMA "My Schema"',
        'CREATE TABLE "My Schema"."T""1" ("K" text, we int, n bigint, UNIQUE ("K", we))',
    )
    spec = table(database, table_name='"My Schema"."T""1"')
    insert(spec, ("a", 1, 1))
    insert(spec, ("a", 1, 2))
    assert rows(database, 'SELECT * FROM "My Schema"."T""1"') == [("a", 1, 2)]
    run(database, "CREATE TABLE my_table (k text, we int, n bigint)")
    insert(table(database, table_name="My_Table", key=()), ("a", 1, 1))
    assert rows(database, "SELECT k FROM my_table") == [("a",)]


def test_a_jdbc_url_connects(postgres: Server) -> None:
    url = postgres.url()
    run(url, "CREATE SCHEMA other", "CREATE TABLE other.t (k text, we int, n bigint)")
    jdbc = f"jdbc:{url}&ApplicationName=app&currentSchema=other"
    spec = table(jdbc, key=(), username="tester", password="unused")
    insert(spec, ("a", 1, 1))
    assert rows(url, "SELECT k FROM other.t") == [("a",)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "mysql://h/d"}, "option 'url' is not a URL of PostgreSQL"),
        ({"url": "jdbc:mysql://h/d"}, "option 'url' is not a URL of PostgreSQL"),
        ({"table_name": "a.b.c"}, "invalid value 'a.b.c' for option 'table-name'"),
        ({"table_name": "a."}, "invalid value 'a.' for option 'table-name'"),
        ({"create_table": "yes"}, "invalid value 'yes' for option 'create-table'"),
        ({"tables": "x"}, "unknown option 'tables'"),
    ],
)
def test_invalid_options_are_refused_without_a_connection(
    options: dict[str, str], message: str
) -> None:
    spec = table(options.pop("url", "postgresql://h/d"), **options)
    with pytest.raises(SqlwinError) as raised:
        PostgresTable(spec).validate()
    assert message in raised.value.message


@pytest.mark.long
def test_a_wrong_login_database_or_host_is_one_line(tmp_path: Any) -> None:
    with server() as own:
        (own.directory / "data/pg_hba.conf").write_text("local all all scram-sha-256\n")
        run(own.url(), "ALTER ROLE tester PASSWORD 'right'")
        own.stop()
        own.start()
        url = own.url()
        cases = {
            "check the options 'username' and 'password'": table(url, password="wrong-one"),
            "check the database": table(own.url("nowhere"), password="right"),
            "check the option 'url'": table(f"postgresql:///d?host={tmp_path}"),
        }
        for hint, spec in cases.items():
            with pytest.raises(SqlwinError) as raised:
                insert(spec, ("a", 1, 1))
            assert "\n" not in raised.value.message and hint in str(raised.value.hint)
            assert "wrong-one" not in str(raised.value)
        with pytest.raises(SqlwinError, match="invalid URI query parameter"):
            insert(table(f"{url}&colour=red"), ("a", 1, 1))


@pytest.mark.long
def test_a_restart_of_the_database_between_micro_batches_is_not_noticed() -> None:
    with server() as own:
        writer = BatchWriter(table(own.url()), COLUMNS, "w")
        writer.write(batch(("a", 1, 1)), 0)
        own.stop("immediate")
        own.start()
        assert writer.write(batch(("a", 1, 2), ("b", 1, 1)), 1) == 2
        assert contents(own.url()) == [("a", 1, 2), ("b", 1, 1)]
        own.stop("immediate")
        with pytest.raises(SqlwinError, match="the database cannot be reached"):
            BatchWriter(table(own.url()), COLUMNS, "w", limit=AwayLimit(0)).write(
                batch(("c", 1, 1)), 2
            )
        own.start()
        # the next run of the stream writes the micro-batch again
        assert writer.write(batch(("c", 1, 1)), 2) == 1
        assert len(contents(own.url())) == 3
        writer.close()


def test_a_changed_table_stops_the_stream_until_it_is_repaired(
    database: str,
) -> None:
    writer = BatchWriter(table(database), COLUMNS, "w")
    writer.write(batch(("a", 1, 1)), 0)
    run(database, "ALTER TABLE t RENAME n TO total")
    with pytest.raises(SqlwinError, match='column "n" does not exist'):
        writer.write(batch(("a", 1, 2)), 1)
    with pytest.raises(SqlwinError, match="column `n` of table `t` does not exist"):
        writer.write(batch(("a", 1, 2)), 1)
    run(database, "ALTER TABLE t RENAME total TO n")
    assert writer.write(batch(("a", 1, 2)), 1) == 1
    assert contents(database) == [("a", 1, 2)]
    writer.close()
