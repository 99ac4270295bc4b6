"""Lines of a file that are records: no preamble, header, units row, comment or repeated header.

A record is a line, or several if a quoted field contains line ends.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.kernels.conversions import BoolArray, Int64Array, int64_values
from runtime.errors import ExecutionError
from runtime.spec.text import LineRecords
from runtime.text.lines import Lines

# Java's `trim` removes these
LAST_BLANK = ord(" ")
BLANKS = "".join(map(chr, range(LAST_BLANK + 1)))
# Characters of a header that an error shows
_SHOWN_CHARACTERS = 200


def select_records(lines: Lines, records: LineRecords, path: str) -> Lines:
    """Return the records among the lines of a file.

    Args:
        lines: Lines of a part of the file.
        records: Rules for records.
        path: Path of the file.

    Raises:
        ExecutionError: The file has another header than the others.
    """
    lines = records_with_header(lines, records)
    header = records.header
    if lines.is_start and records.has_header and len(lines.starts):
        own_header = lines.text(0)
        if header and own_header.strip() != header.strip():
            raise ExecutionError(
                f"the headers of files differ: {path} has {own_header[:_SHOWN_CHARACTERS]!r}, "
                f"other files have {header[:_SHOWN_CHARACTERS]!r}",
                hint="use a glob that matches only files with the same header",
            )
        header = own_header
        lines = lines.select(slice(1 + records.skip_below, None))
    if records.drops_repeated and header:
        lines = lines.select(_texts(lines, pc.not_equal, header))
    for prefix in records.prefixes:
        lines = lines.select(~_texts(lines, pc.starts_with, prefix))
    return lines


def records_with_header(lines: Lines, records: LineRecords) -> Lines:
    """Return the header and the records among the lines of a file."""
    if lines.is_start and records.skip:
        lines = lines.select(slice(records.skip, None))
    comment = records.comment
    if records.spans_lines and records.quote.encode() in lines.data:
        lines = _joined(lines, records)
    data = np.frombuffer(lines.data, np.uint8)
    is_record: BoolArray = lines.ends > lines.starts
    first = data[np.minimum(lines.starts, max(len(data) - 1, 0))] if len(data) else data
    if comment:
        is_comment = first == comment.encode()[0]
        if is_comment.any() and len(comment) > 1:
            is_comment &= _texts(lines, pc.starts_with, comment)
        is_record &= ~is_comment
    for number in np.flatnonzero(is_record & (first <= LAST_BLANK)).tolist():
        is_record[number] = bool(lines.text(number).strip(BLANKS))
    return lines.select(is_record)


def lines_with(lines: Lines, places: Int64Array, *, is_inside: bool = False) -> Int64Array:
    """Return the lines that contain places.

    Places outside all lines are left out; with `is_inside` they are -1.
    """
    if not len(lines.starts):
        return np.full(len(places) if is_inside else 0, -1, np.int64)
    line = np.searchsorted(lines.starts, places, side="right") - 1
    is_in: BoolArray = (line >= 0) & (places < lines.ends[line])
    return np.where(is_in, line, -1) if is_inside else line[is_in]


def slices(data: bytes, starts: Int64Array, ends: Int64Array) -> pa.Array:
    """Return parts of a text that do not overlap, in order."""
    if not len(starts):
        return pa.array([], pa.string())
    # every other text is what lies between two parts
    offsets = np.stack([starts, ends], axis=1).ravel().astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    both = pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)
    return both.take(pa.array(np.arange(0, len(offsets), 2)))


def _joined(lines: Lines, records: LineRecords) -> Lines:
    """Return the lines, with those together that a quoted field spans."""
    texts = slices(lines.data, lines.starts, lines.ends)
    counts = int64_values(pc.count_substring(texts, records.quote))
    if records.escape:
        counts = counts - int64_values(pc.count_substring(texts, records.escape + records.quote))
    # a record of several lines opens and ends with an odd number of quotes
    is_first = np.ones(len(lines.starts), np.bool_)
    ends = lines.ends.copy()
    opened = -1
    for number in [*np.flatnonzero(counts % 2).tolist(), len(lines.starts)]:
        is_last = number == len(lines.starts)
        if opened >= 0:
            is_first[opened + 1 : number + 1] = False
            ends[opened] = lines.ends[number - is_last]
            opened = -1
        elif not is_last and not (
            records.comment and lines.text(number).startswith(records.comment)
        ):
            opened = number
    return Lines(lines.data, lines.starts, ends, lines.is_repaired, lines.is_start).select(is_first)


def _texts(
    lines: Lines, function: Callable[[pa.Array, str], pa.BooleanArray], text: str
) -> BoolArray:
    """Return the results of a comparison of each line with a text."""
    texts = slices(lines.data, lines.starts, lines.ends)
    result: BoolArray = function(texts, text).to_numpy(zero_copy_only=False)
    return result
