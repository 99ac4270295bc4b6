"""Logic tests as text, in the manner of sqllogictest.

A file holds records with blank lines between them; `#` starts a comment line. The records:

    statement ok                 the SQL below runs
    statement error some words   it fails, with a report that holds these words
    query                        it gives the rows below `----`, in any order
    query ordered                it gives them in this order
    oracle                       it gives the rows that DuckDB gives for the SQL below `----`, or for
                                 the same SQL, where `{window}` is a relation that was made by
                                 definition: every row copied into its windows

`oracle` and `query` may be followed by `plan=Name`: EXPLAIN must then show that operator.
`foreach name a b c`, up to `end`, repeats the records between with each value for `{name}`; `~` in a value is a blank.
Values of rows stand with ` | ` between them, NULL as `NULL`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

SEPARATOR = "----"


@dataclass(frozen=True)
class Record:
    """One record of a file.

    Attributes:
        line: where it starts.
        kind: `statement`, `query` or `oracle`.
        words: what follows the kind.
        sql: the SQL.
        below: the text below `----`, or None.
        bound: what the variables of the loops around it stand for.
    """

    line: int
    kind: str
    words: str
    sql: str
    below: str | None
    bound: tuple[tuple[str, str], ...] = ()

    @property
    def variables(self) -> dict[str, str]:
        """The variables by name."""
        return dict(self.bound)

    @property
    def operators(self) -> list[str]:
        """The operators that EXPLAIN must show."""
        return re.findall(r"plan=(\w+)", self.words)

    @property
    def title(self) -> str:
        """The record in the name of a test."""
        return "-".join([f"line{self.line}", *(value for _, value in self.bound)])


def records(path: Path) -> Iterator[Record]:
    """The records of a file, loops written out."""
    paragraphs = _paragraphs(path.read_text())
    yield from _expanded(list(paragraphs), {})


def _paragraphs(text: str) -> Iterator[tuple[int, list[str]]]:
    lines: list[str] = []
    start = 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.startswith("#"):
            continue
        if line.strip():
            start = start if lines else number
            lines.append(line)
        elif lines:
            yield start, lines
            lines = []


def _expanded(paragraphs: list[tuple[int, list[str]]], bound: dict[str, str]) -> Iterator[Record]:
    position = 0
    while position < len(paragraphs):
        line, lines = paragraphs[position]
        if not lines[0].startswith("foreach "):
            yield _record(line, lines, bound)
            position += 1
            continue
        end = _end_of_loop(paragraphs, position)
        _, name, *values = lines[0].split()
        for value in (v.replace("~", " ") for v in values):
            yield from _expanded(paragraphs[position + 1 : end], {**bound, name: value})
        position = end + 1


def _end_of_loop(paragraphs: list[tuple[int, list[str]]], start: int) -> int:
    depth = 0
    for position in range(start, len(paragraphs)):
        first = paragraphs[position][1][0]
        depth += first.startswith("foreach ")
        depth -= first == "end"
        if depth == 0:
            return position
    raise ValueError(f"line {paragraphs[start][0]}: foreach without end")


def _record(line: int, lines: list[str], bound: dict[str, str]) -> Record:
    kind, _, words = lines[0].partition(" ")
    if kind not in ("statement", "query", "oracle"):
        raise ValueError(f"line {line}: no such record: {lines[0]}")
    cut = lines.index(SEPARATOR) if SEPARATOR in lines else len(lines)
    below = "\n".join(lines[cut + 1 :]) if cut < len(lines) else None
    return Record(line, kind, words, "\n".join(lines[1:cut]), below, tuple(bound.items()))


def with_rows(path: Path, results: dict[int, list[str]]) -> str:
    """The file's text with the rows of each `query` in place of those below its `----`."""
    out: list[str] = []
    for number, lines in _blocks(path.read_text()):
        if number in results:
            cut = lines.index(SEPARATOR) if SEPARATOR in lines else len(lines)
            lines = [*lines[:cut], SEPARATOR, *results[number]]
        out += lines
    return "\n".join(out) + "\n"


def _blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    """Lines in groups: each record as one, under the number of its first line."""
    lines: list[str] = []
    start = 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            start = start if lines else number
            lines.append(line)
            continue
        if lines:
            yield start, lines
            lines = []
        yield 0, [line]
    if lines:
        yield start, lines


def filled(record: Record, **values: str) -> Record:
    """The record with its variables, and some more, written into its texts."""

    def fill(text: str) -> str:
        for name, value in {**record.variables, **values}.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    below = None if record.below is None else fill(record.below)
    return replace(record, words=fill(record.words), sql=fill(record.sql), below=below)
