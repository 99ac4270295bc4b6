"""Trace a row of a query's result to the rows of tables that it was computed from.

The query runs over numbered rows. Filters and projections above the windows carry the number of a
window, and those below it carry the number of a row. A row is in a window if it has the window's
group keys and its time is within the bounds. This holds for every window function.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.columns import Int64Array, int64_values, one_chunk
from runtime.compute.kernels.keys import encode_keys
from runtime.engines.local.rows import computed_batches, schema_of
from runtime.plan.local import ArrowBuffer, is_local
from runtime.plan.rows import GivenRows, RankedRows, RowScan, local_rows
from runtime.plan.simulated import SimulatedOperator, SimulatedQuery, SimulatedWholeWindows
from runtime.refusal import refuse
from runtime.simulator.carried import carry, scanned_rows
from runtime.simulator.tables import Moment, TableRows
from runtime.spec.stream import LATE_ROW, TIME


@dataclass(frozen=True)
class Origin:
    """Rows that are in the windows of a result row.

    Attributes:
        source: Name of the table, or of the window operator whose windows are the rows.
        keys: Group keys of the windows.
        bounds_us: Start and end of each window, on the wall clock. None for all time.
        numbers: Numbers of the rows.
        times_us: Times of the rows on the wall clock; not used for all time.
        filtered: Numbers of the rows with these keys and times that filters remove.
        slices: End of each slice and the number of its rows; empty for windows without slices.
        operator: Operator of the windows.
        below: Origin of the rows if they are windows themselves.
    """

    source: str
    keys: tuple[Mapping[str, object], ...]
    bounds_us: tuple[tuple[int, int] | None, ...]
    numbers: Int64Array
    times_us: Int64Array
    filtered: Int64Array
    slices: tuple[tuple[int, int], ...]
    operator: SimulatedOperator
    below: Origin | None = None


def result_rows(query: SimulatedQuery, tables: Mapping[str, TableRows]) -> pa.Table:
    """Return the batch result of a query over rows, with the number of each row's window.

    Args:
        query: Query.
        tables: Rows of its tables, by name.

    Raises:
        Refused: A row of the result is not computed from one window.
        ExecutionError: An expression fails.
    """
    return _Tracer(query, tables).result


def origin_of(query: SimulatedQuery, tables: Mapping[str, TableRows], number: int) -> Origin:
    """Return the origin of a window from `result_rows`, by its number."""
    tracer = _Tracer(query, tables)
    return tracer.trace(tracer.last, [number])


class _Tracer:
    """A query over numbered rows.

    Attributes:
        last: Operator whose windows, or some of them, are the rows of the result.
        result: Result with the numbers of the windows.
    """

    def __init__(self, query: SimulatedQuery, tables: Mapping[str, TableRows]) -> None:
        if query.is_on_processing_time:
            refuse("its windows are on processing time")
        now = Moment(time.time_ns() // 1_000, None)
        self._given = {
            name: [table.rows if has_own else table.at(table.numbers, defaultdict(lambda: now))]
            for name, table in tables.items()
            for has_own in [table.table.own_columns == table.table.columns]
        }
        self._operators: dict[str, SimulatedOperator] = {}
        for part in query.parts:
            if isinstance(part, SimulatedWholeWindows):
                self._pick(part)
                continue
            if part.filled is not None:
                refuse("its rows are windows that FILL adds, or their neighbours")
            windows = list(computed_batches(part.windows, self._given))
            self._given[part.name] = [_numbered(windows, schema_of(part.windows))]
            self._operators[part.name] = part
        names = {below.name for below in query.rows.walk() if isinstance(below, GivenRows)}
        carried = carry(query.rows, is_of_operator=True)
        if carried is None or len(names) != 1 or not names <= self._operators.keys():
            refuse("its rows are not windows of one aggregation")
        self.last = self._operators[names.pop()]
        batches = list(computed_batches(carried, self._given))
        self.result = pa.Table.from_batches(batches)

    def _pick(self, part: SimulatedWholeWindows) -> None:
        """Compute the windows that a Top-N or a deduplication picks; they keep their numbers."""
        rows = part.rows
        carried = carry(rows.input, is_of_operator=True) if isinstance(rows, RankedRows) else None
        names = {below.name for below in rows.walk() if isinstance(below, GivenRows)}
        if not isinstance(rows, RankedRows) or carried is None or len(names) != 1:
            refuse("its windows are joined or grouped again")
        ranked = replace(rows, input=carried)
        self._given[part.name] = list(computed_batches(ranked, self._given))
        self._operators[part.name] = self._operators[names.pop()]

    def trace(self, operator: SimulatedOperator, numbers: Sequence[int]) -> Origin:
        """Return the rows in some windows of an operator."""
        (all_windows,) = self._given[operator.name]
        windows = all_windows.take(pa.array(numbers))
        local = local_rows(operator.windows)
        assert is_local(local, RowScan, ArrowBuffer), "a simulated operator reads relations"
        rows = self._rows_in(operator, windows, keeps_filters=True)
        near = self._rows_in(operator, windows, keeps_filters=False)
        (name,) = {b.name for b in local.source.input.walk() if isinstance(b, GivenRows)}
        below = self._operators.get(name)
        found = int64_values(one_chunk(rows.column(LATE_ROW)))
        times_us = int64_values(one_chunk(rows.column(TIME)))
        slices: tuple[tuple[int, int], ...] = ()
        if local.window.has_slices and local.window.closes and len(rows):
            ends, counts = np.unique(
                local.window.assigner().slice_end(times_us), return_counts=True
            )
            slices = tuple(zip(ends.tolist(), counts.tolist(), strict=True))
        of = operator.windows.aggregation
        starts, ends = (
            int64_values(windows.column(bound)).tolist()
            for bound in (of.window_start, of.window_end)
        )
        bounds = zip(starts, ends, strict=True)
        return Origin(
            name,
            tuple(windows.select(list(local.keys)).to_pylist()),
            tuple(bounds) if local.window.closes else (None,) * len(windows),
            found,
            times_us,
            np.setdiff1d(int64_values(one_chunk(near.column(LATE_ROW))), found),
            slices,
            operator,
            None if below is None else self.trace(below, found.tolist()),
        )

    def _rows_in(
        self,
        operator: SimulatedOperator,
        windows: pa.RecordBatch,
        *,
        keeps_filters: bool,
    ) -> pa.Table:
        """Return LATE_ROW and TIME of the rows in windows, of all rows if filters are left out."""
        rows = scanned_rows(operator, self._given, keeps_filters=keeps_filters)
        if rows is None:
            refuse("its windows are over joined rows")
        of = operator.windows.aggregation
        keys = [
            pa.chunked_array([*windows.select([key]).columns, *rows.column(key).chunks])
            for key in rows.column_names[2:]
        ]
        codes, _ = encode_keys(keys, len(windows) + len(rows))
        times_us = int64_values(one_chunk(rows.column(TIME)))
        is_in = np.zeros(len(rows), bool)
        for place in range(len(windows)):
            start, end = (
                int(int64_values(windows.column(bound))[place])
                for bound in (of.window_start, of.window_end)
            )
            has_keys = codes[len(windows) :] == codes[place]
            is_in |= has_keys & (times_us >= start) & (times_us < end)
        return rows.filter(pa.array(is_in))


def _numbered(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Return windows in one batch, with their numbers from 0 as LATE_ROW."""
    whole = pa.Table.from_batches(batches, schema).combine_chunks()
    numbers = pa.array(range(len(whole)), pa.int64())
    columns = [one_chunk(column) for column in whole.columns]
    return pa.RecordBatch.from_arrays([*columns, numbers], names=[*whole.column_names, LATE_ROW])
