"""Result rows on a cluster: compressed pieces in chunks, fetched two at a time.

Spark fetches a partition as a whole, and partitions follow the size of the input, or of the keys.
So tasks first compute the rows and keep them on the disks of the executors, in compressed pieces
with their position. The number of bytes in front of a piece determines its chunk. A shuffle then
makes each chunk a partition; they are fetched in order, the next one while one is read.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator

import pyarrow as pa
from pyspark import StorageLevel, TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.compute.arrow.blobs import to_blob
from runtime.frames.arrow_rows import Stage
from runtime.results.pieces import pieces
from runtime.spark.versions.frames import place_rows, to_arrow
from runtime.spark.workers import prepare_worker

PIECES_DDL = "part int, number int, before bigint, n_bytes bigint, rows binary"
_PIECES = pa.schema(
    [
        ("part", pa.int32()),
        ("number", pa.int32()),
        ("before", pa.int64()),
        ("n_bytes", pa.int64()),
        ("rows", pa.binary()),
    ]
)
_COMPRESSION = "zstd"
# The driver's JVM holds two chunks, each as a task result and as rows; this process holds a chunk
# at most, and a piece of it uncompressed
_CHUNKS_IN_FLIGHT = 6
_PIECES_PER_CHUNK = 2


def batches_from_chunks(
    run_stage: Callable[[Stage], DataFrame], most_bytes: int
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of a job, in the order of partitions.

    Args:
        run_stage: Returns the DataFrame of the job, given the stage to run on the rows.
        most_bytes: Approximate maximum of bytes in flight.

    Raises:
        Exception: Spark's error, if a job fails.
    """
    chunk_bytes = max(1, most_bytes // _CHUNKS_IN_FLIGHT)
    piece_bytes = max(1, chunk_bytes // _PIECES_PER_CHUNK)
    computed = run_stage(_compression_stage(piece_bytes)).persist(StorageLevel.DISK_ONLY)
    try:
        starts, n_bytes = _part_starts(computed)
        if n_bytes:
            for row in _fetch_chunks(computed, starts, n_bytes, chunk_bytes):
                yield from pa.ipc.open_stream(row.rows)
    finally:
        computed.unpersist()


def _compression_stage(piece_bytes: int) -> Stage:
    """Return a stage that compresses its rows in pieces and numbers them."""

    def cut(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        context = TaskContext.get()
        assert context is not None
        before = 0
        for number, piece in enumerate(pieces(batches, piece_bytes)):
            blob = to_blob(piece, _COMPRESSION)
            columns = [[context.partitionId()], [number], [before], [len(blob)], [blob]]
            arrays = [pa.array(c, f.type) for c, f in zip(columns, _PIECES, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=_PIECES)
            before += len(blob)

    return cut


def _part_starts(computed: DataFrame) -> tuple[list[int], int]:
    """Return the number of bytes before each partition, and the total."""
    sizes = to_arrow(computed.select("part", "n_bytes"))
    totals: dict[int, int] = {}
    for part, n_bytes in zip(*(column.to_pylist() for column in sizes.columns), strict=True):
        totals[part] = totals.get(part, 0) + n_bytes
    starts = [0]
    for part in range(max(totals, default=0)):
        starts.append(starts[-1] + totals.get(part, 0))
    return starts, sum(totals.values())


def _fetch_chunks(
    computed: DataFrame, starts: list[int], n_bytes: int, chunk_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Fetch the pieces in order, as rows with the column `rows`."""
    n_chunks = -(-n_bytes // chunk_bytes)
    start = F.element_at(F.lit(starts), F.col("part") + 1)
    chunk = F.floor((start + F.col("before")) / chunk_bytes).cast("int")
    # a recomputed partition may have other sizes
    chunk = F.least(chunk, F.lit(n_chunks - 1))
    chunks = place_rows(computed, n_chunks, chunk).sortWithinPartitions("part", "number")
    return chunks.select("rows").toLocalIterator(prefetchPartitions=True)
