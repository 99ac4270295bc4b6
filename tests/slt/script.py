"""Reads `.slt` files into records. README.md in this folder describes the format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

SEPARATOR = "----"
KINDS = ("statement", "table", "file", "query", "stream", "oracle")


@dataclass(frozen=True)
class Record:
    """One record of a file.

    Attributes:
        line: Line of its kind, from 1.
        kind: One of KINDS.
        words: Rest of that line.
        prose: Comment directly above it.
        sql: Lines above `----`.
        below: Lines below `----`. None without a `----`.
        bound: Variables of the loops around it, with their values.
    """

    line: int
    kind: str
    words: str
    prose: str
    sql: str
    below: str | None
    bound: tuple[tuple[str, str], ...] = ()

    @property
    def variables(self) -> dict[str, str]:
        """Values of the variables by name."""
        return dict(self.bound)

    @property
    def flags(self) -> frozenset[str]:
        """Words without a value, such as `ordered`."""
        return frozenset(word for word in self.words.split() if "=" not in word)

    @property
    def operators(self) -> list[str]:
        """Operators that EXPLAIN must show."""
        return re.findall(r"plan=(\w+)", self.words)

    @property
    def title(self) -> str:
        """Line and values of variables, for messages."""
        return ", ".join([f"line {self.line}", *(value for _, value in self.bound)])


@dataclass(frozen=True)
class _Paragraph:
    line: int
    prose: str
    lines: list[str]


def read_records(path: Path) -> list[Record]:
    """Return the records of a file, with loops unrolled."""
    return list(_unroll(list(_paragraphs(path.read_text())), {}))


def fill(record: Record, **values: str) -> Record:
    """Replace the record's variables, and further ones, in its texts."""

    def filled(text: str) -> str:
        for name, value in {**record.variables, **values}.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    below = None if record.below is None else filled(record.below)
    return replace(record, words=filled(record.words), sql=filled(record.sql), below=below)


def with_rows(path: Path, results: dict[int, list[str]]) -> str:
    """Return the file's text with other rows below the `----` of some records, by line."""
    lines = path.read_text().splitlines()
    for paragraph in reversed(list(_paragraphs(path.read_text()))):
        if paragraph.line not in results:
            continue
        start = paragraph.line - 1
        old = paragraph.lines
        cut = old.index(SEPARATOR) if SEPARATOR in old else len(old)
        rows = [*old[:cut], SEPARATOR, *results[paragraph.line]]
        lines[start : start + len(old)] = rows
    return "\n".join(lines) + "\n"


def _paragraphs(text: str) -> Iterator[_Paragraph]:
    """Yield blocks between blank lines, without their comments. Blocks of comments are skipped."""
    prose: list[str] = []
    lines: list[str] = []
    start = 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.startswith("#") and not lines:
            prose.append(line[1:].strip())
        elif line.strip() or (lines and line):
            start = start if lines else number
            lines.append(line)
        else:
            if lines:
                yield _Paragraph(start, " ".join(prose), lines)
            prose, lines = [], []


def _unroll(paragraphs: list[_Paragraph], bound: dict[str, str]) -> Iterator[Record]:
    position = 0
    while position < len(paragraphs):
        paragraph = paragraphs[position]
        if not paragraph.lines[0].startswith("foreach "):
            yield _record(paragraph, bound)
            position += 1
            continue
        end = _end_of_loop(paragraphs, position)
        _, name, *values = paragraph.lines[0].split()
        for value in (v.replace("~", " ") for v in values):
            yield from _unroll(paragraphs[position + 1 : end], {**bound, name: value})
        position = end + 1


def _end_of_loop(paragraphs: list[_Paragraph], start: int) -> int:
    depth = 0
    for position in range(start, len(paragraphs)):
        first = paragraphs[position].lines[0]
        depth += first.startswith("foreach ")
        depth -= first == "end"
        if depth == 0:
            return position
    raise ValueError(f"line {paragraphs[start].line}: foreach without end")


def _record(paragraph: _Paragraph, bound: dict[str, str]) -> Record:
    lines = paragraph.lines
    kind, _, words = lines[0].partition(" ")
    if kind not in KINDS:
        raise ValueError(f"line {paragraph.line}: unknown kind of record: {lines[0]}")
    cut = lines.index(SEPARATOR) if SEPARATOR in lines else len(lines)
    below = "\n".join(lines[cut + 1 :]) if cut < len(lines) else None
    sql = "\n".join(lines[1:cut])
    return Record(paragraph.line, kind, words, paragraph.prose, sql, below, tuple(bound.items()))
