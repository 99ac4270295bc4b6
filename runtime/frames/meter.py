"""Counters of EXPLAIN ANALYZE.

Python stages are wrapped: each task reports rows, bytes, seconds and memory through one Spark
accumulator. The reports are keyed by task so that a retried task counts once. Between the stages,
Spark counts the rows of DataFrames as observed metrics. Without a meter the plan contains none of
this.

Uses the private API `Observation._jo`, checked with Spark 4.3. Without it, rows counted by Spark
are left out.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from runtime.compute.arrow.blobs import from_blobs
from runtime.compute.counters import count_into
from runtime.frames.scan_counts import LastWins, new_accumulator
from runtime.spark.private import unless_missing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

ArrowFunction = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Wrap = Callable[[ArrowFunction], ArrowFunction]

# Name prefix of the functions of measured stages; the operator follows
MEASURED = "measured_"

# (operator, stage, partition) -> figures of the task
_Records = dict[tuple[str, int, int], dict[str, float]]


def unmeasured(function: ArrowFunction) -> ArrowFunction:
    """Return the function unmeasured."""
    return function


@dataclass(frozen=True)
class Measured:
    """Figures of one operator.

    Attributes:
        rows_in: Number of input rows, or of partials if they come as blobs.
        rows_out: Number of output rows or partials.
        blobs_out: Number of blobs that held the output; 0 for rows.
        bytes_out: Serialized size of the blobs.
        seconds: Time in the operator's own code, summed over its tasks.
        peak_memory_bytes: Largest resident set of a worker process during one of its tasks.
        counters: Counters of the operator's own.
        tasks: Spark stage, partition and time in the operator's own code of each task.
        task_rows_in: Number of input rows of each task.
        is_observed: Whether Spark counted the output rows between the stages.
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
    """Measurement of the operators of one query.

    Args:
        spark: Embedded or cluster session. Spark Connect has no accumulators.
    """

    def __init__(self, spark: SparkSession) -> None:
        nothing: _Records = {}
        self._records = new_accumulator(spark.sparkContext, nothing, LastWins())
        self._observations: list[tuple[str, Observation]] = []

    def wrap(self, label: str) -> Wrap:
        """Return a wrapper that measures a Python stage under a label."""
        records = self._records

        def wrap(function: ArrowFunction) -> ArrowFunction:
            return measure_stage(function, label, records)

        return wrap

    def tasks(self, label: str) -> TaskFigures:
        """Return counters for the tasks of a stage that is not a function of batches."""
        return TaskFigures(label, self._records)

    def observe(self, label: str, frame: DataFrame) -> DataFrame:
        """Return the same rows, counted under a label as they pass."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        observation = Observation(f"{label}-{uuid4().hex}")
        self._observations.append((label, observation))
        return frame.observe(observation, F.count(F.lit(1)).alias("rows"))

    def results(self) -> dict[str, Measured]:
        """Return the figures by label. Call it after all jobs have finished and reported."""
        results: dict[str, Measured] = {}
        for label in {label for label, _, _ in self._records.value}:
            tasks = {k[1:]: v for k, v in self._records.value.items() if k[0] == label}
            results[label] = _total_figures(tasks)
        for label, observation in self._observations:
            rows = _observed_rows(observation)
            if rows is not None:
                before = results.get(label)
                rows_out = rows + (before.rows_out or 0 if before is not None else 0)
                results[label] = Measured(rows_out=rows_out, is_observed=True)
        return results


class TaskFigures:
    """Figures of the tasks of a stage that is not a function of batches.

    Args:
        label: Operator.
        records: Spark accumulator.
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
        """Add amounts to the figures of this task."""
        if self._figures is None:
            self._figures = {}
            self._records.add({(self._label, *_place()): self._figures})
            reset_peak()
        for name, amount in amounts.items():
            self._figures[name] = self._figures.get(name, 0) + amount
        self._figures["peak_memory_bytes"] = peak_memory_bytes()


def _place() -> tuple[int, int]:
    """Return stage and partition of the running task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return (context.stageId(), context.partitionId()) if context else (-1, -1)


def _total_figures(tasks: dict[tuple[int, int], dict[str, float]]) -> Measured:
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


def _observed_rows(observation: Observation) -> int | None:
    """Return the observed row count, or None if Spark dropped the observation from its plan."""

    def is_known() -> bool:
        # private, checked with PySpark 4.3; `get` would wait forever
        java_observation: Any = observation._jo
        return java_observation is not None and bool(java_observation.future().isCompleted())

    if not unless_missing("row counts of Spark's operators are not available", is_known, False):
        return None
    return int(observation.get["rows"])


def measure_stage(function: ArrowFunction, label: str, records: Any) -> ArrowFunction:
    """Return the stage with reporting of what its tasks do.

    Args:
        function: The stage.
        label: Operator to report under.
        records: Spark accumulator of (label, stage, partition) to figures.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stage, partition = _place()
        counters: dict[str, int] = {}
        figures: dict[str, float] = {}
        # reported at once and filled while the task runs, because it may be stopped before its end
        records.add({(label, stage, partition): figures})
        reset_peak()
        waited = 0.0

        def watch() -> Iterator[pa.RecordBatch]:
            nonlocal waited
            source = iter(batches)
            while True:
                started = time.perf_counter()
                batch = next(source, None)
                if batch is None:
                    waited += time.perf_counter() - started
                    return
                _add(figures, "rows_in", _row_count(batch))
                waited += time.perf_counter() - started
                yield batch

        results = function(watch())
        spent = 0.0
        while True:
            started = time.perf_counter()
            with count_into(counters):
                result = next(results, None)
            spent += time.perf_counter() - started
            figures["seconds"] = spent - waited
            figures["peak_memory_bytes"] = peak_memory_bytes()
            # the stage's own counters override figures of the same name
            figures.update(counters)
            if "rows_scanned" in counters:
                # the input rows are split numbers
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
    """Return the number of rows, or of the partials inside blobs."""
    if not _holds_blobs(batch) or batch.num_rows == 0:
        return int(batch.num_rows)
    return sum(from_blobs([blob.as_buffer()]).num_rows for blob in batch.column("partials"))


def reset_peak() -> None:
    """Reset the peak of the resident set, because workers are reused. Linux only."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return  # the peak then counts from the start of the process


def peak_memory_bytes() -> int:
    """Return the peak resident set of this process since its start or the last `reset_peak`."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass  # no /proc on this system
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
