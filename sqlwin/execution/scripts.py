"""Scripts: their statements with parameter values, run or explained one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from runtime.errors import SqlwinError
from sqlwin.execution.errors import ScriptPlace, StatementErrors
from sqlwin.execution.guard import ALLOWS_ALL, Guard
from sqlwin.execution.runner import Runner
from sqlwin.result import Result, RowsResult
from sqlwin.statements.nodes import Statement
from sqlwin.statements.parameters import Params, bind_parameters, check_parameters
from sqlwin.statements.parse import read_statement
from sqlwin.statements.quotes import DoubleQuotes
from sqlwin.statements.split import SqlScript, read_script

if TYPE_CHECKING:
    from planner.explain.document import QueryDocument

Answer = TypeVar("Answer")


class Scripts:
    """Runs and explains scripts in a session.

    The methods take the same arguments. Errors have positions in the whole script.

        script: The script, or the script that `read_script` has tokenized.
        file: Name of the script in error messages.
        params: Values of its parameters.
        ignores_unused: Whether `params` may have names that the script does not use.

    Args:
        runner: Function that returns the session's runner. Called for each statement, because the
            session may be closed between two of them.
    """

    def __init__(self, runner: Callable[[], Runner]) -> None:
        self._runner = runner

    def run(
        self,
        script: str | SqlScript,
        file: str | None = None,
        params: Params | None = None,
        *,
        ignores_unused: bool = False,
        guard: Guard = ALLOWS_ALL,
    ) -> Iterator[Result]:
        """Run a script statement by statement, each when its result is requested.

        A guard judges each statement first.

        Raises:
            SqlwinError: The SQL is invalid, or a statement fails.
        """
        for place in self.statements(script, file, params, ignores_unused=ignores_unused):
            try:
                result = self._runner().run(read_statement(place.bound), guard)
                yield _result_in_script(result, place)
            except SqlwinError as error:
                raise place.with_position(error) from error

    def documents(
        self,
        script: str | SqlScript,
        file: str | None = None,
        *,
        analyze: bool = False,
        params: Params | None = None,
        ignores_unused: bool = False,
    ) -> tuple[QueryDocument, ...]:
        """Return the plans of queries and INSERTs, with measurements if `analyze` is set.

        Raises:
            SqlwinError: The SQL is invalid, or a run fails.
        """
        queries: list[QueryDocument] = []
        for place in self.statements(script, file, params, ignores_unused=ignores_unused):
            try:
                queries += self._runner().documents(read_statement(place.bound), analyze)
            except SqlwinError as error:
                raise place.with_position(error) from error
        return tuple(queries)

    def each(
        self,
        script: str | SqlScript,
        file: str | None,
        params: Params | None,
        action: Callable[[Statement], Answer],
    ) -> Iterator[Answer]:
        """Yield the result of an action for each statement, read when it is its turn.

        Raises:
            SqlwinError: The SQL is invalid, or the action fails.
        """
        for place in self.statements(script, file, params, ignores_unused=True):
            try:
                yield action(read_statement(place.bound))
            except SqlwinError as error:
                raise place.with_position(error) from error

    def statements(
        self,
        script: str | SqlScript,
        file: str | None,
        params: Params | None,
        *,
        ignores_unused: bool,
    ) -> Iterator[ScriptPlace]:
        """Yield the statements of a script with their parameter values.

        Raises:
            SqlwinError: The script has an unfinished text or bracket, or lacks a parameter.
        """
        text = script if isinstance(script, str) else script.text
        mask = self._runner().config.mask
        mask.remember(text)
        try:
            source = read_script(script) if isinstance(script, str) else script
            check_parameters(source, params, ignores_unused=ignores_unused)
        except SqlwinError as error:
            error.sql, error.file, error.mask = text, error.file or file, mask
            raise
        n_in_order = 0
        for part in source.statements:
            # An earlier statement may have changed the setting.
            quotes = DoubleQuotes(self._runner().config.double_quotes)
            bound = bind_parameters(part, params, n_in_order, quotes)
            n_in_order += sum(parameter.name is None for parameter in bound.parameters)
            mask = self._runner().config.mask
            if mask.more or bound.parameters:
                mask.remember(bound.text)
            yield ScriptPlace(part, bound, text, file, mask)


def _result_in_script(result: Result, place: ScriptPlace) -> Result:
    """Return the result with the user's original text of the statement.

    Rows may fail later, and these errors need positions in the whole script.
    """
    result = replace(result, statement=place.statement.text)
    if isinstance(result, RowsResult) and isinstance(result.errors, StatementErrors):
        return replace(result, errors=replace(result.errors, place=place))
    return result
