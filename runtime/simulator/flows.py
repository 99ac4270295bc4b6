"""Rows of a micro-batch as they are distributed over tasks, with the watermarks among them.

Filters and projections leave rows in their tasks. So a step on whole windows gets the rows that the
tasks of its operator have emitted, and the exchange before it can go wrong as on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from runtime.engines.local.execute import computed_batches
from runtime.plan.arrow_rows import GivenRows, ProjectedRows, RepeatedRows, UnitedRows
from runtime.plan.nodes import PlanNode

# Name of the rows of one task
_TASK = "$task"


@dataclass(frozen=True)
class Mark:
    """Watermark that a row carries.

    Attributes:
        source: Name of the source, as in `StreamSource`. Empty: the input of all has ended.
        watermark_us: Watermark. None for a row without a time.
        split: Split of the source. None: splits are not tracked.
    """

    source: str
    watermark_us: int | None
    split: int | None = None


@dataclass(frozen=True)
class TaskFlow:
    """Rows of one task.

    Attributes:
        rows: Rows.
        marks: Watermarks of the sources.
    """

    rows: Sequence[pa.RecordBatch]
    marks: Sequence[Mark] = ()


# Rows of all tasks
Flow: TypeAlias = Sequence[TaskFlow]


def flow_of(rows: PlanNode, flows: Mapping[str, Flow]) -> list[TaskFlow]:
    """Return the rows of a relation in their tasks.

    A relation that does more than filter and project rows is computed in a single task.

    Args:
        rows: Relation.
        flows: Rows of `GivenRows` by name.

    Raises:
        ExecutionError: An expression fails.
    """
    match rows:
        case GivenRows():
            return list(flows[rows.name])
        case ProjectedRows() | RepeatedRows():
            own = replace(rows, input=GivenRows(_TASK, of=rows.input))
            return map_rows(
                flow_of(rows.input, flows), lambda task: list(computed_batches(own, {_TASK: task}))
            )
        case UnitedRows():
            return [task for part in rows.parts for task in flow_of(part, flows)]
    names = [below.name for below in rows.walk() if isinstance(below, GivenRows)]
    tasks = [task for name in dict.fromkeys(names) for task in flows[name]]
    given = {name: rows_of_tasks(flows[name]) for name in names}
    marks = [mark for task in tasks for mark in task.marks]
    return [TaskFlow(list(computed_batches(rows, given)), marks)]


def map_rows(
    flow: Flow, change: Callable[[Sequence[pa.RecordBatch]], list[pa.RecordBatch]]
) -> list[TaskFlow]:
    """Return a flow with changed rows in each task that has some."""
    return [replace(task, rows=change(task.rows) if task.rows else []) for task in flow]


def rows_of_tasks(flow: Flow) -> list[pa.RecordBatch]:
    """Return the rows of all tasks."""
    return [batch for task in flow for batch in task.rows]
