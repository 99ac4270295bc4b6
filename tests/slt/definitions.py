"""The windows of logic tests: in sqlwin's SQL, and by definition in DuckDB."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from tests.end_to_end.stream_files import write_next
from tests.oracle import MINUTE_US, OracleWindow
from tests.slt.script import Record, fill

WINDOWS = {
    "tumble": OracleWindow("TUMBLE", 10 * MINUTE_US),
    "offset": OracleWindow("TUMBLE", 10 * MINUTE_US, offset_us=-3 * MINUTE_US),
    "hop": OracleWindow("HOP", 20 * MINUTE_US, 5 * MINUTE_US),
    "paired": OracleWindow("HOP", 25 * MINUTE_US, 10 * MINUTE_US),
    "cumulate": OracleWindow("CUMULATE", 30 * MINUTE_US, 10 * MINUTE_US),
    # only for windows over windows
    "wide": OracleWindow("TUMBLE", 60 * MINUTE_US),
}
GAP_US = 2 * MINUTE_US
SESSION = f"TABLE(SESSION(TABLE data, DESCRIPTOR(ts), INTERVAL '{GAP_US // 1_000_000}' SECOND))"


def in_sqlwin(name: str) -> str:
    """Return sqlwin's SQL for `{window}`."""
    return SESSION if name == "session" else WINDOWS[name].call


def in_duckdb(name: str) -> str:
    """Return DuckDB's SQL for `{window}`."""
    return f"windowed_{name}"


def sql_of(record: Record) -> tuple[str, str]:
    """Return the SQL of a record, and the SQL for the oracle."""
    window = record.variables.get("window")
    ours = fill(record, window=in_sqlwin(window)) if window else fill(record)
    theirs = fill(record, window=in_duckdb(window)) if window else ours
    return ours.sql, theirs.below or theirs.sql


def rows(seed: int = 5, n_rows: int = 90) -> pa.Table:
    """Rows on both sides of 1970, no two at the same time; some without time, key or value."""
    rng = np.random.default_rng(seed)
    times = rng.choice(np.arange(-40 * 60, 50 * 60), n_rows, replace=False).astype("int64")
    ts = [None if i % 30 == 7 else int(t) * 1_000_000 for i, t in enumerate(times)]
    return pa.table(
        {
            "ts": pa.array(ts, pa.timestamp("us")),
            "k": pa.array([None if i % 17 == 3 else "abc"[v] for i, v in
                           enumerate(rng.integers(0, 3, n_rows))]),
            "v": pa.array([None if i % 11 == 5 else int(v) for i, v in
                           enumerate(rng.integers(-9, 30, n_rows))], pa.int64()),
        }
    )  # fmt: skip


def create_data(directory: Path) -> str:
    """Write the rows, ordered by time, as two files and return the CREATE TABLE of `data`.

    As a stream the table is read in two micro-batches. The first closes about half of the windows.
    """
    data = rows().sort_by("ts")
    for part in (data.slice(0, data.num_rows // 2), data.slice(data.num_rows // 2)):
        write_next(directory, part)
    return (
        "CREATE TABLE data (ts TIMESTAMP(6), k STRING, v BIGINT, "
        "WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector' = 'filesystem', "
        f"'path' = '{directory}', 'format' = 'parquet', 'max-files-per-trigger' = '1')"
    )


def oracle(data: pa.Table) -> duckdb.DuckDBPyConnection:
    """DuckDB with `data`, `windowed_NAME` for each window, and `assign_NAME(ts)` for cascades."""
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    con.register("rows", data)
    con.execute("CREATE TABLE data AS SELECT * FROM rows")
    for name, window in WINDOWS.items():
        con.execute(f"""
            CREATE MACRO assign_{name}(ts) AS (
              SELECT list_transform({window.windows_sql}, lambda w: {{
                'window_start': make_timestamp(w.s), 'window_end': make_timestamp(w.e),
                'window_time': make_timestamp(w.e - 1000)}})
              FROM (SELECT epoch_us(ts) AS t))
        """)
        con.execute(f"""
            CREATE TABLE windowed_{name} AS
            SELECT data.*, unnest(assign_{name}(ts), recursive := true)
            FROM data WHERE ts IS NOT NULL
        """)
    con.execute(f"""
        CREATE TABLE windowed_session AS
        SELECT ts, k, v, first AS window_start, last + to_microseconds({GAP_US}) AS window_end,
               last + to_microseconds({GAP_US - 1000}) AS window_time
        FROM (
          SELECT *, min(ts) OVER (PARTITION BY n) AS first, max(ts) OVER (PARTITION BY n) AS last
          FROM (
            SELECT *, sum(CASE WHEN apart THEN 1 ELSE 0 END) OVER (ORDER BY ts) AS n
            FROM (
              SELECT *, ts - lag(ts) OVER (ORDER BY ts) > to_microseconds({GAP_US})
                AS apart
              FROM data WHERE ts IS NOT NULL)))
    """)  # fmt: skip
    return con
