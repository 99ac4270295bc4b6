"""Session internals for the command line, the prompt and tests. Does not import Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from runtime.errors import SqlwinError
from runtime.refusal import Refusal
from runtime.spec.table import Column, TableColumn, TableSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from planner.explain.document import QueryDocument
    from runtime.errors import AnalysisError
    from runtime.plan.in_process import InProcessStep
    from runtime.redaction import Mask
    from runtime.spark.on_demand import NotStartedError
    from sqlwin.catalog.entries import Entry, Name
    from sqlwin.catalog.options import Options
    from sqlwin.execution.activity import Activity
    from sqlwin.execution.errors import ScriptPlace
    from sqlwin.execution.guard import Guard
    from sqlwin.execution.simulated import Simulated
    from sqlwin.execution.streams.registry import Streams
    from sqlwin.result import Result
    from sqlwin.session import Session
    from sqlwin.statements.nodes import CreateTable, Insert, Query, Statement
    from sqlwin.statements.parameters import Params
    from sqlwin.statements.split import SqlScript

Answer = TypeVar("Answer")


class SessionControl:
    """Operations on a session for the programs that contain it, beyond its public methods."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def rows_scanned(self) -> int:
        """Rows that sqlwin's own scan has read for the last or current statement.

        Rows count when their task completes. Rows that Spark reads are not included.
        """
        return self._session._runner.rows_scanned

    @property
    def activity(self) -> Activity:
        """Records of the session's latest statements, and the programs that follow them."""
        return self._session._opened_runner.activity

    @property
    def streams(self) -> Streams:
        """Streams of the session."""
        return self._session._opened_runner.streams

    @property
    def mask(self) -> Mask:
        """Mask that hides the secrets of its statements and settings."""
        return self._session._opened_runner.config.mask

    @property
    def spark(self) -> SparkSession:
        """Spark session, or its stand-in until Spark starts."""
        return self._session._spark

    @property
    def has_spark(self) -> bool:
        """Whether Spark is running. It starts when a statement needs it."""
        return self._session._has_spark

    def when_spark_starts(
        self,
        waiting: Callable[[], AbstractContextManager[None]],
        action: Callable[[Any], None],
    ) -> None:
        """Call an action once Spark has started, now if it has.

        Args:
            waiting: Context in which Spark starts, such as a progress bar.
            action: Function that takes the Spark session.
        """
        self._session._at_start_of_spark(waiting, action)

    def without_start_of_spark(self) -> AbstractContextManager[None]:
        """Return a context in which statements fail instead of starting Spark."""
        return self._session._without_start_of_spark()

    @property
    def take_interrupt(self) -> Callable[[], bool]:
        """Callback that reports whether a SELECT or EXPLAIN ANALYZE on a stream should stop now.

        For programs in which Ctrl-C raises no KeyboardInterrupt in the session's thread.
        """
        return self._session._runner.explanations.take_interrupt

    @take_interrupt.setter
    def take_interrupt(self, ask: Callable[[], bool]) -> None:
        self._session._runner.explanations.take_interrupt = ask

    def run_script(
        self,
        script: str | SqlScript,
        file: str | None,
        values: Params | None,
        *,
        ignores_unused: bool = True,
        guard: Guard | None = None,
    ) -> Iterator[Result]:
        """Run a script statement by statement, like `Session.execute_iter`.

        Args:
            script: The script, or the script that `read_script` has tokenized.
            file: Name of the script in error messages.
            values: Values for parameters.
            ignores_unused: Whether `values` may have names that the script does not use.
            guard: Judge of each statement before it runs. None: all are allowed.
        """
        from sqlwin.execution.guard import ALLOWS_ALL

        return self._session._scripts.run(
            script, file, values, ignores_unused=ignores_unused, guard=guard or ALLOWS_ALL
        )

    def number_of_statements(self, script: str) -> int:
        """Return the number of statements of a script, 0 if it cannot be split into them."""
        from sqlwin.statements.split import read_script

        try:
            return len(read_script(script).statements)
        except SqlwinError:
            return 0

    def query_documents(
        self,
        script: str | SqlScript,
        file: str | None = None,
        *,
        analyze: bool = False,
        values: Mapping[str, object] | None = None,
    ) -> tuple[QueryDocument, ...]:
        """Return the content of `Session.explain` as documents. For `values` see `run_script`.

        Raises:
            SqlwinError: The SQL is invalid, or a run fails.
        """
        return self._session._scripts.documents(
            script, file, analyze=analyze, params=values, ignores_unused=True
        )

    def start_spark(self) -> None:
        """Start Spark unless it is running."""
        _ = self._session.spark

    def leave_spark(self) -> None:
        """Let Spark stop while this session is open, which no user can close."""
        self._session._leave_spark()

    def close_page(self) -> None:
        """Stop serving the session's web page, if it has one."""
        self._session._close_page()

    def statements(
        self, script: str | SqlScript, file: str | None, values: Mapping[str, object] | None
    ) -> Iterator[tuple[ScriptPlace, Statement]]:
        """Yield the statements of a script with their places, without running them.

        Settings take effect when the caller runs them between two steps. For the arguments see
        `run_script`.

        Raises:
            SqlwinError: A statement cannot be parsed, or a parameter has no value.
        """
        from sqlwin.statements.parse import read_statement

        for place in self._session._scripts.statements(script, file, values, ignores_unused=True):
            try:
                statement = read_statement(place.bound)
            except SqlwinError as error:
                raise place.with_position(error) from error
            yield place, statement

    def last_query(
        self,
        script: str | SqlScript,
        file: str | None,
        values: Mapping[str, object] | None,
        *,
        ignored: Collection[str] = (),
    ) -> tuple[ScriptPlace, Query | Insert] | None:
        """Run a script without its queries, and return its last one with its place.

        Args:
            script: As for `run_script`.
            file: As for `run_script`.
            values: As for `run_script`.
            ignored: Settings whose SET has no effect.

        Raises:
            SqlwinError: A statement is invalid, or fails.
        """
        from runtime.spark.on_demand import NotStartedError
        from sqlwin.statements.nodes import Insert, Query, Set

        last = None
        for place, statement in self.statements(script, file, values):
            if isinstance(statement, Query | Insert):
                last = place, statement
            elif not (isinstance(statement, Set) and statement.key in ignored):
                try:
                    self.run(statement)
                except NotStartedError:
                    raise
                except SqlwinError as error:
                    raise place.with_position(error) from error
        return last

    def run(self, statement: Statement) -> Result:
        """Run a statement. Error positions refer to its own text.

        Raises:
            SqlwinError: The statement is invalid, or fails.
        """
        return self._session._runner.run(statement)

    def columns_of(self, table: str) -> Sequence[TableColumn] | None:
        """Return the declared columns of a table of CREATE TABLE, or None."""
        entry = self.entry((table,))
        return entry.columns if isinstance(entry, TableSpec) else None

    def linked_table(self, statement: CreateTable) -> Any:
        """Return the connector's table of a statement that does not run.

        Its definition includes the parts that it copies from other tables.

        Raises:
            SqlwinError: The definition is wrong.
        """
        return self._session._opened_runner.linked_table(statement)

    def schema_of(self, name: tuple[str, ...], *, waits: bool) -> Sequence[Column] | None:
        """Return the columns of a table or view, with Spark's types.

        Args:
            name: Its name.
            waits: Whether to wait while another thread plans a statement. Otherwise None is
                returned meanwhile.

        Raises:
            SqlwinError: It does not exist, or cannot be read.
        """
        runner = self._session._runner
        with runner.lock.hold(waits=waits) as is_held:
            if not is_held:
                return None
            runner.plans.start_statement()
            return runner.columns_of(name)

    def names_of_tables(self) -> list[str]:
        """Return the tables and views of SHOW TABLES, also while another thread plans."""
        from sqlwin.catalog.listings import names_of_tables

        runner = self._session._runner
        with runner.lock.hold(waits=False) as is_held:
            if is_held:
                runner.plans.open_directory()
        return names_of_tables(runner.catalog, self._session._spark, "TABLES")

    def names_of_functions(self) -> list[str]:
        """Return the functions of SHOW FUNCTIONS, also while another thread plans."""
        from sqlwin.catalog.listings import names_of_functions

        return names_of_functions(self._session._spark)

    def columns(self, name: Name) -> tuple[Column, ...]:
        """Return the columns of a table or view.

        Raises:
            SqlwinError: It does not exist, or cannot be read.
        """
        return self._session._opened_runner.columns_of(name)

    def entry(self, name: Name) -> Entry | None:
        """Return the definition of a table or view of the session, None for Spark's.

        A new definition is another object.
        """
        return self._session._opened_runner.catalog.entry(name)

    def is_declared(self, name: tuple[str, ...]) -> bool:
        """Return whether a name is a table or view of the session."""
        return self._session._runner.catalog.entries.get(name) is not None

    def is_known_to_spark(self, name: tuple[str, ...]) -> bool:
        """Return whether a name is a table or view of Spark's catalogs."""
        return self._session._runner.is_known_to_spark(name)

    def is_of_statement(self, name: str) -> bool:
        """Return whether sqlwin has given a name to files or to changed options of a table."""
        return self._session._runner.catalog.is_changed_table(name)

    def origin_of_view(self, view: str) -> tuple[Name, Options] | None:
        """Return the name of what a view of Spark shows, and a statement's options for it.

        It names a table, a view, files or a state of the session. None for Spark's own views.
        """
        return self._session._runner.catalog.origin_of_view(view)

    def names_of_views(self) -> list[Name]:
        """Return the names of the views and materialized tables of the session."""
        from sqlwin.catalog.entries import View

        entries = self._session._runner.catalog.entries.by_name.items()
        return [name for name, entry in entries if isinstance(entry, View)]

    def rows_of_view(self, name: Name) -> DataFrame:
        """Return the rows of a view on Spark, not computed yet. No guard judges them.

        Raises:
            SqlwinError: The view cannot be read.
        """
        from sqlwin.catalog.entries import View

        runner = self._session._runner
        view = runner.catalog.entry(name)
        assert isinstance(view, View), "the caller asks about views"
        return runner.plans.rows_of_view(view)

    @property
    def is_remote(self) -> bool:
        """Whether the session uses Spark Connect."""
        from runtime.spark.session import is_remote

        return is_remote(self._session._spark)

    def resolve_path(self, path: str) -> str:
        """Return the absolute local path or URI of a path.

        Raises:
            SqlwinError: The path is a web address, or its file system is unknown.
        """
        from runtime.spark.files import resolve

        return resolve(self._session._spark, path)

    def user_functions(self) -> frozenset[str]:
        """Return the names of functions that users have registered, in lower case."""
        names = self._session._runner.catalog.aggregates.names()
        if self.has_spark:
            rows = self._session.spark.sql("SHOW USER FUNCTIONS").collect()
            names |= {str(row[0]).lower() for row in rows}
        return frozenset(names)

    def forbid_substitution(self) -> None:
        """Let Spark leave ${...} in statements as it is, which can be environment variables."""
        from runtime.spark.settings import SUBSTITUTES, change_setting

        change_setting(self._session._spark, SUBSTITUTES, "false")

    def cancel_soon(self) -> None:
        """Let cancelled jobs end soon, unless the user has set the size of their batches.

        A task of Spark that joins the rows of a file notices that it is cancelled only between two
        batches of the file, and each row may have a million matches. Small batches cost nothing
        that can be measured.
        """
        from runtime.spark.settings import ROWS_OF_BATCHES, change_setting, settings_of

        spark = self._session._spark
        known = settings_of(spark).keys or frozenset()
        for key in ROWS_OF_BATCHES:
            if key not in known and not self.is_remote:
                change_setting(spark, key, "128")

    def view_query(self, name: str) -> str | None:
        """Return the text of a view's query. None for tables and materialized tables."""
        from sqlwin.catalog.entries import MaterializedTable, View

        entry = self.entry((name,))
        is_view = isinstance(entry, View) and not isinstance(entry, MaterializedTable)
        return entry.text if isinstance(entry, View) and is_view else None

    def place_of(self, statement: Query | Insert) -> InProcessStep | Refusal:
        """Return the step that computes a batch query in this process, or why Spark runs it.

        Raises:
            SqlwinError: The query is invalid.
        """
        from sqlwin.execution.simulated import place_of

        return place_of(self._session._runner.plans, statement)

    def simulated(self, statement: Query | Insert) -> Simulated | Refusal:
        """Return a query as a stream for the simulator, or why only Spark can run it.

        Raises:
            SqlwinError: The query is invalid, or cannot run as a stream.
        """
        from sqlwin.execution.simulated import simulate

        return simulate(self._session._runner.plans, statement)

    def advice(self, statement: Query | Insert, options: Mapping[str, str]) -> Any:
        """Return which delay the watermark of a query's table should have, with options of ADVISE.

        Raises:
            SqlwinError: The query or an option is invalid, or its late rows cannot be predicted.
        """
        from sqlwin.execution.simulated import advise
        from sqlwin.statements.nodes import Advise

        runner = self._session._runner
        advised = Advise(statement.text, statement.offset, statement.ast, tuple(options.items()))
        with runner.lock:
            runner.plans.begin(statement.text)
            try:
                return advise(runner.stored_rows, advised)
            finally:
                runner.plans.end()

    # -- SQL of other engines ------------------------------------------------------------------

    @staticmethod
    def check_dialect(name: str) -> None:
        """Check the name of an engine that queries are compiled for.

        Raises:
            AnalysisError: It is unknown.
        """
        from sqlwin.execution.compiled.query import check_target

        check_target(name)

    @staticmethod
    def definition_error(error: NotStartedError, text: str) -> AnalysisError:
        """Return the error for a definition whose columns only Spark's analyser knows.

        Args:
            error: Error of the statement.
            text: Text of the statement.
        """
        from sqlwin.execution.compiled.query import unknown_error

        return unknown_error("cannot tell the columns of this table or view", error, text)

    def compiled(self, query: Query, dialect: str) -> str:
        """Return a query as SQL of another engine, without starting Spark.

        Raises:
            SqlwinError: The query is invalid, or its rows might differ on the engine.
        """
        from sqlwin.execution.compiled.query import compile_query

        return compile_query(self._session._runner.plans, query, dialect)

    def each_statement(
        self,
        script: str,
        file: str | None,
        values: Params | None,
        action: Callable[[Statement], Answer],
    ) -> Iterator[Answer]:
        """Yield the result of an action for each statement of a script, read when it is its turn.

        Args:
            script: The script.
            file: Name of the script in error messages.
            values: Values for parameters; unused names are ignored.
            action: Function of a statement.

        Raises:
            SqlwinError: The SQL is invalid, or the action fails.
        """
        return self._session._scripts.each(script, file, values, action)
