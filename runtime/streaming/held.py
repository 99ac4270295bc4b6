"""Watermarks that wait: the driver knows when, and tasks see it in a property of Spark's jobs."""

from __future__ import annotations

from pyspark import SparkContext, TaskContext

_HELD = "sqlwin.watermarks-are-held"
# What Spark sets on the jobs of a micro-batch, and on no others
OF_MICRO_BATCH = ("sql.streaming.queryId", "streaming.sql.batchId")


def hold_watermarks(context: SparkContext, is_held: bool) -> None:
    """Have the watermarks wait in the micro-batch that this thread runs, or not.

    Args:
        context: Spark's.
        is_held: whether they wait.
    """
    context.setLocalProperty(_HELD, _name(context) if is_held else "")


def watermarks_are_held() -> bool:
    """Whether they wait in the micro-batch of this task."""
    context = TaskContext.get()
    held = None if context is None else context.getLocalProperty(_HELD)
    # threads of Spark's may have it from another micro-batch
    return context is not None and bool(held) and held == _name(context)


def _name(context: SparkContext | TaskContext) -> str:
    return " ".join(str(context.getLocalProperty(each)) for each in OF_MICRO_BATCH)
