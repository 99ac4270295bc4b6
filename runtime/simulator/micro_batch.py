"""A micro-batch of a simulated stream: tables, window operators and steps on whole windows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa

from runtime.engines.local.execute import computed_batches, schema_of
from runtime.plan.arrow_rows import GivenRows, OrderedRows
from runtime.plan.simulated import SimulatedOperator, SimulatedPart, SimulatedQuery
from runtime.plan.streams import EmissionMode
from runtime.simulator.carried import carry_kind
from runtime.simulator.flows import Flow, Mark, TaskFlow, flow_of, map_rows, rows_of_tasks
from runtime.simulator.histories import Arrival, Batch
from runtime.simulator.storage import BatchOutput, Storage
from runtime.simulator.tables import Moment, TableRows, moments_of, with_clock
from runtime.simulator.whole_windows import RunningWholeWindows
from runtime.simulator.window_operators import OperatorOutput, RunningOperator
from runtime.streaming.operators.update_pairs import settle_kinds
from runtime.streaming.options import StreamOptions

# Name of the rows of the query
_RESULT = "$result"


class RunningQuery:
    """A query between a start of its stream and the next.

    Args:
        query: Query.
        tables: Rows of its streams by name.
        options: Options of the stream, with the current number of tasks.
        storage: Storage.
        batch_rows: Rows of a record batch.
    """

    def __init__(
        self,
        query: SimulatedQuery,
        tables: Mapping[str, TableRows],
        options: StreamOptions,
        storage: Storage,
        batch_rows: int,
    ) -> None:
        self._tables = tables
        self._storage = storage
        self._batch_rows = batch_rows
        self._limit = query.limit
        self._depends_on_batches = query.depends_on_batches
        self._order = query.order
        self._result_clock = query.result_clock
        has_kinds = options.emits_updates and query.has_kinds
        self._rows = carry_kind(query.rows) if has_kinds else query.rows

        self._numbers_updates = any(part.step.numbers_updates for part in query.operators)
        changing = _changing_parts(query.parts)

        def running(part: SimulatedPart) -> RunningOperator | RunningWholeWindows:
            if isinstance(part, SimulatedOperator):
                return RunningOperator(part, options, batch_rows)
            return RunningWholeWindows(
                part, options.partitions, emits_updates=part.name in changing
            )

        self._parts = [running(part) for part in query.parts]

    def run(self, number: int, batch: Batch) -> BatchOutput:
        """Compute a planned micro-batch and write its state.

        Raises:
            ExecutionError: An expression fails, or a sum overflows its type.
        """
        flows = self._flows_of_tables(number, batch)
        outputs: list[OperatorOutput] = []
        passed_us: dict[int, int] = {}
        for part in self._parts:
            if isinstance(part, RunningWholeWindows):
                flow: Flow = part.run(flows)
            else:
                messages = part.messages(flows, batch, number)
                outputs.append(part.run(messages, self._storage, number))
                flow = outputs[-1].flow
                if outputs[-1].passed_us is not None:
                    passed_us[part.number] = outputs[-1].passed_us
            if self._result_clock:
                flow = map_rows(flow, partial(self._with_clock, clock_us=batch.clock_us))
            flows[part.name] = flow
        rows_flow = flow_of(self._rows, flows)
        if self._numbers_updates:
            rows_flow = map_rows(rows_flow, lambda rows: [*settle_kinds(rows)])
        batches = rows_of_tasks(rows_flow)
        if self._order and self._limit is not None:
            ordered = OrderedRows(GivenRows(_RESULT, of=self._rows), self._order)
            batches = list(computed_batches(ordered, {_RESULT: batches}))
        rows = pa.Table.from_batches(batches, None if batches else schema_of(self._rows))
        if self._limit is not None:
            rows = rows.slice(0, max(self._limit - self._storage.rows_before(number), 0))
        statuses = [status for output in outputs for status in output.statuses]
        return BatchOutput(
            number,
            rows,
            tuple(sorted(row for output in outputs for row in output.late)),
            sum(status.n_late for status in statuses),
            sum(status.n_null_times for status in statuses),
            statuses[0].watermarks.combined_us if statuses else None,
            passed_us,
            next((output.needless for output in outputs if output.needless), None),
        )

    def _with_clock(self, batches: Sequence[pa.RecordBatch], clock_us: int) -> list[pa.RecordBatch]:
        return [with_clock(batch, self._result_clock, clock_us) for batch in batches]

    def _flows_of_tables(self, number: int, batch: Batch) -> dict[str, Flow]:
        """Return the rows of tables in the tasks that read them."""
        moments: Mapping[int, Moment] = {}
        if self._depends_on_batches:
            moments = moments_of(self._tables, [*self._storage.planned[:number], batch])
        by_task: dict[int, list[Arrival]] = defaultdict(list)
        for arrival in batch.rows:
            by_task[arrival.task].append(arrival)
        return {
            name: [self._task_rows(table, by_task[task], moments) for task in sorted(by_task)]
            for name, table in self._tables.items()
        }

    def _task_rows(
        self, table: TableRows, arrivals: Sequence[Arrival], moments: Mapping[int, Moment]
    ) -> TaskFlow:
        own = [arrival for arrival in arrivals if arrival.row in table.numbers]
        rows = table.at([arrival.row for arrival in own], moments)
        starts = range(0, rows.num_rows, self._batch_rows)
        marks = [
            Mark(table.table.name, watermark_us, arrival.split)
            for arrival, watermark_us in zip(own, table.watermarks_of(rows), strict=True)
        ]
        return TaskFlow([rows.slice(start, self._batch_rows) for start in starts], marks)


def _changing_parts(parts: Sequence[SimulatedPart]) -> set[str]:
    """Return the names of the parts whose rows have a row kind."""
    changing: set[str] = set()
    for part in parts:
        if isinstance(part, SimulatedOperator):
            changes = part.step.emission is not EmissionMode.ONCE
        else:
            given = (node for node in part.rows.walk() if isinstance(node, GivenRows))
            changes = any(node.name in changing for node in given)
        if changes:
            changing.add(part.name)
    return changing
