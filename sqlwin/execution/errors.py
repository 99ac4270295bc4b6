"""Errors of running statements, with positions in the statement's text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import TracebackType

from runtime.errors import ErrorKind, SqlSyntaxError, SqlwinError
from runtime.redaction import DEFAULT, Mask
from runtime.spark.errors import translate
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.parser.positions import place_of_raised, point_at, relocate
from sqlwin.statements.parameters import BoundStatement
from sqlwin.statements.split import StatementText


@dataclass(frozen=True)
class ScriptPlace:
    """Position of a statement in a script.

    Attributes:
        statement: Text of the statement and its offset in the script.
        bound: Statement with parameter values, to which error positions refer.
        script: Text of the whole script.
        file: Name of the script in error messages.
        mask: Mask for secrets in the script.
    """

    statement: StatementText
    bound: BoundStatement
    script: str
    file: str | None
    mask: Mask = DEFAULT

    def with_position(self, error: SqlwinError) -> SqlwinError:
        """Return an error about the statement with its position in the whole script."""
        error.mask = self.mask
        self._explain_double_quotes(error)
        if error.file is not None:
            return error  # an error in a file that the statement reads
        text = self.bound.text
        if error.position is None:
            point_at(error, text)
        if error.position is not None:
            # the statement inside EXPLAIN or a statement set has its own text
            inner = text.find(error.sql) if error.sql else 0
            if inner >= 0:
                place = error.position
                start, length = self.bound.original(inner + place.offset, place.length)
                self._explain_parameter(error, start, length)
                error.position = replace(place, offset=start, length=length)
                return error.with_source(self.script, self.file, self.statement.offset)
        if error.sql is not None:
            error.sql = self.script
        error.file = error.file or self.file
        return error

    def _explain_parameter(self, error: SqlwinError, start: int, length: int) -> None:
        """Add a hint about parameters if a syntax error points at exactly one of them."""
        if not isinstance(error, SqlSyntaxError) or error.hint is not None:
            return
        for parameter in self.bound.parameters:
            if (parameter.start, parameter.end) == (start, start + length):
                error.hint = (
                    f"{parameter.text} is a value: a name or a keyword cannot be a parameter"
                )

    def _explain_double_quotes(self, error: SqlwinError) -> None:
        """Add a hint about double quotes if a syntax error points at text in them."""
        text, place = error.sql, error.position
        if not isinstance(error, SqlSyntaxError) or text is None or place is None:
            return
        # in the other modes the bound text has no double quotes
        if error.file is None and text.startswith('"', place.offset):
            error.hint = (
                "text in double quotes is a string; use backticks for a name, or SET "
                "'sqlwin.double-quotes' = 'identifier'"
            )


@dataclass(frozen=True)
class StatementErrors:
    """Translator of a statement's errors into sqlwin's.

    As a context manager it translates what Spark raises in the block and adds the position in the
    statement. sqlwin's own errors pass unchanged.

    Attributes:
        text: Text of the statement.
        catalog: Catalog for suggesting names close to an unknown one. None: no suggestions.
        place: Position of the statement in a script. None: positions refer to the statement.
        mask: Mask for secrets in the text.
    """

    text: str
    catalog: SessionCatalog | None = None
    place: ScriptPlace | None = None
    mask: Mask = DEFAULT

    def translate(self, error: BaseException) -> SqlwinError:
        """Return the error as a SqlwinError with its position in the statement."""
        if not isinstance(error, SqlwinError):
            error = translate(error, self.text)
            if self.catalog is not None:
                error = self.catalog.analyzer.suggest_nearest_name(error)
        error = relocate(error, self.text)
        if error.kind is ErrorKind.RAISED and error.position is None:
            error.position, error.sql = place_of_raised(error.message, self.text), self.text
        error.mask = self.mask
        return error if self.place is None else self.place.with_position(error)

    def __enter__(self) -> None:
        """Enter the block."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Translate an error of the block.

        Raises:
            SqlwinError: The block raised another exception.
        """
        if isinstance(error, Exception) and not isinstance(error, SqlwinError):
            raise self.translate(error) from error
