"""Progress of the running Spark jobs.

Private API, as of Spark 4.3: `SparkContext.statusStore` with `lastStageAttempt`. Without it,
statements run without progress.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from sqlwin.display.progress import Counts, StageCounts, TaskCounts


def spark_task_counts(spark: Any, rows_scanned: Callable[[], int] = lambda: 0) -> Counts | None:
    """Return a function that counts Spark's running tasks, None over Spark Connect.

    Args:
        spark: Spark session.
        rows_scanned: Returns the number of rows read that Spark does not count.

    The function returns None if nothing runs or Spark no longer answers.
    """
    context = getattr(spark, "sparkContext", None)
    if context is None:
        return None
    return _SparkTasks(context, rows_scanned).counts


class _SparkTasks:
    """Counter of tasks.

    A query runs as several jobs, and each job lists the stages of the jobs before it. These stages
    are not run again, and would stay at zero tasks. They read the same data as a complete stage,
    which distinguishes them from stages that still wait.

    Args:
        context: SparkContext, which knows the jobs and stages.
        rows_scanned: Returns the number of rows read that Spark does not count.
    """

    def __init__(self, context: Any, rows_scanned: Callable[[], int]) -> None:
        self._context = context
        self._tracker = context.statusTracker()
        self._rows_scanned = rows_scanned
        # what each stage computes, and the complete ones
        self._data: dict[int, str] = {}
        self._complete: dict[int, str] = {}

    def counts(self) -> TaskCounts | None:
        """Return the counts, None if nothing runs or Spark no longer answers."""
        from runtime.spark.private import unless_missing

        try:
            return unless_missing("the progress of jobs is unknown", self._counts, None)
        except OSError:
            return None

    @cached_property
    def _store(self) -> Any:
        return self._context._jsc.sc().statusStore()

    def _counts(self) -> TaskCounts | None:
        stages_done = stages = tasks_done = tasks = rows_read = 0
        running = []
        for stage_id in self._stages():
            stage = self._tracker.getStageInfo(stage_id)
            is_idle = stage is not None and not (stage.numCompletedTasks or stage.numActiveTasks)
            if is_idle and self._is_there_already(stage_id):
                continue
            stages += 1
            if stage is None or not stage.numTasks:
                continue
            tasks += stage.numTasks
            tasks_done += stage.numCompletedTasks
            rows = int(self._store.lastStageAttempt(stage_id).inputRecords())
            rows_read += rows
            if stage.numCompletedTasks == stage.numTasks:
                stages_done += 1
            else:
                running.append(StageCounts(stage_id, stage.numCompletedTasks, stage.numTasks, rows))
        if not stages:
            return None
        rows_read += self._rows_scanned()
        return TaskCounts(stages_done, stages, tasks_done, tasks, rows_read, tuple(running))

    def _stages(self) -> Iterator[int]:
        """Yield the stages of all running jobs, ordered by number."""
        jobs = [self._tracker.getJobInfo(job) for job in self._tracker.getActiveJobsIds()]
        stage_ids = sorted({stage for job in jobs if job is not None for stage in job.stageIds})
        for stage_id in stage_ids:
            if stage_id not in self._data:
                data = self._store.lastStageAttempt(stage_id).rddIds()
                self._data[stage_id] = str(data.mkString(","))
        yield from stage_ids

    def _is_there_already(self, stage_id: int) -> bool:
        """Return whether a stage need not run because another one computed the same."""
        for other, data in self._data.items():
            if other < stage_id and data == self._data[stage_id] and other not in self._complete:
                if str(self._store.lastStageAttempt(other).status()) == "COMPLETE":
                    self._complete[other] = data
        return any(
            other < stage_id and data == self._data[stage_id]
            for other, data in self._complete.items()
        )
