"""Compute queries in this process, without Spark jobs or the JVM.

Runs the same kernels as tasks, over materialized slices, files or rows in the query. The partials
of all input, and the rows of ORDER BY, ranks and joins, are held in memory, so it must be small.

Kernels are imported where they are used, because small queries need few of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from runtime.compute.arrow.batches import BATCH_ROWS, as_batch, numbers, plain_batches
from runtime.compute.arrow.evaluate import evaluate
from runtime.compute.arrow.projection import projection_schema, window_projector, with_window_time
from runtime.compute.arrow.types import arrow_type
from runtime.compute.kernels.conversions import Int64Array, int64_values
from runtime.connectors.registry import open_table
from runtime.engines.local.order import first_rows, sort_rows
from runtime.engines.local.scan import (
    RowCounts,
    StoreOf,
    map_splits,
    no_store,
)
from runtime.plan.arrow_rows import (
    AsOfRows,
    DatabaseRows,
    FileRows,
    FilledRows,
    GivenRows,
    InlineRows,
    JoinedRows,
    OrderedRows,
    ProjectedRows,
    RangedRows,
    RankedRows,
    RepeatedRows,
    UnitedRows,
    WindowedRows,
)
from runtime.plan.exchange import MergedWindows
from runtime.plan.in_process import InProcessStep
from runtime.plan.nodes import PlanNode
from runtime.spec.text import TextSource
from runtime.windows import AlignedWindow
from runtime.windows.times import WINDOW_TIME_LAG_US

if TYPE_CHECKING:
    from runtime.engines.local.meter import RelationMeter
    from runtime.engines.local.partials import LocalPartials
    from runtime.scan.stores import Store

# Type of processing time
CLOCK_TYPE = arrow_type("timestamp")
# Type of window bounds
_BOUND_TYPE = pa.timestamp("us")


@dataclass(frozen=True)
class ComputedRows:
    """Rows of a query that this process computes on demand.

    Attributes:
        step: Step to compute.
        store_of: Returns the store of the files of a scan.
        counts: Counts of the rows of files that the last run read.
        shared: Partials that several steps read and that are computed once. None without sharing.
    """

    step: InProcessStep
    store_of: StoreOf = no_store
    counts: RowCounts = field(default_factory=lambda: RowCounts())
    shared: LocalPartials | None = None

    @property
    def schema(self) -> pa.Schema:
        """Columns as Arrow types, nullable as planned."""
        return pa.schema(
            [
                pa.field(column.name, arrow_type(column.type), column.nullable)
                for column in self.step.columns
            ]
        )

    def batches(
        self, limit: int | None = None, meter: RelationMeter | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows, at most `limit`.

        Args:
            limit: Maximum number of rows.
            meter: Measures the relations, if given.

        Raises:
            ExecutionError: A file cannot be read, or a result does not fit its type.
        """
        self.counts.clear()
        schema = self.schema
        run = _Run(self.store_of, self.counts, meter=meter, shared=self.shared, step=self.step)
        for batch in run.batches(self.step.rows):
            if limit is not None:
                batch = batch.slice(0, limit)
                limit -= batch.num_rows
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
            if limit == 0:
                return


def computed_batches(
    rows: PlanNode, given: Mapping[str, Sequence[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a relation whose `GivenRows` are passed by name.

    Raises:
        ExecutionError: A file cannot be read, an expression fails, or a result does not fit its
            type.
    """
    return _Run(no_store, RowCounts(), given).batches(rows)


class _Run:
    """One run of a query."""

    def __init__(
        self,
        store_of: StoreOf,
        counts: RowCounts,
        given: Mapping[str, Sequence[pa.RecordBatch]] | None = None,
        meter: RelationMeter | None = None,
        shared: LocalPartials | None = None,
        step: InProcessStep | None = None,
    ) -> None:
        self._meter = meter
        self._shared = shared
        self._step = step
        self._store_of = store_of
        self._counts = counts
        self._given = given or {}

    def batches(self, rows: PlanNode) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a relation.

        Raises:
            ExecutionError: A file cannot be read, an expression fails, or a result does not fit its
                type.
        """
        computed = self._compute(rows)
        return computed if self._meter is None else self._meter.measure(rows, computed)

    def _compute(self, rows: PlanNode) -> Iterator[pa.RecordBatch]:
        match rows:
            case InlineRows():
                yield _inline(rows)
            case GivenRows():
                yield from self._given[rows.name]
            case FileRows():
                yield from self._of_files(rows, None)
            case DatabaseRows(source=source):
                read = open_table(source.table).read_in_process(source.columns, source.filters)
                yield from self._counts.count(read)
            case MergedWindows():
                yield from self._windows(rows)
            case ProjectedRows(input=FileRows() as files):
                yield from self._of_files(files, rows)
            case ProjectedRows():
                yield from _projector(rows)(self.batches(rows.input))
            case WindowedRows():
                yield from self._in_windows(rows)
            case RangedRows():
                from runtime.compute.kernels.ranges import RangeJoin

                ranges = RangeJoin(self._whole(rows.bounds), rows)
                for batch in self.batches(rows.input):
                    yield from ranges.batches(batch)
            case RepeatedRows():
                for batch in self.batches(rows.input):
                    yield _repeat_rows(batch, rows)
            case FilledRows():
                yield from _fill_gaps(self._whole(rows.input), rows)
            case RankedRows():
                from runtime.compute.kernels.ranks import rank_rows

                ranked = rank_rows(self._whole(rows.input), rows)
                yield from plain_batches(ranked, schema_of(rows))
            case OrderedRows() if rows.order and rows.limit is not None:
                first = first_rows(self.batches(rows.input), schema_of(rows.input), rows)
                yield from sort_rows(first, rows, schema_of(rows))
            case OrderedRows() if rows.order:
                yield from sort_rows(self._whole(rows.input), rows, schema_of(rows))
            case OrderedRows():
                yield from _cut_rows(self.batches(rows.input), rows)
            case UnitedRows():
                for part in rows.parts:
                    yield from self.batches(part)
            case JoinedRows():
                from runtime.compute.kernels.joins import join_rows

                sides = self._whole(rows.left), self._whole(rows.right)
                yield from join_rows(*sides, rows, schema_of(rows))
            case AsOfRows():
                from runtime.compute.kernels.joins import join_as_of

                sides = self._whole(rows.left), self._whole(rows.right)
                yield from join_as_of(*sides, rows, schema_of(rows))
            case _:
                raise AssertionError(f"no way to compute {type(rows).__name__}")

    def _in_windows(self, rows: WindowedRows) -> Iterator[pa.RecordBatch]:
        """Yield the rows with the windows that contain them."""
        window = rows.window
        if not window.has_slices:
            yield from _in_sessions(self._whole(rows.input), rows, window.gap_us)
            return
        # A row can be in thousands of windows.
        n_rows = max(1, BATCH_ROWS // window.slices_per_window)
        for batch in self.batches(rows.input):
            for start in range(0, batch.num_rows, n_rows):
                yield _in_windows(batch.slice(start, n_rows), rows, window)

    def _whole(self, rows: PlanNode) -> pa.RecordBatch:
        """Return all rows as one batch."""
        return as_batch(pa.Table.from_batches(self.batches(rows), schema_of(rows)))

    def _of_files(
        self, rows: FileRows, projected: ProjectedRows | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of files, projected by the threads that read them."""
        store = self._store_of(rows.files)
        project = None if projected is None else _projector(projected)

        def read(split: Any) -> list[pa.RecordBatch]:
            batches = self._read(rows, split, store)
            if projected is not None and self._meter is not None:
                batches = self._counted(rows, batches)
            return list(batches if project is None else project(batches))

        for batches in map_splits(rows.files, rows.filters, store, read):
            yield from batches

    def _read(self, rows: FileRows, split: Any, store: Store | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split of files, and count the rows that are read."""
        if isinstance(rows.files, TextSource):
            from runtime.text.read import read_split

            for batch, n_rows in read_split(rows.files, split, rows.filters, store):
                self._counts.add_rows(n_rows)
                yield batch
            return
        from runtime.scan.read import read_batches

        yield from self._counts.count(read_batches(split, rows.files, frozenset(), store))

    def _counted(
        self, rows: PlanNode, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a relation that the same threads project, and count them."""
        assert self._meter is not None
        for batch in batches:
            self._meter.count(rows, batch)
            yield batch

    def _windows(self, rows: MergedWindows) -> Iterator[pa.RecordBatch]:
        from runtime.engines.local.merging import windows_of_partials
        from runtime.engines.local.partials import LocalPartials, partials_of

        aggregation = rows.aggregation
        n_rows = 0
        counts = RowCounts()
        if self._shared is None:
            self._shared = LocalPartials([] if self._step is None else [self._step])
        # Do not name the partials, so that they are freed once they are in buckets.
        for batch in windows_of_partials(
            partials_of(rows, self._store_of, counts, self.batches, self._shared), aggregation
        ):
            n_rows += batch.num_rows
            if rows.window_time is not None:
                batch = with_window_time(batch, rows.window_time, aggregation.window_end)
            yield batch
        self._counts.include(counts)
        if self._meter is not None:
            self._meter.figures(rows).scanned_rows += counts.rows_read()
        if rows.is_total and n_rows == 0:
            yield _total_without_rows(rows)


def schema_of(rows: PlanNode) -> pa.Schema:
    """Return the schema of a relation."""
    match rows:
        case InlineRows():
            return pa.schema([(c.name, arrow_type(c.type)) for c in rows.columns])
        case GivenRows():
            if rows.of is None:
                return pa.schema([(c.name, arrow_type(c.type)) for c in rows.columns])
            schema = schema_of(rows.of)
            return schema.append(pa.field(rows.clock, CLOCK_TYPE)) if rows.clock else schema
        case DatabaseRows():
            return pa.schema([(c.name, arrow_type(c.type)) for c in rows.source.columns])
        case FileRows(files=TextSource() as files):
            from runtime.text.read import text_schema

            return text_schema(files)
        case FileRows():
            columns = (*rows.files.columns, *rows.files.partition_columns)
            return pa.schema([(c.name, arrow_type(c.type)) for c in columns])
        case MergedWindows():
            from runtime.compute.kernels.merge import merged_schema
            from runtime.engines.local.partials import schema_of_partials

            schema = merged_schema(schema_of_partials(rows), rows.aggregation)
            if rows.window_time is not None:
                bound = schema.field(rows.aggregation.window_end).type
                schema = schema.append(pa.field(rows.window_time, bound))
            return schema
        case ProjectedRows():
            return projection_schema(rows.projection)
        case WindowedRows():
            bounds = [pa.field(name, _BOUND_TYPE) for name in rows.names]
            kept = [f for f in schema_of(rows.input) if f.name != rows.window.row_length]
            return pa.schema([*kept, *bounds])
        case RangedRows():
            return pa.schema([*schema_of(rows.input), *schema_of(rows.bounds)])
        case RepeatedRows():
            return pa.schema([f for f in schema_of(rows.input) if f.name != rows.copies])
        case RankedRows():
            return schema_of(rows.input).append(pa.field(rows.column, pa.int32()))
        case FilledRows():
            return schema_of(rows.input)
        case OrderedRows():
            schema = schema_of(rows.input)
            return pa.schema([schema.field(i) for i in range(len(schema) - rows.hidden)])
        case UnitedRows():
            return schema_of(rows.parts[0])
        case JoinedRows():
            is_left = rows.join_type in ("LeftSemi", "LeftAnti")
            sides = [rows.left] if is_left else [rows.left, rows.right]
            return pa.schema([(f.name, f.type) for side in sides for f in schema_of(side)])
        case AsOfRows():
            return pa.schema([(f.name, f.type) for side in rows.inputs for f in schema_of(side)])
    raise AssertionError(f"no schema of {type(rows).__name__}")


def _projector(rows: ProjectedRows):  # type: ignore[no-untyped-def]  # see `window_projector`
    """Return the function that projects batches of the input."""
    return window_projector(iter, rows.projection, "")


def _inline(rows: InlineRows) -> pa.RecordBatch:
    """Evaluate the rows of VALUES, each over a single row without relevant columns."""
    one = pa.record_batch([pa.array([0], pa.int8())], names=["$row"])
    schema = schema_of(rows)
    columns = []
    for place, type_ in enumerate(schema.types):
        values = [evaluate(row[place], one) for row in rows.rows]
        columns.append(pa.concat_arrays(values) if values else pa.array([], type_))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _total_without_rows(rows: MergedWindows) -> pa.RecordBatch:
    """Return the row of an aggregation without keys over no rows: counts are 0, others NULL."""
    zeros = {n for part in rows.aggregation.accumulators for n in part.zero_columns}
    schema = schema_of(rows)
    columns = [
        pa.array([0 if field.name in zeros else None], pa.int64()).cast(field.type)
        if field.name in zeros
        else pa.nulls(1, field.type)
        for field in schema
    ]
    plain = pa.schema([field.with_nullable(True) for field in schema])
    return pa.RecordBatch.from_arrays(columns, schema=plain)


def _in_windows(rows: pa.RecordBatch, of: WindowedRows, window: AlignedWindow) -> pa.RecordBatch:
    """Return each row once per window that contains it, with the window columns.

    Raises:
        ExecutionError: A window does not fit TIMESTAMP.
    """
    from runtime.compute.kernels.slots import check_windows_fit

    rows, time_us = _with_times(rows, of)
    assigner = window.assigner()
    if len(time_us):
        check_windows_fit(int(time_us.min()), int(time_us.max()), assigner)
    places, ends = assigner.window_ends(time_us)
    return _with_bounds(rows.take(numbers(places)), of, assigner.window_start(ends), ends)


def _in_sessions(rows: pa.RecordBatch, of: WindowedRows, gap_us: int) -> Iterator[pa.RecordBatch]:
    """Yield all rows with the bounds of their sessions, each session in order of time.

    Raises:
        ExecutionError: A session ends after the maximum TIMESTAMP.
    """
    from runtime.compute.kernels.keys import encode_keys
    from runtime.compute.kernels.session import ends_of_rows, find_sessions

    rows, time_us = _with_times(rows, of)
    if not len(time_us):
        return
    partition, _ = encode_keys([rows.column(name) for name in of.window.partition], len(time_us))
    last_us, hidden = time_us, of.window.row_length
    if hidden is not None:
        last_us = ends_of_rows(time_us, int64_values(rows.column(hidden)))
        rows = rows.drop_columns([hidden])
    sessions = find_sessions(partition, time_us, last_us, gap_us)
    session = sessions.session_of_partial().take(sessions.order)
    ends = sessions.last_us.take(session) + gap_us
    ordered = rows.take(numbers(sessions.order))
    with_bounds = _with_bounds(ordered, of, sessions.first_us.take(session), ends)
    for start in range(0, with_bounds.num_rows, BATCH_ROWS):
        yield with_bounds.slice(start, BATCH_ROWS)


def _with_times(rows: pa.RecordBatch, of: WindowedRows) -> tuple[pa.RecordBatch, Int64Array]:
    """Return the rows that have a time, and their times on the windows' wall clock."""
    from runtime.compute.wall_clock import wall_clock_us

    rows = rows.filter(rows.column(of.time_column).is_valid())
    time_us = int64_values(rows.column(of.time_column))
    if of.time_type == "timestamp":
        time_us = wall_clock_us(time_us, of.time_zone)
    return rows, time_us


def _with_bounds(
    rows: pa.RecordBatch, of: WindowedRows, starts: Int64Array, ends: Int64Array
) -> pa.RecordBatch:
    """Append the window columns to rows."""
    bounds = (starts, ends, ends - WINDOW_TIME_LAG_US)
    columns = [*rows.columns, *(numbers(bound, _BOUND_TYPE) for bound in bounds)]
    return pa.RecordBatch.from_arrays(columns, schema=schema_of(of))


def _repeat_rows(rows: pa.RecordBatch, of: RepeatedRows) -> pa.RecordBatch:
    """Return each row as often as its count column says."""
    copies = int64_values(rows.column(of.copies))
    places = np.repeat(np.arange(rows.num_rows), copies)
    return rows.take(numbers(places)).drop_columns([of.copies])


def _fill_gaps(rows: pa.RecordBatch, of: FilledRows) -> Iterator[pa.RecordBatch]:
    """Add rows for windows that have none."""
    from runtime.compute.kernels.gap_fill import fill_gaps

    for batch in fill_gaps(rows, of.filling, of.time_zone):
        yield from plain_batches(batch, schema_of(of))


def _cut_rows(batches: Iterable[pa.RecordBatch], of: OrderedRows) -> Iterator[pa.RecordBatch]:
    """Apply LIMIT and OFFSET to rows in any order."""
    n_skipped, n_left = of.offset, of.limit
    if n_left == 0:
        return
    for batch in batches:
        rows = batch.slice(n_skipped, n_left)
        n_skipped -= min(n_skipped, batch.num_rows)
        if rows.num_rows:
            yield rows
        if n_left is not None:
            n_left -= rows.num_rows
            if n_left == 0:
                return
