"""The window operator in Spark's transformWithState, which calls it for each key group.

When a stream starts, Spark runs the processor once in a new process, only to ask for its state
variables. This module therefore imports neither Arrow nor the operators before the first rows:
without them that process is done in a fifth of the time, and the first micro-batch begins sooner.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from runtime.spark.versions.newer_classes import StatefulProcessor, StatefulProcessorHandle

if TYPE_CHECKING:
    from runtime.frames.meter import TaskFigures
    from runtime.streaming.execute.task_rows import TaskRows
    from runtime.streaming.task import TaskSpec

# Name of the state variable in Spark
STATE_NAME = "blobs"
# Types, because parsing a DDL text costs four round trips to the JVM in each task
_NAMES = StructType([StructField("name", StringType())])
_BLOBS = StructType([StructField("blob", BinaryType())])


class WindowProcessor(StatefulProcessor):
    """Processor that runs the operator of each key group on state in Spark.

    Args:
        spec: Spec of the tasks.
        figures: Records metrics. None means no metrics.
    """

    def __init__(self, spec: TaskSpec, figures: TaskFigures | None = None) -> None:
        # unpickled on the first rows, because the classes of the spec import the operators
        self._pickled: bytes = cloudpickle.dumps((spec, figures))  # type: ignore[no-untyped-call]
        self._task: TaskRows | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Prepare for a task. Called by Spark before `handleInputRows`."""
        self._task = None
        self._blobs = handle.getMapState(STATE_NAME, _NAMES, _BLOBS)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Process a micro-batch of a key group. Spark calls it for every key group."""
        if self._task is None:
            from runtime.streaming.execute.task_rows import TaskRows

            spec, figures = cloudpickle.loads(self._pickled)
            # valid for one task in one micro-batch
            self._task = TaskRows(spec, figures, self._blobs)
        return self._task.process(key[0], rows)

    def close(self) -> None:
        """Called by Spark at the end. There is nothing to close."""
