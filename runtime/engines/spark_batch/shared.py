"""Partials shared by several window aggregations, of one statement or several.

Within a query, Spark detects equal exchanges and runs them once. For the INSERTs of a statement
set, the blobs are cached by Spark, in memory or on disk, until the set is done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from types import TracebackType

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from runtime.compute.kernels.roll_up import roll_up_levels
from runtime.engines.spark_batch.local_stage import LocalStage
from runtime.frames.blobs import bucket_blobs, place_blobs
from runtime.frames.meter import Wrap
from runtime.local.stage import Cut
from runtime.plan.exchange import SharedExchangeStep, SharedSlicesStep
from runtime.plan.nodes import PlanNode
from runtime.spark.session import is_remote

_BLOB_DDL = "level int, bucket int, partials binary"


@dataclass(frozen=True)
class SharedBlobs:
    """Blobs of all levels.

    Attributes:
        frame: Columns `level` INT, `bucket` INT and `partials` BINARY, sorted by bucket within
            partitions.
        schema: Schema of the partials in the blobs.
    """

    frame: DataFrame
    schema: StructType


class SharedPartials:
    """Shared partials of statements that run together, cached until the end of the context.

    Args:
        cached_steps: Steps that several jobs read. Spark caches their blobs.
    """

    def __init__(self, cached_steps: Set[SharedExchangeStep] = frozenset()) -> None:
        self._cached_steps = cached_steps
        self._blobs: dict[SharedExchangeStep, SharedBlobs] = {}

    def __enter__(self) -> SharedPartials:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release the cache, also after errors."""
        for step, blobs in self._blobs.items():
            if step in self._cached_steps:
                blobs.frame.unpersist()
        self._blobs.clear()

    def compute(self) -> None:
        """Compute the cached blobs now instead of in the first job that reads them."""
        for step, blobs in self._blobs.items():
            if step in self._cached_steps:
                # a filter that matches no rows still fills the cache
                blobs.frame.where("level < 0").write.format("noop").mode("overwrite").save()

    def read(
        self, step: SharedSlicesStep, compute: Callable[[SharedExchangeStep], SharedBlobs]
    ) -> tuple[DataFrame, StructType]:
        """Return the blobs of one level and the schema of the partials in them.

        Args:
            step: Part to read.
            compute: Function that computes the blobs of all levels.

        Returns:
            Blobs (`level` INT, `bucket` INT, `partials` BINARY; sorted by bucket within
            partitions), possibly of other levels too, and the schema of the columns read, under the
            reader's names.
        """
        shared = step.input
        if shared not in self._blobs:
            self._blobs[shared] = self._cache(shared, compute(shared))
        blobs = self._blobs[shared]
        columns = [
            StructField(reader_name, blobs.schema[name].dataType)
            for name, reader_name in step.columns
        ]
        return self._level(shared, blobs, step.level), StructType(columns)

    def _cache(self, step: SharedExchangeStep, blobs: SharedBlobs) -> SharedBlobs:
        return (
            SharedBlobs(blobs.frame.persist(), blobs.schema)
            if step in self._cached_steps
            else blobs
        )

    def _level(self, step: SharedExchangeStep, blobs: SharedBlobs, level: int) -> DataFrame:
        frame = blobs.frame
        if step not in self._cached_steps:
            # A filter would be pushed below the exchange, and the exchanges would no longer be
            # equal.
            return frame
        frame = frame.where(f"level = {level}")
        if level > 0 and not is_remote(frame.sparkSession):
            return frame.coalesce(_coarse_partitions(frame.sparkSession))
        return frame


def _coarse_partitions(spark: SparkSession) -> int:
    """Return the number of tasks for a rolled-up level: one per core, because it is small."""
    return spark.sparkContext.defaultParallelism


def shared_by_several(steps: Sequence[PlanNode]) -> frozenset[SharedExchangeStep]:
    """Return the shared partials that more than one of `steps` reads."""
    counts = Counter(shared for step in steps for shared in frozenset(_shared_in(step)))
    return frozenset(shared for shared, count in counts.items() if count > 1)


def first_reader(steps: Sequence[PlanNode], cached: Set[SharedExchangeStep]) -> int | None:
    """Return the index of the first of `steps` that reads any of `cached`; None if none does."""
    readers = (
        i for i, step in enumerate(steps) if any(shared in cached for shared in _shared_in(step))
    )
    return next(readers, None)


def _shared_in(plan: PlanNode) -> Iterator[SharedExchangeStep]:
    return (node for node in plan.walk() if isinstance(node, SharedExchangeStep))


def shared_blobs(
    local: LocalStage,
    step: SharedExchangeStep,
    buckets: int,
    partitions: int,
    wrap: Callable[[str], Wrap],
) -> SharedBlobs:
    """Return the blobs of all levels, partitioned by bucket.

    Args:
        local: Local stage.
        step: Shared exchange.
        buckets: Number of buckets.
        partitions: Number of tasks.
        wrap: Function that returns the measuring wrapper of an operator name.
    """
    blobs = local.cut(_level_cut(step, buckets), _BLOB_DDL, wrap)
    return SharedBlobs(place_blobs(blobs, partitions), local.schema)


def level_blobs(batches: Iterable[pa.RecordBatch], level: int) -> Iterator[tuple[int, memoryview]]:
    """Yield (bucket, blob) pairs of one level; the rows are sorted by bucket."""
    for batch in batches:
        levels, buckets, blobs = batch.columns
        rows = zip(levels.to_pylist(), buckets.to_pylist(), blobs, strict=True)
        for blob_level, bucket, blob in rows:
            if blob_level == level:
                yield bucket, blob.as_buffer()


def _level_cut(step: SharedExchangeStep, buckets: int) -> Cut:
    """Return a cut that rolls partials up to every level and makes blobs for the buckets."""
    keys, slice_end = step.keys, step.slice_end
    accumulators, levels = step.accumulators, step.levels

    def cut(table: pa.Table) -> Iterator[pa.RecordBatch]:
        for level, partials in roll_up_levels(table, keys, slice_end, accumulators, levels):
            blobs = bucket_blobs(partials, keys, buckets)
            number = pa.array([level] * blobs.num_rows, pa.int32())
            yield blobs.add_column(0, "level", number)

    return cut
