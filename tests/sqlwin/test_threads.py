"""Sessions and threads of one process, concurrently."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import sqlwin
from runtime.spark.session import begin_use
from tests.conftest import drop_views
from tests.goldens import ROOT
from tests.marks import among

N_THREADS = 4


@pytest.fixture
def sessions(spark: SparkSession) -> Iterator[list[sqlwin.Session]]:
    """Provide two sessions on one Spark session, and two on separate ones."""
    drop_views(spark)
    on = [spark, spark, spark.newSession(), spark.newSession()]
    result = [sqlwin.connect(item) for item in on]
    yield result
    for item in result:
        item.close()
    drop_views(spark)


def side_by_side(works: list[Callable[[], None]]) -> None:
    """Run functions in threads that start together."""
    begin = threading.Barrier(len(works))

    def begun(work: Callable[[], None]) -> None:
        begin.wait(60)
        work()

    with ThreadPoolExecutor(len(works)) as pool:
        for future in [pool.submit(begun, work) for work in works]:
            future.result(300)


def rows(session: sqlwin.Session, sql: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in session.execute(sql)[-1].rows)


@pytest.mark.long
@pytest.mark.parametrize("n_sessions", among([2, 4], slow=[4]))
def test_sessions_and_threads_with_the_same_names_see_their_own_rows(
    n_sessions: int, sessions: list[sqlwin.Session], tmp_path: Path
) -> None:
    sessions = sessions[:n_sessions]
    for number, session in enumerate(sessions):
        (tmp_path / f"{number}").mkdir()
        lines = [f'{{"id": {i}, "ts": "2026-01-01 00:00:{i:02}"}}' for i in range(10 + number)]
        (tmp_path / f"{number}/rows.json").write_text("\n".join(lines))
        session.execute(f"""
            CREATE TABLE events (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
              WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/{number}', 'format' = 'json');
            CREATE VIEW even AS SELECT * FROM events WHERE id % 2 = 0;
            CREATE TABLE kept (id BIGINT) WITH ('connector' = 'memory');
            CREATE TABLE counts (n BIGINT) WITH ('connector' = 'memory');
        """)

    def queries(number: int) -> None:
        session, n = sessions[number], 10 + number
        for _ in range(2):
            assert rows(session, "SELECT COUNT(*) FROM events") == [(n,)]
            assert rows(session, "SELECT id FROM even") == [(i,) for i in range(0, n, 2)]

    def windows(number: int) -> None:
        session, n = sessions[number], 10 + number
        query = """
            SELECT COUNT(*), SUM(id) FROM TABLE(TUMBLE(
              TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end
        """
        assert rows(session, query) == [(n, n * (n - 1) // 2)]

    def memory(number: int) -> None:
        session = sessions[number]
        session.execute("CREATE TABLE own (k BIGINT) WITH ('connector' = 'memory')")
        for k in range(2):
            assert rows(session, f"INSERT INTO own VALUES ({10 * number + k})") == []
        assert rows(session, "SELECT k FROM own") == [(10 * number,), (10 * number + 1,)]
        session.execute("DROP TABLE own")

    def stream(number: int) -> None:
        session, n = sessions[number], 10 + number
        session.execute(f"""
            SET 'execution.runtime-mode' = 'streaming';
            SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
            INSERT INTO counts SELECT COUNT(*) FROM TABLE(TUMBLE(
              TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
        """)
        assert rows(session, "SELECT n FROM counts") == [(n,)]

    works: list[Callable[[], None]] = []
    for number in range(n_sessions):
        for work in (queries, windows, memory):
            works.append(lambda work=work, number=number: work(number))  # type: ignore[misc]
        works.append(lambda number=number: memory_of_one_table(sessions[number]))  # type: ignore[misc]
    assert len(works) == n_sessions * N_THREADS
    side_by_side(works)
    side_by_side([lambda number=number: stream(number) for number in range(n_sessions)])  # type: ignore[misc]


def memory_of_one_table(session: sqlwin.Session) -> None:
    for i in range(3):
        session.execute(f"INSERT INTO kept VALUES ({i})")
    assert rows(session, "SELECT id FROM kept") == [(0,), (1,), (2,)]


def test_a_table_that_is_created_elsewhere_leaves_the_rows_here(
    sessions: list[sqlwin.Session],
) -> None:
    create = "CREATE OR REPLACE TABLE kept (id INT) WITH ('connector' = 'memory')"
    for number, session in enumerate(sessions):
        session.execute(f"{create}; INSERT INTO kept VALUES ({number})")
    for number, session in enumerate(sessions):
        assert rows(session, "SELECT id FROM kept") == [(number,)]
    sessions[0].execute("DROP TABLE kept")
    for number, session in list(enumerate(sessions))[1:]:
        assert rows(session, "SELECT id FROM kept") == [(number,)]
    sessions[1].execute(create)
    assert rows(sessions[1], "SELECT id FROM kept") == []


def test_sparks_explain_ignores_prints_of_other_threads(
    fresh_session: sqlwin.Session, capsys: pytest.CaptureFixture[str]
) -> None:
    fresh_session.execute("CREATE TABLE out (i INT) WITH ('connector' = 'print')")
    texts: list[str] = []

    def explain() -> None:
        for _ in range(5):
            texts.append(fresh_session.execute("EXPLAIN EXTENDED SELECT 1 AS one")[0].text)

    def write() -> None:
        for i in range(5):
            fresh_session.execute(f"INSERT INTO out VALUES ({i})")

    side_by_side([explain, write])
    assert capsys.readouterr().out.splitlines() == [f"+I[{i}]" for i in range(5)]
    assert all("== Analyzed Logical Plan ==" in text and "+I[" not in text for text in texts)


@pytest.mark.long
def test_two_sessions_do_not_share_a_checkpoint(
    sessions: list[sqlwin.Session], tmp_path: Path
) -> None:
    for session in sessions[2:]:
        session.execute(f"""
            SET 'execution.checkpointing.dir' = '{tmp_path}';
            CREATE TABLE clock (i BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1');
            CREATE TABLE nothing (i BIGINT) WITH ('connector' = 'blackhole');
            INSERT INTO nothing SELECT i FROM clock;
        """)
    (first,), (second,) = (session.streams.running() for session in sessions[2:])
    assert {first.setup.name, second.setup.name} == {"nothing", "nothing-2"}


def test_a_passed_spark_session_counts_no_users(spark: SparkSession) -> None:
    assert not begin_use(spark)
    with sqlwin.connect(spark):
        pass
    with sqlwin.connect():
        pass
    assert spark.range(1).count() == 1


LAST_ONE_OUT = """
import sqlwin
from pyspark import SparkContext
first, second = sqlwin.connect(master="local[1]"), sqlwin.connect()
third = sqlwin.connect(second.spark)
first.close()
first.close()
second.close()
print(third.sql("SELECT 42").first()[0])
third.close()
print(SparkContext._active_spark_context)
with sqlwin.connect(master="local[1]") as again:
    print(again.sql("SELECT 43").first()[0])
    try:
        sqlwin.connect(settings={"no.such": "setting"})
    except sqlwin.SqlwinError:
        print(again.sql("SELECT 44").first()[0])
print(SparkContext._active_spark_context)
"""


@pytest.mark.long
@pytest.mark.spark
def test_spark_ends_with_the_last_session_that_uses_it() -> None:
    process = subprocess.run(
        [sys.executable, "-c", LAST_ONE_OUT],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert process.stdout.split() == ["42", "None", "43", "44", "None"], process.stderr
