"""Streams from files to files: `python killed_stream.py DIRECTORY KIND`.

KIND is `insert`, an INSERT with a side output for late rows, or `set`, INSERTs that share a stream.
"""

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


def readings(directory: Path | str, options: str = "") -> str:
    """Return the table `readings`, a directory of files, one per micro-batch."""
    return f"""
        CREATE TABLE readings (
          k INT, v BIGINT, ts TIMESTAMP(6),
          WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
        ) WITH (
          'connector' = 'filesystem', 'path' = '{directory}/in', 'format' = 'parquet',
          'max-files-per-trigger' = '1'{options});
    """


def tables(directory: Path) -> str:
    """Return the tables of `insert`: `readings`, `totals`, and `too_late` for late readings."""
    return f"""
        {readings(directory, ", 'late-rows' = 'too_late'")}
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

# By target table, in the order of the set
SET_QUERIES = {
    "minutes": """
        SELECT k, window_end, COUNT(*) AS n, SUM(v) AS total
        FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
        GROUP BY k, window_start, window_end""",
    "moving": """
        SELECT k, window_end, MAX(v) AS n, COUNT(DISTINCT v) AS total
        FROM TABLE(HOP(TABLE readings, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '5' MINUTES))
        GROUP BY k, window_start, window_end HAVING COUNT(*) > 80""",
    "so_far": """
        SELECT k, window_end, COUNT(*) AS n, SUM(v) AS total
        FROM TABLE(CUMULATE(TABLE readings, DESCRIPTOR(ts), INTERVAL '2' MINUTES, INTERVAL '8' MINUTES))
        GROUP BY k, window_start, window_end""",
}


def set_tables(directory: Path) -> str:
    """Return the tables of `set`: `readings`, the tables that the set writes, and `too_late`."""
    late = f"""
        CREATE TABLE too_late (late_for STRING, v BIGINT, missed_watermark TIMESTAMP(6))
        WITH ('connector' = 'filesystem', 'path' = '{directory}/late', 'format' = 'parquet');
    """
    return (
        late
        + readings(directory, ", 'late-rows' = 'too_late'")
        + "".join(
            f"""
        CREATE TABLE {name} (k INT, window_end TIMESTAMP(3), n BIGINT, total BIGINT)
        WITH ('connector' = 'filesystem', 'path' = '{directory}/{name}', 'format' = 'parquet');
        """
            for name in SET_QUERIES
        )
    )


def statement_set() -> str:
    """Return the statement set."""
    inserts = " ".join(f"INSERT INTO {name} {query};" for name, query in SET_QUERIES.items())
    return f"EXECUTE STATEMENT SET BEGIN {inserts} END;"


def main(directory: Path, kind: str) -> None:
    """Run the stream to its end, or resume where an earlier run was killed."""
    settings = {
        "execution.runtime-mode": "streaming",
        "execution.checkpointing.dir": str(directory / "checkpoint"),
    }
    setup, statement = {
        "insert": (tables, f"INSERT INTO totals {QUERY}"),
        "set": (set_tables, statement_set()),
    }[kind]
    with sqlwin.connect(master="local[2]", conf=CONF, settings=settings) as session:
        session.execute(setup(directory))
        print("ready", flush=True)
        (result,) = session.execute(statement)
        assert len(session.streams.all()) <= 1, "the INSERTs share no stream"
        print(result.message, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
