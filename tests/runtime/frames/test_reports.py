"""Decoding of Spark's reports, given as rows or as parsed JSON."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.listener import StreamingQueryProgress

from runtime.frames.reports import BatchReport, SourceReport, WindowReport, report_of

WINDOW = {
    "watermark_us": 7,
    "has_ended": False,
    "sources": [{"watermark_us": 7, "is_idle": True}, {"watermark_us": None, "is_idle": False}],
    "n_late": 1,
    "n_null_times": None,
    "n_rows": 10,
    "n_bytes": 99,
    "next_window_end_us": None,
    "closed_us": 5,
}
SOURCES = [
    {"description": "Files", "numInputRows": 3, "startOffset": None, "endOffset": {"logOffset": 0}},
    {"description": "Rows", "numInputRows": 2.0, "startOffset": 4, "endOffset": 4},
]


def as_rows(value: Any) -> Any:
    """Convert dictionaries to Spark rows, the form of observed metrics in the Python API."""
    if isinstance(value, dict):
        return Row(**{name: as_rows(item) for name, item in value.items()})
    return [as_rows(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("metric", [WINDOW, as_rows(WINDOW)], ids=["JSON", "rows"])
def test_a_report_has_figures_of_spark_and_operators(metric: Any) -> None:
    progress = {
        "batchId": 3,
        "timestamp": "2026-01-31T08:05:00.000Z",
        "numInputRows": 5,
        "durationMs": {"addBatch": 100, "triggerExecution": 250},
        "sources": SOURCES,
        "stateOperators": [{"commitTimeMs": 20}, {"commitTimeMs": 22}],
        "observedMetrics": {
            "sqlwin.window.1": metric,
            "sqlwin.rows.scan": {"rows": 4},
            "sqlwin.read.0.a.b": Row(rows=None),
            "mine": {"rows": 1},
        },
    }
    window = WindowReport(7, False, ((7, True), (None, False)), 1, 0, 10, 99, None, 5)
    report = report_of(progress)
    assert report == BatchReport(
        3,
        "2026-01-31T08:05:00.000Z",
        5.0,
        {"addBatch": 100, "triggerExecution": 250},
        (
            SourceReport("Files", 3.0, has_moved=True, end_offset='{"logOffset": 0}'),
            SourceReport("Rows", 2.0, has_moved=False, end_offset="4"),
        ),
        42,
        {1: window},
        {"scan": 4},
        {"0.a.b": 0},
    )
    assert report.has_run and report.seconds == 0.25


def test_a_report_of_an_idle_trigger_is_empty() -> None:
    idle = report_of({"batchId": 4, "durationMs": {"triggerExecution": 1}, "sources": None})
    assert idle == BatchReport(4, durations_ms={"triggerExecution": 1})
    assert not idle.has_run


def test_a_report_of_pysparks_own_class_is_decoded() -> None:
    source = {"description": "Files", "startOffset": None, "endOffset": {"logOffset": 0}}
    rates = {"inputRowsPerSecond": 1.0, "processedRowsPerSecond": 1.0}
    progress = StreamingQueryProgress.fromJson(
        {
            "id": "6b7fd0b2-3ba5-4a7e-9c33-3f0b3c7f1d11",
            "runId": "6b7fd0b2-3ba5-4a7e-9c33-3f0b3c7f1d12",
            "name": None,
            "timestamp": "2026-01-31T08:05:00.000Z",
            "batchId": 3,
            "batchDuration": 250,
            "numInputRows": 5,
            **rates,
            "durationMs": {"addBatch": 100, "triggerExecution": 250},
            "eventTime": {},
            "stateOperators": [],
            "sources": [{**source, "latestOffset": None, "numInputRows": 3, **rates}],
            "sink": {"description": "s", "numOutputRows": -1},
            "observedMetrics": {"sqlwin.window.0": WINDOW},
        }
    )
    report = report_of(progress)
    assert (report.batch, report.n_input_rows, report.seconds) == (3, 5.0, 0.25)
    assert report.sources == (
        SourceReport("Files", 3.0, has_moved=True, end_offset='{"logOffset": 0}'),
    )
    assert report.windows[0].sources == ((7, True), (None, False))
