"""Select the lines of a text file that are records: no preamble, header, units row or comments.

Spark's readers have no options for these. Detection applies the rules to a sample, and tasks apply
them to the lines of a file.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

SKIP = "csv.skip-lines"
SKIP_BELOW = "csv.skip-lines-below-header"
COMMENT = "csv.comment"
REPEATED = "csv.skip-repeated-headers"
PATTERN = "text.pattern"
SKIP_PREFIXES = "csv.skip-lines-starting-with"
IGNORED = "text.ignore-parse-errors"


@dataclass(frozen=True)
class LineRules:
    """Rules that turn the lines of a file into records.

    Attributes:
        skip: Number of lines above the header, or above the first record without a header.
        has_header: Whether the next line names the columns.
        skip_below: Number of lines to skip below the header.
        comment: Prefix of lines to skip. Empty to skip none.
        drops_repeated: Whether lines equal to the header are skipped.
        prefixes: Beginnings of records to skip, such as a row of totals. They leave the header.
        quote: Character around fields that contain a line end. Empty if records are single lines.
        escape: Character before a literal quote; the quote itself if it is doubled.
        pattern: Regular expression whose groups are the columns. Empty if a record is a whole line.
    """

    skip: int = 0
    has_header: bool = False
    skip_below: int = 0
    comment: str = ""
    drops_repeated: bool = False
    prefixes: tuple[str, ...] = ()
    quote: str = ""
    escape: str = ""
    pattern: str = ""

    def is_spark_enough(self) -> bool:
        """Return whether Spark's CSV reader alone can apply the rules."""
        on_head = self.skip or self.skip_below or self.drops_repeated
        is_special = bool(on_head or self.prefixes or self.pattern)
        return not is_special and len(self.comment) <= 1

    @property
    def needs_whole_files(self) -> bool:
        """Whether part of a file does not tell which of its lines are records."""
        return bool(self.quote) or self.drops_repeated


def line_rules(
    options: Mapping[str, str],
    *,
    has_header: bool,
    quote: str = "",
    escape: str = "",
    prefix: str = "csv",
) -> LineRules:
    """Return the rules that the options of a table define.

    Args:
        options: Table options with names in lower case.
        has_header: Whether the files have a header.
        quote: Quote character if records may span lines.
        escape: Escape character if records may span lines.
        prefix: Prefix of the options: the format.
    """
    options = {f"csv.{k.removeprefix(f'{prefix}.')}": v for k, v in options.items()}
    return LineRules(
        skip=_count(options.get(SKIP, "0")),
        has_header=has_header,
        skip_below=_count(options.get(SKIP_BELOW, "0")),
        comment=options.get(COMMENT, ""),
        drops_repeated=options.get(REPEATED, "false").lower() == "true",
        prefixes=prefixes_of(options.get(SKIP_PREFIXES, "")),
        quote=quote,
        escape=escape,
        pattern=options.get("csv.pattern", ""),
    )


def prefixes_of(text: str) -> tuple[str, ...]:
    """Return the prefixes in an option value, separated by a bar."""
    return tuple(filter(None, text.split("|")))


def prefix_of_cell(line: str, cell: str) -> str | None:
    """Return the beginning of a line up to a cell, as a prefix for `LineRules`.

    None if the line does not contain the cell, or no option can hold the prefix.

    Example:
        >>> prefix_of_cell('"Summe";;3', "Summe")
        '"Summe'
    """
    at = line.find(cell)
    prefix = line[: at + len(cell)]
    return prefix if at >= 0 and prefix and not set("|\r\n") & set(prefix) else None


def _count(text: str) -> int:
    """Return a number of lines; 0 for other texts, which option validation rejects."""
    return int(text) if text.strip().isdecimal() else 0


@dataclass
class FileLines:
    """Reader of the records of one file. Its lines must come in order.

    Attributes:
        rules: Rules that turn lines into records.
        is_start: Whether the lines start at the beginning of the file.
        header: Header once it was read. None without a header or if the lines start later.
    """

    rules: LineRules
    is_start: bool = True
    header: str | None = None
    _n_lines: int = 0
    _below: int = 0
    _open: list[str] = field(default_factory=list)

    def records(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the records that end in these lines."""
        for line in lines:
            if (record := self.add(line)) is not None:
                yield record

    def add(self, line: str) -> str | None:
        """Add the next line and return the record that it completes, if any."""
        rules = self.rules
        self._n_lines += 1
        if self.is_start and self._n_lines <= rules.skip:
            return None
        if not self._open:
            if self._n_lines == 1 and self.is_start:
                line = line.removeprefix("\ufeff")
            if not line.strip() or (rules.comment and line.startswith(rules.comment)):
                return None
        if rules.quote:
            self._open.append(line)
            if self._is_open(self._open):
                return None
            line, self._open = "\n".join(self._open), []
        if self.is_start and rules.has_header:
            if self.header is None:
                self.header = line
                return None
            if self._below < rules.skip_below:
                self._below += 1
                return None
            if rules.drops_repeated and line == self.header:
                return None
        return None if rules.prefixes and line.startswith(rules.prefixes) else line

    def rest(self) -> Iterator[str]:
        """Yield the last record of the file if its quote was never closed."""
        if self._open:
            yield "\n".join(self._open)
            self._open = []

    def _is_open(self, lines: Iterable[str]) -> bool:
        text = "\n".join(lines)
        if self.rules.escape and self.rules.escape != self.rules.quote:
            text = text.replace(self.rules.escape + self.rules.quote, "")
        return text.count(self.rules.quote) % 2 == 1


def without_head(text: str, rules: LineRules) -> str:
    """Return a text starting at the header or first record. Comments are kept."""
    lines = io.StringIO(text, newline="")
    for _ in range(rules.skip):
        lines.readline()
    return lines.read()


def without_prefixes(text: str, prefixes: tuple[str, ...], comment: str = "") -> str:
    """Return a text without the lines below its first record or header that start with a prefix."""
    if not prefixes:
        return text
    kept: list[str] = []
    has_first = False
    for line in io.StringIO(text, newline=""):
        if has_first and line.startswith(prefixes):
            continue
        has_first = has_first or bool(line.strip() and not (comment and line.startswith(comment)))
        kept.append(line)
    return "".join(kept)


# -- samples ---------------------------------------------------------------------------------------

# First line in files from Excel that names the delimiter
_SEPARATOR = re.compile(r'\s*"?sep=(?P<delimiter>.)"?\s*\r?\n?', re.IGNORECASE)
# Maximum number of lines searched for a preamble
_MAX_LINES = 100


def named_delimiter(text: str) -> str | None:
    """Return the delimiter named by a first line such as `sep=;` from Excel, if there is one."""
    first = text.partition("\n")[0]
    match = _SEPARATOR.fullmatch(first)
    return None if match is None else match["delimiter"]


def top_lines(text: str) -> list[str]:
    """Return the first lines of a text without their line ends."""
    stream = io.StringIO(text, newline=None)
    return [line.rstrip("\n") for _, line in zip(range(_MAX_LINES), stream, strict=False)]


def fields_of(line: str, delimiter: str, quote: str) -> list[str]:
    """Return the fields of a single line; the whole line if its quotes do not match."""
    try:
        reader = csv.reader([line], delimiter=delimiter, quotechar=quote or None, strict=True)
        return next(reader, [])
    except csv.Error:
        return [line]
