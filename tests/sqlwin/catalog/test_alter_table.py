"""ALTER TABLE of session tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.errors import SqlwinError
from sqlwin import Session
from tests.unstarted import unstarted_spark


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Provide a session with a CSV file whose separator is a semicolon, and a view."""
    (tmp_path / "c.csv").write_text("x;y,z\n")
    result = Session(unstarted_spark(), settings={})
    result.execute(
        "CREATE TABLE c (a STRING, b STRING) WITH ('connector' = 'filesystem', 'format' = 'csv', "
        f"'path' = '{tmp_path / 'c.csv'}')"
    )
    result.execute(
        "CREATE TABLE other (a INT) WITH ('connector' = 'filesystem', 'format' = 'csv', "
        f"'path' = '{tmp_path / 'other.csv'}')"
    )
    result.execute("CREATE VIEW v AS SELECT 1 AS a")
    return result


def rows(session: Session, name: str) -> list[dict[str, object]]:
    (result,) = session.execute(f"SELECT * FROM {name}")
    return result.to_arrow().to_pylist()


def test_set_and_reset_change_options(session: Session) -> None:
    assert rows(session, "c") == [{"a": "x;y", "b": "z"}]
    session.execute("ALTER TABLE c SET ('CSV.Field-Delimiter' = ';')")
    assert rows(session, "c") == [{"a": "x", "b": "y,z"}]
    session.execute("ALTER TABLE c SET ('csv.field-delimiter' = ',')")
    assert rows(session, "c") == [{"a": "x;y", "b": "z"}]
    session.execute("ALTER TABLE c SET ('csv.field-delimiter' = ';')")
    session.execute("ALTER TABLE c RESET ('csv.field-delimiter')")
    assert rows(session, "c") == [{"a": "x;y", "b": "z"}]


def test_a_renamed_table_is_read_under_its_new_name(session: Session) -> None:
    session.execute("ALTER TABLE c RENAME TO d")
    assert rows(session, "d") == [{"a": "x;y", "b": "z"}]
    with pytest.raises(SqlwinError, match="`c` does not exist"):
        rows(session, "c")
    (created,) = session.execute("SHOW CREATE TABLE d")
    assert "CREATE TABLE `d`" in created.to_arrow()[0][0].as_py()


def test_a_memory_table_keeps_its_rows(fresh_session: Session) -> None:
    fresh_session.execute("CREATE TABLE m (a INT) WITH ('connector' = 'memory')")
    fresh_session.execute("INSERT INTO m VALUES (1), (2)")
    assert rows(fresh_session, "m") == [{"a": 1}, {"a": 2}]
    fresh_session.execute("ALTER TABLE m RENAME TO n")
    assert rows(fresh_session, "n") == [{"a": 1}, {"a": 2}]
    fresh_session.execute("CREATE TABLE m (b STRING) WITH ('connector' = 'memory')")
    assert rows(fresh_session, "m") == []


def test_if_exists_ignores_a_missing_table(session: Session) -> None:
    (result,) = session.execute("ALTER TABLE IF EXISTS nope RESET ('path')")
    assert "`nope` does not exist, nothing to do" in str(result.message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("c SET ('connector' = 'print')", "the connector of table `c` cannot change"),
        ("c RESET ('connector')", "the connector of table `c` cannot change"),
        ("c SET ('pth' = 'x')", "unknown option 'pth'"),
        ("c RESET ('nope')", "table `c` has no option 'nope'"),
        ("c SET (a = b)", "the name of an option must be a string"),
        ("c RENAME TO other", "`other` already exists"),
        ("c RENAME TO v", "`v` already exists"),
        ("c RENAME TO C", "`C` already exists"),
        ("v SET ('path' = 'x')", "ALTER TABLE does not support `v`, a view"),
        ("c RESET ('path') now", "unexpected text after ALTER TABLE"),
    ],
)
def test_other_changes_are_refused_and_change_nothing(
    session: Session, change: str, message: str
) -> None:
    with pytest.raises(SqlwinError) as error:
        session.execute(f"ALTER TABLE {change}")
    assert message in error.value.message
    assert rows(session, "c") == [{"a": "x;y", "b": "z"}]
