"""Estimates and percentiles merged from slices equal those that Spark computes per window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

CALLS = [
    "APPROX_COUNT_DISTINCT(b)",
    "APPROX_COUNT_DISTINCT(i)",
    "APPROX_COUNT_DISTINCT(word)",
    "APPROX_COUNT_DISTINCT(d)",
    "APPROX_COUNT_DISTINCT(f)",
    "APPROX_COUNT_DISTINCT(flag)",
    "APPROX_COUNT_DISTINCT(day)",
    "APPROX_COUNT_DISTINCT(ts)",
    "APPROX_COUNT_DISTINCT(small)",
    "APPROX_COUNT_DISTINCT(raw)",
    "APPROX_COUNT_DISTINCT(b, 0.01)",
    "APPROX_COUNT_DISTINCT(b % 3000, 0.2)",
    "APPROX_COUNT_DISTINCT(word) FILTER (WHERE i > 10)",
    "COUNT(DISTINCT i)",
]

# Windows with fewer rows than the accuracy, so that percentiles are exact
PERCENTILES = [
    "APPROX_PERCENTILE(i, 0.5)",
    # Spark's sketch loses its order with NaN, which here is the largest value
    "PERCENTILE_APPROX(ABS(NANVL(d, 5000.0)), ARRAY(0.1, 0.3, 0.6))",
    "APPROX_PERCENTILE(b, ARRAY(0, 0.00005, 0.25, 0.9999, 1.0), 10000)",
    "APPROX_PERCENTILE(f, 0.25)",
    "APPROX_PERCENTILE(small, 0.75)",
    "APPROX_PERCENTILE(large, ARRAY(0.5))",
    "APPROX_PERCENTILE(day, 0.5)",
    "APPROX_PERCENTILE(ts, 0.3)",
    "APPROX_PERCENTILE(i, 0.9) FILTER (WHERE i > 100 AND NOT flag)",
    "MEDIAN(i)",
    "MEDIAN(small) FILTER (WHERE flag)",
    "MEDIAN(large)",
    "MEDIAN(i) FILTER (WHERE i > 1000)",
    "PERCENTILE(b, 0.999)",
    "PERCENTILE(f, 0.25)",
    "PERCENTILE(ABS(NANVL(d, 5000.0)), 0.1)",
    *(
        f"PERCENTILE_{kind} WITHIN GROUP (ORDER BY {value})"
        for kind in ("CONT(0.37)", "DISC(0.3)", "DISC(0.8)")
        for value in ("i", "i DESC", "ABS(NANVL(d, 5000.0)) DESC", "small")
    ),
    *(
        f"MODE() WITHIN GROUP (ORDER BY {value})"
        for value in ("i", "i DESC", "word", "flag DESC", "day", "raw", "large", "f")
    ),
    "APPROX_PERCENTILE(i, 0.9) FILTER (WHERE i > 1000)",
    "APPROX_PERCENTILE(i, ARRAY(0.9)) FILTER (WHERE i > 1000)",
]


@pytest.fixture(scope="module")
def path(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("approximate") / "events"
    spark.sql("""
        SELECT timestamp_ntz'2026-01-01 00:00:00' + make_interval(0, 0, 0, 0, 0, 0, id) AS ts,
          int(id % 3) AS k,
          id * 7919 AS b, if(id % 11 = 0, NULL, int(id % 700)) AS i,
          substring(repeat(sha2(string(id % 5000), 256), 2), 1, int(id % 101)) AS word,
          element_at(array(0.0D, -0.0D, double('NaN'), NULL, id / 7D), int(id % 5) + 1) AS d,
          float(id % 97) AS f, id % 2 = 0 AS flag, date_add(date'2026-01-01', int(id % 50)) AS day,
          cast(id * 1.37 AS decimal(12, 2)) AS small, cast(id AS decimal(30, 2)) AS large,
          encode(string(id), 'utf-8') AS raw
        FROM range(0, 40000, 1, 4)
    """).write.parquet(str(path))
    return path


def run(session: Any, table: str, calls: list[str]) -> list[Any]:
    rows = session.sql(f"""
        SELECT k, window_end, {", ".join(calls)}
        FROM TABLE(HOP(TABLE {table}, DESCRIPTOR(ts), INTERVAL '30' MINUTES, INTERVAL '3' HOURS))
        GROUP BY k, window_start, window_end
    """).collect()
    return sorted(map(tuple, rows))


def test_estimates_equal_those_of_spark_in_each_window(session: Any, path: Path) -> None:
    session.execute(f"""
        CREATE OR REPLACE TABLE estimated WITH (
          'connector' = 'filesystem', 'format' = 'parquet', 'path' = '{path}')
    """)
    session.register("read", session.spark.read.parquet(str(path)))
    query = f"""
        SELECT {CALLS[2]}
        FROM TABLE(TUMBLE(TABLE estimated, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_end
    """
    assert "ArrowScanLocalWindowAggregate" in session.explain(query)
    # The scan cannot hash wide decimals, so Spark does.
    calls = [*CALLS, "APPROX_COUNT_DISTINCT(large)"]
    assert "ArrowScan" not in session.explain(query.replace(CALLS[2], calls[-1]))
    scanned, by_catalyst = run(session, "estimated", CALLS), run(session, "read", calls)
    calls += PERCENTILES
    of_slices = run(session, "read", calls)
    explained = session.explain(query.replace(CALLS[2], ", ".join(PERCENTILES)))
    assert "GlobalWindowAggregate" in explained
    session.execute("SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE'")
    try:
        expected = run(session, "read", calls)
    finally:
        session.execute("RESET 'table.optimizer.agg-phase-strategy'")
    assert len(expected) > 40
    assert of_slices == expected
    n_percentiles = len(PERCENTILES)
    assert by_catalyst == [row[:-n_percentiles] for row in expected]
    assert scanned == [row[:-1] for row in by_catalyst]
