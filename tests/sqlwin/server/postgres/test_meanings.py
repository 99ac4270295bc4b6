"""Statements over the server have the rows that PostgreSQL returns for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy import func, select, text

import sqlwin
from sqlwin.server.client import ServedSession
from tests import postgres
from tests.sqlwin.server.serving import connect, serving


def statements(name: str) -> list[str]:
    """Return the statements of a file, one per line."""
    lines = Path(__file__).with_name(name).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("--")]


COLUMNS = {
    "id": ("INT", "int"),
    "k": ("STRING", "text"),
    "n": ("INT", "int"),
    "big": ("BIGINT", "bigint"),
    "x": ("DOUBLE", "float8"),
    "d": ("DECIMAL(10, 2)", "numeric(10, 2)"),
    "ts": ("TIMESTAMP(6)", "timestamp"),
    "tz": ("TIMESTAMP_LTZ(6)", "timestamptz"),
    "day": ("DATE", "date"),
    "flag": ("BOOLEAN", "boolean"),
}
ROWS = """
    (1, 'a', 7, 10000000000, 2.5::float8, 1.25, '2024-02-29 10:30:15.25'::timestamp, '2024-02-29 10:30:15.25Z'::timestamptz, '2024-02-29'::date, true),
    (2, 'Ab', 3, 7, -1.5::float8, 2.50, '2023-12-31 23:59:59'::timestamp, '2023-12-31 23:59:59Z'::timestamptz, '2023-12-31'::date, false),
    (3, 'bb', -5, -3, 1000000.5::float8, -0.75, '2024-07-01 00:00:00'::timestamp, '2024-07-01 00:00:00Z'::timestamptz, '2024-07-01'::date, true),
    (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
"""


@contextmanager
def both(session: sqlwin.Session, directory: Path) -> Iterator[tuple[Any, Any]]:
    """Connect to PostgreSQL and to the server, each with the table `m`."""
    session.execute("SET 'sqlwin.double-quotes' = 'identifier'")
    session.spark.conf.set("spark.sql.session.timeZone", "UTC")
    served = ServedSession(session, can_write=True, double_quotes="identifier")
    with (
        postgres.server() as server,
        psycopg.connect(server.url(), autocommit=True) as real,
        serving(served) as port,
        connect(port) as client,
    ):
        # as the server declares for its strings
        real.execute("SET standard_conforming_strings = off; SET escape_string_warning = off")
        real.execute("SET timezone = 'UTC'")
        for connection, place, ending in (
            (real, 1, ""),
            (client, 0, f" WITH ('connector' = 'filesystem', 'path' = '{directory}/m', "
                        "'format' = 'parquet')"),
        ):  # fmt: skip
            columns = ", ".join(f"{name} {types[place]}" for name, types in COLUMNS.items())
            connection.execute(f"CREATE TABLE m ({columns}){ending}".encode())
            connection.execute(f"INSERT INTO m VALUES {ROWS}".encode())
        yield real, client


def answer(connection: Any, statement: str) -> tuple[list[str], list[Any]]:
    cursor = connection.execute(statement.encode())
    names = [column.name for column in cursor.description]
    return names, [tuple(map(plain, row)) for row in cursor.fetchall()]


def plain(value: Any) -> Any:
    """Return a value without the scale and the width of its number."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return [plain(item) for item in value] if isinstance(value, list) else value
    return pytest.approx(float(value), rel=1e-6)


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["meanings.sql", pytest.param("programs.sql", marks=pytest.mark.slow)]
)
def test_statements_mean_what_they_mean_in_postgresql(
    fresh_session: sqlwin.Session, tmp_path: Path, name: str
) -> None:
    wrong = []
    with both(fresh_session, tmp_path) as (real, client):
        for statement in statements(name):
            expected = answer(real, statement)
            try:
                found = answer(client, statement)
            except psycopg.Error as error:
                found = ([], [str(error)])
            if found != expected:
                wrong.append(f"{statement}\n  PostgreSQL: {expected}\n  server:     {found}")
    assert not wrong, "\n" + "\n".join(wrong)


def queries_of_sqlalchemy(m: sqlalchemy.Table) -> list[sqlalchemy.Select[Any]]:
    """Return queries whose values SQLAlchemy sends as parameters, with casts and without."""
    instant = datetime(2024, 1, 1, tzinfo=UTC)
    return [
        select(m.c.id).where(m.c.tz >= instant).order_by(m.c.id),
        select(m.c.id).where(m.c.ts < instant.replace(tzinfo=None)).order_by(m.c.id),
        select(m.c.ts + timedelta(days=1), m.c.ts - timedelta(hours=2)).order_by(m.c.id),
        select(m.c.id).where(m.c.k == sqlalchemy.any_(["a", "bb"])).order_by(m.c.id),
        select(m.c.id).where(m.c.id.in_([1, 3])).order_by(m.c.id).limit(1).offset(1),
        select(m.c.n / 2, m.c.n // 2, m.c.n % 2).where(m.c.n > 0).order_by(m.c.id),
        select(sqlalchemy.extract("epoch", m.c.tz)).order_by(m.c.id),
        select(func.date_trunc("month", m.c.ts), func.count())
        .group_by(text("1"))
        .order_by(text("1")),
        select(func.string_agg(sqlalchemy.distinct(m.c.k), ",")),
        select(func.max(m.c.ts) - func.min(m.c.ts)),
        select(m.c.id).where(m.c.k.regexp_match("^A", flags="i")).order_by(m.c.id),
        select(sqlalchemy.cast(m.c.x, sqlalchemy.Integer), m.c.day + 1).order_by(m.c.id.desc()),
    ]


@pytest.mark.long
def test_sqlalchemy_reads_the_same_from_both(fresh_session: sqlwin.Session, tmp_path: Path) -> None:
    with both(fresh_session, tmp_path) as connections:
        answers = []
        for connection in connections:
            engine = sqlalchemy.create_engine(
                "postgresql+psycopg://", creator=lambda opened=connection: opened,
                poolclass=sqlalchemy.StaticPool,
            )  # fmt: skip
            with engine.connect() as opened:
                m = sqlalchemy.Table("m", sqlalchemy.MetaData(), autoload_with=opened)
                rows = [opened.execute(query).fetchall() for query in queries_of_sqlalchemy(m)]
            answers.append([[tuple(map(plain, row)) for row in found] for found in rows])
    assert answers[1] == answers[0]
