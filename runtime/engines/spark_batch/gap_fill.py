"""Gap filling on Spark: all rows of a key in one task."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from runtime.compute.arrow.batches import as_batch, plain_batches
from runtime.names import quote_name
from runtime.plan.arrow_rows import FilledRows


def gaps_filled(rows: DataFrame, node: FilledRows) -> DataFrame:
    """Return the rows, with a row added for every window of a key without rows.

    A task holds the rows of its keys in memory.

    Args:
        rows: Rows of the node's input.
        node: Windows and values.
    """
    filling, zone = node.filling, node.time_zone
    may_be_null = {name for name, _ in filling.fillers}
    may_be_null |= {field.name for field in rows.schema.fields if field.nullable}

    def fill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from runtime.compute.kernels.gap_fill import fill_gaps

        rows = list(batches)
        if rows:
            whole = as_batch(pa.Table.from_batches(rows))
            fields = [field.with_nullable(field.name in may_be_null) for field in rows[0].schema]
            for batch in fill_gaps(whole, filling, zone):
                for part in plain_batches(batch, rows[0].schema):
                    yield pa.RecordBatch.from_arrays(part.columns, schema=pa.schema(fields))

    fields = rows.schema.fields
    schema = StructType(
        [StructField(f.name, f.dataType, f.name in may_be_null, f.metadata) for f in fields]
    )
    keys = [quote_name(name) for name in filling.keys]
    placed = rows.repartition(*keys) if keys else rows.repartition(1)
    return placed.mapInArrow(fill, schema)
