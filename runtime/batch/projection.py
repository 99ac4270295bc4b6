"""What is made of merged windows with Arrow, in tasks and in the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.arrow.evaluate import evaluate, filter_mask
from runtime.compute.arrow.types import arrow_type
from runtime.spec.exchange import WindowProjection

_MILLISECOND_US = 1_000
_Source = TypeVar("_Source")


def projected(
    to_windows: Callable[[_Source], Iterator[pa.RecordBatch]],
    projection: WindowProjection,
    end: str,
) -> Callable[[_Source], Iterator[pa.RecordBatch]]:
    """What merges windows, with what is made of these.

    Args:
        to_windows: merges them.
        projection: what is made of them.
        end: the column with the end of a window.
    """
    schema = projected_schema(projection)

    def rows(source: _Source) -> Iterator[pa.RecordBatch]:
        for windows in to_windows(source):
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
