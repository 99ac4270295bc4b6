"""SESSION from partials: cut at gaps, vectorised over all keys.

A partial represents rows of one key that certainly belong to one session, with the times of its
first and last row. Sorted by partition and first time, a session begins where a partial's first
time is more than the gap after the latest time so far. Partials may overlap, so the latest time is
a running maximum:

    partials      [----------------]
                     [--]
                               [-------]            gap
                                              [-----]        [--]
    sessions      [--------------------------------------)   [--------)

The result does not depend on how rows were split into partials, neither on the task that read them
nor on how many rows were aggregated together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runtime.compute.accumulators import accumulator
from runtime.compute.accumulators.base import AccumulatorState
from runtime.compute.accumulators.segments import Segments, accumulate_rows, run_starts
from runtime.compute.kernels.conversions import (
    Int64Array,
    as_type,
    from_buffer,
    int64_values,
    one_chunk,
)
from runtime.compute.kernels.grouping import RunGroups, SortedGroups
from runtime.compute.kernels.keys import encode_keys
from runtime.compute.kernels.merge import WINDOW_BOUND_TYPE, merged_schema, with_averages
from runtime.compute.kernels.partials import merge_partials
from runtime.compute.kernels.slices import plain_type
from runtime.compute.kernels.slots import outside_timestamp
from runtime.compute.values.distinct import distinct_aggregates
from runtime.compute.values.too_many_values import TooManyValues
from runtime.compute.values.value_lists import SliceValues, value_lists
from runtime.spec.aggregates import Accumulator, WindowAggregation
from runtime.windows.times import FIRST_TIME, LAST_TIME

_LONGEST_CELL_BITS = 63
# Chaining pays if it leaves at most this fraction of the partials.
_WORTH_CHAINING = 0.75


@dataclass(frozen=True)
class Sessions:
    """Sessions of partials, ordered by partition code and time.

    Attributes:
        order: int64[n_partials], order in which the partials of a session are adjacent.
        starts: int64[n], start of each session in `order`.
        first_us: int64[n], time of the first row of each session.
        last_us: int64[n], time of the last row of each session.
    """

    order: Int64Array
    starts: Int64Array
    first_us: Int64Array
    last_us: Int64Array

    def __len__(self) -> int:
        return len(self.starts)

    def session_of_partial(self) -> Int64Array:
        """Return int64[n_partials], the session of each partial."""
        lengths = np.diff(self.starts, append=len(self.order))
        session = np.empty(len(self.order), np.int64)
        session[self.order] = np.repeat(np.arange(len(self)), lengths)
        return session


def ends_of_rows(time_us: Int64Array, gap_us: Int64Array) -> Int64Array:
    """Return the ends of rows with positive gaps of their own.

    Raises:
        ExecutionError: A row ends after the maximum TIMESTAMP.
    """
    is_outside = time_us > np.iinfo(np.int64).max - gap_us
    if is_outside.any():
        raise outside_timestamp(int(time_us[is_outside][0]), "ends after the maximum")
    return time_us + gap_us


def find_sessions(
    partition: Int64Array, first_us: Int64Array, last_us: Int64Array, gap_us: int
) -> Sessions:
    """Cut partials (at least one) into sessions.

    Args:
        partition: Partition of each partial, a number from 0.
        first_us: Time of its first row.
        last_us: Time of its last row; consecutive rows are at most the gap apart.
        gap_us: Gap, in the unit of the times.

    Raises:
        ExecutionError: A session ends after the maximum TIMESTAMP.
    """
    latest = int(last_us.max())
    if latest > np.iinfo(np.int64).max - gap_us:
        raise outside_timestamp(latest, "ends after the maximum")
    order = _time_order(partition, first_us)
    partition, first_us = partition.take(order), first_us.take(order)
    is_other = partition[1:] != partition[:-1]
    segments = Segments(run_starts(is_other), len(order))
    smallest = np.iinfo(np.int64).min
    (latest_us,) = segments.scan(
        [last_us.take(order)], [smallest], accumulate_rows(np.maximum), reverse=False
    )
    # Compare the difference: unlike the sum of time and gap, it cannot overflow.
    starts = run_starts(is_other | (first_us[1:] - latest_us[:-1] > gap_us))
    ends = np.append(starts[1:], len(order)) - 1
    return Sessions(order, starts, first_us.take(starts), latest_us.take(ends))


def chain_partials(
    table: pa.Table, keys: Sequence[str], accumulators: Sequence[Accumulator], gap_us: int
) -> pa.Table:
    """Merge partials of a key that follow each other within the gap; keep the others.

    Rows in order of time form a partial for each cell of the gap that contains rows, which are many
    more than there are sessions.

    Args:
        table: Partials: keys, slice end and the columns of the accumulators. A merged partial gets
            the slice end of its first one.
        keys: Key columns.
        accumulators: Accumulators, including FIRST_TIME and LAST_TIME.
        gap_us: Gap.

    Raises:
        ExecutionError: A sum overflows its type, or a session ends after the maximum TIMESTAMP.
    """
    if table.num_rows == 0:
        return table
    codes, _ = encode_keys([table.column(key) for key in keys], table.num_rows)
    first_us, last_us = (
        int64_values(one_chunk(table.column(name))) for name in (FIRST_TIME, LAST_TIME)
    )
    chains = find_sessions(codes, first_us, last_us, gap_us)
    if len(chains) > _WORTH_CHAINING * table.num_rows:
        return table
    groups = RunGroups(chains.order, chains.starts)
    first = pa.array(chains.order.take(chains.starts))
    merged = {
        name: column
        for spec in accumulators
        for name, column in zip(
            spec.columns,
            merge_partials(spec, groups, [table.column(name) for name in spec.columns]),
            strict=True,
        )
    }
    columns = [
        as_type(merged[f.name], f.type) if f.name in merged else table.column(f.name).take(first)
        for f in table.schema
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def net_copies(table: pa.Table, keys: Sequence[str], copies: str) -> Int64Array:
    """Return for each partial how many rows with its keys and time remain after all changes.

    Args:
        table: Partials of rows that may be deleted; each has rows of one time only.
        keys: Key columns.
        copies: Column with the sum of the changes.
    """
    if not table.num_rows:
        return np.zeros(0, np.int64)
    cells = [table.column(name) for name in (*keys, FIRST_TIME, LAST_TIME)]
    codes, _ = encode_keys(cells, table.num_rows)
    net = np.zeros(int(codes.max()) + 1, np.int64)
    np.add.at(net, codes, int64_values(one_chunk(table.column(copies))))
    return net[codes]


def merge_sessions(
    table: pa.Table, spec: WindowAggregation, max_rows: int = 65_536
) -> Iterator[pa.RecordBatch]:
    """Merge the partials of one bucket of partitions to sessions.

    Args:
        table: `spec.keys`, FIRST_TIME and LAST_TIME (int64 microseconds) and the accumulators'
            columns, with rows in any order; other columns are ignored.
        spec: Aggregation over a SESSION whose partition columns are among the keys. If there are
            further keys, the rows of a session are grouped by them.
        max_rows: Maximum rows per batch.

    Yields:
        Batches of `merge.merged_schema`, partition by partition in order of time.

    Raises:
        ExecutionError: A result does not fit its type, a session ends after the maximum TIMESTAMP,
            or an accumulator does not support the type of a column.
    """
    window = spec.window
    if window.has_slices:
        raise TypeError("merge_sessions merges sessions; merge_slices does aligned windows")
    if spec.remaining is not None:
        table = table.filter(pa.array(net_copies(table, spec.keys, spec.remaining) > 0))
    if table.num_rows == 0:
        return
    codes, keys = encode_keys([table.column(key) for key in spec.keys], table.num_rows)
    partition = codes
    if set(window.partition) != set(spec.keys):
        partition, _ = encode_keys([table.column(k) for k in window.partition], table.num_rows)
    first_us, last_us = (
        int64_values(one_chunk(table.column(name))) for name in (FIRST_TIME, LAST_TIME)
    )
    sessions = find_sessions(partition, first_us, last_us, window.gap_us)
    order, starts, session = sessions.order, sessions.starts, np.arange(len(sessions))
    if partition is not codes:
        n_keys = int(codes.max()) + 1
        of_partial = sessions.session_of_partial()
        groups = SortedGroups(of_partial * n_keys + codes, len(sessions) * n_keys)
        order, starts = groups.runs()
        session = groups.cells // n_keys
    key_code = codes.take(order.take(starts))
    merged = _MergedPieces(table, spec, order, starts)
    schema = merged_schema(table.schema, spec)
    for start in range(0, len(starts), max_rows):
        rows = np.arange(start, min(start + max_rows, len(starts)))
        key_index, of_row = pa.array(key_code.take(rows)), session.take(rows)
        columns = [key.take(key_index) for key in keys]
        columns.append(_timestamps(sessions.first_us.take(of_row)))
        columns.append(_timestamps(sessions.last_us.take(of_row) + window.gap_us))
        try:
            columns += merged.columns(rows)
        except TooManyValues as error:
            raise error.of_key("the session", spec.keys, columns[: len(spec.keys)]) from None
        yield with_averages(columns, schema, spec)


class _MergedPieces:
    """Accumulators of groups of partials, which are adjacent in `order`."""

    def __init__(
        self, table: pa.Table, spec: WindowAggregation, order: Int64Array, starts: Int64Array
    ) -> None:
        self._spec = spec
        self._states: list[AccumulatorState] = []
        self._accumulators = []
        values: dict[str, SliceValues] = {}
        group = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(order)))
        for accumulator_spec in spec.accumulators:
            columns = [table.column(name) for name in accumulator_spec.columns]
            if accumulator_spec.merges_in_windows:
                name = accumulator_spec.columns[0]
                if name not in values:
                    is_set = accumulator_spec.compares_items
                    lists = value_lists(columns[0], are_distinguished=is_set)
                    values[name] = lists.slice_values(order, group)
                continue
            merge = accumulator(accumulator_spec, [plain_type(column.type) for column in columns])
            state = merge.take(merge.from_arrow(columns), order)
            self._accumulators.append(merge)
            self._states.append(merge.reduce_runs(state, starts))
        apart = _SeparateGroups(np.arange(len(starts)), values)
        self._distinct = distinct_aggregates(apart, spec.accumulators, apart)

    def columns(self, rows: Int64Array) -> list[pa.Array]:
        """Return the accumulators' output columns of consecutive groups."""
        columns: list[pa.Array] = []
        merges = iter(zip(self._accumulators, self._states, strict=True))
        for accumulator_spec in self._spec.accumulators:
            if accumulator_spec.merges_in_windows:
                columns.append(
                    self._distinct[accumulator_spec].window_results(int(rows[0]), rows, rows)
                )
            else:
                merge, state = next(merges)
                columns += merge.to_arrow(merge.take(state, rows))
        return columns


@dataclass(frozen=True)
class _SeparateGroups:
    """Groups without common slices: each has its own key, piece and window."""

    key_code: Int64Array
    values: dict[str, SliceValues]

    def __len__(self) -> int:
        return len(self.key_code)

    @property
    def first_place(self) -> Int64Array:
        return self.key_code

    @property
    def end_place(self) -> Int64Array:
        return self.key_code + 1


def _time_order(partition: Int64Array, first_us: Int64Array) -> Int64Array:
    """Return the order that sorts partials by partition, then time."""
    earliest = int(first_us.min())
    n_times = int(first_us.max()) - earliest + 1
    n_cells = n_times * (int(partition.max()) + 1)
    if n_cells.bit_length() > _LONGEST_CELL_BITS:
        return np.lexsort((first_us, partition))
    return np.argsort(partition * n_times + (first_us - earliest), kind="stable")


def _timestamps(time_us: Int64Array) -> pa.Array:
    return from_buffer(time_us, None, WINDOW_BOUND_TYPE, len(time_us))
