"""Cut batches by their size in bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa


def pieces(batches: Iterable[pa.RecordBatch], most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield non-empty batches of at most `most_bytes`, unless a single row is larger.

    Small batches are not combined. A large one is cut into slices of its own memory.
    """
    for batch in batches:
        if batch.num_rows < 2 or batch.nbytes <= most_bytes:
            if batch.num_rows:
                yield batch
            continue
        n_parts = min(batch.num_rows, -(-batch.nbytes // most_bytes))
        n_rows = -(-batch.num_rows // n_parts)
        slices = (batch.slice(start, n_rows) for start in range(0, batch.num_rows, n_rows))
        # rows may differ in size
        yield from pieces(slices, most_bytes)
