"""The DB-API's cursors: parameters, descriptions, rows, statements without rows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin.dbapi as db
from runtime.errors import ExecutionError
from sqlwin.dbapi.fetching import FetchedRows

WINDOWS = """
    SELECT origin, window_end, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '182' DAYS))
    WHERE dep_delay > {late} GROUP BY origin, window_start, window_end ORDER BY origin, window_end
"""
THREE = "SELECT n FROM VALUES (1), (2), (3) AS v(n) GROUP BY n ORDER BY n"


# -- parameters ------------------------------------------------------------------------------------


def test_a_value_is_passed_by_position_or_by_name(connection: db.Connection) -> None:
    by_position = connection.execute(WINDOWS.format(late="?"), (600,)).fetchall()
    by_name = connection.execute(WINDOWS.format(late=":late"), {"late": 600}).fetchall()
    assert by_position == by_name
    assert by_position[0] == ("EWR", datetime.fromisoformat("2013-05-09"), 3)


def test_a_value_is_never_read_as_sql(connection: db.Connection) -> None:
    query = "SELECT COUNT(*) FROM flights WHERE origin = ?"
    for text in (
        "EWR' OR '1' = '1",
        "'; DROP TABLE flights; --",
        "\\' OR 1=1 --",
        "${spark.app.name}",
    ):
        assert connection.execute(query, [text]).fetchall() == [(0,)]
    assert connection.execute("SHOW TABLES").fetchall() == [("flights",)]


@pytest.mark.parametrize(
    ("operation", "parameters", "message"),
    [
        ("SELECT ?", (), "missing value for the 1st ?"),
        ("SELECT ?", (1, 2), r"got 2 values for 1 parameter written as \?"),
        ("SELECT :a", {}, "missing value for the parameter :a"),
        ("SELECT :late", {"latte": 1}, "did you mean :latte"),
        ("SELECT :a", {"a": 1, "b": 2}, "unknown parameter :b"),
        ("SELECT ?", {"a": 1}, "missing value for the 1st ?"),
        ("SELECT ?", [object()], "unsupported type object"),
        ("SELECT ?", "x", "not a string"),
        ("SELECT ?", 5, "params must be a dict or a list of values, not a value of type int"),
        ("SELECT ?", iter([1]), "params must be a dict or a list of values"),
        (None, (), "the statement must be a string, not NoneType"),
        (b"SELECT 1", (), "the statement must be a string, not bytes"),
    ],
)
def test_values_and_parameters_must_match(
    connection: db.Connection, operation: str, parameters: Any, message: str
) -> None:
    with pytest.raises(db.ProgrammingError, match=message):
        connection.execute(operation, parameters)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT '?' AS a, ':a' AS b, '10:30' AS c, ? AS d -- ? :b %s", ("?", ":a", "10:30", 1)),
        ("SELECT 7 % 4 AS a, ? /* ? :c */ AS `a ? :b`, '%s %(a)s' AS c", (3, 1, "%s %(a)s")),
        ("SELECT r'\\?' AS a, ? AS b", ("\\?", 1)),
        ("SELECT ?::STRING AS a, '1'::BIGINT AS b", ("1", 1)),
        ("SELECT 'ab' LIKE 'a%' AS a, 5 -? AS b", (True, 4)),
    ],
)
def test_only_parameters_are_replaced(
    connection: db.Connection, query: str, expected: tuple[object, ...]
) -> None:
    assert connection.execute(query, (1,)).fetchall() == [expected]


BERLIN = ZoneInfo("Europe/Berlin")
VALUES = [
    ("STRING", "a'; DROP TABLE o; -- \\' \n\t\x00 é"),
    ("BIGINT", 2**63 - 1),
    ("DOUBLE", float("-inf")),
    ("DECIMAL(38, 2)", Decimal("-123456789012345678901234567890.12")),
    ("BOOLEAN", True),
    ("BINARY", b"\x00\xff"),
    ("DATE", date(1, 1, 1)),
    ("TIMESTAMP(6)", datetime.fromisoformat("1969-12-31 23:59:59.999999")),
    ("TIMESTAMP_LTZ(6)", datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=BERLIN)),
    ("TIMESTAMP_LTZ(6)", datetime(1890, 1, 1, tzinfo=BERLIN)),  # UTC+00:53:28
    ("TIMESTAMP_LTZ(6)", datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=20)))),
]


@pytest.mark.parametrize("type_and_value", VALUES, ids=[type_ for type_, _ in VALUES])
def test_a_value_of_each_type_is_written_without_spark(
    connection: db.Connection, tmp_path: Path, type_and_value: tuple[str, object]
) -> None:
    type_, value = type_and_value
    connection.execute(
        f"CREATE TABLE o (n INT, x {type_}) WITH ('connector' = 'filesystem', 'path' = ?, "
        "'format' = 'parquet')",
        [tmp_path / "o"],
    )
    # the columns in another order than the table's
    cursor = connection.executemany("INSERT INTO o (x, n) VALUES (?, ?)", [(value, 1), (None, 2)])
    assert cursor.rowcount == 2
    files = sorted((tmp_path / "o").glob("*.parquet"))
    written = {row["n"]: row["x"] for file in files for row in pq.read_table(file).to_pylist()}
    expected = value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value
    assert written == {1: expected, 2: None}


def test_an_instant_beyond_the_years_of_utc_is_refused(connection: db.Connection) -> None:
    with pytest.raises(db.ProgrammingError, match="before year 1 or after year 9999 in UTC"):
        connection.execute("SELECT ?", [datetime.min.replace(tzinfo=BERLIN)])


# -- descriptions ----------------------------------------------------------------------------------


def test_columns_are_described_with_their_types(connection: db.Connection) -> None:
    cursor = connection.execute(
        "SELECT CAST(1.5 AS DECIMAL(10,2)) AS price, 'x' AS name, DATE '1969-12-31' AS day, 1 AS n"
    )
    assert cursor.description is not None
    price, name, day, n = cursor.description
    assert price == ("price", "decimal(10,2)", None, None, 10, 2, False)
    assert (name.name, name.type_code, name.precision) == ("name", "string", None)
    assert cursor.fetchall() == [(Decimal("1.50"), "x", date(1969, 12, 31), 1)]
    # a type code equals one type object
    groups = (db.STRING, db.BINARY, db.NUMBER, db.DATETIME, db.ROWID)
    equal = [
        [group for group in groups if group == column.type_code] for column in (price, name, day, n)
    ]
    assert equal == [[db.NUMBER], [db.STRING], [db.DATETIME], [db.NUMBER]]
    assert name.type_code != db.NUMBER


@pytest.mark.parametrize(
    ("type_code", "group"),
    [
        ("timestamp_ntz", db.DATETIME),
        ("interval day to second", db.DATETIME),
        ("varchar(10)", db.STRING),
        ("binary", db.BINARY),
        ("double", db.NUMBER),
    ],
)
def test_a_type_code_equals_its_type_object(type_code: str, group: object) -> None:
    assert type_code == group
    assert "array<int>" != group


def test_constructors_return_values_for_parameters() -> None:
    assert db.Date(1969, 12, 31) == date(1969, 12, 31)
    assert db.Timestamp(2024, 5, 1, 12) == datetime.fromisoformat("2024-05-01 12:00")
    assert db.Binary(b"\x00") == b"\x00"
    assert db.TimestampFromTicks(0) == datetime.fromisoformat("1970-01-01")
    assert (db.DateFromTicks(86400), db.TimeFromTicks(61)) == (date(1970, 1, 2), db.Time(0, 1, 1))


# -- rows ------------------------------------------------------------------------------------------


def test_rows_are_fetched_one_by_one_in_parts_and_all(connection: db.Connection) -> None:
    cursor = connection.cursor()
    assert cursor.execute(THREE) is cursor
    assert (cursor.fetchone(), cursor.rownumber) == ((1,), 1)
    assert (cursor.fetchmany(), cursor.fetchmany(0)) == ([(2,)], [])
    assert (cursor.fetchmany(5), cursor.fetchone(), cursor.fetchall()) == ([(3,)], None, [])
    assert (cursor.rownumber, cursor.rowcount) == (3, -1)
    assert [row for row in connection.execute(THREE)] == [(1,), (2,), (3,)]
    cursor.arraysize = 2
    assert cursor.execute(THREE).fetchmany() == [(1,), (2,)]
    for size in (-1, "x"):
        with pytest.raises(db.ProgrammingError, match=f"a size of at least 0, but got {size!r}"):
            cursor.fetchmany(size)  # type: ignore[arg-type]


def test_an_arrow_table_has_the_rows_that_were_not_fetched(connection: db.Connection) -> None:
    cursor = connection.execute(THREE)
    cursor.fetchone()
    assert cursor.fetch_arrow_table() == pa.table({"n": pa.array([2, 3], pa.int32())}).cast(
        pa.schema([pa.field("n", pa.int32(), nullable=False)])
    )
    assert (cursor.fetchone(), cursor.rownumber) == (None, 3)
    assert connection.execute(THREE).fetch_arrow_table().num_rows == 3


def test_no_rows_are_an_empty_list_and_an_empty_table_with_types(connection: db.Connection) -> None:
    query = "SELECT origin, dep_delay FROM flights WHERE origin = 'nowhere'"
    cursor = connection.execute(query)
    assert (cursor.fetchone(), cursor.fetchall()) == (None, [])
    assert connection.execute(query).fetch_arrow_table().schema.types == [pa.string(), pa.int32()]


def test_batches_are_read_as_the_rows_are_fetched() -> None:
    schema = pa.schema({"n": pa.int64()})
    events = []

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            for i in range(4):
                events.append(i)
                yield pa.record_batch([range(i * 1500, (i + 1) * 1500)], schema)
        finally:
            events.append("closed")

    rows = FetchedRows(batches(), schema)
    rows.load()
    assert (rows.take(2), events) == ([(0,), (1,)], [0])
    assert [n for (n,) in rows.take(2000)] == list(range(2, 2002))
    assert events == [0, 1]
    rows.close()
    assert events == [0, 1, "closed"]


def test_a_query_that_fails_while_rows_are_fetched_has_no_more_rows(
    connection: db.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    cursor = connection.execute(THREE)

    def failing() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [1]})
        raise ExecutionError("the file is gone")

    cursor._rows = FetchedRows(failing(), pa.schema({"n": pa.int64()}))
    assert cursor.fetchone() == (1,)
    with pytest.raises(db.OperationalError, match="the file is gone"):
        cursor.fetchone()
    with pytest.raises(db.ProgrammingError, match="no rows to fetch"):
        cursor.fetchone()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("1 / (dep_delay - dep_delay)", "division by zero"),
        ("distance * 2000000000", "INT overflow"),
        ("SUM(distance * 100000000000000)", "SUM overflows BIGINT"),
    ],
)
def test_a_value_that_cannot_be_computed_is_an_error_of_data(
    connection: db.Connection, value: str, message: str
) -> None:
    cursor = connection.cursor()
    with pytest.raises(db.DataError, match=message):
        cursor.execute(f"SELECT {value} FROM flights")
    assert cursor.description is None
    assert cursor.execute(THREE).fetchone() == (1,)


# -- statements without rows -----------------------------------------------------------------------


@pytest.fixture
def output(connection: db.Connection, tmp_path: Path) -> db.Connection:
    """The connection, with the empty table `output`."""
    connection.execute(
        "CREATE TABLE output (k STRING, n INT) "
        "WITH ('connector' = 'filesystem', 'path' = ?, 'format' = 'parquet')",
        [tmp_path / "output"],
    )
    return connection


def test_fetching_from_a_statement_without_rows_fails(output: db.Connection) -> None:
    cursor = output.execute("CREATE VIEW v AS SELECT * FROM flights")
    assert (cursor.description, cursor.rowcount, cursor.rownumber) == (None, -1, None)
    for fetch in (cursor.fetchone, cursor.fetchmany, cursor.fetchall, cursor.fetch_arrow_table):
        with pytest.raises(db.ProgrammingError, match="no rows to fetch"):
            fetch()


def test_an_insert_counts_its_rows(output: db.Connection) -> None:
    cursor = output.execute("INSERT INTO output VALUES (?, ?), (?, 2)", ["a'", 1, None])
    assert (cursor.description, cursor.rowcount) == (None, 2)
    cursor.executemany(
        "INSERT INTO output VALUES (:k, :n)", [{"k": "c", "n": 3}, {"k": "d", "n": 4}]
    )
    assert cursor.rowcount == 2
    rows = output.execute("SELECT k, n FROM output").fetchall()
    assert sorted(rows, key=repr) == [("a'", 1), ("c", 3), ("d", 4), (None, 2)]
    assert cursor.executemany("INSERT INTO output VALUES (?, ?)", []).rowcount == 0


def test_executemany_refuses_a_query(connection: db.Connection) -> None:
    with pytest.raises(db.ProgrammingError, match="run the query with execute"):
        connection.executemany("SELECT ?", [(1,), (2,)])


def test_explain_and_show_have_rows(connection: db.Connection) -> None:
    cursor = connection.execute(f"EXPLAIN {WINDOWS.format(late=0)}")
    assert [column.name for column in cursor.description or ()] == ["plan"]
    assert any("WindowAggregate" in str(line) for (line,) in cursor)
    shown = connection.execute("DESCRIBE flights")
    assert (shown.description or ())[0][:2] == ("name", "string")
    assert (shown.fetchone() or ())[:2] == ("sched_dep", "TIMESTAMP(6)")


@pytest.mark.parametrize(
    ("operation", "n"), [("", 0), ("-- nothing", 0), ("SELECT 1; SELECT 2", 2)]
)
def test_execute_takes_one_statement(connection: db.Connection, operation: str, n: int) -> None:
    with pytest.raises(db.ProgrammingError, match=f"takes one statement, but got {n}"):
        connection.execute(operation)


def test_notes_of_a_result_are_messages(connection: db.Connection, tmp_path: Path) -> None:
    times = pa.array([datetime.fromisoformat("1969-12-31 23:30"), None], pa.timestamp("us"))
    pq.write_table(pa.table({"ts": times, "n": [1, 2]}), tmp_path / "t.parquet")
    cursor = connection.execute(
        f"SELECT window_end, SUM(n) FROM TABLE(TUMBLE(TABLE '{tmp_path}/t.parquet', "
        "DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end"
    )
    assert cursor.fetchall() == [(datetime.fromisoformat("1970-01-01"), 1)]
    ((kind, note),) = cursor.messages
    assert kind is db.Warning
    assert "NULL in `ts`" in note


def test_a_decimal_without_digits_before_the_point_is_cast_to_an_integer(
    connection: db.Connection,
) -> None:
    query = "SELECT CAST(0.00001 AS BIGINT) AS a, CAST(-0.99 AS INT) AS b, CAST(? AS BIGINT) AS c"
    assert connection.execute(query, [Decimal("0.5")]).fetchall() == [(0, 0, 0)]
