"""Queries with every streaming operator, for tests that run them outside a single process.

Records in tests/slt give the results of such queries.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

QUERIES = {
    "tumble": """
        SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s, AVG(v) AS a
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
        GROUP BY k, window_start, window_end""",
    "hop, filters and expressions": """
        SELECT UPPER(k) AS key, window_time, MAX(v) + 1 AS m, COUNT(DISTINCT v % 7) AS d,
               COUNT(*) FILTER (WHERE 100 / v > 2) AS f, LAST_VALUE(v) AS l
        FROM TABLE(HOP(
          (SELECT ts, k, v FROM events WHERE v > 10 AND k <> 'c'),
          DESCRIPTOR(ts), INTERVAL '30' SECONDS, INTERVAL '2' MINUTES))
        WHERE v < 900
        GROUP BY k, window_start, window_end, window_time
        HAVING COUNT(*) > 1""",
    "first and last values, NULLs left out or kept": """
        SELECT k, window_end, FIRST_VALUE(CASE WHEN v % 5 = 0 THEN v END) AS f,
               LAST_VALUE(CASE WHEN v % 5 = 0 THEN v END) AS l,
               LAST_VALUE(CASE WHEN v % 5 = 0 THEN v END) RESPECT NULLS AS r
        FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '30' SECONDS, INTERVAL '2' MINUTES))
        GROUP BY k, window_start, window_end""",
    "estimates": """
        SELECT k, window_end, COUNT(DISTINCT v) AS exactly, APPROX_COUNT_DISTINCT(v) AS about,
               APPROX_COUNT_DISTINCT(CAST(v AS STRING), 0.2) FILTER (WHERE v % 3 > 0) AS texts,
               APPROX_COUNT_DISTINCT(CAST(v AS DECIMAL(30, 2)), 0.01) AS large,
               APPROX_PERCENTILE(v, 0.5) AS median, MEDIAN(v) AS middle,
               PERCENTILE(v / 7, 0.9) FILTER (WHERE v % 3 > 0) AS ninth,
               PERCENTILE_APPROX(v / 7, ARRAY(0.1, 0.5, 0.99), 1000) AS three,
               APPROX_PERCENTILE(lts, 0.9) FILTER (WHERE v < 300) AS late,
               APPROX_PERCENTILE(CAST(v AS DECIMAL(12, 2)), 1.0) FILTER (WHERE v < 0) AS nothing
        FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '30' SECONDS, INTERVAL '2' MINUTES))
        GROUP BY k, window_start, window_end""",
    "estimates of sessions, and of windows again": """
        SELECT window_start, APPROX_COUNT_DISTINCT(d) AS d, APPROX_PERCENTILE(m, 0.5) AS m,
               MEDIAN(h) AS h, n
        FROM (SELECT k, window_start, window_end, COUNT(*) AS n,
                     APPROX_COUNT_DISTINCT(v) AS d, APPROX_PERCENTILE(v, 0.5) AS m, MEDIAN(v) AS h
              FROM TABLE(SESSION(TABLE events PARTITION BY k, DESCRIPTOR(ts), INTERVAL '6' SECONDS))
              GROUP BY k, window_start, window_end)
        GROUP BY window_start, window_end, n""",
    "cumulate without keys": """
        SELECT window_start, window_end, COUNT(*) AS n, STDDEV_POP(v) AS d, MIN(k) AS k
        FROM TABLE(CUMULATE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '5' MINUTES))
        GROUP BY window_start, window_end""",
    "local time": """
        SELECT k, window_start, window_end, SUM(v) AS s
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(lts), INTERVAL '2' MINUTES))
        GROUP BY k, window_start, window_end""",
    "session": """
        SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s
        FROM TABLE(SESSION(TABLE events PARTITION BY k, DESCRIPTOR(ts), INTERVAL '6' SECONDS))
        GROUP BY k, window_start, window_end""",
    "union": """
        SELECT k, window_end, COUNT(*) AS n
        FROM TABLE(TUMBLE(
          (SELECT ts, k FROM events WHERE v > 500 UNION ALL SELECT ts, 'all' FROM events),
          DESCRIPTOR(ts), INTERVAL '1' MINUTE))
        GROUP BY k, window_end""",
    "cascade": """
        SELECT window_start, window_end, SUM(n) AS n, MAX(s) AS s
        FROM TABLE(TUMBLE(
          (SELECT window_time AS t, n, s FROM (
             SELECT k, window_start, window_end, window_time, COUNT(*) AS n, SUM(v) AS s
             FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '30' SECONDS))
             GROUP BY k, window_start, window_end, window_time) WHERE n > 1),
          DESCRIPTOR(t), INTERVAL '5' MINUTES))
        GROUP BY window_start, window_end""",
    "the same window again, and a wider one behind it": """
        SELECT window_start, window_end, SUM(most) AS s, COUNT(*) AS n
        FROM TABLE(TUMBLE(
          (SELECT MAX(n) AS most, COUNT(DISTINCT n) AS d, window_time AS t FROM (
             SELECT k, window_start, window_end, window_time, COUNT(*) AS n
             FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '30' SECONDS, INTERVAL '1' MINUTE))
             GROUP BY k, window_start, window_end, window_time) WHERE n > 1
           GROUP BY window_start, window_end, window_time),
          DESCRIPTOR(t), INTERVAL '5' MINUTES))
        GROUP BY window_start, window_end""",
    "top n": """
        SELECT k, n, s, window_end, place FROM (
          SELECT *, RANK() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, k) AS place
          FROM (SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s
                FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
                GROUP BY k, window_start, window_end))
        WHERE place <= 2 AND n > 5""",
    "the item with the most, by a join of windows": """
        SELECT a.k, a.n, a.window_end, b.most
        FROM (SELECT k, window_start, window_end, COUNT(*) AS n
              FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '30' SECONDS, INTERVAL '1' MINUTE))
              GROUP BY k, window_start, window_end) a
        JOIN (SELECT MAX(n) AS most, window_start, window_end
              FROM (SELECT k, window_start, window_end, COUNT(*) AS n
                    FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '30' SECONDS, INTERVAL '1' MINUTE))
                    GROUP BY k, window_start, window_end)
              GROUP BY window_start, window_end) b
        ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.n >= b.most""",
    "a full join of windows": """
        SELECT a.k AS ak, a.n, b.k AS bk, b.s
        FROM (SELECT k, window_start, window_end, COUNT(*) AS n
              FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
              WHERE v > 500 GROUP BY k, window_start, window_end) a
        FULL JOIN (SELECT k, window_start, window_end, SUM(v) AS s
              FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
              WHERE v < 500 GROUP BY k, window_start, window_end) b
        ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k""",
    "no aggregate": """
        SELECT k, v, window_end
        FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '2' MINUTES))
        WHERE v > 900""",
    "a join with a bounded table": """
        SELECT name, window_end, COUNT(*) AS n
        FROM TABLE(TUMBLE(
          (SELECT e.ts, n.name FROM events e JOIN names n ON e.k = n.k),
          DESCRIPTOR(ts), INTERVAL '1' MINUTE))
        GROUP BY name, window_end""",
}


def events(n_rows: int, start_s: int, seed: int) -> pa.Table:
    """Return rows in order of time, some without a time."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(start_s * 10, (start_s + 300) * 10, n_rows)) * 100_000
    ts = pa.array(times, pa.timestamp("us"), mask=rng.random(n_rows) < 0.02)
    return pa.table(
        {
            "ts": ts,
            "lts": ts.cast(pa.int64()).cast(pa.timestamp("us", tz="UTC")),
            "k": pa.array(np.array(["a", "b", "c", "d"])[rng.integers(0, 4, n_rows)]),
            "v": pa.array(rng.integers(1, 1000, n_rows)),
        }
    )
