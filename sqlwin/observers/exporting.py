"""Providers of OpenTelemetry's SDK that sqlwin sets up, and their last export."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Sequence
from typing import Protocol

# Seconds that the end of the process waits for the last exports
_END_SECONDS = 2.0


class ShutsDown(Protocol):
    """A provider of OpenTelemetry's SDK."""

    def shutdown(self) -> None:
        """Export the data that waits, and stop."""


_providers: list[ShutsDown] = []


def set_service_name() -> None:
    """Name the service of all data `sqlwin`, unless a variable has another name."""
    os.environ.setdefault("OTEL_SERVICE_NAME", "sqlwin")


def shut_down_at_exit(provider: ShutsDown) -> None:
    """Shut a provider down at the end of the process, which does not wait for long."""
    if not _providers:
        atexit.register(lambda: shut_down_within(_providers, _END_SECONDS))
    _providers.append(provider)


def shut_down_within(providers: Sequence[ShutsDown], seconds: float) -> None:
    """Export the data that waits, and stop. After `seconds`, drop the rest.

    Args:
        providers: Providers, which export at the same time.
        seconds: Maximum time to wait for a collector.
    """
    threads = [
        threading.Thread(target=provider.shutdown, name="sqlwin-last-export", daemon=True)
        for provider in providers
    ]
    for thread in threads:
        thread.start()
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
