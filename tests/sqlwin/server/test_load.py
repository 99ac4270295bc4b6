"""One client's heavy query does not keep the others waiting."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sqlwin.server.client import ServedSession
from sqlwin.session import Session
from tests.observing import wait_until
from tests.sqlwin.server.load import HEAVY, QUESTIONS, connect, serve_command
from tests.sqlwin.server.serving import connect as connect_with_password
from tests.sqlwin.server.serving import serving

pytestmark = [pytest.mark.long, pytest.mark.spark]

N_CLIENTS = 10


def ask_all(port: int) -> None:
    with connect(port) as client:
        for question, answer in QUESTIONS.values():
            assert client.execute(question).fetchall() == answer


def test_clients_are_answered_while_a_heavy_query_runs_and_one_is_cancelled(tmp_path: Path) -> None:
    with (
        serve_command(tmp_path) as port,
        connect(port) as heavy,
        connect(port) as cancelled,
        ThreadPoolExecutor(N_CLIENTS) as pool,
    ):
        ask_all(port)
        running = pool.submit(heavy.execute, HEAVY)
        stopped = pool.submit(cancelled.execute, HEAVY)
        others = [pool.submit(ask_all, port) for _ in range(N_CLIENTS - 2)]
        for other in others:
            other.result()
        assert not running.done() and not stopped.done()
        cancelled.cancel_safe()
        with pytest.raises(psycopg.errors.QueryCanceled):
            stopped.result()
        question, answer = QUESTIONS["on Spark"]
        assert cancelled.execute(question).fetchall() == answer
        assert not running.done()
        heavy.cancel_safe()
        with pytest.raises(psycopg.errors.QueryCanceled):
            running.result()
        heavy.execute("SET statement_timeout = '1s'")
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
            heavy.execute(HEAVY)
        heavy.execute("RESET statement_timeout")
        assert heavy.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.slow
def test_tasks_that_ignore_the_cancellation_are_reported(
    fresh_session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    # a task looks whether it is cancelled once per 1,000 rows of a range
    query = (
        "SELECT SUM(HASH(id + n)) FROM "
        "(SELECT id, EXPLODE(SEQUENCE(1, 250000)) AS n FROM range(0, 1000, 1, 1)) AS numbers"
    )
    served = ServedSession(fresh_session, can_write=False, double_quotes="identifier")
    jvm: Any = fresh_session.spark._jvm
    threads = jvm.java.lang.Thread
    told: list[str] = []
    with (
        serving(served) as port,
        connect_with_password(port) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        client.add_notice_handler(lambda notice: told.append(notice.message_primary))
        running = pool.submit(client.execute, query)

        def is_in_loop() -> bool:
            """Return whether a task runs generated code, which a cancellation does not end."""
            stacks = threads.getAllStackTraces()
            return any(
                "GeneratedClass" in str(frame)
                for thread in stacks.keySet().toArray()
                if thread.getName().startswith("Executor task")
                for frame in stacks.get(thread)
            )

        wait_until(is_in_loop)
        client.cancel_safe()
        with pytest.raises(psycopg.errors.QueryCanceled):
            running.result()
        wait_until(lambda: "did not end within 5 s" in caplog.text)
        assert client.execute("SELECT 1 AS a").fetchone() == (1,)
        assert len(told) == 1 and told[0].startswith("a query was cancelled, but ")
        wait_until(lambda: "the tasks of the cancelled query ended after" in caplog.text)
