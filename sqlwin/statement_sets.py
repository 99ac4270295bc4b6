"""INSERT and statement sets: queries whose rows go to tables."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from planner.lower import lower
from planner.plan import Plan
from runtime.batch.execute import dataframe
from runtime.batch.shared import SharedPartials, read_by_several
from runtime.errors import SqlwinError
from runtime.steps import Step
from runtime.table_spec import TableSpec
from sqlwin.inserts import arranged, insert_into_spark, insert_rows, insert_target
from sqlwin.plans import Plans
from sqlwin.result import Result
from sqlwin.statements import Insert, StatementSet
from sqlwin.stream_results import insert_result, start_insert
from sqlwin.streams import Stream


class Inserts:
    """Runs INSERTs, one by one or together."""

    def __init__(self, plans: Plans) -> None:
        self._plans = plans

    def insert(self, statement: Insert) -> Result:
        """Run an INSERT; over a stream, start it."""
        plan = self._plans.plan(statement.ast, statement.text)
        if self._plans.stream_queries.is_stream(plan):
            stream = self._start_insert(
                plan, statement, insert_target(self._plans.catalog, statement.name)
            )
            started = [(".".join(statement.name), stream)]
            return insert_result(statement.text, started, waits=self.waits())
        rows = self._plans.rows(plan, statement.text, is_whole=False)
        return self.write(statement, rows)

    def write(self, statement: Insert, rows: DataFrame) -> Result:
        """Write the rows of an INSERT to its table."""
        table = insert_target(self._plans.catalog, statement.name)
        name = ".".join(statement.name)
        try:
            if table is not None:
                count = insert_rows(rows, table, statement.columns, statement.overwrite)
            else:
                count = None
                insert_into_spark(
                    self._plans.spark,
                    rows,
                    statement.name,
                    statement.columns,
                    statement.overwrite,
                    statement.partition,
                )
        except SqlwinError:
            raise
        except Exception as error:
            raise self._plans.explained(statement.text)(error) from error
        written = "" if count is None else f" {count:,} row{'' if count == 1 else 's'}"
        return Result(
            statement.text,
            "insert",
            f"INSERT INTO {name}:{written or ' done'}",
            row_count=count,
            null_times=self._plans.null_times,
        )

    def _start_insert(self, plan: Plan, statement: Insert, table: TableSpec | None) -> Stream | str:
        explained = self._plans.explained(statement.text)
        try:
            return start_insert(self._plans.stream_queries, plan, statement, table, explained)
        except PySparkException as error:
            raise explained(error) from error

    def waits(self) -> bool:
        """Whether INSERT waits for streams without an end."""
        return bool(self._plans.config.get("table.dml-sync"))

    def run_set(self, statement: StatementSet) -> Result:
        """All INSERTs of a set; over tables at rest all are checked before the first one runs."""
        inserts = statement.inserts
        tables = [insert_target(self._plans.catalog, insert.name) for insert in inserts]
        plans = self._plans.plans_together(inserts, has_sinks=False)
        are_streams = [self._plans.stream_queries.is_stream(plan) for plan in plans]
        if all(are_streams):
            # All are started before the first is waited for
            started = [
                (".".join(insert.name), self._start_insert(plan, insert, table))
                for plan, insert, table in zip(plans, inserts, tables, strict=True)
            ]
            return insert_result(statement.text, started, waits=self.waits())
        if any(are_streams):
            results = [self.insert(insert) for insert in inserts]
        else:
            results = self._insert_together(inserts, [lower(plan.physical) for plan in plans])
        counts = [result.row_count for result in results]
        total = sum(count or 0 for count in counts) if None not in counts else None
        message = "\n".join(result.message for result in results)
        return Result(
            statement.text, "insert", message, row_count=total, null_times=self._plans.null_times
        )

    def _insert_together(self, inserts: Sequence[Insert], steps: Sequence[Step]) -> list[Result]:
        """INSERTs one after another, with what they share kept in between."""
        results: list[Result] = []
        with SharedPartials(read_by_several(steps)) as shared:
            rows = [
                self._insert_rows(insert, step, shared)
                for insert, step in zip(inserts, steps, strict=True)
            ]
            for insert, frame in zip(inserts, rows, strict=True):
                self._plans.describe_job(insert.text)
                try:
                    results.append(self.write(insert, frame))
                except SqlwinError as error:
                    raise _with_progress(error, inserts, len(results)) from error
        return results

    def _insert_rows(self, insert: Insert, step: Step, shared: SharedPartials) -> DataFrame:
        """The rows of an INSERT of a statement set, found to fit its table."""
        try:
            rows = dataframe(self._plans.spark, step, self._plans.execution_options(), shared)
        except PySparkException as error:
            raise self._plans.explained(insert.text)(error) from error
        table = insert_target(self._plans.catalog, insert.name)
        if table is not None:
            arranged(rows, table, insert.columns)
        return rows


def _with_progress(error: SqlwinError, inserts: Sequence[Insert], n_written: int) -> SqlwinError:
    """The error of an INSERT of a statement set, with what became of the others."""
    names = [".".join(insert.name) for insert in inserts]
    parts = []
    if n_written:
        have = "has" if n_written == 1 else "have"
        parts.append(f"{', '.join(names[:n_written])} {have} been written")
    rest = names[n_written + 1 :]
    if rest:
        parts.append(f"{', '.join(rest)} {'was' if len(rest) == 1 else 'were'} not begun")
    if parts:
        place = f"INSERT {n_written + 1} of {len(names)} in the statement set failed"
        note = f"{place} ({names[n_written]}): {'; '.join(parts)}"
        error.hint = f"{error.hint}\n  {note}" if error.hint else note
    return error
