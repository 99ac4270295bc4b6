"""Base classes of the errors that users see, and their layout."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from typing import ClassVar
from unicodedata import east_asian_width

from runtime.installing import install_hint
from runtime.redaction import DEFAULT, Mask

# Control characters except tabs, and the separators of lines and paragraphs
_CONTROL = re.compile(r"[\x00-\x08\n-\x1f\x7f-\x9f\u2028\u2029]")
# Stands for a control character in a line of SQL, so that the carets below it stay in place
_UNSHOWN = "\ufffd"
# Maximum length of a message; longer ones quote a name or value of the user
_MAX_CHARACTERS = 2_000


@dataclass(frozen=True)
class Position:
    """Position in the SQL text.

    `offset` and `length` count characters from the start of the text; `line` and `column` start at
    1. The caret line is drawn from these.
    """

    line: int
    column: int
    offset: int
    length: int = 1

    @classmethod
    def at(cls, sql: str, offset: int, length: int = 1) -> Position:
        """Return the position of character `offset` of `sql`."""
        offset = max(0, min(offset, len(sql)))
        line_start = sql.rfind("\n", 0, offset) + 1
        return cls(sql.count("\n", 0, offset) + 1, offset - line_start + 1, offset, max(1, length))


def place_of_word(word: str, before: str, sql: str) -> Position:
    """Find the occurrence of `word` in `sql` with as many earlier occurrences as in `before`.

    Args:
        word: Word of the generated text where parsing failed.
        before: Generated text in front of that word.
        sql: SQL text from which it was generated. If it does not contain the word, return its end.
    """
    pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE)
    places = [match.start() for match in pattern.finditer(sql)] if word.strip() else []
    if not places:
        return Position.at(sql, len(sql.rstrip()))
    return Position.at(sql, places[min(len(pattern.findall(before)), len(places) - 1)], len(word))


def _shortened(text: str) -> str:
    """Cut the middle of a message that quotes a very long name or value."""
    if len(text) <= _MAX_CHARACTERS:
        return text
    half = _MAX_CHARACTERS // 2
    return f"{text[:half]} … {text[-half:]}"


def _part_around(line: str, at: int, most: int | None) -> tuple[str, int]:
    """Cut a line to `most` cells around index `at`. Return the part and the index within it."""
    if most is None or _cells(line) <= most:
        return line, at
    n_kept = max(20, most if _cells(line) == len(line) else most // 2)
    begin = max(0, min(at - n_kept // 3, len(line) - n_kept))
    part = line[begin : begin + n_kept]
    if begin:
        part = "…" + part[1:]
    return (part if begin + n_kept >= len(line) else part[:-1] + "…"), at - begin


def _margin(before: str) -> str:
    """Return blanks as wide as a text. Tabs are kept so that the caret aligns with its column."""
    return "".join("\t" if c == "\t" else " " * _cells(c) for c in before)


def _cells(text: str) -> int:
    """Return the number of terminal columns of a text; East Asian wide letters take two."""
    return sum(2 if east_asian_width(c) in "WF" else 1 for c in text)


def _one_line(text: str) -> str:
    r"""Return a text with its control characters escaped.

    Values in messages may have line breaks, and sequences that a terminal would obey.

    Example:
        >>> print(_one_line("unknown option 'a\\nb'"))
        unknown option 'a\nb'
    """
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


class ErrorKind(Enum):
    """Kind of an error, for code that treats some kinds differently."""

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
    DATA = "data"
    OUTPUT = "output"
    CHECKPOINT = "checkpoint"
    CANCELLED = "cancelled"
    READ_ONLY = "read-only"
    RAISED = "raised"
    SETUP = "setup"


class SqlwinError(Exception):
    """Base class of user-visible errors: a one-line message with position and hint.

    Args:
        message: Given value and the problem with it, in one line.
        position: Position in `sql`, if known.
        sql: Text that `position` refers to.
        hint: Suggested fix, in one line; shown after the message.
        file: File that `sql` was read from, if any.
        kind: Kind of the error. Defaults to the kind of the class.
        subjects: Names, expressions, options or quoted values at fault, spelled as in the SQL, the
            most specific first. Without a position, the carets mark the first one that occurs in
            the text.

    Secrets are masked in the message, the hint and the report.

    Attributes:
        mask: Mask for secrets. `message` and `hint` are the unmasked texts.
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
        message = _shortened(DEFAULT.text(message))
        super().__init__(message)
        self.mask: Mask = DEFAULT
        self.message = message
        self.kind = kind or self.default_kind
        self.subjects = subjects
        self.position = position
        self.sql = sql
        self.hint = None if hint is None else _shortened(DEFAULT.text(hint))
        self.file = file

    @property
    def subject(self) -> str | None:
        """Name at fault, if known."""
        return self.subjects[0] if self.subjects else None

    def about(self, what: str, subject: str) -> SqlwinError:
        """Return this error without its position, prefixed with an object: `table `t`: ...`.

        Args:
            what: Object, as the message begins with it.
            subject: Name of the object.
        """
        literals = [name for name in self.subjects if name.startswith("'")]
        names = [name for name in self.subjects if name not in literals]
        return type(self)(
            f"{what}: {self.message}",
            hint=self.hint,
            kind=self.kind,
            subjects=(*literals, subject, *names),
        )

    def with_source(self, sql: str, file: str | None = None, offset: int = 0) -> SqlwinError:
        """Return this error with its position in a larger text; its own text starts at `offset`."""
        if self.position is not None:
            self.position = Position.at(sql, self.position.offset + offset, self.position.length)
        self.sql = sql
        self.file = file or self.file
        return self

    def __str__(self) -> str:
        """Return the full report: message, position, the line of SQL with carets below it, hint."""
        return self.report()

    def report(self, width: int | None = None) -> str:
        """Return the full report, fitted to a screen of `width` columns; None: unlimited."""
        lines = [_one_line(self.mask.text(self.message))]
        if self.position is not None and self.sql is not None:
            place = self.position
            line, column, length = self._masked_line(place, self.sql)
            where = f"line {place.line}, column {place.column}"
            lines.append(f"  at {self.file}, {where}" if self.file else f"  at {where}")
            shown, at = _part_around(line, column, None if width is None else width - 5)
            carets = "".join("^" * _cells(c) for c in shown[at : at + length]) or "^"
            lines += [f"    {_CONTROL.sub(_UNSHOWN, shown)}", f"    {_margin(shown[:at])}{carets}"]
        elif self.file:
            lines.append(f"  in {self.file}")
        if self.hint:
            lines.append(f"  {_one_line(self.mask.text(self.hint))}")
        return "\n".join(lines)

    def _masked_line(self, place: Position, sql: str) -> tuple[str, int, int]:
        """Return the masked line at a position, and the start and length of the position in it."""
        # as `Position` counts lines; splitlines() would also split at form feeds and U+2028
        source = sql.removesuffix("\n").split("\n")
        number = min(place.line, len(source)) - 1
        begin = sum(len(line) + 1 for line in source[:number])
        first = place.column - 1
        # Mask the whole text, because a secret may span lines.
        line, (start, end) = self.mask.part(
            sql, begin, begin + len(source[number].rstrip("\r")), (first, first + place.length)
        )
        return line, start, end - start


class SqlSyntaxError(SqlwinError):
    """The text is not valid SQL of sqlwin's dialect."""

    default_kind = ErrorKind.SYNTAX


class AnalysisError(SqlwinError):
    """The SQL parses, but names or types in it are invalid."""


class CatalogError(AnalysisError):
    """A table, view or option is missing or exists already."""

    default_kind = ErrorKind.CATALOG


class ReadOnlyError(AnalysisError):
    """The statement does more than its sender may: it writes, or reads outside the tables."""

    default_kind = ErrorKind.READ_ONLY


class ExecutionError(SqlwinError):
    """Execution failed: because of data, files, or the cluster."""

    default_kind = ErrorKind.EXECUTION


class ComputationError(ExecutionError):
    """A value cannot be computed: division by zero, overflow, a text that is not a number."""

    default_kind = ErrorKind.DATA


class RaisedError(ComputationError):
    """The query raises an error itself, with RAISE_ERROR or ASSERT_TRUE."""

    default_kind = ErrorKind.RAISED


class QueryCancelled(ExecutionError):
    """The query was cancelled while it ran."""

    default_kind = ErrorKind.CANCELLED


class SetupError(SqlwinError):
    """The machine lacks a requirement: Java, a package, a writable directory."""

    default_kind = ErrorKind.SETUP


class MissingPackageError(SetupError, ImportError):
    """A feature needs a Python package that is not installed."""


@contextmanager
def packages_of(extra: str, user: str, subjects: Sequence[str] = ()) -> Iterator[None]:
    """Turn a failed import in this block into an error that says what to install.

    Args:
        extra: Extra of sqlwin with the packages.
        user: Feature that requires them, the subject of the message.
        subjects: Subjects of the error.

    Raises:
        MissingPackageError: A package is not installed.
    """
    try:
        yield
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("sqlwin", "planner", "runtime"):
            raise
        named = f"the package {package.replace('_', '-')}" if package else f"a package: {error}"
        raise MissingPackageError(
            f"{user} requires {named}",
            subjects=tuple(subjects),
            hint=install_hint(extra),
        ) from error


class MissingAttributeError(SqlwinError, AttributeError):
    """An object of the Python API has no such attribute, but others of its kind have."""


def nearest(name: str, candidates: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the candidate most similar to `name`, ignoring case, or None if none is similar.

    Args:
        name: Name that does not exist.
        candidates: Names that exist.
        likeness: Minimum share of equal characters, from 0 to 1.
    """
    by_folded = {candidate.lower(): candidate for candidate in candidates}
    close = get_close_matches(name.lower(), by_folded, n=1, cutoff=likeness)
    return by_folded[close[0]] if close else None


def kind_in_words(error: BaseException) -> str:
    """Return the kind of an exception in words, for reports of one that has no message.

    Example:
        >>> [kind_in_words(error) for error in (TimeoutError(), OSError(), KeyError())]
        ['timeout error', 'os error', 'key error']
    """
    name = type(error).__name__
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*", name)
    return " ".join(words).lower() or name
