"""The global stage: partials of slices in, one row for each key and non-empty window out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from runtime.compute.accumulators.base import AccumulatorState
from runtime.compute.accumulators.segments import Segments
from runtime.compute.arrow.decimals import average
from runtime.compute.arrow.types import arrow_type
from runtime.compute.kernels.conversions import Int64Array, from_buffer
from runtime.compute.kernels.hop import HopCombiner
from runtime.compute.kernels.slices import PART_ROWS, Slices, group_slices, plain_type
from runtime.compute.kernels.window_ranges import WindowRanges, maximal_window_starts
from runtime.compute.values.distinct import distinct_aggregates
from runtime.compute.values.too_many_values import TooManyValues
from runtime.spec.aggregates import Accumulator, WindowAggregation
from runtime.windows import AlignedWindow
from runtime.windows.assigner import SliceAssigner

WINDOW_BOUND_TYPE = pa.timestamp("us")

# (oldest and newest slice of each window) -> state of each accumulator
_Combine = Callable[[Int64Array, Int64Array], list[AccumulatorState]]


def merged_schema(input_schema: pa.Schema, spec: WindowAggregation) -> pa.Schema:
    """Return the schema of the result: keys, window start and end, the accumulators' columns.

    Args:
        input_schema: Schema of the partials; dictionary-encoded columns are decoded.
        spec: Aggregation.
    """
    bounds = [
        pa.field(name, WINDOW_BOUND_TYPE, nullable=False)
        for name in (spec.window_start, spec.window_end)
    ]
    return pa.schema(
        [
            *(_plain_field(input_schema.field(name)) for name in spec.keys),
            *bounds,
            *(
                field
                for accumulator in spec.accumulators
                for field in _output_fields(input_schema, accumulator)
            ),
            *(
                pa.field(average.output.name, arrow_type(average.output.type))
                for average in spec.averages
            ),
        ]
    )


def with_averages(
    columns: Sequence[pa.Array], schema: pa.Schema, spec: WindowAggregation
) -> pa.RecordBatch:
    """Return merged windows with the averages of merged columns.

    Args:
        columns: Keys, bounds and merged columns.
        schema: The `merged_schema`.
        spec: Aggregation.

    Raises:
        ExecutionError: An average does not fit its type.
    """
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(columns, schema, strict=False)
    ]
    place = {name: i for i, name in enumerate(schema.names)}
    for part in spec.averages:
        total, count = columns[place[part.total]], columns[place[part.count]]
        columns.append(average(total, count, arrow_type(part.output.type)))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def merge_slices(
    table: pa.Table,
    spec: WindowAggregation,
    max_rows: int = 65_536,
    window_ends: tuple[int, int] | None = None,
    part_rows: int = PART_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Merge the partials of one bucket of keys to windows.

    Every slice lists its windows from the oldest one to the key's next slice or to its newest one:
    so every non-empty window is listed once. Windows are emitted key by key, in order of time, at
    most `max_rows` at a time; memory is bounded by the slices and one batch, not by the windows.

    Args:
        table: `spec.keys`, `spec.slice_end` (int64 microseconds) and the accumulators' columns.
            Rows may be in any order, with several for a key and slice. Slices in a gap between
            windows are ignored.
        spec: Aggregation over an aligned window.
        max_rows: Maximum rows per batch.
        window_ends: (after, until): only windows whose end is above the first and at most the
            second, in microseconds; None for all.
        part_rows: Approximate number of slice rows processed together.

    Yields:
        Batches of `merged_schema`; none without windows.

    Raises:
        ExecutionError: A result does not fit its type, an accumulator does not support the type
            of a column, or a key has too many values.
    """
    window = spec.window
    if not window.has_slices:
        raise TypeError("merge_slices merges slices of aligned windows, not sessions")
    assigner = window.assigner()
    schema = merged_schema(table.schema, spec)
    for slices in group_slices(table, spec, assigner, window_ends, part_rows):
        yield from _windows(slices, spec, window, assigner, schema, max_rows)


def _windows(
    slices: Slices,
    spec: WindowAggregation,
    window: AlignedWindow,
    assigner: SliceAssigner,
    schema: pa.Schema,
    max_rows: int,
) -> Iterator[pa.RecordBatch]:
    first_window = slices.first_window.take(slices.slot)
    n_windows = _count_listed_windows(slices, first_window, window, assigner)
    window_offset = np.concatenate((np.zeros(1, np.int64), np.cumsum(n_windows)))
    ranges = WindowRanges(slices, window, window_offset, assigner.is_shared)
    combine = _combiner(slices, window, assigner)
    distinct = distinct_aggregates(slices, spec.accumulators, ranges)
    # The number of a window is its index in the list plus this offset, which depends on its slice.
    number_at_0 = first_window - window_offset[:-1]
    for start in range(0, int(window_offset[-1]), max_rows):
        end = min(start + max_rows, int(window_offset[-1]))
        newest_slice = _listing_slice(window_offset, start, end)
        number = number_at_0.take(newest_slice) + np.arange(start, end)
        window_end = assigner.window_end_of(slices.window_origin + number)
        key_index = pa.array(slices.key_code.take(newest_slice))
        columns = [key.take(key_index) for key in slices.keys]
        columns.append(_timestamps(assigner.window_start(window_end)))
        columns.append(_timestamps(window_end))
        oldest_slice = ranges.oldest_slice(start, newest_slice)
        states = zip(slices.accumulators, combine(oldest_slice, newest_slice), strict=True)
        for part in spec.accumulators:
            if part.merges_in_windows:
                try:
                    result = distinct[part].window_results(start, oldest_slice, newest_slice)
                except TooManyValues as error:
                    raise error.of_key(part.name, spec.keys, columns[: len(spec.keys)]) from None
                columns.append(result)
            else:
                accumulator, state = next(states)
                columns += accumulator.to_arrow(state)
        yield with_averages(columns, schema, spec)


def _count_listed_windows(
    slices: Slices, first_window: Int64Array, window: AlignedWindow, assigner: SliceAssigner
) -> Int64Array:
    """Count the windows that each slice lists: those that no newer slice of its key belongs to."""
    if window.emit_only_on_update:
        # earlier slices of a window range belong to windows but do not list them
        own_end = assigner.window_end_of(slices.window_origin + first_window)
        is_own: Int64Array = (own_end == slices.slot_end.take(slices.slot)).astype(np.int64)
        return is_own
    last_listed = slices.last_window.take(slices.slot)
    has_next = slices.key_code[1:] == slices.key_code[:-1]
    before_next = np.where(has_next, first_window[1:] - 1, last_listed[:-1])
    last_listed[:-1] = np.minimum(last_listed[:-1], before_next)
    n_windows: Int64Array = last_listed - first_window + 1
    return n_windows


def _listing_slice(window_offset: Int64Array, start: int, end: int) -> Int64Array:
    """Return the slice that lists each of the windows start .. end - 1."""
    first = int(np.searchsorted(window_offset, start, side="right")) - 1
    after = int(np.searchsorted(window_offset, end, side="left"))
    bounds = np.clip(window_offset[first : after + 1], start, end)
    return np.repeat(np.arange(first, after), np.diff(bounds))


def _combiner(slices: Slices, window: AlignedWindow, assigner: SliceAssigner) -> _Combine:
    if assigner.is_shared and not window.grows:
        return HopCombiner(slices, assigner.block(slices.slot_end)).states
    states = slices.states
    if assigner.is_shared:
        # CUMULATE: a window is all slices of its maximal window so far.
        segments = Segments(maximal_window_starts(slices), len(slices))
        pairs = zip(slices.accumulators, states, strict=True)
        states = [accumulator.scan(state, segments) for accumulator, state in pairs]

    def combine(_: Int64Array, newest_slice: Int64Array) -> list[AccumulatorState]:
        pairs = zip(slices.accumulators, states, strict=True)
        return [accumulator.take(state, newest_slice) for accumulator, state in pairs]

    return combine


def _output_fields(input_schema: pa.Schema, accumulator: Accumulator) -> list[pa.Field]:
    if accumulator.result is not None:
        return [pa.field(accumulator.result.name, arrow_type(accumulator.result.type))]
    return [_plain_field(input_schema.field(name)) for name in accumulator.output_columns]


def _plain_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, plain_type(field.type), field.nullable)


def _timestamps(time_us: Int64Array) -> pa.Array:
    return from_buffer(time_us, None, WINDOW_BOUND_TYPE, len(time_us))
