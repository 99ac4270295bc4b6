"""docs/coming-from-ksqldb.md: a grace period of Kafka Streams as the delay of a watermark.

Kafka Streams drops a row once the latest time is the end of its window plus the grace period, or
after it. A window closes here at a watermark of its end minus 1 ms.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

import sqlwin
from tests.end_to_end.stream_files import write_next


def at(second: float) -> dt.datetime:
    return dt.datetime(2026, 3, 1) + dt.timedelta(seconds=second)  # noqa: DTZ001  # wall clock


@pytest.mark.parametrize(
    ("delay", "latest", "is_in_time"),
    [
        #  0         10   15        windows of 10 s, a grace period of 5 s
        #  [---------)    ^
        #           9 : in time as long as the latest row is before 15
        ("5.001", 14.999, True),
        ("5.001", 15, False),
        ("5", 14.999, False),
    ],
)
def test_a_grace_period_is_a_delay_of_a_millisecond_more(
    fresh_session: sqlwin.Session, tmp_path: Path, delay: str, latest: float, is_in_time: bool
) -> None:
    for seconds in ((1, latest), (9,), (60,)):
        write_next(tmp_path / "in", {"ts": pa.array([at(s) for s in seconds], pa.timestamp("us"))})
    *_, result = fresh_session.execute(f"""
        SET 'execution.runtime-mode' = 'streaming';
        CREATE TABLE clicks (ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '{delay}' SECOND)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'parquet',
              'max-files-per-trigger' = '1');
        SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '10' SECOND))
        GROUP BY window_start, window_end
    """)
    counts = {start: n for start, n in result.rows}
    assert counts[at(0)] == (2 if is_in_time else 1)
