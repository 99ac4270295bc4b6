"""Unbounded streams through the DB-API, PostgreSQL's protocol and OpenLineage, on Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from openlineage.client.serde import Serde

import sqlwin
import sqlwin.dbapi
from sqlwin.observers.lineage import LineageEvents, sender
from sqlwin.server.client import ServedSession
from tests.observing import wait_until
from tests.sqlwin.server.serving import PASSWORD, serving

pytestmark = pytest.mark.long

ENDLESS = """
    CREATE TABLE endless (id BIGINT, now TIMESTAMP_LTZ(3))
    WITH ('connector' = 'datagen', 'rows-per-second' = '2000', 'seed' = '1')
"""


class Events:
    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def emit(self, event: Any) -> None:
        self.events.append(json.loads(Serde.to_json(event)))

    def types(self) -> list[str]:
        sender().flush()
        return [event["eventType"] for event in self.events]


def test_an_unbounded_stream_is_read_row_by_row_refused_as_a_whole_and_traced(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    fresh_session.execute(ENDLESS)
    connection = sqlwin.dbapi.connect(session=fresh_session)

    # the DB-API
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM endless")
        assert len([cursor.fetchone(), *cursor.fetchmany(2)]) == 3
        for fetch in (cursor.fetchall, cursor.fetch_arrow_table):
            with pytest.raises(sqlwin.dbapi.ProgrammingError, match="needs rows that end"):
                fetch()

    # PostgreSQL's protocol
    served = ServedSession(fresh_session, can_write=False, double_quotes="checked")
    with (
        serving(served) as port,
        psycopg.connect(
            host="127.0.0.1", port=port, user="a", password=PASSWORD, dbname="b", autocommit=True
        ) as client,
    ):
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="an unbounded stream"):
            client.execute("SELECT id FROM endless")
        assert client.execute("SHOW TABLES").fetchall() == [("endless",)]

    # OpenLineage
    events = Events()
    runner = fresh_session._opened_runner
    runner.activity.listeners += (LineageEvents(runner, events),)  # type: ignore[arg-type]
    connection.execute(
        "CREATE TABLE ids (id BIGINT) WITH ('connector' = 'filesystem', 'path' = ?, "
        "'format' = 'parquet')",
        [tmp_path / "ids"],
    )
    connection.execute("INSERT INTO ids SELECT id FROM endless")
    assert events.types() == ["START", "RUNNING"]
    running = events.events[1]
    assert running["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    assert [dataset["name"] for dataset in running["inputs"]] == ["endless"]
    assert [dataset["name"] for dataset in running["outputs"]] == [f"{tmp_path}/ids"]
    fresh_session.streams.stop_all()
    wait_until(lambda: events.types() == ["START", "RUNNING", "COMPLETE"])
    assert events.events[2]["run"]["runId"] == running["run"]["runId"]
