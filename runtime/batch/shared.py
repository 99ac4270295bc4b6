"""Partials that several window aggregations read: computed once, in one statement or in many.

Within a query Spark itself sees that the exchange of the same blobs is there several times and runs
it once. Across the INSERTs of a statement set the blobs are kept, in memory or else on disk, until
the set is done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from types import TracebackType

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from runtime.batch.exchange import bucket_blobs, large_tables, place_blobs
from runtime.batch.meter import Wrap, as_it_is
from runtime.batch.scan_counts import ScanCounter
from runtime.batch.scan_local import Cut, scan
from runtime.kernels.roll_up import roll_up_levels
from runtime.scan_spec import DEFAULT_BUFFER_BYTES, ScanLocalStep
from runtime.spark import is_remote
from runtime.steps import (
    ArrowLocalStep,
    ExpandStep,
    GlobalStep,
    LocalStep,
    MeasuredStep,
    SharedExchangeStep,
    SharedSlicesStep,
    SqlStep,
    Step,
)
from runtime.workers import prepare_worker

_BLOB_DDL = "level int, bucket int, partials binary"


class SharedPartials:
    """The shared partials of the statements that run together. As a context: kept until its end.

    Args:
        kept: which of them several jobs read.
    """

    def __init__(self, kept: Set[SharedExchangeStep] = frozenset()) -> None:
        self._kept = kept
        self._known: dict[SharedExchangeStep, tuple[DataFrame, StructType]] = {}

    def __enter__(self) -> SharedPartials:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the memory back, whatever has happened."""
        for step, (blobs, _) in self._known.items():
            if step in self._kept:
                blobs.unpersist()
        self._known.clear()

    def compute(self) -> None:
        """Compute now what several jobs read, and not when the first of them asks for it."""
        for step, (blobs, _) in self._known.items():
            if step in self._kept:
                # No row is read: to look for one fills the cache
                blobs.where("level < 0").write.format("noop").mode("overwrite").save()

    def read(
        self,
        step: SharedSlicesStep,
        compute: Callable[[SharedExchangeStep], tuple[DataFrame, StructType]],
    ) -> tuple[DataFrame, StructType]:
        """Blobs of one level, and the schema of the partials in them.

        Args:
            step: what to read.
            compute: makes the blobs of all levels, and the schema of all partials.

        Returns:
            (`level` INT, `bucket` INT, `partials` BINARY; sorted by bucket in their partitions.
            Other levels may be among them. The columns that are read, under the reader's names.)
        """
        shared = step.input
        if shared not in self._known:
            blobs, schema = compute(shared)
            self._known[shared] = (blobs.persist() if shared in self._kept else blobs, schema)
        blobs, schema = self._known[shared]
        if shared in self._kept:
            # Without the cache in between, Spark would filter before the exchange, and then no
            # two exchanges were the same.
            blobs = blobs.where(f"level = {step.level}")
            if step.level > 0 and not is_remote(blobs.sparkSession):
                # Rolled up there is little of it: a task a core will do
                blobs = blobs.coalesce(blobs.sparkSession.sparkContext.defaultParallelism)
        columns = [StructField(own, schema[name].dataType) for name, own in step.columns]
        return blobs, StructType(columns)


def read_by_several(steps: Sequence[Step]) -> frozenset[SharedExchangeStep]:
    """The shared partials that more than one of `steps` reads."""
    counts = Counter(shared for step in steps for shared in frozenset(_shared_in(step)))
    return frozenset(shared for shared, count in counts.items() if count > 1)


def first_reader(steps: Sequence[Step], kept: Set[SharedExchangeStep]) -> int | None:
    """The number of the first of `steps` that reads any of `kept`; None if none does."""
    readers = (i for i, step in enumerate(steps) if any(each in kept for each in _shared_in(step)))
    return next(readers, None)


def _shared_in(step: Step) -> Iterator[SharedExchangeStep]:
    match step:
        case SqlStep():
            for _, child in step.inputs:
                yield from _shared_in(child)
        case GlobalStep():
            if isinstance(step.input, SharedSlicesStep):
                yield step.input.input
            local = step.input.input
            if isinstance(local, SharedExchangeStep):
                local = local.input
            if isinstance(local, ArrowLocalStep):
                yield from _shared_in(local.input)
            elif not isinstance(local, ScanLocalStep):
                yield from _shared_in(local)
        case ExpandStep() | LocalStep() | MeasuredStep():
            yield from _shared_in(step.input)


def scan_shared(
    spark: SparkSession,
    step: SharedExchangeStep,
    buckets: int,
    partitions: int,
    wrap: Wrap = as_it_is,
    counter: ScanCounter | None = None,
) -> DataFrame:
    """Blobs of all levels from a local stage in the scan; as `exchange_shared`.

    Arguments as for `runtime.batch.scan_local.scan_partials`.
    """
    local = step.input
    assert isinstance(local, ScanLocalStep)
    cut = _cut_levels(step, buckets)
    return place_blobs(scan(spark, local, cut, _BLOB_DDL, wrap, counter), partitions)


def exchange_shared(
    partials: DataFrame,
    step: SharedExchangeStep,
    buckets: int,
    partitions: int,
    wrap: Wrap = as_it_is,
    buffer_bytes: int = DEFAULT_BUFFER_BYTES,
) -> DataFrame:
    """Blobs of all levels from rows of partials.

    Arguments as for `runtime.batch.exchange.exchange`.

    Returns:
        Columns `level` INT, `bucket` INT and `partials` BINARY, in the partition of their bucket,
        sorted by bucket.
    """
    cut = _cut_levels(step, buckets)

    def cut_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for table in large_tables(batches, buffer_bytes):
            yield from cut(table)

    return place_blobs(partials.mapInArrow(wrap(cut_batches), _BLOB_DDL), partitions)


def level_blobs(batches: Iterable[pa.RecordBatch], level: int) -> Iterator[tuple[int, memoryview]]:
    """(bucket, blob) of one level, one by one; the rows come sorted by bucket."""
    for batch in batches:
        levels, buckets, blobs = batch.columns
        rows = zip(levels.to_pylist(), buckets.to_pylist(), blobs, strict=True)
        for found, bucket, blob in rows:
            if found == level:
                yield bucket, blob.as_buffer()


def _cut_levels(step: SharedExchangeStep, buckets: int) -> Cut:
    """Partials rolled up to every level and cut into blobs for the buckets."""
    keys, slice_end = step.keys, step.slice_end
    accumulators, levels = step.accumulators, step.levels

    def cut(table: pa.Table) -> Iterator[pa.RecordBatch]:
        for level, partials in roll_up_levels(table, keys, slice_end, accumulators, levels):
            blobs = bucket_blobs(partials, keys, buckets)
            number = pa.array([level] * blobs.num_rows, pa.int32())
            yield blobs.add_column(0, "level", number)

    return cut
