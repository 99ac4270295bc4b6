"""Fields of the lines of a CSV file or a log.

Lines of CSV without quotes, usually most, are cut by NumPy; the others one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.kernels.conversions import Int64Array
from runtime.detection.log_lines import line_parser
from runtime.spec.text import LineRecords, TextColumn
from runtime.text.csv_record import split_record
from runtime.text.fields import BrokenRecordError, Fields
from runtime.text.line_records import BLANKS, lines_with, slices
from runtime.text.lines import Lines

# Characters below are single bytes
_ASCII = 0x80


def csv_fields(lines: Lines, records: LineRecords, columns: Sequence[TextColumn]) -> Fields:
    """Return some fields of records.

    Args:
        lines: Lines that are records.
        records: How lines are split.
        columns: Columns to return.

    Raises:
        BrokenRecordError: A record has too few or too many fields.
    """
    data, n_lines = np.frombuffer(lines.data, np.uint8), len(lines.starts)
    # read one by one
    is_slow = np.zeros(n_lines, np.bool_)
    delimiter = ord(records.delimiter)
    if delimiter >= _ASCII:
        is_slow[:] = True
    elif records.quote and records.quote.encode() in lines.data:
        # the last byte of a character is in its line
        sign = records.quote.encode()[-1]
        is_slow[lines_with(lines, np.flatnonzero(data == sign))] = True
    delimiters = np.flatnonzero(data == delimiter) if delimiter < _ASCII else np.empty(0, np.int64)
    of_line = lines_with(lines, delimiters, is_inside=True)
    delimiters, of_line = delimiters[of_line >= 0], of_line[of_line >= 0]
    counts = np.bincount(of_line, minlength=n_lines) + 1
    is_broken = ~is_slow & (counts != records.n_fields)
    if not records.is_strict:
        is_slow |= is_broken
        is_broken[:] = False
    positions = sorted({column.field for column in columns})
    first_broken = int(is_broken.argmax()) if is_broken.any() else n_lines
    slow = np.flatnonzero(is_slow[:first_broken])
    rows = _slow_rows(lines, records, slow, positions)
    if first_broken < n_lines:
        raise BrokenRecordError(lines.text(first_broken))
    plain = np.flatnonzero(~is_slow)
    cuts = delimiters[~is_slow[of_line]].reshape(len(plain), records.n_fields - 1)
    order = np.concatenate([plain, slow]).argsort(kind="stable") if len(slow) else None
    texts_of: dict[int, pa.Array] = {}
    for place, position in enumerate(positions):
        starts = lines.starts[plain] if position == 0 else cuts[:, position - 1] + 1
        is_last = position == records.n_fields - 1
        ends = lines.ends[plain] if is_last else cuts[:, position]
        texts = slices(lines.data, starts, ends)
        for is_trimmed, trim in zip(records.trims, (pc.utf8_ltrim, pc.utf8_rtrim), strict=True):
            texts = trim(texts, BLANKS) if is_trimmed else texts
        is_null = pc.equal(texts, "")
        if records.null:
            is_null = pc.or_(is_null, pc.equal(texts, records.null))
        texts = pc.if_else(is_null, pa.scalar(None, pa.string()), texts)
        if order is not None:
            others = pa.array([row[place] for row in rows], pa.string())
            texts = pa.concat_arrays([texts, others]).take(pa.array(order))
        texts_of[position] = texts
    return Fields(n_lines, {column.name: texts_of[column.field] for column in columns})


def log_fields(lines: Lines, records: LineRecords, columns: Sequence[TextColumn]) -> Fields:
    """Return the groups of the lines that match the pattern of a log.

    Args:
        lines: Lines that are records.
        records: How lines are split.
        columns: Columns to return, with the names of their groups in lower case as `key`.

    Raises:
        BrokenRecordError: A line does not match.
    """
    parse = line_parser(records.pattern)
    rows: list[dict[str, str | None]] = []
    for number in range(len(lines.starts)):
        fields = parse(lines.text(number))
        if fields is not None:
            rows.append({name.lower(): value for name, value in fields.items()})
        elif records.is_strict:
            raise BrokenRecordError(lines.text(number))
    texts = {c.name: pa.array([row.get(c.key) for row in rows], pa.string()) for c in columns}
    return Fields(len(rows), texts)


def _slow_rows(
    lines: Lines, records: LineRecords, numbers: Int64Array, positions: Sequence[int]
) -> list[list[str | None]]:
    """Return some fields of lines, split one by one."""
    rows = []
    for number in numbers.tolist():
        line = lines.text(number)
        if records.spans_lines:
            line = line.replace("\r\n", "\n")
        fields = split_record(line, records.delimiter, records.quote, records.escape, records.trims)
        if len(fields) != records.n_fields and records.is_strict:
            raise BrokenRecordError(line)
        fields += [None] * (records.n_fields - len(fields))
        row = [fields[position] for position in positions]
        rows.append([None if field == records.null else field for field in row])
    return rows
