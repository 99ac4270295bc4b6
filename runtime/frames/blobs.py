"""Blobs: partials as few, large Arrow IPC streams, one per bucket of keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.arrow.blobs import from_blobs, split_by_bucket, to_blob, to_blobs
from runtime.compute.kernels.keys import bucket_of
from runtime.spark.versions.frames import place_rows

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

# Passing 1 MB between two Python tasks costs Spark at least 6 ms; LZ4 halves it in 1 ms.
_COMPRESSION = "lz4"

# Turns all partials of some windows into the batches that leave the local stage instead
Emit = Callable[[pa.Table], Iterator[pa.RecordBatch]]

BLOB_DDL = "bucket int, partials binary"
# Pseudo-bucket of rows that the local stage has emitted, which bypass the global stage
_EMITTED = -1
_BLOB_SCHEMA = pa.schema([("bucket", pa.int32()), ("partials", pa.binary())])


def bucket_blobs(table: pa.Table, keys: tuple[str, ...], buckets: int) -> pa.RecordBatch:
    """Split partials into one blob per non-empty bucket: columns `bucket` and `partials`."""
    columns = [table.column(key) for key in keys]
    return split_to_blobs(table, bucket_of(columns, table.num_rows, buckets))


def split_to_blobs(table: pa.Table, placed: npt.NDArray[np.int32]) -> pa.RecordBatch:
    """Split partials into blobs by the given bucket of each row."""
    parts = list(split_by_bucket(table, placed))
    numbers = pa.array([bucket for bucket, _ in parts], pa.int32())
    blobs = to_blobs((part for _, part in parts), _COMPRESSION)
    return pa.RecordBatch.from_arrays([numbers, blobs], schema=_BLOB_SCHEMA)


def bucket_cut(
    keys: tuple[str, ...], buckets: int
) -> Callable[[pa.Table], Iterator[pa.RecordBatch]]:
    """Return a function that splits tables of partials like `bucket_blobs`."""

    def cut(table: pa.Table) -> Iterator[pa.RecordBatch]:
        yield bucket_blobs(table, keys, buckets)

    return cut


def wrap_emitted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Wrap rows emitted by the local stage so that they can travel among blobs of partials."""
    for batch in batches:
        columns = [pa.array([_EMITTED], pa.int32()), pa.array([to_blob(batch)], pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, schema=_BLOB_SCHEMA)


def without_emitted(
    batches: Iterable[pa.RecordBatch], emitted: list[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the blobs of partials and append rows emitted by the local stage to `emitted`."""
    for batch in batches:
        is_emitted = pc.equal(batch.column("bucket"), _EMITTED)
        if is_emitted.true_count:
            blobs = batch.column("partials").filter(is_emitted)
            emitted += from_blobs(blob.as_buffer() for blob in blobs).to_batches()
            batch = batch.filter(pc.invert(is_emitted))
        yield batch


def place_blobs(blobs: DataFrame, partitions: int) -> DataFrame:
    """Move blobs to the partition of their bucket, sorted by bucket.

    Columns: `bucket` INT, and `partials` BINARY with an Arrow IPC stream.
    """
    return place_rows(blobs, partitions, "bucket").sortWithinPartitions("bucket")


def map_in_arrow(
    rows: DataFrame,
    run: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: StructType | str,
) -> DataFrame:
    """Call `DataFrame.mapInArrow` with support for any column names.

    Spark's own version looks columns up by name: it does not find names with a dot or a backtick,
    and names that differ only in case are ambiguous.
    """
    names = rows.columns
    are_odd = any("." in name or "`" in name for name in names)
    if not are_odd and len({name.lower() for name in names}) == len(names):
        return rows.mapInArrow(run, schema)

    @wraps(run)
    def run_renamed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return run(batch.rename_columns(names) for batch in batches)

    return number_columns(rows).mapInArrow(run_renamed, schema)


def number_columns(rows: DataFrame) -> DataFrame:
    """Rename columns to `_0`, `_1` and so on, for names that SQL cannot distinguish."""
    return rows.toDF(*(f"_{i}" for i in range(len(rows.columns))))


def large_tables(batches: Iterable[pa.RecordBatch], enough_bytes: int) -> Iterator[pa.Table]:
    """Combine batches into tables of at least `enough_bytes`, except the last."""
    pending: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        pending.append(batch)
        size += batch.nbytes
        if size >= enough_bytes:
            yield pa.Table.from_batches(pending)
            pending, size = [], 0
    if pending:
        yield pa.Table.from_batches(pending)
