"""The status of a stream explains in a sentence why it emits nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runtime.frames.reports import report_of
from runtime.streaming.source_reads import PATHS
from runtime.streaming.status import (
    OperatorStatus,
    SourceStatus,
    StreamStatus,
    Tally,
    arrival_rate,
    clock,
    seconds_of,
    silence,
    status_notes,
    stream_status,
    watermark_text,
)

HOUR = 3_600_000_000
MAX = 2**63 - 1
BEAT = (
    "RatePerMicroBatchStream[rowsPerBatch=1, numPartitions=1, startTimestamp=0, "
    "advanceMsPerBatch=0]"
)


def test_a_silent_stream_whose_watermark_follows_the_clock_says_so():
    behind = operator(source("a", 2 * HOUR), source("b", HOUR), next_window_end_us=3 * HOUR)
    text = silence(StreamStatus(1, operators=(replace(behind, follows_clock=True),)), 0)
    assert text.endswith("before it, and advances with the clock because all sources are silent")


def source(name: str, watermark_us: int | None, is_idle: bool = False) -> SourceStatus:
    return SourceStatus(name, watermark_us, is_idle, watermark_us == MAX)


def operator(*sources: SourceStatus, **fields: Any) -> OperatorStatus:
    watermarks = [s.watermark_us for s in sources if s.watermark_us is not None and not s.is_idle]
    watermark = (
        min(watermarks) if len(watermarks) == len([s for s in sources if not s.is_idle]) else None
    )
    defaults = {
        "n_late": 0,
        "n_null_times": 0,
        "n_rows": 0,
        "n_bytes": 0,
        "next_window_end_us": None,
    }
    has_ended = bool(sources) and all(item.is_done for item in sources)
    return OperatorStatus(watermark, has_ended, sources, **{**defaults, **fields})


@pytest.mark.parametrize(
    ("operators", "message"),
    [
        (
            [operator(source("bids", 2 * HOUR), next_window_end_us=3 * HOUR, n_rows=4)],
            "the next window to close ends at 1970-01-01 03:00:00; the watermark is at "
            "1970-01-01 02:00:00, 1 h 00 min before it",
        ),
        (
            [operator(source("a", 2 * HOUR), source("b", HOUR), next_window_end_us=3 * HOUR)],
            "the next window to close ends at 1970-01-01 03:00:00; the watermark is at "
            "1970-01-01 01:00:00, 2 h 00 min before it, held back by `b`",
        ),
        (
            [operator(source("a", 2 * HOUR), source("b", None), next_window_end_us=3 * HOUR)],
            "there is no watermark yet, because no row with a time has arrived from `b`",
        ),
        (
            [operator(source("a", 2 * HOUR), source("b", None, is_idle=True), next_window_end_us=3 * HOUR)],
            "the next window to close ends at 1970-01-01 03:00:00; the watermark is at "
            "1970-01-01 02:00:00, 1 h 00 min before it, held back by `a`",
        ),
        (
            [operator(source("a", HOUR), source("b", HOUR), next_window_end_us=3 * HOUR)],
            "the next window to close ends at 1970-01-01 03:00:00; the watermark is at "
            "1970-01-01 01:00:00, 2 h 00 min before it",
        ),
        ([operator(source("a", None))], "there is no watermark yet, because no row with a time has arrived from `a`"),
        ([operator(source("a", None), n_rows=4)], "groups and ranks without a window are emitted when they change"),
        ([operator(source("a", HOUR), n_late=5, n_null_times=1)], "all rows were dropped: 5 late, 1 without a time"),
        ([operator(source("a", MAX))], "all windows with rows are closed and emitted"),
        ([], "rows are emitted as they arrive"),
    ],
)  # fmt: skip
def test_silence_is_explained(operators: list[OperatorStatus], message: str) -> None:
    status = StreamStatus(batch=3, n_input_rows=10, operators=tuple(operators))
    assert silence(status, n_rows=0) == message


def test_a_running_first_micro_batch_is_the_reason() -> None:
    assert silence(StreamStatus(), None) == "the first micro-batch is still running"


def test_files_that_are_not_published_yet_are_the_reason() -> None:
    waiting = (operator(source("a", 1)),)
    status = StreamStatus(batch=3, operators=waiting, incomplete=("a", "b"))
    assert silence(status, 5) == (
        "the watermark waits for files of `a` and `b` that a writer has not published yet, "
        "unlike other files of the same micro-batch; run the writer again if it was killed"
    )
    # no window waits for a watermark
    assert silence(replace(status, operators=()), 5) == "no rows arrive"


def test_status_is_read_from_the_progress_of_all_micro_batches() -> None:
    def progress(batch: int, late: int, watermark_us: int) -> dict[str, Any]:
        metrics = {
            "watermark_us": watermark_us,
            "sources": [{"watermark_us": watermark_us, "is_idle": False}],
            "n_late": late,
            "n_null_times": 1,
            "n_rows": 10,
            "n_bytes": 99,
            "next_window_end_us": HOUR,
        }
        return {
            "batchId": batch,
            "timestamp": f"2026-01-31T08:05:0{batch}.000Z",
            "numInputRows": 5,
            "durationMs": {"triggerExecution": 400},
            "observedMetrics": {"sqlwin.window.0": metrics, "mine": {}},
        }

    tally = Tally(1)
    for report in (progress(0, 2, 1), progress(1, 3, 7)):
        tally.take(report_of(report))
        tally.take(report_of(report))
    tally.take(report_of({**progress(2, 9, 9), "observedMetrics": {}}))
    # Spark has dropped the first of the three by now
    reports = [report_of(progress(1, 3, 7)), report_of(progress(2, 0, 7))]
    status = stream_status(reports, [["bids"]], tally, now_s=seconds_of(reports[1].timestamp) + 1)
    (result,) = status.operators
    assert (status.batch, status.n_input_rows, status.batch_seconds) == (2, 5, 0.4)
    assert (result.watermark_us, result.n_late, result.n_null_times) == (7, 5, 3)
    assert status_notes(status) == (
        "5 rows arrived after all their windows had closed (numLateRecordsDropped)",
        "3 rows have no time and therefore no window (numNullRowTimeRecordsDropped)",
    )
    assert result.sources == (SourceStatus("bids", 7, is_idle=False, is_done=False),)
    assert stream_status([], [["bids"]], Tally(1)) == StreamStatus()


def test_times_read_well() -> None:
    assert clock(None) == "-"
    assert clock(2**62) == str(2**62)
    assert watermark_text(2**62, has_ended=False) == str(2**62)
    assert watermark_text(MAX, has_ended=True) == "end of input"
    assert clock(-1_000) == "1969-12-31 23:59:59.999"


def test_rows_of_a_repeatedly_read_source_count_once() -> None:
    def reported(description: str, n_rows: int) -> dict[str, Any]:
        return {"description": description, "numInputRows": n_rows}

    def rows(reads: tuple[int, ...], *sources: dict[str, Any]) -> tuple[int, float]:
        total = sum(item["numInputRows"] for item in sources)
        progress = {
            "batchId": 1,
            "timestamp": "2026-01-31T08:05:00.000Z",
            "numInputRows": total,
            "durationMs": {"triggerExecution": 2_000},
            "sources": sources,
        }
        now_s = seconds_of("2026-01-31T08:05:02.000Z")
        status = stream_status([report_of(progress)], [], Tally(0), reads, now_s=now_s)
        return status.n_input_rows, status.rows_per_second

    bids, asks, beat = reported("bids", 60), reported("asks", 7), reported(BEAT, 1)
    assert rows((2, 1, 1), bids, asks, beat) == (37, 18.5)
    # two sources with the same rows, one of them read twice
    assert rows((3, 3), bids, reported("bids", 30)) == pytest.approx((30, 15.0))
    # a plan that does not show all sources is ignored
    assert rows((2,), bids, asks) == (67, 33.5)


def test_rows_that_stages_read_from_files_count_in_place_of_the_files() -> None:
    sources = [{"description": name, "numInputRows": n} for name, n in (("bids", 3), ("asks", 7))]
    progress = {
        "batchId": 1,
        "timestamp": "2026-01-31T08:05:00.000Z",
        "numInputRows": 10,
        "durationMs": {"triggerExecution": 500},
        "sources": sources,
        "observedMetrics": {
            "sqlwin.read.0.bids": {"rows": 500},
            "sqlwin.read.1.bids": {"rows": 500},
            "sqlwin.read.1.a.b": {"rows": None},
        },
    }
    now_s = seconds_of("2026-01-31T08:05:00.500Z")
    status = stream_status([report_of(progress)], [], Tally(0), (PATHS, 1), now_s=now_s)
    assert (status.n_input_rows, status.rows_per_second) == (507, 1014)


def test_the_rate_is_that_of_arrivals_however_fast_a_micro_batch_is() -> None:
    # 10 rows per second; each micro-batch takes two seconds' rows in 0.1 s
    batches = [(100.0 + 2 * n, 0.1, 20) for n in range(20)]
    assert arrival_rate(batches, 138.5) == pytest.approx(10)
    assert arrival_rate(batches, 139.9) == pytest.approx(10)
    # no more rows arrive
    assert 4 < arrival_rate(batches, 170.0) < 7
    assert arrival_rate(batches, 230.0) == 0
    assert arrival_rate([], 100.0) == 0


def test_the_rate_counts_a_minute_and_the_first_micro_batch_by_its_own_time() -> None:
    assert arrival_rate([(100.0, 2.0, 60)], 102.0) == 30
    assert arrival_rate([(100.0, 2.0, 60)], 110.0) == 6
    # a long micro-batch, while the next one is not complete
    assert arrival_rate([(0.0, 300.0, 900), (300.0, 300.0, 600)], 700.0) == pytest.approx(2)
    # rows before the last minute do not count
    batches = [(float(n), 1.0, 1_000 if n < 100 else 1) for n in range(200)]
    assert arrival_rate(batches, 200.0) == pytest.approx(1, rel=0.05)
