"""Execution of single statements.

Modules that only some statements need are imported where they are used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from planner.catalog import Schema
from planner.plan import Plan
from planner.sql.build import relation, select_all_from
from planner.sql.depth import deep_trees
from planner.sql.parts import is_ordered
from runtime.connectors.registry import open_table
from runtime.errors import AnalysisError, SqlwinError
from runtime.names import quote_name
from runtime.plan.in_process import InProcessStep
from runtime.redaction import remember_settings
from runtime.scan.request_cache import cache_requests
from runtime.spark.errors import translate_spark_errors
from runtime.spark.exceptions import spark_error
from runtime.spark.jobs import run_interruptibly
from runtime.spark.on_demand import is_started
from runtime.spark.settings import change_setting, settings_of
from runtime.spec.table import TableSpec
from sqlwin.catalog import listings
from sqlwin.catalog.definitions import Definitions
from sqlwin.catalog.entries import MaterializedTable, Name
from sqlwin.catalog.files import refuse_remote_state
from sqlwin.config.config import Config
from sqlwin.execution.guard import ALLOWS_ALL, Guard
from sqlwin.execution.inserts import fit_rows, insert_target
from sqlwin.execution.planning import LoweredBatch, Plans
from sqlwin.execution.spark_statements.statements import SparkStatements, rows_of_spark
from sqlwin.result import (
    ExplainResult,
    InsertResult,
    MessageResult,
    Result,
    RowsResult,
    StreamResult,
    TableResult,
)
from sqlwin.result.in_process import InProcessRows
from sqlwin.statements import nodes
from sqlwin.statements.dict_values import fit_dicts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from planner.explain.document import QueryDocument
    from sqlwin.execution.explain import Explanations
    from sqlwin.execution.lowered import LoweredStream
    from sqlwin.execution.materialized.statements import MaterializedTables
    from sqlwin.execution.simulated import StoredRows
    from sqlwin.execution.statement_sets import Inserts

# Statements that start Spark only if they need it
_WITHOUT_SPARK = (
    nodes.Query,
    nodes.Advise,
    nodes.Insert,
    nodes.StatementSet,
    nodes.Explain,
    nodes.CreateTable,
    nodes.CreateView,
    nodes.CreateMaterializedTable,
    nodes.Set,
    nodes.Reset,
    nodes.Drop,
    nodes.AlterTable,
    nodes.ShowNames,
    nodes.ShowCreateTable,
    nodes.ShowStreams,
    nodes.Describe,
)


class Runner:
    """Runner of statements on a Spark session, with the session's tables and settings."""

    def __init__(self, spark: SparkSession) -> None:
        self.config = Config()
        self.plans = Plans(spark, self.config)
        self.catalog = self.plans.catalog
        self.streams = self.plans.streams
        self.activity = self.plans.activity
        self.lock = self.plans.lock
        self._definitions = Definitions(self.catalog)
        self._spark_statements = SparkStatements(self.plans)

    @cached_property
    def explanations(self) -> Explanations:
        """EXPLAIN for statements of the session."""
        from sqlwin.execution.explain import Explanations

        return Explanations(self.plans)

    @cached_property
    def _inserts(self) -> Inserts:
        from sqlwin.execution.statement_sets import Inserts

        return Inserts(self.plans)

    @cached_property
    def _materialized(self) -> MaterializedTables:
        from sqlwin.execution.materialized.statements import MaterializedTables

        return MaterializedTables(self.plans)

    @property
    def spark(self) -> SparkSession:
        """Spark session, in which the tables of the statement's plans are visible."""
        return self.plans.spark

    def run(self, statement: nodes.Statement, guard: Guard = ALLOWS_ALL) -> Result:
        """Run a statement, if a guard allows it.

        Raises:
            SqlwinError: The statement is invalid, refused or fails. Positions refer to its text.
        """
        with self.lock, deep_trees(statement.text):
            run = self.plans.begin(statement.text, guard)
            try:
                guard.check_statement(statement)
                result = self._run(statement)
            except BaseException as error:
                run.record_failure(error)
                raise
            finally:
                self.plans.end()
            run.document = result.document if isinstance(result, ExplainResult) else None
            n_rows = result.row_count if isinstance(result, InsertResult | StreamResult) else None
            run.record_end(result.kind, result.message, n_rows)
            notes = (*self.plans.notes, *result.statement_notes)
            return replace(result, statement_notes=notes)

    def documents(self, statement: nodes.Statement, analyze: bool) -> list[QueryDocument]:
        """Return the plans of a statement. If it has none, run it and return an empty list.

        Spark explains statements that only it knows, unless later statements may depend on them.

        Args:
            statement: Statement to explain, or EXPLAIN.
            analyze: Whether to run queries and INSERTs and add measurements.

        Raises:
            SqlwinError: The statement is invalid, or a run fails. Positions refer to its text.
        """
        from sqlwin.execution.explain import can_explain, is_preparation

        inner, analyzes = statement, analyze
        if isinstance(statement, nodes.Explain):
            inner = statement.statement
            analyzes = analyze or "ANALYZE" in statement.details
        # analyze needs the rows of CREATE TABLE ... AS, which later statements read
        fills = analyze and isinstance(statement, nodes.CreateTable)
        if can_explain(inner) and not fills:
            with self.lock:
                return self.explanations.documents(inner, analyzes)
        if isinstance(inner, nodes.SparkStatement) and not is_preparation(inner.tokens):
            return [self._plan_of_spark(statement)]
        self.run(statement)
        return []

    def _plan_of_spark(self, statement: nodes.Statement) -> QueryDocument:
        """Return the plan of a statement that Spark runs, or of its EXPLAIN."""
        from planner.explain.document import QueryDocument
        from sqlwin.execution.explain import explain_of

        explain, shift = statement, 0
        if not isinstance(statement, nodes.Explain):
            explain = explain_of(statement)
            shift = len(explain.text) - len(statement.text)
        try:
            result = self.run(explain)
            lines = [str(row[0]) for row in result.rows]
        except SqlwinError as error:
            if error.sql == explain.text:
                error.with_source(statement.text, offset=-shift)
            raise
        return QueryDocument(statement.text, "\n".join(lines))

    @property
    def rows_scanned(self) -> int:
        """Number of rows that the scans of the current statement have read so far."""
        counts = self.plans.last_scan_counts
        return 0 if counts is None else counts.rows_read()

    def _run(self, statement: nodes.Statement) -> Result:
        if isinstance(statement, nodes.SparkStatement):
            statement = self._as_own(statement)
        if not isinstance(statement, nodes.Query):
            self.plans.mark_jobs()
        needs_none = isinstance(statement, nodes.Use) and statement.is_initial
        if not (isinstance(statement, _WITHOUT_SPARK) or (needs_none and self._begins_in_default)):
            self.catalog.start_spark()
        if not isinstance(statement, nodes.Set | nodes.Reset):
            self.plans.open_directory()
        match statement:
            case nodes.Query():
                return self._query(statement.ast, statement.text)
            case nodes.Insert():
                return self._inserts.insert(self._with_rows_of_dicts(statement))
            case nodes.StatementSet():
                return self._inserts.run_set(statement)
            case nodes.Explain():
                return self._explain_statement(statement)
            case nodes.CreateTable():
                return self._create_table(statement)
            case nodes.CreateView():
                # report errors now, not on first use
                plan = self.plans.plan(statement.ast, statement.text)
                _check_view_columns(statement, [column.name for column in plan.bound.schema])
                return _ok(statement, self._definitions.create_view(statement))
            case nodes.CreateMaterializedTable():
                return self._materialized.create(statement)
            case nodes.AlterMaterializedTable():
                return self._materialized.alter(statement)
            case nodes.Drop() if statement.kind == "MATERIALIZED TABLE":
                if self.catalog.entry(statement.name) is None:
                    self.catalog.start_spark()
                return self._materialized.drop(statement)
            case nodes.Drop():
                return self._drop(statement)
            case nodes.AlterTable():
                return self._alter(statement)
            case nodes.StopStream():
                return self._stop_stream(statement)
            case nodes.Summarize():
                return self._summarize(statement)
            case nodes.Advise():
                from sqlwin.execution.simulated import advice_rows

                table, lines = advice_rows(self.stored_rows, statement)
                return TableResult(statement.text, table, statement_notes=lines)
            case nodes.Set():
                return self._set(statement)
            case nodes.Reset():
                return self._reset(statement)
            case _:
                return self._show(statement)

    def _with_rows_of_dicts(self, statement: nodes.Insert) -> nodes.Insert:
        entry = self.catalog.entry(statement.name)
        table = entry if isinstance(entry, TableSpec) else None
        with self.plans.errors_of(statement.text):
            return fit_dicts(
                statement,
                table,
                lambda: [(c.name, c.type) for c in self.columns_of(statement.name)],
            )

    def _show(self, statement: nodes.Statement) -> Result:
        """Run SHOW and DESCRIBE of the session's objects. Spark runs all others."""
        table: pa.Table | None = None
        mask = self.config.mask
        if isinstance(statement, nodes.ShowCreateTable | nodes.Describe) and statement.options:
            with self.plans.errors_of(statement.text):
                name = self.catalog.with_options(statement.name, statement.options)
            statement = replace(statement, name=name)
        match statement:
            case nodes.ShowNames(kind="TABLES" | "VIEWS" as kind, like=like):
                table = listings.show_tables(self.catalog, self.spark, like, kind)
            case nodes.ShowNames(kind="FUNCTIONS", like=like):
                table = listings.show_functions(self.spark, like)
            case nodes.ShowNames():
                table = listings.mask_table(self._materialized.show(statement), mask)
            case nodes.ShowCreateTable() if self.catalog.entry(statement.name) is not None:
                table = listings.show_create_table(
                    self.catalog, statement.name, mask, self.columns_of
                )
            case nodes.ShowStreams():
                from sqlwin.execution.streams.status import show_streams

                table = listings.mask_table(show_streams(self.streams), mask)
            case nodes.ShowState():
                from sqlwin.execution.streams.status import show_state

                refuse_remote_state(self.spark)
                with self.plans.errors_of(statement.text), self.plans.jobs_run():
                    table = show_state(self.spark, statement.directory)
                table = listings.mask_table(table, mask)
            case nodes.Describe(is_extended=True) if isinstance(
                entry := self.catalog.entry(statement.name), MaterializedTable
            ):
                table = listings.mask_table(self._materialized.describe(entry), mask)
            case nodes.Describe() if self.catalog.readable(statement.name) is not None:
                table = listings.describe_table(
                    self.catalog, statement.name, self.columns_of(statement.name)
                )
                table = listings.mask_table(table, mask)
            case nodes.Use(is_initial=True) if self._begins_in_default:
                return MessageResult(statement.text, "OK")
            case nodes.SparkStatement() | nodes.ShowCreateTable() | nodes.Describe():
                return self._spark_statements.run(statement)
        if table is None:
            raise AssertionError(f"no way to run {type(statement).__name__}")
        notes = self.catalog.file_notes
        return TableResult(statement.text, table, statement_notes=notes)

    @property
    def _begins_in_default(self) -> bool:
        """Whether Spark has yet to start, and in its own default catalog and database."""
        if is_started(self.spark):
            return False
        initial = settings_of(self.spark).get("spark.sql.defaultCatalog", "spark_catalog")
        return initial == "spark_catalog"

    def linked_table(self, statement: nodes.CreateTable) -> Any:
        """Return the table of a statement without running it; see `Definitions.linked_table`."""
        return self._definitions.linked_table(statement)

    def columns_of(self, name: Name) -> Schema:
        """Return the columns of a table or view, or of files by path.

        Raises:
            SqlwinError: The table does not exist, or cannot be read.
        """
        text = f"SELECT * FROM {quote_name(*name)}"
        entry = self.catalog.readable(name)
        if entry is None or self.catalog.view(name) is not None:
            return self.plans.plan(select_all_from(relation(*name)), text).bound.schema
        shown = self.catalog.relation(name)
        assert shown is not None
        with self.plans.errors_of(text):
            return self.catalog.analyze(select_all_from(relation(shown)), {})

    # -- queries -------------------------------------------------------------------------------

    def _explain_statement(self, statement: nodes.Explain) -> Result:
        if isinstance(statement.statement, nodes.SparkStatement):
            return self._spark_statements.explain(statement, statement.statement)
        if "ROW" in statement.details:
            from sqlwin.execution.simulated import explain_row

            text = explain_row(self.stored_rows, statement)
            return ExplainResult(statement.text, self.config.mask.text(text))
        return self.explanations.result(statement)

    @property
    def stored_rows(self) -> StoredRows:
        """Reader of the rows that the session's tables hold."""
        from sqlwin.execution.simulated import StoredRows

        return StoredRows(self.plans, lambda statement: self._run(statement).to_arrow())

    def _query(self, query: exp.Query, text: str) -> Result:
        with cache_requests():
            plan = self.plans.plan(query, text)
            if not self.plans.is_stream(plan):
                place = self.plans.in_process(plan)
                if isinstance(place, InProcessStep):
                    return self._in_process_result(plan, place)
            lowered = self.plans.lower(plan, is_whole=True)
        self.plans.mark_jobs()
        if not isinstance(lowered, LoweredBatch):
            from sqlwin.execution.streams.results import StreamQuery

            opened = StreamQuery(self.plans, lowered, query, text)
            return opened.result(lambda: self.explanations.take_interrupt())
        batch = self.plans.batch_rows(lowered)
        return RowsResult(
            text,
            rows_of_spark(self.plans, batch.dataframe, batch.arrow, plan.bound.schema),
            self.plans.errors_of(text),
            self.plans.run,
            statement_notes=self._notes(),
            scan_counts=self.plans.scan_counts,
        )

    def _in_process_result(self, plan: Plan, step: InProcessStep) -> Result:
        """Return the result of a query whose rows are computed in this process."""
        computed = self.plans.computed(step)
        # Get the time zone from Java only if the result has an instant.
        has_instants = any(re.search(r"\btimestamp\b", c.type) for c in plan.physical.schema)
        rows = InProcessRows(
            computed,
            self.plans.time_zone if has_instants else "",
            lambda: self.plans.rows_later(plan).dataframe,
            self.plans.run,
        )
        errors = self.plans.errors_of(plan.sql)
        return RowsResult(
            plan.sql,
            rows,
            errors,
            self.plans.run,
            statement_notes=self._notes(),
            scan_counts=computed.counts,
        )

    def _summarize(self, statement: nodes.Summarize) -> Result:
        from sqlwin.execution.summary import summary

        plan = self.plans.plan(statement.ast, statement.text)
        if self.plans.is_stream(plan):
            raise AnalysisError(
                "SUMMARIZE requires bounded input, but the query reads an unbounded stream",
                hint="if its table is bounded, SET 'execution.runtime-mode' = 'batch'",
            )
        rows = self.plans.dataframe(self.plans.lower(plan))
        with self.plans.errors_of(statement.text), self.plans.jobs_run():
            table = run_interruptibly(self.spark, lambda: summary(rows))
        return TableResult(statement.text, table, scan_counts=self.plans.scan_counts)

    def _notes(self) -> tuple[str, ...]:
        """Return notes about a query that runs as a batch."""
        if self.config.get("execution.runtime-mode") != "streaming":
            return ()
        return ("the query runs as a batch, because none of its tables can be read as a stream",)

    # -- definitions ---------------------------------------------------------------------------

    def _create_table(self, statement: nodes.CreateTable) -> Result:
        query = statement.as_query
        if query is None:
            message, notes = self._definitions.create_table(statement)
            return _ok(statement, message, notes)
        plan = self.plans.plan(query, statement.text)
        place = None if self.plans.is_stream(plan) else self.plans.in_process(plan)
        if isinstance(place, InProcessStep):
            rows = self.plans.in_process_rows(plan, place)
        else:
            lowered = self.plans.lower(plan)
            if not isinstance(lowered, LoweredBatch):
                return self._create_filled_by_stream(statement, lowered)
            rows = self.plans.batch_rows(lowered)
        message, notes = self._definitions.create_table(statement, rows.schema)
        table = insert_target(self.catalog, statement.name)
        assert table is not None
        try:
            with self.plans.errors_of(statement.text), self.plans.jobs_run():
                if isinstance(place, InProcessStep) and self.plans.needs_spark_for(table):
                    place, rows = None, self.plans.rows_later(plan)
                fitted = replace(fit_rows(rows, table), are_ordered=is_ordered(query))
                insert = partial(open_table(table).insert, fitted, overwrite=False)
                if isinstance(place, InProcessStep):
                    count = insert()
                else:
                    count = run_interruptibly(self.spark, insert)
        except BaseException:
            self.catalog.drop(statement.name, "TABLE", if_exists=True)
            raise
        return InsertResult(
            statement.text,
            message,
            count,
            statement_notes=notes,
            scan_counts=self.plans.scan_counts,
        )

    def _create_filled_by_stream(
        self, statement: nodes.CreateTable, lowered: LoweredStream
    ) -> Result:
        """Create a table, and start the stream that fills it."""
        from sqlwin.execution.streams.results import StartedInsert, insert_result
        from sqlwin.execution.streams.sinks import IntoTable
        from sqlwin.execution.streams.start import start_stream

        schema = self.plans.dataframe(lowered).schema
        _, notes = self._definitions.create_table(statement, schema)
        table = insert_target(self.catalog, statement.name)
        assert table is not None
        stream = start_stream(self.plans, lowered, IntoTable(table), statement.text)
        started = [StartedInsert(statement.name, stream)]
        result = insert_result(self.plans, statement.text, started)
        return replace(result, statement_notes=(*notes, *result.statement_notes))

    def _as_own(self, statement: nodes.SparkStatement) -> nodes.Statement:
        """Return CREATE TABLE ... LIKE as sqlwin's statement if it copies a session table."""
        from sqlwin.statements.parse import read_copy

        copy = read_copy(statement)
        if copy is None or copy.like is None or self.catalog.entry(copy.like) is None:
            return statement
        return copy

    def _drop(self, statement: nodes.Drop) -> Result:
        is_ours = self.catalog.entry(statement.name) is not None
        if not is_ours and self.is_known_to_spark(statement.name):
            return self._spark_statements.run(statement)
        self.catalog.drop(statement.name, statement.kind, if_exists=statement.if_exists)
        return _ok(statement, "OK")

    def _alter(self, statement: nodes.AlterTable) -> Result:
        is_ours = self.catalog.entry(statement.name) is not None
        if not is_ours and self.is_known_to_spark(statement.name):
            return self._spark_statements.run(statement)
        message, notes = self._definitions.alter_table(statement)
        return _ok(statement, message, notes)

    def is_known_to_spark(self, name: Name) -> bool:
        """Return whether Spark's catalogs have a table or view of this name."""
        if len(name) == 1 and not self.catalog.analyzer.may_exist(name[0]):
            return False
        try:
            return bool(self.spark.catalog.tableExists(".".join(f"`{part}`" for part in name)))
        except spark_error():
            return False  # the catalog or database does not exist

    # -- streams -------------------------------------------------------------------------------

    def _stop_stream(self, statement: nodes.StopStream) -> Result:
        from sqlwin.execution.streams.status import how_to_resume

        stream = self.streams.find(statement.name)
        if not stream.is_running:
            return _ok(statement, f"stream {stream.number} is not running: it is {stream.state}")
        with self.plans.jobs_run():
            stream.stop()
        name = f"stream {stream.number} (`{stream.setup.name}`)"
        if failure := stream.failure():
            return _ok(statement, f"{name} failed: {failure}", (how_to_resume(stream),))
        others = [f"`{table}`" for table in stream.setup.inserts if table != stream.setup.name]
        also = f", including INSERT INTO {', '.join(others)}" if others else ""
        return _ok(statement, f"{name} stopped{also}", (how_to_resume(stream),))

    # -- settings ------------------------------------------------------------------------------

    def set(self, key: str, value: str) -> tuple[str, ...]:
        """Change a setting and return notes about it.

        Raises:
            SqlwinError: The setting is unknown, or the value is invalid.
        """
        notes = self.config.set(key, value)
        remember_settings({key: value}, self.config.mask)
        self._apply_to_spark(key)
        return notes

    def _set(self, statement: nodes.Set) -> Result:
        if statement.key is None:
            return TableResult(statement.text, _settings_table(self.config.items()))
        if statement.value is None:
            if statement.key.startswith("spark."):
                value = self.spark.conf.get(statement.key, None)
            else:
                value = self.config.text(statement.key)
            rows = [(statement.key, self.config.mask.value(statement.key, value or ""))]
            return TableResult(statement.text, _settings_table(rows))
        notes = self.set(statement.key, statement.value)
        return _ok(statement, "OK", notes)

    def _reset(self, statement: nodes.Reset) -> Result:
        every = (key for key, _ in self.config.items())
        # Spark need not start for settings that have their defaults
        keys = [statement.key] if statement.key else [k for k in every if self.config.is_set(k)]
        for key in keys:
            self.config.reset(key)
            self._apply_to_spark(key)
        return _ok(statement, "OK")

    def _apply_to_spark(self, key: str) -> None:
        """Set Spark's counterpart of a setting, if it has one."""
        conf, value = self.config.spark_setting(key)
        if conf is not None:
            with translate_spark_errors():
                change_setting(self.plans.spark, conf, value)


def _ok(statement: nodes.Statement, message: str, notes: tuple[str, ...] = ()) -> MessageResult:
    return MessageResult(statement.text, message, statement_notes=notes)


def _check_view_columns(view: nodes.CreateView, columns: Sequence[str]) -> None:
    """Refuse a column list whose length differs from the query's."""
    named = view.columns
    if named and len(named) != len(columns):
        raise AnalysisError(
            f"the view lists {len(named)} column{'s' * (len(named) > 1)}, but its query returns "
            f"{len(columns)}",
            subjects=(named[-1],) if len(named) > len(columns) else (named[0],),
            hint=f"the query returns {', '.join(columns)}",
        )


def _settings_table(rows: Iterable[tuple[str, str]]) -> pa.Table:
    return pa.table(list(zip(*rows, strict=True)), ["key", "value"])
