"""What Spark itself measured of a statement, from the status stores of its driver."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

# A stage of more tasks is summarised from this many
_MOST_TASKS = 10_000
# Spark's own limit, ten seconds, is short where other processes have the cores
_MOST_WAIT_MS = 120_000
# What counts the rows of an operator, named as `runtime.batch.meter` names it
_OBSERVED = re.compile(r"CollectMetrics ([\w.]+)-[0-9a-f]{32},")
_LOOP = "WholeStageCodegen"
_PYTHON = re.compile("Arrow|Pandas|Python")


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
class SparkNode:
    """A node of a plan that Spark ran.

    Attributes:
        name: Spark's name of it.
        description: Spark's text of it.
        metrics: its metrics, by name, as Spark prints them.
        label: the operator that it is part of: the one whose rows are observed next above it, with
            no Python stage in between. Empty if there is none.
    """

    name: str
    description: str
    metrics: dict[str, str]
    label: str = ""

    @property
    def rows_out(self) -> int | None:
        """How many rows it gave, if it counts them."""
        text = self.metrics.get("number of output rows")
        return None if text is None else int(re.sub(r"[^\d]", "", text.split("\n")[0]) or 0)


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
    """

    def __init__(self, spark: SparkSession, token: str | None = None) -> None:
        self._spark = spark
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

    def figures(self, *, has_nodes: bool = True, last: int | None = None) -> SparkFigures:
        """What was measured. Waits until Spark's own records are complete.

        Args:
            has_nodes: whether to read the nodes of the plans too.
            last: how many executions, the latest ones; None: all.
        """
        jvm_context: Any = self._spark.sparkContext._jsc.sc()
        jvm_context.listenerBus().waitUntilEmpty(_MOST_WAIT_MS)
        store = self._spark._jsparkSession.sharedState().statusStore()
        nodes: list[SparkNode] = []
        labels: dict[int, frozenset[str]] = {}
        ran = [e for e in _listed(store.executionsList()) if self._token in str(e.description())]
        for execution in ran if last is None else ran[-last:]:
            own = list(_nodes(store, execution.executionId())) if has_nodes else []
            nodes += own
            for stage in (int(s) for s in execution.stages().mkString(",").split(",") if s):
                found = _labels(jvm_context.statusStore(), stage, own) if own else frozenset()
                labels[stage] = labels.get(stage, frozenset()) | found
        stages = (_stage(jvm_context.statusStore(), *each) for each in sorted(labels.items()))
        return SparkFigures(tuple(nodes), tuple(s for s in stages if s is not None))


def _nodes(store: Any, execution_id: int) -> Iterator[SparkNode]:
    values = store.executionMetrics(execution_id)
    graph = store.planGraph(execution_id)
    nodes = {int(node.id()): node for node in _listed(graph.allNodes())}
    above = {int(edge.fromId()): int(edge.toId()) for edge in _listed(graph.edges())}

    def label(node_id: int | None) -> str:
        while node_id is not None:
            node = nodes[node_id]
            if observed := _OBSERVED.match(str(node.desc())):
                return observed[1]
            if _PYTHON.search(str(node.name())):
                return ""
            node_id = above.get(node_id)
        return ""

    for node_id, node in nodes.items():
        is_loop = str(node.name()).startswith(_LOOP)  # its nodes are connected, it is not
        within = next((int(n.id()) for n in _listed(node.nodes())), None) if is_loop else node_id
        metrics = {}
        for metric in _listed(node.metrics()):
            value = values.get(metric.accumulatorId())
            if value.isDefined():
                metrics[str(metric.name())] = str(value.get())
        yield SparkNode(str(node.name()), str(node.desc()), metrics, label(within))


def _labels(store: Any, stage_id: int, nodes: Sequence[SparkNode]) -> frozenset[str]:
    """The operators whose nodes a stage carried out, by names that only one node has."""
    names = Counter(node.name.strip() for node in nodes)
    known = {node.name.strip(): node.label for node in nodes if names[node.name.strip()] == 1}
    waiting = [store.operationGraphForStage(stage_id).rootCluster()]
    found: set[str] = set()
    while waiting:
        for scope in _listed(waiting.pop().childClusters()):
            found.add(known.get(str(scope.name()).strip(), ""))
            waiting.append(scope)
    return frozenset(found - {""})


def _stage(store: Any, stage_id: int, labels: frozenset[str]) -> StageFigures | None:
    """A stage; None if it was skipped, its output being there from before."""
    stage = store.lastStageAttempt(stage_id)
    if str(stage.status()) != "COMPLETE":
        return None
    tasks = _listed(store.taskList(stage_id, stage.attemptId(), _MOST_TASKS))
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


def _listed(sequence: Any) -> Iterator[Any]:
    """The items of a Scala sequence."""
    for i in range(sequence.size()):
        yield sequence.apply(i)
