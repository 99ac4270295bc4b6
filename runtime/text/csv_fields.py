"""Fields of the lines of a CSV file.

Lines without quotes, usually most, are cut by NumPy; the others one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.kernels.columns import BoolArray, Int64Array
from runtime.spec.text import CsvRecords, TextColumn
from runtime.text.csv_record import split_record
from runtime.text.fields import BrokenRecordError, Fields
from runtime.text.lines import Lines

# Java's `trim` removes these
_LAST_BLANK = ord(" ")
_BLANKS = "".join(map(chr, range(_LAST_BLANK + 1)))


def csv_fields(
    lines: Lines, records: CsvRecords, columns: Sequence[TextColumn], *, is_start: bool
) -> Fields:
    """Return some fields of the records in lines.

    Args:
        lines: Lines of a part of a file.
        records: How lines are split.
        columns: Columns to return.
        is_start: Whether the file begins with these lines.

    Raises:
        BrokenRecordError: A record has too few or too many fields.
    """
    lines = _records(lines, records.comment)
    if is_start and records.has_header:
        lines = Lines(lines.data, lines.starts[1:], lines.ends[1:])
    lines = _without(lines, records.prefixes)
    data, n_lines = np.frombuffer(lines.data, np.uint8), len(lines.starts)
    is_quoted = np.zeros(n_lines, np.bool_)
    if records.quote and records.quote.encode() in lines.data:
        is_quoted[_line_of(lines, np.flatnonzero(data == ord(records.quote)))] = True
    delimiters = np.flatnonzero(data == ord(records.delimiter))
    of_line = _line_of(lines, delimiters, is_inside=True)
    delimiters, of_line = delimiters[of_line >= 0], of_line[of_line >= 0]
    counts = np.bincount(of_line, minlength=n_lines) + 1
    is_broken = ~is_quoted & (counts != records.n_fields)
    positions = sorted({column.field for column in columns})
    first_broken = int(is_broken.argmax()) if is_broken.any() else n_lines
    quoted = np.flatnonzero(is_quoted[:first_broken])
    rows = _quoted_rows(lines, records, quoted, positions)
    if first_broken < n_lines:
        raise BrokenRecordError(lines.text(first_broken))
    plain = np.flatnonzero(~is_quoted)
    cuts = delimiters[~is_quoted[of_line]].reshape(len(plain), records.n_fields - 1)
    order = np.concatenate([plain, quoted]).argsort(kind="stable") if len(quoted) else None
    texts_of: dict[int, pa.Array] = {}
    for place, position in enumerate(positions):
        starts = lines.starts[plain] if position == 0 else cuts[:, position - 1] + 1
        is_last = position == records.n_fields - 1
        ends = lines.ends[plain] if is_last else cuts[:, position]
        texts = slices(lines.data, starts, ends)
        is_null = pc.equal(texts, "")
        if records.null:
            is_null = pc.or_(is_null, pc.equal(texts, records.null))
        texts = pc.if_else(is_null, pa.scalar(None, pa.string()), texts)
        if order is not None:
            others = pa.array([row[place] for row in rows], pa.string())
            texts = pa.concat_arrays([texts, others]).take(pa.array(order))
        texts_of[position] = texts
    return Fields(n_lines, {column.name: texts_of[column.field] for column in columns})


def slices(data: bytes, starts: Int64Array, ends: Int64Array) -> pa.Array:
    """Return parts of a text that do not overlap, in order."""
    if not len(starts):
        return pa.array([], pa.string())
    # every other text is what lies between two parts
    offsets = np.stack([starts, ends], axis=1).ravel().astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    both = pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)
    return both.take(pa.array(np.arange(0, len(offsets), 2)))


def header_of(lines: Lines, comment: str) -> str | None:
    """Return the first line that is not blank or a comment, None without one."""
    records = _records(lines, comment)
    return records.text(0) if len(records.starts) else None


def _quoted_rows(
    lines: Lines, records: CsvRecords, numbers: Int64Array, positions: Sequence[int]
) -> list[list[str | None]]:
    """Return some fields of lines that contain quotes."""
    rows = []
    for number in numbers.tolist():
        line = lines.text(number)
        fields = split_record(line, records.delimiter, records.quote)
        if len(fields) != records.n_fields:
            raise BrokenRecordError(line)
        row = [fields[position] for position in positions]
        rows.append([None if field == records.null else field for field in row])
    return rows


def _records(lines: Lines, comment: str) -> Lines:
    """Return the lines that are neither blank nor comments."""
    data = np.frombuffer(lines.data, np.uint8)
    is_record: BoolArray = lines.ends > lines.starts
    first = data[np.minimum(lines.starts, max(len(data) - 1, 0))] if len(data) else data
    if comment:
        is_record &= first != ord(comment)
    for number in np.flatnonzero(is_record & (first <= _LAST_BLANK)).tolist():
        is_record[number] = bool(lines.text(number).strip(_BLANKS))
    return Lines(lines.data, lines.starts[is_record], lines.ends[is_record])


def _without(lines: Lines, prefixes: Sequence[str]) -> Lines:
    """Return the lines that start with no prefix."""
    if not prefixes:
        return lines
    is_record = np.ones(len(lines.starts), np.bool_)
    texts = slices(lines.data, lines.starts, lines.ends)
    for prefix in prefixes:
        is_record &= ~pc.starts_with(texts, prefix).to_numpy(zero_copy_only=False)
    return Lines(lines.data, lines.starts[is_record], lines.ends[is_record])


def _line_of(lines: Lines, places: Int64Array, *, is_inside: bool = False) -> Int64Array:
    """Return the lines that contain places.

    Places outside all lines are left out; with `is_inside` they are -1.
    """
    if not len(lines.starts):
        return np.full(len(places) if is_inside else 0, -1, np.int64)
    line = np.searchsorted(lines.starts, places, side="right") - 1
    is_in: BoolArray = (line >= 0) & (places < lines.ends[line])
    return np.where(is_in, line, -1) if is_inside else line[is_in]
