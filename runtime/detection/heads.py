"""Find the header of delimited text, below a preamble and above rows of units or types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from runtime.detection.dialect import Dialect
from runtime.detection.kinds import NULL_WORDS, UNITS, affixes_of, is_typed
from runtime.detection.lines import fields_of, top_lines

_NAME = re.compile(r"[^\W\d][\w .()/%°€$#:-]*")
_MAX_BELOW = 2
# Words that occur in a units row above a column of texts, or as the only word of the row
_WORDS = UNITS | frozenset(
    "string str text varchar char utf8 int integer int32 int64 long bigint float double real "
    "number numeric decimal bool boolean date datetime timestamp time object factor rn ts smp avg "
    "max min tot eur usd €".split()
)
_BRACKETED = re.compile(r"\[.*\]|\(.*\)|<.*>|-+")


@dataclass(frozen=True)
class Head:
    """Lines above the records.

    Attributes:
        skip: Number of lines above the header, or above the first record without a header.
        below: Number of lines of units or types below the header.
    """

    skip: int = 0
    below: int = 0


def has_header(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first line is a header: its fields differ in kind from those below."""
    cells = [cell.strip() for cell in first]
    if not _are_names(cells):
        return False
    filled = [cell for cell in cells if cell]
    plain = [cell for cell in filled if _NAME.fullmatch(cell)]
    if not rows:
        return plain == filled
    if _stands_above_values(cells, rows):
        return True
    # above columns of texts: names are short, similar, and do not recur in the rows
    below = {value.strip() for row in rows for value in row}
    return plain == filled and len(set(filled)) == len(filled) and not below & set(filled)


def _are_names(cells: Sequence[str]) -> bool:
    filled = [cell for cell in cells if cell]
    # a header may contain a few unusual names such as `% of total` or `is ok?`
    plain = [cell for cell in filled if _NAME.fullmatch(cell)]
    if 2 * len(plain) <= len(filled):
        return False
    return not any(is_typed(cell) for cell in filled if cell not in NULL_WORDS)


def _stands_above_values(cells: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a plain name is above a column of numbers or times."""
    for cell, values in zip(cells, zip(*rows, strict=False), strict=False):
        full = [value for value in values if value]
        if full and _NAME.fullmatch(cell) and all(map(_is_value, full)):
            return True
    return False


def _is_value(text: str) -> bool:
    """Return whether a text is a time or a number, optionally with a unit or symbol."""
    return is_typed(text) or bool(affixes_of(text.strip()))


def find_head(text: str, dialect: Dialect, width: int, *, skips: bool, below: int | None) -> Head:
    """Find the head of a text.

    Args:
        text: Complete lines.
        dialect: Dialect of the text.
        width: Number of fields of most lines.
        skips: Whether to look for a preamble. False if its length is declared.
        below: Declared number of lines below the header. None if not declared.
    """
    lines = top_lines(text)
    rows = [fields_of(line, dialect.delimiter, dialect.quote) for line in lines]
    marks = [_is_skipped(line, dialect) for line in lines]
    if width < 2:
        return Head(0, below or 0)
    candidates = []
    for i, first in enumerate(rows[: None if skips else 1]):
        if marks[i] or len(first) != width or not _are_names([cell.strip() for cell in first]):
            continue
        rest = zip(rows[i + 1 :], marks[i + 1 :], strict=True)
        body = [r for r, is_left_out in rest if not is_left_out and len(r) == width and r != first]
        candidates.append((i, [cell.strip() for cell in first], body))
    for i, cells, body in candidates:
        if i and not _is_preamble(lines[:i], rows[:i], marks[:i], dialect, width, by_blank=True):
            continue
        for n_below in range(_MAX_BELOW, -1, -1) if below is None else (below,):
            values = body[n_below:]
            are_units = all(_is_units(unit, values) for unit in body[:n_below])
            if _stands_above_values(cells, values) and (below is not None or are_units):
                return Head(i, n_below)
    for i, cells, body in candidates:
        is_below = i and _is_preamble(
            lines[:i], rows[:i], marks[:i], dialect, width, by_blank=False
        )
        if is_below and body and has_header(cells, body):
            return Head(i, below or 0)
    return Head(_n_single(lines, rows, marks, width) if skips else 0, below or 0)


def _is_skipped(line: str, dialect: Dialect) -> bool:
    return not line.strip() or bool(dialect.comment and line.startswith(dialect.comment))


def _is_preamble(
    lines: Sequence[str],
    rows: Sequence[Sequence[str]],
    marks: Sequence[bool],
    dialect: Dialect,
    width: int,
    *,
    by_blank: bool,
) -> bool:
    """Return whether the lines above a line are not records.

    They have other numbers of fields or, with `by_blank`, a blank line follows them.
    """
    if dialect.quote and any(line.count(dialect.quote) % 2 for line in lines):
        return False  # a quoted field may span lines
    apart = False
    for line, row, is_left_out in zip(
        reversed(lines), reversed(rows), reversed(marks), strict=True
    ):
        if not line.strip() and by_blank:
            apart = True
        if is_left_out or apart:
            continue
        n_full = sum(bool(cell.strip()) for cell in row)
        if len(row) == width and n_full > 1:
            return False
        if len(row) == width - 1 and n_full > 2:
            return False  # a header without a name for the first column, as written by R
    return not all(marks)


def _n_single(
    lines: Sequence[str], rows: Sequence[Sequence[str]], marks: Sequence[bool], width: int
) -> int:
    """Return the number of one-field lines at the top, above lines of `width` fields."""
    first = next((i for i, row in enumerate(rows) if len(row) == width and not marks[i]), 0)
    above = [row for row, left_out in zip(rows[:first], marks[:first], strict=True) if not left_out]
    is_quoted = any(line.count('"') % 2 for line in lines[:first])
    return first if above and not is_quoted and all(len(row) == 1 for row in above) else 0


def _is_units(row: Sequence[str], values: Sequence[Sequence[str]]) -> bool:
    """Return whether a row holds units or types: words above columns of numbers and times."""
    n_words = n_certain = 0
    for cell, column in zip(row, zip(*values, strict=False), strict=False):
        word = cell.strip()
        full = [value for value in column if value]
        is_unit = word.lower() in _WORDS or _BRACKETED.fullmatch(word) is not None
        n_certain += is_unit and word not in NULL_WORDS
        if not word or word in NULL_WORDS:
            continue
        if full and all(map(_is_value, full)):
            if _is_value(word):
                return False
            n_words += 1
        elif not is_unit:
            return False
    return n_words > 1 or (n_words > 0 and n_certain > 0)
