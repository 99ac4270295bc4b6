"""Plans of statements as documents, and with ANALYZE the figures of a run in them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from planner.explain_document import query_document
from runtime.errors import SqlwinError
from sqlwin.analysis import Json, analyzed, without_results
from sqlwin.plans import Plans
from sqlwin.statement_sets import Inserts
from sqlwin.statements import CreateTable, Insert, Query, Statement, StatementSet


def can_explain(statement: Statement) -> bool:
    """Whether a statement has a plan."""
    if isinstance(statement, CreateTable):
        return statement.as_query is not None
    return isinstance(statement, Query | Insert | StatementSet)


class Explanations:
    """Explains statements."""

    def __init__(self, plans: Plans, inserts: Inserts) -> None:
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
                if not analyze:
                    return self._documents_together(statement.inserts)
                each = [self.documents(insert, analyze) for insert in statement.inserts]
                return [document for documents in each for document in documents]
            case _:
                raise SqlwinError(
                    f"EXPLAIN {'ANALYZE ' * analyze}takes a query or an INSERT",
                    hint="write EXPLAIN SELECT ... or EXPLAIN INSERT INTO ...",
                )
        plan = self._plans.plan(query, statement.text, sink)
        zone = str(self._plans.spark.conf.get("spark.sql.session.timeZone"))
        explained = query_document(plan, statement.text, zone)
        if self._plans.stream_queries.is_stream(plan):
            explained["text"] += "\n" + self._plans.stream_queries.explain(plan)
        if not analyze:
            return [explained]
        if self._plans.stream_queries.is_stream(plan):
            raise SqlwinError(
                "EXPLAIN ANALYZE measures a run that ends, and this query reads a stream",
                hint="SHOW STREAMS tells how running streams stand; "
                "SET 'execution.runtime-mode' = 'batch' measures a batch",
            )

        def run(rows: DataFrame) -> None:
            if isinstance(statement, Insert):
                self._inserts.write(statement, rows)
            else:
                without_results(rows)

        options = self._plans.execution_options()
        try:
            return [analyzed(explained, plan.physical, self._plans.spark, options, run)]
        except SqlwinError:
            raise
        except Exception as error:
            raise self._plans.explained(statement.text)(error) from error

    def _documents_together(self, inserts: Sequence[Insert]) -> list[Json]:
        """Documents of INSERTs that share what they can; in texts a shared part stands once."""
        zone = str(self._plans.spark.conf.get("spark.sql.session.timeZone"))
        drawn: set[int] = set()
        return [
            query_document(plan, insert.text, zone, drawn)
            for insert, plan in zip(inserts, self._plans.plans_together(inserts), strict=True)
        ]
