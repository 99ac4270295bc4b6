"""The guard of a read-only server: which statements its clients may run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from runtime.errors import SqlwinError
from runtime.spark.session import is_remote
from sqlwin.control import SessionControl
from sqlwin.server.reading.errors import refusal
from sqlwin.server.reading.paths import ReadablePaths
from sqlwin.server.reading.relations import ReadableRelations
from sqlwin.server.reading.spark_plans import SparkPlans
from sqlwin.server.reading.spark_trees import check_spark_text
from sqlwin.server.reading.trees import check_tree
from sqlwin.statements import nodes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# First words of Spark's statements that may read; `check_text` judges the rest
_READING = frozenset("( DESC DESCRIBE FROM SELECT SHOW TABLE VALUES WITH".split())


class ReadingGuard:
    """Judge of a client's statements. See `sqlwin.execution.guard.Guard`.

    Args:
        control: Control of the served session.
        readable: Files and directories that clients may read by path.

    Raises:
        SqlwinError: A readable path is invalid.
    """

    def __init__(self, control: SessionControl, readable: Sequence[str]) -> None:
        self._control = control
        paths = ReadablePaths(readable, control.resolve_path, is_remote=control.is_remote)
        self._relations = ReadableRelations(control, paths)
        self._spark_plans: SparkPlans | None = None
        # Parts of a view that clients may not use themselves, by its definition
        self._of_views: dict[object, frozenset[str]] = {}

    def check_statement(self, statement: nodes.Statement) -> None:
        """Judge the tree of a statement.

        Raises:
            ReadOnlyError: It is not allowed.
        """
        match statement:
            case nodes.Query() | nodes.Summarize() | nodes.Advise():
                check_tree(statement.ast, self._relations, self._control.user_functions)
            case nodes.Explain():
                self._check_explained(statement)
            case nodes.Describe() | nodes.ShowCreateTable():
                self._relations.check(statement.name)
                self._relations.check_options(statement.options)
            case nodes.ShowState():
                self._relations.check_path(statement.directory)
            case nodes.ShowNames() | nodes.ShowStreams():
                pass
            case nodes.Set(value=None):
                self._check_setting(statement.key)
            case nodes.SparkStatement() if statement.tokens[0].text.upper() in _READING:
                pass
            case _:
                word = statement.tokens[0].text.upper()
                raise refusal(f"cannot execute {word}")

    def check_text(self, spark: SparkSession, text: str) -> None:
        """Judge a text that Spark parses.

        Raises:
            ReadOnlyError: It is not allowed.
        """
        if is_remote(spark):
            raise refusal("Spark Connect cannot judge this statement before it runs")
        expressions = self._plans(spark).expressions
        check_spark_text(spark, text, expressions, self._relations, self._control.user_functions)

    def check_plan(self, rows: Callable[[], DataFrame]) -> None:
        """Judge the plan of a query as Spark has analysed it.

        A view that the query reads is a part of the plan, and may do what clients may not.

        Raises:
            ReadOnlyError: It is not allowed.
        """
        frame = rows()
        if is_remote(frame.sparkSession):
            return
        refused = self._plans(frame.sparkSession).refusals_of(frame)
        if refused:
            for name in self._control.names_of_views():
                for text in self._parts_of_view(name):
                    refused.pop(text, None)
        for error in refused.values():
            raise error

    def _plans(self, spark: SparkSession) -> SparkPlans:
        if self._spark_plans is None:
            functions = self._control.user_functions
            self._spark_plans = SparkPlans(spark, self._relations, functions)
        return self._spark_plans

    def _parts_of_view(self, name: tuple[str, ...]) -> frozenset[str]:
        definition = self._control.entry(name)
        if definition not in self._of_views:
            try:
                rows = self._control.rows_of_view(name)
            except SqlwinError:
                return frozenset()  # its files are missing
            refused = self._plans(rows.sparkSession).refusals_of(rows)
            self._of_views[definition] = frozenset(refused)
        return self._of_views[definition]

    def _check_explained(self, explain: nodes.Explain) -> None:
        inner = explain.statement
        inserts: tuple[nodes.Insert, ...] = ()
        if "ANALYZE" not in explain.details:
            inserts = inner.inserts if isinstance(inner, nodes.StatementSet) else inserts
            inserts = (inner,) if isinstance(inner, nodes.Insert) else inserts
        if not inserts:
            self.check_statement(inner)
        for insert in inserts:
            self._relations.check(insert.name)
            self._relations.check_options(insert.options.pairs if insert.options else ())
            check_tree(insert.ast, self._relations, self._control.user_functions)

    def _check_setting(self, key: str | None) -> None:
        if key is not None and key.startswith("spark."):
            raise refusal(f"cannot show the setting {key} of Spark", subject=key)
