"""Progress of the running Spark jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sqlwin.display.progress import Counts, StageCounts, TaskCounts


def spark_task_counts(spark: Any, rows_scanned: Callable[[], int] = lambda: 0) -> Counts | None:
    """Return a function that counts Spark's running tasks, None over Spark Connect.

    Args:
        spark: Spark session.
        rows_scanned: Returns the number of rows that scans of Parquet have read.

    The function returns None if nothing runs or Spark no longer answers.
    """
    context = getattr(spark, "sparkContext", None)
    if context is None:
        return None
    tracker = context.statusTracker()

    def counts() -> TaskCounts | None:
        from py4j.protocol import Py4JError

        try:
            stages = list(_running_stages(tracker))
        except (OSError, Py4JError):
            return None
        return _add_up(stages, rows_scanned()) if stages else None

    return counts


def _running_stages(tracker: Any) -> Iterator[Any]:
    """Yield the stages of all running jobs, or None for a stage not known to Spark yet.

    A query runs as several jobs, and each job lists the stages of the jobs before it. These stages
    are not run again, and would stay at zero tasks. A stage that waits has no later stage of its
    job that runs.
    """
    jobs = [tracker.getJobInfo(job) for job in tracker.getActiveJobsIds()]
    stages = {
        number: tracker.getStageInfo(number)
        for number in sorted({number for job in jobs if job is not None for number in job.stageIds})
    }
    begun = {number for number, stage in stages.items() if stage is not None and _has_begun(stage)}
    last_begun = [max(begun.intersection(job.stageIds), default=-1) for job in jobs if job]
    waits = {
        number
        for job, last in zip(filter(None, jobs), last_begun, strict=True)
        for number in job.stageIds
        if number > last
    }
    yield from (stages[number] for number in stages if number in begun or number in waits)


def _has_begun(stage: Any) -> bool:
    return bool(stage.numCompletedTasks or stage.numActiveTasks)


def _add_up(stages: list[Any], rows_read: int) -> TaskCounts:
    described = [stage for stage in stages if stage is not None and stage.numTasks]
    running = [stage for stage in described if stage.numCompletedTasks < stage.numTasks]
    return TaskCounts(
        len(described) - len(running),
        len(stages),
        sum(stage.numCompletedTasks for stage in described),
        sum(stage.numTasks for stage in described),
        rows_read,
        tuple(
            StageCounts(stage.stageId, stage.numCompletedTasks, stage.numTasks) for stage in running
        ),
    )
