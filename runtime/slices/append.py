"""Rows that are inserted into a table of slices, by a batch or by the micro-batches of a stream."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from runtime.connectors.lake.parquet_files import remove_files
from runtime.connectors.lake.places import TablePlace
from runtime.errors import ExecutionError
from runtime.frames.blobs import BLOB_DDL, map_in_arrow
from runtime.frames.meter import ArrowFunction
from runtime.local.scan_rows import ScanRows, scan_projection
from runtime.local.stage import BufferPlan, aggregate, buffer_plan
from runtime.slices.build import (
    BaseRows,
    JobsRun,
    Seen,
    TimeCuts,
    as_kept,
    seen_rows,
    without_files,
    written,
)
from runtime.slices.commits import ChangedMeanwhile, commit
from runtime.slices.faults import UnknownOutcome
from runtime.slices.refresh import MOST_ATTEMPTS, compact, settle
from runtime.slices.store import open_slices, stored_schema
from runtime.spark.clusters import check_seen_by_all
from runtime.spark.workers import prepare_worker
from runtime.spec.scan import DEFAULT_BUFFER_BYTES

# Buckets of time of an INSERT in batch, for each core: how many rows come is not known
_BUCKETS_PER_CORE = 2


@dataclass(frozen=True)
class InsertedRows:
    """A table of slices, and how rows that are inserted become partials of it.

    Attributes:
        place: the directory of the table.
        name: what it is called.
        base: the local stage over the rows; it names no files.
        buffer_bytes: how much a task may hold of partials before it sends them.
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
    """Put rows into slices, all at once, as one version; how many rows there were.

    The version names the micro-batch (a transaction identifier of Delta's), and one that is in the
    table is not written again: each counts once, whatever was killed in between. Rows of slices
    that are there already are merged with them by whoever reads, however late they are.

    Args:
        rows: have the columns that the local stage reads.
        into: the table.
        batch: the stream, the same after a restart, and the number of its micro-batch; None: a
            batch.
        jobs_run: a block in which jobs of Spark's run.

    Raises:
        CatalogError: the table is gone.
        ExecutionError: a row cannot be evaluated, a sum overflows, or the table cannot be written.
    """
    table = open_slices(into.place, into.name)
    if batch is not None and table.last_batch(batch[0]) >= batch[1]:
        return 0
    spark = rows.sparkSession
    check_seen_by_all(
        spark,
        into.place.path,
        f"the files of materialized table `{into.name}`",
        "'path' takes a directory all hosts see",
    )
    n_cores = spark.sparkContext.defaultParallelism
    n_buckets = n_cores * _BUCKETS_PER_CORE if batch is None else 1
    step = without_files(into.base.step)
    plan = buffer_plan(step, *scan_projection(step.source), into.buffer_bytes)
    mark = uuid.uuid4().hex
    is_in, built, tiers = False, None, table.reached
    try:
        for _ in range(MOST_ATTEMPTS):
            if built is not None and tiers != table.reached:
                remove_files(into.place.path, mark, into.place.store)
                built = None
            if built is None:
                tiers = table.reached
                cuts = TimeCuts(table.form, n_buckets, (), tiers)
                read = _read(BaseRows(step, into.base.columns), plan, cuts)
                partials = map_in_arrow(rows, read, BLOB_DDL)
                built = written(table, partials, mark, n_buckets, jobs_run)
            if not built.files:
                return built.n_read
            try:
                commit(table, mark, built.files, (), None, batch=batch)
            except ChangedMeanwhile:
                table = open_slices(into.place, into.name)
                if batch is not None and table.last_batch(batch[0]) >= batch[1]:
                    return 0
                continue
            except UnknownOutcome:
                is_in = True
                raise
            is_in = True
            settle(spark, into.place, into.name, jobs_run)
            compact(spark, into.place, into.name, jobs_run)
            return built.n_read
    finally:
        if not is_in:
            remove_files(into.place.path, mark, into.place.store)
    raise ExecutionError(
        f"materialized table `{into.name}` is changed by others again and again, {MOST_ATTEMPTS} "
        "times while rows were inserted",
        subjects=(into.name,),
        hint="run fewer INSERTs and refreshes at a time",
    )


def _read(base: BaseRows, plan: BufferPlan, cuts: TimeCuts) -> ArrowFunction:
    """What a task makes of rows of Spark: partials in buckets of time, and how many rows it saw."""
    schema = to_arrow_schema(stored_schema(cuts.form), timezone="UTC")

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        scan = ScanRows(base.step)

        def cut(table: pa.Table) -> Iterator[pa.RecordBatch]:
            yield from cuts(as_kept(table, base.columns, schema))

        yield from aggregate(plan, (plan.rows(scan.of_spark(batch)) for batch in batches), cut)
        yield seen_rows(Seen({}, scan.n_rows), cuts.n_buckets)

    return run
