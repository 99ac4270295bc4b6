"""Events of OpenLineage, without Spark."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
import sqlglot
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.serde import Serde

import sqlwin
from runtime.errors import ExecutionError
from runtime.frames.reports import report_of
from runtime.spec.table import TableSpec
from sqlwin.catalog.entries import MaterializedTable
from sqlwin.control import SessionControl
from sqlwin.observers.column_sources import column_sources
from sqlwin.observers.datasets import DatasetPlace, place_of, place_of_path
from sqlwin.observers.file_sizes import FilesSize, data_files, size_of, stored_data_files
from sqlwin.observers.jobs import job_of
from sqlwin.observers.lineage import LineageEvents
from sqlwin.observers.sender import Sender, sender
from sqlwin.observers.stream_events import (
    MICRO_BATCHES,
    StreamEvents,
    WrittenTable,
    rows_written,
)
from sqlwin.observers.variables import has_lineage
from tests.object_store import ObjectStore
from tests.observing import wait_until
from tests.openlineage_schema import validate_event
from tests.sqlwin.dbapi.conftest import FLIGHTS
from tests.sqlwin.observers.programs import (
    absent_collector,
    collector,
    follow,
    opened_session,
    run_command,
    runner_of,
    set_only,
)
from tests.sqlwin.ui.sessions import SECOND, progress, stream


class Events:
    """A client that validates and stores the events."""

    def __init__(self) -> None:
        self._events: list[dict[str, Any]] = []

    def emit(self, event: Any) -> None:
        self._events.append(json.loads(Serde.to_json(event)))

    def take(self) -> list[dict[str, Any]]:
        sender().flush()
        events, self._events = self._events, []
        for event in events:
            validate_event(event)
        return events


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def session(events: Events, tmp_path: Path) -> Iterator[sqlwin.Session]:
    with opened_session() as opened:
        follow(opened, LineageEvents(SessionControl(opened), events, 0.01))  # type: ignore[arg-type]
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
    (file,) = data_files(f"{tmp_path}/o").values()
    written = output["outputFacets"]["outputStatistics"]
    assert (written["rowCount"], written["size"], written["fileCount"]) == (
        *(result.row_count, file[0], 1),
    )
    read = flights["inputFacets"]["inputStatistics"]
    assert (read["rowCount"], read["size"], read["fileCount"]) == (
        *(336_776, FLIGHTS.stat().st_size, 1),
    )

    # a second INSERT counts only its own file
    session.execute(INSERT)
    _, complete = events.take()
    written = complete["outputs"][0]["outputFacets"]["outputStatistics"]
    assert (written["rowCount"], written["size"], written["fileCount"]) == (
        *(result.row_count, file[0], 1),
    )
    assert len(data_files(f"{tmp_path}/o")) == 2


def test_a_statement_set_is_a_job_with_all_its_tables(
    session: sqlwin.Session, events: Events, tmp_path: Path
) -> None:
    session.execute(
        "CREATE TABLE p (origin STRING, n BIGINT) WITH "
        f"('connector' = 'filesystem', 'path' = '{tmp_path}/p', 'format' = 'csv')"
    )
    session.execute(
        f"EXECUTE STATEMENT SET BEGIN {INSERT}; "
        "INSERT INTO p SELECT origin, COUNT(*) FROM flights GROUP BY origin; END"
    )
    start, complete = events.take()
    assert start["job"]["name"] == complete["job"]["name"] == "sqlwin.statement_set.o+p"
    assert complete["eventType"] == "COMPLETE"
    assert [dataset["name"] for dataset in complete["inputs"]] == [str(FLIGHTS)]
    assert [dataset["name"] for dataset in complete["outputs"]] == [
        f"{tmp_path}/o",
        f"{tmp_path}/p",
    ]
    lineage = complete["outputs"][1]["facets"]["columnLineage"]["fields"]
    assert [field["field"] for field in lineage["origin"]["inputFields"]] == ["origin"]
    sizes = [dataset["outputFacets"]["outputStatistics"] for dataset in complete["outputs"]]
    assert all(size["fileCount"] == 1 and size["size"] > 0 for size in sizes)


def test_create_table_as_counts_the_bytes_of_its_files(
    session: sqlwin.Session, events: Events, tmp_path: Path
) -> None:
    session.execute(
        f"CREATE TABLE made WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/made', "
        "'format' = 'csv') AS SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin"
    )
    _, complete = events.take()
    assert complete["job"]["name"] == "sqlwin.create_table.made"
    (output,) = complete["outputs"]
    assert output["name"] == f"{tmp_path}/made"
    (file,) = data_files(f"{tmp_path}/made").values()
    assert output["outputFacets"]["outputStatistics"]["size"] == file[0]


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


# -- streams ---------------------------------------------------------------------------------------


def batch(number: int, rows: int, offset: int) -> dict[str, Any]:
    """Return Spark's report of a micro-batch that reads `bids` from Kafka."""
    return {
        **progress(number, rows, at=number * 10.0, watermarks_us=((number + 1) * 60 * SECOND,)),
        "sources": [
            {
                "description": "KafkaV2[Subscribe[bids]]",
                "startOffset": f'{{"bids":{{"0":{offset - rows}}}}}',
                "endOffset": f'{{"bids":{{"0":{offset}}}}}',
                "numInputRows": rows,
            },
            {"description": "FileStreamSource[/checkpoint/end-of-input]", "numInputRows": 0},
        ],
    }


def test_a_stream_has_an_event_for_its_micro_batches_since_the_previous_event(
    tmp_path: Path,
) -> None:
    running, query = stream()
    table = WrittenTable("totals", OutputDataset("file", "/totals"), str(tmp_path), {})
    events = StreamEvents(running, [InputDataset("kafka://h:1", "bids")], [table], str.upper)
    assert events.wait(0.0) == (False, "")
    assert events.take() is None

    running.history.take(report_of(batch(0, 5, 5)))
    running.run.n_rows = 3
    (tmp_path / "a.csv").write_bytes(b"1234")
    (tmp_path / "_hidden").write_bytes(b"1")
    event = events.take()
    assert event is not None
    assert event.at == 0.5
    facet = json.loads(Serde.to_json(event.facet))
    assert facet.pop("_producer")
    assert facet == {
        "_schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunFacet",
        **{"stream": "TOTALS", "firstBatch": 0, "lastBatch": 0, "seconds": 0.5, "rowsRead": 5},
        **{"lateRows": 0, "stateRows": 10, "stateBytes": 4_000},
        "watermark": "1970-01-01T00:01:00.000000Z",
        "offsets": [{"source": "KAFKAV2[SUBSCRIBE[BIDS]]", "offset": '{"bids":{"0":5}}'}],
    }
    assert event.inputs[0].inputFacets["inputStatistics"].rowCount == 5
    written = event.outputs[0].outputFacets["outputStatistics"]
    assert (written.rowCount, written.size, written.fileCount) == (3, 4, 1)
    assert events.take() is None

    # two micro-batches share an event, which counts only new rows and files
    running.history.take(report_of(batch(1, 1, 6)))
    running.history.take(report_of(batch(2, 2, 8)))
    running.run.n_rows = 4
    (tmp_path / "b.csv").write_bytes(b"12")
    event = events.take()
    assert event is not None
    assert (event.facet.firstBatch, event.facet.lastBatch, event.facet.rowsRead) == (1, 2, 3)
    assert event.facet.watermark == "1970-01-01T00:03:00.000000Z"
    assert event.facet.offsets[0]["offset"] == '{"bids":{"0":8}}'
    written = event.outputs[0].outputFacets["outputStatistics"]
    assert (written.rowCount, written.size, written.fileCount) == (1, 2, 1)

    query.isActive = False
    assert events.wait(0.0) == (True, "")


def test_events_of_a_stream_are_valid_and_end_with_its_totals(
    session: sqlwin.Session, events: Events
) -> None:
    running, query = stream(statement=INSERT)
    running.run.n_rows = 7
    running.history.take(report_of(batch(0, 5, 5)))
    runner = runner_of(session)
    runner.streams.add(running)
    run = runner.plans.begin(INSERT)
    run.record_stream(running.number)
    run.record_end("stream", "", None)
    runner.plans.end()
    emitted: list[dict[str, Any]] = []

    def has(kind: str, number: int) -> bool:
        emitted.extend(events.take())
        return [event["eventType"] for event in emitted].count(kind) == number

    # the start, and the first micro-batch
    wait_until(lambda: has("RUNNING", 2))
    running.history.take(report_of(batch(1, 2, 7)))
    wait_until(lambda: has("RUNNING", 3))
    query.isActive = False
    wait_until(lambda: has("COMPLETE", 1))
    start, begun, first, second, complete = emitted
    assert start["eventType"] == "START"
    assert {event["run"]["runId"] for event in emitted} == {start["run"]["runId"]}
    assert MICRO_BATCHES not in begun["run"]["facets"]
    facets = [event["run"]["facets"][MICRO_BATCHES] for event in (first, second)]
    assert [facet["rowsRead"] for facet in facets] == [5, 2]
    assert first["eventTime"] == "1970-01-01T00:00:00.500000+00:00"
    assert first["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 7
    assert second["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == 2
    assert complete["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 7


def test_a_stream_that_fails_has_its_message(session: sqlwin.Session, events: Events) -> None:
    running, query = stream(statement=INSERT)
    runner = runner_of(session)
    running.setup = replace(running.setup, errors=runner.plans.errors_of(INSERT))
    runner.streams.add(running)
    run = runner.plans.begin(INSERT)
    run.record_stream(running.number)
    query.isActive = False
    query.failure = RuntimeError("disk full")
    run.record_end("stream", "", None)
    runner.plans.end()
    emitted: list[dict[str, Any]] = []
    wait_until(lambda: emitted.extend(events.take()) or len(emitted) == 3)
    assert [event["eventType"] for event in emitted] == ["START", "RUNNING", "FAIL"]
    assert emitted[2]["run"]["facets"]["errorMessage"]["message"] == "disk full"


def test_streams_with_several_tables_count_the_rows_of_each() -> None:
    running, _ = stream()
    running.setup = replace(running.setup, inserts=("o", "p"))
    running.run.written = [3, None]
    assert (rows_written(running, "o"), rows_written(running, "p")) == (3, None)
    tables = [WrittenTable(name, OutputDataset("sqlwin", name), "", {}) for name in "opq"]
    events = StreamEvents(running, [], tables, str)
    running.history.take(report_of(batch(0, 5, 5)))
    event = events.take()
    assert event is not None
    assert [output.name for output in event.outputs] == ["o", "p"]
    assert event.outputs[0].outputFacets["outputStatistics"].rowCount == 3
    assert not event.outputs[1].outputFacets


# -- materialized tables ---------------------------------------------------------------------------

DAILY = """
    SELECT airport, window_end, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE late, DESCRIPTOR(sched_dep), INTERVAL '1' DAY))
    GROUP BY airport, window_start, window_end
"""


def lineage_of(dataset: dict[str, Any]) -> dict[str, list[str]]:
    return {
        column: [field["field"] for field in sources["inputFields"]]
        for column, sources in dataset["facets"]["columnLineage"]["fields"].items()
    }


@pytest.mark.parametrize("failure", [None, "the disk is full"])
def test_a_refresh_has_the_tables_and_columns_of_its_query(
    session: sqlwin.Session, events: Events, tmp_path: Path, failure: str | None
) -> None:
    runner = runner_of(session)
    query = sqlglot.parse_one(DAILY, read="sqlwin")
    assert isinstance(query, sqlglot.exp.Query)
    entry = MaterializedTable(("m",), query, DAILY, path=f"{tmp_path}/m")
    runner.catalog.add(("m",), entry, replace=False, if_not_exists=False)
    run = runner.plans.begin("ALTER MATERIALIZED TABLE m REFRESH")
    if failure is None:
        run.record_end("insert", "`m`: 1 new file", 5)
    else:
        run.record_failure(ExecutionError(failure))
    runner.plans.end()
    start, last = events.take()
    assert [event["eventType"] for event in (start, last)] == [
        *("START", "COMPLETE" if failure is None else "FAIL")
    ]
    assert start["job"]["name"] == last["job"]["name"] == "sqlwin.refresh_materialized_table.m"
    (flights,), (written,) = last["inputs"], last["outputs"]
    assert (flights["name"], written["name"]) == (str(FLIGHTS), f"{tmp_path}/m")
    if failure is None:
        # the statement counts the rows that it reads
        assert flights["inputFacets"]["inputStatistics"]["rowCount"] == 5
        assert "outputFacets" not in written or not written["outputFacets"]
    else:
        assert last["run"]["facets"]["errorMessage"]["message"] == failure


def test_the_refresh_of_an_unknown_table_fails_without_datasets(
    session: sqlwin.Session, events: Events
) -> None:
    with pytest.raises(sqlwin.SqlwinError):
        session.execute("ALTER MATERIALIZED TABLE nowhere REFRESH")
    start, fail = events.take()
    assert (start["eventType"], fail["eventType"]) == ("START", "FAIL")
    assert (fail["inputs"], fail["outputs"]) == ([], [])
    session.execute("SHOW MATERIALIZED TABLES")
    assert events.take() == []


@pytest.mark.long
def test_a_materialized_table_is_created_and_refreshed(
    fresh_session: sqlwin.Session, events: Events, tmp_path: Path
) -> None:
    follow(fresh_session, LineageEvents(SessionControl(fresh_session), events))  # type: ignore[arg-type]
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.parquet").write_bytes(FLIGHTS.read_bytes())
    fresh_session.execute(
        f"CREATE TABLE flights WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in');"
        "CREATE VIEW late AS SELECT origin AS airport, sched_dep, dep_delay FROM flights "
        "WHERE dep_delay > 60"
    )
    events.take()
    create = f"CREATE MATERIALIZED TABLE m WITH ('path' = '{tmp_path}/m') AS {DAILY}"
    fresh_session.execute(create)
    created = events.take()[-1]
    (tmp_path / "in/b.parquet").write_bytes(FLIGHTS.read_bytes())
    fresh_session.execute("ALTER MATERIALIZED TABLE m REFRESH")
    start, refreshed = events.take()
    assert (start["eventType"], refreshed["eventType"]) == ("START", "COMPLETE")
    for complete, n_files in ((created, 1), (refreshed, 2)):
        (flights,), (written,) = complete["inputs"], complete["outputs"]
        assert (flights["name"], written["name"]) == (f"{tmp_path}/in", f"{tmp_path}/m")
        statistics = flights["inputFacets"]["inputStatistics"]
        assert statistics["fileCount"] == n_files
        assert statistics["size"] == n_files * FLIGHTS.stat().st_size
        assert lineage_of(written) == {"airport": ["origin"], "window_end": ["sched_dep"]}
        assert not written.get("outputFacets")


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
            "SELECT label, window_end AS e, COUNT(ts) AS n FROM TABLE(RANGES(TABLE t, DESCRIPTOR(ts), "
            "(SELECT k AS label, x AS b, x AS f FROM h), DESCRIPTOR(b, f))) "
            "GROUP BY label, window_start, window_end",
            ["label", "e", "n"],
            {"label": "h.k", "e": "h.x", "n": "t.ts"},
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


# -- files of object stores ------------------------------------------------------------------------

ROWS = pa.table({"k": ["a", "b", None], "x": [1, 2, 3]})


def test_files_of_an_object_store_have_their_sizes(store: ObjectStore) -> None:
    for name in ("a.parquet", "day=1/b.parquet", "_temporary/c.parquet", ".hidden", "day=1/_d"):
        store.put(f"sizes/{name}", ROWS)
    opened = store.store()
    files = stored_data_files(opened, store.uri("sizes"))
    assert list(files) == [
        f"{store.bucket}/sizes/a.parquet",
        f"{store.bucket}/sizes/day=1/b.parquet",
    ]
    (a, b) = files.values()
    assert a[0] == b[0] > 0
    assert size_of(files) == FilesSize(2, 2 * a[0])
    assert list(stored_data_files(opened, store.uri("sizes/*.parquet"))) == [
        f"{store.bucket}/sizes/a.parquet"
    ]
    one = stored_data_files(opened, store.uri("sizes/day=1/b.parquet"))
    assert size_of(one) == FilesSize(1, b[0])
    assert stored_data_files(opened, store.uri("nowhere")) == {}
    with store.failing("AccessDenied"), pytest.raises(OSError):
        stored_data_files(opened, store.uri("sizes"))


def test_sizes_that_are_unknown_are_missing() -> None:
    files = {"b/x": (5, 1, 0), "b/y": (7, 1, 0)}
    dataset = OutputDataset("s3://b", "t")
    for before, listed, size in (
        ({"b/x": (5, 1, 0)}, files, 7),
        ({}, files, 12),
        (None, files, None),  # the store was unknown before the statement
        ({}, None, None),  # the store does not answer
    ):
        table = WrittenTable("t", dataset, "s3a://b/t", before, lambda _, listed=listed: listed)  # type: ignore[misc]
        facets = table.with_statistics(2).outputFacets or {}
        assert (facets["outputStatistics"].rowCount, facets["outputStatistics"].size) == (2, size)


def test_a_store_that_is_unknown_before_spark_starts_has_no_sizes(
    session: sqlwin.Session, events: Events
) -> None:
    session.execute(
        "CREATE TABLE remote (k STRING) WITH ('connector' = 'filesystem', "
        "'path' = 's3a://bucket/remote', 'format' = 'parquet')"
    )
    with pytest.raises(sqlwin.SqlwinError):
        session.execute("SELECT COUNT(*) AS n FROM remote")
    (_, fail) = events.take()
    (remote,) = fail["inputs"]
    assert (remote["namespace"], remote["name"]) == ("s3://bucket", "remote")
    assert not remote.get("inputFacets")


@pytest.mark.long
def test_a_query_over_an_object_store_has_the_bytes_of_its_files(
    lake: sqlwin.Session, store: ObjectStore, events: Events
) -> None:
    for name in ("a", "b"):
        store.put(f"lineage/{name}.parquet", ROWS)
    follow(lake, LineageEvents(SessionControl(lake), events))  # type: ignore[arg-type]
    lake.execute(
        "CREATE TABLE remote (k STRING, x BIGINT) WITH ('connector' = 'filesystem', "
        f"'path' = '{store.uri('lineage')}', 'format' = 'parquet')"
    )
    lake.execute("SELECT COUNT(*) AS n FROM remote")[0].to_arrow()
    complete = events.take()[-1]
    (remote,) = complete["inputs"]
    assert (remote["namespace"], remote["name"]) == (f"s3://{store.bucket}", "lineage")
    size = size_of(stored_data_files(store.store(), store.uri("lineage"))).n_bytes
    statistics = remote["inputFacets"]["inputStatistics"]
    assert (statistics["fileCount"], statistics["size"]) == (2, size)


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
    set_only(monkeypatch, "OPENLINEAGE", variables)
    assert has_lineage() is expected


@pytest.mark.long
def test_the_command_line_sends_events() -> None:
    with collector(201) as (url, bodies):
        done = run_command({"OPENLINEAGE_URL": url}, "queries/quickstart.sql")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("origin,")
    events = list(map(json.loads, bodies))
    for event in events:
        validate_event(event)
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"]
    assert events[1]["inputs"][0]["name"] == str(FLIGHTS)


@pytest.mark.long
def test_an_unreachable_collector_changes_no_result() -> None:
    with absent_collector() as url:
        done = run_command(
            {
                "OPENLINEAGE__TRANSPORT__TYPE": "http",
                "OPENLINEAGE__TRANSPORT__URL": url,
                "OPENLINEAGE__TRANSPORT__RETRY": '{"total": 0, "connect": 0}',
            }
        )
    assert (done.stdout, done.returncode) == ("answer\n42\n", 0), done.stderr
    # START and COMPLETE
    assert done.stderr.count("an OpenLineage event was not sent") == 2


def test_statements_do_not_wait_for_a_collector_that_does_not_answer(
    session: sqlwin.Session, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()
    emit = events.emit

    def wait(event: Any) -> None:
        answers.wait()
        emit(event)

    monkeypatch.setattr(events, "emit", wait)
    try:
        for _ in range(3):
            assert session.execute("SELECT 1 AS a")[0].to_arrow().num_rows == 1
        assert not sender().flush(0.0)
    finally:
        answers.set()
    assert [event["eventType"] for event in events.take()] == ["START", "COMPLETE"] * 3


def test_events_beyond_a_limit_are_dropped_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sends, answers, sent = Sender(most_waiting=2), threading.Event(), []
    begun = threading.Event()

    def wait() -> None:
        begun.set()
        answers.wait()

    sends.submit(wait)
    begun.wait()
    for number in range(5):
        sends.submit(partial(sent.append, number))
    answers.set()
    sends.flush()
    assert sent == [0, 1]
    assert caplog.text.count("OpenLineage events are dropped") == 1


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("INSERT OVERWRITE o SELECT 1", "sqlwin.insert_into.o"),
        (
            "CREATE MATERIALIZED TABLE m AS SELECT k, COUNT(*) AS n FROM t GROUP BY k",
            "sqlwin.create_materialized_table.m",
        ),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO o SELECT 1; INSERT INTO p SELECT 2; INSERT "
         "INTO o SELECT 3; END", "sqlwin.statement_set.o+p"),
        ("ALTER MATERIALIZED TABLE m REFRESH", "sqlwin.refresh_materialized_table.m"),
        ("ALTER MATERIALIZED TABLE m SUSPEND", None),
        ("CREATE TABLE t (a INT)", None),
        ("SHOW TABLES", None),
        ("SELECT FROM WHERE", None),
        ("", None),
    ],
)  # fmt: skip
def test_statements_have_names_of_jobs(sql: str, name: str | None) -> None:
    job = job_of(sql)
    assert (None if job is None else job.name) == name


def test_an_unknown_field_of_a_facet_is_invalid(session: sqlwin.Session, events: Events) -> None:
    session.execute("SELECT COUNT(*) AS n FROM flights")[0].to_arrow()
    _, complete = events.take()
    complete["inputs"][0]["inputFacets"]["inputStatistics"]["rows"] = 1
    with pytest.raises(jsonschema.ValidationError, match="'rows' was unexpected"):
        validate_event(complete)
