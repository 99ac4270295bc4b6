"""Detection of the end of finite input although processing time triggers further micro-batches."""

from __future__ import annotations

from typing import Any

from runtime.frames.heartbeat import is_heartbeat
from runtime.frames.reports import BatchReport, SourceReport, report_of
from runtime.spec.stream import FINAL_US
from runtime.streaming.status import has_seen_end
from sqlwin.execution.streams.handle import InputWatch, has_used_up

BEAT = (
    "RatePerMicroBatchStream[rowsPerBatch=1, numPartitions=1, startTimestamp=0, "
    "advanceMsPerBatch=0]"
)


def decode(reports: list[dict[str, Any]]) -> list[BatchReport]:
    return [report_of(report) for report in reports]


def micro_batches(*read: bool) -> list[dict[str, Any]]:
    """Return the progress of micro-batches that read a file source, or did not."""
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


def test_input_ends_when_a_micro_batch_reads_nothing() -> None:
    assert not has_used_up([], None)
    assert not has_used_up(decode(micro_batches(True, True)), None)
    assert has_used_up(decode(micro_batches(True, True, False)), None)


def test_the_first_micro_batch_of_a_run_does_not_prove_the_end() -> None:
    assert not has_used_up(decode(micro_batches(False)), None)
    assert has_used_up(decode(micro_batches(False, False)), None)
    assert not has_used_up(decode(micro_batches(False, True)), None)


class Query:
    """Spark's handle of a query. It counts how often all reports are fetched."""

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
    """Return the answers between reports; some looks see several reports, most see none."""
    result = []
    for batch in batches:
        query.reports.append(batch)
        result += [watch.is_used_up() for _ in range(3)]
    return result


def test_reports_are_fetched_only_if_the_input_may_have_ended() -> None:
    query: Any = Query()
    watch = InputWatch(query)
    assert not watch.is_used_up()
    batches = micro_batches(False, *[True] * 50, False)
    result = looks(query, watch, batches)
    assert result.index(True) == 3 * 51
    assert query.n_fetched == 2
    # counted again from there, without earlier micro-batches
    again = InputWatch(query)
    assert not again.is_used_up()
    later = [
        {**micro_batch, "batchId": 100 + micro_batch["batchId"]}
        for micro_batch in micro_batches(True, False)
    ]
    assert looks(query, again, later) == [False, False, False, True, False, False]


def test_windows_closed_by_an_earlier_end_count() -> None:
    query: Any = Query()
    names = [{"batchId": n, "timestamp": "t", "sources": []} for n in range(3)]
    history = [
        {**n, **r} for n, r in zip(names, reports([5], [FINAL_US - 1], ["end"]), strict=True)
    ]
    query.reports = history[:1]
    watch = InputWatch(query, 1)
    assert looks(query, watch, history[1:]) == [False, False, False, True, False, False]
    assert query.n_fetched == 2
    assert InputWatch(query, 1).is_used_up()


def reports(*watermarks: list[int | str | None]) -> list[dict[str, Any]]:
    """Return the progress of micro-batches whose operators have these watermarks, or the end."""
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


def test_the_end_is_reached_when_all_operators_closed_their_windows() -> None:
    assert not has_seen_end([], 1)
    assert not has_seen_end(decode(reports([5], [None])), 1)
    assert not has_seen_end(decode(reports(["end", 7])), 2)
    assert not has_seen_end(decode(reports([FINAL_US, 2**62])), 2)
    assert has_seen_end(decode(reports([5, 5], ["end", "end"])), 2)
    # Spark reports when a stream is idle too
    assert has_seen_end(decode([*reports(["end"]), {"observedMetrics": {}}]), 1)


def test_a_source_of_a_persons_is_no_heartbeat() -> None:
    assert is_heartbeat(SourceReport(BEAT, 1, has_moved=True))
    assert not is_heartbeat(
        SourceReport(BEAT.replace("rowsPerBatch=1", "rowsPerBatch=10"), 1, has_moved=True)
    )
