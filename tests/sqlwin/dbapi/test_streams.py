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
from sqlwin.control import SessionControl
from sqlwin.observers.lineage import LineageEvents
from sqlwin.observers.sender import sender
from sqlwin.observers.stream_events import MICRO_BATCHES
from sqlwin.server.client import ServedSession
from tests.observing import wait_for_stream, wait_until
from tests.openlineage_schema import validate_event
from tests.sqlwin.server.serving import PASSWORD, serving

pytestmark = pytest.mark.long

ENDLESS = """
    CREATE TABLE endless (id BIGINT, now TIMESTAMP_LTZ(3))
    WITH ('connector' = 'datagen', 'rows-per-second' = '2000', 'seed' = '1')
"""


class Events:
    """A client that validates and stores the events."""

    def __init__(self) -> None:
        self._events: list[dict[str, Any]] = []

    def emit(self, event: Any) -> None:
        self._events.append(json.loads(Serde.to_json(event)))

    def of_type(self, *types: str) -> list[dict[str, Any]]:
        """Return the events of some types so far."""
        sender().flush()
        events = list(self._events)
        for event in events:
            validate_event(event)
        return [event for event in events if event["eventType"] in types]


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
        assert ("endless",) in client.execute("SHOW TABLES").fetchall()

    # OpenLineage
    events = Events()
    control = SessionControl(fresh_session)
    control.activity.listeners += (LineageEvents(control, events),)  # type: ignore[arg-type]
    connection.execute(
        "CREATE TABLE ids (id BIGINT) WITH ('connector' = 'filesystem', 'path' = ?, "
        "'format' = 'parquet')",
        [tmp_path / "ids"],
    )
    connection.execute("INSERT INTO ids SELECT id FROM endless")
    (running,) = fresh_session.streams.running()

    def batches() -> list[dict[str, Any]]:
        facets = [event["run"]["facets"] for event in events.of_type("RUNNING")]
        return [facet[MICRO_BATCHES] for facet in facets if MICRO_BATCHES in facet]

    wait_for_stream(running, lambda: sum(facet["rowsRead"] for facet in batches()) > 0)
    fresh_session.streams.stop_all()
    (complete,) = wait_until(lambda: events.of_type("COMPLETE", "FAIL"))
    (start,) = events.of_type("START")
    first, *later = events.of_type("RUNNING")
    assert complete["eventType"] == "COMPLETE"
    assert {event["run"]["runId"] for event in later} == {start["run"]["runId"]}
    assert complete["run"]["runId"] == first["run"]["runId"] == start["run"]["runId"]
    assert first["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    assert [dataset["name"] for dataset in first["inputs"]] == ["endless"]
    assert [dataset["name"] for dataset in first["outputs"]] == [f"{tmp_path}/ids"]
    numbers = [
        number for facet in batches() for number in (facet["firstBatch"], facet["lastBatch"])
    ]
    assert numbers == sorted(numbers)
    assert numbers[0] == 0
    assert all(facet["offsets"] for facet in batches())
    # the last micro-batch may be interrupted before its report
    total = complete["outputs"][0]["outputFacets"]["outputStatistics"]
    parts = [event["outputs"][0]["outputFacets"]["outputStatistics"] for event in later]
    assert sum(part["rowCount"] for part in parts) <= total["rowCount"] == running.run.n_rows
    assert total["size"] > 0
    read = [event["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] for event in later]
    assert sum(read) == sum(facet["rowsRead"] for facet in batches())
