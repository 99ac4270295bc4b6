"""What EXPLAIN ANALYZE counts while a query runs.

The Python stages are wrapped: each task reports rows, bytes, seconds and memory through one Spark
accumulator, keyed by task, so that a task that is run again is not counted twice. Between the
stages, Spark counts the rows of DataFrames as observed metrics. A run without a meter has none of
this in its plan.

Private API, seen in Spark 4.3: `Observation._jo`. Where it is missing, rows that Spark counts are
left out.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark import AccumulatorParam, TaskContext
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from runtime.compute.arrow.blobs import from_blobs
from runtime.compute.counters import counting
from runtime.frames.scan_counts import new_accumulator
from runtime.spark.private import unless_missing

ArrowFunction = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Wrap = Callable[[ArrowFunction], ArrowFunction]

# Functions of measured stages are called so, and then by the operator
MEASURED = "measured_"

# (operator, stage, partition) -> what its task counted
_Records = dict[tuple[str, int, int], dict[str, float]]


def unmeasured(function: ArrowFunction) -> ArrowFunction:
    """The function, not measured."""
    return function


@dataclass(frozen=True)
class Measured:
    """What was counted at one operator.

    Attributes:
        rows_in: rows (partials, where they come in blobs) that its tasks took.
        rows_out: rows (or partials) that it gave.
        blobs_out: how many blobs they were in; 0 for rows.
        bytes_out: size of the blobs, as they travel.
        seconds: time inside the operator's own code, added up over its tasks.
        peak_memory_bytes: the largest resident set of a worker process while it ran a task.
        counters: what the operator counted by itself.
        tasks: of each task the Spark stage, the partition, and the time in the operator's own code.
        task_rows_in: rows in of each task.
        is_observed: whether Spark counted the rows that it gave, between the stages.
    """

    rows_in: int | None = None
    rows_out: int | None = None
    blobs_out: int = 0
    bytes_out: int = 0
    seconds: float | None = None
    peak_memory_bytes: int | None = None
    counters: dict[str, int] = field(default_factory=dict)
    tasks: tuple[tuple[int, int, float], ...] = ()
    task_rows_in: tuple[int, ...] = ()
    is_observed: bool = False


class Meter:
    """Counts at the operators of one query.

    Args:
        spark: an embedded session or one on a cluster; Spark Connect has no accumulators.
    """

    def __init__(self, spark: SparkSession) -> None:
        nothing: _Records = {}
        self._records = new_accumulator(spark.sparkContext, nothing, LastWins())
        self._observations: list[tuple[str, Observation]] = []

    def wrap(self, label: str) -> Wrap:
        """A way to measure a Python stage under a name."""
        records = self._records

        def wrap(function: ArrowFunction) -> ArrowFunction:
            return measured_stage(function, label, records)

        return wrap

    def tasks(self, label: str) -> TaskFigures:
        """Where tasks of a stage that is no function of batches put what they count."""
        return TaskFigures(label, self._records)

    def observed(self, label: str, frame: DataFrame) -> DataFrame:
        """The same rows, counted under a name as they pass."""
        observation = Observation(f"{label}-{uuid4().hex}")
        self._observations.append((label, observation))
        return frame.observe(observation, F.count(F.lit(1)).alias("rows"))

    def results(self) -> dict[str, Measured]:
        """What was counted, by name. To be called when all jobs are done and reported."""
        found: dict[str, Measured] = {}
        for label in {label for label, _, _ in self._records.value}:
            tasks = {k[1:]: v for k, v in self._records.value.items() if k[0] == label}
            found[label] = _added_up(tasks)
        for label, observation in self._observations:
            rows = _rows_if_known(observation)
            if rows is not None:
                before = found.get(label)
                counted = rows + (before.rows_out or 0 if before is not None else 0)
                found[label] = Measured(rows_out=counted, is_observed=True)
        return found


class TaskFigures:
    """What the tasks of a stage count, reported like that of functions of batches.

    Args:
        label: the operator.
        records: the accumulator.
    """

    def __init__(self, label: str, records: Any) -> None:
        self._label = label
        self._records = records
        self._figures: dict[str, float] | None = None

    def __getstate__(self) -> tuple[str, Any]:
        return self._label, self._records

    def __setstate__(self, state: tuple[str, Any]) -> None:
        self._label, self._records = state
        self._figures = None

    def add(self, **amounts: float) -> None:
        """Add to what this task has counted."""
        if self._figures is None:
            self._figures = {}
            self._records.add({(self._label, *_place()): self._figures})
            reset_peak()
        for name, amount in amounts.items():
            self._figures[name] = self._figures.get(name, 0) + amount
        self._figures["peak_memory_bytes"] = peak_memory_bytes()


def _place() -> tuple[int, int]:
    """The stage and the partition of the task that runs."""
    context = TaskContext.get()
    return (context.stageId(), context.partitionId()) if context else (-1, -1)


def _added_up(tasks: dict[tuple[int, int], dict[str, float]]) -> Measured:
    def total(name: str) -> int:
        return int(sum(task.get(name, 0) for task in tasks.values()))

    fixed = {"rows_in", "rows_out", "blobs_out", "bytes_out", "seconds", "peak_memory_bytes"}
    names = {name for task in tasks.values() for name in task} - fixed
    return Measured(
        rows_in=total("rows_in"),
        rows_out=total("rows_out"),
        blobs_out=total("blobs_out"),
        bytes_out=total("bytes_out"),
        seconds=sum(task.get("seconds", 0.0) for task in tasks.values()),
        peak_memory_bytes=int(max(t.get("peak_memory_bytes", 0) for t in tasks.values())),
        counters={name: total(name) for name in sorted(names)},
        tasks=tuple((*place, task.get("seconds", 0.0)) for place, task in sorted(tasks.items())),
        task_rows_in=tuple(int(task.get("rows_in", 0)) for _, task in sorted(tasks.items())),
    )


def _rows_if_known(observation: Observation) -> int | None:
    """The rows that were observed; None if Spark left the observation out of its plan."""

    def is_known() -> bool:
        # private, seen in PySpark 4.3: `get` would wait for ever
        known: Any = observation._jo
        return known is not None and bool(known.future().isCompleted())

    if not unless_missing("observed rows are unknown", is_known, False):
        return None
    return int(observation.get["rows"])


class LastWins(AccumulatorParam[_Records]):
    """Merges what tasks report; a task that ran again replaces what it said before."""

    def zero(self, value: _Records) -> _Records:
        """Nothing reported."""
        return {}

    def addInPlace(self, value1: _Records, value2: _Records) -> _Records:
        """What is reported by both; `value2` replaces what `value1` has of the same task."""
        value1.update(value2)
        return value1


def measured_stage(function: ArrowFunction, label: str, records: Any) -> ArrowFunction:
    """A Python stage that reports what its tasks do.

    Args:
        function: the stage.
        label: the operator's, under which is counted.
        records: Spark's accumulator of (label, stage, partition) to figures.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stage, partition = _place()
        counters: dict[str, int] = {}
        figures: dict[str, float] = {}
        # reported at once, filled while the task runs: it may be stopped before its end
        records.add({(label, stage, partition): figures})
        reset_peak()
        waited = 0.0

        def watched() -> Iterator[pa.RecordBatch]:
            nonlocal waited
            source = iter(batches)
            while True:
                begun = time.perf_counter()
                batch = next(source, None)
                if batch is None:
                    waited += time.perf_counter() - begun
                    return
                _add(figures, "rows_in", _row_count(batch))
                waited += time.perf_counter() - begun
                yield batch

        results = function(watched())
        spent = 0.0
        while True:
            begun = time.perf_counter()
            with counting(counters):
                result = next(results, None)
            spent += time.perf_counter() - begun
            figures["seconds"] = spent - waited
            figures["peak_memory_bytes"] = peak_memory_bytes()
            # what a stage counts by itself under the same names is what counts
            figures.update(counters)
            if "rows_scanned" in counters:
                # what came in are numbers of splits
                figures["rows_in"] = counters["rows_scanned"]
            if result is None:
                return
            _add(figures, "rows_out", _row_count(result))
            if _holds_blobs(result):
                _add(figures, "blobs_out", result.num_rows)
                _add(figures, "bytes_out", result.column("partials").nbytes)
            yield result

    # Spark shows the name in its plans
    run.__name__ = f"{MEASURED}{label}"
    return run


def _add(figures: dict[str, float], name: str, amount: int) -> None:
    figures[name] = figures.get(name, 0) + amount


def _holds_blobs(batch: pa.RecordBatch) -> bool:
    return "partials" in batch.schema.names and "bucket" in batch.schema.names


def _row_count(batch: pa.RecordBatch) -> int:
    """Rows, or the partials inside of blobs."""
    if not _holds_blobs(batch) or batch.num_rows == 0:
        return int(batch.num_rows)
    return sum(from_blobs([blob.as_buffer()]).num_rows for blob in batch.column("partials"))


def reset_peak() -> None:
    """Let the peak of the resident set begin anew; workers are reused. Linux only."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return  # the peak is then that of the process since its start


def peak_memory_bytes() -> int:
    """The most that was resident of this process, since its start or `reset_peak`."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass  # no /proc on this system
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
