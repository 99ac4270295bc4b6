"""Lower physical plans over streams to the steps that the runtime executes.

Below a window operator, rows carry the watermark (`planner.lowering.stream.operator_input`). Above
it everything is stateless: all results of a window arrive in one micro-batch, and Spark SQL
computes the rest as in batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from sqlglot import exp

from planner.aggregates.partial_calls import row_partials
from planner.catalog import Catalog, StreamTable
from planner.lowering.plan import Labels, lower
from planner.lowering.spark_sql import select_from
from planner.lowering.stream.current_watermark import SparkWatermark, spark_watermark
from planner.lowering.stream.operator_input import OPERATOR, OperatorRows, WholeWindows
from planner.lowering.stream.order import without_limit_of_stream, without_order_of_stream
from planner.lowering.stream.select import mark_of_kind
from planner.lowering.stream.split_rows import split_rows_step, without_split_columns
from planner.lowering.stream.whole_windows import WholeWindowsLowering
from planner.lowering.window_aggregates import window_aggregation
from planner.nodes.aggregate_plans import sums_changes
from planner.nodes.logical import (
    Node,
    ResultChanges,
    SqlQuery,
    TableScan,
    WindowRows,
    WindowTableFunction,
)
from planner.nodes.physical import (
    Exchange,
    GlobalWindowAggregate,
    LocalWindowAggregate,
    ScanLocalWindowAggregate,
    StreamGapFill,
    StreamRank,
    StreamVersionJoin,
)
from planner.nodes.window_columns import (
    filters_results,
    gives_changes,
    groups_all_time,
    last_aggregates,
)
from planner.sql.build import alias, column, identifier, to_sql
from planner.sql.nodes import TextSpan, span_of
from planner.sql.parts import replace_table
from planner.streams.current_watermark import asks_watermark
from planner.streams.delay import wall_clock_delay_us
from planner.streams.late_rows import DROP, late_source, late_source_below
from planner.streams.refusals import (
    BATCH,
    NO_UPDATES,
    SET_OPERATION,
    StreamRefusal,
    refuse_changes,
    refuse_late_windows,
    refuse_one_phase,
    refuse_stateful,
)
from planner.streams.slice_store import choose_slice_store
from planner.streams.tables import stream_named, stream_tables, streams_of
from runtime.plan.local import LocalStep, SplitScan, SqlRows, Streaming, StreamLocalStep
from runtime.plan.nodes import MeasuredStep, PlanNode, SqlStep
from runtime.plan.streams import (
    EmissionMode,
    SettledKindsStep,
    StreamFillStep,
    StreamRankStep,
    StreamRowsStep,
    StreamVersionStep,
    StreamWindowStep,
    WholeWindowsStep,
)
from runtime.refusal import Refusal
from runtime.spec.expressions import RankOrder
from runtime.spec.stream import KEEP, LATE_ROW, ROW_KIND, SOURCE, WATERMARK, StreamSource
from runtime.spec.table import LATE_ROWS


@dataclass(frozen=True)
class StreamSteps:
    """Steps of a plan over streams.

    Attributes:
        rows: Result rows.
        carries_late_rows: Whether late rows are among them, for their side output. The columns
            KEEP, WATERMARK and LATE_ROW then follow the others.
        order: Columns by which the rows of a micro-batch are sorted, if any.
        limit: Number of rows after which the stream ends. None without LIMIT.
        plan: The plan without the ORDER BY and LIMIT of the stream. None for a part of a plan.
        operators: Window operator of each window aggregate in `plan`, by `id(node)`.
        steps_on_windows: Step of each node over whole windows in `plan`, by `id(node)`.
    """

    rows: PlanNode
    carries_late_rows: bool = False
    order: tuple[RankOrder, ...] = ()
    limit: int | None = None
    plan: Node | None = field(default=None, compare=False, repr=False)
    operators: Mapping[int, StreamWindowStep] = field(
        default_factory=dict, compare=False, repr=False
    )
    steps_on_windows: Mapping[int, WholeWindowsStep] = field(
        default_factory=dict, compare=False, repr=False
    )


def lower_stream(
    plan: Node,
    catalog: Catalog,
    time_zone: str,
    emits_updates: bool = False,
    refusals: tuple[Refusal, ...] = (),
    labels: Labels | None = None,
    notes: tuple[Refusal, ...] = (),
    sql: str = "",
    *,
    is_taken: bool = False,
    keeps_late_rows: bool = True,
    has_allowed_lateness: bool = False,
) -> StreamSteps:
    """Return the steps that compute `plan` over streams.

    Args:
        plan: The physical plan.
        catalog: Catalog that identifies streams and their watermarks.
        time_zone: The session's time zone.
        emits_updates: Whether results may be updated. ROW_KIND is then the first column.
        refusals: Reasons why rules did not apply.
        labels: Names under which EXPLAIN ANALYZE counts, as in `planner.lowering.plan.lower`.
        notes: Reasons why window blocks were left to Spark.
        sql: Text of the statement, for error positions.
        is_taken: Whether a consumer takes the rows, so that it can count them for LIMIT and end the
            stream. A table takes rows for as long as the stream runs.
        keeps_late_rows: Whether late rows of a table with `late-rows` reach the result.
        has_allowed_lateness: Whether windows accept rows after they have fired.

    Raises:
        StreamRefusal: The plan cannot be computed on a stream, a watermark is missing, or late rows
            of a table with `late-rows` cannot reach the result.
    """
    windows_change = emits_updates
    emits_updates = (emits_updates or groups_all_time(plan)) and not gives_changes(plan)
    named = dict(labels or {})
    order: tuple[RankOrder, ...] = ()
    limit: int | None = None
    if not emits_updates:
        original = plan
        if is_taken:
            plan, limit = without_limit_of_stream(plan)
        plan, order = without_order_of_stream(plan, catalog)
        if id(original) in named:
            named[id(plan)] = named[id(original)]
    try:
        refuse_changes(plan)
        if order:
            refuse_late_windows(plan, "sorted")
        late = late_source(plan, catalog) if keeps_late_rows else None
        lowering = _StreamLowering(catalog, time_zone, emits_updates, refusals, notes, named, late)
        lowering.has_allowed_lateness = has_allowed_lateness
        lowering.windows_change = windows_change
        lowering.watermark = spark_watermark(plan, catalog)
        lowering.numbers_updates = emits_updates and filters_results(plan)
        step = lowering.step(plan) if late is None else lowering.with_late_rows(plan)
        rows = SettledKindsStep(step) if lowering.numbers_updates else step
    except StreamRefusal as refusal:
        raise refusal.place_in(sql) from refusal
    return StreamSteps(
        rows,
        late is not None,
        order,
        limit,
        plan,
        lowering.operators,
        lowering.steps_on_windows,
    )


def lower_stream_rows(
    plan: Node,
    catalog: Catalog,
    time_zone: str,
    time: tuple[str, str] | None,
    refusals: tuple[Refusal, ...] = (),
    notes: tuple[Refusal, ...] = (),
) -> StreamRowsStep:
    """Return the rows of `plan` with their watermarks, for an operator that processes single rows.

    `time` is the name and type of the future windows' time column, or None for
    processing time. The other arguments are as in `lower_stream`.

    Raises:
        StreamRefusal: The plan cannot be computed on a stream, or a watermark is missing.
    """
    lowering = _StreamLowering(catalog, time_zone, refusals=refusals, notes=notes)
    refuse_changes(plan)
    if asks_watermark(plan):
        raise StreamRefusal(
            "windows() does not support CURRENT_WATERMARK",
            "remove it: windows() drops late rows by its own watermark",
            None,
        )
    for table, stream in stream_tables(plan, catalog):
        if stream.late_rows is not None:
            raise StreamRefusal(
                f"windows() does not support '{LATE_ROWS}' of `{stream.name}`",
                DROP,
                span_of(table),
                subjects=(f"'{LATE_ROWS}'", stream.name),
            )
    rows = OperatorRows(lowering, catalog)
    query = rows.query_with_watermarks(plan, None if time is None else time[0])
    is_cascade = all(source.name.startswith(OPERATOR) for source in rows.sources)
    step = lowering.sql_step(query)
    return StreamRowsStep(step, tuple(rows.sources), time, time_zone, is_cascade)


def lower_local(local: LocalWindowAggregate, catalog: Catalog, time_zone: str) -> StreamLocalStep:
    """Return the local stage, with its watermarks, of window aggregates that are emitted once.

    If a table has `late-rows`, its late rows are kept.

    Raises:
        AnalysisError: The input cannot be computed on a stream, or a watermark is missing.
    """
    late = late_source_below([local], catalog)
    return _StreamLowering(catalog, time_zone, late=late).local_step(local)


class _StreamLowering(WholeWindowsLowering):
    _n_operators = 0
    _n_split_rows = 0
    # watermark for calls of CURRENT_WATERMARK, if there are any
    watermark: SparkWatermark | None = None
    has_allowed_lateness = False
    # whether settings let windows be emitted more than once
    windows_change = False
    # whether a filter above the results may pass one row of an update only
    numbers_updates = False

    @cached_property
    def operators(self) -> dict[int, StreamWindowStep]:
        """The window operators so far, by the `id` of their nodes."""
        return {}

    def query(self, node: Node) -> exp.Query:
        """Return the node as Spark SQL over streams. Parts that are not SQL become named steps."""
        if not isinstance(node, TableScan) and not streams_of(node, self.catalog):
            # A bounded table is read again with each micro-batch, so its rows are not counted.
            return self.select_all(lower(node, self.catalog, self.zone))
        refuse_one_phase(node)
        if isinstance(node, WholeWindows):
            rows, _ = self.whole_windows(node)
            columns = (column(c.name) for c in node.schema)
            kind = [column(ROW_KIND)] if self._emits_updates else []
            return select_from(rows, *kind, *columns, where=exp.Where(this=column(KEEP)))
        self._check(node)
        query = self.block(node).sql()
        if self.watermark is not None:
            self.watermark.compute_in(query, self.catalog, self.select_all)
        self._read_splits(query)
        query = self._row_kind_first(query, node)
        if id(node) not in self.labels or isinstance(node, TableScan):
            return query
        return self.select_all(MeasuredStep(self.sql_step(query), self.label(node)))

    def split_rows(self, table: exp.Table, stream: StreamTable) -> exp.Select:
        """Return the rows of a table that only tasks read, with their control columns."""
        number = self._n_split_rows
        self._n_split_rows += 1
        return self.select_all(split_rows_step(table, stream, self.catalog, number))

    def _read_splits(self, query: exp.Query) -> None:
        """Replace, in place, the tables in a query that only tasks read."""
        for table in list(query.find_all(exp.Table)):
            stream = stream_named(table, self.catalog)
            if stream is not None and stream.is_read_by_tasks:
                rows = self.split_rows(table, stream)
                rows.set("expressions", [without_split_columns()])
                replace_table(table, exp.Subquery(this=rows))

    def with_late_rows(self, node: Node) -> SqlStep:
        """Return ROW_KIND, if present, the node's columns, then KEEP, WATERMARK and LATE_ROW.

        A row with KEEP = FALSE is late if it has LATE_ROW. Otherwise it carries a watermark.
        """
        kind = (ROW_KIND,) if self._emits_updates else ()
        rows = OperatorRows(self, self.catalog, self._late, kind)
        query = rows.windows(node)
        control = [column(name) for name in (KEEP, WATERMARK, LATE_ROW)]
        left_out = [identifier(name) for name in (*kind, KEEP, SOURCE, WATERMARK, LATE_ROW)]
        others = exp.Star(**{"except_": left_out})
        return self.sql_step(select_from(query, *map(column, kind), others, *control))

    def operator(self, node: GlobalWindowAggregate) -> tuple[exp.Select, StreamSource]:
        """Return the windows of an operator with its control columns, and it as a source."""
        exchange = node.input
        assert isinstance(exchange, Exchange)
        refuse_one_phase(exchange.input)
        local = exchange.input
        assert isinstance(local, LocalWindowAggregate)
        if not local.window.has_slices and any(map(sums_changes, local.plans)):
            self._check_sessions_of_changes(local)
        if self._emits_updates and isinstance(node, StreamGapFill):
            raise StreamRefusal(
                "FILL on a stream does not support allowed lateness or early firing: a window "
                "that is emitted again would change the values of the windows added after it",
                f"{NO_UPDATES}, or remove FILL",
                local.place,
            )
        if self.windows_change and isinstance(node, StreamRank) and local.window.closes:
            raise StreamRefusal(
                "the first row of a key by the time of the watermark is emitted once, so allowed "
                "lateness and early firing are not supported",
                NO_UPDATES,
                local.place,
            )
        if self.windows_change and local.window.closes and not self._emits_updates:
            raise StreamRefusal(
                "with allowed lateness or early firing, windows and groups over results of "
                "windows can only filter and project them",
                NO_UPDATES,
                local.place,
            )
        if not local.window.closes and not self._emits_updates:
            raise StreamRefusal(
                "results of groups or ranks without a window change, and here they cannot be "
                "followed",
                f"filter and project them before a window or GROUP BY; {BATCH}",
                local.place,
            )
        emission = EmissionMode.ONCE
        if self._emits_updates:
            is_read = self._reads_changes and not local.window.closes
            emission = EmissionMode.AT_ONCE if is_read else EmissionMode.AGAIN
        step = self.local_step(local)
        number = self._n_operators
        self._n_operators += 1
        aggregation = window_aggregation(node)
        store = choose_slice_store(
            aggregation.window, has_allowed_lateness=self.has_allowed_lateness
        )
        numbers_updates = self.numbers_updates and not self._reads_changes
        numbers_updates &= emission is EmissionMode.AGAIN
        common = (step, aggregation, number, self.label(node), store, emission, numbers_updates)
        windows = StreamWindowStep(*common)
        if isinstance(node, StreamGapFill):
            windows = StreamFillStep(*common, filling=node.filling)
        elif isinstance(node, StreamVersionJoin):
            windows = StreamVersionStep(*common, versions=node.versions)
        elif isinstance(node, StreamRank):
            windows = StreamRankStep(
                *common, first=node.first, first_rank=node.first_rank, ttl_us=node.ttl_us
            )
        self.operators[id(node)] = windows
        select = self.select_windows(node, windows)
        control = [column(name) for name in (KEEP, SOURCE, WATERMARK)]
        if self._late is not None:
            control.append(column(LATE_ROW))
        kind = [column(ROW_KIND)] if self._emits_updates else []
        select.set("expressions", [*kind, *select.expressions, *control])
        return select, StreamSource(f"{OPERATOR} {number}", "timestamp_ntz")

    def _check_sessions_of_changes(self, local: LocalWindowAggregate) -> None:
        """Refuse sessions of rows that may be deleted if late rows are stored."""
        if self._late is not None:
            raise StreamRefusal(
                "late rows cannot be stored: SESSION over changes only counts them",
                DROP,
                local.place,
            )

    def changes(self, node: ResultChanges) -> exp.Query:
        """Return the changes of an operator's results, with their mark instead of ROW_KIND."""
        with self.emitting_changes():
            below = self.query(node.input)
        mark = alias(mark_of_kind(node.mark, column(ROW_KIND)), node.mark)
        return select_from(below, *(column(c.name) for c in node.schema[:-1]), mark)

    @contextmanager
    def emitting_changes(self) -> Iterator[None]:
        """Within the block, operators emit the changes of their results, with ROW_KIND."""
        with self._below(emits_updates=True, needs_time=self._needs_time, reads_changes=True):
            yield

    @contextmanager
    def _below(
        self, *, emits_updates: bool, needs_time: bool, reads_changes: bool = False
    ) -> Iterator[None]:
        """Lower the rows of an operator within the block."""
        before = (self._emits_updates, self._needs_time, self._reads_changes)
        self._emits_updates, self._needs_time = emits_updates, needs_time
        self._reads_changes = reads_changes
        yield
        self._emits_updates, self._needs_time, self._reads_changes = before

    def local_step(self, local: LocalWindowAggregate) -> StreamLocalStep:
        """Return the local stage of a window aggregate."""
        refuse_late_windows(local.input, "aggregated, ranked or joined")
        has_time = local.window.closes
        needs_time = has_time or self._needs_time
        rows = OperatorRows(self, self.catalog, self._late, has_time=needs_time)
        place = local.time_place or local.place
        with self._below(emits_updates=False, needs_time=needs_time):
            query = rows.query_with_watermarks(
                local.input, local.time_column if has_time else None, self._followed, place
            )
        is_one = rows.are_carried and len(rows.sources) == 1
        source: SqlRows | SplitScan
        delay_us: int | None
        if (
            is_one
            and isinstance(local, ScanLocalWindowAggregate)
            and isinstance(local.scan, SplitScan)
        ):
            source, delay_us = local.scan, local.delay_us
        else:
            keys = tuple((key.name, to_sql(key.expr)) for key in local.keys)
            source = SqlRows(keys, row_partials(local.plans), self.sql_step(query))
            delay_us = wall_clock_delay_us(local, self.catalog) if is_one and has_time else None
            if any(stream.is_read_by_tasks for _, stream in stream_tables(local, self.catalog)):
                # the rows come with a limit of their watermark
                delay_us = None
        return LocalStep(
            source,
            Streaming(
                tuple(rows.sources),
                self.zone,
                is_cascade=all(row_source.name.startswith(OPERATOR) for row_source in rows.sources),
                late_rows=self._late.target if self._late and rows.has_late_rows else None,
                carries_late_rows=self._late is not None,
                delay_us=delay_us,
                first=local.first,
                whole_by=self._whole_by,
                by=local.by,
                emits_untimed=local.emits_untimed,
            ),
            local.window,
            local.time_column,
            local.time_type,
            local.slice_end,
            self.label(local),
        )

    def _check(self, node: Node) -> None:
        """Refuse a node that Spark cannot compute one micro-batch at a time."""
        if isinstance(node, WindowRows) and self._emits_updates:
            raise StreamRefusal(
                "rows of windows are emitted once, so allowed lateness and early "
                "firing are not supported",
                f"{NO_UPDATES}, or aggregate the windows",
                node.place,
            )
        if isinstance(node, WindowTableFunction) and not node.window.has_slices:
            raise self.rows_not_buffered(
                "rows of sessions must be buffered, but the rule keep_session_rows is disabled",
                "remove it from 'sqlwin.optimizer.disabled-rules'",
                node.place,
            )
        if not isinstance(node, SqlQuery):
            return
        inner = {name: bool(streams_of(child, self.catalog)) for name, child in node.relations}

        def is_stream(table: exp.Table) -> bool:
            if table.name in inner:
                return inner[table.name]
            return stream_named(table, self.catalog) is not None

        refuse_stateful(node.query, is_stream, self._notes)

    def step_below(self, node: Node) -> SqlStep:
        """Return the input of a step. Names of steps count operators of the whole query."""
        return self.step(node)

    def _row_kind_first(self, query: exp.Query, node: Node) -> exp.Query:
        """Put ROW_KIND first, if the rows have one."""
        if not self._emits_updates or not any(node.find_all(GlobalWindowAggregate)):
            return query
        if isinstance(query, exp.Select) and not query.is_star:
            query.set("expressions", [column(ROW_KIND), *query.expressions])
            return query
        if isinstance(query, exp.Select) and len(query.expressions) == 1:
            return query
        text = node.query if isinstance(node, SqlQuery) else None
        is_set = isinstance(text, exp.SetOperation)
        message = "results of groups and ranks without a window change"
        hint = f"take changes as rows above it: TO_CHANGELOG(input => (...)); {BATCH}"
        if self.windows_change:
            message = "with allowed lateness or early firing, results of windows change"
            hint = f"{NO_UPDATES}; or take changes as rows above it: TO_CHANGELOG(input => (...))"
        limit = "can only be filtered and projected"
        if is_set:
            limit = "a change in one side of UNION ALL could replace a row of the other"
            hint = f"write each side with an INSERT of its own; {hint}"
        place = None if text is None else span_of(text.expression if is_set else text)
        raise StreamRefusal(
            f"{message}, and {limit}",
            hint,
            place or _place_of_results(node),
            SET_OPERATION if is_set and place is not None else None,
        )


def _place_of_results(node: Node) -> TextSpan | None:
    """Return the source position of results that change."""
    below = (part.place for aggregate in last_aggregates(node) for part in aggregate.walk())
    return next(filter(None, below), None)


def window_steps(plan: PlanNode) -> Iterator[StreamWindowStep]:
    """Yield the window operators of a plan, the topmost first."""
    return (node for node in plan.walk() if isinstance(node, StreamWindowStep))
