"""The pytest plugin: test files are collected, fixtures simulate queries."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

pytest_plugins = ["pytester"]

TABLE = """
tables:
  t:
    columns: {ts: TIMESTAMP(3), k: STRING}
    watermark: ts - INTERVAL '5' SECOND
    rows: [['00:00:01', a], ['00:00:12', b]]
cases:
  - name: counts rows
    query: |
      SELECT k, window_end, COUNT(*) AS n
      FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
      GROUP BY k, window_start, window_end
    expect:
      rows: [[a, '00:00:10', 1], [b, '00:00:20', N]]
"""
FIXTURES = '''
import datetime as dt
from sqlwin.testing import assert_rows

ROWS = [{"ts": dt.datetime(2024, 1, 1, 0, 0, s), "k": "ab"[s % 2]} for s in range(30)]
SQL = """SELECT window_end, COUNT(*) AS n
  FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
  WHERE k = :k GROUP BY window_start, window_end"""

def test_counts(simulate):
    rows = simulate(SQL, {"t": ROWS}, watermarks={"t": "ts - INTERVAL '3' SECOND"},
                    params={"k": "a"}, histories=5, seed=3)
    assert_rows(rows, [{"window_end": dt.datetime(2024, 1, 1, 0, 0, s), "n": 5}
                       for s in (10, 20, 30)])

def test_differences(simulate):
    rows = simulate(SQL, {"t": ROWS}, watermarks={"t": "ts"}, params={"k": "a"}, histories=1)
    assert_rows(rows, [])

def test_session(sqlwin_session):
    (result,) = sqlwin_session.execute("SELECT 1 AS one")
    assert result.to_arrow().to_pylist() == [{"one": 1}]
'''
# An installed sqlwin has the plugin's entry point
IS_INSTALLED = any(point.name == "sqlwin" for point in entry_points(group="pytest11"))
PLUGIN = () if IS_INSTALLED else ("-p", "sqlwin.testing.plugin")
ARGUMENTS = (*PLUGIN, "-p", "no:cacheprovider")


@pytest.mark.long
def test_cases_are_tests_and_failures_are_shown(pytester: pytest.Pytester) -> None:
    pytester.makefile(
        ".sqlwin.yaml", good=TABLE.replace("N]]", "1]]"), bad=TABLE.replace("N]]", "2]]")
    )
    result = pytester.runpytest_subprocess(*ARGUMENTS, "--sqlwin-histories", "2")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*the rows differ from `rows`*", "*expected * | actual*"])


@pytest.mark.long
def test_a_bad_file_is_an_error_of_collection(pytester: pytest.Pytester) -> None:
    pytester.makefile(".sqlwin.yaml", bad="case: []")
    result = pytester.runpytest_subprocess(*ARGUMENTS)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*bad.sqlwin.yaml:1: unknown key 'case' (did you mean 'cases'?)*"])


@pytest.mark.long
def test_fixtures_simulate_queries(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FIXTURES)
    result = pytester.runpytest_subprocess(*ARGUMENTS)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*AssertionError: the rows differ*", "*actual*"])
