"""Trace a row of a query's result to the rows of tables that it was computed from.

The query runs over numbered rows. The rows of tables and of all steps are numbered together, so a
number says which step a row is from. Filters, projections and ranks pass the numbers of their rows
on, and a join has the numbers of its pairs. A row is in a window if it has the window's group keys
and its time is within the bounds. This holds for every window function.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runtime.compute.arrow.batches import as_batch
from runtime.compute.kernels.conversions import Int64Array, int64_values, one_chunk
from runtime.compute.kernels.joins import join_rows
from runtime.compute.kernels.keys import encode_keys
from runtime.engines.local.execute import computed_batches, schema_of
from runtime.plan.arrow_rows import JoinedRows, RankedRows, local_rows
from runtime.plan.exchange import MergedWindows
from runtime.plan.nodes import PlanNode
from runtime.plan.simulated import SimulatedOperator, SimulatedPart, SimulatedQuery
from runtime.refusal import refuse
from runtime.simulator.carried import carry, scanned_rows
from runtime.simulator.tables import Moment, TableRows
from runtime.spec.filling import FillConstant
from runtime.spec.stream import LATE_ROW, TIME

# Numbers of the rows of a join's sides
_LEFT, _RIGHT = "$left_row", "$right_row"


@dataclass(frozen=True)
class Origin:
    """Rows that are in the windows of a result row.

    Attributes:
        keys: Group keys of the windows.
        bounds_us: Start and end of each window, on the wall clock. None for all time.
        numbers: Numbers of the rows, which are rows of tables or of `below`.
        times_us: Times of the rows on the wall clock; not used for all time.
        filtered: Numbers of the rows with these keys and times that filters remove.
        slices: End of each slice and the number of its rows; empty for windows without slices.
        operator: Operator of the windows. None for windows that are grouped again.
        below: Origins of the rows that are windows themselves.
        is_added: Whether FILL adds the windows. They have no rows, and `below` has the windows from
            which their values are taken.
    """

    keys: tuple[Mapping[str, object], ...]
    bounds_us: tuple[tuple[int, int] | None, ...]
    numbers: Int64Array
    times_us: Int64Array
    filtered: Int64Array
    slices: tuple[tuple[int, int], ...]
    operator: SimulatedOperator | None
    below: tuple[Origin, ...] = ()
    is_added: bool = False


def result_rows(query: SimulatedQuery, tables: Mapping[str, TableRows]) -> pa.Table:
    """Return the batch result of a query over rows, with the number of each row's window.

    Args:
        query: Query.
        tables: Rows of its tables, by name.

    Raises:
        Refused: A row of the result is not computed from windows.
        ExecutionError: An expression fails.
    """
    return _Tracer(query, tables).result


def origins_of(
    query: SimulatedQuery, tables: Mapping[str, TableRows], number: int
) -> tuple[Origin, ...]:
    """Return the origins of a row from `result_rows`, by its number.

    There is one per joined window, and one without windows for a row of a table.
    """
    numbers, none = np.array([number], np.int64), np.array([], np.int64)
    stored = Origin((), (), numbers, none, none, (), None)
    return _Tracer(query, tables).trace(numbers) or (stored,)


class _Tracer:
    """A query over numbered rows.

    Attributes:
        result: Result with the numbers of its rows.
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
        self._next = max((table.numbers.stop for table in tables.values()), default=0)
        # Functions that return the origins of some rows of a step, by the numbers of its rows
        self._steps: list[tuple[range, Callable[[Int64Array], Iterator[Origin]]]] = []
        for part in query.parts:
            self._given[part.name] = [self._numbered_rows(part)]
        self.result = self._carried(query.rows, "it joins rows, not windows")

    def _numbered_rows(self, part: SimulatedPart) -> pa.RecordBatch:
        """Return the rows of a step with their numbers."""
        match part.rows:
            case JoinedRows() as joined:
                return self._joined(joined)
            case RankedRows() as ranked:
                return self._ranked(ranked)
        operator = part if isinstance(part, SimulatedOperator) else None
        windows = part.windows if isinstance(part, SimulatedOperator) else part.rows
        assert isinstance(windows, MergedWindows), "the other steps aggregate"
        rows = self._rows(windows, schema_of(windows).names)
        numbered = self._add(rows, lambda found: self._of_windows(windows, operator, found))
        if operator is None or operator.filled is None:
            return numbered
        return self._filled(operator, numbered)

    def _add(
        self, rows: pa.Table, origins: Callable[[pa.RecordBatch], Iterator[Origin]]
    ) -> pa.RecordBatch:
        """Number the rows of a step.

        Args:
            rows: All rows.
            origins: Returns the origins of some of them.
        """
        first, self._next = self._next, self._next + len(rows)
        numbers = range(first, self._next)
        numbered = as_batch(rows.append_column(LATE_ROW, pa.array(numbers, pa.int64())))
        self._steps.append((numbers, lambda own: origins(numbered.take(pa.array(own - first)))))
        return numbered

    def _carried(self, rows: PlanNode, reason: str) -> pa.Table:
        """Return the rows of a relation over steps with the numbers of the steps' rows.

        Args:
            rows: Relation.
            reason: Why it cannot be traced if it does more than filter and project them.
        """
        carried = carry(rows) or carry(rows, is_of_operator=True)
        if carried is None:
            refuse(reason)
        return self._rows(carried, [*schema_of(rows).names, LATE_ROW])

    def _rows(self, rows: PlanNode, names: Sequence[str]) -> pa.Table:
        """Return some columns of a relation over tables and steps."""
        schema = pa.schema([field.with_nullable(True) for field in schema_of(rows)])
        if LATE_ROW in names and LATE_ROW not in schema.names:
            schema = schema.append(pa.field(LATE_ROW, pa.int64()))
        batches = computed_batches(rows, self._given)
        parts = [batch.select(list(names)).cast(schema) for batch in batches]
        return pa.Table.from_batches(parts, schema)

    def _ranked(self, rows: RankedRows) -> pa.RecordBatch:
        """Return the rows that a Top-N or a deduplication picks; they keep their numbers."""
        from runtime.compute.kernels.ranks import rank_rows

        below = as_batch(self._carried(rows.input, "it ranks rows that are joined"))
        return as_batch(pa.Table.from_batches([rank_rows(below, rows)]))

    def _joined(self, rows: JoinedRows) -> pa.RecordBatch:
        """Return the rows of a join of windows."""
        sides = [
            as_batch(self._carried(side, "it joins rows, not windows"))
            for side in (rows.left, rows.right)
        ]
        left, right = (
            side.rename_columns([*side.schema.names[:-1], name])
            for side, name in zip(sides, (_LEFT, _RIGHT), strict=True)
        )
        is_filter = rows.join_type in ("LeftSemi", "LeftAnti")
        fields = left.schema if is_filter else [*left.schema, *right.schema]
        schema = pa.schema([field.with_nullable(True) for field in fields])
        pairs = pa.Table.from_batches(join_rows(left, right, rows, schema), schema)
        return self._add(pairs, self._of_pairs)

    def _filled(self, operator: SimulatedOperator, windows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the windows of an operator and those that FILL adds."""
        filled = operator.filled
        assert filled is not None
        filling = filled.filling
        bounds = (*filling.keys, filling.end)
        rows = self._rows(filled, windows.schema.names[:-1])
        keys = [
            pa.chunked_array([windows.column(name), *rows.column(name).chunks]) for name in bounds
        ]
        codes, _ = encode_keys(keys, len(windows) + len(rows))
        number = dict(
            zip(codes[: len(windows)].tolist(), windows.column(LATE_ROW).to_pylist(), strict=True)
        )
        numbers = [number.get(code) for code in codes[len(windows) :].tolist()]
        added = rows.filter(pa.array([number is None for number in numbers]))
        of_added = self._add(added, lambda found: self._of_added(operator, windows, found))
        of_windows = rows.append_column(LATE_ROW, pa.array(numbers, pa.int64()))
        kept = of_windows.filter(pa.array([number is not None for number in numbers]))
        return as_batch(pa.concat_tables([kept, pa.Table.from_batches([of_added])]))

    def trace(self, numbers: Int64Array) -> tuple[Origin, ...]:
        """Return the origins of rows of steps. Rows of tables have none."""
        found: list[Origin] = []
        for own, origins in self._steps:
            is_own = (numbers >= own.start) & (numbers < own.stop)
            if is_own.any():
                found += origins(numbers[is_own])
        return tuple(found)

    def _of_pairs(self, pairs: pa.RecordBatch) -> Iterator[Origin]:
        for name in (_LEFT, _RIGHT):
            if name in pairs.schema.names:
                yield from self.trace(np.unique(int64_values(pairs.column(name).drop_null())))

    def _of_windows(
        self, of: MergedWindows, operator: SimulatedOperator | None, windows: pa.RecordBatch
    ) -> Iterator[Origin]:
        local = local_rows(of)
        rows = self._rows_in(of, operator, windows, keeps_filters=True)
        near = self._rows_in(of, operator, windows, keeps_filters=False)
        found = int64_values(one_chunk(rows.column(LATE_ROW)))
        if operator is not None and operator.filled is not None:
            # the windows of FILL are the windows that it reads
            yield from self.trace(found)
            return
        times_us = int64_values(one_chunk(rows.column(TIME)))
        slices: tuple[tuple[int, int], ...] = ()
        if local.window.has_slices and local.window.closes and len(rows):
            ends, counts = np.unique(
                local.window.assigner().slice_end(times_us), return_counts=True
            )
            slices = tuple(zip(ends.tolist(), counts.tolist(), strict=True))
        yield Origin(
            *_keys_and_bounds(of, windows),
            found,
            times_us,
            np.setdiff1d(int64_values(one_chunk(near.column(LATE_ROW))), found),
            slices,
            operator,
            self.trace(found),
        )

    def _of_added(
        self, operator: SimulatedOperator, windows: pa.RecordBatch, added: pa.RecordBatch
    ) -> Iterator[Origin]:
        assert operator.filled is not None
        filling, none = operator.filled.filling, np.array([], np.int64)
        numbers = int64_values(windows.column(LATE_ROW))
        ends, of_added = (int64_values(rows.column(filling.end)) for rows in (windows, added))
        keys = [pa.chunked_array([windows.column(k), added.column(k)]) for k in filling.keys]
        codes, _ = encode_keys(keys, len(windows) + len(added))
        sources: set[int] = set()
        for place, end in enumerate(of_added.tolist()):
            is_of_key = codes[: len(windows)] == codes[len(windows) + place]
            for name, filler in filling.fillers:
                if isinstance(filler, FillConstant):
                    continue
                has_value = is_of_key & np.asarray(windows.column(name).is_valid())
                before = has_value & (ends < end)
                if before.any():
                    sources.add(int(numbers[before][ends[before].argmax()]))
        below = self.trace(np.array(sorted(sources), np.int64))
        of = operator.windows
        yield Origin(*_keys_and_bounds(of, added), none, none, none, (), operator, below, True)

    def _rows_in(
        self,
        of: MergedWindows,
        operator: SimulatedOperator | None,
        windows: pa.RecordBatch,
        *,
        keeps_filters: bool,
    ) -> pa.Table:
        """Return LATE_ROW and TIME of the rows in windows, of all rows if filters are left out."""
        mode = local_rows(of).mode if operator is None else operator.step.input.mode
        rows = scanned_rows(of, mode, self._given, keeps_filters=keeps_filters)
        if rows is None:
            refuse("its windows are over joined rows")
        keys = [
            pa.chunked_array([*windows.select([key]).columns, *rows.column(key).chunks])
            for key in rows.column_names[2:]
        ]
        codes, _ = encode_keys(keys, len(windows) + len(rows))
        times_us = int64_values(one_chunk(rows.column(TIME)))
        is_in = np.zeros(len(rows), bool)
        _, bounds = _keys_and_bounds(of, windows)
        for place, bound in enumerate(bounds):
            has_keys = codes[len(windows) :] == codes[place]
            if bound is not None:
                has_keys &= (times_us >= bound[0]) & (times_us < bound[1])
            is_in |= has_keys
        return rows.filter(pa.array(is_in))


def _keys_and_bounds(
    of: MergedWindows, windows: pa.RecordBatch
) -> tuple[tuple[Mapping[str, object], ...], tuple[tuple[int, int] | None, ...]]:
    """Return the group keys and the bounds of windows."""
    local, aggregation = local_rows(of), of.aggregation
    keys = tuple(windows.select(list(local.keys)).to_pylist())
    if not local.window.closes:
        return keys, (None,) * len(windows)
    starts, ends = (
        int64_values(windows.column(bound)).tolist()
        for bound in (aggregation.window_start, aggregation.window_end)
    )
    return keys, tuple(zip(starts, ends, strict=True))
