"""EXPLAIN and results without Spark, where they are sure to be the same.

Planning needs column types. Starting Spark for them takes seconds, so they come from Parquet
footers, CREATE TABLE and `planner.sql.output_schema`. Everything else, and every error, raises
`NeedsSpark`: the caller then starts Spark and runs the script there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.optimizer import Options
from planner.plan import Plan, plan_query
from planner.sql.depth import deep_trees
from runtime.batch.in_process import RowsHere
from runtime.compute.arrow.without_pandas import without_pandas
from runtime.errors import ExecutionError, SqlwinError
from runtime.spark.jvm.submit import configured_defaults
from runtime.spark.session import new_settings
from sqlwin.catalog.definitions import Definitions
from sqlwin.catalog.offline import NeedsSpark, OfflineCatalog, java_time_zone
from sqlwin.catalog.opening import open_directory
from sqlwin.config.config import Config
from sqlwin.execution.in_process import (
    in_process,
    in_process_document,
    plan_in_process,
    planner_options,
)
from sqlwin.result import MessageResult, Result, RowsResult
from sqlwin.result.in_process import InProcessRows
from sqlwin.statements.nodes import (
    CreateMaterializedTable,
    CreateTable,
    CreateView,
    Explain,
    Query,
    Reset,
    Set,
    Statement,
)
from sqlwin.statements.parameters import Params, bind_parameters
from sqlwin.statements.parse import parse_statement
from sqlwin.statements.quotes import DoubleQuotes
from sqlwin.statements.split import split_script

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from planner.explain.document import QueryDocument

__all__ = ["NeedsSpark", "OfflineSession"]

# Variables that point Spark and Hadoop to more configuration
_CONFIGURED = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR", "SPARK_HOME", "SPARK_REMOTE")


class OfflineSession:
    """The part of a session that `sqlwin explain` needs, without Spark.

    Args:
        settings: Settings, as in `SET`.
        most_partitions: Maximum partitions of an exchange. None: Spark's default on this machine.

    Raises:
        NeedsSpark: Spark has configuration beyond sqlwin's defaults.
    """

    def __init__(self, settings: Mapping[str, str], most_partitions: int | None = None) -> None:
        if any(os.environ.get(name) for name in _CONFIGURED) or set(configured_defaults()):
            raise NeedsSpark
        without_pandas()
        self._time_zone = java_time_zone()
        chosen = new_settings(None, {})["spark.sql.shuffle.partitions"]
        self._partitions = most_partitions or int(chosen)
        self._config = Config()
        self._catalog = OfflineCatalog(lambda: self._config.mask)
        self._definitions = Definitions(self._catalog)
        for key, value in settings.items():
            self._set(key, value)

    def query_documents(
        self,
        sql: str,
        file: str | None = None,
        *,
        analyze: bool = False,
        params: Params | None = None,
    ) -> tuple[QueryDocument, ...]:
        """Return documents, as `Session.query_documents`.

        Raises:
            NeedsSpark: The script needs Spark or is invalid.
        """
        if analyze or params:
            raise NeedsSpark
        self._config.mask.remember(sql)
        try:
            with deep_trees(sql):
                return tuple(
                    document
                    for part in split_script(sql)
                    for document in self._documents(part.text)
                )
        except SqlwinError as error:
            raise NeedsSpark from error

    def execute(
        self, script: str, file: str | None = None, *, params: Params | None = None
    ) -> list[Result]:
        """Raise `NeedsSpark`, because Spark's own statements need Spark."""
        raise NeedsSpark

    def results(self, sql: str) -> list[Result]:
        """Return the results of a script whose rows this process can compute.

        Raises:
            NeedsSpark: Some rows need Spark, or the script is invalid.
        """
        self._config.mask.remember(sql)
        try:
            with deep_trees(sql):
                return [self._result(part.text) for part in split_script(sql)]
        except SqlwinError as error:
            raise NeedsSpark from error

    def _documents(self, text: str) -> list[QueryDocument]:
        statement = self._begin(self._bind(text))
        match statement:
            case Explain(statement=Query() as query) if not statement.details:
                return [self._explain(query)]
            case Query():
                return [self._explain(statement)]
        self._prepare(statement)
        return []

    def _result(self, text: str) -> Result:
        text = self._bind(text)
        statement = self._begin(text)
        if not isinstance(statement, Query):
            return self._prepare(statement)
        options = self._options()
        planned = plan_in_process(statement.ast, text, self._catalog, self._config, options)
        if planned is None:
            raise NeedsSpark
        plan, here, notes = planned
        rows = InProcessRows(RowsHere(here, plan.physical.schema), options.time_zone, _no_spark)
        return RowsResult(text, rows, statement_notes=notes)

    def _bind(self, text: str) -> str:
        """Return a statement's text with double quotes rewritten as settings require."""
        return bind_parameters(text, None, quotes=DoubleQuotes(self._config.double_quotes)).text

    def _begin(self, text: str) -> Statement:
        statement = parse_statement(text)
        self._catalog.start_statement(str(self._config.get("execution.runtime-mode")))
        if not isinstance(statement, Set | Reset):
            open_directory(self._catalog, str(self._config.get("sqlwin.materialized.dir") or ""))
        return statement

    def _prepare(self, statement: Statement) -> Result:
        """Run a statement that prepares later ones, and return its message."""
        message, notes = "OK", tuple[str, ...]()
        match statement:
            case CreateTable() if statement.as_query is None:
                message, notes = self._definitions.create_table(statement)
            case CreateView():
                self._plan(statement.ast, statement.text)
                message = self._definitions.create_view(statement)
            case CreateMaterializedTable(ast=None, options=(("path", path),)):
                message = self._catalog.opened(statement.name, path)
            case Set() if statement.key is not None and statement.value is not None:
                self._set(statement.key, statement.value)
            case Reset() if statement.key is not None:
                self._config.reset(statement.key)
            case _:
                raise NeedsSpark
        return MessageResult(statement.text, message, statement_notes=notes)

    def _explain(self, query: Query) -> QueryDocument:
        # imported late because rendering plans takes time to import
        from planner.explain.build import query_document
        from planner.explain.document import masked_document

        plan = self._plan(query.ast, query.text)
        document = query_document(plan, query.text, self._time_zone)
        if in_process(plan, self._config, self._time_zone) is not None:
            document = in_process_document(document)
        return masked_document(document, self._config.mask.text)

    def _options(self) -> Options:
        return planner_options(self._config, self._catalog, self._time_zone, self._partitions)

    def _plan(self, query: exp.Query, text: str) -> Plan:
        return plan_query(query, text, self._options())

    def _set(self, key: str, value: str) -> None:
        if self._config.spark_setting(key)[0] is not None:
            raise NeedsSpark
        self._config.set(key, value)


def _no_spark() -> DataFrame:
    raise ExecutionError(
        "a DataFrame needs Spark, which was not started", hint="sqlwin.connect() starts it"
    )
