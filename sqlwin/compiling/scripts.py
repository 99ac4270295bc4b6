"""Compile the queries of scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from runtime.errors import AnalysisError, Position, SetupError
from runtime.spark.defaults import OF_EACH_SESSION
from runtime.spark.on_demand import NotStartedError, SparkOnDemand
from sqlwin.compiling.tables import as_declared
from sqlwin.compiling.untested import check_untested, written_untested
from sqlwin.control import SessionControl
from sqlwin.session import Session
from sqlwin.statements.nodes import CreateTable, CreateView, Query, Reset, Set, Statement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlwin.console.scripts import Script

_SETTINGS = {
    **OF_EACH_SESSION,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
}
_PREPARING = (CreateTable, CreateView, Set, Reset)


class Compiler:
    """Session that compiles queries, a context manager.

    Args:
        dialect: Name of the engine.
        settings: Settings, as in `SET 'key' = 'value'`.
        untested: Dialect of sqlglot in which the engine's text is written. No test runs it. None:
            the engine's own.

    Raises:
        AnalysisError: A dialect or a setting is unknown.
    """

    def __init__(
        self,
        dialect: str,
        settings: Mapping[str, str] | None = None,
        untested: str | None = None,
    ) -> None:
        SessionControl.check_dialect(dialect)
        if untested is not None:
            check_untested(untested)
        self._dialect, self._untested = dialect, untested
        self._closing = ExitStack()
        self._directory = Path(self._closing.enter_context(TemporaryDirectory()))
        spark = SparkOnDemand(_refuse_start, _SETTINGS)
        self._session = self._closing.enter_context(Session(spark, settings=settings or {}))
        self._control = SessionControl(self._session)

    def __enter__(self) -> Compiler:
        """Return the compiler."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the session."""
        self._closing.close()

    def queries(
        self,
        text: str,
        file: str | None = None,
        values: Mapping[str, object] | None = None,
    ) -> Iterator[str]:
        """Yield the compiled text of each query of a script, and run its definitions.

        Args:
            text: SQL statements, separated by `;`.
            file: Name of the script in error messages.
            values: Values of parameters by name.

        Raises:
            SqlwinError: The SQL is invalid, or a query has no exact form on the engine.
        """
        for compiled in self._control.each_statement(text, file, values, self._compiled):
            if compiled is not None:
                yield compiled

    def define(
        self,
        schema: str,
        file: str | None = None,
        values: Mapping[str, object] | None = None,
    ) -> None:
        """Run the definitions of a script. Arguments are as in `queries`.

        Raises:
            SqlwinError: The SQL is invalid, or has a query.
        """
        for _ in self.queries(schema, file, values):
            raise AnalysisError(
                "the schema has a query", hint="it may only define tables and views"
            )

    def only_query(self, text: str, values: Mapping[str, object] | None = None) -> str:
        """Return the compiled text of a script with one query. Arguments are as in `queries`.

        Raises:
            SqlwinError: As in `queries`, or the script does not have one query.
        """
        texts = list(self.queries(text, values=values))
        if len(texts) != 1:
            raise AnalysisError(
                f"compile() takes a script with one query, but got {len(texts)}",
                hint="call it once per query, with the definitions in schema=",
            )
        return texts[0]

    def _compiled(self, statement: Statement) -> str | None:
        """Compile a query. Other statements define tables, views and settings, or are refused."""
        if isinstance(statement, Query):
            text = self._control.compiled(statement, self._dialect)
            if self._untested is None:
                return text
            return written_untested(text, self._dialect, self._untested)
        prepared = as_declared(statement, self._directory)
        if not isinstance(prepared, _PREPARING) or getattr(prepared, "as_query", None) is not None:
            raise AnalysisError(
                "only queries are compiled, after CREATE TABLE, CREATE VIEW and SET",
                position=Position.at(statement.text, 0, len(statement.text.split()[0])),
                sql=statement.text,
                hint="compile the query of the statement alone",
            )
        with self._session._without_start_of_spark():
            try:
                self._session._runner.run(prepared)
            except NotStartedError as error:
                raise SessionControl.definition_error(error, statement.text) from error
        return None


def _refuse_start() -> SparkSession:
    raise SetupError("`sqlwin compile` does not start Spark")


def compile_scripts(
    scripts: list[Script],
    schemas: list[Script],
    dialect: str,
    settings: Mapping[str, str],
    untested: str | None = None,
) -> Iterator[str]:
    """Yield the compiled queries of scripts, in one session.

    Args:
        scripts: Scripts with queries.
        schemas: Scripts with definitions only.
        dialect: Name of the engine.
        settings: Settings.
        untested: As for `Compiler`.
    """
    with Compiler(dialect, settings, untested) as compiler:
        for script in schemas:
            compiler.define(script.text, script.file, script.params)
        for script in scripts:
            yield from compiler.queries(script.text, script.file, script.params)
