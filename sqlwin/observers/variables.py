"""Whether the programs that follow statements are configured. Imports none of their libraries."""

from __future__ import annotations

import os
import sys


def has_lineage() -> bool:
    """Return whether OpenLineage is configured."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").lower() == "true":
        return False
    names = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")
    return any(os.environ.get(name) for name in names) or any(
        name.startswith("OPENLINEAGE__TRANSPORT") for name in os.environ
    )


def is_traced() -> bool:
    """Return whether OpenTelemetry is configured for spans."""
    trace = sys.modules.get("opentelemetry.trace")
    is_set_up = trace is not None and is_provider(trace.get_tracer_provider())
    return not _is_disabled() and (wants_exports("TRACES") or is_set_up)


def is_metered() -> bool:
    """Return whether OpenTelemetry is configured for meters."""
    metrics = sys.modules.get("opentelemetry.metrics")
    is_set_up = metrics is not None and is_provider(metrics.get_meter_provider())
    return not _is_disabled() and (wants_exports("METRICS") or is_set_up)


def is_provider(provider: object) -> bool:
    """Return whether a program has set a provider. The ones of the API itself do nothing."""
    return not type(provider).__module__.startswith(
        ("opentelemetry.trace", "opentelemetry.metrics")
    )


def wants_exports(signal: str) -> bool:
    """Return whether OpenTelemetry's variables ask for exports of a signal.

    Args:
        signal: TRACES or METRICS, as in the names of the variables.
    """
    exporter = f"OTEL_{signal}_EXPORTER"
    if os.environ.get(exporter) == "none":
        return False
    names = (exporter, "OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    return any(os.environ.get(name) for name in names)


def _is_disabled() -> bool:
    return os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
