"""What a database refuses or breaks: one clear line, nothing half written, and the stream goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa
import pytest
from psycopg import Connection

from runtime.connectors.postgres.database import DatabaseAwayError, connect
from runtime.connectors.postgres.read import reader_of
from runtime.connectors.postgres.write import BATCHES, BatchWriter, insert_rows
from runtime.errors import SqlwinError
from runtime.spec.table import TableSpec
from tests.postgres import Server, rows, run
from tests.runtime.connectors.postgres.test_write import COLUMNS, batch, contents, insert, table


@pytest.fixture
def user(postgres: Server, database: str) -> Iterator[str]:
    """Provide a URL of a user without privileges, in a schema that it may use."""
    schema = database.rpartition("%3D")[2]
    run(database, "CREATE ROLE poor LOGIN", f"GRANT USAGE ON SCHEMA {schema} TO poor")
    yield database.replace("user=tester", "user=poor")
    run(database, "DROP OWNED BY poor", "DROP ROLE poor")


def not_computed() -> Iterator[pa.RecordBatch]:
    raise AssertionError("rows are computed")
    yield


@pytest.mark.parametrize(
    ("granted", "key", "overwrite", "lacking"),
    [
        ("SELECT", (), False, "INSERT"),
        ("INSERT", ("k", "we"), False, "SELECT, UPDATE"),
        ("INSERT, UPDATE, SELECT", ("k", "we"), True, "DELETE"),
    ],
)
def test_a_missing_privilege_is_named_before_rows_are_computed(
    database: str, user: str, granted: str, key: tuple[str, ...], overwrite: bool, lacking: str
) -> None:
    run(database, "CREATE TABLE t (k text, we int, n bigint, PRIMARY KEY (k, we))")
    run(database, f"GRANT {granted} ON t TO poor")
    spec = table(user, key=key)
    with pytest.raises(SqlwinError) as raised:
        insert_rows(spec, COLUMNS, not_computed(), overwrite=overwrite)
    assert raised.value.message == (
        f'table `t`: user "poor" lacks {lacking} on "t" in the database'
    )
    assert f'GRANT {lacking} ON "t" TO "poor"' in str(raised.value.hint)
    run(database, f"GRANT {lacking} ON t TO poor")
    assert insert(spec, ("a", 1, 1), overwrite=overwrite) == 1


def test_privileges_of_columns_suffice(database: str, user: str) -> None:
    run(database, "CREATE TABLE t (k text, we int, n bigint, z int)")
    run(database, "GRANT INSERT (k, we, n) ON t TO poor")
    assert insert(table(user, key=()), ("a", 1, 1)) == 1


def test_a_stream_needs_the_table_of_its_micro_batches(database: str, user: str) -> None:
    run(database, "CREATE TABLE t (k text, we int, n bigint)", "GRANT INSERT ON t TO poor")
    spec = table(user, key=())
    with pytest.raises(SqlwinError, match=f'cannot create the table "{BATCHES}"') as raised:
        BatchWriter(spec, COLUMNS, "w").open()
    assert "\n" not in raised.value.message
    statements = str(raised.value.hint).partition(": ")[2].split("; ")
    assert len(statements) == 2
    # the hint works as it is written, statement by statement
    run(database, statements[0])
    with pytest.raises(SqlwinError, match=f'lacks INSERT, SELECT, UPDATE on "{BATCHES}"'):
        BatchWriter(spec, COLUMNS, "w").open()
    run(database, statements[1])
    writer = BatchWriter(spec, COLUMNS, "w")
    assert writer.write(batch(("a", 1, 1)), 0) == 1
    writer.close()


@pytest.mark.parametrize("kind", ["VIEW", "MATERIALIZED VIEW"])
def test_a_view_is_refused_before_rows_are_computed(database: str, kind: str) -> None:
    run(
        database,
        "CREATE TABLE below (k text, we int, n bigint)",
        f"CREATE {kind} t AS SELECT * FROM below",
    )
    with pytest.raises(SqlwinError, match=f'"t" is a {kind.lower()} in the database'):
        insert_rows(table(database, key=()), COLUMNS, not_computed(), overwrite=False)


def test_a_view_with_a_trigger_for_insert_is_written(database: str) -> None:
    run(
        database,
        "CREATE TABLE below (k text, we int, n bigint)",
        "CREATE VIEW t AS SELECT * FROM below",
        "CREATE FUNCTION pass_on() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN INSERT INTO below VALUES (NEW.k, NEW.we, NEW.n); RETURN NEW; END$$",
        "CREATE TRIGGER pass_on INSTEAD OF INSERT ON t FOR EACH ROW EXECUTE FUNCTION pass_on()",
    )
    insert(table(database, key=()), ("a", 1, 1))
    assert contents(database) == [("a", 1, 1)]


def test_a_domain_takes_the_values_of_its_base_type(database: str) -> None:
    run(
        database,
        "CREATE DOMAIN positive AS bigint CHECK (VALUE > 0)",
        "CREATE TABLE t (k text, we int, n positive)",
    )
    spec = table(database, key=())
    assert insert(spec, ("a", 1, 1)) == 1
    with pytest.raises(SqlwinError, match="column `n`: value for domain positive violates"):
        insert(spec, ("b", 1, 1), ("b", 1, -1))
    assert contents(database) == [("a", 1, 1)]


@pytest.mark.parametrize(
    ("statements", "wrong", "message"),
    [
        (
            ("CREATE TABLE parents (we int PRIMARY KEY)", "INSERT INTO parents VALUES (1)",
             "CREATE TABLE t (k text, we int REFERENCES parents, n bigint, PRIMARY KEY (k, we))"),
            ("b", 7, 1),
            'violates foreign key constraint "t_we_fkey": Key (we)=(7) is not present',
        ),
        (
            ("CREATE TABLE t (k text, we int, n bigint UNIQUE, PRIMARY KEY (k, we))",),
            ("b", 1, 5),
            'violates unique constraint "t_n_key": Key (n)=(5) already exists',
        ),
        (
            ("CREATE TABLE t (k text, we int, n bigint CHECK (n > 0), PRIMARY KEY (k, we))",),
            ("b", 1, 0),
            'violates check constraint "t_n_check"',
        ),
        (
            ("CREATE TABLE t (k text, we int, n bigint, PRIMARY KEY (k, we)) PARTITION BY LIST (we)",
             "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1)"),
            ("b", 7, 1),
            'no partition of relation "t" found',
        ),
    ],
)  # fmt: skip
def test_a_refused_micro_batch_leaves_no_row_and_runs_again_when_the_cause_is_mended(
    database: str, statements: tuple[str, ...], wrong: tuple[str, int, int], message: str
) -> None:
    run(database, *statements)
    spec = table(database)
    writer = BatchWriter(spec, COLUMNS, "w")
    writer.write(batch(("a", 1, 5)), 0)
    with pytest.raises(SqlwinError) as raised:
        writer.write(batch(("c", 1, 6), wrong), 1)
    assert message in raised.value.message and "\n" not in raised.value.message
    assert contents(database) == [("a", 1, 5)]
    # the same micro-batch of a stream that is started again, now with values that fit
    again = BatchWriter(spec, COLUMNS, "w")
    assert again.write(batch(("c", 1, 6), ("d", 1, 7)), 1) == 2
    assert again.write(batch(("c", 1, 6), ("d", 1, 7)), 1) == 0
    assert contents(database) == [("a", 1, 5), ("c", 1, 6), ("d", 1, 7)]
    again.close()


def test_a_connection_that_is_killed_while_rows_are_copied_is_made_again(database: str) -> None:
    run(
        database,
        "CREATE TABLE t (k text, we int, n bigint)",
        "CREATE SEQUENCE attempts",
        # rolled back transactions do not set back a sequence: only the first attempt is killed
        "CREATE FUNCTION kill() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN IF NEW.n = 2 AND nextval('attempts') = 1 THEN "
        "PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(60); END IF; "
        "RETURN NEW; END$$",
        "CREATE TRIGGER kill BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION kill()",
    )
    writer = BatchWriter(table(database, key=()), COLUMNS, "w")
    assert writer.write(batch(("a", 1, 1), ("a", 1, 2), ("a", 1, 3)), 0) == 3
    assert contents(database) == [("a", 1, 1), ("a", 1, 2), ("a", 1, 3)]
    assert rows(database, "SELECT last_value FROM attempts") == [(2,)]
    writer.close()
    run(database, "TRUNCATE t", "ALTER SEQUENCE attempts RESTART")
    with pytest.raises(DatabaseAwayError, match="terminating connection") as raised:
        insert(table(database, key=()), ("a", 1, 1), ("a", 1, 2))
    assert "\n" not in raised.value.message
    assert contents(database) == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://127.0.0.1:1/d", "port 1 failed: Connection refused"),
        ("postgresql:///d?host=/nowhere", "failed: No such file or directory"),
        ("postgresql://localhost:99999/d", 'the database cannot be reached: invalid port number: "99999"'),
    ],
)  # fmt: skip
def test_the_reason_why_a_server_cannot_be_reached_is_in_the_message(
    url: str, message: str
) -> None:
    with pytest.raises(DatabaseAwayError) as raised:
        connect(table(url))
    assert message in raised.value.message
    assert "Is the server running" not in raised.value.message and "\n" not in raised.value.message


def test_a_role_that_does_not_exist_cannot_log_in(postgres: Server) -> None:
    url = postgres.url().replace("user=tester", "user=ghost")
    with pytest.raises(SqlwinError, match='cannot log in to the database: role "ghost"') as raised:
        connect(table(url))
    assert "'username'" in str(raised.value.hint)


@pytest.mark.parametrize(
    ("batch_number", "retries", "n_attempts", "is_read"),
    [(7, {}, 3, True), (7, {"lookup_max_retries": "1"}, 2, False), (None, {}, 1, False)],
)
def test_a_micro_batch_reads_a_table_again_while_the_database_is_away(
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    batch_number: int | None,
    retries: dict[str, str],
    n_attempts: int,
    is_read: bool,
) -> None:
    run(database, "CREATE TABLE t (k text, we int, n bigint)", "INSERT INTO t VALUES ('a', 1, 1)")
    options = {name.replace("_max", ".max"): value for name, value in retries.items()}
    spec = table(database, key=(), **options)
    with closing(connect(spec)) as connection:
        reader = reader_of(connection, spec, COLUMNS)
    attempts: list[str] = []

    def connect_the_third_time(to: TableSpec) -> Connection:
        attempts.append(to.name)
        if len(attempts) < 3:
            raise DatabaseAwayError("away")
        return connect(to)

    monkeypatch.setattr("runtime.connectors.postgres.read.connect", connect_the_third_time)
    monkeypatch.setattr("runtime.connectors.postgres.retries.time.sleep", lambda seconds: None)
    monkeypatch.setattr("runtime.frames.job_properties.batch_number", lambda: batch_number)
    if is_read:
        read = pa.Table.from_batches(reader.read([""], frozenset()))
        assert read.to_pylist() == [{"k": "a", "we": 1, "n": 1}]
    else:
        with pytest.raises(DatabaseAwayError):
            list(reader.read([""], frozenset()))
    assert len(attempts) == n_attempts
