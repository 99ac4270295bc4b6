"""Choose the Parquet columns that a dictionary makes smaller."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Number of sampled rows, spread evenly over the table
_SAMPLE_ROWS = 4096
# A column with a higher share of distinct values in the sample has at least some 100,000 of them.
# At about that number Arrow abandons the dictionary (1 MiB), and the work on it is wasted.
_DISTINCT = 0.98


def repeating_columns(rows: pa.Table) -> list[str] | bool:
    """Return the columns with repeating values, for the writer's `use_dictionary`.

    Args:
        rows: First rows of a file.

    Returns:
        Column names. True (all columns) if any column is nested, because a nested type is several
        columns in a file.
    """
    if rows.num_rows < _SAMPLE_ROWS or any(map(pa.types.is_nested, rows.schema.types)):
        return True
    places = pa.array(np.linspace(0, rows.num_rows - 1, _SAMPLE_ROWS).astype(np.int64))
    sample = rows.take(places)
    return [
        name
        for name, column in zip(sample.column_names, sample.columns, strict=True)
        if pa.types.is_null(column.type)
        or pc.count_distinct(column, mode="all").as_py() <= _DISTINCT * _SAMPLE_ROWS
    ]
