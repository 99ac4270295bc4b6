"""Projection of merged windows with Arrow, in tasks or on the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.arrow.evaluate import evaluate, filter_mask
from runtime.compute.arrow.types import arrow_type
from runtime.plan.exchange import WindowProjection

_MILLISECOND_US = 1_000
_Source = TypeVar("_Source")


def window_projector(
    to_windows: Callable[[_Source], Iterator[pa.RecordBatch]],
    projection: WindowProjection,
    end: str,
) -> Callable[[_Source], Iterator[pa.RecordBatch]]:
    """Return a function that merges windows and projects them.

    Args:
        to_windows: Function that merges windows.
        projection: Projection of the windows.
        end: Window end column.
    """
    schema = projection_schema(projection)

    def rows(source: _Source) -> Iterator[pa.RecordBatch]:
        for windows in to_windows(source):
            if projection.window_time is not None:
                windows = with_window_time(windows, projection.window_time, end)
            if projection.filters:
                windows = windows.filter(filter_mask(projection.filters, windows))
            columns = [evaluate(expression, windows) for _, expression in projection.columns]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return rows


def with_window_time(windows: pa.RecordBatch, name: str, end: str) -> pa.RecordBatch:
    """Append the time of windows, which is a millisecond before their end."""
    last_us = pc.subtract(windows.column(end).cast(pa.int64()), _MILLISECOND_US)
    return windows.append_column(name, last_us.cast(windows.column(end).type))


def projection_schema(projection: WindowProjection) -> pa.Schema:
    """Return the schema of projected windows."""
    return pa.schema(
        [(name, arrow_type(expression.type)) for name, expression in projection.columns]
    )
