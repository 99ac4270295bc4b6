"""Programs that follow a session's statements: tracing with OpenTelemetry, OpenLineage.

Each is configured by its own variables and imported only then. `add_listeners` decides; the other
modules import the libraries.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlwin.execution.runner import Runner

# Variables of OpenTelemetry's SDK that ask for spans
_TRACING = (
    "OTEL_TRACES_EXPORTER",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
)


def add_listeners(runner: Runner, spark: SparkSession) -> None:
    """Add the configured programs as followers of the session's statements.

    OpenTelemetry is configured by its variables, or by a program that has set a tracer provider.

    Raises:
        MissingPackageError: A variable asks for a program that is not installed.
    """
    if is_traced():
        from sqlwin.observers.tracing import trace_statements

        trace_statements(runner, spark)
    if has_lineage():
        from sqlwin.observers.lineage import LineageEvents

        runner.activity.listeners += (LineageEvents(runner),)


def has_lineage() -> bool:
    """Return whether OpenLineage is configured."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").lower() == "true":
        return False
    names = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")
    return any(os.environ.get(name) for name in names) or any(
        name.startswith("OPENLINEAGE__TRANSPORT") for name in os.environ
    )


def is_traced() -> bool:
    """Return whether OpenTelemetry is configured."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    return wants_spans() or _has_provider()


def wants_spans() -> bool:
    """Return whether OpenTelemetry's variables ask for spans."""
    if os.environ.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    return any(os.environ.get(name) for name in _TRACING)


def _has_provider() -> bool:
    """Return whether the program has set a tracer provider. Imports nothing."""
    trace = sys.modules.get("opentelemetry.trace")
    return trace is not None and not isinstance(
        trace.get_tracer_provider(), trace.ProxyTracerProvider
    )
