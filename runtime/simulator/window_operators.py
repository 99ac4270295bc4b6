"""A window operator of a simulated stream: its local stage, the exchange and its key groups.

Spark's tasks evaluate, aggregate, encode and merge with the same functions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from runtime.compute.arrow.projection import with_window_time
from runtime.compute.buffer import BufferRows
from runtime.engines.local.execute import schema_of
from runtime.local.scan_rows import ScanRows, scan_projection
from runtime.local.streaming.messages import LateRows, Message, MessageRow, code_of, decode
from runtime.local.streaming.plan import local_plan
from runtime.local.streaming.progress import TaskProgress
from runtime.local.streaming.stage import LocalPlan, LocalTask
from runtime.plan.arrow_rows import GivenRows, RowScan, local_rows
from runtime.plan.local import ArrowBuffer, LocalStep, is_local
from runtime.plan.nodes import PlanNode
from runtime.plan.simulated import SimulatedOperator
from runtime.simulator.carried import carry
from runtime.simulator.flows import Flow, Mark, TaskFlow, flow_of
from runtime.simulator.histories import Batch
from runtime.simulator.state_size import needless_state
from runtime.simulator.storage import KeyGroupState, Storage
from runtime.spec.stream import (
    ALL_SOURCES,
    FINAL_US,
    LATE_ROW,
    PROCESSING_TIME,
    ROW_KIND,
    SOURCE,
    WATERMARK,
)
from runtime.streaming.operator_specs import operator_spec
from runtime.streaming.operators.base import MicroBatch, Status
from runtime.streaming.operators.update_pairs import number_updates
from runtime.streaming.options import StreamOptions
from runtime.streaming.state.key_groups import spark_partition
from runtime.streaming.task import KeyGroupTask, TaskSpec

# Name of a source that is a window operator, followed by its number; see `StreamSource`
_OPERATOR = "window operator"


@dataclass(frozen=True)
class OperatorOutput:
    """Output of a window operator in a micro-batch.

    Attributes:
        flow: Windows of each task, as the relation of the operator, and the watermarks of its key
            groups.
        late: Numbers of late rows.
        statuses: Status of each key group.
        needless: Description of state that no window needs, see `needless_state`.
    """

    flow: Flow
    late: list[int]
    statuses: list[Status]
    needless: str | None

    @property
    def passed_us(self) -> int | None:
        """Latest window end that the watermark has passed; None after the end of the input."""
        watermarks = [status.watermarks for status in self.statuses]
        ends = [one.fired_until_us() for one in watermarks if not one.has_ended]
        return max((end for end in ends if end is not None), default=None)


class RunningOperator:
    """A window operator between a start of its stream and the next.

    Args:
        operator: Operator.
        options: Options of the stream, with the current number of tasks.
        batch_rows: Rows of a record batch.
    """

    def __init__(
        self, operator: SimulatedOperator, options: StreamOptions, batch_rows: int
    ) -> None:
        self._batch_rows = batch_rows
        self._operator = operator
        self.number = operator.step.number
        self.name = operator.name
        local, mode = local_rows(operator.windows), operator.step.input.mode
        assert is_local(local, RowScan, ArrowBuffer), "a simulated operator reads relations"
        carried = carry(local.source.input)
        self._keeps_late_rows = carried is not None
        self._input: PlanNode = carried or local.source.input
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
        self._scan = ScanRows(self._local)
        self._sources = mode.sources
        self._partitions = options.partitions
        self._task = TaskSpec(
            operator_spec(operator.step, self._plan, options),
            tuple(source.time_type for source in mode.sources),
            mode.time_zone,
            numbers,
            heads,
            options.bucket_bytes,
            options.names_of(operator.step.number).columns,
        )
        has_ttl = self._local.window.state_ttl_us is not None
        self._reads_clock = options.fires_after_delay or has_ttl
        self._own_names = {other: name for name, other in self._task.names}
        # the last micro-batch, and up to which windows it has closed
        self._closed: tuple[int, int | None] = (-1, None)

    def messages(
        self, flows: Mapping[str, Flow], batch: Batch, number: int
    ) -> dict[int, list[Message]]:
        """Run the local stage and return its messages by key group.

        Args:
            flows: Rows of tables and of the parts before it.
            batch: Micro-batch.
            number: Number of the micro-batch.

        Raises:
            ExecutionError: An expression fails.
        """
        tasks = flow_of(self._input, flows)
        read = {rows.name for rows in self._input.walk() if isinstance(rows, GivenRows)}
        # tables whose watermarks the operator follows without reading their rows
        tasks += [
            TaskFlow([], task.marks)
            for source in self._sources
            if source.name in flows and source.name not in read
            for task in flows[source.name]
        ]
        by_group: dict[int, list[Message]] = defaultdict(list)
        closed_us = self._known_closed_us(number)
        for task in tasks:
            self._send(task, closed_us, by_group)
        if not self._operator.step.input.mode.is_cascade:
            self._send_control(_control_rows(batch), by_group)
        elif self._reads_clock:
            # a cascade gets the end of the input from the part below
            self._send_control(_mark_rows([(ALL_SOURCES, None)], batch.clock_us), by_group)
        return by_group

    def _send_control(self, rows: pa.RecordBatch, by_group: dict[int, list[Message]]) -> None:
        """Run the task of control rows, which has no other rows."""
        progress = TaskProgress(len(self._sources), self._plan.numbers, self._plan.heads)
        progress.observe(rows)
        _add_messages(progress.control(wakes=True), by_group)

    def _send(self, task: TaskFlow, closed_us: int, by_group: dict[int, list[Message]]) -> None:
        """Run a task of the local stage and add its messages by key group."""
        local = LocalTask(self._plan, closed_us)
        for marks in self._marks(task.marks):
            local.progress.observe(marks)
        for encoded in local.messages(self._rows(task.rows, local)):
            _add_messages(encoded, by_group)

    def _known_closed_us(self, number: int) -> int:
        """Return up to which windows have closed before a micro-batch, as Spark's tasks know it.

        After a restart any row may be late.
        """
        if number == 0:
            return -FINAL_US
        before, closed_us = self._closed
        return FINAL_US if before != number - 1 or closed_us is None else closed_us

    def _rows(
        self, batches: Sequence[pa.RecordBatch], local: LocalTask
    ) -> Iterator[BufferRows | pa.RecordBatch]:
        """Yield rows for the buffer, and messages with rows that may be late."""
        scan = self._scan
        for batch in batches:
            rows = scan.filter_rows(batch)
            if scan.n_null_times:
                local.progress.observe_totals(0, scan.n_null_times, None, None)
                scan.n_null_times = 0
            if rows.num_rows == 0:
                continue
            columns = scan.columns(rows)
            if self._keeps_late_rows:
                columns[LATE_ROW] = rows.column(LATE_ROW)
            yield from local.timed_rows(columns)

    def _marks(self, marks: Sequence[Mark]) -> Iterator[pa.RecordBatch]:
        """Yield rows that only carry watermarks."""
        # a table that is read twice is two sources
        numbers: dict[str, list[int]] = defaultdict(list)
        for number, source in enumerate(self._sources):
            numbers[source.name].append(number)
        # the clock is the watermark of a source on processing time
        unmarked = {source.name for source in self._sources if source.time_type == "proctime"}
        pairs = [
            (code, None if mark.source in unmarked else mark.watermark_us)
            for mark in marks
            for code in (
                [code_of(number, mark.split) for number in numbers[mark.source]]
                if mark.source
                else [ALL_SOURCES]
            )
        ]
        for start in range(0, len(pairs), self._batch_rows):
            yield _mark_rows(pairs[start : start + self._batch_rows])

    def run(
        self, messages: Mapping[int, list[Message]], storage: Storage, number: int
    ) -> OperatorOutput:
        """Run the operator of each key group, task by task, and write the state."""
        flow: list[TaskFlow] = []
        late: list[int] = []
        statuses: list[Status] = []
        needless = None
        by_task: dict[int, list[int]] = defaultdict(list)
        for group in sorted(self._task.numbers):
            by_task[spark_partition(group, self._partitions)].append(group)
        for groups in by_task.values():
            task = KeyGroupTask(self._task, number)
            windows: list[pa.RecordBatch] = []
            of_task: list[Status] = []
            for group in groups:
                state = storage.state(self.number, group, number)
                batch, late_rows = task.receive(group, messages.get(group, []))
                late += _numbers(late_rows)
                self._run_group(task, group, batch, state, (windows, late, of_task))
                needless = needless or needless_state(state.blobs, self._local.window)
                storage.write_state(self.number, group, number, state)
            rows = [*self._numbered(map(self._as_relation, windows))]
            flow.append(TaskFlow(rows, self._emitted(of_task)))
            statuses += of_task
        closed = [status.closed_us for status in statuses if status.closed_us is not None]
        self._closed = number, max(closed) if len(closed) == len(statuses) else None
        return OperatorOutput(flow, late, statuses, needless)

    def _numbered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the changes of a task, with numbers of updates if the step has them."""
        n_updates = 0
        for batch in batches:
            if self._operator.step.numbers_updates:
                batch, n_updates = number_updates(batch, n_updates)
            yield batch

    def _emitted(self, statuses: Sequence[Status]) -> list[Mark]:
        """Return the watermarks of an operator's windows in one task."""
        name = f"{_OPERATOR} {self.number}"
        return [
            Mark("" if status.watermarks.has_ended else name, status.emitted_us)
            for status in statuses
        ]

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
        own = [self._own_names.get(name, name) for name in windows.schema.names]
        windows = windows.rename_columns(own)
        if of.window_time is not None:
            windows = with_window_time(windows, of.window_time, of.aggregation.window_end)
        names = schema_of(of).names
        if ROW_KIND in windows.schema.names:
            names = [*names, ROW_KIND]
        return windows.select(names)


def _add_messages(encoded: pa.RecordBatch, by_group: dict[int, list[Message]]) -> None:
    """Decode messages and add them by key group."""
    for row in map(MessageRow, *(column.to_pylist() for column in encoded.columns)):
        by_group[row.key_group].append(decode(row))


def _control_rows(batch: Batch) -> pa.RecordBatch:
    """Return rows with the processing time and, if the input has ended, its end."""
    marks: list[tuple[int, int | None]] = [(ALL_SOURCES, None)]
    if batch.has_ended:
        marks.append((ALL_SOURCES, 0))
    return _mark_rows(marks, batch.clock_us)


def _mark_rows(
    marks: Sequence[tuple[int, int | None]], clock_us: int | None = None
) -> pa.RecordBatch:
    """Return what the local stage observes of rows that only carry watermarks.

    Args:
        marks: Source and watermark of each row.
        clock_us: Processing time. None if the rows do not have it.
    """
    sources, watermarks = zip(*marks, strict=True)
    columns = [pa.array(sources, pa.int32()), pa.array(watermarks, pa.int64())]
    names = [SOURCE, WATERMARK]
    if clock_us is not None:
        columns.append(pa.array([clock_us] * len(sources), pa.int64()))
        names.append(PROCESSING_TIME)
    return pa.RecordBatch.from_arrays(columns, names=names)


def _numbers(late: Sequence[LateRows]) -> list[int]:
    """Return the numbers of late rows."""
    return [number for rows in late for number in rows.rows.column(LATE_ROW).to_pylist()]
