"""What the exchange carries: Arrow IPC streams as bytes, one blob per bucket of keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.compute.kernels.columns import table_bytes

# Workers compute on one thread: columns that are compressed are not handed to another
_READING = pa.ipc.IpcReadOptions(use_threads=False)

# Reading a large value of state costs 12 ms a megabyte, so values are kept small and read seldom.
MAX_BLOB_BYTES = 1 << 20


def to_blob(data: pa.RecordBatch | pa.Table, compression: str | None = None) -> bytes:
    """An Arrow IPC stream with the schema and all rows of `data`.

    Args:
        data: what to write; of a sliced batch only the slice is written.
        compression: `lz4`, `zstd` or None.
    """
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
    with pa.ipc.new_stream(sink, data.schema, options=options) as writer:
        writer.write(data)
    blob: bytes = sink.getvalue().to_pybytes()
    return blob


def to_blobs(parts: Iterable[pa.RecordBatch], compression: str | None = None) -> pa.BinaryArray:
    """The blob of each of `parts`, as `to_blob` writes it, in one column without a further copy."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
    offsets = [0]
    for batch in parts:
        with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
            writer.write_batch(batch)
        offsets.append(sink.tell())
    # int32 offsets: a column holds 2 GiB, far above what a task collects.
    ends = pa.array(offsets, pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, ends, sink.getvalue()])


def from_blobs(blobs: Iterable[bytes | memoryview], schema: pa.Schema | None = None) -> pa.Table:
    """The rows of all blobs, in order, as one table over the blobs' own memory.

    Args:
        blobs: streams that `to_blob` wrote, all of one schema, as bytes or anything over bytes.
        schema: the schema of the result if there are no blobs.

    Raises:
        ValueError: no blobs and no schema.
    """
    batches: list[pa.RecordBatch] = []
    for blob in blobs:
        with pa.ipc.open_stream(pa.py_buffer(blob), options=_READING) as reader:
            schema = reader.schema if schema is None else schema
            batches.extend(reader)
    if schema is None:
        raise ValueError("there are no blobs, and no schema for an empty table")
    return pa.Table.from_batches(batches, schema)


def pieces(table: pa.Table) -> list[pa.Table]:
    """The rows of a table in tables of about MAX_BLOB_BYTES at most."""
    n_pieces = -(-table_bytes(table) // MAX_BLOB_BYTES)
    if n_pieces < 2:
        return [table]
    n_rows = -(-table.num_rows // n_pieces)
    return [table.slice(start, n_rows) for start in range(0, table.num_rows, n_rows)]


def split_by_bucket(
    table: pa.Table, buckets: npt.NDArray[np.int32]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(bucket, its rows in their order) for each bucket that has rows, buckets ascending.

    One stable sort of all rows; the batches are slices of the sorted table.
    """
    if len(buckets) == 0:
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
