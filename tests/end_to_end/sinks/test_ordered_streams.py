"""Streams whose micro-batches are sorted compute each micro-batch once."""

from __future__ import annotations

from pathlib import Path

import pytest

import sqlwin
from tests.end_to_end.recovery.killed_stream import QUERY, readings
from tests.end_to_end.recovery.test_killed import LATE, write_input


@pytest.mark.long
def test_a_sorted_stream_has_the_rows_of_the_batch_in_order(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    """Spark reads a sample before it sorts. The state of several key groups must survive that."""
    write_input(tmp_path, 6)
    fresh_session.execute(f"""
        {readings(tmp_path)}
        CREATE TABLE totals (k INT, window_end TIMESTAMP(6), n BIGINT, total BIGINT)
        WITH ('connector' = 'memory');
        SET 'execution.runtime-mode' = 'streaming'""")
    fresh_session.execute(f"INSERT INTO totals {QUERY} ORDER BY window_end, k")
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    on_time = f"WHERE k <> {LATE}"
    rows = [tuple(row) for row in fresh_session.sql(f"SELECT * FROM totals {on_time}").collect()]
    expected = fresh_session.sql(f"SELECT * FROM ({QUERY}) {on_time}").collect()
    assert rows == sorted(map(tuple, expected), key=lambda row: (row[1], row[0]))
