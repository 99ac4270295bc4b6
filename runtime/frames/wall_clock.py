"""Convert timestamps to int64 microseconds of the wall clock in Spark SQL, and back.

Casts between the two timestamp types use the session's time zone, which must not shift the wall
clock of a TIMESTAMP_NTZ, for example in the hour skipped by summer time. A TIMESTAMP_NTZ is
therefore converted by subtracting the epoch, which Spark does without a zone.
"""

from __future__ import annotations

from runtime.names import quote_name

_EPOCH = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
_MICROSECOND = "INTERVAL '0.000001' SECOND"


def wall_clock_us_sql(column: str, type_: str) -> str:
    """Return SQL for the BIGINT microseconds of a timestamp column's wall clock.

    Args:
        column: Column name.
        type_: `timestamp_ntz`, or `timestamp`, whose wall clock is in the session's zone.
    """
    value = quote_name(column)
    if type_ == "timestamp":
        value = f"CAST({value} AS TIMESTAMP_NTZ)"
    return timestamp_ntz_us_sql(value)


def timestamp_ntz_us_sql(value: str) -> str:
    """Return SQL for the BIGINT microseconds of a TIMESTAMP_NTZ expression."""
    return f"(({value} - {_EPOCH}) DIV {_MICROSECOND})"


def timestamp_ntz_sql(time_us: str) -> str:
    """Return SQL for the TIMESTAMP_NTZ of a BIGINT expression in microseconds."""
    return f"({_EPOCH} + {_MICROSECOND} * {time_us})"
