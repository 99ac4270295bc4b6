"""Whole relations as one batch, and back."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from runtime.compute.kernels.conversions import Int64Array, int64_array

# Maximum rows of a batch that holds all rows of a relation
BATCH_ROWS = 1 << 18
# Rows with more bytes use large text columns: Arrow's plain ones hold two GB
_MAX_TEXT_BYTES = 1 << 30


def as_batch(table: pa.Table) -> pa.RecordBatch:
    """Return all rows as one batch, with large texts if they have more than a GB."""
    if table.nbytes > _MAX_TEXT_BYTES:
        table = table.cast(pa.schema(map(_with_large_texts, table.schema)))
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


def plain_batches(rows: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows in batches of a schema. Large texts become plain ones."""
    for start in range(0, rows.num_rows, BATCH_ROWS):
        part = rows.slice(start, BATCH_ROWS)
        pairs = zip(part.columns, schema.types, strict=True)
        columns = [c if c.type == type_ else c.cast(type_) for c, type_ in pairs]
        yield pa.RecordBatch.from_arrays(columns, schema.names)


def _with_large_texts(field: pa.Field) -> pa.Field:
    """Return a field whose column may hold more than two GB of texts."""
    large = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    return field.with_type(large.get(field.type, field.type))


def numbers(values: Int64Array, type_: pa.DataType | None = None) -> pa.Array:
    """Return numbers as Arrow's; `pa.array()` would import pandas on its first call."""
    return int64_array(values, None, type_ or pa.int64())
