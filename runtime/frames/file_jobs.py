"""Footers of many files, read by a job of Spark's: on all executors, and off the driver's memory.

What comes back of a file are a few numbers, whatever its footer holds.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from runtime.scan.metadata import Looked, WantedColumns, look_here
from runtime.scan.splits import FileGroups, Sought, groups_here
from runtime.spark.errors import translated_errors
from runtime.spark.workers import prepare_worker
from runtime.spec.scan import ScanFile

T = TypeVar("T")

# From so many on a job reads them: it starts in the time that the driver takes for some hundreds
MANY_FILES = 1_000
# Files that a task looks at
_PER_TASK = 256
_RESULT_DDL = "number int, found binary"
_RESULT = pa.schema([("number", pa.int32()), ("found", pa.binary())])


def look_by_job(
    spark: SparkSession, many: int = MANY_FILES
) -> Callable[[Sequence[ScanFile], WantedColumns], Sequence[Looked]]:
    """What reads the footers of a table that is planned, by a job where they are many."""

    def look(files: Sequence[ScanFile], wanted: WantedColumns) -> Sequence[Looked]:
        if len(files) < many:
            return look_here(files, wanted)
        return _by_job(spark, files, lambda part: look_here(part, wanted))

    return look


def groups_by_job(
    spark: SparkSession, many: int = MANY_FILES
) -> Callable[[Sequence[ScanFile], Sought], Sequence[FileGroups]]:
    """What reads the row groups of a table that is scanned, by a job where its files are many."""

    def groups(files: Sequence[ScanFile], sought: Sought) -> Sequence[FileGroups]:
        if len(files) < many:
            return groups_here(files, sought)
        return _by_job(spark, files, lambda part: groups_here(part, sought))

    return groups


def _by_job(
    spark: SparkSession,
    files: Sequence[ScanFile],
    function: Callable[[Sequence[ScanFile]], Sequence[T]],
) -> list[T]:
    """What a function makes of each file, in tasks; where it stops early, of as many."""
    n_tasks = -(-len(files) // _PER_TASK)
    table = pa.table(
        {
            "task": pa.array((i // _PER_TASK for i in range(len(files))), pa.int32()),
            "file": pa.array(map(pickle.dumps, files), pa.binary()),
        }
    )

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for batch in batches:
            rows = batch.to_pylist()
            found = function([pickle.loads(row["file"]) for row in rows])
            blobs = pa.array([pickle.dumps(list(found))], pa.binary())
            yield pa.RecordBatch.from_arrays(
                [pa.array([rows[0]["task"]], pa.int32()), blobs], schema=_RESULT
            )

    with translated_errors():
        parts = spark.createDataFrame(table).repartitionById(n_tasks, "task")
        answers = parts.mapInArrow(run, _RESULT_DDL).toArrow().to_pylist()
    # made by tasks of ours, and handed over by Spark alone
    return [
        each
        for answer in sorted(answers, key=lambda answer: int(answer["number"]))
        for each in pickle.loads(answer["found"])
    ]
