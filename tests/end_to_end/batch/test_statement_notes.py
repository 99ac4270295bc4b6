"""Notes of a finished batch statement, and how its work is distributed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlwin.control import SessionControl

QUERY = """
    SELECT window_start, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
    WHERE k > 0 GROUP BY window_start, window_end
"""


@pytest.fixture
def events(session: Any, tmp_path: Path) -> Any:
    times = [None if n % 10 == 0 else n * 1_000_000 for n in range(100)]
    data = pa.table({"ts": pa.array(times, pa.timestamp("us")), "k": pa.array(range(100))})
    pq.write_table(data, tmp_path / "events.parquet", row_group_size=30)
    session.execute(f"""
        CREATE OR REPLACE TABLE events WITH (
          'connector' = 'filesystem', 'format' = 'parquet', 'path' = '{tmp_path}/events.parquet');
        CREATE OR REPLACE TABLE sink (w TIMESTAMP, n BIGINT) WITH ('connector' = 'blackhole');
    """)
    return session


def test_rows_without_a_time_are_reported_once_the_rows_were_fetched(events: Any) -> None:
    (result,) = events.execute(QUERY)
    assert result.notes == ()
    assert len(result.rows) == 10
    # 9 of the 10 rows without a time pass the filter
    note = "9 rows with NULL in `ts` are in no window (numNullRowTimeRecordsDropped)"
    assert result.notes == (note,)
    assert sum(batch.num_rows for batch in result.batches()) == 10
    assert result.notes == (note,)


def test_rows_without_a_time_are_reported_with_an_insert(events: Any) -> None:
    insert = f"INSERT INTO sink SELECT window_start, n FROM ({QUERY})"
    (result,) = events.execute(insert)
    assert [note.split()[0] for note in result.notes] == ["9"]
    (result,) = events.execute(insert.replace("k > 0", "k % 10 > 0"))
    assert result.notes == ()


def test_rows_that_the_scan_reads_are_counted_once_for_all_inserts_of_a_set(events: Any) -> None:
    (result,) = events.execute(QUERY)
    assert len(result.rows) == 10
    assert SessionControl(events).rows_scanned == 100
    inserts = [
        f"INSERT INTO sink SELECT window_start, n FROM ({QUERY.replace('10', seconds)});"
        for seconds in ("10", "30")
    ]
    events.execute(f"EXECUTE STATEMENT SET BEGIN {' '.join(inserts)} END")
    assert SessionControl(events).rows_scanned == 100
    events.execute("SHOW TABLES")
    assert SessionControl(events).rows_scanned == 0


def test_a_small_buffer_and_a_set_spread_give_the_same_rows(events: Any) -> None:
    (expected,) = events.execute(QUERY.replace("GROUP BY", "GROUP BY k % 7,"))
    rows = sorted(map(repr, expected.rows))
    settings = {
        "sqlwin.local.buffer-size": "1 mb",
        "sqlwin.exchange.partitions": "2",
        "sqlwin.exchange.buckets": "5",
    }
    for key, value in settings.items():
        events.execute(f"SET '{key}' = '{value}'")
    try:
        query = QUERY.replace("GROUP BY", "GROUP BY k % 7,")
        assert "partitions=[2], buckets=[5]" in events.explain(query)
        (actual,) = events.execute(query)
        assert sorted(map(repr, actual.rows)) == rows
    finally:
        for key in settings:
            events.execute(f"RESET '{key}'")
