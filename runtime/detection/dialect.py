"""Detect the dialect of delimited text: the delimiter and quote that fit a sample best.

Each candidate splits the sample into fields. The winner gives the lines equal numbers of fields
that look like values. The idea comes from van den Burg et al., "Wrangling messy CSV files by
detecting row and type patterns" (2019).
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from runtime.detection.kinds import is_typed

DELIMITERS = (",", ";", "\t", "|")
_QUOTES = ('"', "'")
# Factors on the score; an uncommon delimiter has to be clearly better
_PREFERENCE = {",": 1.0, ";": 1.0, "\t": 1.0, "|": 0.98}
_SCORED_ROWS = 300
# Score of a text field: intact, and containing another delimiter
_TEXT, _TORN = 0.9, 0.3


@dataclass(frozen=True)
class Dialect:
    """Rules that split a line into fields.

    Attributes:
        delimiter: Separator of fields.
        quote: Character around fields that contain a delimiter. Empty if fields are not quoted.
        escape: Character before a literal quote in a quoted field: the quote itself or a backslash.
        comment: Prefix of comment lines. Empty without comments.
    """

    delimiter: str = ","
    quote: str = '"'
    escape: str = '"'
    comment: str = ""

    def rows(self, text: str) -> list[list[str]]:
        """Return the fields of a text by line, without blank lines."""
        lines = list(io.StringIO(text, newline=""))
        if self.comment:
            lines = [line for line in lines if not line.startswith(self.comment)]
        return [row for row in self.reader(lines) if row and row != [""]]

    def reader(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """Yield the fields of each record; a quoted field may span lines."""
        is_doubled = self.escape == self.quote
        return csv.reader(
            lines,
            delimiter=self.delimiter,
            quotechar=self.quote or None,
            quoting=csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE,
            doublequote=is_doubled,
            escapechar=None if is_doubled or not self.escape else self.escape,
        )


def find_dialect(
    text: str,
    delimiter: str | None = None,
    quote: str | None = None,
    escape: str | None = None,
    comment: str | None = None,
) -> Dialect:
    """Detect the dialect of a sample.

    Args:
        text: Complete lines.
        delimiter: Declared delimiter, if any.
        quote: Declared quote, if any. Empty if fields are not quoted.
        escape: Declared escape character, if any.
        comment: Declared comment prefix, if any.
    """
    if comment is None:
        comment = "#" if text.startswith("#") and "\n" in text else ""
    best = Dialect(delimiter or ",", '"' if quote is None else quote, comment=comment)
    best_score = -1.0
    quotes = _QUOTES if quote is None else (quote,)
    for mark in quotes:
        if mark == "'" and not _opens_fields(text, mark):
            continue
        sign = mark if escape is None else escape
        if escape is None and mark and f"\\{mark}" in text:
            sign = "\\"
        for between in DELIMITERS if delimiter is None else (delimiter,):
            candidate = Dialect(between, mark, sign, comment)
            score = _score(candidate, text)
            if score > best_score:
                best, best_score = candidate, score
    return best


def _opens_fields(text: str, quote: str) -> bool:
    """Return whether a character occurs at the edges of fields and so may be a quote."""
    return any(f"{d}{quote}" in text and f"{quote}{d}" in text for d in DELIMITERS)


def _score(dialect: Dialect, text: str) -> float:
    try:
        rows = dialect.rows(text)[:_SCORED_ROWS]
    except csv.Error:
        return 0.0
    if not rows:
        return 0.0
    width, n_rows = Counter(map(len, rows)).most_common(1)[0]
    if width < 2:
        return 0.01
    others = [d for d in DELIMITERS if d != dialect.delimiter]
    worth = count = 0.0
    for row in rows:
        for field in row:
            count += 1
            worth += _worth(field.strip(), others)
    return (n_rows / len(rows)) ** 2 * worth / count * _PREFERENCE.get(dialect.delimiter, 0.95)


def _worth(field: str, others: Sequence[str]) -> float:
    if is_typed(field):
        return 1.0
    is_torn = any(mark in field for mark in others) or field.count('"') % 2 or field[:1] == "'"
    return _TORN if is_torn else _TEXT
