"""What rows of a stream carry beside their own columns.

They have the watermark in band, under the names below. So a row that a filter drops, and a row that
only carries the watermark of an operator, still carries it.
"""

from __future__ import annotations

from dataclasses import dataclass

# FALSE in a row that brings nothing but its watermark; all its other columns may be NULL.
KEEP = "$keep"
# INT: the source whose watermark a row has.
SOURCE = "$source"
# Where a source has splits with watermarks of their own, SOURCE is its number and so many times one
# more than the split's number.
SPLIT = 1024
# In SOURCE of a row about all sources. With a WATERMARK, of any value, the input has ended: a flag
# for it, since every number is also the watermark of some row.
ALL_SOURCES = -1
# BIGINT microseconds: the row's watermark of its source; NULL where there is none.
WATERMARK = "$watermark"
# The highest watermark: it closes every window. After the end of input it is everybody's, but a row
# may have it too.
FINAL_US = (1 << 63) - 1
# BIGINT microseconds on the windows' wall clock; NULL in a row without a time.
TIME = "$time_us"
# BIGINT microseconds since 1970 in UTC: when the micro-batch began, where an operator asks for it.
PROCESSING_TIME = "$clock_us"
# STRUCT: the row as its table has it. Below a window operator in all rows of a table with
# `late-rows` that are kept; above it in those that were too late, with KEEP = FALSE, where
# WATERMARK is the one that they missed. These pass whatever follows.
LATE_ROW = "$late_row"
# The kind of change of a result that can be emitted again: +I, -U, +U.
ROW_KIND = "$row_kind"


@dataclass(frozen=True)
class StreamSource:
    """A source of watermarks.

    Attributes:
        name: the table, for messages.
        time_type: `timestamp`, if its watermarks are instants; `timestamp_ntz`, if they are on the
            wall clock; `proctime`, if its rows' time is the clock's when they are processed.
    """

    name: str
    time_type: str
