"""Histories have every micro-batch of a run, although Spark keeps only the last reports."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from runtime.frames.reports import report_of
from runtime.sinks.stream_sinks import StreamRun
from runtime.streaming.status import Tally
from sqlwin.execution.streams.history import History


def report(batch: int) -> dict[str, Any]:
    return {
        "batchId": batch,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "numInputRows": 5,
        "durationMs": {"addBatch": 10, "triggerExecution": 20},
        "sources": [{"description": "t", "numInputRows": 5}],
        "stateOperators": [],
        "observedMetrics": {},
    }


class Query:
    """A query that keeps its last reports; new ones appear each time its state is read."""

    def __init__(self, *steps: int) -> None:
        self._steps = list(steps)
        self.reports: list[dict[str, Any]] = []
        self.n_lists = 0

    @property
    def isActive(self) -> bool:
        if not self._steps:
            return False
        n_new = self._steps.pop(0)
        first = self.reports[-1]["batchId"] + 1 if self.reports else 0
        self.reports = [*self.reports, *map(report, range(first, first + n_new))][-4:]
        return True

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        return self.reports[-1] if self.reports else None

    @property
    def recentProgress(self) -> list[dict[str, Any]]:
        self.n_lists += 1
        return self.reports


def empty_history() -> History:
    run = StreamRun("s", "/checkpoint", 0, "w")
    return History([["t"]], run, Tally(1), "/checkpoint/end-of-input")


def test_each_micro_batch_is_counted_once() -> None:
    history, query = empty_history(), Query(0, 1, 1, 0, 3, 2)
    query_: Any = query
    history.follow(query_, every_s=0.0)
    _, totals, points = history.seen()
    assert [point.batch for point in points] == list(range(7))
    assert (totals.batches, totals.rows_in) == (7, 35)
    # the list is fetched only after missed reports
    assert query.n_lists == 2


def test_the_rest_of_a_hybrid_tables_history_takes_its_time() -> None:
    history = empty_history()
    assert history.history_left() is None
    for batch, offset in enumerate(({"first": 1, "of": 4}, {"first": 2, "of": 4})):
        progress = report(batch)
        other = {"description": "another source", "numInputRows": 1, "endOffset": "no JSON"}
        progress["sources"] = [other, progress["sources"][0] | {"endOffset": offset}]
        progress["durationMs"]["triggerExecution"] = 1_000 * (batch + 1)
        history.take(report_of(progress))
    # two more ranges of 1.5 seconds
    assert history.history_left() == (2, 4, 3.0)
    progress = report(2)
    progress["sources"][0]["endOffset"] = {"first": 4, "of": 4, "then": 1}
    history.take(report_of(progress))
    assert history.history_left() is None


def test_a_stopped_spark_ends_the_thread() -> None:
    class Gone:
        @property
        def isActive(self) -> bool:
            raise ConnectionRefusedError

    stopped_spark: Any = Gone()
    history = empty_history()
    history.follow(stopped_spark)
    assert history.seen()[1].batches == 0


def test_a_resumed_run_starts_with_its_own_first_micro_batch() -> None:
    history = empty_history()
    query: Any = SimpleNamespace(lastProgress=report(8), recentProgress=[report(7), report(8)])
    history.pull(query)
    history.pull(query)
    assert [point.batch for point in history.seen()[2]] == [7, 8]
