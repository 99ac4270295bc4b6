"""`/metrics`: a snapshot in Prometheus' text format.

A stream keeps its labels over a restart, while its counters start at zero, as Prometheus expects.
Statements have no labels of their own, since each would create a series. Running statements are
counted, and their progress is added up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from sqlwin.ui.model import ActivitySnapshot, StatementView, StreamView

_STREAM = ("session", "stream", "name", "into")
_SOURCE = (*_STREAM, "operator", "source")
# Metrics of a stream: name, help, attribute, and whether it is a counter
_OF_STREAM = (
    ("rows_in", "Rows read in this run.", "rows_in", True),
    ("rows_emitted", "Rows written to the sink in this run.", "rows_out", True),
    ("rows_late", "Rows that arrived after all their windows were emitted.", "late", True),
    ("rows_without_time", "Rows without a time, which are in no window.", "without_time", True),
    (
        "rows_dropped",
        "Rows in no window and no side output: late or without a time.",
        "dropped",
        True,
    ),
    (
        "rows_per_second",
        "Rows read per second, averaged over a minute.",
        "rows_per_second",
        False,
    ),
    ("last_batch_seconds", "Duration of the last micro-batch.", "batch_seconds", False),
)


def metrics_text(snapshot: ActivitySnapshot) -> bytes:
    """Return the metrics of a snapshot in Prometheus' text format 0.0.4."""
    registry = CollectorRegistry()
    registry.register(_Collector(snapshot))
    return generate_latest(registry)


class _Collector(Collector):
    def __init__(self, snapshot: ActivitySnapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics. Called by Prometheus' client."""
        return metric_families(self._snapshot)


def metric_families(snapshot: ActivitySnapshot) -> Iterator[Metric]:
    """Yield the metrics of a snapshot. A metric without values has no samples."""
    yield from _stream_metrics(snapshot.streams)
    yield from _statement_metrics(snapshot.statements)


def _stream_metrics(streams: Iterable[StreamView]) -> Iterator[Metric]:
    # a stream restarted under the same name has the same labels: the latest one counts
    by_labels = {
        _labels(stream): stream for stream in sorted(streams, key=lambda stream: stream.begun)
    }
    up = GaugeMetricFamily("sqlwin_stream_up", "Whether the stream is running.", labels=_STREAM)
    for labels, stream in by_labels.items():
        up.add_metric(labels, float(stream.state == "running"))
    yield up
    for name, text, field, grows in _OF_STREAM:
        kind = CounterMetricFamily if grows else GaugeMetricFamily
        metric = kind(f"sqlwin_stream_{name}", text, labels=_STREAM)
        for labels, stream in by_labels.items():
            value = getattr(stream, field)
            if value is not None:
                metric.add_metric(labels, value)
        yield metric
    batches = SummaryMetricFamily(
        "sqlwin_stream_batch_seconds", "Duration of micro-batches.", labels=_STREAM
    )
    phases = CounterMetricFamily(
        "sqlwin_stream_phase_seconds",
        "Time spent in micro-batches, by phase.",
        labels=(*_STREAM, "phase"),
    )
    for labels, stream in by_labels.items():
        batches.add_metric(labels, stream.batches, stream.busy_seconds)
        for phase, seconds in sorted(stream.phases.items()):
            phases.add_metric((*labels, phase), seconds)
    yield from (batches, phases)
    yield from _operator_metrics(by_labels)


def _operator_metrics(streams: dict[tuple[str, ...], StreamView]) -> Iterator[Metric]:
    operator_labels = (*_STREAM, "operator")
    rows = GaugeMetricFamily(
        "sqlwin_stream_state_rows", "Partials in state.", labels=operator_labels
    )
    size = GaugeMetricFamily(
        "sqlwin_stream_state_bytes", "Size of the partials in state.", labels=operator_labels
    )
    watermark = GaugeMetricFamily(
        "sqlwin_stream_watermark_timestamp_seconds",
        "Event time of a source's watermark, in seconds since 1970.",
        labels=_SOURCE,
    )
    lag = GaugeMetricFamily(
        "sqlwin_stream_watermark_lag_seconds",
        "Lag of a source's watermark behind processing time.",
        labels=_SOURCE,
    )
    holds = GaugeMetricFamily(
        "sqlwin_stream_source_holds_back",
        "Whether this source alone holds back the operator's watermark.",
        labels=_SOURCE,
    )
    for labels, stream in streams.items():
        for operator in stream.operators:
            label_values = (*labels, str(operator.number))
            rows.add_metric(label_values, operator.state_rows)
            size.add_metric(label_values, operator.state_bytes)
            for source in operator.sources:
                of_source = (*label_values, source.name)
                holds.add_metric(of_source, float(source.holds_back))
                if source.watermark_us is not None and source.lag_seconds is not None:
                    watermark.add_metric(of_source, source.watermark_us / 1_000_000)
                    lag.add_metric(of_source, source.lag_seconds)
    yield from (rows, size, watermark, lag, holds)


def _statement_metrics(statements: tuple[StatementView, ...]) -> Iterator[Metric]:
    count = GaugeMetricFamily(
        "sqlwin_statements",
        "Recent statements, by state.",
        labels=("state",),
    )
    states = Counter(statement.state for statement in statements)
    for state in ("running", "planned", "done", "failed"):
        count.add_metric((state,), states[state])
    running = [
        statement
        for statement in statements
        if statement.state == "running" and not statement.streams
    ]
    stages = [stage for statement in running for stage in statement.stages]
    figures = (
        ("tasks", "Tasks of running statements.", sum(stage.tasks for stage in stages)),
        (
            "tasks_done",
            "Completed tasks of running statements.",
            sum(stage.tasks_done for stage in stages),
        ),
        (
            "rows_read",
            "Rows that running statements have read from sources.",
            sum(stage.rows_read for stage in stages)
            + sum(statement.rows_read for statement in running),
        ),
    )
    yield count
    for name, text, value in figures:
        yield GaugeMetricFamily(f"sqlwin_running_{name}", text, value=value)


def _labels(stream: StreamView) -> tuple[str, ...]:
    return str(stream.session), str(stream.number), stream.name, stream.into
