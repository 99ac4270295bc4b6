"""When finite input is used up, though processing time is due a micro-batch after each."""

from __future__ import annotations

from typing import Any

from runtime.frames.reports import BatchReport, SourceReport, report_of
from runtime.spec.stream import FINAL_US
from runtime.streaming.heartbeat import is_heartbeat
from runtime.streaming.status import has_seen_end
from sqlwin.execution.streams.handle import InputWatch, has_used_up

BEAT = (
    "RatePerMicroBatchStream[rowsPerBatch=1, numPartitions=1, startTimestamp=0, "
    "advanceMsPerBatch=0]"
)


def decoded(reports: list[dict[str, Any]]) -> list[BatchReport]:
    return [report_of(report) for report in reports]


def micro_batches(*read: bool) -> list[dict[str, Any]]:
    """The progress of micro-batches that have read something of a file source, or not."""
    return [
        {
            "batchId": number,
            "timestamp": f"2026-05-01T10:00:{number:02}.000Z",
            "sources": [
                {"description": BEAT, "startOffset": number, "endOffset": number + 1},
                {"description": "Files", "startOffset": number, "endOffset": number + has_read},
            ],
        }
        for number, has_read in enumerate(read)
    ]


def test_input_is_used_up_when_a_micro_batch_has_read_nothing() -> None:
    assert not has_used_up([], None)
    assert not has_used_up(decoded(micro_batches(True, True)), None)
    assert has_used_up(decoded(micro_batches(True, True, False)), None)


def test_the_first_micro_batch_of_a_run_may_be_an_old_one_and_proves_nothing() -> None:
    assert not has_used_up(decoded(micro_batches(False)), None)
    assert has_used_up(decoded(micro_batches(False, False)), None)
    assert not has_used_up(decoded(micro_batches(False, True)), None)


class Query:
    """What Spark has of a query; it counts how often all reports are fetched."""

    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []
        self.n_fetched = 0

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        return self.reports[-1] if self.reports else None

    @property
    def recentProgress(self) -> list[dict[str, Any]]:
        self.n_fetched += 1
        return self.reports


def looks(query: Any, watch: InputWatch, batches: list[dict[str, Any]]) -> list[bool]:
    """What is said after each report, of which some come between two looks, and none mostly."""
    found = []
    for each in batches:
        query.reports.append(each)
        found += [watch.is_used_up() for _ in range(3)]
    return found


def test_reports_are_fetched_when_the_last_one_may_say_that_input_is_used_up() -> None:
    query: Any = Query()
    watch = InputWatch(query)
    assert not watch.is_used_up()
    batches = micro_batches(False, *[True] * 50, False)
    found = looks(query, watch, batches)
    assert found.index(True) == 3 * 51
    assert query.n_fetched == 2
    # once more, from there on: what came before does not count
    again = InputWatch(query)
    assert not again.is_used_up()
    later = [{**each, "batchId": 100 + each["batchId"]} for each in micro_batches(True, False)]
    assert looks(query, again, later) == [False, False, False, True, False, False]


def test_what_the_end_has_closed_before_it_is_asked_for_counts() -> None:
    query: Any = Query()
    names = [{"batchId": n, "timestamp": "t", "sources": []} for n in range(3)]
    known = [{**n, **r} for n, r in zip(names, reports([5], [FINAL_US - 1], ["end"]), strict=True)]
    query.reports = known[:1]
    watch = InputWatch(query, 1)
    assert looks(query, watch, known[1:]) == [False, False, False, True, False, False]
    assert query.n_fetched == 2
    assert InputWatch(query, 1).is_used_up()


def reports(*watermarks: list[int | str | None]) -> list[dict[str, Any]]:
    """The progress of micro-batches after which operators have these watermarks, or the end."""
    return [
        {
            "observedMetrics": {
                f"sqlwin.window.{number}": {
                    "watermark_us": FINAL_US if mark == "end" else mark,
                    "has_ended": mark == "end",
                }
                for number, mark in enumerate(marks)
            }
        }
        for marks in watermarks
    ]


def test_the_end_has_come_when_it_has_closed_the_windows_of_all_operators() -> None:
    assert not has_seen_end([], 1)
    assert not has_seen_end(decoded(reports([5], [None])), 1)
    assert not has_seen_end(decoded(reports(["end", 7])), 2)
    assert not has_seen_end(decoded(reports([FINAL_US, 2**62])), 2)
    assert has_seen_end(decoded(reports([5, 5], ["end", "end"])), 2)
    # Spark reports when a stream is idle too
    assert has_seen_end(decoded([*reports(["end"]), {"observedMetrics": {}}]), 1)


def test_a_source_of_a_persons_is_no_heartbeat() -> None:
    assert is_heartbeat(SourceReport(BEAT, 1, has_moved=True))
    assert not is_heartbeat(
        SourceReport(BEAT.replace("rowsPerBatch=1", "rowsPerBatch=10"), 1, has_moved=True)
    )
