"""Test files of flink-unittest: the same keys, types from values, partial columns."""

from __future__ import annotations

import pytest

from sqlwin.testing.cases import read_cases
from sqlwin.testing.documents import CaseFileError
from tests.sqlwin.testing.test_command import run

WINDOWS = """
tests:
  - name: a count per window
    backend: flink
    sql: |
      SELECT k, window_start, window_end, COUNT(*) AS n
      FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(at), INTERVAL '10' SECONDS))
      GROUP BY k, window_start, window_end
    given:
      events:
        schema:
          - {name: k, type: STRING}
          - {name: at, type: TIMESTAMP(3)}
        watermark: "at AS at - INTERVAL '5' SECOND"
        rows:
          - {k: a, at: '2024-01-01 00:00:01'}
          - {k: a, at: '2024-01-01 00:00:02'}
          - {k: b, at: '2024-01-01 00:00:11'}
    expect:
      rows:
        - {n: 2, k: a}
        - {n: 1, k: b}
"""
PLAIN = """
tests:
  - name: types follow from values
    sql: SELECT amount + 1 AS more, rate * 2 AS twice, UPPER(name) AS name, is_new FROM t
    given:
      t:
        - {amount: 1, rate: 1, name: x, is_new: true}
        - {amount: 2, rate: 0.5, name: y}
    expect:
      ordered: true
      strict: true
      rows:
        - {more: 2, twice: 2.0, name: X, is_new: true}
        - {more: 3, twice: 1.0, name: Y}
"""


def _file(tmp_path, text):
    path = tmp_path / "tests.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("text", [WINDOWS, PLAIN])
def test_a_test_runs_like_a_case(tmp_path, text):
    code, out, err = run(_file(tmp_path, text), "--histories", "3")
    assert code == 0 and out.startswith("1 passed"), out + err


def test_a_test_of_windows_runs_in_histories(tmp_path):
    _, out, _ = run(_file(tmp_path, WINDOWS), "--histories", "3")
    assert "1 passed, 3 histories" in out


def test_only_the_named_columns_are_compared_unless_strict(tmp_path):
    wrong = WINDOWS.replace("{n: 1, k: b}", "{n: 3, k: b}")
    code, out, _ = run(_file(tmp_path, wrong), "--histories", "1")
    assert code == 1 and "columns: k, n\n" in out
    strict = WINDOWS.replace("    expect:\n", "    expect:\n      strict: true\n")
    code, out, _ = run(_file(tmp_path, strict), "--histories", "1")
    assert code == 1 and "columns: k, window_start, window_end, n\n" in out


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rows:\n          - {k: a", "rows_file: a.csv\n        more:\n          - {k: a",
         "15: the key 'rows_file' of flink-unittest is not supported"),
        ("- {name: k, type: STRING}", "- {name: k}", "12: a column lacks the key 'type'"),
        ("    sql: |", "    query: |", "5: the key 'query' of flink-unittest is not supported"),
    ],
)  # fmt: skip
def test_unsupported_contents_are_errors_with_a_line(tmp_path, old, new, message):
    path = tmp_path / "tests.yaml"
    path.write_text(WINDOWS.replace(old, new, 1))
    with pytest.raises(CaseFileError) as raised:
        read_cases(path)
    assert f"tests.yaml:{message}" in raised.value.message
