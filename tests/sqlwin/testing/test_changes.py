"""Tables of cases that are given by their changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sqlwin.testing.test_command import run

ORDERS = """
query: |
  CREATE TABLE orders (
    id INT, at_ms BIGINT, v BIGINT, ts AS TO_TIMESTAMP_LTZ(at_ms, 3),
    WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE
  ) WITH ('connector' = 'kafka', 'topic' = 'orders', 'format' = 'debezium-json');
  SELECT window_start, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS m
  FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
  GROUP BY window_start, window_end
cases:
  - name: a row moves and a row goes
    tables:
      orders:
        changes:
          - [+I, 1, 10000, 5]
          - wait: 1 s
          - [+I, 2, 20000, 7]
          - [-U, 1, 10000, 5]
          - [+U, 1, 70000, 6]
          - [-D, 2, 20000, 7]
          - {kind: +I, id: 3, at_ms: 30000, v: 1}
    expect:
      rows:
        - ['00:00:00', 1, 1, 1]
        - ['00:01:00', 1, 6, 6]
"""


def run_text(tmp_path: Path, text: str) -> tuple[int, str, str]:
    path = tmp_path / "a.sqlwin.yaml"
    path.write_text(text)
    return run(str(path), "--histories", "20")


def test_the_rows_that_remain_are_tested_in_batch_and_in_histories(tmp_path: Path) -> None:
    code, out, _ = run_text(tmp_path, ORDERS)
    assert code == 0 and out.startswith("1 passed, 20 histories"), out


def test_computed_instants_of_rows_are_stored_in_utc(tmp_path: Path) -> None:
    zone = "SET 'table.local-time-zone' = 'Asia/Kolkata';"
    text = ORDERS.replace("CREATE TABLE", f"{zone}\n  CREATE TABLE")
    code, out, err = run_text(tmp_path, text.replace("'00:0", "'1970-01-01 05:3"))
    assert code == 0 and out.startswith("1 passed, 20 histories"), out + err


SELECTED = """
query: |
  CREATE TABLE orders (
    id INT, at_ms BIGINT, v BIGINT, ts AS TO_TIMESTAMP_LTZ(at_ms, 3),
    WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE, PRIMARY KEY (id) NOT ENFORCED
  ) WITH ('connector' = 'kafka', 'topic' = 'orders', 'format' = 'debezium-json');
  {}
cases:
  - name: rows move out of the filter and into it
    tables:
      orders:
        changes:
          - [+I, 1, 10000, 5]
          - [+I, 2, 20000, 7]
          - [+I, 4, 20000, 7]
          - wait: 1 s
          - [-U, 1, 10000, 5]
          - [+U, 1, 70000, 2]
          - [-U, 4, 20000, 7]
          - [+U, 4, 20000, 9]
          - [-D, 2, 20000, 7]
          - [+I, 3, 30000, 1]
          - wait: 1 s
          - [-U, 3, 30000, 1]
          - [+U, 3, 90000, 6]
    expect:
      rows:
        - [3, 12]
        - [4, 18]
"""


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, v * 2 AS d FROM orders WHERE v > 2",
        "WITH c AS (SELECT o.id, v * 2 AS d FROM orders AS o) SELECT * FROM c WHERE d > 4",
        pytest.param(
            "SELECT id, d FROM (SELECT id, v, v + v AS d FROM orders) WHERE v > 2",
            marks=pytest.mark.long,
        ),
    ],
)
def test_rows_of_keys_are_selected_in_batch_and_in_histories(tmp_path: Path, query: str) -> None:
    code, out, _ = run_text(tmp_path, SELECTED.format(query))
    assert code == 0 and out.startswith("1 passed, 20 histories"), out


def test_changes_of_a_case_replace_the_rows_of_all_cases(tmp_path: Path) -> None:
    rows = "tables: {orders: {rows: [[7, 10000, 70]]}}\ncases:"
    code, out, _ = run_text(tmp_path, ORDERS.replace("cases:", rows))
    assert code == 0 and out.startswith("1 passed, 20 histories"), out


@pytest.mark.parametrize(
    ("written", "changed", "message"),
    [
        ("[-D, 2, 20000, 7]", "[+I, 2, 20000, 7]", "the rows differ from `rows`"),
        (
            "[-D, 2,",
            "[D, 2,",
            "a.sqlwin.yaml:20: a change of table `orders` must begin with its kind: +I, -U, +U, -D",
        ),
        (
            "        changes:\n",
            "        rows: []\n        changes:\n",
            "a.sqlwin.yaml:16: table `orders` has both `rows` and `changes`",
        ),
        ("[-D, 2, 20000, 7]", "[-D, 2, 20000]", "a.sqlwin.yaml:20: the row has 3 values, but"),
    ],
    ids=["rows", "kind", "both", "length"],
)
def test_a_wrong_case_is_reported(written: str, changed: str, message: str, tmp_path: Path) -> None:
    code, out, err = run_text(tmp_path, ORDERS.replace(written, changed))
    assert code > 0 and message in out + err, out + err
