"""Reports of micro-batches: one listener for all sessions, whatever their number."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from runtime.sinks.stream_sinks import StreamRun
from runtime.streaming.status import Tally
from sqlwin.execution.streams.history import History
from sqlwin.execution.streams.reports import take_reports


class Streams:
    def __init__(self) -> None:
        self.listeners: list[Any] = []

    def addListener(self, listener: Any) -> None:
        self.listeners.append(listener)


class Spark:
    def __init__(self) -> None:
        self.streams = Streams()


class Taken(History):
    def __init__(self) -> None:
        super().__init__(
            [["t"]], StreamRun("s", "/checkpoint", 0, "w"), Tally(1), "/checkpoint/end-of-input"
        )
        self.reports: list[Any] = []

    def take(self, progress: Any) -> None:
        self.reports.append(progress)


def report(listener: Any, run: str) -> None:
    listener.onQueryProgress(SimpleNamespace(progress={"runId": run}))


def test_all_streams_of_one_spark_have_one_listener_and_each_its_own_reports() -> None:
    spark: Any = Spark()
    first, second = Taken(), Taken()
    take_reports(spark, "run 1", first)
    take_reports(spark, "run 2", second)
    [listener] = spark.streams.listeners
    for run in ("run 2", "run 1", "run 2", "another's run"):
        report(listener, run)
    assert [each["runId"] for each in first.reports] == ["run 1"]
    assert [each["runId"] for each in second.reports] == ["run 2", "run 2"]


def test_a_stream_that_nobody_holds_is_counted_no_more() -> None:
    spark: Any = Spark()
    history = Taken()
    take_reports(spark, "run 1", history)
    [listener] = spark.streams.listeners
    reports = history.reports
    report(listener, "run 1")
    del history
    report(listener, "run 1")
    assert len(reports) == 1
    assert not listener.histories
