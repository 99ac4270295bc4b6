"""Tables of `table` records: Parquet files, one for each micro-batch."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa

from tests.end_to_end.stream_files import write_next
from tests.slt.script import Record
from tests.slt.values import arrow_column

# Between the rows of two micro-batches
NEXT = "--"


def create_table(record: Record, directory: Path) -> str:
    """Write the files of a table and return its CREATE TABLE.

    Raises:
        ValueError: A row does not fit the columns.
    """
    name, *options = record.words.split()
    path = directory / name
    columns = _stored_columns(record.sql)
    for rows in _micro_batches(record):
        if any(len(row) != len(columns) for row in rows):
            raise ValueError(f"line {record.line}: a row does not have {len(columns)} values")
        arrays = [
            arrow_column(type_, [row[place] for row in rows])
            for place, (_, type_) in enumerate(columns)
        ]
        write_next(path, pa.table(arrays, [column for column, _ in columns]))
    chosen = [option.partition("=")[::2] for option in options]
    table_options = {
        "connector": "filesystem",
        "path": str(path),
        "format": "parquet",
        "max-files-per-trigger": "1",
        **dict(chosen),
    }
    options_text = ", ".join(f"'{key}' = '{value}'" for key, value in table_options.items())
    return f"CREATE TABLE {name} ({record.sql}) WITH ({options_text})"


def count_micro_batches(record: Record) -> int:
    """Return the number of micro-batches in which a stream reads the table."""
    return len(_micro_batches(record))


def _micro_batches(record: Record) -> list[list[list[str]]]:
    batches: list[list[list[str]]] = [[]]
    for line in (record.below or "").splitlines():
        if line == NEXT:
            batches.append([])
        else:
            batches[-1].append([cell.strip() for cell in line.split("|")])
    return batches


def _stored_columns(declaration: str) -> list[tuple[str, str]]:
    """Return names and types of the columns in files: none are computed, watermarks or keys."""
    items = re.split(r",(?![^()]*\))", declaration.replace("\n", " "))
    pairs = [item.strip().split(maxsplit=1) for item in items]
    return [
        (name, type_)
        for name, type_ in pairs
        if name.upper() not in ("WATERMARK", "PRIMARY") and not type_.upper().startswith("AS ")
    ]
