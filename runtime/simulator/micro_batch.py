"""A micro-batch of a simulated stream: the local stage, the exchange and the window operators.

Spark's tasks evaluate, aggregate, encode and merge with the same functions.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from runtime.batch.in_process import computed_batches, schema_of
from runtime.batch.projection import with_window_time
from runtime.local.scan_rows import ScanRows, scan_projection
from runtime.local.streaming.messages import LateRows, Message, decode
from runtime.local.streaming.plan import local_plan
from runtime.local.streaming.stage import LocalPlan, LocalTask
from runtime.simulator.carried import carry, carry_kind
from runtime.simulator.histories import Batch
from runtime.simulator.storage import BatchOutput, KeyGroupState, Storage
from runtime.simulator.tables import TableRows
from runtime.spec.in_process.relations import GivenRows, Rows, RowScan
from runtime.spec.in_process.simulated import SimulatedOperator, SimulatedQuery, windows_of_operator
from runtime.spec.local import ArrowBuffer, LocalStep, is_local
from runtime.spec.stream import (
    ALL_SOURCES,
    KEEP,
    LATE_ROW,
    PROCESSING_TIME,
    ROW_KIND,
    SOURCE,
    TIME,
    WATERMARK,
)
from runtime.streaming.operator_specs import operator_spec
from runtime.streaming.operators.base import MicroBatch, Status
from runtime.streaming.options import StreamOptions
from runtime.streaming.state.key_groups import spark_partition
from runtime.streaming.task import KeyGroupTask, TaskSpec

# Name of a source that is a window operator, in `StreamSource`
_OPERATOR = re.compile(r"window operator (\d+)")
# Rows of a record batch: a few, so that tasks get several
_BATCH_ROWS = 16
# Rows by the names of `GivenRows`
Given = Mapping[str, Sequence[pa.RecordBatch]]


@dataclass(frozen=True)
class OperatorOutput:
    """Output of a window operator in a micro-batch.

    Attributes:
        windows: Windows, as the relation of the operator.
        late: Numbers of late rows.
        statuses: Status of each key group.
    """

    windows: list[pa.RecordBatch]
    late: list[int]
    statuses: list[Status]


class RunningQuery:
    """A query between a start of its stream and the next.

    Args:
        query: Query.
        tables: Rows of its streams by name.
        options: Options of the stream, with the current number of tasks.
        storage: Storage.
    """

    def __init__(
        self,
        query: SimulatedQuery,
        tables: Mapping[str, TableRows],
        options: StreamOptions,
        storage: Storage,
    ) -> None:
        self._query = query
        self._tables = tables
        self._storage = storage
        self._operators = [_RunningOperator(operator, options) for operator in query.operators]
        self._rows = carry_kind(query.rows) if options.emits_updates else query.rows

    def run(self, number: int, batch: Batch) -> BatchOutput:
        """Compute a planned micro-batch and write its state.

        Raises:
            ExecutionError: An expression fails, or a sum overflows its type.
        """
        by_task: dict[int, list[int]] = defaultdict(list)
        for arrival in batch.rows:
            by_task[arrival.task].append(arrival.row)
        tasks = [self._given(rows) for _, rows in sorted(by_task.items())] or [self._given([])]
        windows: dict[str, list[pa.RecordBatch]] = {}
        outputs: dict[int, OperatorOutput] = {}
        for operator in self._operators:
            messages = operator.messages(tasks, windows, outputs, self._tables, batch)
            output = operator.run(messages, self._storage, number)
            outputs[operator.number] = output
            windows[windows_of_operator(operator.number)] = output.windows
        given = {**_together(tasks), **windows}
        batches = list(computed_batches(self._rows, given))
        rows = pa.Table.from_batches(batches, None if batches else schema_of(self._rows))
        statuses = [status for output in outputs.values() for status in output.statuses]
        return BatchOutput(
            number,
            rows,
            tuple(sorted(row for output in outputs.values() for row in output.late)),
            sum(status.n_late for status in statuses),
            sum(status.n_null_times for status in statuses),
            statuses[0].watermarks.combined_us if statuses else None,
            sum(status.n_rows for status in statuses),
        )

    def _given(self, rows: Sequence[int]) -> Given:
        """Return the rows of a task in record batches."""
        return {name: _cut(table.of(rows)) for name, table in self._tables.items()}


class _RunningOperator:
    """A window operator between a start of its stream and the next."""

    def __init__(self, operator: SimulatedOperator, options: StreamOptions) -> None:
        self._operator = operator
        self.number = operator.step.number
        local, mode = operator.windows.local, operator.step.input.mode
        assert is_local(local, RowScan, ArrowBuffer), "a simulated operator reads relations"
        carried = carry(local.source.input)
        self._keeps_late_rows = carried is not None
        self._input: Rows = carried or local.source.input
        # the expressions of `local`, with the sources of the stream
        self._local = LocalStep(
            local.source,
            mode,
            local.window,
            local.time_column,
            local.time_type,
            local.slice_end,
        )
        plan = local_plan(self._local, *scan_projection(local.source), ())
        numbers, heads = options.numbers_of_groups(bool(plan.hashed_columns))
        self._plan: LocalPlan = replace(
            plan,
            numbers=numbers,
            heads=heads,
            delay_us=None,
            keeps_late_rows=self._keeps_late_rows,
            carries_late_rows=False,
        )
        self._sources = mode.sources
        self._partitions = options.partitions
        self._task = TaskSpec(
            operator_spec(operator.step, self._plan, options),
            tuple(source.time_type for source in mode.sources),
            mode.time_zone,
            numbers,
            heads,
            options.bucket_bytes,
        )

    @cached_property
    def _reads_operators(self) -> bool:
        """Whether the rows are windows of other operators."""
        return any(
            isinstance(rows, GivenRows) and rows.of is not None for rows in self._input.walk()
        )

    def messages(
        self,
        tasks: Sequence[Given],
        windows: Given,
        outputs: Mapping[int, OperatorOutput],
        tables: Mapping[str, TableRows],
        batch: Batch,
    ) -> dict[int, list[Message]]:
        """Run the local stage and return its messages by key group."""
        if self._reads_operators:
            tasks = [{**_together(tasks), **windows}]
        by_group: dict[int, list[Message]] = defaultdict(list)
        for place, given in enumerate(tasks):
            local = LocalTask(self._plan)
            rows = self._rows(given, local)
            marks = self._marks(given, outputs, tables, batch if place == 0 else None)
            for encoded in local.run([*marks, *rows]):
                for row in encoded.to_pylist():
                    by_group[row["key_group"]].append(decode(SimpleNamespace(**row)))
        return by_group

    def _rows(self, given: Given, local: LocalTask) -> Iterator[pa.RecordBatch]:
        """Yield rows of the local stage: TIME, keys, arguments, conditions and control columns."""
        scan = ScanRows(self._local)
        for batch in computed_batches(self._input, given):
            rows = scan.filter_rows(batch)
            if scan.n_null_times:
                local.progress.observe_totals(0, scan.n_null_times, None, None)
                scan.n_null_times = 0
            if rows.num_rows == 0:
                continue
            columns = scan.columns(rows)
            n_rows = len(columns[TIME])
            columns[KEEP] = pa.repeat(pa.scalar(True), n_rows)
            columns[SOURCE] = pa.nulls(n_rows, pa.int32())
            columns[WATERMARK] = pa.nulls(n_rows, pa.int64())
            if self._keeps_late_rows:
                columns[LATE_ROW] = rows.column(LATE_ROW)
            yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _marks(
        self,
        given: Given,
        outputs: Mapping[int, OperatorOutput],
        tables: Mapping[str, TableRows],
        first: Batch | None,
    ) -> list[pa.RecordBatch]:
        """Return rows that carry the watermarks of the sources, and the end of input."""
        parts: list[tuple[list[int], list[int | None]]] = []
        for number, source in enumerate(self._sources):
            upstream = _OPERATOR.fullmatch(source.name)
            if upstream is None:
                for batch in given[source.name]:
                    of_rows = tables[source.name].watermarks_of(batch)
                    parts.append(([number] * len(of_rows), of_rows))
                continue
            statuses = outputs[int(upstream[1])].statuses
            numbers = [ALL_SOURCES if s.watermarks.has_ended else number for s in statuses]
            parts.append((numbers, [status.emitted_us for status in statuses]))
        if first is not None and first.has_ended:
            parts.append(([ALL_SOURCES], [0]))
        clock_us = None
        if first is not None and not self._operator.step.input.mode.is_cascade:
            clock_us = first.clock_us
            # processing time comes also without rows
            parts.append(([ALL_SOURCES], [None]))
        return [_mark_rows(numbers, marks, clock_us) for numbers, marks in parts if numbers]

    def run(
        self, messages: Mapping[int, list[Message]], storage: Storage, number: int
    ) -> OperatorOutput:
        """Run the operator of each key group, task by task, and write the state."""
        windows: list[pa.RecordBatch] = []
        late: list[int] = []
        statuses: list[Status] = []
        by_task: dict[int, list[int]] = defaultdict(list)
        for group in sorted(self._task.numbers):
            by_task[spark_partition(group, self._partitions)].append(group)
        for groups in by_task.values():
            task = KeyGroupTask(self._task, number)
            for group in groups:
                state = storage.state(self.number, group, number)
                batch, late_rows = task.receive(group, messages.get(group, []))
                late += _numbers(late_rows)
                self._run_group(task, group, batch, state, (windows, late, statuses))
                storage.write_state(self.number, group, number, state)
        return OperatorOutput(list(map(self._as_relation, windows)), late, statuses)

    @staticmethod
    def _run_group(
        task: KeyGroupTask,
        group: int,
        batch: MicroBatch,
        state: KeyGroupState,
        into: tuple[list[pa.RecordBatch], list[int], list[Status]],
    ) -> None:
        windows, late, statuses = into
        for output in task.run(group, batch, state):
            match output.result:
                case Status() as status:
                    statuses.append(status)
                case LateRows() as late_rows:
                    late += _numbers([late_rows])
                case result:
                    windows.append(result)

    def _as_relation(self, windows: pa.RecordBatch) -> pa.RecordBatch:
        """Return emitted windows with the columns of their relation, and ROW_KIND if present."""
        of = self._operator.windows
        if of.window_time is not None:
            windows = with_window_time(windows, of.window_time, of.aggregation.window_end)
        names = schema_of(of).names
        if ROW_KIND in windows.schema.names:
            names = [*names, ROW_KIND]
        return windows.select(names)


def _cut(rows: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Return rows in small record batches, at least one."""
    starts = range(0, max(rows.num_rows, 1), _BATCH_ROWS)
    return [rows.slice(start, _BATCH_ROWS) for start in starts]


def _mark_rows(
    sources: Sequence[int], marks: Sequence[int | None], clock_us: int | None
) -> pa.RecordBatch:
    """Return rows that only carry watermarks of sources, and the processing time if given."""
    n_rows = len(sources)
    columns = {
        KEEP: pa.repeat(pa.scalar(False), n_rows),
        SOURCE: pa.array(sources, pa.int32()),
        WATERMARK: pa.array(marks, pa.int64()),
        TIME: pa.nulls(n_rows, pa.int64()),
    }
    if clock_us is not None:
        columns[PROCESSING_TIME] = pa.array(np.full(n_rows, clock_us))
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _together(tasks: Sequence[Given]) -> dict[str, list[pa.RecordBatch]]:
    """Return the rows of all tasks by name."""
    return {name: [part for given in tasks for part in given[name]] for name in tasks[0]}


def _numbers(late: Sequence[LateRows]) -> list[int]:
    """Return the numbers of late rows."""
    return [number for rows in late for number in rows.rows.column(LATE_ROW).to_pylist()]
