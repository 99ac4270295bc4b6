"""Where a private API of Spark is missing, a figure or some speed is, and nothing else."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from runtime import logs
from runtime.frames.aggregations import with_spark_tables
from runtime.spark.jobs import cancel_group
from runtime.spark.private import unless_missing
from runtime.spark.status import SparkFigures, Watch
from runtime.spec.aggregates import ApproxCountDistinct, WindowAggregation
from runtime.spec.windows import Tumble
from runtime.streaming.source_reads import reads_of_sources, rows_read


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(logs, "log_file", lambda: tmp_path / "log")
    return tmp_path / "log"


class WithoutPrivate:
    """A session and its context, with what is public."""

    def __init__(self) -> None:
        self.sparkContext = self
        self._jsc = SimpleNamespace(sc=SimpleNamespace)
        self._jsparkSession = self._jvm = SimpleNamespace()
        self.cancelled: list[str] = []

    def cancelJobGroup(self, group: str) -> None:
        self.cancelled.append(group)


@pytest.fixture
def bare() -> Any:
    return WithoutPrivate()


@pytest.mark.parametrize("error", [AttributeError("a"), TypeError("b"), Py4JError("c")])
def test_what_is_missing_is_logged_once(error: Exception, log: Path) -> None:
    def ask() -> int:
        raise error

    assert [unless_missing("no figure", ask, None) for _ in range(3)] == [None] * 3
    assert log.read_text().count("no figure") == log.read_text().count(repr(error)) == 1
    assert unless_missing("no figure", lambda: 1, None) == 1


def test_other_errors_are_not_taken_for_it() -> None:
    def ask() -> int:
        raise ValueError("of the query")

    with pytest.raises(ValueError, match="of the query"):
        unless_missing("no figure", ask, None)


def test_figures_of_spark_are_left_out(bare: Any, log: Path) -> None:
    assert Watch(bare).figures() == Watch(bare).micro_batches(3) == SparkFigures((), ())
    assert "Spark's figures are unknown" in log.read_text()


def test_plans_are_left_out_and_stages_stay(bare: Any, log: Path) -> None:
    def listed(*items: object) -> SimpleNamespace:
        return SimpleNamespace(size=lambda: len(items), apply=lambda i: items[i])

    watch = Watch(bare, "mine")
    execution = SimpleNamespace(
        description=lambda: "[mine]",
        executionId=lambda: 7,
        stages=lambda: SimpleNamespace(mkString=lambda separator: "3"),
    )
    of_sql = SimpleNamespace(executionsList=lambda: listed(execution))
    bare._jsparkSession.sharedState = lambda: SimpleNamespace(statusStore=lambda: of_sql)
    metrics = SimpleNamespace(executorRunTime=lambda: 1500)
    task = SimpleNamespace(
        status=lambda: "SUCCESS",
        taskMetrics=lambda: SimpleNamespace(isDefined=lambda: True, get=lambda: metrics),
    )
    names = ("inputBytes", "shuffleReadBytes", "shuffleWriteBytes", "diskBytesSpilled")
    stage = SimpleNamespace(
        status=lambda: "COMPLETE",
        attemptId=lambda: 0,
        peakExecutionMemory=lambda: 0,
        **{name: lambda: 5 for name in names},
    )
    clusters = SimpleNamespace(childClusters=listed)
    of_stages = SimpleNamespace(
        lastStageAttempt=lambda number: stage,
        taskList=lambda *_: listed(task),
        operationGraphForStage=lambda number: SimpleNamespace(rootCluster=lambda: clusters),
    )
    bare._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: of_stages))
    figures = watch.figures()
    assert figures.nodes == ()
    assert [(each.id, each.task_seconds, each.input_bytes) for each in figures.stages] == [
        (3, (1.5,), 5)
    ]
    assert "the nodes of Spark's plans are unknown" in log.read_text()


def test_the_jobs_of_a_group_that_run_are_cancelled(bare: Any, log: Path) -> None:
    assert cancel_group(bare, "mine")
    assert bare.cancelled == ["mine"]


def test_rows_of_a_stream_count_as_spark_counts_them(bare: Any, log: Path) -> None:
    reads = reads_of_sources(SimpleNamespace(sparkSession=bare))  # type: ignore[arg-type]
    assert reads == ()
    assert rows_read({"numInputRows": 8, "sources": [{"numInputRows": 8}]}, reads) == 8


def test_estimates_go_without_tables_of_spark(bare: Any, log: Path) -> None:
    estimate = ApproxCountDistinct("n", "n", 9)
    aggregation = WindowAggregation(Tumble(1), (), "slice", (estimate,))
    assert with_spark_tables(bare, aggregation) == aggregation
