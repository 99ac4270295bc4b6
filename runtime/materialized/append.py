"""Insert rows into a slice table, from a batch query or from the micro-batches of a stream."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from runtime.errors import ExecutionError
from runtime.frames.blobs import BLOB_DDL, map_in_arrow
from runtime.frames.meter import ArrowFunction
from runtime.lake.places import TablePlace
from runtime.local.scan_rows import ScanRows, scan_projection
from runtime.local.stage import BufferPlan, aggregate, buffer_plan
from runtime.materialized.build import (
    BaseRows,
    JobsRun,
    ReadRanges,
    TimeCuts,
    ranges_batch,
    to_stored_columns,
    without_files,
    write_partials,
)
from runtime.materialized.commits import ChangedMeanwhile, commit, remove_on_error
from runtime.materialized.refresh import MAX_ATTEMPTS, compact, settle
from runtime.materialized.store import open_slices, stored_schema
from runtime.spark.clusters import check_seen_by_all
from runtime.spark.versions.arrow_types import to_arrow_schema
from runtime.spark.workers import prepare_worker
from runtime.spec.scan import DEFAULT_BUFFER_BYTES
from runtime.writing.places import remove_files

# Time buckets per core of a batch INSERT, whose row count is unknown in advance
_BUCKETS_PER_CORE = 2


@dataclass(frozen=True)
class InsertedRows:
    """Slice table and the local stage that turns inserted rows into its partials.

    Attributes:
        place: Directory of the table.
        name: Table name.
        base: Local stage over the rows; it lists no files.
        buffer_bytes: Maximum bytes of partials that a task buffers before it sends them.
    """

    place: TablePlace
    name: str
    base: BaseRows
    buffer_bytes: int = DEFAULT_BUFFER_BYTES


def append(
    rows: DataFrame,
    into: InsertedRows,
    batch: tuple[str, int] | None = None,
    jobs_run: JobsRun = nullcontext,
) -> int:
    """Append rows to a slice table as one version and return the number of rows read.

    A version written by a stream records its micro-batch as a Delta transaction identifier, and a
    micro-batch that is already recorded is skipped. So each is added exactly once, even after a
    crash. Readers merge the new partials with existing ones of the same slice, so late rows need no
    special treatment.

    Args:
        rows: Rows with the columns that the local stage reads.
        into: Target table.
        batch: Stream identifier, stable across restarts, and micro-batch number. None for a batch
            INSERT.
        jobs_run: Context manager in which Spark jobs run.

    Raises:
        CatalogError: The table no longer exists.
        ExecutionError: A row cannot be evaluated, a sum overflows, or the table cannot be written.
    """
    table = open_slices(into.place, into.name)
    if batch is not None and table.last_batch(batch[0]) >= batch[1]:
        return 0
    spark = rows.sparkSession
    check_seen_by_all(
        spark,
        into.place.path,
        f"the files of materialized table `{into.name}`",
        "set 'path' to a directory that all hosts share",
    )
    n_cores = spark.sparkContext.defaultParallelism
    n_buckets = n_cores * _BUCKETS_PER_CORE if batch is None else 1
    step = without_files(into.base.step)
    plan = buffer_plan(step, *scan_projection(step.source), into.buffer_bytes)
    mark = uuid.uuid4().hex
    built, tiers = None, table.reached
    with remove_on_error(into.place, mark):
        for _ in range(MAX_ATTEMPTS):
            is_in = batch is not None and table.last_batch(batch[0]) >= batch[1]
            if built is not None and (is_in or tiers != table.reached):
                remove_files(into.place.store, into.place.path, mark)
                built = None
            if is_in:
                return 0
            if built is None:
                tiers = table.reached
                cuts = TimeCuts(table.form, n_buckets, (), tiers)
                read = _read(BaseRows(step, into.base.columns), plan, cuts)
                partials = map_in_arrow(rows, read, BLOB_DDL)
                built = write_partials(table, partials, mark, n_buckets, jobs_run)
            if not built.files:
                return built.n_read
            try:
                commit(table, built.files, (), None, batch=batch)
                break
            except ChangedMeanwhile:
                table = open_slices(into.place, into.name)
        else:
            raise ExecutionError(
                f"materialized table `{into.name}` was changed concurrently in all "
                f"{MAX_ATTEMPTS} attempts to insert rows",
                subjects=(into.name,),
                hint="run fewer INSERTs and refreshes at the same time",
            )
    settle(spark, into.place, into.name, jobs_run)
    compact(spark, into.place, into.name, jobs_run)
    return built.n_read


def _read(base: BaseRows, plan: BufferPlan, cuts: TimeCuts) -> ArrowFunction:
    """Return the task function that cuts rows of Spark into partials by time and counts them."""
    schema = to_arrow_schema(stored_schema(cuts.form))

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        scan = ScanRows(base.step)

        def cut(table: pa.Table) -> Iterator[pa.RecordBatch]:
            yield from cuts(to_stored_columns(table, base.columns, schema))

        yield from aggregate(plan, (plan.rows(scan.rows_of_spark(batch)) for batch in batches), cut)
        yield ranges_batch(ReadRanges({}, scan.n_rows), cuts.n_buckets)

    return run
