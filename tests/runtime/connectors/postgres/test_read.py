"""Tables and queries of PostgreSQL, read in this process without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from runtime.connectors.postgres.conditions import condition_sql
from runtime.connectors.postgres.connector import PostgresTable
from runtime.connectors.postgres.database_types import DatabaseColumn
from runtime.connectors.postgres.read import PostgresSplits, partitions, read_in_process
from runtime.errors import ExecutionError, SqlwinError
from runtime.spec.expressions import Call, ColumnRef, Constant
from runtime.spec.table import Column, TableColumn, TableSpec
from sqlwin.session import Session
from tests.postgres import rows, run
from tests.unstarted import unstarted_spark


@pytest.fixture
def session() -> Iterator[Session]:
    yield Session(unstarted_spark(), settings={})


@pytest.fixture
def numbers(database: str) -> str:
    """Provide a database with the table `numbers`: 1000 keys from -10, and one NULL."""
    run(
        database,
        "CREATE TABLE numbers (id int, at timestamp, day date, name text, x numeric(10,2))",
        "INSERT INTO numbers SELECT i, timestamp '1969-12-31' + i * interval '1 hour', "
        "date '2024-01-01' + i, 'n' || (i + 10) % 7, i / 4.0 FROM generate_series(-10, 989) i",
        "INSERT INTO numbers (name) VALUES ('none')",
    )
    return database


def declare(url: str, columns: str, table: str = "numbers", **options: str) -> str:
    named = {"url": url} | ({} if "query" in options else {"table-name": table})
    named |= {name.replace("_", "."): value.replace("'", "''") for name, value in options.items()}
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in named.items())
    return f"CREATE TABLE t ({columns}) WITH ('connector' = 'postgres', {listed})"


def result(session: Session, sql: str) -> list[tuple[Any, ...]]:
    *_, last = session.execute(sql)
    return [tuple(row.values()) for row in last.to_arrow().to_pylist()]


def test_tasks_read_an_exported_snapshot(numbers: str) -> None:
    spec = TableSpec("t", "postgres", options=(("url", numbers), ("table-name", "numbers")))
    columns = [Column("id", "int")]

    def n_rows(snapshot: str) -> int:
        reader = PostgresSplits(spec, snapshot=snapshot).reader(columns, is_stream=False)
        return sum(b.num_rows for b in reader.read(["id < 500", "id >= 500"], frozenset()))

    with PostgresTable(spec).snapshot() as table:
        run(numbers, "INSERT INTO numbers (id) VALUES (7), (700)")
        assert n_rows(table.snapshot_name) == 1000
        assert n_rows("") == 1002
    with pytest.raises(ExecutionError, match="snapshot"):
        n_rows(table.snapshot_name)


def test_a_query_reads_a_table_without_spark(session: Session, numbers: str) -> None:
    session.execute(declare(numbers, "id INT, at TIMESTAMP(6), name STRING, x DECIMAL(10, 2)"))
    query = (
        "SELECT name, COUNT(*) AS n, SUM(x) AS s FROM {} WHERE id >= 0 GROUP BY name ORDER BY name"
    )
    assert result(session, query.format("t")) == rows(numbers, query.format("numbers"))
    windows = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' DAY))"
    counts = result(
        session, f"SELECT window_start, COUNT(*) FROM {windows} GROUP BY window_start, window_end"
    )
    assert sum(n for _, n in counts) == 1000 and max(n for _, n in counts) == 24
    (explained,) = session.execute("EXPLAIN SELECT id FROM t")
    assert "in process: reads the database without Spark" in explained.text


def test_a_query_of_the_database_is_read(session: Session, numbers: str) -> None:
    query = "SELECT name AS \"Name\", COUNT(*) AS n FROM numbers WHERE name <> 'none' GROUP BY 1;"
    session.execute(declare(numbers, "Name STRING, n BIGINT", query=query))
    assert result(session, "SELECT SUM(n) AS s, COUNT(Name) AS c FROM t") == [(1000, 7)]


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    "options",
    [
        {"scan_partition_column": "id", "scan_partition_num": "7"},
        {"scan_partition_column": "at", "scan_partition_num": "3"},
        {"scan_partition_column": "day", "scan_partition_num": "4"},
        {"scan_partition_column": "id", "scan_partition_num": "5000"},
    ],
)
def test_partitions_hold_each_row_once(
    session: Session, numbers: str, options: dict[str, str]
) -> None:
    options = {name.replace("scan_partition_", "scan.partition."): v for name, v in options.items()}
    session.execute(declare(numbers, "id INT, name STRING", **options))
    ids = [row for (row,) in result(session, "SELECT id FROM t")]
    assert ids.count(None) == 1
    assert sorted(row for row in ids if row is not None) == list(range(-10, 990))


def spec_of(url: str, **options: str) -> TableSpec:
    named = {"url": url, "table-name": "numbers"} | options
    return TableSpec(
        "t", "postgres", (TableColumn("id", "INT"),), tuple(named.items()), primary_key=("id",)
    )


def test_a_table_is_cut_by_its_key_if_it_has_many_rows(numbers: str) -> None:
    with psycopg.connect(numbers) as connection:
        assert partitions(connection, spec_of(numbers), 4) == [""]
        connection.execute("UPDATE pg_class SET reltuples = 1e6 WHERE relname = 'numbers'")
        parts = partitions(connection, spec_of(numbers), 4)
        assert len(parts) == 4
        counts = [
            connection.execute(f"SELECT COUNT(*) FROM numbers WHERE {p}".encode()).fetchone()
            for p in parts
        ]
        assert [c[0] for c in counts if c] == [251, 250, 250, 250]
        connection.rollback()


def test_tasks_of_spark_read_the_rows_that_satisfy_the_conditions(numbers: str) -> None:
    at_least = Call(">=", (ColumnRef("id", "int"), Constant(7, "int")), "boolean")
    spec = spec_of(numbers, **{"scan.partition.num": "2", "scan.partition.column": "id"})
    splits = PostgresSplits(spec).batch_splits(4, [at_least])
    assert splits == [
        ('("id" < (490) OR "id" IS NULL) AND "id" >= 7',),
        ('"id" >= (490) AND "id" >= 7',),
    ]


def test_all_partitions_are_of_one_snapshot(numbers: str) -> None:
    """Rows that are written while partitions are read are not seen by any of them."""
    spec = spec_of(numbers, **{"scan.partition.column": "id", "scan.partition.num": "6"})
    batches = read_in_process(spec, [Column("id", "int")])
    n_rows = next(batches).num_rows
    run(
        numbers,
        "INSERT INTO numbers (id) SELECT i FROM generate_series(-10, 989) i",
        "DELETE FROM numbers WHERE id > 500 AND name IS NOT NULL",
    )
    assert n_rows + sum(batch.num_rows for batch in batches) == 1001


def test_every_type_is_read_with_its_value(session: Session, database: str) -> None:
    run(
        database,
        "CREATE TABLE every (b boolean, s smallint, i int, l bigint, f real, d double precision, "
        "m numeric(20,3), t text, x bytea, da date, ts timestamp, at timestamptz, u uuid, j jsonb)",
        "INSERT INTO every VALUES (true, 1, 2, 3, 0.5, 'NaN', -1.25, E'a,\"\\n', '\\x00ff', "
        "'0001-01-01', '9999-12-31 23:59:59.999999', '2024-01-01 00:00:00+02', "
        "'00000000-0000-0000-0000-000000000001', '{\"a\": 1}')",
        "INSERT INTO every (t, x) VALUES ('', '')",
    )
    session.execute(
        declare(
            database,
            "b BOOLEAN, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, m DECIMAL(20, 3), t STRING, "
            "x BYTES, da DATE, ts TIMESTAMP(6), at TIMESTAMP_LTZ(6), u STRING, j STRING",
            "every",
        )
    )
    *_, last = session.execute("SELECT * FROM t")
    first, second = last.to_arrow().cast(
        pa.schema([f.with_type(pa.string()) if pa.types.is_timestamp(f.type) or pa.types.is_date(f.type) else f
                   for f in last.to_arrow().schema])
    ).to_pylist()  # fmt: skip
    assert str(first.pop("d")) == "nan"
    assert [str(v) for v in first.values()] == [
        "True", "1", "2", "3", "0.5", "-1.250", 'a,"\n', "b'\\x00\\xff'", "0001-01-01",
        "9999-12-31 23:59:59.999999", "2023-12-31 22:00:00.000000Z",
        "00000000-0000-0000-0000-000000000001", '{"a": 1}',
    ]  # fmt: skip
    assert {name for name, value in second.items() if value is not None} == {"t", "x"}
    assert (second["t"], second["x"]) == ("", b"")


@pytest.mark.parametrize(
    ("columns", "message", "hint"),
    [
        ("nam STRING", "column `nam` of table `t` does not exist", "did you mean `name`?"),
        ("id SMALLINT", "`id` of table `t` is declared SMALLINT, but is integer", "declare it INT"),
        ("x DOUBLE", "is numeric(10,2) in the database", "declare it DECIMAL(10,2)"),
        ("at TIMESTAMP_LTZ(6)", "is timestamp without time zone", "declare it TIMESTAMP(6)"),
        ("x DECIMAL(3, 0)", "a value does not fit column `x`, which is DECIMAL(3, 0)", "digits"),
    ],
)
def test_a_column_that_does_not_fit_is_one_line(
    session: Session, numbers: str, columns: str, message: str, hint: str
) -> None:
    session.execute(declare(numbers, columns))
    with pytest.raises(SqlwinError) as raised:
        result(session, "SELECT * FROM t")
    assert message in raised.value.message and hint in str(raised.value.hint)
    assert "\n" not in raised.value.message


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_no_decimal_holds_is_an_error_that_names_its_column(
    session: Session, database: str, value: str
) -> None:
    run(
        database,
        "CREATE TABLE odd (id int, price numeric)",
        f"INSERT INTO odd VALUES (1, 2.5), (2, '{value}')",
    )
    session.execute(declare(database, "id INT, price DECIMAL(38, 18)", table="odd"))
    with pytest.raises(SqlwinError) as raised:
        result(session, "SELECT * FROM t")
    assert raised.value.message == (
        f"table `t`: the value {value} does not fit column `price`, which is DECIMAL(38, 18)"
    )
    cast = f"CAST(NULLIF(`price`, '{value}') AS DECIMAL(38, 18))"
    assert cast in str(raised.value.hint)
    session.execute("DROP TABLE t")
    session.execute(declare(database, "id INT, price STRING", table="odd"))
    assert result(session, f"SELECT id, {cast} AS p FROM t WHERE id = 2") == [(2, None)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "nowhere"}, 'the database has no table "nowhere"'),
        ({"query": "SELEC 1"}, 'syntax error at or near "1"'),
        ({"scan.partition.column": "name"}, "names column `name`, which is text"),
        ({"scan.partition.column": "z"}, "names column `z`, which does not exist"),
    ],
)
def test_a_wrong_table_query_or_key_is_one_line(
    session: Session, numbers: str, options: dict[str, str], message: str
) -> None:
    session.execute(declare(numbers, "id INT", **options))
    with pytest.raises(SqlwinError) as raised:
        result(session, "SELECT * FROM t")
    assert message in raised.value.message and "\n" not in raised.value.message


def test_a_query_is_not_written(session: Session, numbers: str) -> None:
    session.execute(declare(numbers, "id INT", query="SELECT 1 AS id"))
    with pytest.raises(SqlwinError, match="option 'table-name' is required to write"):
        session.execute("INSERT INTO t VALUES (1)")


def test_an_infinite_time_is_named(session: Session, numbers: str) -> None:
    run(numbers, "INSERT INTO numbers (at) VALUES ('infinity')")
    session.execute(declare(numbers, "at TIMESTAMP(6)"))
    with pytest.raises(SqlwinError, match="infinity"):
        result(session, "SELECT MAX(at) FROM t")


def test_rows_are_copied_between_tables_of_the_database(session: Session, numbers: str) -> None:
    session.execute(declare(numbers, "id INT, name STRING"))
    session.execute(
        f"""CREATE TABLE names (name STRING, n BIGINT, PRIMARY KEY (name) NOT ENFORCED) WITH (
            'connector' = 'postgres', 'url' = '{numbers}', 'table-name' = 'names',
            'create-table' = 'true')"""
    )
    session.execute("INSERT INTO names SELECT name, COUNT(*) FROM t GROUP BY name")
    assert rows(numbers, "SELECT COUNT(*), SUM(n) FROM names") == [(8, 1001)]


COLUMNS = {
    "i": DatabaseColumn("i", "integer", False, False),
    "t": DatabaseColumn('T"', "text", False, False),
    "ts": DatabaseColumn("ts", "timestamp(3) without time zone", False, False),
    "c": DatabaseColumn("c", "character(5)", False, False),
}


@pytest.mark.parametrize(
    ("condition", "sql"),
    [
        (Call("<", (ColumnRef("I", "int"), Constant(-5, "int")), "boolean"), '"i" < -5'),
        (Call("<=", (Constant(7, "int"), ColumnRef("i", "int")), "boolean"), '"i" >= 7'),
        (
            Call("=", (ColumnRef("t", "string"), Constant("a'\\", "string")), "boolean"),
            "\"T\"\"\" = E'a''\\\\'",
        ),
        (
            Call(">", (ColumnRef("ts", "timestamp_ntz"), Constant(-1, "timestamp_ntz")), "boolean"),
            "\"ts\" > TIMESTAMP '1970-01-01' + (-1) * INTERVAL '1 microsecond'",
        ),
        # the database's collation orders texts, and blanks at the end of character(n)
        # do not count there
        (Call("<", (ColumnRef("t", "string"), Constant("a", "string")), "boolean"), None),
        (Call("=", (ColumnRef("c", "string"), Constant("a", "string")), "boolean"), None),
        (Call("is_null", (ColumnRef("i", "int"),), "boolean"), None),
    ],
)  # fmt: skip
def test_a_condition_that_means_the_same_in_the_database_is_sent(
    condition: Call, sql: str | None
) -> None:
    assert condition_sql(condition, COLUMNS) == sql
    both = Call("and", (condition, Call("is_null", (ColumnRef("i", "int"),), "boolean")), "boolean")
    assert condition_sql(both, COLUMNS) == sql


def test_explain_shows_the_key_by_which_an_insert_replaces_rows(session: Session) -> None:
    options = "('connector' = 'postgres', 'url' = 'postgresql://nowhere/d', 'table-name' = 't')"
    session.execute(f"CREATE TABLE t (k INT, n INT, PRIMARY KEY (k) NOT ENFORCED) WITH {options}")
    (keyed,) = session.execute("EXPLAIN INSERT INTO t VALUES (1, 2)")
    assert "== Sink ==\nrows replace those with the same PRIMARY KEY (k) in t\n" in keyed.text
    (replaced,) = session.execute("EXPLAIN INSERT OVERWRITE t VALUES (1, 2)")
    assert "== Sink ==" not in replaced.text


EVERY_TYPE = """CREATE TABLE every (b boolean, s smallint, i int, l bigint, r real, d double precision,
    "Name" varchar(9), x bytea, day date, at timestamp(3), seen timestamptz, n numeric(10,2), big numeric(50,2),
    free numeric, u uuid, j jsonb, a int[])"""


def test_columns_that_are_not_declared_come_from_the_database(
    session: Session, database: str
) -> None:
    run(
        database,
        EVERY_TYPE,
        "INSERT INTO every VALUES (true, 1, 2, 3, 0.5, 0.25, 'a', '\\x01', '1969-12-31', "
        "'1969-12-31 23:59:59.999', '2024-01-01 00:00:00Z', -1.25, 7, 1.5, "
        "'00000000-0000-0000-0000-000000000001', '{}', '{1}')",
    )
    session.execute(declare(database, "", "every").replace("t ()", "t"))
    (described,) = session.execute("DESCRIBE t")
    types = {row["name"]: row["type"] for row in described.to_arrow().to_pylist()}
    assert types == {
        "b": "BOOLEAN", "s": "SMALLINT", "i": "INT", "l": "BIGINT", "r": "FLOAT", "d": "DOUBLE",
        "Name": "STRING", "x": "BYTES", "day": "DATE", "at": "TIMESTAMP(6)",
        "seen": "TIMESTAMP_LTZ(6)", "n": "DECIMAL(10, 2)", "big": "STRING",
        "free": "DECIMAL(38, 18)", "u": "STRING", "j": "STRING", "a": "STRING",
    }  # fmt: skip
    ((*_, n, big, free, u, j, a),) = result(session, "SELECT * FROM t")
    assert (str(n), big, float(free), u[-2:], j, a) == ("-1.25", "7.00", 1.5, "01", "{}", "{1}")


def test_columns_from_the_database_have_a_watermark_and_a_key(
    session: Session, numbers: str
) -> None:
    items = "WATERMARK FOR at AS at, PRIMARY KEY (id) NOT ENFORCED, twice AS id * 2"
    session.execute(declare(numbers, items))
    assert result(session, "SELECT id, twice FROM t WHERE id = 7") == [(7, 14)]
    windows = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '100' DAY))"
    counted = f"SELECT COUNT(*) AS n FROM {windows} GROUP BY window_start, window_end"
    assert sum(n for (n,) in result(session, counted)) == 1000


@pytest.mark.parametrize(
    ("items", "options", "message"),
    [
        ("", {"table": "absent"}, 'table `t`: the database has no table "absent"'),
        ("id AS 1", {}, "column `id` of `t` already exists in the database"),
        ("PRIMARY KEY (nr) NOT ENFORCED", {}, "nr"),
        ("", {"query": "SELECT nothing FROM numbers"}, 'column "nothing" does not exist'),
        ("", {"create-table": "true"}, "columns are required with 'create-table'"),
    ],
)
def test_a_missing_table_without_columns_is_one_line(
    session: Session, numbers: str, items: str, options: dict[str, str], message: str
) -> None:
    sql = declare(numbers, items, **options)
    with pytest.raises(SqlwinError) as caught:
        session.execute(sql.replace("t ()", "t"))
    assert message in caught.value.message
    assert "\n" not in caught.value.message
