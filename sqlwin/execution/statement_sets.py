"""INSERT and statement sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame

from planner.lowering.stream.statement_set import shared_stream_groups
from planner.plan import Plan
from planner.sql.parts import is_ordered
from runtime.connectors.registry import open_table
from runtime.engines.spark_batch.execute import dataframe
from runtime.engines.spark_batch.shared import SharedPartials, first_reader, shared_by_several
from runtime.errors import SqlwinError
from runtime.frames.arrow_rows import BatchRows
from runtime.frames.meter import Meter
from runtime.plan.in_process import InProcessStep
from runtime.plan.nodes import PlanNode
from runtime.refusal import Refusal
from runtime.spark.files import resolve
from runtime.spark.jobs import Outcome, run_interruptibly, run_side_by_side
from runtime.spec.figures import count_text
from runtime.spec.table import TableSpec
from sqlwin.catalog.entries import MaterializedTable
from sqlwin.catalog.options import idle_notes
from sqlwin.execution.analyze import Watched
from sqlwin.execution.compiled.executors import check_sink
from sqlwin.execution.inserts import (
    dependencies,
    fit_rows,
    insert_into_spark,
    target_of,
)
from sqlwin.execution.lowered import lower_set
from sqlwin.execution.materialized.insert import insert_into_slices
from sqlwin.execution.planning import LoweredBatch, Plans
from sqlwin.execution.streams.handle import Stream
from sqlwin.execution.streams.results import StartedInsert, insert_result, stop_all
from sqlwin.execution.streams.sinks import IntoTables, into_table
from sqlwin.execution.streams.start import start_stream
from sqlwin.result import Inserted, InsertResult
from sqlwin.statements.nodes import Insert, StatementSet


class Inserts:
    """Runner of INSERTs, alone or together."""

    def __init__(self, plans: Plans) -> None:
        self._plans = plans

    def _target(self, insert: Insert) -> TableSpec | None:
        """Return the session table of an INSERT, or None for Spark's tables."""
        table = self._checked_target(insert)
        self._add_notes(insert, table)
        return table

    def _checked_target(self, insert: Insert) -> TableSpec | None:
        table = target_of(self._plans.catalog, insert)
        if table is not None:
            check_sink(self._plans.config, insert.text, table)
        return table

    def _add_notes(self, insert: Insert, table: TableSpec | None) -> None:
        """Add a note about table options of an INSERT that have no effect."""
        if table is not None and insert.options is not None:
            self._plans.add_notes(idle_notes(table, [key for key, _ in insert.options.pairs]))

    def insert(self, statement: Insert) -> Inserted:
        """Run an INSERT. Over a stream, start it."""
        entry = self._plans.catalog.entry(statement.name)
        if isinstance(entry, MaterializedTable):
            self._plans.catalog.start_spark()
            done = insert_into_slices(self._plans, statement, entry)
            if isinstance(done, InsertResult):
                return replace(done, scan_counts=self._plans.scan_counts)
            started = StartedInsert(statement.name, done)
            return insert_result(self._plans, statement.text, [started])
        table = self._checked_target(statement)  # refused before anything runs
        if table is None:
            self._plans.catalog.start_spark()
        plan = self._plans.plan(statement.ast, statement.text)
        self._add_notes(statement, table)
        if self._plans.is_stream(plan):
            self._plans.catalog.start_spark()
            started = StartedInsert(statement.name, self._start_insert(plan, statement, table))
            return insert_result(self._plans, statement.text, [started])
        place = self._plans.place_of_insert(plan, table, statement.columns, statement.static)
        if isinstance(place, InProcessStep):
            result = self.write_in_process(
                statement, self._plans.in_process_rows(plan, place), table
            )
            return replace(result, scan_counts=self._plans.last_scan_counts)
        self._plans.catalog.start_spark()
        self._plans.mark_jobs()
        lowered = self._plans.lower(plan)
        assert isinstance(lowered, LoweredBatch)
        rows = self._plans.batch_rows(lowered)
        return self._write_alone(statement, self._fit(statement, rows, table), table)

    def write_in_process(
        self, statement: Insert, rows: BatchRows, table: TableSpec | None
    ) -> InsertResult:
        """Write rows that this process computes, with the table's columns, to an INSERT's table."""
        with self._plans.jobs_run():
            return self._write(statement, rows, table)

    def write(self, statement: Insert, rows: DataFrame) -> InsertResult:
        """Write the rows of an INSERT's query to its table."""
        table = self._target(statement)
        fitted = self._fit(statement, BatchRows.of(rows), table)
        return self._write_alone(statement, fitted, table)

    def _fit(self, statement: Insert, rows: BatchRows, table: TableSpec | None) -> BatchRows:
        """Fit the rows of an INSERT to its table."""
        if table is None:
            return rows
        with self._plans.errors_of(statement.text):
            return fit_rows(rows, table, statement.columns, statement.static)

    def _write_alone(
        self, statement: Insert, rows: BatchRows, table: TableSpec | None
    ) -> InsertResult:
        """Write fitted rows. If this thread is interrupted, no row is published."""
        with self._plans.jobs_run():
            result = run_interruptibly(
                self._plans.spark, lambda: self._write(statement, rows, table)
            )
        return replace(result, scan_counts=self._plans.scan_counts)

    def _write(self, statement: Insert, rows: BatchRows, table: TableSpec | None) -> InsertResult:
        """Write fitted rows to the table."""
        name = ".".join(statement.name)
        with self._plans.errors_of(statement.text):
            if table is not None:
                rows = replace(rows, are_ordered=is_ordered(statement.ast))
                count = open_table(table).insert(rows, overwrite=statement.overwrite)
            else:
                count = None
                insert_into_spark(
                    self._plans.spark,
                    rows.dataframe,
                    statement.name,
                    statement.columns,
                    statement.overwrite,
                    statement.partition,
                )
        written = "" if count is None else f" {count_text(count, 'rows')}"
        return InsertResult(statement.text, f"INSERT INTO {name}:{written or ' done'}", count)

    def _start_insert(
        self, plan: Plan, statement: Insert, table: TableSpec | None
    ) -> Stream | Refusal:
        sink = into_table(statement, table)
        return start_stream(self._plans, self._plans.lower_stream(plan), sink, statement.text)

    def _start_set(
        self, statement: StatementSet, plans: Sequence[Plan], tables: Sequence[TableSpec | None]
    ) -> list[StartedInsert]:
        """Start INSERTs over streams. Those whose windows share slices run as one stream."""
        inserts = statement.inserts
        started: dict[int, StartedInsert] = {}
        groups = shared_stream_groups([plan.physical for plan in plans], self._plans.catalog)
        try:
            for numbers in groups:
                chosen = [(inserts[i], plans[i], tables[i]) for i in numbers]
                if len(chosen) == 1:
                    ((insert, plan, table),) = chosen
                    stream = self._start_insert(plan, insert, table)
                else:
                    stream = self._start_shared(statement.text, chosen)
                for place, (number, (insert, _, _)) in enumerate(zip(numbers, chosen, strict=True)):
                    member = place if len(chosen) > 1 else None
                    started[number] = StartedInsert(insert.name, stream, member)
        except BaseException:
            stop_all(started.values())
            raise
        return [started[number] for number in range(len(inserts))]

    def _start_shared(
        self, text: str, inserts: Sequence[tuple[Insert, Plan, TableSpec | None]]
    ) -> Stream | Refusal:
        plans = self._plans
        names = tuple(".".join(insert.name) for insert, _, _ in inserts)
        sink = IntoTables(names, tuple(into_table(insert, table) for insert, _, table in inserts))
        with plans.errors_of(text):
            lowered = lower_set(
                [plan for _, plan, _ in inserts], names, plans.catalog, plans.time_zone
            )
        return start_stream(plans, lowered, sink, text)

    def run_set(self, statement: StatementSet) -> Inserted:
        """Run the INSERTs of a set. Over bounded tables, check all before running the first."""
        inserts = statement.inserts
        tables = [self._target(insert) for insert in inserts]
        if None in tables:
            self._plans.catalog.start_spark()
        plans = self._plans.plans_together(inserts, has_sinks=False)
        are_streams = [self._plans.is_stream(plan) for plan in plans]
        if not any(are_streams):
            places = self._plans.places_of_set(inserts, plans, tables)
            if not isinstance(places, Refusal):
                return self._run_in_process(statement, plans, places, tables)
        self._plans.catalog.start_spark()
        if all(are_streams):
            # Start all of them before waiting for the first
            started = self._start_set(statement, plans, tables)
            return insert_result(self._plans, statement.text, started)
        if any(are_streams):
            results: Sequence[Inserted] = [self.insert(insert) for insert in inserts]
        else:
            results = self.run_together(inserts, [self._plans.lower_batch(plan) for plan in plans])
        return replace(_result_of_set(statement, results), scan_counts=self._plans.scan_counts)

    def _run_in_process(
        self,
        statement: StatementSet,
        plans: Sequence[Plan],
        places: Sequence[InProcessStep],
        tables: Sequence[TableSpec | None],
    ) -> InsertResult:
        """Run INSERTs over bounded tables in this process, one after the other.

        Raises:
            SqlwinError: An INSERT failed. The hint describes the outcome of the others.
        """
        inserts = statement.inserts
        rows, counts = self._plans.in_process_rows_of_set(plans, places)
        outcomes = [Outcome[InsertResult](begun=False) for _ in inserts]
        results: list[Inserted] = []
        with self._plans.jobs_run():
            for number, insert in enumerate(inserts):
                try:
                    results.append(self._write(insert, rows[number], tables[number]))
                except SqlwinError as error:
                    outcomes[number] = Outcome(error=error)
                    raise _with_progress(number, inserts, outcomes) from error
                outcomes[number] = Outcome()
        return replace(_result_of_set(statement, results), scan_counts=counts)

    def run_together(
        self,
        inserts: Sequence[Insert],
        steps: Sequence[PlanNode],
        meter: Meter | None = None,
        watched: Watched = lambda _: nullcontext(),
    ) -> list[InsertResult]:
        """Run INSERTs over bounded tables concurrently.

        Shared partials are computed when the first INSERT reads them, or up front if a meter
        counts.

        Args:
            inserts: INSERTs to run.
            steps: Step that computes the rows of each INSERT.
            meter: Meter that counts rows, if any.
            watched: Context for the jobs of an INSERT, by its number. Jobs of shared partials use
                the number of the first INSERT that reads them.

        Raises:
            SqlwinError: An INSERT is invalid, and none has run. Or one failed, and the hint
                describes the outcome of the others.
        """
        plans = self._plans
        tables = [self._target(insert) for insert in inserts]
        targets = [(insert.name, table) for insert, table in zip(inserts, tables, strict=True)]
        queries = [insert.ast for insert in inserts]
        after = dependencies(targets, queries, plans.catalog, partial(resolve, plans.spark))
        shared_steps = shared_by_several(steps)
        with SharedPartials(shared_steps) as shared:
            rows = [
                self._insert_rows(insert, step, table, shared, meter)
                for insert, step, table in zip(inserts, steps, tables, strict=True)
            ]
            reader = first_reader(steps, shared_steps)
            if reader is not None and meter is not None:
                # up front, so that they are not measured as part of an INSERT
                self._compute(shared, inserts, reader, watched)

            def work(number: int) -> Callable[[], InsertResult]:
                def write() -> InsertResult:
                    plans.jobs.describe(inserts[number].text)
                    with watched(number):
                        return self._write(inserts[number], rows[number], tables[number])

                return write

            works = [work(number) for number in range(len(inserts))]
            with plans.jobs_run():
                outcomes = run_side_by_side(plans.spark, works, after)
        failed = _first_failed(outcomes)
        if failed is not None:
            raise _with_progress(failed, inserts, outcomes)
        return [outcome.value for outcome in outcomes if outcome.value is not None]

    def _compute(
        self, shared: SharedPartials, inserts: Sequence[Insert], reader: int, watched: Watched
    ) -> None:
        """Compute the shared partials. An error is reported as the first reader's."""
        try:
            with watched(reader), self._plans.jobs_run():
                shared.compute()
        except Exception as error:
            failed = self._plans.errors_of(inserts[reader].text).translate(error)
            outcomes: list[Outcome[InsertResult]] = [Outcome(begun=False) for _ in inserts]
            outcomes[reader] = Outcome(error=failed)
            raise _with_progress(reader, inserts, outcomes) from error

    def _insert_rows(
        self,
        insert: Insert,
        step: PlanNode,
        table: TableSpec | None,
        shared: SharedPartials,
        meter: Meter | None,
    ) -> BatchRows:
        """Return the rows of an INSERT in a statement set, checked against its table."""
        options = replace(self._plans.execution_options(), meter=meter)
        with self._plans.errors_of(insert.text):
            rows = dataframe(self._plans.spark, step, options, shared)
        return self._fit(insert, BatchRows.of(rows), table)


def _result_of_set(statement: StatementSet, results: Sequence[Inserted]) -> InsertResult:
    """Return the result of a set from the results of its INSERTs."""
    counts = [result.row_count for result in results]
    total = sum(count or 0 for count in counts) if None not in counts else None
    message = "\n".join(result.message for result in results)
    return InsertResult(statement.text, message, total)


def _first_failed(outcomes: Sequence[Outcome[InsertResult]]) -> int | None:
    """Return the INSERT that failed first, which may have cancelled the others."""
    failed = [i for i, outcome in enumerate(outcomes) if outcome.error is not None]
    return next((i for i in failed if not outcomes[i].cancelled), failed[0] if failed else None)


def _with_progress(
    failed: int, inserts: Sequence[Insert], outcomes: Sequence[Outcome[InsertResult]]
) -> Exception:
    """Return the error of an INSERT in a set, with the outcome of the others."""
    error = outcomes[failed].error
    assert error is not None
    if not isinstance(error, SqlwinError):
        return error
    names = [".".join(insert.name) for insert in inserts]
    others = [(name, outcomes[i]) for i, name in enumerate(names) if i != failed]
    parts = [
        _progress_text(
            [name for name, outcome in others if outcome.done], "has", "have", "completed"
        ),
        _progress_text(
            [name for name, outcome in others if outcome.cancelled], "was", "were", "cancelled"
        ),
        _progress_text(
            [name for name, outcome in others if outcome.failed], "has", "have", "also failed"
        ),
        _progress_text(
            [name for name, outcome in others if not outcome.begun], "was", "were", "not started"
        ),
    ]
    progress = [part for part in parts if part]
    if progress:
        place = f"INSERT {failed + 1} of {len(names)} in the statement set failed"
        note = f"{place} ({names[failed]}): {'; '.join(progress)}"
        error.hint = f"{error.hint}\n  {note}" if error.hint else note
    return error


def _progress_text(names: Sequence[str], singular: str, plural: str, what: str) -> str:
    return f"{', '.join(names)} {singular if len(names) == 1 else plural} {what}" if names else ""
