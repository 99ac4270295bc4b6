"""When finite input is used up, though processing time is due a micro-batch after each."""

from __future__ import annotations

from typing import Any

from runtime.spec.stream import FINAL_US
from runtime.streaming.heartbeat import is_heartbeat
from runtime.streaming.status import has_seen_end
from sqlwin.execution.streams.handle import has_used_up

BEAT = (
    "RatePerMicroBatchStream[rowsPerBatch=1, numPartitions=1, startTimestamp=0, "
    "advanceMsPerBatch=0]"
)


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
    assert not has_used_up(micro_batches(True, True), None)
    assert has_used_up(micro_batches(True, True, False), None)


def test_the_first_micro_batch_of_a_run_may_be_an_old_one_and_proves_nothing() -> None:
    assert not has_used_up(micro_batches(False), None)
    assert has_used_up(micro_batches(False, False), None)
    assert not has_used_up(micro_batches(False, True), None)


def reports(*watermarks: list[int | None]) -> list[dict[str, Any]]:
    """The progress of micro-batches after which operators have these watermarks."""
    return [
        {
            "observedMetrics": {
                f"sqlwin.window.{number}": {"watermark_us": mark}
                for number, mark in enumerate(marks)
            }
        }
        for marks in watermarks
    ]


def test_the_end_has_come_when_it_has_closed_the_windows_of_all_operators() -> None:
    assert not has_seen_end([], 1)
    assert not has_seen_end(reports([5], [None]), 1)
    assert not has_seen_end(reports([FINAL_US, 7]), 2)
    assert has_seen_end(reports([5, 5], [FINAL_US, FINAL_US]), 2)
    # Spark reports when a stream is idle too
    assert has_seen_end([*reports([FINAL_US]), {"observedMetrics": {}}], 1)


def test_a_source_of_a_persons_is_no_heartbeat() -> None:
    assert is_heartbeat({"description": BEAT})
    assert not is_heartbeat({"description": BEAT.replace("rowsPerBatch=1", "rowsPerBatch=10")})
