"""Meters of OpenTelemetry: the metrics of the page, exported to a collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import sqlwin
from runtime.frames.reports import report_of
from sqlwin.observers import meters
from sqlwin.observers.meters import SessionMeters
from sqlwin.observers.variables import is_metered
from sqlwin.ui.metrics import metric_families
from sqlwin.ui.model import ActivitySnapshot
from sqlwin.ui.snapshot import snapshot
from tests.observing import wait_until
from tests.sqlwin.observers.programs import (
    collector,
    opened_session,
    run_command,
    set_only,
)
from tests.sqlwin.ui.sessions import progress, stream, watched

Values = dict[str, list[tuple[dict[str, object], float]]]


@pytest.fixture
def reader() -> Iterator[InMemoryMetricReader]:
    reader = InMemoryMetricReader()
    yield reader
    reader.shutdown()


@pytest.fixture
def of_sessions(reader: InMemoryMetricReader) -> SessionMeters:
    # not the provider of the process, which would export the sessions of other tests
    meter = MeterProvider([reader], shutdown_on_exit=False).get_meter("test")
    return SessionMeters(meter, fresh_seconds=0.0)  # each collection sees the latest statements


def values(reader: InMemoryMetricReader) -> Values:
    """Return labels and value of each point, by the name of the metric."""
    data = reader.get_metrics_data()
    return {
        metric.name: [(dict(point.attributes), point.value) for point in metric.data.data_points]
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def snapshot_of_a_stream() -> ActivitySnapshot:
    item, _ = stream()
    item.history.take(report_of(progress(0)))
    return snapshot([watched(item)])


def statements(reader: InMemoryMetricReader) -> dict[object, float]:
    return {labels["state"]: value for labels, value in values(reader)["sqlwin_statements"]}


def test_statements_are_counted_by_state(
    of_sessions: SessionMeters, reader: InMemoryMetricReader
) -> None:
    with opened_session() as session:
        of_sessions.add(session)
        session.execute("SHOW TABLES")
        with pytest.raises(sqlwin.SqlwinError):
            session.execute("SELECT nope FROM (VALUES (1)) AS t(a)")
        assert statements(reader) == {"running": 0, "planned": 0, "done": 1, "failed": 1}
        session.execute("SHOW VIEWS")
        assert statements(reader)["done"] == 2


def test_a_session_that_is_gone_is_not_counted(
    of_sessions: SessionMeters, reader: InMemoryMetricReader
) -> None:
    with opened_session() as session:
        of_sessions.add(session)
        session.execute("SHOW TABLES")
    del session
    gc.collect()
    assert statements(reader)["done"] == 0


def test_a_stream_has_the_values_of_the_page(
    of_sessions: SessionMeters, reader: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = snapshot_of_a_stream()
    monkeypatch.setattr(meters, "snapshot", lambda *_, **__: shown)
    exported = values(reader)
    samples = [sample for family in metric_families(shown) for sample in family.samples]
    assert samples
    for sample in samples:
        name = sample.name.removesuffix("_total")
        assert (sample.labels, sample.value) in exported[name], sample.name
    assert sum(map(len, exported.values())) == len(samples)


def test_the_last_values_remain_when_spark_is_gone(
    of_sessions: SessionMeters, reader: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = snapshot_of_a_stream()
    monkeypatch.setattr(meters, "snapshot", lambda *_, **__: shown)
    before = values(reader)

    def fails(*_: object, **__: object) -> ActivitySnapshot:
        raise ConnectionRefusedError

    monkeypatch.setattr(meters, "snapshot", fails)
    assert values(reader) == before
    monkeypatch.setattr(meters, "snapshot", lambda *_, **__: replace(shown, streams=()))
    assert "sqlwin_stream_up" not in values(reader)


@pytest.mark.parametrize(
    ("variables", "metered"),
    [
        ({}, False),
        ({"OTEL_METRICS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://h"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://h"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://h"}, False),
        ({"OTEL_METRICS_EXPORTER": "console"}, True),
        ({"OTEL_METRICS_EXPORTER": "console", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_variables_of_opentelemetry_turn_it_on(
    variables: dict[str, str], metered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_only(monkeypatch, "OTEL_", variables)
    assert is_metered() is metered


@pytest.mark.long
def test_the_command_line_exports_its_meters_at_the_end() -> None:
    with collector(path="/v1/metrics") as (url, bodies):
        done = run_command(
            {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_COMPRESSION": "none"}
        )
        assert (done.stdout, done.returncode) == ("answer\n42\n", 0), done.stderr
        wait_until(lambda: bool(bodies))
    request = ExportMetricsServiceRequest.FromString(bodies[-1])
    (resource,) = request.resource_metrics
    names = {a.key: a.value.string_value for a in resource.resource.attributes}
    assert names["service.name"] == "sqlwin"
    (counted,) = (
        metric
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == "sqlwin_statements"
    )
    by_state = {
        point.attributes[0].value.string_value: point.as_double + point.as_int
        for point in counted.gauge.data_points
    }
    assert by_state["done"] == 1
