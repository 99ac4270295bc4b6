"""How far jobs have got, from what Spark reports of its stages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from sqlwin.display.progress import StageCounts, TaskCounts
from sqlwin.display.spark_tasks import spark_task_counts


class FakeSpark:
    """Stages by number: (tasks, active, complete, status, rows, what they compute); jobs' stages."""

    def __init__(self) -> None:
        self.stages: dict[int, tuple[int, int, int, str, int, str]] = {}
        self.jobs: dict[int, list[int]] = {}
        self.sparkContext = self
        self._jsc = self

    def statusTracker(self) -> Any:
        return self

    def sc(self) -> Any:
        return SimpleNamespace(statusStore=lambda: self)

    def getActiveJobsIds(self) -> list[int]:
        return list(self.jobs)

    def getJobInfo(self, job: int) -> Any:
        return SimpleNamespace(stageIds=self.jobs[job])

    def getStageInfo(self, number: int) -> Any:
        tasks, active, complete, *_ = self.stages[number]
        return SimpleNamespace(numTasks=tasks, numActiveTasks=active, numCompletedTasks=complete)

    def lastStageAttempt(self, number: int) -> Any:
        *_, status, rows, data = self.stages[number]
        return SimpleNamespace(
            status=lambda: status,
            inputRecords=lambda: rows,
            rddIds=lambda: SimpleNamespace(mkString=lambda separator: data),
        )


def test_tasks_and_rows_of_all_stages_are_added_up() -> None:
    spark = FakeSpark()
    counts = spark_task_counts(spark)
    assert counts is not None and counts() is None
    spark.stages = {
        1: (4, 0, 4, "COMPLETE", 900, "1"),
        2: (6, 2, 1, "ACTIVE", 100, "2"),
        3: (8, 0, 0, "PENDING", 0, "1,2,3"),
    }
    spark.jobs = {0: [3, 1, 2]}
    running = (StageCounts(2, 1, 6, 100), StageCounts(3, 0, 8, 0))
    assert counts() == TaskCounts(1, 3, 5, 18, 1000, running)


def test_rows_that_spark_knows_nothing_of_are_added() -> None:
    spark = FakeSpark()
    counts = spark_task_counts(spark, lambda: 5_000)
    assert counts is not None and counts() is None
    spark.stages = {1: (4, 2, 2, "ACTIVE", 30, "1")}
    spark.jobs = {0: [1]}
    assert counts() == TaskCounts(0, 1, 2, 4, 5_030, (StageCounts(1, 2, 4, 30),))


def test_a_stage_that_an_earlier_job_has_run_does_not_count_again() -> None:
    spark = FakeSpark()
    counts = spark_task_counts(spark)
    assert counts is not None
    spark.stages = {2: (24, 2, 23, "ACTIVE", 900, "7,8")}
    spark.jobs = {0: [2]}
    assert counts() == TaskCounts(0, 1, 23, 24, 900, (StageCounts(2, 23, 24, 900),))
    # the next job names it among its own stages, under another number
    spark.stages = {
        2: (24, 0, 24, "COMPLETE", 960, "7,8"),
        3: (24, 0, 0, "PENDING", 0, "7,8"),
        4: (4, 2, 1, "ACTIVE", 0, "9"),
        5: (1, 0, 0, "PENDING", 0, "10"),
    }
    spark.jobs = {1: [3, 4, 5]}
    running = (StageCounts(4, 1, 4, 0), StageCounts(5, 0, 1, 0))
    assert counts() == TaskCounts(0, 2, 1, 5, 0, running)


def test_spark_connect_tells_of_no_tasks() -> None:
    assert spark_task_counts(SimpleNamespace()) is None


def test_without_its_store_of_stages_spark_tells_of_no_tasks() -> None:
    spark = FakeSpark()
    spark.stages = {1: (4, 2, 2, "ACTIVE", 30, "1")}
    spark.jobs = {0: [1]}
    spark._jsc = SimpleNamespace(sc=SimpleNamespace)  # type: ignore[assignment]
    counts = spark_task_counts(spark)
    assert counts is not None and counts() is None
