"""Progress of statements' jobs, from the status store of Spark's driver.

Uses private APIs, checked with Spark 4.3: `SparkStatusTracker.getJobIdsForTag`,
`AppStatusStore.job` and `lastStageAttempt`, `JacksonMessageWriter.mapper`. Without them there is no
progress.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from runtime.spark.private import unless_missing


def _unless_gone(ask: Callable[[], Any]) -> Any:
    """Return a record from Spark's status store, or None if it was evicted.

    The store keeps `spark.ui.retainedStages` stages and evicts skipped ones first, however recent
    they are.
    """
    try:
        return ask()
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() != "java.util.NoSuchElementException":
            raise
        return None


@dataclass(frozen=True)
class StageProgress:
    """Progress of a Spark stage.

    Attributes:
        id: Stage number in Spark.
        name: Place in the program where it started, as named by Spark.
        state: `waiting`, `running`, `done`, `failed` or `skipped`.
        tasks: Number of tasks.
        tasks_done: Number of completed tasks.
        rows_read: Rows that Spark read from sources.
        shuffle_read_bytes: Bytes read from shuffles.
        shuffle_write_bytes: Bytes written to shuffles.
        spilled_bytes: Bytes spilled to disk.
        task_seconds: Total run time of its tasks.
        begun: Start of its first task in seconds since 1970. None before that.
        ended: End in seconds since 1970. None before that.
    """

    id: int
    name: str
    state: str
    tasks: int
    tasks_done: int
    rows_read: int = 0
    shuffle_read_bytes: int = 0
    shuffle_write_bytes: int = 0
    spilled_bytes: int = 0
    task_seconds: float = 0.0
    begun: float | None = None
    ended: float | None = None


_STAGE_STATES = {
    "PENDING": "waiting",
    "ACTIVE": "running",
    "COMPLETE": "done",
    "FAILED": "failed",
    "SKIPPED": "skipped",
}
_OVER = ("done", "failed", "skipped")


class TaggedJobs:
    """Finder of the jobs with a tag and of their stages' progress.

    Spark returns its records as JSON, as in its REST API, with one call for each job and each
    unfinished stage.

    Args:
        spark: Spark session, not over Spark Connect.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._over: dict[int, StageProgress] = {}
        self._stages_of: dict[int, tuple[int, ...]] = {}

    def jobs(self, tag: str) -> tuple[int, ...]:
        """Return the sorted numbers of the jobs with a tag."""

        def numbers() -> tuple[int, ...]:
            tracker = self._context().statusTracker()
            return tuple(sorted(int(number) for number in tracker.getJobIdsForTag(tag)))

        return unless_missing("the progress of statements is not shown", numbers, ())

    def stages(self, tag: str) -> tuple[StageProgress, ...]:
        """Return the sorted stages of the jobs with a tag, including those reused from others."""

        def stages_of() -> tuple[StageProgress, ...]:
            ids = sorted({number for job in self.jobs(tag) for number in self._stage_ids(job)})
            stages = [self._stage(number) for number in ids]
            return tuple(stage for stage in stages if stage is not None)

        return unless_missing("the progress of statements is not shown", stages_of, ())

    def _context(self) -> Any:
        return self._spark.sparkContext._jsc.sc()

    @cached_property
    def _mapper(self) -> Any:
        jvm: Any = self._spark.sparkContext._jvm
        return jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()

    def _record(self, ask: Callable[[Any], Any]) -> dict[str, Any] | None:
        java_record = _unless_gone(lambda: ask(self._context().statusStore()))
        if java_record is None:
            return None
        record: dict[str, Any] = json.loads(self._mapper.writeValueAsString(java_record))
        return record

    def _stage_ids(self, job: int) -> tuple[int, ...]:
        if job not in self._stages_of:
            record = self._record(lambda store: store.job(job))
            if record is None:
                return ()
            self._stages_of[job] = tuple(int(number) for number in record["stageIds"])
        return self._stages_of[job]

    def _stage(self, number: int) -> StageProgress | None:
        if number in self._over:
            return self._over[number]
        record = self._record(lambda store: store.lastStageAttempt(number))
        if record is None:
            return None
        stage = stage_progress(record)
        if stage.state in _OVER:
            self._over[number] = stage
        return stage


def stage_progress(record: Mapping[str, Any]) -> StageProgress:
    """Return the progress from `StageData` of Spark's REST API."""
    return StageProgress(
        int(record["stageId"]),
        str(record["name"]),
        _STAGE_STATES.get(str(record["status"]), "waiting"),
        int(record["numTasks"]),
        int(record["numCompleteTasks"]),
        int(record.get("inputRecords") or 0),
        int(record.get("shuffleReadBytes") or 0),
        int(record.get("shuffleWriteBytes") or 0),
        int(record.get("diskBytesSpilled") or 0),
        int(record.get("executorRunTime") or 0) / 1_000,
        _time_of(record.get("firstTaskLaunchedTime") or record.get("submissionTime")),
        _time_of(record.get("completionTime")),
    )


def _time_of(text: object) -> float | None:
    """Return seconds since 1970 of a REST API time such as `2026-01-31T08:05:00.123GMT`."""
    if not text:
        return None
    return dt.datetime.fromisoformat(str(text).replace("GMT", "+00:00")).timestamp()
