"""Events of OpenLineage, without Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import sqlglot
from openlineage.client.serde import Serde

import sqlwin
from runtime.spec.table import TableSpec
from sqlwin.observers import has_lineage
from sqlwin.observers.columns import column_sources
from sqlwin.observers.datasets import DatasetPlace, place_of, place_of_path
from sqlwin.observers.lineage import LineageEvents, sender
from tests.goldens import ROOT
from tests.sqlwin.dbapi.conftest import FLIGHTS
from tests.unstarted import unstarted_spark

# The required parts of RunEvent and of facets in OpenLineage's specification 2-0-2
_FACETS = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "required": ["_producer", "_schemaURL"],
        "properties": {"_producer": {"format": "uri"}, "_schemaURL": {"format": "uri"}},
    },
}
_DATASET = {
    "type": "object",
    "required": ["namespace", "name"],
    "properties": {
        "namespace": {"type": "string", "minLength": 1},
        "name": {"type": "string", "minLength": 1},
        "facets": _FACETS,
        "inputFacets": _FACETS,
        "outputFacets": _FACETS,
    },
}
RUN_EVENT = {
    "type": "object",
    "required": ["eventTime", "producer", "schemaURL", "run", "job"],
    "properties": {
        "eventTime": {"type": "string", "format": "date-time"},
        "eventType": {"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
        "producer": {"type": "string", "format": "uri"},
        "schemaURL": {"type": "string", "format": "uri"},
        "run": {
            "type": "object",
            "required": ["runId"],
            "properties": {"runId": {"type": "string", "format": "uuid"}, "facets": _FACETS},
        },
        "job": {
            "type": "object",
            "required": ["namespace", "name"],
            "properties": {"facets": _FACETS},
        },
        "inputs": {"type": "array", "items": _DATASET},
        "outputs": {"type": "array", "items": _DATASET},
    },
}


class Events:
    """A client that keeps the events."""

    def __init__(self) -> None:
        self._events: list[dict[str, Any]] = []

    def emit(self, event: Any) -> None:
        self._events.append(json.loads(Serde.to_json(event)))

    def take(self) -> list[dict[str, Any]]:
        sender().flush()
        events, self._events = self._events, []
        for event in events:
            jsonschema.validate(event, RUN_EVENT, format_checker=jsonschema.FormatChecker())
        return events


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def session(events: Events, tmp_path: Path) -> Iterator[sqlwin.Session]:
    with sqlwin.connect(unstarted_spark()) as opened:
        runner = opened._opened_runner
        runner.activity.listeners += (LineageEvents(runner, events),)  # type: ignore[arg-type]
        opened.execute(
            f"CREATE TABLE flights WITH ('connector' = 'filesystem', 'path' = '{FLIGHTS}');"
            "CREATE VIEW late AS SELECT origin AS airport, sched_dep, dep_delay FROM flights "
            "WHERE dep_delay > 60;"
            "CREATE TABLE o (airport STRING, day TIMESTAMP, worst INT, n BIGINT) WITH "
            f"('connector' = 'filesystem', 'path' = '{tmp_path}/o', 'format' = 'parquet')"
        )
        yield opened


INSERT = """
    INSERT INTO o SELECT airport, window_end, MAX(dep_delay), COUNT(*)
    FROM TABLE(TUMBLE(TABLE late, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
    GROUP BY airport, window_start, window_end
"""


def test_an_insert_names_its_tables_with_columns_lineage_and_rows(
    session: sqlwin.Session, events: Events, tmp_path: Path
) -> None:
    assert events.take() == []  # definitions read and write nothing
    (result,) = session.execute(INSERT)
    start, complete = events.take()
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == complete["run"]["runId"]
    assert start["job"]["name"] == complete["job"]["name"] == "sqlwin.insert_into.o"
    assert complete["job"]["facets"]["sql"]["query"] == INSERT.strip()
    assert start["eventTime"] <= complete["eventTime"]
    (flights,) = complete["inputs"]
    assert (flights["namespace"], flights["name"]) == ("file", str(FLIGHTS))
    fields = flights["facets"]["schema"]["fields"]
    assert {"name": "dep_delay", "type": "int", "fields": []} in fields
    (output,) = complete["outputs"]
    assert (output["namespace"], output["name"]) == ("file", f"{tmp_path}/o")
    assert [field["name"] for field in output["facets"]["schema"]["fields"]] == [
        *("airport", "day", "worst", "n")
    ]
    lineage = {
        column: [(field["name"], field["field"]) for field in sources["inputFields"]]
        for column, sources in output["facets"]["columnLineage"]["fields"].items()
    }
    assert lineage == {
        "airport": [(str(FLIGHTS), "origin")],
        "day": [(str(FLIGHTS), "sched_dep")],
        "worst": [(str(FLIGHTS), "dep_delay")],
    }
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == result.row_count


def test_a_query_reads_and_a_failure_has_its_message(
    session: sqlwin.Session, events: Events
) -> None:
    (result,) = session.execute(f"SELECT COUNT(*) AS n FROM '{FLIGHTS}'")
    assert [event["eventType"] for event in events.take()] == ["START"]
    result.to_arrow()
    (complete,) = events.take()
    assert (complete["eventType"], complete["outputs"]) == ("COMPLETE", [])
    assert [dataset["name"] for dataset in complete["inputs"]] == [str(FLIGHTS)]
    with pytest.raises(sqlwin.SqlwinError):
        session.execute("SELECT nope FROM late")
    start, fail = events.take()
    assert (start["eventType"], fail["eventType"]) == ("START", "FAIL")
    assert fail["run"]["facets"]["errorMessage"]["message"] == "column `nope` does not exist"
    assert fail["inputs"][0]["name"] == str(FLIGHTS)


def test_runs_of_a_statement_are_runs_of_one_job(session: sqlwin.Session, events: Events) -> None:
    for _ in range(2):
        session.execute("SELECT COUNT(*) AS n FROM flights")[0].to_arrow()
    first, _, second, _ = events.take()
    assert first["job"]["name"] == second["job"]["name"]
    assert first["run"]["runId"] != second["run"]["runId"]


def test_a_client_that_fails_does_not_fail_the_statement(
    session: sqlwin.Session, events: Events, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def refuse(event: object) -> None:
        raise ConnectionError("the collector is away")

    monkeypatch.setattr(events, "emit", refuse)
    assert session.execute("SELECT 1 AS a")[0].to_arrow().num_rows == 1
    sender().flush()
    assert "an OpenLineage event was not sent: the collector is away" in caplog.text


# -- datasets and columns --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/data/a b/x.csv", DatasetPlace("file", "/data/a b/x.csv")),
        ("file:///data/x", DatasetPlace("file", "/data/x")),
        ("s3a://bucket/a/b/", DatasetPlace("s3://bucket", "a/b")),
        ("gs://bucket/a", DatasetPlace("gs://bucket", "a")),
        ("hdfs://name:8020/a/b", DatasetPlace("hdfs://name:8020", "/a/b")),
        (
            "abfss://box@acc.dfs.core.windows.net/a",
            DatasetPlace("abfss://box@acc.dfs.core.windows.net", "a"),
        ),
    ],
)
def test_a_path_has_the_place_of_the_naming_convention(path: str, place: DatasetPlace) -> None:
    assert place_of_path(path) == place


@pytest.mark.parametrize(
    ("connector", "options", "place"),
    [
        (
            "kafka",
            {"topic": "bids", "properties.bootstrap.servers": "a:9092,b:9092"},
            DatasetPlace("kafka://a:9092", "bids"),
        ),
        (
            "postgres",
            {"url": "jdbc:postgresql://db/shop", "table-name": "bids"},
            DatasetPlace("postgres://db:5432", "shop.public.bids"),
        ),
        (
            "postgres",
            {"url": "postgresql://db:5433/shop", "table-name": 's."Bids"'},
            DatasetPlace("postgres://db:5433", "shop.s.Bids"),
        ),
        ("delta", {"path": "s3a://lake/t"}, DatasetPlace("s3://lake", "t")),
        ("datagen", {}, DatasetPlace("sqlwin", "t")),
    ],
)
def test_a_table_has_the_place_of_its_connector(
    connector: str, options: dict[str, str], place: DatasetPlace
) -> None:
    assert place_of("t", TableSpec(("t",), connector, options=tuple(options.items()))) == place


@pytest.mark.parametrize(
    ("sql", "columns", "sources"),
    [
        ("SELECT * FROM t", ["K", "ts", "x"], {"K": "t.K", "ts": "t.ts", "x": "t.x"}),
        ("SELECT k, 1 AS one FROM t AS v", ["k", "one"], {"k": "t.K"}),
        (
            "SELECT v.k AS a, MAX(h.x) FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY, "
            "INTERVAL '2' DAY)) AS v JOIN h ON h.k = v.k GROUP BY v.k, window_start, window_end",
            ["a", "max(h.x)"],
            {"a": "t.K", "max(h.x)": "h.x"},
        ),
        (
            "WITH c AS (SELECT k, x * 2 AS z FROM t) SELECT z, k FROM c UNION ALL SELECT x, k FROM h",
            ["z", "k"],
            {"z": "h.x t.x", "k": "h.k t.K"},
        ),
        (
            "SELECT a FROM (SELECT k AS a, row_number() OVER (PARTITION BY k ORDER BY ts) AS n FROM t) "
            "WHERE n = 1",
            ["a"],
            {"a": "t.K"},
        ),
    ],
)
def test_columns_have_their_sources(sql: str, columns: list[str], sources: dict[str, str]) -> None:
    query = sqlglot.parse_one(sql, read="sqlwin")
    actual = column_sources(query, columns, {"t": ["K", "ts", "x"], "h": ["k", "x"]})  # type: ignore[arg-type]
    assert {
        column: " ".join(".".join(pair) for pair in pairs) for column, pairs in actual.items()
    } == sources


# -- configuration ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, False),
        ({"OPENLINEAGE_URL": "http://h"}, True),
        ({"OPENLINEAGE__TRANSPORT__TYPE": "console"}, True),
        ({"OPENLINEAGE_CONFIG": "openlineage.yml"}, True),
        ({"OPENLINEAGE_URL": "http://h", "OPENLINEAGE_DISABLED": "true"}, False),
    ],
)
def test_variables_of_openlineage_turn_it_on(
    variables: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("OPENLINEAGE")]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert has_lineage() is expected


def test_the_command_line_sends_events() -> None:
    bodies: list[dict[str, Any]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "sqlwin", "run", "--no-engine", "queries/quickstart.sql"],
            cwd=ROOT,
            env={**os.environ, "OPENLINEAGE_URL": f"http://127.0.0.1:{server.server_port}"},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("origin,")
    for body in bodies:
        jsonschema.validate(body, RUN_EVENT, format_checker=jsonschema.FormatChecker())
    assert [body["eventType"] for body in bodies] == ["START", "COMPLETE"]
    assert bodies[1]["inputs"][0]["name"] == str(FLIGHTS)
