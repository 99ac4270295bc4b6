"""The exchange of partials that come as rows of Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from runtime.compute.values.percentiles import condensed
from runtime.frames.blobs import BLOB_DDL, bucket_blobs, large_tables, place_blobs
from runtime.frames.meter import Wrap, as_it_is
from runtime.spark.workers import prepare_worker
from runtime.spec.aggregates import Accumulator, ApproxPercentile
from runtime.spec.scan import DEFAULT_BUFFER_BYTES


def exchange(
    partials: DataFrame,
    keys: tuple[str, ...],
    buckets: int,
    partitions: int,
    wrap: Wrap = as_it_is,
    buffer_bytes: int = DEFAULT_BUFFER_BYTES,
    accumulators: Sequence[Accumulator] = (),
) -> DataFrame:
    """Blobs of partials, in the partition of their bucket, sorted by bucket.

    Args:
        partials: one row per key and slice, of any number of tasks.
        keys: the columns that decide on the bucket.
        buckets: how many buckets of keys there are.
        partitions: how many tasks they are spread over.
        wrap: what the function that cuts blobs is wrapped in, to measure it.
        buffer_bytes: what a task collects before it is cut into one blob a bucket; more makes
            fewer, larger blobs.
        accumulators: what reads the partials; lists of values are thinned out for percentiles.

    Returns:
        Columns `bucket` INT and `partials` BINARY (an Arrow IPC stream).
    """

    def cut(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for table in large_tables(batches, buffer_bytes):
            yield bucket_blobs(_thinned_out(table, accumulators), keys, buckets)

    return place_blobs(partials.mapInArrow(wrap(cut), BLOB_DDL), partitions)


def _thinned_out(table: pa.Table, accumulators: Sequence[Accumulator]) -> pa.Table:
    """The partials with the values for percentiles as few as the accuracy allows."""
    accuracies: dict[str, int] = {}
    for each in accumulators:
        if isinstance(each, ApproxPercentile):
            (name,) = each.columns
            accuracies[name] = max(each.accuracy, accuracies.get(name, 0))
    for name, accuracy in accuracies.items():
        position = table.schema.get_field_index(name)
        table = table.set_column(position, name, condensed(table.column(name), accuracy))
    return table
