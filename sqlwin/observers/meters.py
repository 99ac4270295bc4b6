"""Meters of OpenTelemetry: the metrics of `/metrics`, under the same names and labels.

Each metric is an observable instrument. An export reads a snapshot of the sessions of the process.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakSet

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from runtime.errors import packages_of
from sqlwin.observers.exporting import set_service_name, shut_down_at_exit
from sqlwin.observers.variables import is_provider
from sqlwin.ui.metrics import metric_families
from sqlwin.ui.model import ActivitySnapshot
from sqlwin.ui.snapshot import session_to_watch, snapshot

with packages_of("otel", "OTEL_* in the environment"):
    from opentelemetry import metrics
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

if TYPE_CHECKING:
    from prometheus_client import Metric

    from sqlwin.session import Session

# Seconds in which the instruments of an export share a snapshot
_FRESH_SECONDS = 0.5


class SessionMeters:
    """Instruments whose values come from snapshots of sessions.

    Args:
        meter: Makes the instruments.
        fresh_seconds: Time for which a snapshot is used.
    """

    def __init__(self, meter: Meter, fresh_seconds: float = _FRESH_SECONDS) -> None:
        self._fresh_seconds = fresh_seconds
        self._sessions: WeakSet[Session] = WeakSet()
        self._lock = threading.Lock()
        self._families: dict[str, Metric] = {}
        self._read_at = float("-inf")
        for family in metric_families(ActivitySnapshot(0.0, (), (), ())):
            if family.type == "summary":
                for part in ("count", "sum"):
                    name = f"{family.name}_{part}"
                    callbacks = [self._observe(family.name, name)]
                    meter.create_observable_counter(
                        name, callbacks, description=family.documentation
                    )
            elif family.type == "counter":
                callbacks = [self._observe(family.name, f"{family.name}_total")]
                meter.create_observable_counter(
                    family.name, callbacks, description=family.documentation
                )
            else:
                callbacks = [self._observe(family.name, family.name)]
                meter.create_observable_gauge(
                    family.name, callbacks, description=family.documentation
                )

    def add(self, session: Session) -> None:
        """Add a session, which is shown until it is collected as garbage."""
        with self._lock:
            self._sessions.add(session)

    def _observe(
        self, family: str, sample: str
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        """Return the callback of an instrument.

        Args:
            family: Name of its metric.
            sample: Name of the samples of the metric that it observes.
        """

        def observe(_: CallbackOptions) -> Iterable[Observation]:
            metric = self._latest().get(family)
            samples = [] if metric is None else metric.samples
            return [Observation(s.value, dict(s.labels)) for s in samples if s.name == sample]

        return observe

    def _latest(self) -> dict[str, Metric]:
        """Return the metrics of a recent snapshot, or the last ones if Spark is gone."""
        with self._lock:
            now = time.monotonic()
            if now - self._read_at >= self._fresh_seconds:
                self._read_at = now
                try:
                    latest = snapshot([session_to_watch(s) for s in self._sessions], watches=False)
                except (PySparkException, Py4JError, OSError):
                    return self._families
                self._families = {family.name: family for family in metric_families(latest)}
            return self._families


# Instruments of each meter provider
_meters: WeakKeyDictionary[metrics.MeterProvider, SessionMeters] = WeakKeyDictionary()


def export_meters(session: Session) -> None:
    """Export the metrics of a session.

    Without a meter provider of the program, set one up from OpenTelemetry's variables.
    """
    if not is_provider(metrics.get_meter_provider()):
        _set_up_provider()
    provider = metrics.get_meter_provider()
    if provider not in _meters:
        _meters[provider] = SessionMeters(provider.get_meter("sqlwin"))
    _meters[provider].add(session)


def _set_up_provider() -> None:
    """Set a meter provider as OpenTelemetry's variables describe it."""
    with packages_of("otel", "OTEL_* in the environment"):
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import (
            ConsoleMetricExporter,
            MetricExporter,
            PeriodicExportingMetricReader,
        )

        exporter: MetricExporter
        if os.environ.get("OTEL_METRICS_EXPORTER") == "console":
            import sys

            exporter = ConsoleMetricExporter(out=sys.stderr)
        else:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

            exporter = OTLPMetricExporter()
    set_service_name()
    reader = PeriodicExportingMetricReader(exporter)
    provider = MeterProvider([reader], shutdown_on_exit=False)
    metrics.set_meter_provider(provider)
    shut_down_at_exit(provider)
