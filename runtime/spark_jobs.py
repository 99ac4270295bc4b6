"""Groups of Spark jobs, so that those of one statement can be cancelled alone."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException


def begin_group(spark: Any, group: str) -> None:
    """Let the jobs that this thread starts from here on belong to `group`.

    Cancelling it interrupts their tasks, so that they end at once and not at their next row.
    """
    context = getattr(spark, "sparkContext", None)
    if context is None:  # Spark Connect
        spark.clearTags()
        spark.addTag(group)
    else:
        context.setJobGroup(group, "", interruptOnCancel=True)


def cancel_group(spark: Any, group: str) -> bool:
    """Cancel the jobs of `group`, those that would follow too; False if Spark cannot be told."""
    context = getattr(spark, "sparkContext", None)
    try:
        if context is None:
            spark.interruptTag(group)
        else:
            context._jsc.sc().cancelJobGroupAndFutureJobs(group)
    except (Py4JError, PySparkException, OSError):
        return False
    return True
