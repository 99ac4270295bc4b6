"""Parameters from Python, on Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import sqlwin
from runtime.errors import SqlwinError

AT = datetime.fromisoformat("2024-05-01T12:00:00")


def rows(session: sqlwin.Session, sql: str, params: Any = None) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in session.sql(sql, params).collect()]


def test_values_arrive_with_their_types(fresh_session: sqlwin.Session) -> None:
    values = {
        "text": "it's \\ ${spark.app.name}\n",
        "n": 2**40,
        "d": Decimal("1.50"),
        "x": 0.1,
        "at": AT,
        "no": None,
        "many": [1, 2],
        "there": AT.replace(tzinfo=UTC),
        "lasts": timedelta(minutes=90),
        "raw": b"\x00\xff",
    }
    query = f"SELECT {', '.join(f':{name} AS {name}' for name in values)}"
    (row,) = fresh_session.sql(query, values).collect()
    assert row.asDict() == {**values, "there": AT}
    types = [field.dataType.simpleString() for field in fresh_session.sql(query, values).schema]
    assert types == [
        *("string", "bigint", "decimal(3,2)", "double", "timestamp_ntz", "void", "array<int>"),
        *("timestamp", "interval minute", "binary"),
    ]


@pytest.mark.long
def test_parameters_stand_wherever_a_literal_may(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    params = {
        "path": tmp_path / "o'clock", "size": timedelta(minutes=10), "most": 2, "ks": ["a", "b"],
        "zone": "UTC", "minutes": 5,
    }  # fmt: skip
    script = """
        SET 'table.local-time-zone' = :zone;
        CREATE TABLE t (k STRING, ts TIMESTAMP_NTZ)
          WITH ('connector' = 'filesystem', 'path' = :path, 'format' = 'parquet');
        INSERT INTO t SELECT k, TIMESTAMP_NTZ '2024-05-01 12:00:00' + INTERVAL :minutes MINUTES
          FROM VALUES ('a'), ('b'), ('c') AS v(k);
        CREATE VIEW v AS SELECT * FROM t WHERE k IN (:ks);
        SELECT k, window_end FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(ts), :size))
          GROUP BY k, window_start, window_end ORDER BY k LIMIT :most;
    """
    *_, result = fresh_session.execute(script, params=params)
    end = AT + timedelta(minutes=10)
    assert [tuple(row) for row in result.rows] == [("a", end), ("b", end)]
    assert ":size" in result.statement
    ((definition,),) = rows(fresh_session, "SHOW CREATE VIEW v")
    assert "'a', 'b'" in definition


def test_values_in_order_over_several_statements(fresh_session: sqlwin.Session) -> None:
    first, second = fresh_session.execute("SELECT ?, ?; SELECT ?", params=[1, "a", 2])
    assert [tuple(first.rows[0]), tuple(second.rows[0])] == [(1, "a"), (2,)]


def test_a_value_is_no_sql(fresh_session: sqlwin.Session) -> None:
    fresh_session.execute("CREATE VIEW people AS SELECT 'ann' AS name")
    query = "SELECT COUNT(*) FROM people WHERE name = :name"
    for name, n in (("ann", 1), ("' OR '1' = '1", 0), ("\\' OR TRUE --", 0)):
        assert rows(fresh_session, query, {"name": name}) == [(n,)]


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("SELECT :first AS x, nope FROM people", "nope"),
        ("EXPLAIN SELECT :first AS x, nope FROM people", "nope"),
        ("SELECT k FORM people WHERE :first", "FORM"),
        ("SELECT 1;\nSELECT date_add(:first) FROM people", "date_add(:first)"),
        ("SELECT CAST(:first AS INT) + assert_true(:first)", "assert_true(:first)"),
    ],
)
def test_errors_point_at_the_users_text(
    fresh_session: sqlwin.Session, query: str, word: str
) -> None:
    fresh_session.execute("CREATE VIEW people AS SELECT 'ann' AS name")
    with pytest.raises(SqlwinError) as raised:
        for result in fresh_session.execute(query, params={"first": "a value of some length"}):
            result.to_arrow()
    error = raised.value
    assert error.sql == query and error.position is not None
    place = error.position
    assert query[place.offset : place.offset + place.length].startswith(word), str(error)


def test_an_error_without_a_place_does_not_show_values(fresh_session: sqlwin.Session) -> None:
    query = "SELECT name + INTERVAL :first MINUTE FROM (VALUES (TRUE)) AS v(name)"
    with pytest.raises(SqlwinError) as raised:
        fresh_session.execute(query, params={"first": "a value of some length"})
    assert raised.value.sql == query


def test_a_parameter_without_a_value_stops_a_script_before_it_runs(
    fresh_session: sqlwin.Session,
) -> None:
    with pytest.raises(
        SqlwinError, match=r"missing value for the parameter :b\n  at line 2, column 8"
    ):
        fresh_session.execute("CREATE VIEW v AS SELECT :a AS a;\nSELECT :b", params={"a": 1})
    assert rows(fresh_session, "SHOW VIEWS") == []


def test_plans_take_parameters(fresh_session: sqlwin.Session) -> None:
    text = fresh_session.explain("SELECT * FROM range(:n) WHERE id > :n", params={"n": 5})
    assert "id > 5" in text
    with pytest.raises(SqlwinError, match="missing value for the parameter :n"):
        fresh_session.explain("SELECT :n")
