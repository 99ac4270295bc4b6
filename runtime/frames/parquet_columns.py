"""Which columns of a Parquet file a dictionary makes smaller."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# So many rows are looked at, spread over all
_SAMPLE_ROWS = 4096
# A column with more distinct values than this in the sample has some 100,000 of them or more, which
# is about where Arrow gives a dictionary up (1 MiB): all that went into it was for nothing
_DISTINCT = 0.98


def repeating_columns(rows: pa.Table) -> list[str] | bool:
    """The columns for the writer's `use_dictionary`: those with values that come back.

    Args:
        rows: the first rows of a file.

    Returns:
        Their names; True, all columns, if a column is of a nested type, which is several in a file.
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
