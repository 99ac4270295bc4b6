"""Sessions to monitor, without Spark."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa

from runtime.redaction import DEFAULT
from runtime.sinks.stream_sinks import StreamRun
from runtime.spark.status import StageProgress
from sqlwin.execution.activity import Activity, StatementRun
from sqlwin.execution.streams.handle import Setup, Stream
from sqlwin.execution.streams.registry import Streams
from sqlwin.ui.snapshot import Watched

SECOND = 1_000_000
STATEMENT = (
    "INSERT INTO totals SELECT k, window_end, SUM(v) FROM TUMBLE(TABLE bids, ...) GROUP BY ALL"
)


@contextmanager
def without_tag(tag: str, text: str) -> Iterator[None]:
    yield


class FakeQuery:
    def __init__(self) -> None:
        self.isActive = True
        self.runId = "run"
        self.status = {"message": "Waiting", "isTriggerActive": False}
        self.lastProgress: Any = None
        self.recentProgress: list[Any] = []
        self.failure: Exception | None = None

    def exception(self) -> Exception | None:
        return self.failure


class FakeJobs:
    def __init__(self) -> None:
        self.found: dict[str, tuple[StageProgress, ...]] = {}
        self.asked: list[str] = []

    def stages(self, tag: str) -> tuple[StageProgress, ...]:
        self.asked.append(tag)
        return self.found.get(tag, ())


def progress(
    batch: int,
    rows: int = 100,
    *,
    at: float | None = None,
    watermarks_us: tuple[int | None, ...] = (60 * SECOND,),
    idle: tuple[int, ...] = (),
    late: int = 0,
    state: tuple[int, int] = (10, 4_000),
    next_end_us: int | None = 120 * SECOND,
    has_ended: bool = False,
) -> dict[str, Any]:
    """Return Spark's report of a micro-batch of 500 ms."""
    watermarks = [item for item in watermarks_us if item is not None]
    metric = {
        "watermark_us": min(watermarks) if len(watermarks) == len(watermarks_us) else None,
        "has_ended": has_ended,
        "sources": [
            {"watermark_us": item, "is_idle": number in idle}
            for number, item in enumerate(watermarks_us)
        ],
        "n_late": late,
        "n_null_times": 0,
        "n_rows": state[0],
        "n_bytes": state[1],
        "next_window_end_us": next_end_us,
        "closed_us": None,
    }
    moment = dt.datetime.fromtimestamp(time.time() if at is None else at, dt.UTC)
    return {
        "batchId": batch,
        "timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "numInputRows": rows,
        "durationMs": {
            "triggerExecution": 500,
            "addBatch": 400,
            "queryPlanning": 80,
            "walCommit": 20,
        },
        "sources": [],
        "observedMetrics": {"sqlwin.window.0": metric},
    }


def stream(
    number: int = 1,
    *,
    sources: tuple[str, ...] = ("bids",),
    statement: str = STATEMENT,
    late_table: str | None = None,
) -> tuple[Stream, FakeQuery]:
    """Return a running stream, and Spark's handle of it."""
    query = FakeQuery()
    setup = Setup(
        "totals", statement, "totals", False, True, True, [sources], cast(Any, None), late_table
    )
    run = StreamRun("totals (1)", "/checkpoint/spark", 0, "w")
    checkpoint = SimpleNamespace(
        directory="/checkpoint",
        spark_directory="/checkpoint/spark",
        end_of_input="/checkpoint/end-of-input",
    )
    result = Stream(
        number,
        setup,
        cast(Any, query),
        run,
        cast(Any, checkpoint),
        cast(Any, None),
        cast(Any, None),
    )
    return result, query


def watched(*streams: Stream, jobs: FakeJobs | None = None, **others: Any) -> Watched:
    """Return a session with these streams and no statement yet."""
    registry = Streams()
    for item in streams:
        registry.add(item)
    result = {"spark": "Spark 4.3.0 local[2]", **others}
    return Watched(
        Activity(without_tag), registry, jobs, lambda: DEFAULT, lambda: "Europe/Berlin", **result
    )


def rows_of_windows(first: int, n_windows: int = 2, keys: tuple[str, ...] = ("a", "b")) -> pa.Table:
    """Return rows of one-minute windows, one per key."""
    minutes = [first + i for i in range(n_windows) for _ in keys]
    return pa.table(
        {
            "k": pa.array([key for _ in range(n_windows) for key in keys]),
            "window_start": pa.array([60 * m * SECOND for m in minutes], pa.timestamp("us")),
            "window_end": pa.array([60 * (m + 1) * SECOND for m in minutes], pa.timestamp("us")),
            "n": pa.array([10 * (m % 1000) for m in minutes], pa.int64()),
        }
    )


def stage(
    number: int, state: str, tasks: int, done: int, begun: float, took: float
) -> StageProgress:
    return StageProgress(
        number, "toArrow at NativeMethodAccessorImpl.java:0", state, tasks, done, 336_776, 1 << 20,
        1 << 18, 0, took * done, begun, None if state == "running" else begun + took,
    )  # fmt: skip


def finished_statement(
    session: Watched, text: str, kind: str = "ok", message: str = "OK"
) -> StatementRun:
    """Return the record of a finished statement."""
    run = session.activity.begin(text)
    with run.span("planning"):
        pass
    run.record_end(kind, message, None)
    return run
