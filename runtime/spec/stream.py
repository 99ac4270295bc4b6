"""Control columns that a stream adds to its rows.

Watermarks travel with the rows, under the names below. Therefore a row that a filter drops, or a
row that only carries an operator's watermark, still carries it.
"""

from __future__ import annotations

from dataclasses import dataclass

# FALSE in a row that only carries its watermark; all its other columns may be NULL.
KEEP = "$keep"
# INT: the source whose watermark a row has.
SOURCE = "$source"
# If the splits of a source have watermarks of their own, SOURCE is the source number plus SPLIT *
# (split number + 1).
SPLIT = 1024
# SOURCE of a row for all sources. Together with a WATERMARK of any value, it marks the end of
# input. A flag is needed because every number is a possible watermark.
ALL_SOURCES = -1
# BIGINT microseconds: the row's watermark for its source; NULL without a watermark.
WATERMARK = "$watermark"
# The highest watermark: it closes every window. All sources have it after the end of input, but a
# row may have it too.
FINAL_US = (1 << 63) - 1
# BIGINT microseconds on the windows' wall clock; NULL in a row without a time.
TIME = "$time_us"
# Time that stands for NULL where rows without a time are kept: a year without rows. TIME may be up
# to a day before or after it, because of time zones.
UNTIMED = "0100-01-01 00:00:00"
# BIGINT microseconds since 1970 in UTC: start of the micro-batch, for operators that need it.
PROCESSING_TIME = "$clock_us"
# BIGINT microseconds and INT, in rows that tasks read for Spark: how far the row may advance the
# watermark at most, and its watermark split. NULL where a row has none.
WATERMARK_LIMIT = "$watermark_limit"
SPLIT_NUMBER = "$split_number"
# STRUCT: the row with its table's columns. Below a window operator, all counted rows of a table
# with `late-rows` have it; above it, the late rows, with KEEP = FALSE and the watermark that they
# missed in WATERMARK. The operators above pass these rows through.
LATE_ROW = "$late_row"
# Function of Spark SQL: the watermark before the micro-batch, BIGINT microseconds, for each row.
CURRENT_WATERMARK = "sqlwin_current_watermark"
# Row kind of a result that can be updated: +I, -U, +U.
ROW_KIND = "$row_kind"
# The name under which users see ROW_KIND, as in Flink's client.
KIND_COLUMN = "op"


@dataclass(frozen=True)
class StreamSource:
    """Source of watermarks.

    Attributes:
        name: Table name, for messages.
        time_type: `timestamp` if its watermarks are instants; `timestamp_ntz` if they are
            wall-clock times; `proctime` if the time of its rows is processing time.
        delay_us: Constant distance of its watermark to the time of a row. 0 if it is not constant.
        idle_advance_us: Time without rows after which its watermark may advance with the clock.
            None means never.
    """

    name: str
    time_type: str
    delay_us: int = 0
    idle_advance_us: int | None = None
