"""Observed metrics of window operators, as found in Spark's progress reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Prefix of the metric of a window operator; the operator's number follows
WINDOW_METRIC = "sqlwin.window."


def as_dict(row: Any) -> dict[str, Any]:
    """Convert a row of metrics, a Row of Spark's Python API or parsed JSON, to a dictionary."""
    fields: dict[str, Any] = row.asDict(recursive=True) if hasattr(row, "asDict") else dict(row)
    return fields


def window_metric(progress: Mapping[str, Any], number: int) -> dict[str, Any] | None:
    """Return the metric that a window operator reported in a micro-batch, or None.

    Args:
        progress: Spark's progress report of the micro-batch.
        number: number of the operator in the query, from 0.
    """
    metrics = progress.get("observedMetrics") or {}
    row = metrics.get(f"{WINDOW_METRIC}{number}")
    return None if row is None else as_dict(row)


def closed_after(progress: Mapping[str, Any], number: int) -> int | None:
    """Return the end, in microseconds, of the last window that a micro-batch closed.

    Windows of the operator that end at or before it take no more rows. None if no window is closed
    or the operator reported nothing. For the arguments see `window_metric`.
    """
    metric = window_metric(progress, number)
    return None if metric is None else metric.get("closed_us")
