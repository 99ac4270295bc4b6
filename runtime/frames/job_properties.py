"""What the driver tells the tasks of a micro-batch, in local properties of Spark's jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark import SparkContext, TaskContext

_HELD = "sqlwin.watermarks-are-held"
_CLOSED_UNTIL = "sqlwin.closed-until"
# What Spark sets on the jobs of a micro-batch, and on no others
_OF_MICRO_BATCH = ("sql.streaming.queryId", "streaming.sql.batchId")


def hold_watermarks(context: SparkContext, is_held: bool) -> None:
    """Have the watermarks wait in the micro-batch that this thread runs, or not."""
    _set(context, _HELD, is_held)


def watermarks_are_held() -> bool:
    """Whether the watermarks wait in the micro-batch of this task."""
    return bool(_known(_HELD))


def set_closed_until(context: SparkContext, closed_us: Mapping[int, int]) -> None:
    """Tell the tasks of the micro-batch that this thread runs which rows can be late.

    Args:
        context: Spark's.
        closed_us: windows of operators, by their numbers, that end no later take no rows. Of other
            operators any row may be late.
    """
    _set(context, _CLOSED_UNTIL, list(closed_us.items()))


def known_closed_us(operator: int) -> int | None:
    """What `set_closed_until` said of an operator for the micro-batch of this task, if it did."""
    closed_us: dict[int, int] = dict(_known(_CLOSED_UNTIL) or ())
    return closed_us.get(operator)


def _set(context: SparkContext, name: str, value: Any) -> None:
    context.setLocalProperty(name, json.dumps([_ids(context), value]) if value else "")


def _known(name: str) -> Any:
    """The value of a property; None if it is not set for the micro-batch of this task."""
    context = TaskContext.get()
    text = None if context is None else context.getLocalProperty(name)
    if context is None or not text:
        return None
    ids, value = json.loads(text)
    # threads of Spark's may have it from another micro-batch
    return value if None not in ids and ids == _ids(context) else None


def _ids(context: SparkContext | TaskContext) -> list[str | None]:
    return [context.getLocalProperty(name) for name in _OF_MICRO_BATCH]
