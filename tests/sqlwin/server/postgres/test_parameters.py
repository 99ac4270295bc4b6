"""Parameters without a type take it from their place, as in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import sqlwin
from sqlwin.server.client import ServedSession
from tests.sqlwin.server.serving import connect, served_session, serving

Cells = list[tuple[str | None, ...]]
TABLE = """
    CREATE TABLE o (k STRING, n INT, d DECIMAL(10, 2), ts TIMESTAMP(6), tz TIMESTAMP_LTZ(6),
    day DATE, f BOOLEAN) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet')
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Connect to a server that has the table `o` with a row of every type."""
    served = served_session(can_write=True)
    with serving(served) as port, connect(port) as connection:
        connection.execute(TABLE.format(path=tmp_path_factory.mktemp("o") / "o").encode())
        instant, clock = "2024-01-01T12:00:00+02:00", "2024-01-01 10:00:00"
        assert untyped(
            connection, "INSERT INTO o VALUES ($1, $2, $3, $4, $5, $6, $7)",
            *("a", "5", "2.25", clock, instant, "2024-01-01", "true"),
        ) == "INSERT 0 1"  # fmt: skip
        assert untyped(connection, "INSERT INTO o (n, k) VALUES ($1, $2)", "6", "b") == "INSERT 0 1"
        yield connection
    served.session.close()


def untyped(connection: Any, statement: str, *values: str | None) -> Cells | str:
    """Run a statement with values as node's driver sends them, as texts without types."""
    texts = [None if value is None else value.encode() for value in values]
    result = connection.pgconn.exec_params(statement.encode(), texts)
    if result.status == psycopg.pq.ExecStatus.FATAL_ERROR:
        return str(result.error_message.decode().splitlines()[0])
    if result.status == psycopg.pq.ExecStatus.COMMAND_OK:
        return str(result.command_status.decode())
    return [
        tuple(
            None if (cell := result.get_value(row, column)) is None else cell.decode()
            for column in range(result.nfields)
        )
        for row in range(result.ntuples)
    ]


@pytest.mark.parametrize(
    ("statement", "values", "rows"),
    [
        ("SELECT k FROM o WHERE n = $1", ["5"], [("a",)]),
        ("SELECT k FROM o WHERE $1 < n AND n < $2", ["5", "9"], [("b",)]),
        ("SELECT k FROM o ORDER BY k LIMIT $1 OFFSET $2", ["1", "1"], [("b",)]),
        ("SELECT k FROM o WHERE k = ANY($1) ORDER BY k", ["{a,b}"], [("a",), ("b",)]),
        ("SELECT k FROM o WHERE n = ANY($1)", ["{6,9}"], [("b",)]),
        ("SELECT k FROM o WHERE k <> ALL($1)", ['{a,"b"}'], []),
        ("SELECT k FROM o WHERE ts = $1 AND tz = $2", ["2024-01-01 10:00:00"] * 2, [("a",)]),
        ("SELECT k FROM o WHERE day BETWEEN $1 AND $2", ["2024-01-01", "2024-02-01"], [("a",)]),
        ("SELECT k FROM o WHERE n IN ($1, $2)", ["5", "7"], [("a",)]),
        ("SELECT k FROM o AS x WHERE x.f = $1", ["t"], [("a",)]),
        ("SELECT n + $1 AS n FROM o WHERE d > $2", ["2", "2.2"], [("7",)]),
        ("SELECT $1::int + 1 AS a, $2::text AS b", ["41", "7"], [("42", "7")]),
        ("SELECT $1::timestamptz AS a", ["2024-01-01T00:00:00Z"], [("2024-01-01 00:00:00+00:00",)]),
        ("SELECT ts + $1 AS a FROM o WHERE n = 5", ["1 day 02:00"], [("2024-01-02 12:00:00",)]),
        ("WITH w AS (SELECT n AS m FROM o) SELECT m FROM w WHERE m > $1", ["5"], [("6",)]),
        ("SELECT $1", ["x"], [("x",)]),
        (
            "SELECT n FROM o WHERE n = $1",
            ["x"],
            "ERROR:  the value 'x' of the parameter $1 is invalid for integer",
        ),
        (
            "INSERT INTO o (k, n) VALUES ($1, $2)",
            ["c", "1.5"],
            "ERROR:  the value '1.5' of the parameter $2 is invalid for integer",
        ),
    ],
)
def test_a_parameter_takes_its_type_from_its_place(
    client: Any, statement: str, values: list[str], rows: Cells | str
) -> None:
    assert untyped(client, statement, *values) == rows


def test_a_declared_interval_is_an_interval(client: Any) -> None:
    moved = client.execute("SELECT ts + %s AS t FROM o WHERE n = 5", (timedelta(hours=26),))
    assert moved.fetchone() == (datetime(2024, 1, 2, 12),)  # noqa: DTZ001
    windows = """
        SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), %s))
        GROUP BY window_start, window_end ORDER BY 1 LIMIT 1
    """
    rows = client.execute(windows, (timedelta(days=1),)).fetchall()
    assert rows == [(datetime(2013, 1, 2), 842)]  # noqa: DTZ001


@pytest.mark.long
def test_an_interval_is_returned_and_compared(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    served = ServedSession(fresh_session, can_write=True, double_quotes="identifier")
    with serving(served) as port, connect(port) as client:
        client.execute(TABLE.format(path=tmp_path / "o").encode())
        client.execute("INSERT INTO o (k, n) VALUES ('a', 1)")
        length = timedelta(days=1, hours=2, microseconds=5)
        for form in ("%s", "%b"):
            query = f"SELECT {form} AS i, INTERVAL '1 day' < {form} AS b"
            assert client.execute(query, (length, length)).fetchall() == [(length, True)]
        for statement, rows in (
            ("SELECT k FROM o WHERE k = ANY($1)", []),
            ("SELECT k FROM o WHERE k <> ALL($1)", [("a",)]),
            ("SELECT k FROM o WHERE NOT n = ANY($1)", [("a",)]),
        ):
            assert untyped(client, statement, "{}") == rows
