"""Test files for tables of the connector `hybrid`, with rows of their parts or of the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sqlwin.testing.test_command import run

SCRIPT = """
CREATE TABLE history (id BIGINT, ts TIMESTAMP(3), page STRING) WITH (
  'connector' = 'filesystem', 'path' = '/no/such/history', 'format' = 'parquet');
CREATE TABLE live (page STRING, TS TIMESTAMP(3), id BIGINT, WATERMARK FOR ts AS ts) WITH (
  {live});
CREATE TABLE clicks WITH (
  'connector' = 'hybrid', 'first' = 'history', 'then' = 'live',
  'overlap' = '1 min', 'overlap.key' = 'id');
SELECT window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end;
"""
TOPIC = (
    "'connector' = 'kafka', 'topic' = 't', 'format' = 'json', "
    "'properties.bootstrap.servers' = 'localhost:9'"
)
FILES = "'connector' = 'filesystem', 'path' = '/no/such/live', 'format' = 'parquet'"
# The history is not in order of time. Row 2 of `live` is before the overlap, 4 is in both tables.
BOTH = """
      history:
        rows:
          - [3, '2026-01-01 00:02:10', a]
          - [1, '2026-01-01 00:00:30', a]
          - [4, '2026-01-01 00:02:30', a]
      live:
        rows:
          - [a, '2026-01-01 00:00:40', 2]
          - [a, '2026-01-01 00:02:20', 5]
          - [a, '2026-01-01 00:02:30', 4]
          - [a, '2026-01-01 00:03:30', 6]
"""
OF_TABLE = """
      clicks:
        rows:
          - [a, '2026-01-01 00:00:30', 1]
          - [a, '2026-01-01 00:02:10', 3]
          - [a, '2026-01-01 00:02:20', 5]
          - [a, '2026-01-01 00:02:30', 4]
          - [a, '2026-01-01 00:03:30', 6]
"""
EXPECTED = """
    expect:
      rows:
        - ['2026-01-01 00:01:00', 1]
        - ['2026-01-01 00:03:00', 3]
        - ['2026-01-01 00:04:00', 1]
"""


def run_case(directory: Path, tables: str, live: str) -> tuple[int, str]:
    """Run the script with rows of some tables, without Spark, and return exit code and output."""
    (directory / "clicks.sql").write_text(SCRIPT.format(live=live))
    path = directory / "clicks.sqlwin.yaml"
    path.write_text(
        f"file: clicks.sql\ncases:\n  - name: clicks\n    tables:{tables.rstrip()}{EXPECTED}"
    )
    code, output, errors = run(str(path), "--no-spark", "--histories", "3")
    return code, output + errors


def test_rows_of_both_parts_are_those_of_the_table(tmp_path: Path) -> None:
    code, output = run_case(tmp_path, BOTH, TOPIC)
    assert code == 0, output
    assert "1 passed" in output


def test_the_table_itself_may_have_rows(tmp_path: Path) -> None:
    code, output = run_case(tmp_path, OF_TABLE, FILES)
    assert code == 0, output


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            BOTH.partition("      live:")[0],
            "table `history` is a part of `clicks`, and so is `live`, which has no rows",
        ),
        (
            BOTH.replace("rows:\n          - [a,", "rows:\n          - wait: 1 s\n          - [a,"),
            "table `live` is a part of `clicks`, whose rows cannot wait",
        ),
    ],
    ids=["one part", "waits"],
)
def test_parts_whose_rows_have_no_order_are_refused(
    tables: str, message: str, tmp_path: Path
) -> None:
    code, output = run_case(tmp_path, tables, FILES)
    assert code == 2
    assert message in output
