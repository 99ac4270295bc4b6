"""Sorting in this process, and selection of the first rows without sorting all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from runtime.compute.arrow.batches import BATCH_ROWS, as_batch, numbers, plain_batches
from runtime.compute.kernels.conversions import Int64Array
from runtime.plan.arrow_rows import OrderedRows


def sort_rows(rows: pa.RecordBatch, of: OrderedRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Sort the rows and apply LIMIT and OFFSET.

    Args:
        rows: All rows, or the result of `first_rows`.
        of: Order, limit and offset.
        schema: Schema of the result.
    """
    if rows.num_rows:
        from runtime.compute.kernels.ranks import codes_of

        codes = codes_of(rows, of.order)
        rows = rows.take(numbers(np.lexsort(codes[::-1])))
    rows = rows.slice(of.offset, of.limit)
    shown = rows.select(rows.schema.names[: rows.num_columns - of.hidden])
    yield from plain_batches(shown, schema)


def first_rows(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    of: OrderedRows,
    batch_rows: int = BATCH_ROWS,
) -> pa.RecordBatch:
    """Return rows that include the first `offset + limit` ones, in their original order.

    Args:
        batches: All rows.
        schema: Their schema.
        of: Order, limit and offset.
        batch_rows: Number of rows after which rows that cannot be among the first are dropped.
    """
    from runtime.compute.kernels.ranks import codes_of

    assert of.limit is not None
    n_rows = of.offset + of.limit
    held: list[pa.RecordBatch] = []
    n_held = 0
    for batch in batches:
        held.append(batch)
        n_held += batch.num_rows
        if n_held >= max(batch_rows, 2 * n_rows):
            rows = as_batch(pa.Table.from_batches(held, schema))
            first = rows.take(numbers(first_positions(codes_of(rows, of.order), n_rows)))
            held, n_held = list(plain_batches(first, schema)), first.num_rows
    return as_batch(pa.Table.from_batches(held, schema))


def first_positions(codes: Sequence[Int64Array], n_rows: int) -> Int64Array:
    """Return ascending positions of rows that include the first `n_rows` ones in an order.

    Returns at most twice as many, without sorting all rows.

    Args:
        codes: Codes of the rows from `order_codes`, the most significant first.
        n_rows: Number of rows.
    """
    if n_rows >= len(codes[0]):
        return np.arange(len(codes[0]))
    if n_rows == 0:
        return np.zeros(0, np.int64)
    last = np.partition(codes[0], n_rows - 1)[n_rows - 1]
    positions = np.flatnonzero(codes[0] <= last)
    if len(positions) <= 2 * n_rows:
        return positions
    order = np.lexsort([code[positions] for code in reversed(codes)])
    return np.sort(positions[order[:n_rows]])
