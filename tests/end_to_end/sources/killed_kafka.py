"""Stream from Kafka to files: `python killed_kafka.py DIRECTORY ADDRESS`."""

from __future__ import annotations

import sys
from pathlib import Path

import sqlwin
from tests.end_to_end.recovery.killed_stream import CONF

TABLES = """
    CREATE TABLE readings (
      k INT, v BIGINT, ts TIMESTAMP(3), at BIGINT METADATA FROM 'offset',
      WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
    ) WITH (
      'connector' = 'kafka', 'topic' = 'readings', 'format' = 'json',
      'scan.startup.mode' = 'earliest-offset', 'maxOffsetsPerTrigger' = '400',
      'properties.bootstrap.servers' = '{address}');
    CREATE TABLE totals (k INT, window_end TIMESTAMP(3), n BIGINT, total BIGINT)
    WITH ('connector' = 'filesystem', 'path' = '{directory}/out', 'format' = 'parquet');
"""
QUERY = """
    SELECT k, window_end, COUNT(*) AS n, SUM(v) AS total
    FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
    GROUP BY k, window_start, window_end
"""


def main(directory: Path, address: str) -> None:
    """Run the stream until killed, resuming where an earlier run stopped."""
    settings = {"execution.checkpointing.dir": str(directory / "checkpoint")}
    with sqlwin.connect(master="local[2]", conf=CONF, settings=settings) as session:
        session.execute(TABLES.format(directory=directory, address=address))
        print("ready", flush=True)
        (result,) = session.execute(f"INSERT INTO totals {QUERY}")
        assert result.stream is not None
        result.stream.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
