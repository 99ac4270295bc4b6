"""Select the lines of a text file that are records: no preamble, header, units row or comments.

Spark's readers have no options for these. Detection applies the rules to a sample, and tasks apply
them to the lines of a file.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

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
        skip_below: Number of lines to skip below the header.
        comment: Prefix of lines to skip. Empty to skip none.
        drops_repeated: Whether lines equal to the header are skipped.
        prefixes: Beginnings of records to skip, such as a row of totals. They leave the header.
        pattern: Regular expression whose groups are the columns. Empty if a record is a whole line.
    """

    skip: int = 0
    skip_below: int = 0
    comment: str = ""
    drops_repeated: bool = False
    prefixes: tuple[str, ...] = ()
    pattern: str = ""

    def is_spark_enough(self) -> bool:
        """Return whether Spark's CSV reader alone can apply the rules."""
        on_head = self.skip or self.skip_below or self.drops_repeated
        is_special = bool(on_head or self.prefixes or self.pattern)
        return not is_special and len(self.comment) <= 1

    def select(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the records among the lines of a file without a header."""
        for line in islice(lines, self.skip, None):
            is_comment = bool(self.comment) and line.startswith(self.comment)
            if line.strip() and not is_comment and not line.startswith(self.prefixes or ()):
                yield line


def line_rules(options: Mapping[str, str], prefix: str = "csv") -> LineRules:
    """Return the rules that the options of a table define.

    Args:
        options: Table options with names in lower case.
        prefix: Prefix of the options: the format.
    """
    options = {f"csv.{k.removeprefix(f'{prefix}.')}": v for k, v in options.items()}
    return LineRules(
        skip=_count(options.get(SKIP, "0")),
        skip_below=_count(options.get(SKIP_BELOW, "0")),
        comment=options.get(COMMENT, ""),
        drops_repeated=options.get(REPEATED, "false").lower() == "true",
        prefixes=prefixes_of(options.get(SKIP_PREFIXES, "")),
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
