"""Steps on whole windows of a simulated stream: Top-N, deduplication, joins and regroupings.

The exchange sends rows to tasks by the step's keys, as on Spark, and the tasks compute with the
functions that Spark's tasks call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.arrow.blobs import split_by_bucket
from runtime.compute.kernels.keys import bucket_of
from runtime.engines.local.execute import schema_of
from runtime.local.scan_rows import ScanRows, scan_projection
from runtime.local.stage import buffer_plan
from runtime.plan.arrow_rows import JoinedRows, RankedRows, RowScan, local_rows
from runtime.plan.exchange import MergedWindows
from runtime.plan.local import ArrowBuffer, is_local
from runtime.plan.simulated import SimulatedWholeWindows
from runtime.simulator.carried import carry_kind
from runtime.simulator.flows import Flow, Mark, TaskFlow, flow_of, map_rows
from runtime.spec.stream import ALL_SOURCES, KEEP, ROW_KIND, SOURCE, WATERMARK
from runtime.streaming.operators.whole_windows import (
    IS_LEFT,
    Evaluate,
    evaluate_windows,
    join_sides,
    marked_batch,
    ranked_rows,
    regroup_rows,
)

# Column of a join's rows that the exchange hashes: equal for equal windows of both sides
_WINDOW = "$window"
_WINDOWS = 1 << 30


class RunningWholeWindows:
    """A step on whole windows between a start of its stream and the next.

    Args:
        part: Step.
        partitions: Number of tasks.
        emits_updates: Whether windows are emitted more than once.
    """

    def __init__(
        self, part: SimulatedWholeWindows, partitions: int, *, emits_updates: bool = False
    ) -> None:
        self.name = part.name
        self._rows = part.rows
        self._step = part.step
        self._partitions = partitions
        self._emits_updates = emits_updates
        self._schema = _nullable(schema_of(part.rows))
        if emits_updates:
            self._schema = self._schema.append(pa.field(ROW_KIND, pa.string()))

    def run(self, flows: Mapping[str, Flow]) -> list[TaskFlow]:
        """Return the rows of the step in a micro-batch, in their tasks.

        Args:
            flows: Rows of tables and of the parts before it.

        Raises:
            ExecutionError: An expression fails, or a sum overflows its type.
        """
        match self._rows:
            case RankedRows() as rows:
                return self._rank(rows, flows)
            case JoinedRows() as rows:
                return self._join(rows, flows)
            case MergedWindows() as rows:
                return self._regroup(rows, flows)

    def _rank(self, rows: RankedRows, flows: Mapping[str, Flow]) -> list[TaskFlow]:
        assert isinstance(self._step, RankedRows)
        by = None if self._step.is_spread else self._step.by
        evaluate = partial(ranked_rows, of=self._step)
        schema, ranked = schema_of(rows.input), rows.input
        if self._emits_updates:
            schema, ranked = schema.append(pa.field(ROW_KIND, pa.string())), carry_kind(ranked)
        return self._evaluate(flow_of(ranked, flows), schema, by, evaluate)

    def _join(self, rows: JoinedRows, flows: Mapping[str, Flow]) -> list[TaskFlow]:
        assert isinstance(self._step, JoinedRows)
        left, right = schema_of(rows.left), schema_of(rows.right)
        control = [pa.field(IS_LEFT, pa.bool_()), pa.field(_WINDOW, pa.int64())]
        whole = _nullable(pa.schema([*left, *right, *control]))
        window_keys = tuple(zip(*self._step.window_keys, strict=True))
        sides: list[TaskFlow] = []
        for is_left, side in ((True, rows.left), (False, rows.right)):
            keys = window_keys[0 if is_left else 1]
            for task in flow_of(side, flows):
                batches = [_of_side(batch, whole, keys, is_left=is_left) for batch in task.rows]
                # the watermark comes from the left side
                sides.append(TaskFlow(batches, task.marks if is_left else ()))
        evaluate = partial(join_sides, of=self._step, right_columns=right.names)
        return self._evaluate(sides, whole, (_WINDOW,), evaluate)

    def _regroup(self, rows: MergedWindows, flows: Mapping[str, Flow]) -> list[TaskFlow]:
        local = local_rows(rows)
        assert is_local(local, RowScan, ArrowBuffer), "a simulated step reads relations"
        scan = ScanRows(local)
        plan = buffer_plan(local, *scan_projection(local.source))

        def arguments(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
            columns = [scan.columns(scan.filter_rows(batch)) for batch in batches]
            return [pa.RecordBatch.from_pydict(part) for part in columns]

        flow = map_rows(flow_of(local.source.input, flows), arguments)
        evaluate = partial(regroup_rows, plan=plan, aggregation=rows.aggregation)
        schemas = [batch.schema for task in flow for batch in task.rows]
        # without rows, only the keys matter
        schema = schemas[0] if schemas else plan.schema
        return self._evaluate(flow, schema, rows.aggregation.keys, evaluate)

    def _evaluate(
        self, flow: Flow, schema: pa.Schema, by: Sequence[str] | None, evaluate: Evaluate
    ) -> list[TaskFlow]:
        """Exchange rows and evaluate them in their tasks.

        Args:
            flow: Rows.
            schema: Their columns.
            by: Columns that the exchange hashes. None: rows stay in their tasks.
            evaluate: Computes the rows of a task.
        """
        sources = sorted({mark.source for task in flow for mark in task.marks} - {""})
        tasks = [list(_marked_rows(task, _nullable(schema), sources)) for task in flow]
        if by is not None:
            tasks = _exchange(tasks, by, self._partitions)
        return [
            _task_rows(evaluate_windows(batches, self._schema, evaluate), sources)
            for batches in tasks
        ]


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(field.name, field.type) for field in schema])


def _of_side(
    rows: pa.RecordBatch, schema: pa.Schema, window_keys: Sequence[str], *, is_left: bool
) -> pa.RecordBatch:
    """Return rows of one side of a join with the columns of both."""
    n_rows = rows.num_rows
    windows = bucket_of([rows.column(name) for name in window_keys], n_rows, _WINDOWS)
    control = {IS_LEFT: pa.repeat(is_left, n_rows), _WINDOW: pa.array(windows, pa.int64())}
    columns = [
        control[field.name]
        if field.name in control
        else rows.column(field.name)
        if field.name in rows.schema.names
        else pa.nulls(n_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _marked_rows(
    task: TaskFlow, schema: pa.Schema, sources: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task with KEEP, SOURCE and WATERMARK.

    Args:
        task: Rows and watermarks.
        schema: Columns of the rows.
        sources: Names of the sources; SOURCE is the place of a name.
    """
    for batch in task.rows:
        yield marked_batch(batch.columns, schema, None)
    if task.marks:
        places = {name: place for place, name in enumerate(sources)} | {"": ALL_SOURCES}
        yield marked_batch(
            [pa.nulls(len(task.marks), field.type) for field in schema],
            schema,
            pa.array([mark.watermark_us for mark in task.marks], pa.int64()),
            pa.array([places[mark.source] for mark in task.marks], pa.int32()),
        )


def _exchange(
    tasks: Sequence[Sequence[pa.RecordBatch]], by: Sequence[str], partitions: int
) -> list[list[pa.RecordBatch]]:
    """Send rows to the tasks of their keys. Rows that only carry a watermark have NULL keys."""
    received: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    for batches in tasks:
        for batch in batches:
            keys = [batch.column(name) for name in by]
            buckets = bucket_of(keys, batch.num_rows, partitions)
            for bucket, rows in split_by_bucket(pa.Table.from_batches([batch]), buckets):
                received[bucket].append(rows)
    return [received[task] for task in range(partitions)]


def _task_rows(batches: Iterator[pa.RecordBatch], sources: Sequence[str]) -> TaskFlow:
    """Return a task's rows without the control columns, and the watermarks among them."""
    rows: list[pa.RecordBatch] = []
    marks: list[Mark] = []
    for batch in batches:
        is_kept = batch.column(KEEP)
        of_rows = batch.filter(is_kept)
        if of_rows.num_rows:
            rows.append(of_rows.drop_columns([KEEP, SOURCE, WATERMARK]))
        passing = batch.filter(pc.invert(is_kept))
        for source, mark in zip(passing.column(SOURCE), passing.column(WATERMARK), strict=True):
            place = source.as_py()
            marks.append(Mark("" if place == ALL_SOURCES else sources[place], mark.as_py()))
    return TaskFlow(rows, marks)
