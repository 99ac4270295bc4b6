"""Lengths and columns that all windows share.

All times are int64 microseconds since 1970-01-01 00:00 on the wall clock of the windows: as written
for TIMESTAMP_NTZ columns, local time for TIMESTAMP_LTZ columns.
"""

from __future__ import annotations

# window_time = window_end - 1 ms, as in Flink
WINDOW_TIME_LAG_US = 1_000

DAY_US = 86_400_000_000
LONGEST_MONTH_US = 31 * DAY_US

# Columns of session partials in addition to the accumulators, BIGINT microseconds: times of the
# first and the last row aggregated
FIRST_TIME, LAST_TIME = "$first_time", "$last_time"

# Hidden column of rows whose sessions have a gap of their own: BIGINT microseconds, positive
GAP = "$gap"
