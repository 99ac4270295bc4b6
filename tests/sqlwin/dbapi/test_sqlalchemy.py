"""The SQLAlchemy dialect, and pandas on it, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import registry

import sqlwin
import sqlwin.dbapi
from sqlwin.dbapi.sqlalchemy import SqlwinDialect
from tests.unstarted import unstarted_spark

# a checkout need not be installed
registry.register("sqlwin", "sqlwin.dbapi.sqlalchemy", "SqlwinDialect")

WINDOWS = """
    SELECT origin, window_end, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '182' DAYS))
    WHERE dep_delay > {late} GROUP BY origin, window_start, window_end ORDER BY origin, window_end
"""


@pytest.fixture
def engine(script: Path) -> Iterator[sa.Engine]:
    opened = sa.create_engine(
        f"sqlwin:///{script}?sqlwin.exchange.buckets=8", connect_args={"spark": unstarted_spark()}
    )
    yield opened
    opened.dispose()


def test_the_url_names_a_script_and_settings(engine: sa.Engine, script: Path) -> None:
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW TABLES").all() == [("flights",), ("late",)]
        assert connection.exec_driver_sql("SET 'sqlwin.exchange.buckets'").one()[1] == "8"
    url = sa.make_url("sqlwin://?master=local[2]&remote=sc://h:1&sqlwin.strict-flink=true")
    assert SqlwinDialect().create_connect_args(url) == (
        [],
        {"master": "local[2]", "remote": "sc://h:1", "settings": {"sqlwin.strict-flink": "true"}},
    )


def test_a_url_with_a_host_is_refused() -> None:
    with pytest.raises(sa.exc.ArgumentError, match="a sqlwin URL has no host"):
        sa.create_engine("sqlwin://localhost/db").connect()


def test_the_entry_point_names_the_dialect() -> None:
    import tomllib

    from tests.goldens import ROOT

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    entry = project["entry-points"]["sqlalchemy.dialects"]["sqlwin"]
    assert entry == f"{SqlwinDialect.__module__}:{SqlwinDialect.__name__}"


def test_tables_and_views_are_reflected(engine: sa.Engine) -> None:
    inspector = sa.inspect(engine)
    assert (inspector.get_table_names(), inspector.get_view_names()) == (["flights"], ["late"])
    assert (inspector.has_table("late"), inspector.has_table("nope")) == (True, False)
    with pytest.raises(sa.exc.NoSuchTableError, match="nope"):
        inspector.get_columns("nope")
    flights = sa.Table("flights", sa.MetaData(), autoload_with=engine)
    types = {column.name: repr(column.type) for column in flights.columns}
    assert types["sched_dep"] == "DateTime()"
    assert types["dep_utc"] == "DateTime(timezone=True)"
    assert (types["carrier"], types["distance"]) == ("String()", "Integer()")


def test_expressions_become_sqlwin_s_sql(engine: sa.Engine) -> None:
    flights = sa.Table("flights", sa.MetaData(), autoload_with=engine)
    c = flights.columns
    query = (
        sa.select(c.origin, sa.func.count().label("the count"))
        .where(c.dep_delay > 600, c.origin.in_(["EWR", "JFK", "it's"]))
        .group_by(c.origin)
        .order_by(sa.desc("the count"))
    )
    with engine.connect() as connection:
        rows = connection.execute(query).all()
        assert rows == [("JFK", 18), ("EWR", 9)]
        assert connection.execute(query.limit(1)).all() == rows[:1]
        assert connection.execute(query.limit(1).offset(1)).all() == rows[1:]
    assert "OFFSET" in str(query.offset(1).compile(engine))
    assert "LIMIT" not in str(query.offset(1).compile(engine))
    cast = sa.cast(c.origin, sa.String(3)), sa.cast(c.sched_dep, sa.DateTime(timezone=True))
    text = str(sa.select(*cast).compile(engine))
    assert "AS STRING" in text
    assert "AS TIMESTAMP_LTZ" in text


@pytest.mark.long
def test_rows_are_inserted(fresh_session: sqlwin.Session, tmp_path: Path) -> None:
    engine = sa.create_engine(
        "sqlwin://", connect_args={"session": fresh_session, "settings": None}
    )
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                "CREATE TABLE output (k STRING, n INT) "
                "WITH ('connector' = 'filesystem', 'path' = :path, 'format' = 'parquet')"
            ),
            {"path": str(tmp_path / "output")},
        )
    table = sa.Table("output", sa.MetaData(), autoload_with=engine)
    with engine.begin() as connection:
        connection.execute(sa.insert(table), [{"k": "a", "n": 1}, {"k": "b'", "n": None}])
    frame = pd.DataFrame({"k": ["c"], "n": [3]})
    assert frame.to_sql("output", engine, if_exists="append", index=False) == 1
    with engine.connect() as connection:
        rows = connection.execute(sa.select(table).order_by(table.columns.k)).all()
    assert rows == [("a", 1), ("b'", None), ("c", 3)]


def test_threads_share_the_session_of_an_engine(engine: sa.Engine) -> None:
    def n_flights(origin: str) -> Any:
        with engine.connect() as connection:
            query = sa.text("SELECT COUNT(*) FROM flights WHERE origin = :origin")
            return connection.execute(query, {"origin": origin}).scalar()

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(n_flights, ["EWR", "JFK"] * 3)) == [120835, 111279] * 3


def test_an_error_is_sqlalchemy_s_with_the_place(engine: sa.Engine) -> None:
    with engine.connect() as connection, pytest.raises(sa.exc.ProgrammingError) as raised:
        connection.exec_driver_sql("SELECT carier FROM flights")
    assert "line 1, column 8" in str(raised.value)


# -- pandas ----------------------------------------------------------------------------------------


def test_pandas_reads_a_query_with_parameters(engine: sa.Engine) -> None:
    by_name = pd.read_sql(sa.text(WINDOWS.format(late=":late")), engine, params={"late": 600})
    assert by_name.columns.tolist() == ["origin", "window_end", "n"]
    assert by_name["n"].sum() == 40
    assert by_name["window_end"].iloc[0] == pd.Timestamp(datetime.fromisoformat("2013-05-09"))
    parts = pd.read_sql(WINDOWS.format(late=0), engine, chunksize=4)
    assert [len(part) for part in parts] == [4, 4, 1]
    assert len(pd.read_sql_table("late", engine)) == 40


@pytest.mark.filterwarnings("ignore:pandas only supports SQLAlchemy:UserWarning")
def test_pandas_reads_from_a_connection_of_the_db_api(connection: sqlwin.dbapi.Connection) -> None:
    frame = pd.read_sql(WINDOWS.format(late="?"), connection, params=(600,))
    assert frame["n"].sum() == 40


def test_pandas_appends_to_a_declared_table_and_replaces_none(
    engine: sa.Engine, tmp_path: Path
) -> None:
    frame = pd.DataFrame({"k": ["a", None, "c"], "n": [1, 2, 2**40], "x": [0.5, None, 1.0]})
    with pytest.raises(sa.exc.CompileError, match=r"Run CREATE TABLE `?o`? .*if_exists='append'"):
        frame.to_sql("o", engine, index=False)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TABLE o (k STRING, n BIGINT, x DOUBLE) WITH ('connector' = 'filesystem', "
            f"'path' = '{tmp_path}/o', 'format' = 'parquet')"
        )
    assert frame.to_sql("o", engine, if_exists="append", index=False) == 3
    with pytest.raises(ValueError, match="already exists"):
        frame.to_sql("o", engine, index=False)
    with pytest.raises(sa.exc.CompileError, match=r"cannot replace `?o`?: .*INSERT OVERWRITE"):
        frame.to_sql("o", engine, if_exists="replace", index=False)
    # the declaration and the rows are still there, in one file
    read = pd.read_sql("SELECT * FROM o ORDER BY n", engine)
    pd.testing.assert_frame_equal(read, frame, check_dtype=False)
    assert len(list((tmp_path / "o").glob("*.parquet"))) == 1
    assert sa.inspect(engine).get_table_names() == ["flights", "o"]


@pytest.mark.long
def test_a_table_of_spark_is_reflected(fresh_session: sqlwin.Session) -> None:
    fresh_session.execute(
        "CREATE OR REPLACE TEMPORARY VIEW of_spark AS SELECT 1L AS n, 'a' AS k, "
        "TIMESTAMP_LTZ '2024-01-01 00:00:00' AS at, CAST(1 AS DECIMAL(7, 2)) AS d"
    )
    engine = sa.create_engine(
        "sqlwin://", connect_args={"session": fresh_session, "settings": None}
    )
    table = sa.Table("of_spark", sa.MetaData(), autoload_with=engine)
    assert {column.name: repr(column.type) for column in table.columns} == {
        "n": "BigInteger()",
        "k": "String()",
        "at": "DateTime(timezone=True)",
        "d": "Numeric(precision=7, scale=2)",
    }
