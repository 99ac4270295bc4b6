"""The DB-API's connections: the module's attributes, opening, closing, threads, errors."""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import sqlwin
import sqlwin.dbapi as db
from runtime.errors import ErrorKind, SqlwinError
from sqlwin.dbapi.errors import standard_errors
from tests.goldens import ROOT
from tests.unstarted import unstarted_spark

# PEP 249's tree of exceptions: class and base
EXCEPTIONS = {
    db.Warning: Exception,
    db.Error: Exception,
    db.InterfaceError: db.Error,
    db.DatabaseError: db.Error,
    db.DataError: db.DatabaseError,
    db.OperationalError: db.DatabaseError,
    db.IntegrityError: db.DatabaseError,
    db.InternalError: db.DatabaseError,
    db.ProgrammingError: db.DatabaseError,
    db.NotSupportedError: db.DatabaseError,
}
# Names of PEP 249, without three optional ones that sqlwin lacks: callproc, nextset, scroll
CONFORMANCE = {
    db: "apilevel threadsafety paramstyle connect Date Time Timestamp DateFromTicks TimeFromTicks "
    "TimestampFromTicks Binary STRING BINARY NUMBER DATETIME ROWID",
    db.Connection: "close commit rollback cursor __enter__ __exit__ autocommit",
    db.Cursor: "execute executemany fetchone fetchmany fetchall close setinputsizes setoutputsize "
    "rownumber __iter__ __next__",
}


@pytest.mark.parametrize(
    ("owner", "name"),
    [(owner, name) for owner, names in CONFORMANCE.items() for name in names.split()],
)
def test_the_standard_s_names_exist(owner: object, name: str) -> None:
    assert hasattr(owner, name)


def test_a_cursor_has_the_standard_s_attributes(connection: db.Connection) -> None:
    cursor = connection.cursor()
    assert (cursor.description, cursor.rowcount, cursor.arraysize) == (None, -1, 1)
    assert (cursor.connection, cursor.messages, cursor.rownumber) == (connection, [], None)
    cursor.setinputsizes([10])
    cursor.setoutputsize(1000, 1)


def test_the_page_lists_the_names_of_the_standard() -> None:
    page = (ROOT / "docs/python-dbapi.md").read_text()
    for names in CONFORMANCE.values():
        missing = [name for name in names.split() if name[0] != "_" and f"`{name}" not in page]
        assert not missing


def test_the_module_says_which_standard_it_follows() -> None:
    assert (db.apilevel, db.threadsafety, db.paramstyle) == ("2.0", 2, "qmark")


@pytest.mark.parametrize(("error", "base"), EXCEPTIONS.items())
def test_exceptions_form_the_standard_s_tree(error: type[Exception], base: type) -> None:
    assert error.__bases__ == (base,)
    assert getattr(db.Connection, error.__name__) is error


# -- opening and closing ---------------------------------------------------------------------------


def test_a_script_creates_the_tables(script: Path) -> None:
    with db.connect(script, spark=unstarted_spark()) as connection:
        assert connection.execute("SELECT COUNT(*) FROM late").fetchall() == [(40,)]


def test_an_error_of_the_script_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "broken.sql"
    path.write_text("SET 'sqlwin.no-such-setting' = '1';")
    with pytest.raises(db.ProgrammingError, match=r"broken\.sql, line 1, column 5"):
        db.connect(path, spark=unstarted_spark())


def test_a_missing_script_and_one_in_another_encoding_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        db.OperationalError, match=r"cannot read the script .*none\.sql: No such file"
    ):
        db.connect(tmp_path / "none.sql", spark=unstarted_spark())
    (tmp_path / "latin.sql").write_bytes(b"-- caf\xe9")
    with pytest.raises(db.OperationalError, match="it is not UTF-8"):
        db.connect(tmp_path / "latin.sql", spark=unstarted_spark())


def test_a_session_and_options_to_open_one_exclude_each_other(connection: db.Connection) -> None:
    with pytest.raises(db.InterfaceError, match="both a session and options"):
        db.connect(session=connection.session, settings={})


def test_a_given_session_stays_open() -> None:
    session = sqlwin.connect(unstarted_spark())
    db.connect(session=session).close()
    assert session.execute("SHOW TABLES")[0].rows == []
    session.close()
    with pytest.raises(db.OperationalError, match="the session is closed"):
        db.connect(session=session).execute("SHOW TABLES")


def test_a_closed_connection_and_its_cursors_refuse_everything(connection: db.Connection) -> None:
    cursor = connection.execute("SHOW TABLES")
    session = connection.session
    connection.close()
    connection.close()
    for action in (
        connection.cursor,
        connection.commit,
        connection.rollback,
        connection.__enter__,
        cursor.fetchone,
        cursor.fetchall,
        cursor.fetch_arrow_table,
        lambda: cursor.execute("SHOW TABLES"),
        lambda: connection.session,
    ):
        with pytest.raises(db.InterfaceError, match="the connection is closed"):
            action()
    with pytest.raises(SqlwinError, match="the session is closed"):
        session.execute("SHOW TABLES")


def test_a_closed_cursor_refuses_everything_but_its_connection_works(
    connection: db.Connection,
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW TABLES")
    described, n_rows = cursor.description, cursor.rowcount
    cursor.close()
    assert (cursor.description, cursor.rowcount) == (described, n_rows)
    for action in (
        cursor.fetchone,
        lambda: cursor.fetchmany(2),
        lambda: cursor.execute("SHOW TABLES"),
        lambda: cursor.executemany("SHOW TABLES", [()]),
        lambda: cursor.setinputsizes([]),
        cursor.__enter__,
    ):
        with pytest.raises(db.InterfaceError, match="the cursor is closed"):
            action()
    assert connection.execute("SHOW TABLES").fetchall() == [("flights",)]


def test_there_are_no_transactions(connection: db.Connection) -> None:
    connection.commit()
    connection.autocommit = True
    assert connection.autocommit
    for action in (connection.rollback, lambda: setattr(connection, "autocommit", False)):
        with pytest.raises(db.NotSupportedError, match="sqlwin has no transactions"):
            action()


def test_threads_share_a_connection(connection: db.Connection) -> None:
    def n_flights(origin: str) -> list[tuple[object, ...]]:
        query = "SELECT COUNT(*) FROM flights WHERE origin = ?"
        return connection.execute(query, [origin]).fetchall()

    with ThreadPoolExecutor(10) as pool:
        counts = list(pool.map(n_flights, ["EWR", "JFK"] * 5))
    assert counts == [[(120835,)], [(111279,)]] * 5


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ErrorKind)
def test_each_kind_of_error_has_a_class_of_the_standard(kind: ErrorKind) -> None:
    expected = {
        ErrorKind.DATA: db.DataError,
        ErrorKind.RAISED: db.DataError,
        ErrorKind.STREAM: db.NotSupportedError,
        ErrorKind.EXECUTION: db.OperationalError,
        ErrorKind.OUTPUT: db.OperationalError,
        ErrorKind.CHECKPOINT: db.OperationalError,
        ErrorKind.CANCELLED: db.OperationalError,
        ErrorKind.SETUP: db.OperationalError,
    }
    cause = SqlwinError("it failed", hint="do this instead", kind=kind)
    with pytest.raises(db.DatabaseError) as raised, standard_errors():
        raise cause
    assert type(raised.value) is expected.get(kind, db.ProgrammingError)
    assert str(raised.value) == "it failed\n  do this instead"
    assert raised.value.__cause__ is cause


def test_an_error_names_the_place_in_the_statement(connection: db.Connection) -> None:
    with pytest.raises(db.ProgrammingError) as raised:
        connection.execute("SELECT carier FROM flights")
    assert str(raised.value).splitlines()[:4] == [
        "column `carier` does not exist",
        "  at line 1, column 8",
        "    SELECT carier FROM flights",
        "           ^^^^^^",
    ]


def test_signatures_match_the_standard() -> None:
    assert list(inspect.signature(db.Cursor.execute).parameters)[1:] == ["operation", "parameters"]
    names = list(inspect.signature(db.Cursor.executemany).parameters)[1:]
    assert names == ["operation", "seq_of_parameters"]
    assert list(inspect.signature(db.Cursor.fetchmany).parameters)[1:] == ["size"]
