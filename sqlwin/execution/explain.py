"""Documents of EXPLAIN, with measurements for EXPLAIN ANALYZE.

Modules for streams and for running statements are imported where they are used: plans of batch
queries do not need them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot.tokenizer_core import Token, TokenType

from planner.explain.build import operator_ids, query_document
from planner.explain.document import Document, QueryDocument, mask_document, to_json
from planner.nodes.logical import Sink
from planner.nodes.window_columns import groups_all_time, only_inserts
from planner.plan import Plan
from planner.sql.depth import deep_trees
from runtime.connectors.registry import open_table
from runtime.errors import AnalysisError, SqlwinError
from runtime.plan.nodes import PlanNode
from runtime.refusal import Refusal
from runtime.spec.table import TableSpec
from sqlwin.execution.compiled.executors import check_batch_only
from sqlwin.execution.in_process import with_place
from sqlwin.execution.inserts import target_of
from sqlwin.execution.planning import Plans
from sqlwin.parser.base import depths, is_word
from sqlwin.result import ExplainResult
from sqlwin.statements.nodes import (
    CreateTable,
    Explain,
    Insert,
    Query,
    Statement,
    StatementSet,
)
from sqlwin.statements.placeholders import copy_token

if TYPE_CHECKING:
    from runtime.engines.local.meter import RelationMeter
    from runtime.frames.meter import Meter
    from runtime.plan.in_process import InProcessStep
    from sqlwin.execution.analyze import Watched


def can_explain(statement: Statement) -> bool:
    """Return whether a statement has a plan."""
    if isinstance(statement, CreateTable):
        return statement.as_query is not None
    return isinstance(statement, Query | Insert | StatementSet)


# Details that Spark's own EXPLAIN accepts
_SPARK_DETAILS = frozenset({"EXTENDED", "CODEGEN", "COST", "FORMATTED"})
# First words of Spark statements that prepare later ones without touching rows
_PREPARING = tuple(
    "ADD ALTER COMMENT CREATE DECLARE DESC DESCRIBE DROP REFRESH RESET SET SHOW USE".split()
)
_QUERY_STARTS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")


def is_preparation(tokens: Sequence[Token]) -> bool:
    """Return whether a Spark statement prepares later statements without touching rows."""
    if not any(is_word(tokens, 0, word) for word in _PREPARING):
        return False
    if not is_word(tokens, 0, "CREATE") or any(is_word(tokens, i, "VIEW") for i in (1, 2, 3, 4, 5)):
        return True
    return not any(
        depth == 0 and any(is_word(tokens, i, "AS", start) for start in _QUERY_STARTS)
        for i, depth in depths(tokens)
    )


def explain_of(statement: Statement) -> Explain:
    """Return the EXPLAIN statement for a statement."""
    word = "EXPLAIN"
    shift = len(word) + 1
    tokens = [copy_token(token, shift) for token in statement.tokens]
    first = Token(TokenType.DESCRIBE, word, 1, 1, 0, shift - 2)
    text = f"{word} {statement.text}"
    return Explain(text, statement.offset, statement, tokens=(first, *tokens))


def _with_key(document: QueryDocument, statement: Insert, table: TableSpec | None) -> QueryDocument:
    """Return the document of a batch INSERT, with the replacement key of its table, if any."""
    if table is None or statement.overwrite or not open_table(table).is_updated_by_key:
        return document
    key = ", ".join(table.primary_key)
    text = f"rows replace those with the same PRIMARY KEY ({key}) in {table.name}"
    return replace(document, text=f"{document.text}\n== Sink ==\n{text}\n")


class Explanations:
    """EXPLAIN for statements of a session.

    Attributes:
        take_interrupt: Returns whether the user asked to stop a running stream; True once per
            request.
    """

    def __init__(self, plans: Plans) -> None:
        self.take_interrupt: Callable[[], bool] = lambda: False
        self._plans = plans

    def result(self, statement: Explain) -> ExplainResult:
        """Return the plans of EXPLAIN, and what its details add.

        Raises:
            SqlwinError: The explained statement is invalid, or fails with ANALYZE.
        """
        from sqlwin.execution.explain_formats import render
        from sqlwin.execution.spark_statements.statements import spark_plan

        analyzes = "ANALYZE" in statement.details
        document = Document(tuple(self.documents(statement.statement, analyzes)))
        text = document.text
        notes = []
        for detail in statement.details:
            if detail in _SPARK_DETAILS and isinstance(statement.statement, Query):
                rows = self._plans.rows(statement.statement.ast, statement.statement.text)
                with self._plans.errors_of(statement.text):
                    plan = self._plans.config.mask.text(spark_plan(rows, detail))
                text += f"\n== Spark's Plan, {detail} ==\n{plan}"
            elif detail == "CHANGELOG_MODE":
                text += "\n== Changelog Mode ==\nin batch every operator only inserts: [I]\n"
            elif detail == "JSON_EXECUTION_PLAN":
                text += f"\n== Physical Execution Plan ==\n{render(document, 'json')}"
            elif detail != "ANALYZE":
                notes.append(f"EXPLAIN {detail} adds nothing to the plan of a batch query")
        return ExplainResult(statement.text, text, to_json(document), statement_notes=tuple(notes))

    def documents(self, statement: Statement, analyze: bool = False) -> list[QueryDocument]:
        """Return the documents of a query, a CREATE TABLE AS, or the INSERTs of a statement set.

        Args:
            statement: Statement to explain.
            analyze: Whether to run the statement and add measurements.

        Returns:
            Documents with masked secrets.
        """
        mask = self._plans.config.mask.text
        with deep_trees(statement.text):
            self._plans.open_directory()
            return [
                mask_document(document, mask) for document in self._documents(statement, analyze)
            ]

    def _documents(self, statement: Statement, analyze: bool) -> list[QueryDocument]:
        if analyze:
            check_batch_only(self._plans.config, statement.text, "EXPLAIN ANALYZE")
        self._plans.start_statement()
        match statement:
            case Query():
                query, sink = statement.ast, None
            case Insert():
                target_of(self._plans.catalog, statement)
                query, sink = statement.ast, (".".join(statement.name), statement.overwrite)
            case CreateTable() if statement.as_query is not None and not analyze:
                query, sink = statement.as_query, (".".join(statement.name), False)
            case StatementSet():
                return self._documents_together(statement.inserts, analyze)
            case _:
                raise SqlwinError(
                    f"EXPLAIN {'ANALYZE ' * analyze}requires a query or an INSERT",
                    hint="for example EXPLAIN SELECT ... or EXPLAIN INSERT INTO ...",
                )
        plan = self._plans.plan(query, statement.text, sink)
        document = query_document(plan, statement.text, self._plans.time_zone)
        if self._plans.is_stream(plan):
            return [self._of_stream(document, plan, statement, analyze)]
        if not analyze:
            if isinstance(statement, Insert):
                table = target_of(self._plans.catalog, statement)
                place = self._plans.place_of_insert(
                    plan, table, statement.columns, statement.static
                )
                return [self._placed(_with_key(document, statement, table), plan, place)]
            if isinstance(statement, CreateTable):
                place = self._place_of_new_table(statement, plan)
                return [self._placed(document, plan, place)]
            return [self._placed(document, plan, self._plans.in_process(plan))]

        measured = self._measured_in_process(document, plan, statement)
        if measured is not None:
            return [measured]
        from runtime.engines.spark_batch.execute import dataframe
        from sqlwin.execution.analyze import measure
        from sqlwin.execution.statement_sets import Inserts

        def run(steps: Sequence[PlanNode], meter: Meter, watched: Watched) -> list[int | None]:
            options = replace(self._plans.execution_options(), meter=meter)
            rows = dataframe(self._plans.spark, steps[0], options)
            self._plans.guard.check_plan(lambda: rows)
            if rows.isStreaming:
                raise AnalysisError(
                    "EXPLAIN ANALYZE cannot measure a streaming DataFrame without a watermark",
                    hint="register it with a watermark: session.register(name, dataframe, "
                    "time_column=..., watermark=...)",
                )
            with watched(0):
                if isinstance(statement, Insert):
                    return [Inserts(self._plans).write(statement, rows).row_count]
                with self._plans.jobs_run():
                    rows.write.format("noop").mode("overwrite").save()
            return [None]

        with self._plans.errors_of(statement.text):
            return measure([document], [plan.physical], self._plans, run)

    def _measured_in_process(
        self, document: QueryDocument, plan: Plan, statement: Statement
    ) -> QueryDocument | None:
        """Run and measure a query or an INSERT in this process, or return None if Spark runs it."""
        table = None
        if isinstance(statement, Insert):
            table = target_of(self._plans.catalog, statement)
            place = self._plans.place_of_insert(plan, table, statement.columns, statement.static)
        else:
            place = self._plans.in_process(plan)
        if isinstance(place, Refusal):
            return None
        from sqlwin.execution.analyze_in_process import measure_in_process
        from sqlwin.execution.statement_sets import Inserts

        def run(meter: RelationMeter) -> int:
            if isinstance(statement, Insert):
                rows = self._plans.in_process_rows(plan, place, meter)
                return Inserts(self._plans).write_in_process(statement, rows, table).row_count or 0
            with self._plans.jobs_run():
                return sum(b.num_rows for b in self._plans.computed(place).batches(meter=meter))

        with self._plans.errors_of(statement.text):
            return measure_in_process(document, place, run)

    def _place_of_new_table(self, statement: CreateTable, plan: Plan) -> InProcessStep | Refusal:
        """Return the step that computes the rows of CREATE TABLE AS, or why Spark runs it."""
        place = self._plans.in_process(plan)
        if isinstance(place, Refusal):
            return place
        from sqlwin.catalog.definitions import Definitions

        rows = self._plans.in_process_rows(plan, place)
        table = Definitions(self._plans.catalog).filled_table(statement, rows.schema)
        return self._plans.place_of_insert(plan, table)

    def _of_stream(
        self, document: QueryDocument, plan: Plan, statement: Statement, analyze: bool
    ) -> QueryDocument:
        """Return the document of a streaming query, with its state or its measurements."""
        from sqlwin.execution.streams.analyze import analyzed_stream
        from sqlwin.execution.streams.handle import Stream
        from sqlwin.execution.streams.options import planned_options
        from sqlwin.execution.streams.sinks import (
            Discard,
            StreamSink,
            check_tables,
            explain_caches,
            explain_sink,
            into_table,
            replaces_rows,
        )
        from sqlwin.execution.streams.start import checkpoint_section, start_stream

        plans, spark = self._plans, self._plans.spark
        measuring = None
        if analyze:
            from runtime.frames.meter import Meter
            from sqlwin.execution.analyze import refuse_remote
            from sqlwin.execution.lowered import Measuring

            refuse_remote(spark)
            measuring = Measuring(operator_ids(plan.physical), Meter(spark))
        full_plan = plan.physical
        # EXPLAIN shows the sink; the stream is the same without it
        plan = replace(plan, physical=full_plan.input) if isinstance(full_plan, Sink) else plan
        is_taken = isinstance(statement, Query)
        lowered = plans.lower_stream(plan, measuring, is_taken=is_taken)
        options = planned_options(spark, plans.config)
        section = lowered.explained(options) + explain_caches(lowered, plans.catalog)
        sink: StreamSink = Discard()
        if isinstance(statement, Insert):
            sink = into_table(statement, target_of(plans.catalog, statement))
            replaces = replaces_rows(lowered, options)
            with plans.errors_of(statement.text):
                check_tables(lowered, sink, emits_updates=replaces)
            section += explain_sink(sink, emits_updates=replaces)
            if not analyze and (checkpoint := checkpoint_section(plans, lowered, sink)):
                section = f"{section}\n{checkpoint}"
        document = replace(document, text=f"{document.text}\n{section}")
        if measuring is None:
            return document
        seconds = int(plans.config.get("sqlwin.analyze.duration")) / 1_000_000 or None
        stream = start_stream(plans, lowered, sink, statement.text)
        if plans.run is not None and isinstance(stream, Stream):
            plans.run.record_stream(stream.number)
        with plans.errors_of(statement.text), plans.jobs_run():
            return analyzed_stream(
                document, spark, stream, measuring.meter, seconds, self.take_interrupt
            )

    def _documents_together(self, inserts: Sequence[Insert], analyze: bool) -> list[QueryDocument]:
        """Return documents of INSERTs that share operators. Texts show a shared operator once."""
        drawn: set[int] = set()
        for insert in inserts:
            target_of(self._plans.catalog, insert)
        plans = self._plans.plans_together(inserts)
        documents = [
            query_document(plan, insert.text, self._plans.time_zone, drawn)
            for insert, plan in zip(inserts, plans, strict=True)
        ]
        if not analyze:
            names = [".".join(insert.name) for insert in inserts]
            if not any(self._plans.is_stream(plan) for plan in plans):
                return self._with_places(documents, inserts)
            return [
                replace(document, text=f"{document.text}\n{section}") if section else document
                for document, section in zip(
                    documents, self._with_sinks(inserts, plans, names), strict=True
                )
            ]
        if any(self._plans.is_stream(plan) for plan in plans):
            documents_by_insert = [self._documents(insert, analyze) for insert in inserts]
            return [document for documents in documents_by_insert for document in documents]

        from sqlwin.execution.analyze import measure
        from sqlwin.execution.statement_sets import Inserts

        def run(steps: Sequence[PlanNode], meter: Meter, watched: Watched) -> list[int | None]:
            results = Inserts(self._plans).run_together(inserts, steps, meter, watched)
            return [result.row_count for result in results]

        physical = [plan.physical for plan in plans]
        return measure(documents, physical, self._plans, run)

    def _with_places(
        self, documents: Sequence[QueryDocument], inserts: Sequence[Insert]
    ) -> list[QueryDocument]:
        """Return the documents of a statement set with the place where each INSERT runs."""
        plans = self._plans.plans_together(inserts, has_sinks=False)
        tables = [target_of(self._plans.catalog, insert) for insert in inserts]
        places = self._plans.places_of_set(inserts, plans, tables)
        same = [places] * len(plans) if isinstance(places, Refusal) else places
        return list(map(self._placed, documents, plans, same))

    def _placed(
        self, document: QueryDocument, plan: Plan, place: InProcessStep | Refusal
    ) -> QueryDocument:
        """Return the document of a batch query with the place where it runs."""
        is_here = not isinstance(place, Refusal)
        if is_here or not self._plans.prefers_portable:
            return with_place(document, place, None)
        return with_place(document, place, self._plans.on_spark(plan))

    def _with_sinks(
        self, inserts: Sequence[Insert], plans: Sequence[Plan], names: Sequence[str]
    ) -> list[str]:
        """Return the section about each INSERT's stream with its sink, as `_stream_sections`."""
        from sqlwin.execution.streams.options import planned_options
        from sqlwin.execution.streams.sinks import explain_sink, into_table

        options = planned_options(self._plans.spark, self._plans.config)
        sections = self._stream_sections(names, plans)
        for number, (insert, plan) in enumerate(zip(inserts, plans, strict=True)):
            if self._plans.is_stream(plan):
                sink = into_table(insert, target_of(self._plans.catalog, insert))
                is_again = options.emits_updates or groups_all_time(plan.physical)
                is_again = is_again and not only_inserts(plan.physical)
                sections[number] += explain_sink(sink, emits_updates=is_again)
        return sections

    def _stream_sections(self, names: Sequence[str], plans: Sequence[Plan]) -> list[str]:
        """Return the section about each INSERT's stream, empty for bounded tables.

        Raises:
            SqlwinError: A plan cannot run as a stream.
        """
        catalog = self._plans.catalog
        sections = [""] * len(plans)
        if not any(map(self._plans.is_stream, plans)):
            return sections

        from planner.explain.streams import explain_reader, explain_shared
        from planner.lowering.stream.statement_set import (
            StreamSetSteps,
            shared_below,
            shared_stream_groups,
        )
        from sqlwin.execution.lowered import lower_set
        from sqlwin.execution.streams.options import planned_options
        from sqlwin.execution.streams.sinks import explain_caches

        options = planned_options(self._plans.spark, self._plans.config)
        for numbers in shared_stream_groups([plan.physical for plan in plans], catalog):
            first = numbers[0]
            if len(numbers) == 1:
                if self._plans.is_stream(plans[first]):
                    lowered = self._plans.lower_stream(plans[first])
                    sections[first] = lowered.explained(options) + explain_caches(lowered, catalog)
                continue
            together = [plans[number] for number in numbers]
            shared = shared_below(together[0].physical, catalog)
            assert shared is not None
            tables = [names[number] for number in numbers]
            lowered = lower_set(together, tables, catalog, self._plans.time_zone)
            steps = lowered.steps
            assert isinstance(steps, StreamSetSteps)
            sections[first] = explain_shared(
                steps.shared, shared.number, options.key_groups, options.watermark_policy
            ) + explain_caches(lowered, catalog)
            for number in numbers[1:]:
                sections[number] = explain_reader(shared.number, names[first])
        return sections
