"""A stream from files to files, as a program of its own: `python killed_stream.py DIRECTORY`."""

from __future__ import annotations

import sys
from pathlib import Path

import sqlwin

CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def tables(directory: Path) -> str:
    """The tables: `readings`, a directory of files, `totals`, and `too_late` for late readings."""
    return f"""
        CREATE TABLE readings (
          k INT, v BIGINT, ts TIMESTAMP(6),
          WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
        ) WITH (
          'connector' = 'filesystem', 'path' = '{directory}/in', 'format' = 'parquet',
          'max-files-per-trigger' = '1', 'late-rows' = 'too_late');
        CREATE TABLE totals (k INT, window_end TIMESTAMP(3), n BIGINT, total BIGINT)
        WITH ('connector' = 'filesystem', 'path' = '{directory}/out', 'format' = 'parquet');
        CREATE TABLE too_late (v BIGINT, missed_watermark TIMESTAMP(6))
        WITH ('connector' = 'filesystem', 'path' = '{directory}/late', 'format' = 'parquet');
    """


QUERY = """
    SELECT k, window_end, COUNT(*) AS n, SUM(v) AS total
    FROM TABLE(HOP(TABLE readings, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '5' MINUTES))
    GROUP BY k, window_start, window_end
"""


def main(directory: Path) -> None:
    """Run the stream to its end, or go on where an earlier run was killed."""
    settings = {
        "execution.runtime-mode": "streaming",
        "execution.checkpointing.dir": str(directory / "checkpoint"),
    }
    with sqlwin.connect(master="local[2]", conf=CONF, settings=settings) as session:
        session.execute(tables(directory))
        print("ready", flush=True)
        (result,) = session.execute(f"INSERT INTO totals {QUERY}")
        print(result.message, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
