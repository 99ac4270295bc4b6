"""What goes wrong while a statement runs, as errors about its text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import TracebackType

from runtime.errors import ErrorKind, SqlSyntaxError, SqlwinError
from runtime.redaction import DEFAULT, Mask
from runtime.spark.errors import translate
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.parser.positions import place_of_raised, point_at, relocate
from sqlwin.statements.parameters import BoundText
from sqlwin.statements.split import StatementText


@dataclass(frozen=True)
class ScriptPlace:
    """Where a statement stands.

    Attributes:
        statement: the statement's text, and its offset in the script.
        bound: the statement with the values of its parameters, which errors are about.
        script: the whole text.
        file: what errors call the script.
        mask: what looks secret in it.
    """

    statement: StatementText
    bound: BoundText
    script: str
    file: str | None
    mask: Mask = DEFAULT

    def placed(self, error: SqlwinError) -> SqlwinError:
        """An error about the statement, with its place in the whole script."""
        error.mask = self.mask
        self._explain_double_quotes(error)
        if error.file is not None:
            return error  # of a file that the statement names
        text = self.bound.text
        if error.position is None:
            point_at(error, text)
        if error.position is not None:
            # the statement inside EXPLAIN or a statement set has a text of its own
            inner = text.find(error.sql) if error.sql else 0
            if inner >= 0:
                place = error.position
                start, length = self.bound.original(inner + place.offset, place.length)
                error.position = replace(place, offset=start, length=length)
                return error.with_source(self.script, self.file, self.statement.offset)
        if error.sql is not None:
            error.sql = self.script
        error.file = error.file or self.file
        return error

    def _explain_double_quotes(self, error: SqlwinError) -> None:
        """Say what double quotes mean, where a syntax error stands at text in them."""
        text, place = error.sql, error.position
        if not isinstance(error, SqlSyntaxError) or text is None or place is None:
            return
        # in the other modes no double quotes are left in the text
        if error.file is None and text.startswith('"', place.offset):
            error.hint = (
                "text in double quotes is a string: a name stands in backticks, or "
                "SET 'sqlwin.double-quotes' = 'identifier'"
            )


@dataclass(frozen=True)
class StatementErrors:
    """Makes errors of sqlwin's of whatever a statement fails with, now or later.

    As a context manager it does so for a block: what Spark raises there is translated, and placed
    in the statement. Errors that are sqlwin's own already pass as they are.

    Attributes:
        text: the statement's text.
        catalog: the tables, for the nearest name to one that is unknown; None: none is looked for.
        place: where it stands in a script; None: errors are placed in the statement alone.
        mask: what looks secret in it.
    """

    text: str
    catalog: SessionCatalog | None = None
    place: ScriptPlace | None = None
    mask: Mask = DEFAULT

    def translated(self, error: BaseException) -> SqlwinError:
        """The error, one of Spark's in the user's words, with its place in the statement."""
        if not isinstance(error, SqlwinError):
            error = translate(error, self.text)
            if self.catalog is not None:
                error = self.catalog.analyzer.with_nearest_name(error)
        error = relocate(error, self.text)
        if error.kind is ErrorKind.RAISED and error.position is None:
            error.position, error.sql = place_of_raised(error.message, self.text), self.text
        error.mask = self.mask
        return error if self.place is None else self.place.placed(error)

    def __enter__(self) -> None:
        """Begin a block."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it.

        Raises:
            SqlwinError: what the block failed with.
        """
        if isinstance(error, Exception) and not isinstance(error, SqlwinError):
            raise self.translated(error) from error
