"""Files and classes that statements load into Spark must exist, or the statement fails."""

from __future__ import annotations

from pathlib import Path

import pytest

import sqlwin


@pytest.mark.parametrize(
    ("sql", "message", "column"),
    [
        ("ADD JAR '{}/no.jar'", "file {}/no.jar does not exist", 9),
        ("ADD JAR {}/no.jar", "file {}/no.jar does not exist", 9),
        ("ADD JAR 'file:{}/no.jar'", "file file:{}/no.jar does not exist", 9),
        ("ADD FILE '{}/no.txt'", "file {}/no.txt does not exist", 10),
        ("CREATE FUNCTION f AS 'a.B' USING JAR '{}/no.jar'", "file {}/no.jar does not exist", 38),
        ("CREATE FUNCTION f AS 'no.such.Class'", "Spark cannot find the class no.such.Class", None),
        (
            "CREATE OR REPLACE FUNCTION f AS 'no.such.Class'",
            "cannot find the class no.such.Class",
            None,
        ),
        (
            "CREATE TEMPORARY FUNCTION f AS 'no.such.Class'",
            "cannot find the class no.such.Class",
            None,
        ),
    ],
)
def test_a_missing_file_or_class_is_an_error(
    session: sqlwin.Session, tmp_path: Path, sql: str, message: str, column: int | None
) -> None:
    with pytest.raises(sqlwin.SqlwinError) as caught:
        session.execute(sql.format(tmp_path))
    error = caught.value
    assert message.format(tmp_path) in error.message
    assert "sqlwin_probe" not in str(error)
    assert column is None or (error.position is not None and error.position.column == column)


def test_an_existing_file_is_added(session: sqlwin.Session, tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("a")
    (result,) = session.execute(f"ADD FILE '{file}'")
    assert result.message == "OK"


def test_a_function_of_sql_is_no_class(fresh_session: sqlwin.Session) -> None:
    fresh_session.execute("CREATE TEMPORARY FUNCTION plus1(x INT) RETURNS INT RETURN x + 1")
    assert fresh_session.sql("SELECT plus1(2)").first() == (3,)
    fresh_session.execute("DROP TEMPORARY FUNCTION plus1")


def test_names_of_the_planner_are_in_no_hint(fresh_session: sqlwin.Session) -> None:
    fresh_session.register("t", [{"k": "a", "v": 1}])
    fresh_session.execute(
        "CREATE TABLE s (k STRING, ts TIMESTAMP(3)) WITH ('connector' = 'memory')"
    )
    window = "TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' DAY))"
    for sql in (
        "SELECT TUMBLE_START(ts, INTERVAL '1' DAY), zz FROM s GROUP BY TUMBLE(ts, INTERVAL '1' DAY)",
        f"SELECT COUNT(*) FROM {window} GROUP BY window_start, window_end HAVING nope > 1",
        "SELECT count FROM (SELECT k, COUNT(*) FROM t GROUP BY k)",
    ):
        with pytest.raises(sqlwin.SqlwinError) as caught:
            fresh_session.sql(sql)
        assert "$" not in str(caught.value).replace(sql, "")
        assert "count(1)" not in str(caught.value)
