"""When finite input is used up, though processing time is due a micro-batch after each."""

from __future__ import annotations

from typing import Any

from runtime.streaming.heartbeat import is_heartbeat
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
    assert not has_used_up([], None, False)
    assert not has_used_up(micro_batches(True, True), None, False)
    assert has_used_up(micro_batches(True, True, False), None, False)


def test_the_first_micro_batch_of_a_run_may_be_an_old_one_and_proves_nothing() -> None:
    assert not has_used_up(micro_batches(False), None, False)
    assert has_used_up(micro_batches(False, False), None, False)
    assert not has_used_up(micro_batches(False, True), None, False)


def test_the_end_of_the_input_has_to_be_read() -> None:
    before = (1, "2026-05-01T10:00:01.000Z")
    assert not has_used_up(micro_batches(True, False), before, True)
    assert not has_used_up(micro_batches(True, False, False, False), before, True)
    assert has_used_up(micro_batches(True, False, False, True, False), before, True)


def test_a_source_of_a_persons_is_no_heartbeat() -> None:
    assert is_heartbeat({"description": BEAT})
    assert not is_heartbeat({"description": BEAT.replace("rowsPerBatch=1", "rowsPerBatch=10")})
