"""Which lines of a text file hold records: without a preamble, header, units row and comments.

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
IGNORED = "text.ignore-parse-errors"


@dataclass(frozen=True)
class LineRules:
    """How the lines of a file become records.

    Attributes:
        skip: number of lines above the header, or above the first record.
        has_header: whether the next line names the columns.
        skip_below: number of lines below the header that are left out.
        comment: beginning of lines that are left out; empty: none are.
        drops_repeated: whether lines equal to the header are left out.
        quote: character around fields that hold a line end; empty: records are single lines.
        escape: character that makes a quote mean itself; the quote itself if it is doubled.
        pattern: regular expression whose groups are the columns; empty: a record is a whole line.
    """

    skip: int = 0
    has_header: bool = False
    skip_below: int = 0
    comment: str = ""
    drops_repeated: bool = False
    quote: str = ""
    escape: str = ""
    pattern: str = ""

    def is_spark_enough(self) -> bool:
        """Whether Spark's CSV reader follows the rules without help."""
        special = self.skip or self.skip_below or self.drops_repeated or self.pattern
        return not special and len(self.comment) <= 1


def line_rules(
    options: Mapping[str, str],
    *,
    has_header: bool,
    quote: str = "",
    escape: str = "",
    prefix: str = "csv",
) -> LineRules:
    """The rules that the options of a table give.

    Args:
        options: of the table, names in lower case.
        has_header: whether its files have a header.
        quote: the quote, if records may span lines.
        escape: what makes a quote mean itself, then.
        prefix: of the options: the format.
    """
    options = {f"csv.{k.removeprefix(f'{prefix}.')}": v for k, v in options.items()}
    return LineRules(
        skip=_count(options.get(SKIP, "0")),
        has_header=has_header,
        skip_below=_count(options.get(SKIP_BELOW, "0")),
        comment=options.get(COMMENT, ""),
        drops_repeated=options.get(REPEATED, "false").lower() == "true",
        quote=quote,
        escape=escape,
        pattern=options.get("csv.pattern", ""),
    )


def _count(text: str) -> int:
    """A number of lines; 0 if it is none, which the check of options refuses."""
    return int(text) if text.strip().isdecimal() else 0


@dataclass
class FileLines:
    """The records of one file, whose lines come in order.

    Attributes:
        rules: how lines become records.
        is_start: whether the lines begin where the file begins.
        header: the header, once it was read; None: there is none, or the lines begin later.
    """

    rules: LineRules
    is_start: bool = True
    header: str | None = None
    _n_lines: int = 0
    _below: int = 0
    _open: list[str] = field(default_factory=list)

    def records(self, lines: Iterable[str]) -> Iterator[str]:
        """The records that end in these lines."""
        for line in lines:
            if (record := self.add(line)) is not None:
                yield record

    def add(self, line: str) -> str | None:
        """Take the next line; return the record that ends with it, if there is one."""
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
        return line

    def rest(self) -> Iterator[str]:
        """The record that the end of the file ends, if its quote was not closed."""
        if self._open:
            yield "\n".join(self._open)
            self._open = []

    def _is_open(self, lines: Iterable[str]) -> bool:
        text = "\n".join(lines)
        if self.rules.escape and self.rules.escape != self.rules.quote:
            text = text.replace(self.rules.escape + self.rules.quote, "")
        return text.count(self.rules.quote) % 2 == 1


def without_head(text: str, rules: LineRules) -> str:
    """A text from the header or the first record on; comments stay."""
    lines = io.StringIO(text, newline="")
    for _ in range(rules.skip):
        lines.readline()
    return lines.read()


# -- what a sample says ----------------------------------------------------------------------------

# Excel's first line, which names the delimiter
_SEPARATOR = re.compile(r'\s*"?sep=(?P<delimiter>.)"?\s*\r?\n?', re.IGNORECASE)
# Lines at the top that are looked at for a preamble
_MOST_LINES = 100


def named_delimiter(text: str) -> str | None:
    """The delimiter that Excel's line `sep=;` names; None: the first line is another one."""
    first = text.partition("\n")[0]
    found = _SEPARATOR.fullmatch(first)
    return None if found is None else found["delimiter"]


def top_lines(text: str) -> list[str]:
    """The first lines of a text, without their ends."""
    stream = io.StringIO(text, newline=None)
    return [line.rstrip("\n") for _, line in zip(range(_MOST_LINES), stream, strict=False)]


def fields_of(line: str, delimiter: str, quote: str) -> list[str]:
    """The fields of a line alone; one field if its quotes do not match."""
    try:
        reader = csv.reader([line], delimiter=delimiter, quotechar=quote or None, strict=True)
        return next(reader, [])
    except csv.Error:
        return [line]
