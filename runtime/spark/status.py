"""What Spark itself measured of a statement, from the status stores of its driver.

Private APIs, seen in Spark 4.3: `SharedState.statusStore`, `SparkContext.statusStore` with
`lastStageAttempt`, `taskList` and `operationGraphForStage`, `LiveListenerBus.waitUntilEmpty`, and
those of `runtime.spark.nodes`. Where one is missing, the figures that it gives are left out.
"""

from __future__ import annotations

import datetime as dt
import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from runtime.spark.nodes import SparkNode, added_up, has_figures, listed, plan_nodes, that_ran
from runtime.spark.private import unless_missing

# A stage of more tasks is summarised from this many
_MOST_TASKS = 10_000
# Spark's own limit, ten seconds, is short where other processes have the cores
_MOST_WAIT_MS = 120_000


@dataclass(frozen=True)
class StageFigures:
    """A Spark stage.

    Attributes:
        id: Spark's number.
        task_seconds: run time of each task.
        input_bytes: bytes read from files by Spark (not by the Arrow scan).
        shuffle_read_bytes: bytes read from shuffles.
        shuffle_write_bytes: bytes written to shuffles.
        spilled_bytes: bytes that went to disk for lack of memory.
        peak_memory_bytes: the most execution memory that a task held in the JVM.
        labels: operators that it carried out nodes of, as in `SparkNode`.
    """

    id: int
    task_seconds: tuple[float, ...]
    input_bytes: int
    shuffle_read_bytes: int
    shuffle_write_bytes: int
    spilled_bytes: int
    peak_memory_bytes: int
    labels: frozenset[str] = frozenset()

    @property
    def skew(self) -> float | None:
        """The slowest task against the median one; None where there are not two tasks."""
        if len(self.task_seconds) < 2:
            return None
        median = statistics.median(self.task_seconds)
        return max(self.task_seconds) / median if median > 0 else None


@dataclass(frozen=True)
class SparkFigures:
    """What Spark measured of everything that one statement ran."""

    nodes: tuple[SparkNode, ...]
    stages: tuple[StageFigures, ...]


class Watch:
    """Finds again, in Spark's records, what ran while it was `running`.

    Args:
        spark: the session.
        token: what stands in the descriptions of what ran; made up if it is not given. Spark puts
            a stream's run id in the descriptions of all that it runs.
        jobs: numbers of jobs; not None: what these belong to is found, and no token is looked for.
    """

    def __init__(
        self, spark: SparkSession, token: str | None = None, *, jobs: frozenset[int] | None = None
    ) -> None:
        self._spark = spark
        self._jobs = jobs
        self._token = token or f"analyze-{uuid4().hex}"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Mark what Spark runs inside of the block."""
        context = self._spark.sparkContext
        before = context.getLocalProperty("spark.job.description")
        context.setJobDescription(f"{before or 'EXPLAIN ANALYZE'} [{self._token}]")
        try:
            yield
        finally:
            context.setLocalProperty("spark.job.description", before)  # type: ignore[arg-type]

    def figures(self) -> SparkFigures:
        """What was measured of a batch. Waits until Spark's own records are complete."""
        executions = self._executions()
        plans = self._plans(executions)
        return SparkFigures(
            tuple(that_ran([node for plan in plans for node in plan])),
            self._stages(executions, plans),
        )

    def micro_batches(self, last: int) -> SparkFigures:
        """What was measured of a stream, its nodes added up over micro-batches.

        Args:
            last: how many micro-batches, the latest ones.
        """

        def with_figures() -> list[Any]:
            store = self._store()
            return [e for e in self._executions() if has_figures(store, e.executionId())][-last:]

        executions = unless_missing("nothing is known of micro-batches in Spark", with_figures, [])
        plans = self._plans(executions)
        return SparkFigures(tuple(added_up(plans)), self._stages(executions, plans))

    def _store(self) -> Any:
        return self._spark._jsparkSession.sharedState().statusStore()

    def _executions(self) -> list[Any]:
        """What ran, as soon as all of it is recorded."""

        def wait() -> None:
            bus = self._spark.sparkContext._jsc.sc().listenerBus()
            bus.waitUntilEmpty(_MOST_WAIT_MS)

        def own() -> list[Any]:
            executions = listed(self._store().executionsList())
            return [each for each in executions if self._is_own(each)]

        if self._jobs is None:
            unless_missing("Spark's figures may be incomplete", wait, None)
        return unless_missing("Spark's figures are unknown", own, [])

    def _is_own(self, execution: Any) -> bool:
        if self._jobs is None:
            return self._token in str(execution.description())
        numbers = str(execution.jobs().keys().mkString(",")).split(",")
        return any(int(number) in self._jobs for number in numbers if number)

    def _plans(self, executions: Sequence[Any]) -> list[list[SparkNode]]:
        """The nodes of each execution; none where Spark does not give them."""

        def plans() -> list[list[SparkNode]]:
            return [plan_nodes(self._store(), each.executionId()) for each in executions]

        nothing: list[list[SparkNode]] = [[] for _ in executions]
        return unless_missing("the nodes of Spark's plans are unknown", plans, nothing)

    def _stages(
        self, executions: Sequence[Any], plans: Sequence[Sequence[SparkNode]]
    ) -> tuple[StageFigures, ...]:
        def stages() -> tuple[StageFigures, ...]:
            store: Any = self._spark.sparkContext._jsc.sc().statusStore()
            labels: dict[int, frozenset[str]] = {}
            for execution, nodes in zip(executions, plans, strict=True):
                for stage in (int(s) for s in execution.stages().mkString(",").split(",") if s):
                    labels[stage] = labels.get(stage, frozenset()) | labels_of_stage(
                        store, stage, nodes
                    )
            figures = (stage_figures(store, *each) for each in sorted(labels.items()))
            return tuple(stage for stage in figures if stage is not None)

        return unless_missing("Spark's stages are unknown", stages, ())


def labels_of_stage(store: Any, stage_id: int, nodes: Sequence[SparkNode]) -> frozenset[str]:
    """The operators whose nodes a stage carried out, by names that only one node has."""
    names = Counter(node.name.strip() for node in nodes)
    known = {node.name.strip(): node.label for node in nodes if names[node.name.strip()] == 1}
    graph = _unless_gone(lambda: store.operationGraphForStage(stage_id))
    waiting = [] if graph is None else [graph.rootCluster()]
    found: set[str] = set()
    while waiting:
        for scope in listed(waiting.pop().childClusters()):
            found.add(known.get(str(scope.name()).strip(), ""))
            waiting.append(scope)
    return frozenset(found - {""})


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


def stage_figures(store: Any, stage_id: int, labels: frozenset[str]) -> StageFigures | None:
    """A stage; None if it was skipped, its output being there from before, or is forgotten."""
    stage = _unless_gone(lambda: store.lastStageAttempt(stage_id))
    if stage is None or str(stage.status()) != "COMPLETE":
        return None
    tasks = listed(store.taskList(stage_id, stage.attemptId(), _MOST_TASKS))
    seconds = [
        task.taskMetrics().get().executorRunTime() / 1000
        for task in tasks
        if str(task.status()) == "SUCCESS" and task.taskMetrics().isDefined()
    ]
    return StageFigures(
        stage_id,
        tuple(seconds),
        int(stage.inputBytes()),
        int(stage.shuffleReadBytes()),
        int(stage.shuffleWriteBytes()),
        int(stage.diskBytesSpilled()),
        int(stage.peakExecutionMemory()),
        labels,
    )


# -- jobs that run ---------------------------------------------------------------------------------


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
    not over. Private APIs, seen in Spark 4.3: `SparkStatusTracker.getJobIdsForTag`,
    `AppStatusStore.job`, `JacksonMessageWriter.mapper`. Where one is missing, there is no progress.

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

    def figures(self, tag: str) -> SparkFigures:
        """What Spark measured of the jobs that carry a tag, as `Watch.figures` has it."""
        return Watch(self._spark, jobs=frozenset(self.jobs(tag))).figures()

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
