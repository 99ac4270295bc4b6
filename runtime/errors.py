"""The root of all errors that users can cause, and how they are shown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from typing import ClassVar
from unicodedata import east_asian_width

from runtime.redaction import DEFAULT, Mask


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


def place_of_word(word: str, before: str, sql: str) -> Position:
    """Where `sql` holds `word` as often before as `before` does; its end if it has none.

    Args:
        word: a word of generated text that does not read.
        before: what stands before it there.
        sql: the text behind the generated one.
    """
    pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE)
    places = [found.start() for found in pattern.finditer(sql)] if word.strip() else []
    if not places:
        return Position.at(sql, len(sql.rstrip()))
    return Position.at(sql, places[min(len(pattern.findall(before)), len(places) - 1)], len(word))


def _part_around(line: str, at: int, most: int | None) -> tuple[str, int]:
    """As much of a line as fits, and where in it the place `at` of the line is."""
    if most is None or _cells(line) <= most:
        return line, at
    n_kept = max(20, most if _cells(line) == len(line) else most // 2)
    begin = max(0, min(at - n_kept // 3, len(line) - n_kept))
    part = line[begin : begin + n_kept]
    if begin:
        part = "…" + part[1:]
    return (part if begin + n_kept >= len(line) else part[:-1] + "…"), at - begin


def _margin(before: str) -> str:
    """What is as wide as a text; tabs are kept, so that the caret stands under its column."""
    return "".join("\t" if c == "\t" else " " * _cells(c) for c in before)


def _cells(text: str) -> int:
    """How many columns a terminal shows a text in: two for letters of East Asia, else one."""
    return sum(2 if east_asian_width(c) in "WF" else 1 for c in text)


class ErrorKind(Enum):
    """What is wrong, for code that has more to say about some errors than about others."""

    SYNTAX = "syntax"
    ANALYSIS = "analysis"
    CATALOG = "catalog"
    UNKNOWN_COLUMN = "unknown column"
    UNKNOWN_INPUT_COLUMN = "unknown column in the data of a window function"
    UNKNOWN_TABLE = "unknown table"
    UNKNOWN_DATABASE = "unknown database"
    UNKNOWN_CATALOG = "unknown catalog"
    UNKNOWN_FUNCTION = "unknown function"
    SUBQUERY = "subquery"
    SETTING = "setting"
    OPTION = "option"
    STREAM = "unsupported on streams"
    EXECUTION = "execution"
    OUTPUT = "output"
    CHECKPOINT = "checkpoint"
    CANCELLED = "cancelled"
    RAISED = "raised"
    SETUP = "setup"


class SqlwinError(Exception):
    """What users did wrong, or what went wrong for them: one line, a place, a way out.

    Args:
        message: what was given and what is wrong with it, one line.
        position: where in `sql`, if it is known.
        sql: the text that `position` refers to.
        hint: what would be right, one line; shown after the message.
        file: the file that `sql` was read from, if any.
        kind: what is wrong; None: what the class stands for.
        subjects: what of the SQL it is about, the most telling first, as SQL spells it: a name, an
            expression, an option or value in quotes. Where no position is known, the first one
            that the text holds is pointed at.

    What looks secret is masked in the message, the hint and the report.

    Attributes:
        mask: what does, beside the message and the hint as they were given.
    """

    default_kind: ClassVar[ErrorKind] = ErrorKind.ANALYSIS

    def __init__(
        self,
        message: str,
        *,
        position: Position | None = None,
        sql: str | None = None,
        hint: str | None = None,
        file: str | None = None,
        kind: ErrorKind | None = None,
        subjects: tuple[str, ...] = (),
    ) -> None:
        message = DEFAULT.text(message)
        super().__init__(message)
        self.mask: Mask = DEFAULT
        self.message = message
        self.kind = kind or self.default_kind
        self.subjects = subjects
        self.position = position
        self.sql = sql
        self.hint = None if hint is None else DEFAULT.text(hint)
        self.file = file

    @property
    def subject(self) -> str | None:
        """The name at fault, if one is."""
        return self.subjects[0] if self.subjects else None

    def about(self, what: str, subject: str) -> SqlwinError:
        """The same error, without its place, said of a thing: `table `t`: ...`.

        Args:
            what: the thing, as the message begins with it.
            subject: its name.
        """
        quoted = [each for each in self.subjects if each.startswith("'")]
        names = [each for each in self.subjects if each not in quoted]
        return type(self)(
            f"{what}: {self.message}",
            hint=self.hint,
            kind=self.kind,
            subjects=(*quoted, subject, *names),
        )

    def with_source(self, sql: str, file: str | None = None, offset: int = 0) -> SqlwinError:
        """The same error placed in a larger text, in which its own text starts at `offset`."""
        if self.position is not None:
            self.position = Position.at(sql, self.position.offset + offset, self.position.length)
        self.sql = sql
        self.file = file or self.file
        return self

    def __str__(self) -> str:
        """The whole report: message, place, the line of SQL with carets below it, the way out."""
        return self.report()

    def report(self, width: int | None = None) -> str:
        """The whole report, for a screen of so many columns; None: as wide as it is."""
        lines = [self.mask.text(self.message)]
        if self.position is not None and self.sql is not None:
            place = self.position
            line, column, length = self._shown_line(place, self.sql)
            where = f"line {place.line}, column {place.column}"
            lines.append(f"  at {self.file}, {where}" if self.file else f"  at {where}")
            shown, at = _part_around(line, column, None if width is None else width - 5)
            carets = "".join("^" * _cells(c) for c in shown[at : at + length]) or "^"
            lines += [f"    {shown}", f"    {_margin(shown[:at])}{carets}"]
        elif self.file:
            lines.append(f"  in {self.file}")
        if self.hint:
            lines.append(f"  {self.mask.text(self.hint)}")
        return "\n".join(lines)

    def _shown_line(self, place: Position, sql: str) -> tuple[str, int, int]:
        """The masked line of a place, and where in it that begins and how long it is."""
        source = sql.splitlines() or [""]
        number = min(place.line, len(source)) - 1
        begin = sum(map(len, sql.splitlines(keepends=True)[:number]))
        first = place.column - 1
        # of the whole text, for a secret may have several lines
        line, (start, end) = self.mask.part(
            sql, begin, begin + len(source[number]), (first, first + place.length)
        )
        return line, start, end - start


class SqlSyntaxError(SqlwinError):
    """The text is not SQL that sqlwin reads."""

    default_kind = ErrorKind.SYNTAX


class AnalysisError(SqlwinError):
    """The SQL reads well, but names or types in it do not fit."""


class CatalogError(AnalysisError):
    """A table, view or option is missing, or there already."""

    default_kind = ErrorKind.CATALOG


class ExecutionError(SqlwinError):
    """It failed while running: data, files, or the cluster."""

    default_kind = ErrorKind.EXECUTION


class QueryCancelled(ExecutionError):
    """Its jobs were cancelled while it ran."""

    default_kind = ErrorKind.CANCELLED


class SetupError(SqlwinError):
    """The machine lacks something: Java, a package, a directory that can be written."""

    default_kind = ErrorKind.SETUP


class MissingPackageError(SetupError, ImportError):
    """A Python package is not installed that what was asked for needs."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one of `known` that is most like `name`, or None if none is like it; case is ignored."""
    by_folded = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None
