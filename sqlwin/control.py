"""Session internals for the command line, the prompt and tests. Does not import Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.explain.document import QueryDocument
    from sqlwin.execution.simulated import Simulated
    from sqlwin.result import Result
    from sqlwin.session import Session
    from sqlwin.statements.nodes import Insert, Query
    from sqlwin.statements.split import SqlScript


class SessionControl:
    """Operations on a session for programs around it, beyond its public methods."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def rows_scanned(self) -> int:
        """Rows that sqlwin's own scan has read for the last or current statement.

        Rows count when their task completes. Rows that Spark reads are not included.
        """
        return self._session._runner.rows_scanned

    @property
    def has_spark(self) -> bool:
        """Whether Spark runs. It starts when a statement needs it."""
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
        """Return a context in which statements fail if they need Spark and it does not run."""
        return self._session._without_start_of_spark()

    @property
    def take_interrupt(self) -> Callable[[], bool]:
        """Callback that tells a SELECT or EXPLAIN ANALYZE on a stream to stop now.

        For programs in which Ctrl-C raises no KeyboardInterrupt in the thread of the session.
        """
        return self._session._runner.explanations.take_interrupt

    @take_interrupt.setter
    def take_interrupt(self, ask: Callable[[], bool]) -> None:
        self._session._runner.explanations.take_interrupt = ask

    def run_script(
        self, script: str | SqlScript, file: str | None, values: Mapping[str, object] | None
    ) -> Iterator[Result]:
        """Run a script statement by statement, like `Session.execute_iter`.

        Args:
            script: The script, or the script that `read_script` has tokenized.
            file: Name of the script in error messages.
            values: Values for parameters. The script need not use all of them.
        """
        return self._session._run_script(script, file, values, ignores_unused=True)

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
        return self._session._query_documents(
            script, file, analyze=analyze, params=values, ignores_unused=True
        )

    def close_page(self) -> None:
        """Stop serving the session's web page, if it has one."""
        self._session._close_page()

    def simulated(self, statement: Query | Insert) -> Simulated | str:
        """Return a query as a stream for the simulator, or why only Spark can run it.

        Raises:
            SqlwinError: The query is invalid, or cannot run as a stream.
        """
        from sqlwin.execution.simulated import simulate

        return simulate(self._session._runner.plans, statement)
