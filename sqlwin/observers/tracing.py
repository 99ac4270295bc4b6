"""Spans of OpenTelemetry for statements and micro-batches.

A statement is a span, and each part of its run time a child. A micro-batch begins a trace, because
streams outlive the statements that start them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from runtime.errors import packages_of
from runtime.spark.on_demand import when_started
from sqlwin.execution.activity import StatementRun, StatementState
from sqlwin.observers.exporting import set_service_name, shut_down_at_exit
from sqlwin.observers.variables import is_provider

with packages_of("otel", "OTEL_* in the environment"):
    from opentelemetry import trace
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlwin.control import SessionControl

_NANOSECONDS = 1_000_000_000
# Maximum characters of a statement in its span
_MAX_TEXT = 10_000
# Spark sessions whose micro-batches are traced
_traced_sessions: WeakSet[SparkSession] = WeakSet()


def trace_statements(control: SessionControl) -> None:
    """Make spans of the statements of a session, and of the micro-batches of its Spark session.

    Without a tracer provider of the program, set one up from OpenTelemetry's variables.
    """
    if not is_provider(trace.get_tracer_provider()):
        _set_up_provider()
    control.activity.listeners += (StatementSpans(control, trace.get_tracer("sqlwin")),)
    if not control.is_remote:
        when_started(control.spark, trace_micro_batches)


class StatementSpans:
    """Listener that makes a span of each statement.

    Args:
        control: The session, whose mask hides secrets.
        tracer: Makes the spans.
    """

    def __init__(self, control: SessionControl, tracer: trace.Tracer) -> None:
        self._control = control
        self._tracer = tracer

    def begin(self, run: StatementRun) -> None:
        """Begin a span, whose parent is the caller's span."""
        record = run.record
        mask = self._control.mask
        text = mask.text(record.text)
        words = text.split(maxsplit=1)
        span = self._tracer.start_span(
            words[0].upper() if words else "statement",
            kind=SpanKind.INTERNAL,
            start_time=_nanoseconds(record.begun),
            attributes={
                "db.system.name": "sqlwin",
                "db.query.text": text[:_MAX_TEXT],
                "sqlwin.session": self._control.activity.session,
                "sqlwin.statement": record.number,
            },
        )
        # a record outlives its span by the statements that a session keeps
        run.marks["span"] = span

    def end(self, run: StatementRun) -> None:
        """End the span, with children for the parts of its run time."""
        span: Span = run.marks.pop("span")
        record = run.record
        ended = record.ended or record.begun
        context = trace.set_span_in_context(span)
        for part in record.spans:
            child = self._tracer.start_span(part.name, context, start_time=_nanoseconds(part.begun))
            child.end(_nanoseconds(part.ended or ended))
        if record.n_rows is not None:
            span.set_attribute("db.response.returned_rows", record.n_rows)
        if record.streams:
            span.set_attribute("sqlwin.streams", list(record.streams))
        operators = [type(node).__name__ for plan in run.plans for node in plan.physical.walk()]
        if operators:
            span.set_attribute("sqlwin.plan", operators)
        if record.state is StatementState.FAILED:
            message = self._control.mask.text(record.message)
            span.set_status(Status(StatusCode.ERROR, message))
        span.end(_nanoseconds(max(ended, record.begun)))


def trace_micro_batches(spark: SparkSession) -> None:
    """Make a span of each micro-batch that the streams of a Spark session run."""
    if spark in _traced_sessions:
        return
    _traced_sessions.add(spark)
    from pyspark.sql.streaming.listener import StreamingQueryListener

    tracer = trace.get_tracer("sqlwin")

    class MicroBatches(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            import json

            trace_micro_batch(tracer, json.loads(event.progress.json))

        def onQueryIdle(self, event: Any) -> None:
            pass

        def onQueryTerminated(self, event: Any) -> None:
            pass

    spark.streams.addListener(MicroBatches())


def trace_micro_batch(tracer: Any, progress: Mapping[str, Any]) -> None:
    """Make a span of a micro-batch from Spark's report. Its phases are children, one by one."""
    durations: Mapping[str, int] = progress.get("durationMs", {})
    if "addBatch" not in durations:
        return  # nothing ran
    begun = datetime.fromisoformat(progress["timestamp"]).timestamp()
    sources = progress.get("sources", [])
    attributes = {
        "sqlwin.stream.id": progress["id"],
        "sqlwin.stream.name": progress.get("name") or "",
        "sqlwin.batch": progress["batchId"],
        "sqlwin.rows": sum(int(source.get("numInputRows", 0)) for source in sources),
        "sqlwin.state.rows": sum(
            int(operator.get("numRowsTotal", 0)) for operator in progress.get("stateOperators", [])
        ),
    }
    if watermark := progress.get("eventTime", {}).get("watermark"):
        attributes["sqlwin.watermark"] = watermark
    span = tracer.start_span("micro-batch", start_time=_nanoseconds(begun), attributes=attributes)
    context = trace.set_span_in_context(span)
    at = begun
    for name, milliseconds in durations.items():
        if name != "triggerExecution":
            child = tracer.start_span(name, context, start_time=_nanoseconds(at))
            at += milliseconds / 1_000
            child.end(_nanoseconds(at))
    batch_end = begun + durations.get("triggerExecution", 0) / 1_000
    span.end(_nanoseconds(max(batch_end, at)))


def _set_up_provider() -> None:
    """Set a tracer provider as OpenTelemetry's variables describe it."""
    with packages_of("otel", "OTEL_* in the environment"):
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import (
            BatchSpanProcessor,
            ConsoleSpanExporter,
            SpanExporter,
        )

        exporter: SpanExporter
        if os.environ.get("OTEL_TRACES_EXPORTER") == "console":
            import sys

            exporter = ConsoleSpanExporter(out=sys.stderr)
        else:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            exporter = OTLPSpanExporter()
    set_service_name()
    # the provider's own end of the process retries for up to ten seconds
    provider = TracerProvider(shutdown_on_exit=False)
    # exports in the background, and drops spans while the collector is away
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    shut_down_at_exit(provider)


def _nanoseconds(seconds: float) -> int:
    return int(seconds * _NANOSECONDS)
