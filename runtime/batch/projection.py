"""What is made of merged windows with Arrow, in tasks and in the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.arrow.evaluate import evaluate, filter_mask
from runtime.compute.arrow.types import arrow_type
from runtime.spec.exchange import WindowProjection

_MILLISECOND_US = 1_000
_Batches = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def projected(to_windows: _Batches, projection: WindowProjection, end: str) -> _Batches:
    """The global stage with what is made of its windows.

    Args:
        to_windows: the stage.
        projection: what is made of them.
        end: the column with the end of a window.
    """
    schema = projected_schema(projection)

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for windows in to_windows(batches):
            if projection.window_time is not None:
                last_us = pc.subtract(windows.column(end).cast(pa.int64()), _MILLISECOND_US)
                time = last_us.cast(windows.column(end).type)
                windows = windows.append_column(projection.window_time, time)
            if projection.filters:
                windows = windows.filter(filter_mask(projection.filters, windows))
            columns = [evaluate(expression, windows) for _, expression in projection.columns]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return rows


def projected_schema(projection: WindowProjection) -> pa.Schema:
    """The columns of what is made of windows."""
    return pa.schema([(name, arrow_type(each.type)) for name, each in projection.columns])
