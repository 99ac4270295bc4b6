"""Writers for CSV, JSON, JSON lines and Markdown, batch by batch.

A writer takes the column names, the batches (columns in the same order) and a function that
receives text. It holds `PIECE_ROWS` rows at a time and returns the number of rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sqlwin.display.notation import csv_texts, display_texts, is_number, json_objects
from sqlwin.display.scalars import concatenate, text_scalar

PIECE_ROWS = 8192

Write = Callable[[str], object]
Writer = Callable[[Sequence[str], Iterable[pa.RecordBatch], Write], int]

_CSV_SPECIAL = r'[",\r\n]|^$'
_MARKDOWN_SPECIAL = re.compile(r"[\\`*<>&|\[\]]|(?<!\w)_|_(?!\w)|\r\n|\r|\n")
_MARKDOWN_SUBSTITUTES = {
    "<": "&lt;",
    ">": "&gt;",
    "&": "&amp;",
    "\n": "<br>",
    "\r": "<br>",
    "\r\n": "<br>",
}


def cut_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Split batches into pieces of at most `PIECE_ROWS` rows, without empty ones."""
    for batch in batches:
        for start in range(0, batch.num_rows, PIECE_ROWS):
            yield batch.slice(start, PIECE_ROWS)


def first_rows(batches: Iterable[pa.RecordBatch], max_rows: int | None) -> pa.Table | None:
    """Return the first `max_rows` rows, and at least one more if there are more. None: no batch."""
    pieces: list[pa.RecordBatch] = []
    n_rows = 0
    for batch in batches:
        pieces.append(batch)
        n_rows += batch.num_rows
        if max_rows is not None and n_rows > max_rows:
            break
    if not pieces:
        return None
    # Names may repeat, and batches may differ in nullability
    schema = pieces[0].schema
    return pa.Table.from_batches([pa.record_batch(b.columns, schema=schema) for b in pieces])


def write_csv(
    columns: Sequence[str],
    batches: Iterable[pa.RecordBatch],
    write: Write,
    *,
    has_header: bool = True,
) -> int:
    r"""Write CSV (RFC 4180, but with `\n` at line ends): an optional header and a line per row.

    A field is quoted if it contains a comma, a quote or a line break, or is the empty string. NULL
    is an empty field.
    """
    # not with Arrow, whose first array of Python values imports pandas
    if has_header:
        write(",".join(map(_csv_field, columns)) + "\n")
    n_rows = 0
    for piece in cut_batches(batches):
        n_rows += piece.num_rows
        fields = []
        for array in piece.columns:
            text = csv_texts(array)
            fields.append(text if is_number(array.type) else _csv_fields(text))
        if fields:
            lines = pc.binary_join_element_wise(
                *fields, text_scalar(","), null_handling="replace", null_replacement=""
            ).to_pylist()
        else:
            lines = [""] * piece.num_rows
        write("\n".join(lines) + "\n")
    return n_rows


def _csv_field(text: str) -> str:
    escaped = text.replace('"', '""')
    return f'"{escaped}"' if re.search(_CSV_SPECIAL, text) else text


def _csv_fields(text: pa.Array) -> pa.Array:
    quoted_text = concatenate(
        text_scalar('"'), pc.replace_substring(text, '"', '""'), text_scalar('"')
    )
    return pc.if_else(pc.match_substring_regex(text, _CSV_SPECIAL), quoted_text, text)


def write_json(columns: Sequence[str], batches: Iterable[pa.RecordBatch], write: Write) -> int:
    """Write a JSON array of objects, one per line."""
    n_rows = 0
    for objects in _json_pieces(columns, batches):
        write(("[\n" if n_rows == 0 else ",\n") + ",\n".join(objects))
        n_rows += len(objects)
    write("\n]\n" if n_rows else "[]\n")
    return n_rows


def write_json_lines(
    columns: Sequence[str], batches: Iterable[pa.RecordBatch], write: Write
) -> int:
    """Write a JSON object per line."""
    n_rows = 0
    for objects in _json_pieces(columns, batches):
        write("\n".join(objects) + "\n")
        n_rows += len(objects)
    return n_rows


def _json_pieces(columns: Sequence[str], batches: Iterable[pa.RecordBatch]) -> Iterator[list[str]]:
    for piece in cut_batches(batches):
        yield json_objects(columns, piece.columns, piece.num_rows).to_pylist()


def write_markdown(columns: Sequence[str], batches: Iterable[pa.RecordBatch], write: Write) -> int:
    """Write a table in GitHub's Markdown, with numbers aligned to the right."""
    n_rows = 0
    header_written = False
    for piece in cut_batches(batches):
        if not header_written:
            _markdown_header(columns, [is_number(a.type) for a in piece.columns], write)
            header_written = True
        cells = [display_texts(array).to_pylist() for array in piece.columns]
        rows = zip(*cells, strict=True) if cells else [()] * piece.num_rows
        write("".join(_markdown_row(row) for row in rows))
        n_rows += piece.num_rows
    if not header_written:
        _markdown_header(columns, [False] * len(columns), write)
    return n_rows


def _markdown_header(columns: Sequence[str], numbers: Sequence[bool], write: Write) -> None:
    rule = " | ".join("---:" if number else "---" for number in numbers)
    write(_markdown_row(columns) + f"| {rule} |\n")


def _markdown_row(cells: Iterable[str | None]) -> str:
    texts = ("NULL" if c is None else _MARKDOWN_SPECIAL.sub(_markdown_escape, c) for c in cells)
    return "| " + " | ".join(texts) + " |\n"


def _markdown_escape(match: re.Match[str]) -> str:
    character = match.group()
    return _MARKDOWN_SUBSTITUTES.get(character, "\\" + character)
