"""Format of the exchange: Arrow IPC streams as bytes, one blob per bucket of keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.compute.kernels.conversions import table_bytes

# Workers are single-threaded: do not decompress columns in other threads.
_READING = pa.ipc.IpcReadOptions(use_threads=False)

# Reading a large state value costs 12 ms per megabyte, so keep values small and reads rare.
MAX_BLOB_BYTES = 1 << 20


def to_blob(data: pa.RecordBatch | pa.Table, compression: str | None = None) -> bytes:
    """Return an Arrow IPC stream with the schema and all rows of `data`.

    Args:
        data: Rows to write; of a sliced batch, only the slice is written.
        compression: `lz4`, `zstd` or None.
    """
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
    with pa.ipc.new_stream(sink, data.schema, options=options) as writer:
        writer.write(data)
    blob: bytes = sink.getvalue().to_pybytes()
    return blob


def to_blobs(parts: Iterable[pa.RecordBatch], compression: str | None = None) -> pa.BinaryArray:
    """Return the blobs of `parts` in one column, written as by `to_blob` but without a copy."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
    offsets = [0]
    for batch in parts:
        with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
            writer.write_batch(batch)
        offsets.append(sink.tell())
    # int32 offsets: a column holds 2 GiB, far more than a task collects.
    ends = pa.array(offsets, pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, ends, sink.getvalue()])


def from_blobs(blobs: Iterable[bytes | memoryview], schema: pa.Schema | None = None) -> pa.Table:
    """Return the rows of all blobs, in order, as one table over the blobs' own memory.

    Args:
        blobs: Streams from `to_blob` with the same schema, as bytes or another buffer type.
        schema: Schema of the result without blobs.

    Raises:
        ValueError: Neither blobs nor a schema were passed.
    """
    batches: list[pa.RecordBatch] = []
    for blob in blobs:
        with pa.ipc.open_stream(pa.py_buffer(blob), options=_READING) as reader:
            schema = reader.schema if schema is None else schema
            batches.extend(reader)
    if schema is None:
        raise ValueError("there are no blobs, and no schema for an empty table")
    return pa.Table.from_batches(batches, schema)


def pieces(table: pa.Table, max_bytes: int = MAX_BLOB_BYTES) -> list[pa.Table]:
    """Split a table into tables of about `max_bytes` at most."""
    # the size of all buffers is an upper bound that takes no time
    if table.get_total_buffer_size() <= max_bytes:
        return [table]
    n_pieces = -(-table_bytes(table) // max_bytes)
    if n_pieces < 2:
        return [table]
    n_rows = -(-table.num_rows // n_pieces)
    return [table.slice(start, n_rows) for start in range(0, table.num_rows, n_rows)]


def split_by_bucket(
    table: pa.Table, buckets: npt.NDArray[np.int32]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield (bucket, rows) for each non-empty bucket, ascending; the order of rows is kept.

    Sorts all rows once, stably; the batches are slices of the sorted table.
    """
    if len(buckets) == 0:
        return
    if len(buckets) == 1 or int(buckets.min()) == int(buckets.max()):
        (batch,) = table.combine_chunks().to_batches()
        yield int(buckets[0]), batch
        return
    # numpy sorts 16-bit integers by radix, several times faster than wider ones.
    narrow = buckets.astype(np.uint16) if int(buckets.max()) < 1 << 16 else buckets
    order = np.argsort(narrow, kind="stable")
    ordered = narrow[order]
    ordered_table = table.combine_chunks().take(pa.array(order)).combine_chunks()
    (batch,) = ordered_table.to_batches()
    starts = np.concatenate(([0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1))
    ends = np.append(starts[1:], len(ordered))
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        yield int(ordered[start]), batch.slice(start, end - start)
