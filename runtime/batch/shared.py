"""Partials that several window aggregations read: computed once, in one statement or in many.

Within a query Spark itself sees that the exchange of the same blobs is there several times and runs
it once. Across the INSERTs of a statement set the blobs are in Spark's cache, in memory or on disk,
until the set is done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from types import TracebackType

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from runtime.batch.local_stage import LocalStage
from runtime.compute.kernels.roll_up import roll_up_levels
from runtime.frames.blobs import bucket_blobs, place_blobs
from runtime.frames.meter import Wrap
from runtime.local.stage import Cut
from runtime.spark.session import is_remote
from runtime.spec.exchange import GlobalStep, SharedExchangeStep, SharedSlicesStep
from runtime.spec.local import LocalStep, SparkRows
from runtime.spec.steps import ExpandStep, MeasuredStep, SqlStep, Step

_BLOB_DDL = "level int, bucket int, partials binary"


@dataclass(frozen=True)
class SharedBlobs:
    """Blobs of all levels.

    Attributes:
        frame: columns `level` INT, `bucket` INT and `partials` BINARY, sorted by bucket in their
            partitions.
        schema: the rows inside the blobs.
    """

    frame: DataFrame
    schema: StructType


class SharedPartials:
    """The shared partials of the statements that run together. As a context: kept until its end.

    Args:
        kept: which of them several jobs read.
    """

    def __init__(self, kept: Set[SharedExchangeStep] = frozenset()) -> None:
        self._kept = kept
        self._known: dict[SharedExchangeStep, SharedBlobs] = {}

    def __enter__(self) -> SharedPartials:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the memory back, whatever has happened."""
        for step, blobs in self._known.items():
            if step in self._kept:
                blobs.frame.unpersist()
        self._known.clear()

    def compute(self) -> None:
        """Compute now what several jobs read, and not when the first of them asks for it."""
        for step, blobs in self._known.items():
            if step in self._kept:
                # no row is read: to look for one fills the cache
                blobs.frame.where("level < 0").write.format("noop").mode("overwrite").save()

    def read(
        self, step: SharedSlicesStep, compute: Callable[[SharedExchangeStep], SharedBlobs]
    ) -> tuple[DataFrame, StructType]:
        """Blobs of one level, and the schema of the partials in them.

        Args:
            step: what to read.
            compute: makes the blobs of all levels.

        Returns:
            (`level` INT, `bucket` INT, `partials` BINARY; sorted by bucket in their partitions.
            Other levels may be among them. The columns that are read, under the reader's names.)
        """
        shared = step.input
        if shared not in self._known:
            self._known[shared] = self._keep(shared, compute(shared))
        blobs = self._known[shared]
        columns = [StructField(own, blobs.schema[name].dataType) for name, own in step.columns]
        return self._level(shared, blobs, step.level), StructType(columns)

    def _keep(self, step: SharedExchangeStep, blobs: SharedBlobs) -> SharedBlobs:
        return SharedBlobs(blobs.frame.persist(), blobs.schema) if step in self._kept else blobs

    def _level(self, step: SharedExchangeStep, blobs: SharedBlobs, level: int) -> DataFrame:
        frame = blobs.frame
        if step not in self._kept:
            # A filter would come before the exchange, and then no two exchanges were the same
            return frame
        frame = frame.where(f"level = {level}")
        if level > 0 and not is_remote(frame.sparkSession):
            return frame.coalesce(_coarse_partitions(frame.sparkSession))
        return frame


def _coarse_partitions(spark: SparkSession) -> int:
    """Tasks for a level that is rolled up: there is little of it, so one a core will do."""
    return spark.sparkContext.defaultParallelism


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
            yield from _shared_in(local)
        case LocalStep(source=SparkRows() as rows):
            yield from _shared_in(rows.input)
        case ExpandStep() | MeasuredStep():
            yield from _shared_in(step.input)


def shared_blobs(
    local: LocalStage,
    step: SharedExchangeStep,
    buckets: int,
    partitions: int,
    wrap: Callable[[str], Wrap],
) -> SharedBlobs:
    """Blobs of all levels, in the partition of their bucket.

    Args:
        local: the local stage.
        step: what is rolled up.
        buckets: how many buckets of keys there are.
        partitions: how many tasks they are spread over.
        wrap: gives what a stage of a name is wrapped in, to measure it.
    """
    blobs = local.cut(_level_cut(step, buckets), _BLOB_DDL, wrap)
    return SharedBlobs(place_blobs(blobs, partitions), local.schema)


def level_blobs(batches: Iterable[pa.RecordBatch], level: int) -> Iterator[tuple[int, memoryview]]:
    """(bucket, blob) of one level, one by one; the rows come sorted by bucket."""
    for batch in batches:
        levels, buckets, blobs = batch.columns
        rows = zip(levels.to_pylist(), buckets.to_pylist(), blobs, strict=True)
        for found, bucket, blob in rows:
            if found == level:
                yield bucket, blob.as_buffer()


def _level_cut(step: SharedExchangeStep, buckets: int) -> Cut:
    """Partials rolled up to every level and cut into blobs for the buckets."""
    keys, slice_end = step.keys, step.slice_end
    accumulators, levels = step.accumulators, step.levels

    def cut(table: pa.Table) -> Iterator[pa.RecordBatch]:
        for level, partials in roll_up_levels(table, keys, slice_end, accumulators, levels):
            blobs = bucket_blobs(partials, keys, buckets)
            number = pa.array([level] * blobs.num_rows, pa.int32())
            yield blobs.add_column(0, "level", number)

    return cut
