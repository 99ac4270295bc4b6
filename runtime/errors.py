"""The root of all errors that a person can cause, and how they are shown."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Position:
    """A place in the SQL text.

    `offset` and `length` count characters from the start of the text; `line` and `column` start
    at 1. The caret line is drawn from these.
    """

    line: int
    column: int
    offset: int
    length: int = 1

    @classmethod
    def at(cls, sql: str, offset: int, length: int = 1) -> Position:
        """The position of `offset` characters into `sql`."""
        offset = max(0, min(offset, len(sql)))
        line_start = sql.rfind("\n", 0, offset) + 1
        return cls(sql.count("\n", 0, offset) + 1, offset - line_start + 1, offset, max(1, length))


class SqlwinError(Exception):
    """What a person did wrong, or what went wrong for them: one line, a place, a way out.

    Args:
        message: what was given and what is wrong with it, one line.
        position: where in `sql`, if it is known.
        sql: the text that `position` refers to.
        hint: what would be right, one line; shown after the message.
        file: the file that `sql` was read from, if any.
    """

    def __init__(
        self,
        message: str,
        *,
        position: Position | None = None,
        sql: str | None = None,
        hint: str | None = None,
        file: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.position = position
        self.sql = sql
        self.hint = hint
        self.file = file

    def with_source(self, sql: str, file: str | None = None, offset: int = 0) -> SqlwinError:
        """The same error placed in a larger text, in which its own text starts at `offset`."""
        if self.position is not None:
            self.position = Position.at(sql, self.position.offset + offset, self.position.length)
        self.sql = sql
        self.file = file or self.file
        return self

    def __str__(self) -> str:
        """The whole report: message, place, the line of SQL with carets below it, the way out."""
        lines = [self.message]
        if self.position is not None and self.sql is not None:
            place = self.position
            source = self.sql.splitlines() or [""]
            line = source[min(place.line, len(source)) - 1]
            where = f"line {place.line}, column {place.column}"
            lines.append(f"  at {self.file}, {where}" if self.file else f"  at {where}")
            # Tabs are kept in the margin, so that the caret stands under its column.
            margin = "".join("\t" if c == "\t" else " " for c in line[: place.column - 1])
            carets = "^" * max(1, min(place.length, len(line) - place.column + 1))
            lines += [f"    {line}", f"    {margin}{carets}"]
        elif self.file:
            lines.append(f"  in {self.file}")
        if self.hint:
            lines.append(f"  {self.hint}")
        return "\n".join(lines)


class SqlSyntaxError(SqlwinError):
    """The text is not SQL that sqlwin reads."""


class AnalysisError(SqlwinError):
    """The SQL reads well, but names or types in it do not fit."""


class CatalogError(AnalysisError):
    """A table, view or option is missing, or there already."""


class ExecutionError(SqlwinError):
    """It failed while running: data, files, or the cluster."""


class QueryCancelled(ExecutionError):
    """Its jobs were cancelled while it ran."""


class SetupError(SqlwinError):
    """The machine lacks something: Java, a package, a directory that can be written."""
