"""Cases that run without Spark: joins, and FILL of a stream."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sqlwin.session import Session
from sqlwin.testing.cases import read_cases
from sqlwin.testing.running import CaseResult, TestOptions, run_case
from tests.unstarted import unstarted_spark

TABLES = """
  CREATE TABLE o (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts) WITH (
    'connector' = 'filesystem', 'path' = 'o', 'format' = 'parquet');
  CREATE TABLE r (rt TIMESTAMP(3), k STRING, x INT, PRIMARY KEY (k) NOT ENFORCED,
    WATERMARK FOR rt AS rt) WITH ('connector' = 'kafka', 'topic' = 'r', 'format' = 'json',
    'properties.bootstrap.servers' = 'nowhere:9092');
"""
ROWS = """
      o: {rows: [['00:00:01', a, 1], ['00:00:02', b, 2], ['00:00:31', a, 3]]}
      r: {rows: [['00:00:00', a, 10], ['00:00:02', b, 20], ['00:00:30', a, 30]]}
"""


def result_of(tmp_path: Path, query: str, expect: str) -> CaseResult:
    """Return the result of a case that must not start Spark."""
    path = tmp_path / "a.sqlwin.yaml"
    sql = json.dumps(f"{TABLES}{query}")
    path.write_text(
        f"cases:\n  - name: one\n    query: {sql}\n    tables: {ROWS}    expect: {expect}\n"
    )
    (case,) = read_cases(path)
    session = Session(unstarted_spark(), settings={})
    return run_case(lambda: session, case, TestOptions(2, starts_spark=False))


WINDOWED = "(SELECT * FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR({}), INTERVAL '10' SECONDS)))"
JOINS = {
    "interval": "JOIN r ON o.k = r.k AND r.rt BETWEEN o.ts - INTERVAL '5' SECOND AND o.ts",
    "interval, left": "LEFT JOIN r ON o.k = r.k AND r.rt BETWEEN o.ts - INTERVAL '5' SECOND AND o.ts",
    "temporal": "JOIN r FOR SYSTEM_TIME AS OF o.ts ON o.k = r.k",
    "temporal, left": "LEFT JOIN r FOR SYSTEM_TIME AS OF o.ts ON o.k = r.k",
}


@pytest.mark.variants(2)
@pytest.mark.parametrize("join", JOINS)
def test_joins_with_a_bound_in_time_need_no_spark(tmp_path, join):
    query = f"SELECT o.k, o.v, r.x FROM o {JOINS[join]}"
    result = result_of(tmp_path, query, "{rows: [[a, 1, 10], [b, 2, 20], [a, 3, 30]]}")
    assert (result.error, result.failures, result.notes) == (None, [], [])
    assert result.n_histories == 2
    wrong = result_of(tmp_path, query, "{batch: [[a, 1, 10], [b, 2, 20], [a, 3, null]]}")
    assert wrong.failures[0].startswith("the rows differ from `batch`")


def test_joins_of_windows_need_no_spark(tmp_path):
    left, right = WINDOWED.format("o", "ts"), WINDOWED.format("r", "rt")
    query = (
        f"SELECT a.k, a.v, b.x FROM {left} a JOIN {right} b ON a.k = b.k "
        "AND a.window_start = b.window_start AND a.window_end = b.window_end"
    )
    result = result_of(tmp_path, query, "{rows: [[a, 1, 10], [b, 2, 20], [a, 3, 30]]}")
    assert (result.error, result.failures, result.notes) == (None, [], [])


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT o.k FROM o JOIN r ON o.k = r.k", "Spark computes joins"),
        (f"SELECT o.k FROM o {JOINS['interval']} ORDER BY o.ts LIMIT 1", "Spark computes joins"),
    ],
)
def test_other_joins_name_the_reason_for_spark(tmp_path, query, reason):
    result = result_of(tmp_path, query, "{rows: [[a]]}")
    assert result.needs_spark
    assert result.error is not None and f"the case 'one' needs Spark: {reason}" in result.error


FILL = (
    "SELECT k, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE o, DESCRIPTOR(ts), "
    "INTERVAL '10' SECONDS)) GROUP BY k, window_start, window_end FILL (n = 0)"
)


def test_windows_that_only_a_stream_adds_need_batch(tmp_path):
    filled = "[a, '00:00:10', 1], [a, '00:00:20', 0], [a, '00:00:30', 0], [a, '00:00:40', 1]"
    of_batch = f"[{filled}, [b, '00:00:10', 1]]"
    of_stream = f"[{filled}, [b, '00:00:10', 1], [b, '00:00:20', 0], [b, '00:00:30', 0]]"
    result = result_of(tmp_path, FILL, f"{{rows: {of_stream}}}")
    (failure,) = result.failures
    assert failure.startswith("the stream fills other windows than batch\n")
    assert "add `batch` with the rows of batch if that is meant" in failure
    both = f"{{final: {of_stream}, batch: {of_batch}}}"
    result = result_of(tmp_path, FILL, both)
    assert (result.error, result.failures) == (None, [])
    assert result.n_histories == 2
