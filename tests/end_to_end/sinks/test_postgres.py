"""Streams and batches into PostgreSQL, also killed ones and with a full disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sqlwin
from runtime.errors import SqlwinError
from tests.end_to_end.recovery.killed_stream import readings
from tests.end_to_end.recovery.kills import run_until_stopped
from tests.end_to_end.recovery.test_full_disk import result_on_a_small_disk
from tests.end_to_end.recovery.test_killed import write_input
from tests.end_to_end.sinks.killed_postgres import QUERY, UPDATES, tables
from tests.postgres import rows, run

PROGRAM = Path(__file__).with_name("killed_postgres.py")
FULL_DISK = Path(__file__).with_name("full_postgres.py")
# Late rows: a stream drops them, a batch does not
ON_TIME = "WHERE k >= 0"


@pytest.fixture
def streaming(fresh_session: sqlwin.Session, database: str, tmp_path: Path) -> sqlwin.Session:
    write_input(tmp_path, 6)
    fresh_session.execute("SET 'execution.runtime-mode' = 'streaming'")
    for name, value in UPDATES.items():
        fresh_session.execute(f"SET '{name}' = '{value}'")
    fresh_session.execute(tables(tmp_path, database))
    return fresh_session


def final_rows(session: sqlwin.Session, query: str = QUERY) -> list[tuple[Any, ...]]:
    """Return the rows of a query in batch."""
    session.execute("SET 'execution.runtime-mode' = 'batch'")
    return sorted(map(tuple, session.sql(f"SELECT * FROM ({query}) {ON_TIME}").collect()))


def written(url: str) -> list[tuple[Any, ...]]:
    return sorted(rows(url, f"SELECT * FROM totals {ON_TIME}"))


@pytest.mark.long
def test_corrected_rows_equal_the_batch_at_the_end(
    streaming: sqlwin.Session, database: str
) -> None:
    # a row that no longer satisfies the condition is deleted
    query = f"{QUERY} HAVING COUNT(*) BETWEEN 10 AND 90"
    (result,) = streaming.execute(f"INSERT INTO totals {query}")
    expected = final_rows(streaming, query)
    assert len(expected) > 20
    assert written(database) == expected
    assert result.row_count is not None and result.row_count > len(expected), "corrections count"


@pytest.mark.long
def test_corrected_sessions_and_ranks_equal_the_batch_at_the_end(
    streaming: sqlwin.Session, database: str
) -> None:
    streaming.execute(f"""
        CREATE TABLE visits (
          k INT, window_start TIMESTAMP(6), window_end TIMESTAMP(6), n BIGINT, total BIGINT,
          PRIMARY KEY (k, window_start, window_end) NOT ENFORCED
        ) WITH ('connector' = 'postgres', 'url' = '{database}', 'table-name' = 'visits',
          'create-table' = 'true')
    """)
    query = """
        SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS total
        FROM TABLE(SESSION(TABLE readings PARTITION BY k, DESCRIPTOR(ts), INTERVAL '4' SECONDS))
        GROUP BY k, window_start, window_end
    """
    (result,) = streaming.execute(f"INSERT INTO visits {query}")
    streaming.execute(f"""
        CREATE TABLE largest (
          k INT, window_end TIMESTAMP(6), total BIGINT, place INT,
          PRIMARY KEY (window_end, place) NOT ENFORCED
        ) WITH ('connector' = 'postgres', 'url' = '{database}', 'table-name' = 'largest',
          'create-table' = 'true')
    """)
    ranked = f"""
        SELECT k, window_end, total, place FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end
            ORDER BY total DESC, k) AS place
          FROM (SELECT k, window_start, window_end, SUM(v) AS total
            FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
            {ON_TIME} GROUP BY k, window_start, window_end))
        WHERE place <= 3
    """
    streaming.execute(f"INSERT INTO largest {ranked}")
    expected = final_rows(streaming, query)
    assert len(expected) > 20
    assert sorted(rows(database, f"SELECT * FROM visits {ON_TIME}")) == expected
    assert result.row_count is not None and result.row_count > len(expected), "corrections count"
    first_three = final_rows(streaming, ranked)
    assert len(first_three) > 15
    assert sorted(rows(database, "SELECT * FROM largest")) == first_three


@pytest.mark.long
@pytest.mark.parametrize(
    "text", ["CAST(window_end AS STRING)", "DATE_FORMAT(window_end, 'yyyy-MM-dd HH:mm:ss')"]
)
def test_a_text_of_the_window_is_part_of_a_key(
    streaming: sqlwin.Session, database: str, text: str
) -> None:
    streaming.execute(f"""CREATE TABLE by_text (
          k INT, until STRING, n BIGINT, total BIGINT, PRIMARY KEY (k, until) NOT ENFORCED
        ) WITH ('connector' = 'postgres', 'url' = '{database}', 'table-name' = 'by_text',
          'create-table' = 'true')""")
    query = QUERY.replace("k, window_end,", f"k, {text} AS until,", 1)
    (result,) = streaming.execute(f"INSERT INTO by_text {query}")
    expected = final_rows(streaming, query)
    assert len(expected) > 20
    assert sorted(rows(database, f"SELECT * FROM by_text {ON_TIME}")) == expected
    assert result.row_count is not None and result.row_count > len(expected), "corrections count"


@pytest.mark.long
def test_a_key_without_the_window_keeps_the_last_row_in_the_order_of_the_query(
    streaming: sqlwin.Session, database: str
) -> None:
    streaming.execute("RESET 'table.exec.emit.early-fire.enabled'")
    streaming.execute(f"""CREATE TABLE latest (
          k INT, window_end TIMESTAMP(6), n BIGINT, total BIGINT, PRIMARY KEY (k) NOT ENFORCED
        ) WITH ('connector' = 'postgres', 'url' = '{database}', 'table-name' = 'latest',
          'create-table' = 'true')""")
    streaming.execute(f"INSERT INTO latest {QUERY} ORDER BY window_end")
    latest = {row[0]: row for row in sorted(final_rows(streaming), key=lambda row: row[1])}
    assert rows(database, f"SELECT * FROM latest {ON_TIME} ORDER BY k") == [
        latest[k] for k in sorted(latest)
    ]
    streaming.execute("SET 'execution.runtime-mode' = 'streaming'")
    with pytest.raises(SqlwinError, match="several rows of micro-batch") as raised:
        streaming.execute(f"INSERT INTO latest {QUERY}")
    assert "ORDER BY window_end" in str(raised.value.hint)


@pytest.mark.long
def test_a_batch_keeps_the_last_row_of_a_key_in_the_order_of_the_query(
    fresh_session: sqlwin.Session, database: str
) -> None:
    fresh_session.execute(f"""CREATE TABLE latest (
          k BIGINT, v BIGINT, PRIMARY KEY (k) NOT ENFORCED
        ) WITH ('connector' = 'postgres', 'url' = '{database}', 'table-name' = 'latest',
          'create-table' = 'true')""")
    in_process = "SELECT * FROM VALUES (1, 2), (1, 4), (2, 7), (1, 3) AS t(k, v)"
    of_spark = "SELECT id % 3 AS k, id AS v FROM RANGE(0, 3000, 1, 4)"
    for query, expected in (
        (f"{in_process} ORDER BY v", [(1, 4), (2, 7)]),
        (f"({in_process} ORDER BY v DESC)", [(1, 2), (2, 7)]),
        (f"{of_spark} ORDER BY v", [(0, 2997), (1, 2998), (2, 2999)]),
        (f"{of_spark} ORDER BY v DESC", [(0, 0), (1, 1), (2, 2)]),
    ):
        fresh_session.execute(f"INSERT INTO latest {query}")
        assert rows(database, "SELECT * FROM latest ORDER BY k") == expected
    with pytest.raises(SqlwinError, match="no order determines which one is kept") as raised:
        fresh_session.execute(f"INSERT INTO latest {in_process}")
    assert "ORDER BY window_end" in str(raised.value.hint)


@pytest.mark.long
def test_an_insert_of_spark_that_fails_in_a_task_leaves_no_row(
    fresh_session: sqlwin.Session, database: str
) -> None:
    run(database, "CREATE TABLE numbers (id bigint, text text)")
    fresh_session.execute(f"""CREATE TABLE numbers (id BIGINT, text STRING) WITH (
        'connector' = 'postgres', 'url' = '{database}', 'table-name' = 'numbers')""")
    rows_of_spark = "SELECT id, STRING(100 / (id - {})) FROM RANGE(0, 20000, 1, 4)"
    with pytest.raises(SqlwinError, match="zero"):
        fresh_session.execute(f"INSERT INTO numbers {rows_of_spark.format(19_999)}")
    assert rows(database, "SELECT COUNT(*) FROM numbers") == [(0,)]
    (result,) = fresh_session.execute(f"INSERT INTO numbers {rows_of_spark.format(-1)}")
    assert result.row_count == 20_000
    assert rows(database, "SELECT COUNT(*), SUM(id) FROM numbers") == [(20_000, 199_990_000)]


@pytest.mark.long
def test_kills_around_commits_correct_each_row_once(
    fresh_session: sqlwin.Session, database: str, tmp_path: Path
) -> None:
    write_input(tmp_path, 6)
    assert not run_until_stopped(PROGRAM, tmp_path, database, "committed:1")
    assert run_until_stopped(PROGRAM, tmp_path, database, "never")
    fresh_session.execute(tables(tmp_path, database))
    expected = final_rows(fresh_session)
    assert len(expected) > 50
    assert written(database) == expected


@pytest.mark.long
def test_a_full_disk_of_the_database_is_named_and_the_stream_resumes(
    tmp_path: Path,
) -> None:
    result = result_on_a_small_disk(FULL_DISK, tmp_path, 400, "-m")
    assert "could not extend file" in result["error"] and "No space left" in result["error"]
    assert "\n" not in result["error"]
    assert result["rows_when_full"] == 10
    assert result["rows"] == 200_010


def test_tasks_of_spark_read_a_table_in_partitions(
    fresh_session: sqlwin.Session, database: str
) -> None:
    run(
        database,
        "CREATE TABLE numbers (id int, at timestamp, name text)",
        "INSERT INTO numbers SELECT i, timestamp '2024-01-01' + i * interval '1 minute', "
        "'n' || i % 7 FROM generate_series(1, 5000) i",
    )
    fresh_session.execute(f"""CREATE TABLE t (id INT, at TIMESTAMP(6), name STRING) WITH (
        'connector' = 'postgres', 'url' = '{database}', 'table-name' = 'numbers',
        'scan.partition.column' = 'id', 'scan.partition.num' = '3')""")
    # Spark evaluates the expression over rows of tasks
    every = fresh_session.sql("SELECT id, CONCAT(name, SPACE(1)) AS s FROM t")
    assert every.rdd.getNumPartitions() == 3
    assert len({row.id for row in every.collect()}) == 5000
    windows = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' DAY))"
    query = f"""SELECT window_start, name, COUNT(*) AS n, SUM(id) AS s FROM {windows}
        WHERE id > 100 GROUP BY window_start, window_end, name"""
    (explained,) = fresh_session.execute(f"EXPLAIN {query}")
    assert "ArrowScanLocalWindowAggregate(table=[t]" in explained.text
    assert sorted(map(tuple, fresh_session.sql(query).collect())) == sorted(
        rows(
            database,
            "SELECT date_trunc('day', at), name, COUNT(*), SUM(id) FROM numbers WHERE id > 100 "
            "GROUP BY 1, 2",
        )
    )


@pytest.mark.long
def test_a_joined_table_is_read_again_in_each_micro_batch(
    fresh_session: sqlwin.Session, database: str, tmp_path: Path
) -> None:
    run(
        database,
        "CREATE TABLE names (k int PRIMARY KEY, name text)",
        "INSERT INTO names SELECT k, 'first' FROM generate_series(0, 19) k",
        "CREATE TABLE named (k int, name text, v bigint)",
        # the first micro-batch that is written changes the names for the second
        "CREATE FUNCTION rename() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN UPDATE names SET name = 'second'; RETURN NULL; END$$",
        "CREATE TRIGGER rename AFTER INSERT ON named EXECUTE FUNCTION rename()",
    )
    write_input(tmp_path, 2, 50)
    options = f"'connector' = 'jdbc', 'url' = 'jdbc:{database}', 'lookup.cache' = 'NONE'"
    fresh_session.execute(f"""
        {readings(tmp_path)}
        CREATE TABLE names (k INT, name STRING, PRIMARY KEY (k) NOT ENFORCED)
        WITH ({options}, 'table-name' = 'names');
        CREATE TABLE named (k INT, name STRING, v BIGINT) WITH ({options}, 'table-name' = 'named');
        SET 'execution.runtime-mode' = 'streaming';
        INSERT INTO named SELECT r.k, n.name, r.v FROM readings r JOIN names n ON r.k = n.k""")
    counts = dict(rows(database, "SELECT name, COUNT(*) FROM named GROUP BY name"))
    assert set(counts) == {"first", "second"} and sum(counts.values()) == 2 * (50 - 3)


@pytest.mark.long
def test_a_cached_table_is_read_again_after_the_interval_and_not_before(
    fresh_session: sqlwin.Session,
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run(
        database,
        "CREATE TABLE names (k int PRIMARY KEY, name text)",
        "INSERT INTO names SELECT k, 'minute 0' FROM generate_series(0, 19) k",
        "CREATE TABLE named (name text, v bigint)",
        # each written micro-batch takes a minute, and changes the names
        "CREATE TABLE minutes (n serial)",
        "CREATE FUNCTION rename() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN INSERT INTO minutes DEFAULT VALUES; "
        "UPDATE names SET name = 'minute ' || (SELECT COUNT(*) FROM minutes); RETURN NULL; END$$",
        "CREATE TRIGGER rename AFTER INSERT ON named EXECUTE FUNCTION rename()",
    )
    monkeypatch.setattr(
        "runtime.sinks.lookup_caches.now_us",
        lambda: rows(database, "SELECT COUNT(*) FROM minutes")[0][0] * 60_000_000,
    )
    write_input(tmp_path, 5, 50)
    options = f"'connector' = 'postgres', 'url' = '{database}'"
    fresh_session.execute(f"""
        {readings(tmp_path)}
        CREATE TABLE names (k INT, name STRING, PRIMARY KEY (k) NOT ENFORCED)
        WITH ({options}, 'table-name' = 'names');
        CREATE TABLE named (name STRING, v BIGINT) WITH ({options}, 'table-name' = 'named');
        SET 'execution.runtime-mode' = 'streaming';
        INSERT INTO named SELECT n.name, r.v FROM readings r
        JOIN names /*+ OPTIONS('lookup.cache' = 'FULL',
          'lookup.full-cache.periodic-reload.interval' = '2 min') */ AS n ON r.k = n.k""")
    counts = dict(rows(database, "SELECT name, COUNT(*) FROM named GROUP BY name"))
    per_batch = 50 - 3
    assert counts == {"minute 0": 2 * per_batch, "minute 2": 2 * per_batch, "minute 4": per_batch}
