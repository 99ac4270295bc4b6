"""Plans of the current statement, and the DataFrames that run them.

Modules that run plans are imported where they are used: EXPLAIN does not need them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.arrow.scan_rows import window_projection
from planner.lowering.target import Target
from planner.optimizer import Options
from planner.plan import Draft, Plan, draft_plan, plan_together
from planner.streams.tables import streams_of
from runtime.connectors.registry import open_table
from runtime.errors import SqlwinError
from runtime.files import is_local_path
from runtime.frames.arrow_rows import BatchRows, ProcessRows
from runtime.frames.scan_counts import ScanCounts, StatementCounts, StatementScanCounts
from runtime.frames.scan_source import check_like_spark, store_of_scan
from runtime.plan.in_process import InProcessStep
from runtime.plan.nodes import PlanNode
from runtime.refusal import Refusal, tried
from runtime.scan.request_cache import cache_requests
from runtime.scan.stores import Store
from runtime.spark.files import check_streams, resolve
from runtime.spark.on_demand import is_chosen, when_started
from runtime.spark.session import is_remote
from runtime.spark.settings import settings_of
from runtime.spark.shipping import ship_code
from runtime.spec.table import IDLE_ADVANCE, TableSpec
from runtime.spec.text import FileSource
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.entries import View
from sqlwin.catalog.opening import open_directory
from sqlwin.catalog.spark.views import spark_views
from sqlwin.catalog.streams import StreamReading
from sqlwin.catalog.unknown_columns import name_columns_of_files
from sqlwin.config.config import Config
from sqlwin.config.settings import AUTO
from sqlwin.execution.activity import Activity, StatementRun
from sqlwin.execution.compiled import executors
from sqlwin.execution.errors import StatementErrors
from sqlwin.execution.guard import ALLOWS_ALL, Guard
from sqlwin.execution.in_process import (
    FILES_ON_SPARK,
    emits_updates,
    files_read,
    in_process,
    most_file_bytes,
    planner_options,
    query_notes,
)
from sqlwin.execution.marked_jobs import MarkedJobs
from sqlwin.execution.streams.registry import Streams
from sqlwin.parser.positions import relocate
from sqlwin.statements.nodes import Insert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from runtime.engines.local.execute import ComputedRows
    from runtime.engines.local.meter import RelationMeter
    from runtime.engines.local.partials import LocalPartials
    from runtime.engines.spark_batch.execute import ExecutionOptions
    from sqlwin.execution.lowered import LoweredStream, Measuring


@dataclass(frozen=True)
class LoweredBatch:
    """A query that runs as a batch.

    Attributes:
        plan: Plan of the query.
        step: Step that computes the rows. None: Spark runs the text as the user wrote it.
    """

    plan: Plan
    step: PlanNode | None


class _CurrentStatement(threading.local):
    """Current statement of a thread."""

    scan_counts: StatementScanCounts | None = None
    notes: tuple[str, ...] = ()
    run: StatementRun | None = None
    guard: Guard = ALLOWS_ALL


class Plans:
    """Planner of a session: from a query to its plan, lowered steps and rows.

    Threads may run statements concurrently. Each thread has its own current statement, and holds
    the lock while planning it.

    Attributes:
        spark: Spark session.
        config: Settings of the session.
        catalog: Tables and views of the session.
        streams: Streams that the session started.
        activity: Records of statements.
        lock: Lock held while a statement is planned.
        last_scan_counts: Counts of the statement begun last, in any thread.
    """

    def __init__(self, spark: SparkSession, config: Config) -> None:
        self._spark = spark
        self.config = config
        self.lock = spark_views(spark)
        self.catalog = SessionCatalog(spark, self.rows_of_view, lambda: config.mask, self.lock)
        self.streams = Streams()
        self.jobs = MarkedJobs(spark, config)
        self.activity = Activity(self.jobs.marked)
        self._session_scan_counts = None if is_remote(spark) else ScanCounts(spark)
        self.last_scan_counts: StatementCounts | None = None
        self._current = _CurrentStatement()
        when_started(spark, lambda _: self.mark_jobs())

    @property
    def spark(self) -> SparkSession:
        """Spark session, in which the tables of this thread's plans are visible."""
        if self.lock.is_held:
            self.catalog.show_statement_tables()
        return self._spark

    @property
    def scan_counts(self) -> StatementScanCounts | None:
        """Counts of the current statement, or None where Spark cannot collect them."""
        return self._current.scan_counts

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about the current statement."""
        return self._current.notes

    @property
    def run(self) -> StatementRun | None:
        """Execution record of the current statement."""
        return self._current.run

    def jobs_run(self) -> AbstractContextManager[None]:
        """Release the lock while jobs run, so that other threads can plan."""
        return self.lock.release()

    def begin(self, text: str, guard: Guard = ALLOWS_ALL) -> StatementRun:
        """Begin a statement with its own counts and guard. Call `mark_jobs` before any jobs."""
        self._current.guard = guard
        run = self._current.run = self.activity.begin(text)
        if is_remote(self._spark) and not executors.is_portable(self.config):
            ship_code(self._spark)  # at the first statement, which may choose not to need it
        self.start_statement()
        self._current.notes = ()
        if self._session_scan_counts is not None:
            self._current.scan_counts = StatementScanCounts(self._session_scan_counts)
            self.last_scan_counts = run.scan_counts = self._current.scan_counts
        return run

    def mark_jobs(self) -> None:
        """Mark the jobs that this thread starts with the current statement."""
        self.jobs.mark(self.run)

    def end(self) -> None:
        """End the current statement."""
        self._current.run, self._current.guard = None, ALLOWS_ALL

    def start_statement(self) -> None:
        """Make the catalog read tables again, in the current runtime mode."""
        per_split = str(self.config.get("sqlwin.watermark.per-split"))
        mode = str(self.config.get("execution.runtime-mode"))
        idle_advance_us = int(self.config.get(IDLE_ADVANCE)) or None
        self.catalog.start_statement(StreamReading(mode, per_split, idle_advance_us))

    @property
    def directory_of_slices(self) -> str:
        """Directory of materialized tables that the session opens, "" for none."""
        return str(self.config.get("sqlwin.materialized.dir") or "")

    def open_directory(self) -> None:
        """Open the materialized tables in the directory of 'sqlwin.materialized.dir'.

        Raises:
            SqlwinError: A table cannot be opened.
        """
        open_directory(self.catalog, self.directory_of_slices)

    def add_notes(self, notes: Sequence[str]) -> None:
        """Add notes, skipping duplicates."""
        self._current.notes = tuple(dict.fromkeys((*self.notes, *notes)))

    def plan(
        self,
        query: exp.Query,
        text: str,
        sink: tuple[str, bool] | None = None,
        without: frozenset[str] = frozenset(),
    ) -> Plan:
        """Plan a query.

        Args:
            query: Tree of the query.
            text: Text of the query.
            sink: Name of the target table, and whether it is overwritten.
            without: Rules to disable besides those disabled by settings.
        """
        (plan,) = self._plan_drafts(
            lambda options: [self._draft(query, text, sink, options)], without
        )
        return plan

    def plans_together(self, inserts: Sequence[Insert], has_sinks: bool = True) -> list[Plan]:
        """Plan INSERTs that run together, with or without their sinks."""

        def drafts(options: Options) -> Iterator[Draft]:
            for insert in inserts:
                sink = (".".join(insert.name), insert.overwrite) if has_sinks else None
                draft = self._draft(insert.ast, insert.text, sink, options)
                yield replace(draft, apart=self._apart(draft, insert))

        return self._plan_drafts(drafts)

    def _plan_drafts(
        self, drafts: Callable[[Options], Iterable[Draft]], without: frozenset[str] = frozenset()
    ) -> list[Plan]:
        with self._span("planning"), cache_requests():
            options = self._planner_options(without)
            plans = plan_together(list(drafts(options)), options)
        if self.run is not None:
            for plan in plans:
                self.run.record_plan(plan)
        return plans

    def _span(self, name: str) -> AbstractContextManager[None]:
        """Measure a block as part of the current statement's run time."""
        return nullcontext() if self.run is None else self.run.span(name)

    # -- from plans to DataFrames --------------------------------------------------------------

    @property
    def time_zone(self) -> str:
        """Session time zone."""
        return settings_of(self._spark).get("spark.sql.session.timeZone")

    @property
    def emits_updates(self) -> bool:
        """Whether settings let streams emit windows more than once."""
        return emits_updates(self.config)

    @property
    def has_allowed_lateness(self) -> bool:
        """Whether settings let windows of streams accept rows after they have fired."""
        from sqlwin.execution.streams.options import stream_options

        return stream_options(self.config).allowed_lateness_us > 0

    def is_stream(self, plan: Plan) -> bool:
        """Return whether a plan reads a stream in the statement's runtime mode."""
        return bool(streams_of(plan.physical, self.catalog))

    def lower(self, plan: Plan, *, is_whole: bool = False) -> LoweredBatch | LoweredStream:
        """Lower a plan to the batch step or stream that runs it.

        Args:
            plan: Plan to lower.
            is_whole: Whether the planned text is exactly the query, so that Spark can run the text
                if no rule changed anything.

        Raises:
            SqlwinError: The plan cannot run as a stream.
        """
        if self.is_stream(plan):
            return self.lower_stream(plan, is_taken=is_whole)
        # a guard cannot judge a text that a Spark Connect server parses, only the tree
        may_pass_text = self.guard is ALLOWS_ALL or not is_remote(self._spark)
        if (
            is_whole
            and not plan.is_rewritten
            and may_pass_text
            and not executors.is_portable(self.config)
        ):
            return LoweredBatch(plan, None)
        return LoweredBatch(plan, self.lower_batch(plan))

    def lower_batch(self, plan: Plan) -> PlanNode:
        """Lower a plan to the step that Spark runs."""
        return self.on_spark(plan).step

    @property
    def prefers_portable(self) -> bool:
        """Whether Spark runs a batch query as portable text if it has one."""
        return executors.prefers_portable(self.config, self._spark)

    def on_spark(self, plan: Plan) -> executors.StepOnSpark:
        """Return how Spark runs a batch query. See `step_on_spark`."""
        return executors.step_on_spark(plan, self._spark, self.config, self.catalog, self.time_zone)

    def in_process(self, plan: Plan, target: Target | None = None) -> InProcessStep | Refusal:
        """Return the step that computes a batch query in this process, or why Spark runs it.

        Args:
            plan: Plan of the query.
            target: Columns of the table that the rows are written to. None: the query's columns.
        """
        if (executor := self.config.get(executors.EXECUTOR)) != AUTO:
            return Refusal(f"'{executors.EXECUTOR}' is '{executor}'")
        if is_remote(self._spark):
            return FILES_ON_SPARK
        context = (plan, self.config, self.catalog, self.time_zone, target)
        place = in_process(*context, is_spark_chosen=is_chosen(self._spark))
        # settings that change the results of expressions
        unlike = None if isinstance(place, Refusal) else tried(check_like_spark, self._spark)
        return unlike or place

    def lower_stream(
        self, plan: Plan, measuring: Measuring | None = None, *, is_taken: bool = False
    ) -> LoweredStream:
        """Lower the plan of a streaming query, with or without measurement.

        `is_taken` is as in `planner.lowering.stream.steps.lower_stream`.

        Raises:
            SqlwinError: The plan cannot run as a stream.
        """
        from sqlwin.execution.lowered import lower_query

        executors.check_batch_only(self.config, plan.sql, "streams")
        with self.errors_of(plan.sql):
            return lower_query(
                plan,
                self.catalog,
                self.time_zone,
                self.emits_updates,
                measuring,
                is_taken=is_taken,
                has_allowed_lateness=self.has_allowed_lateness,
            )

    def dataframe(self, lowered: LoweredBatch | LoweredStream) -> DataFrame:
        """Return the rows of a query outside INSERT, as a streaming DataFrame for a stream.

        Raises:
            SqlwinError: Spark refuses the query.
        """
        if isinstance(lowered, LoweredBatch):
            return self.batch_rows(lowered).dataframe
        from sqlwin.execution.streams.options import foreign_options

        check_streams(self.spark)
        with self.errors_of(lowered.plans[0].sql), self._span("Spark's analysis"):
            # The user starts this stream through Spark, not through sqlwin.
            options = lowered.options(foreign_options(self.spark, self.config))
            frame = lowered.dataframe(self.spark, options)
            self.guard.check_plan(lambda: frame)
            return frame if lowered.limit is None else frame.limit(lowered.limit)

    @property
    def guard(self) -> Guard:
        """Judge of the current statement."""
        return self._current.guard

    def batch_rows(self, lowered: LoweredBatch) -> BatchRows:
        """Return the rows of a query that runs as a batch.

        Raises:
            SqlwinError: Spark refuses the query.
        """
        from runtime.engines.spark_batch.execute import batch_rows

        with self.errors_of(lowered.plan.sql), self._span("Spark's analysis"):
            if lowered.step is None:
                self.guard.check_text(self._spark, lowered.plan.sql)
                rows = BatchRows.of(self.spark.sql(lowered.plan.sql))
            else:
                project = partial(window_projection, lowered.plan.physical, self.time_zone)
                rows = batch_rows(self.spark, lowered.step, project, self.execution_options())
            self.guard.check_plan(lambda: rows.dataframe)
            return rows

    def place_of_insert(
        self,
        plan: Plan,
        table: TableSpec | None,
        columns: Sequence[str] = (),
        static: Sequence[tuple[str, str]] = (),
    ) -> InProcessStep | Refusal:
        """Return the step that computes the rows of an INSERT written here, or why Spark writes.

        The step computes the columns of the table.

        Args:
            plan: Plan of the query in batch.
            table: Target; None for a table of Spark's catalog.
            columns: Columns named in INSERT INTO t (...).
            static: Name and Spark SQL of columns with one value for all rows.

        Raises:
            AnalysisError: The query does not fit the table.
        """
        if table is None:
            place, in_spark = self.in_process(plan), Refusal("Spark writes tables of its catalog")
            return place if isinstance(place, Refusal) else in_spark
        from sqlwin.execution.inserts import target_columns

        tree = self.catalog.expressions.tree
        with self.errors_of(plan.sql):
            place = self.in_process(
                plan, lambda query: target_columns(query, table, columns, static, tree)
            )
        if isinstance(place, Refusal):
            return place
        if (reason := open_table(table).why_spark_writes(self._spark)) is not None:
            return Refusal(reason)
        if not open_table(table).takes(self.in_process_rows(plan, place).schema):
            return Refusal("Spark casts the rows to the types of the table")
        return place

    def places_of_set(
        self, inserts: Sequence[Insert], plans: Sequence[Plan], tables: Sequence[TableSpec | None]
    ) -> list[InProcessStep] | Refusal:
        """Return the steps of the INSERTs of a set, or why Spark runs all of them.

        Args:
            inserts: INSERTs of the set.
            plans: Plan of each query in batch.
            tables: Target of each; None for a table of Spark's catalog.
        """
        from sqlwin.execution.inserts import reads_earlier_target

        targets = [(insert.name, table) for insert, table in zip(inserts, tables, strict=True)]
        queries = [insert.ast for insert in inserts]
        if reads_earlier_target(targets, queries, self.catalog, partial(resolve, self._spark)):
            # the files of a table are listed when its query is planned
            return Refusal("an INSERT reads a table that an earlier one of the set writes")
        places: list[InProcessStep] = []
        for insert, plan, table in zip(inserts, plans, tables, strict=True):
            place = self.place_of_insert(plan, table, insert.columns, insert.static)
            if isinstance(place, Refusal):
                is_general = place == FILES_ON_SPARK
                return place if is_general else place.of(f"INSERT INTO {'.'.join(insert.name)}")
            places.append(place)
        n_bytes = sum(files.bytes_of_rows for files in files_read(places))
        if n_bytes > (most_file_bytes(self.config, is_spark_chosen=is_chosen(self._spark)) or 0):
            return Refusal(
                "the INSERTs together read more bytes than 'sqlwin.in-process.max-bytes'"
            )
        return places

    def in_process_rows_of_set(
        self, plans: Sequence[Plan], places: Sequence[InProcessStep]
    ) -> tuple[list[BatchRows], StatementCounts]:
        """Return the rows of INSERTs computed in this process, and their common counts."""
        from runtime.engines.local.partials import LocalPartials
        from runtime.engines.local.scan import RowCountsOfSet

        rows, counts = [], []
        shared = LocalPartials(places)
        for plan, place in zip(plans, places, strict=True):
            rows.append(self.in_process_rows(plan, place, shared=shared))
            assert self.last_scan_counts is not None
            counts.append(self.last_scan_counts)
        together = RowCountsOfSet(tuple(counts))
        if self.run is not None:
            self.run.scan_counts = together
        self.last_scan_counts = together
        return rows, together

    def needs_spark_for(self, table: TableSpec) -> bool:
        """Return whether Spark has to write rows of this process to a table."""
        return open_table(table).why_spark_writes(self._spark) is not None

    def computed(self, place: InProcessStep, shared: LocalPartials | None = None) -> ComputedRows:
        """Compute rows in this process, counted for the current statement.

        Args:
            place: Step that computes the rows.
            shared: Partials that other steps of the statement read, too.
        """
        # imported late because many statements compute nothing
        from runtime.engines.local.execute import ComputedRows

        stores = {source.path: self._store(source) for source in place.scans}
        computed = ComputedRows(place, lambda source: stores[source.path], shared=shared)
        if self.run is not None:
            self.run.scan_counts = computed.counts
        self.last_scan_counts = computed.counts
        return computed

    def in_process_rows(
        self,
        plan: Plan,
        place: InProcessStep,
        meter: RelationMeter | None = None,
        shared: LocalPartials | None = None,
    ) -> BatchRows:
        """Return rows computed in this process, ready to be written. A meter measures them.

        For `shared` see `computed`.
        """
        from pyspark.sql.pandas.types import from_arrow_schema

        computed = self.computed(place, shared)
        return BatchRows(
            self._spark,
            from_arrow_schema(computed.schema, prefer_timestamp_ntz=True),
            lambda: self.rows_later(plan).dataframe,
            in_process=ProcessRows(computed.schema, partial(computed.batches, meter=meter)),
        )

    def _store(self, source: FileSource) -> Store | None:
        """Return how this process opens the files of a scan, or None for local files."""
        if all(is_local_path(file.path) for file in source.files):
            return None
        return store_of_scan(self.spark, source.path)

    def rows_later(self, plan: Plan) -> BatchRows:
        """Return Spark's rows of a query over files only, even after its statement has ended.

        Raises:
            SqlwinError: Spark refuses the query.
        """
        with self.lock:
            return self.batch_rows(LoweredBatch(plan, self.lower_batch(plan)))

    def rows(self, query: exp.Query, text: str, *, is_whole: bool = True) -> DataFrame:
        """Plan, lower and run a query."""
        return self.dataframe(self.lower(self.plan(query, text), is_whole=is_whole))

    def execution_options(self) -> ExecutionOptions:
        """Return the options for running plans, from settings."""
        from runtime.engines.spark_batch.execute import ExecutionOptions

        return ExecutionOptions(
            buffer_bytes=int(self.config.get("sqlwin.local.buffer-size")),
            scan_counts=self.scan_counts,
        )

    def errors_of(self, text: str) -> StatementErrors:
        """Return a translator for errors of a statement, raised in a block or later."""
        return StatementErrors(text, self.catalog, mask=self.config.mask)

    def rows_of_view(self, view: View) -> DataFrame:
        """Return the rows of a view, which the guard of the current statement does not judge."""
        query = self.catalog.view(view.name)
        assert query is not None
        guard, self._current.guard = self.guard, ALLOWS_ALL
        try:
            return self.rows(query, view.text, is_whole=False)
        finally:
            self._current.guard = guard

    def _apart(self, draft: Draft, insert: Insert) -> str | None:
        """Return why an INSERT cannot share a stream with others of its set, or None if it can."""
        from sqlwin.execution.lowered import general_windows_in

        entry = self.catalog.entry(insert.name)
        if self.emits_updates:
            return "its windows are emitted more than once"
        if not isinstance(entry, TableSpec):
            return "its target is a table of Spark's catalog"
        if open_table(entry).sink_mode is None:
            return f"its target uses connector '{entry.connector}'"
        if general_windows_in(draft.physical, self.catalog):
            return "it reads windows defined in Python"
        return None

    def _draft(
        self, query: exp.Query, text: str, sink: tuple[str, bool] | None, options: Options
    ) -> Draft:
        try:
            draft = draft_plan(query, text, options, sink)
        except SqlwinError as error:
            doubts = (note for note in self.catalog.file_notes if _is_about(error, note))
            error.hint = next(doubts, error.hint)
            name_columns_of_files(error, query, self.catalog)
            raise relocate(error, text) from error
        self.add_notes(query_notes(query, self.catalog, draft.bound))
        return draft

    def _planner_options(self, without: frozenset[str]) -> Options:
        settings = settings_of(self._spark)
        partitions = int(settings.get("spark.sql.shuffle.partitions"))
        zone = settings.get("spark.sql.session.timeZone")
        options = planner_options(self.config, self.catalog, zone, partitions)
        others = executors.rules_of_others(self.config, self._spark)
        return replace(options, disabled_rules=options.disabled_rules | without | others)


def _is_about(error: SqlwinError, note: str) -> bool:
    """Return whether a note about files explains an error about a column."""
    return any(f"`{subject}`" in note for subject in error.subjects)
