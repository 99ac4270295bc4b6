"""Read the footers of many files in a Spark job, on all executors and not in the driver's memory.

Tasks return only a few numbers per file.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from runtime.frames.arrow_tables import create_frame
from runtime.scan.metadata import FileCheck, WantedColumns, check_files
from runtime.scan.splits import FileGroups, RowGroupCriteria, select_row_groups
from runtime.spark.errors import translate_spark_errors
from runtime.spark.versions.frames import place_rows, to_arrow
from runtime.spark.workers import prepare_worker
from runtime.spec.scan import ScanFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

# Minimum number of files for a job: starting one costs as much as reading some hundred footers
MANY_FILES = 1_000
# Files per task
_PER_TASK = 256
_RESULT_DDL = "number int, results binary"
_RESULT = pa.schema([("number", pa.int32()), ("results", pa.binary())])


def file_checker(
    spark: SparkSession, many: int = MANY_FILES
) -> Callable[[Sequence[ScanFile], WantedColumns], Sequence[FileCheck]]:
    """Return a footer reader for planning a table. It uses a job from `many` files on."""

    def check(files: Sequence[ScanFile], wanted: WantedColumns) -> Sequence[FileCheck]:
        if len(files) < many:
            return check_files(files, wanted)
        return _run_job(spark, files, lambda part: check_files(part, wanted))

    return check


def row_group_selector(
    spark: SparkSession, many: int = MANY_FILES
) -> Callable[[Sequence[ScanFile], RowGroupCriteria], Sequence[FileGroups]]:
    """Return a row group reader for scanning a table. It uses a job from `many` files on."""

    def select(files: Sequence[ScanFile], criteria: RowGroupCriteria) -> Sequence[FileGroups]:
        if len(files) < many:
            return select_row_groups(files, criteria)
        return _run_job(spark, files, lambda part: select_row_groups(part, criteria))

    return select


def _run_job(
    spark: SparkSession,
    files: Sequence[ScanFile],
    function: Callable[[Sequence[ScanFile]], Sequence[T]],
) -> list[T]:
    """Apply a function in tasks, which may return early, and return the results in file order."""
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
            results = function([pickle.loads(row["file"]) for row in rows])
            blobs = pa.array([pickle.dumps(list(results))], pa.binary())
            yield pa.RecordBatch.from_arrays(
                [pa.array([rows[0]["task"]], pa.int32()), blobs], schema=_RESULT
            )

    with translate_spark_errors():
        parts = place_rows(create_frame(spark, table), n_tasks, "task")
        answers = to_arrow(parts.mapInArrow(run, _RESULT_DDL)).to_pylist()
    # safe to unpickle: made by our own tasks and passed on only by Spark
    return [
        result
        for answer in sorted(answers, key=lambda answer: int(answer["number"]))
        for result in pickle.loads(answer["results"])
    ]
