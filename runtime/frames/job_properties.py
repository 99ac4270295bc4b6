"""Properties of Spark jobs and sessions, by which the driver informs streams and their tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from pyspark import SparkContext, TaskContext
from pyspark.sql import SparkSession

from runtime.errors import ExecutionError
from runtime.outages import Retries

# Setting of the session while a stream starts
_RETRIES = "spark.sqlwin.retries"
_HELD = "sqlwin.watermarks-are-held"
_CLOSED_UNTIL = "sqlwin.closed-until"
_WATERMARK = "sqlwin.current-watermark"
# Properties that Spark sets on the jobs of micro-batches only
_OF_MICRO_BATCH = ("sql.streaming.queryId", "streaming.sql.batchId")


def retries_of_stream(spark: SparkSession) -> Retries | None:
    """Return the retries of the stream that is being started, or None outside of a start."""
    text = spark.conf.get(_RETRIES, "")
    return Retries(**json.loads(text)) if text else None


@contextmanager
def retrying(spark: SparkSession, retries: Retries) -> Iterator[None]:
    """Let the sources and sinks of a stream that is started in this block retry."""
    spark.conf.set(_RETRIES, json.dumps(asdict(retries)))
    try:
        yield
    finally:
        spark.conf.unset(_RETRIES)


def batch_number() -> int | None:
    """Return the number of this task's micro-batch, or None outside of Spark's streams."""
    context = TaskContext.get()
    number = None if context is None else context.getLocalProperty(_OF_MICRO_BATCH[1])
    return int(number) if number else None


def hold_watermarks(context: SparkContext, is_held: bool) -> None:
    """Set whether watermarks are held back in the micro-batch that this thread runs."""
    _set(context, _HELD, is_held)


def watermarks_are_held() -> bool:
    """Return whether watermarks are held back in the micro-batch of this task."""
    return bool(_property(_HELD))


def set_closed_until(context: SparkContext, closed_us: Mapping[int, int]) -> None:
    """Set which rows can be late, for the tasks of the micro-batch that this thread runs.

    Args:
        context: Spark context.
        closed_us: End of the last closed window by operator number: windows ending at or before it
            accept no rows. For other operators any row may be late.
    """
    _set(context, _CLOSED_UNTIL, list(closed_us.items()))


def known_closed_us(operator: int) -> int | None:
    """Return an operator's value of `set_closed_until` in this task's micro-batch, or None."""
    closed_us: dict[int, int] = dict(_property(_CLOSED_UNTIL) or ())
    return closed_us.get(operator)


def set_current_watermark(context: SparkContext, watermark_us: int | None) -> None:
    """Set the watermark before the micro-batch that this thread runs. None: none yet."""
    _set(context, _WATERMARK, [watermark_us])


def current_watermark_us() -> int | None:
    """Return the watermark before the micro-batch of this task. None: none yet.

    Raises:
        ExecutionError: The watermark is not set, because sqlwin does not run the stream.
    """
    value = _property(_WATERMARK)
    if value is None:
        raise ExecutionError(
            "CURRENT_WATERMARK is not available in a stream that sqlwin does not run",
            hint="use INSERT, or the rows of execute()",
        )
    watermark_us: int | None = value[0]
    return watermark_us


def _set(context: SparkContext, name: str, value: Any) -> None:
    context.setLocalProperty(name, json.dumps([_ids(context), value]) if value else "")


def _property(name: str) -> Any:
    """Return the value of a property, or None if it is not set for the micro-batch of this task."""
    context = TaskContext.get()
    text = None if context is None else context.getLocalProperty(name)
    if context is None or not text:
        return None
    ids, value = json.loads(text)
    # Spark's threads may have inherited the property from another micro-batch
    return value if None not in ids and ids == _ids(context) else None


def _ids(context: SparkContext | TaskContext) -> list[str | None]:
    return [context.getLocalProperty(name) for name in _OF_MICRO_BATCH]
