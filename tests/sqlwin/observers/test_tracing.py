"""Spans of OpenTelemetry: of statements without Spark, of micro-batches from Spark's reports."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import sqlwin
from sqlwin.control import SessionControl
from sqlwin.observers.tracing import StatementSpans, trace_micro_batch
from sqlwin.observers.variables import is_traced
from tests.observing import wait_until
from tests.sqlwin.dbapi.conftest import FLIGHTS
from tests.sqlwin.observers.programs import (
    absent_collector,
    collector,
    follow,
    opened_session,
    run_command,
    set_only,
)

WINDOWS = f"""
    SELECT origin, window_end, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE '{FLIGHTS}', DESCRIPTOR(sched_dep), INTERVAL '182' DAYS))
    GROUP BY origin, window_start, window_end
"""


@pytest.fixture
def tracing() -> tuple[trace.Tracer, InMemorySpanExporter]:
    # not the provider of the process, which would trace the sessions of other tests
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("test"), exporter


@pytest.fixture
def session(tracing: Any) -> Iterator[sqlwin.Session]:
    with opened_session() as opened:
        follow(opened, StatementSpans(SessionControl(opened), tracing[0]))
        yield opened


def spans(tracing: Any) -> list[Any]:
    """Return the finished spans without a parent."""
    return [span for span in tracing[1].get_finished_spans() if span.parent is None]


def test_a_query_is_a_span_that_ends_with_its_rows(session: sqlwin.Session, tracing: Any) -> None:
    (result,) = session.execute(WINDOWS)
    assert spans(tracing) == []
    assert result.to_arrow().num_rows == 9
    (span,) = spans(tracing)
    assert (span.name, span.status.status_code) == ("SELECT", trace.StatusCode.UNSET)
    assert span.attributes["db.query.text"] == WINDOWS.strip()
    assert span.attributes["db.response.returned_rows"] == 9
    assert "ScanLocalWindowAggregate" in span.attributes["sqlwin.plan"]
    parts = [s for s in tracing[1].get_finished_spans() if s.parent is not None]
    assert "computing rows" in {part.name for part in parts}
    assert {part.parent.span_id for part in parts} == {span.context.span_id}
    assert all(
        span.start_time <= part.start_time <= part.end_time <= span.end_time for part in parts
    )
    result.to_arrow()
    assert len(spans(tracing)) == 1


def test_closing_a_result_early_ends_its_query(session: sqlwin.Session, tracing: Any) -> None:
    (result,) = session.execute(WINDOWS)
    rows = result.batches()
    next(rows)
    rows.close()
    assert [span.name for span in spans(tracing)] == ["SELECT"]


def test_other_statements_and_failures_are_spans(session: sqlwin.Session, tracing: Any) -> None:
    session.execute(f"CREATE VIEW v AS {WINDOWS}; SHOW TABLES")
    for failing in ("SELECT nope FROM v", "SELECT 1 / (n - n) FROM v"):
        with pytest.raises(sqlwin.SqlwinError):
            session.execute(failing)[0].to_arrow()
    create, show, unknown, division = spans(tracing)
    assert (create.name, show.name) == ("CREATE", "SHOW")
    assert unknown.status.description == "column `nope` does not exist"
    assert division.status.status_code is trace.StatusCode.ERROR
    assert "division by zero" in division.status.description


def test_the_caller_s_span_is_the_parent(session: sqlwin.Session, tracing: Any) -> None:
    with tracing[0].start_as_current_span("caller") as caller:
        session.execute("SHOW TABLES")
    (shown,) = [span for span in tracing[1].get_finished_spans() if span.name == "SHOW"]
    assert shown.parent.span_id == caller.get_span_context().span_id


def test_secrets_are_masked(session: sqlwin.Session, tracing: Any) -> None:
    with pytest.raises(sqlwin.SqlwinError):
        session.execute(
            "CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = '/tmp/t', "
            "'format' = 'csv', 'fs.s3a.secret.key' = 'hunter2')"
        )
    (span,) = spans(tracing)
    assert "'******'" in span.attributes["db.query.text"]
    assert "hunter2" not in f"{span.attributes} {span.status.description}"


def test_a_listener_that_fails_does_not_fail_the_statement(
    session: sqlwin.Session, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def begin(self, run: object) -> None:
            raise RuntimeError("no")

        end = begin

    follow(session, Broken())
    assert session.execute("SELECT 1 AS a")[0].to_arrow().num_rows == 1
    assert "a listener of statements failed" in caplog.text


def test_a_micro_batch_is_a_span_with_its_phases(tracing: Any) -> None:
    progress = {
        "id": "a1",
        "name": None,
        "batchId": 3,
        "timestamp": "1969-12-31T23:59:59.000Z",
        "durationMs": {"addBatch": 700, "queryPlanning": 100, "triggerExecution": 1000},
        "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"},
        "sources": [{"numInputRows": 5}, {"numInputRows": 2}],
        "stateOperators": [{"numRowsTotal": 4}],
    }
    trace_micro_batch(tracing[0], progress)
    (span,) = spans(tracing)
    assert (span.name, span.start_time, span.end_time) == ("micro-batch", -1_000_000_000, 0)
    assert span.attributes["sqlwin.batch"] == 3
    assert (span.attributes["sqlwin.rows"], span.attributes["sqlwin.state.rows"]) == (7, 4)
    children = [s for s in tracing[1].get_finished_spans() if s.parent is not None]
    assert [child.name for child in children] == ["addBatch", "queryPlanning"]
    tracing[1].clear()
    trace_micro_batch(tracing[0], {**progress, "durationMs": {"triggerExecution": 1}})
    assert spans(tracing) == []


# -- configuration ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "traced"),
    [
        ({}, False),
        ({"OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://h"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_variables_of_opentelemetry_turn_it_on(
    variables: dict[str, str], traced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_only(monkeypatch, "OTEL_", variables)
    assert is_traced() is traced


@pytest.mark.long
def test_the_command_line_exports_spans() -> None:
    with collector(path="/v1/traces") as (url, bodies):
        done = run_command(
            {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_COMPRESSION": "none"}
        )
        assert (done.stdout, done.returncode) == ("answer\n42\n", 0), done.stderr
        wait_until(lambda: bool(bodies))
    request = ExportTraceServiceRequest.FromString(bodies[0])
    (resource,) = request.resource_spans
    names = {
        attribute.key: attribute.value.string_value for attribute in resource.resource.attributes
    }
    assert names["service.name"] == "sqlwin"
    exported = [span.name for scope in resource.scope_spans for span in scope.spans]
    assert "SELECT" in exported


@pytest.mark.long
def test_console_spans_and_an_unreachable_collector_change_no_result() -> None:
    done = run_command({"OTEL_TRACES_EXPORTER": "console"})
    assert done.stdout == "answer\n42\n"
    assert '"name": "SELECT"' in done.stderr
    with absent_collector() as url:
        done = run_command({"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_TIMEOUT": "1"})
    assert (done.stdout, done.returncode) == ("answer\n42\n", 0)


def test_the_end_of_a_process_does_not_wait_for_a_collector_that_hangs() -> None:
    from sqlwin.observers.exporting import shut_down_within

    begun, answers, ended = threading.Event(), threading.Event(), threading.Event()

    class Hanging:
        def shutdown(self) -> None:
            begun.set()
            answers.wait()
            ended.set()

    # returns although the last export does not
    shut_down_within([Hanging(), Hanging()], 0.0)
    begun.wait()
    assert not ended.is_set()
    answers.set()
    ended.wait()

    # a collector that answers gets the last spans
    ended.clear()
    shut_down_within([Hanging()], 60.0)
    assert ended.is_set()


@pytest.mark.long
@pytest.mark.spark
def test_the_micro_batches_of_a_stream_are_spans() -> None:
    script = "queries/streaming/cumulative_daily_totals.sql"
    done = run_command({"OTEL_TRACES_EXPORTER": "console"}, script)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count('"name": "micro-batch"') > 0
    assert '"name": "addBatch"' in done.stderr
