"""Plans of statements as documents, and with ANALYZE the figures of a run in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from planner.explain.document import query_document
from planner.nodes.logical import Sink
from planner.plan import Plan
from runtime.errors import SqlwinError
from runtime.frames.meter import Meter
from runtime.spec.steps import Step
from sqlwin.execution.analyze import Json, Watched, analyzed, analyzed_together, without_results
from sqlwin.execution.inserts import target_of
from sqlwin.execution.planning import Plans
from sqlwin.execution.statement_sets import Inserts
from sqlwin.execution.streams.analyze import analyzed_stream
from sqlwin.execution.streams.handle import Stream
from sqlwin.execution.streams.planning import Measuring
from sqlwin.execution.streams.results import start_insert
from sqlwin.execution.streams.sets import stream_sections
from sqlwin.statements.parse import CreateTable, Insert, Query, Statement, StatementSet


def can_explain(statement: Statement) -> bool:
    """Whether a statement has a plan."""
    if isinstance(statement, CreateTable):
        return statement.as_query is not None
    return isinstance(statement, Query | Insert | StatementSet)


class Explanations:
    """Explains statements.

    Attributes:
        take_interrupt: whether a person wants a stream that runs to end now; told once.
    """

    def __init__(self, plans: Plans, inserts: Inserts) -> None:
        self.take_interrupt: Callable[[], bool] = lambda: False
        self._plans = plans
        self._inserts = inserts

    def documents(self, statement: Statement, analyze: bool = False) -> list[Json]:
        """Plans as documents: of a query, a CREATE TABLE AS, each INSERT of a statement set.

        Args:
            statement: the statement.
            analyze: whether it is run, and the document holds what was measured.
        """
        self._plans.start_statement()
        match statement:
            case Query():
                query, sink = statement.ast, None
            case Insert():
                query, sink = statement.ast, (".".join(statement.name), statement.overwrite)
            case CreateTable() if statement.as_query is not None and not analyze:
                query, sink = statement.as_query, (".".join(statement.name), False)
            case StatementSet():
                return self._documents_together(statement.inserts, analyze)
            case _:
                raise SqlwinError(
                    f"EXPLAIN {'ANALYZE ' * analyze}takes a query or an INSERT",
                    hint="write EXPLAIN SELECT ... or EXPLAIN INSERT INTO ...",
                )
        plan = self._plans.plan(query, statement.text, sink)
        zone = str(self._plans.spark.conf.get("spark.sql.session.timeZone"))
        explained = query_document(plan, statement.text, zone)
        if self._plans.stream_plans.is_stream(plan):
            explained["text"] += "\n" + self._plans.stream_plans.explain(plan)
        if not analyze:
            return [explained]
        if self._plans.stream_plans.is_stream(plan):
            return [self._analyzed_stream(explained, plan, statement)]

        def run(rows: DataFrame) -> None:
            if isinstance(statement, Insert):
                self._inserts.write(statement, rows)
            else:
                without_results(rows)

        options = self._plans.execution_options()
        with self._plans.errors_of(statement.text):
            return [analyzed(explained, plan.physical, self._plans.spark, options, run)]

    def _analyzed_stream(self, explained: Json, plan: Plan, statement: Statement) -> Json:
        errors = self._plans.errors_of(statement.text)
        queries = self._plans.stream_queries
        whole = plan.physical
        if isinstance(whole, Sink):
            plan = replace(plan, physical=whole.input)

        def start(measuring: Measuring) -> Stream | str:
            if isinstance(statement, Insert):
                table = target_of(self._plans.catalog, statement)
                return start_insert(queries, plan, statement, table, errors, measuring)
            return queries.discard(plan, statement.text, errors, measuring)

        duration_us = int(self._plans.config.get("sqlwin.analyze.duration"))
        seconds = duration_us / 1_000_000 or None
        spark = self._plans.spark
        with errors:
            return analyzed_stream(explained, whole, spark, start, seconds, self.take_interrupt)

    def _documents_together(self, inserts: Sequence[Insert], analyze: bool) -> list[Json]:
        """Documents of INSERTs that share what they can; in texts a shared part stands once."""
        zone = str(self._plans.spark.conf.get("spark.sql.session.timeZone"))
        drawn: set[int] = set()
        plans = self._plans.plans_together(inserts)
        documents = [
            query_document(plan, insert.text, zone, drawn)
            for insert, plan in zip(inserts, plans, strict=True)
        ]
        if not analyze:
            names = [".".join(insert.name) for insert in inserts]
            sections = stream_sections(self._plans.stream_plans, names, plans)
            for document, section in zip(documents, sections, strict=True):
                document["text"] += f"\n{section}" if section else ""
            return documents
        if any(self._plans.stream_plans.is_stream(plan) for plan in plans):
            each = [self.documents(insert, analyze) for insert in inserts]
            return [document for documents in each for document in documents]

        def run(steps: Sequence[Step], meter: Meter, watched: Watched) -> None:
            self._inserts.run_together(inserts, steps, meter, watched)

        physical = [plan.physical for plan in plans]
        return analyzed_together(documents, physical, self._plans.spark, run)
