"""Progress of jobs, from Spark's status tracker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from py4j.protocol import Py4JNetworkError

from sqlwin.display.progress import StageCounts, TaskCounts
from sqlwin.display.spark_tasks import spark_task_counts


class FakeSpark:
    """Stages by number: (tasks, active, complete); stages of jobs."""

    def __init__(self) -> None:
        self.stages: dict[int, tuple[int, int, int] | None] = {}
        self.jobs: dict[int, list[int]] = {}
        self.sparkContext = self

    def statusTracker(self) -> Any:
        return self

    def getActiveJobsIds(self) -> list[int]:
        return list(self.jobs)

    def getJobInfo(self, job: int) -> Any:
        return SimpleNamespace(stageIds=self.jobs[job])

    def getStageInfo(self, number: int) -> Any:
        stage = self.stages[number]
        if stage is None:
            return None
        tasks, active, complete = stage
        return SimpleNamespace(
            stageId=number, numTasks=tasks, numActiveTasks=active, numCompletedTasks=complete
        )


def test_tasks_of_all_stages_are_added_up() -> None:
    spark = FakeSpark()
    counts = spark_task_counts(spark, lambda: 5_000)
    assert counts is not None and counts() is None
    spark.stages = {1: (4, 0, 4), 2: (6, 2, 1), 3: (8, 0, 0), 4: None}
    spark.jobs = {0: [3, 1, 2], 1: [4]}
    running = (StageCounts(2, 1, 6), StageCounts(3, 0, 8))
    assert counts() == TaskCounts(1, 4, 5, 18, 5_000, running)


def test_a_stage_that_an_earlier_job_has_run_does_not_count_again() -> None:
    spark = FakeSpark()
    counts = spark_task_counts(spark)
    assert counts is not None
    spark.stages = {2: (24, 2, 23)}
    spark.jobs = {0: [2]}
    assert counts() == TaskCounts(0, 1, 23, 24, 0, (StageCounts(2, 23, 24),))
    # the next job lists it too, under another number
    spark.stages = {3: (24, 0, 0), 4: (4, 2, 1), 5: (1, 0, 0)}
    spark.jobs = {1: [3, 4, 5]}
    running = (StageCounts(4, 1, 4), StageCounts(5, 0, 1))
    assert counts() == TaskCounts(0, 2, 1, 5, 0, running)


def test_spark_connect_and_a_stopped_spark_have_no_counts() -> None:
    assert spark_task_counts(SimpleNamespace()) is None

    class Gone(FakeSpark):
        def getActiveJobsIds(self) -> list[int]:
            raise Py4JNetworkError("gone")

    counts = spark_task_counts(Gone())
    assert counts is not None and counts() is None
