"""How far the jobs of statements are, from the status store of Spark's driver.

Private APIs, seen in Spark 4.3: `SparkStatusTracker.getJobIdsForTag`, `AppStatusStore.job` and
`lastStageAttempt`, `JacksonMessageWriter.mapper`. Where one is missing, there is no progress.
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
    """What Spark's records hold of a stage; None if they have let go of it.

    They keep `spark.ui.retainedStages` of an application, and of more forget skipped ones first,
    however new they are.
    """
    try:
        return ask()
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() != "java.util.NoSuchElementException":
            raise
        return None


@dataclass(frozen=True)
class StageProgress:
    """How far a stage of Spark's is.

    Attributes:
        id: Spark's number.
        name: where in the program it began, as Spark calls it.
        state: `waiting`, `running`, `done`, `failed` or `skipped`.
        tasks: how many it has.
        tasks_done: how many of them are complete.
        rows_read: rows read from sources by Spark.
        shuffle_read_bytes: bytes read from shuffles.
        shuffle_write_bytes: bytes written to shuffles.
        spilled_bytes: bytes that went to disk for lack of memory.
        task_seconds: run time of its tasks, added up.
        begun: when its first task began, in seconds since 1970; None before that.
        ended: when it was over; None before that.
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
    """Finds the jobs that carry a tag, and how far their stages are.

    Spark writes its records as JSON, as for its REST API: one call for each job and stage that is
    not over.

    Args:
        spark: the session, not one of Spark Connect.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._over: dict[int, StageProgress] = {}
        self._stages_of: dict[int, tuple[int, ...]] = {}

    def jobs(self, tag: str) -> tuple[int, ...]:
        """The numbers of the jobs that carry a tag, in order."""

        def numbers() -> tuple[int, ...]:
            tracker = self._context().statusTracker()
            return tuple(sorted(int(number) for number in tracker.getJobIdsForTag(tag)))

        return unless_missing("the progress of statements is unknown", numbers, ())

    def stages(self, tag: str) -> tuple[StageProgress, ...]:
        """The stages of the jobs that carry a tag, by number; those that others computed apart."""

        def found() -> tuple[StageProgress, ...]:
            ids = sorted({number for job in self.jobs(tag) for number in self._stage_ids(job)})
            stages = [self._stage(number) for number in ids]
            return tuple(each for each in stages if each is not None)

        return unless_missing("the progress of statements is unknown", found, ())

    def _context(self) -> Any:
        return self._spark.sparkContext._jsc.sc()

    @cached_property
    def _mapper(self) -> Any:
        jvm: Any = self._spark.sparkContext._jvm
        return jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()

    def _record(self, ask: Callable[[Any], Any]) -> dict[str, Any] | None:
        found = _unless_gone(lambda: ask(self._context().statusStore()))
        if found is None:
            return None
        record: dict[str, Any] = json.loads(self._mapper.writeValueAsString(found))
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
        found = stage_progress(record)
        if found.state in _OVER:
            self._over[number] = found
        return found


def stage_progress(record: Mapping[str, Any]) -> StageProgress:
    """A stage, from Spark's `StageData` as its REST API writes it."""
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
        _moment(record.get("firstTaskLaunchedTime") or record.get("submissionTime")),
        _moment(record.get("completionTime")),
    )


def _moment(text: object) -> float | None:
    """Seconds since 1970 of a moment of Spark's REST API, such as `2026-01-31T08:05:00.123GMT`."""
    if not text:
        return None
    return dt.datetime.fromisoformat(str(text).replace("GMT", "+00:00")).timestamp()
