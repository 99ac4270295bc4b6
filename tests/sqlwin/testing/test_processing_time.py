"""Processing time and CURRENT_WATERMARK in cases, in `--simulate` and in `simulate()`."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from runtime.errors import AnalysisError
from runtime.streaming.task import KeyGroupTask
from sqlwin.session import Session
from sqlwin.testing.simulation import simulate_query
from tests.sqlwin.testing.test_command import run
from tests.unstarted import unstarted_spark

CLICKS = """
tables:
  clicks:
    columns: {k: STRING, v: INT, ts: TIMESTAMP(3), pt: AS PROCTIME()}
    watermark: ts - INTERVAL '1' SECOND
    rows:
      - [a, 1, '00:00:05']
      - wait: 9999 ms
      - [a, 2, '00:00:01']
      - wait: 1 ms
      - [b, 3, '00:00:07']
      - wait: 1 min
      - [a, 4, '00:00:20']
cases:
"""
TUMBLE = """
  - name: tumble
    query: |
      SELECT k, window_start, window_end, SUM(v) AS s
      FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(pt), INTERVAL '10' SECONDS))
      GROUP BY k, window_start, window_end
    expect:
      changes:
        - [+I, a, '00:00:00', '00:00:10', 3]
        - [+I, b, '00:00:10', '00:00:20', 3]
        - [+I, a, '00:01:10', '00:01:20', 4]
      dropped: 0
"""
CALL = """
  - name: call
    settings: {table.local-time-zone: Asia/Tokyo}
    query: |
      SELECT window_end, COUNT(*) AS n
      FROM TABLE(TUMBLE((SELECT v, PROCTIME() AS arrived FROM clicks),
                        DESCRIPTOR(arrived), INTERVAL '1' MINUTE))
      GROUP BY window_start, window_end
    expect:
      rows: [['09:01:00', 3], ['09:02:00', 1]]
"""
SESSIONS = """
  - name: sessions
    query: |
      SELECT k, window_start, window_end, COUNT(*) AS n
      FROM TABLE(SESSION(TABLE clicks PARTITION BY k, DESCRIPTOR(pt), INTERVAL '10' SECONDS))
      GROUP BY k, window_start, window_end
    expect:
      rows:
        - [a, '00:00:00', '00:00:19.999', 2]
        - [b, '00:00:10', '00:00:20', 1]
        - [a, '00:01:10', '00:01:20', 1]
"""
WATERMARK = """
  - name: late rows
    query: |
      SELECT v, CURRENT_WATERMARK(ts) AS w FROM clicks WHERE ts <= CURRENT_WATERMARK(ts)
    expect:
      rows: [[2, '00:00:04']]
"""
ROWS = """
  - name: rows
    query: SELECT v, pt, CURRENT_TIMESTAMP AS now FROM clicks WHERE v = 3
    expect:
      rows: [[3, '1970-01-01 00:00:10Z', '00:00:10']]
"""


def file(tmp_path: Path, *cases: str) -> str:
    path = tmp_path / "a.sqlwin.yaml"
    path.write_text(CLICKS + "".join(cases))
    return str(path)


@pytest.mark.variants(1)
@pytest.mark.parametrize("case", [TUMBLE, CALL, SESSIONS, WATERMARK, ROWS])
def test_a_case_has_the_processing_time_of_its_waits(tmp_path: Path, case: str) -> None:
    code, out, err = run(file(tmp_path, case), "--histories", "20")
    assert (code, err) == (0, "") and out.startswith("1 passed, 20 histories"), out


def test_histories_detect_a_window_emitted_too_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = KeyGroupTask._processing_time_watermarks
    late_us = 20_000_000
    monkeypatch.setattr(
        KeyGroupTask,
        "_processing_time_watermarks",
        lambda task, clock_us: right(task, clock_us + late_us),
    )
    code, out, _ = run(file(tmp_path, TUMBLE.replace("changes", "rows").replace("+I, ", "")))
    assert code == 1 and "the stream cut at every row differs from batch" in out


def test_a_result_at_processing_time_has_no_order(tmp_path: Path) -> None:
    code, out, _ = run(file(tmp_path, ROWS.replace("rows: [[", "ordered: [[")))
    assert code == 2
    assert "a.sqlwin.yaml:19: `ordered` is not supported for processing time" in out


# Each window has the time of the micro-batch whose watermark closes it
RESULTS = """
  - name: results
    query: |
      SELECT k, window_end, COUNT(*) AS n, PROCTIME() AS now
      FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '4' SECONDS))
      GROUP BY k, window_start, window_end
    expect:
      dropped: 1
      changes:
        - [+I, a, '00:00:08', 1, '1970-01-01 00:01:10Z']
        - [+I, b, '00:00:08', 1, '1970-01-01 00:01:10Z']
        - [+I, a, '00:00:24', 1, '1970-01-01 00:01:10Z']
"""
ON_TIME = CLICKS.replace("INTERVAL '1' SECOND", "INTERVAL '5' SECOND")
# The watermark passes 00:00:02 with the third row and 00:00:08 with the last one
RESULTS_ON_TIME = """
  - name: results on time
    query: |
      SELECT k, window_end, PROCTIME() AS now
      FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' SECOND))
      GROUP BY k, window_start, window_end
    expect:
      rows:
        - [a, '00:00:02', '1970-01-01 00:00:10Z']
        - [a, '00:00:06', '1970-01-01 00:01:10Z']
        - [b, '00:00:08', '1970-01-01 00:01:10Z']
        - [a, '00:00:21', '1970-01-01 00:01:10Z']
"""
FILTERED = """
  - name: filtered
    query: |
      SELECT k, window_end
      FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' SECOND))
      GROUP BY k, window_start, window_end
      HAVING CAST(PROCTIME() AS TIMESTAMP(3)) > TIMESTAMP '1970-01-01 00:00:30'
    expect:
      rows: [[a, '00:00:06'], [b, '00:00:08'], [a, '00:00:21']]
"""
RANKED = """
  - name: ranked
    query: |
      SELECT k, n, PROCTIME() AS now FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, k) AS r
        FROM (SELECT k, window_start, window_end, COUNT(*) AS n
              FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(pt), INTERVAL '20' SECONDS))
              GROUP BY k, window_start, window_end)) WHERE r = 1
    expect:
      rows:
        - [a, 2, '1970-01-01 00:01:10Z']
        - [a, 1, '1970-01-01 00:01:10Z']
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "case",
    [RESULTS, RESULTS_ON_TIME, FILTERED, RANKED],
    ids=["late", "on time", "filtered", "ranked"],
)
def test_results_have_the_processing_time_at_which_they_are_emitted(
    tmp_path: Path, case: str
) -> None:
    path = tmp_path / "a.sqlwin.yaml"
    path.write_text((CLICKS if case is RESULTS else ON_TIME) + case)
    code, out, err = run(str(path), "--histories", "20")
    assert code == 0 and "1 passed, 20 histories" in out, out
    assert "not compared with the definition: the processing time of results" in err


@pytest.mark.long
def test_simulate_reports_that_the_time_of_results_depends_on_micro_batches(
    tmp_path: Path,
) -> None:
    query = """
        SELECT window_end, COUNT(*) AS n, PROCTIME() AS now
        FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECONDS))
        GROUP BY window_start, window_end"""
    code, out, _ = run(script(tmp_path, query), "--simulate", "20")
    assert code == 0, out
    assert "finding: PROCTIME() in results of windows is the processing time of the" in out
    assert "20 histories agree with batch at their own times" in out


def test_results_that_are_emitted_again_have_no_simulated_processing_time(tmp_path: Path) -> None:
    case = RESULTS.replace(
        "    query:", "    settings: {table.exec.emit.allow-lateness: 1 s}\n    query:"
    )
    code, out, _ = run(file(tmp_path, case))
    assert code == 2 and "needs Spark" in out, out


def test_a_computed_column_of_the_test_file_is_computed(tmp_path: Path) -> None:
    tables = CLICKS.replace("pt: AS PROCTIME()", "twice: AS v * 2")
    path = tmp_path / "a.sqlwin.yaml"
    path.write_text(f"""{tables}
  - name: twice
    query: SELECT twice FROM clicks
    expect: {{rows: [[2], [4], [6], [8]]}}
""")
    assert run(str(path))[0] == 0
    path.write_text(path.read_text().replace("AS v * 2", "AS nothing * 2"))
    code, out, _ = run(str(path))
    assert code == 2 and "a.sqlwin.yaml" in out


def test_the_waits_of_a_table_that_is_not_read_do_not_count(tmp_path: Path) -> None:
    case = """
  - name: another table
    tables:
      t: {columns: {v: INT}, rows: [[1]]}
    query: SELECT v FROM t
    expect: {rows: [[1]]}
"""
    code, out, _ = run(file(tmp_path, case))
    assert code == 0, out


def script(tmp_path: Path, query: str) -> str:
    (tmp_path / "t.csv").write_text("1,2024-01-01 00:00:00\n2,2024-01-01 00:00:11\n")
    path = tmp_path / "a.sql"
    path.write_text(f"""
        CREATE TABLE t (
          v INT, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
        ) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/t.csv', 'format' = 'csv');
        {query};
    """)
    return str(path)


def windows(column: str) -> str:
    return f"""
        SELECT window_end, SUM(v) AS s
        FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR({column}), INTERVAL '10' SECONDS))
        GROUP BY window_start, window_end
    """


FINDING = "finding: the result depends on when rows arrive: "


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("query", "cause"),
    [
        (windows("pt"), "`pt` of t is the processing time of a micro-batch"),
        (
            "SELECT v, CURRENT_WATERMARK(ts) AS w FROM t",
            "CURRENT_WATERMARK is the watermark of t before a micro-batch",
        ),
    ],
)
def test_simulate_names_results_that_depend_on_arrival(
    tmp_path: Path, query: str, cause: str
) -> None:
    code, out, _ = run("--simulate", "10", script(tmp_path, query))
    assert code == 0
    assert out.splitlines() == [
        "2 rows of t",
        FINDING + cause,
        "10 histories agree with batch at their own times and with the definition",
    ]


@pytest.mark.long
def test_unused_processing_time_is_not_reported(tmp_path: Path) -> None:
    code, out, _ = run("--simulate", "10", script(tmp_path, windows("ts")))
    assert code == 0 and FINDING not in out


@pytest.mark.parametrize(
    ("watermarks", "message"),
    [
        ({"t": " "}, "the watermark of table `t` is empty"),
        ({"u": "v"}, "`watermarks` names `u`, which is not among the tables"),
    ],
)
def test_simulate_names_a_wrong_watermark(watermarks: dict[str, str], message: str) -> None:
    session = Session(unstarted_spark(), settings={})
    with pytest.raises(AnalysisError, match=message):
        simulate_query(session, "SELECT v FROM t", {"t": [{"v": 1}]}, watermarks=watermarks)


def test_simulate_from_python_takes_calls_of_proctime() -> None:
    rows = simulate_query(
        Session(unstarted_spark(), settings={}),
        """SELECT window_end, COUNT(*) AS n
           FROM TABLE(TUMBLE((SELECT v, PROCTIME() AS pt FROM t), DESCRIPTOR(pt),
                             INTERVAL '1' MINUTE))
           GROUP BY window_start, window_end""",
        {"t": [{"v": v} for v in range(10)]},
    )
    assert rows == [{"window_end": dt.datetime(1970, 1, 1, 0, 1), "n": 10}]  # noqa: DTZ001
