"""Statements of examples, documentation and tests, each with the statements before it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from runtime.errors import SqlwinError
from sqlwin.statements.split import split_script
from tests.docs import pages
from tests.errors.test_errors import FLIGHTS
from tests.goldens import ROOT
from tests.slt.script import read_records
from tests.slt.tables import create_table

LINKS = ("app.log", "clicks.ndjson", "departures", "sales.csv", "station.csv")


@dataclass(frozen=True)
class Example:
    """A statement that a test mutates.

    Attributes:
        origin: Path of its file.
        before: Statements that run first, unchanged.
        text: The statement.
    """

    origin: str
    before: tuple[str, ...]
    text: str


def write_data(directory: Path) -> None:
    """Write `queries/data` with few rows into a directory."""
    data = directory / "queries" / "data"
    data.mkdir(parents=True)
    rows = pq.read_table(ROOT / "queries" / "data" / "flights.parquet").slice(0, 300)
    pq.write_table(rows, data / "flights.parquet")
    for name in LINKS:
        os.symlink(ROOT / "queries" / "data" / name, data / name)


def examples(directory: Path) -> list[Example]:
    """Return all examples, in the same order in every run.

    Args:
        directory: Place for the files of tables in `tests/slt`.
    """
    return [*_of_files(), *_of_pages(), *_of_records(directory)]


def _of_files() -> Iterator[Example]:
    for path in sorted((ROOT / "queries").rglob("*.sql")):
        if "dbt" in path.parts:
            continue  # parts of a project, some with templates
        yield from _of_script(str(path.relative_to(ROOT)), (), path.read_text())
    for path in sorted((ROOT / "tests" / "errors").glob("*.sql")):
        yield from _of_script(str(path.relative_to(ROOT)), (FLIGHTS,), path.read_text())


def _of_pages() -> Iterator[Example]:
    for path in sorted((ROOT / "docs").glob("*.md")):
        name = str(path.relative_to(ROOT))
        before: tuple[str, ...] = (FLIGHTS,)
        for block in pages.blocks(pages.read(name)):
            if block.language != "sql":
                continue
            for example in _of_script(name, before, block.text):
                yield example
                before = (*example.before, example.text)


def _of_records(directory: Path) -> Iterator[Example]:
    for path in sorted((ROOT / "tests" / "slt").rglob("*.slt")):
        if path.parent.name == "files":
            continue  # only the runner of records writes their files
        name = str(path.relative_to(ROOT))
        before: list[str] = []
        for record in read_records(path):
            if "{" in record.sql:
                continue
            if record.kind == "table":
                before.append(create_table(record, directory / path.stem))
            elif record.kind in ("statement", "query"):
                for example in _of_script(name, tuple(before), record.sql):
                    yield example
                    if record.kind == "statement":
                        before.append(example.text)


def _of_script(origin: str, before: tuple[str, ...], script: str) -> Iterator[Example]:
    try:
        texts = [part.text for part in split_script(script)]
    except SqlwinError:
        texts = [script]  # a golden of an error, as it is
    for text in texts:
        yield Example(origin, before, text)
        before = (*before, text)


# Blanks, comments, quoted texts and names, numbers, words, and single characters
TOKEN = re.compile(
    r"\s+|--[^\n]*|'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|\d+(?:\.\d+)?|\w+|=>|<=>|<=|>=|<>|.", re.DOTALL
)


def tokens_of(text: str) -> list[str]:
    """Split a text into tokens whose concatenation is the text.

    Example:
        >>> tokens_of("SELECT 'a b'")
        ['SELECT', ' ', "'a b'"]
    """
    return TOKEN.findall(text)
