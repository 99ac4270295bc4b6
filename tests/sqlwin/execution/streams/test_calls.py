"""Number of calls from Python to Java during a stream. Each call costs CPU time."""

from __future__ import annotations

import datetime as dt
import os
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.java_gateway import GatewayClient

import sqlwin

BEGIN = dt.datetime(2026, 1, 1)  # noqa: DTZ001
INSERT = """
    INSERT INTO totals
    SELECT window_end, k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
    GROUP BY window_start, window_end, k
"""


@pytest.mark.long
def test_a_micro_batch_calls_java_a_few_times(
    fresh_session: sqlwin.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    send = GatewayClient.send_command
    own = threading.current_thread()

    def sent(self: GatewayClient, command: str, *args: object, **options: object) -> object:
        nonlocal calls
        thread = threading.current_thread()
        # calls from Spark to Python; timers look at streams. `m`: releases of Java objects
        is_called = thread is not own and not thread.name.startswith("stream-")
        calls += is_called and not command.startswith("m\n")
        return send(self, command, *args, **options)

    monkeypatch.setattr(GatewayClient, "send_command", sent)
    session, counts = fresh_session, []
    for n_batches in (4, 12):
        place = tmp_path / str(n_batches)
        (place / "events").mkdir(parents=True)
        for minute in range(n_batches):
            rows = pa.table({"ts": [BEGIN + dt.timedelta(minutes=minute)], "k": ["a"]})
            file = place / "events" / f"{minute:02}.parquet"
            pq.write_table(rows, file)
            # Spark reads files in order of their modification times
            os.utime(file, (1_700_000_000 + minute,) * 2)
        calls = 0
        (*_, result) = session.execute(f"""
            SET 'execution.runtime-mode' = 'streaming';
            SET 'execution.checkpointing.interval' = '1 ms';
            SET 'execution.checkpointing.dir' = '{place}/checkpoints';
            CREATE OR REPLACE TABLE events (ts TIMESTAMP(3), k STRING, WATERMARK FOR ts AS ts)
            WITH ('connector' = 'filesystem', 'path' = '{place}/events', 'format' = 'parquet',
                  'max-files-per-trigger' = '1');
            CREATE OR REPLACE TABLE totals (window_end TIMESTAMP(3), k STRING, n BIGINT)
            WITH ('connector' = 'filesystem', 'path' = '{place}/totals', 'format' = 'parquet');
            {INSERT}
        """)
        assert result.stream is not None and result.stream.wait()
        assert pq.read_table(place / "totals").num_rows == n_batches
        counts.append(calls)
    few, many = counts
    # to write its rows, and one for the report as text; PySpark makes 750 to read a report
    assert 0 < (many - few) / 8 < 100
