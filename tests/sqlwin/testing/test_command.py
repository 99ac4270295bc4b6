"""`sqlwin test`: cases in batch, as streams and in histories; options and exit codes."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import sqlwin
from runtime.windows.tumble import Tumble
from sqlwin.cli.app import main
from tests.goldens import ROOT

START = dt.datetime(2024, 1, 1)  # noqa: DTZ001  # a wall clock
TABLE = """
tables:
  t:
    columns: {ts: TIMESTAMP(3), k: STRING, v: BIGINT}
    watermark: ts - INTERVAL '5' SECOND
    rows:
      - ['00:00:01', a, 1]
      - ['00:00:12', b, 2]
      - ['00:00:09', a, 3]
"""
QUERY = """
  - name: {name}
    query: |
      SELECT k, window_end, COUNT(*) AS n
      FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
      GROUP BY k, window_start, window_end
    expect:
"""
RIGHT = "      rows: [[a, '00:00:10', 2], [b, '00:00:20', 1]]\n"
WRONG = "      rows: [[a, '00:00:10', 1], [b, '00:00:20', 1]]  # a comment\n"
LATE = TABLE.replace("00:00:09", "00:00:02").replace("00:00:12", "00:00:16")


def run(*arguments: str) -> tuple[int, str, str]:
    """Run `sqlwin test` without Spark; return its exit code and output."""
    result = CliRunner().invoke(main, ["test", "--no-spark", *arguments], catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


def file(tmp_path: Path, *cases: str, tables: str = TABLE) -> str:
    path = tmp_path / "a.sqlwin.yaml"
    path.write_text(tables + "cases:" + "".join(cases))
    return str(path)


def case(name: str, expect: str) -> str:
    return QUERY.format(name=name) + expect


def test_a_spark_of_this_process_is_not_used(fresh_session: sqlwin.Session, tmp_path: Path):
    assert fresh_session.spark.range(1).count() == 1
    code, out, err = run(file(tmp_path, case("right", RIGHT)), "--histories", "3")
    assert (code, err) == (0, "")
    assert out.startswith("1 passed, 3 histories")


@pytest.mark.long
def test_the_example_project_passes_without_spark():
    code, out, err = run(str(ROOT / "queries/testing"), "--histories", "5")
    assert (code, err) == (0, "")
    assert out.startswith("9 passed, 40 histories")


def test_a_wrong_row_is_shown_next_to_the_actual_one(tmp_path):
    code, out, _ = run(file(tmp_path, case("first", WRONG), case("second", RIGHT)))
    assert code == 1
    assert out.splitlines()[1:5] == [
        "  the rows differ from `rows`",
        "    columns: k, window_end, n",
        "    expected                      | actual",
        "    [a, '1970-01-01 00:00:10', 1] | [a, '1970-01-01 00:00:10', 2]",
    ]
    assert "1 passed, 1 failed" in out


def test_the_first_failure_stops_the_run(tmp_path):
    code, out, _ = run(file(tmp_path, case("first", WRONG), case("second", RIGHT)), "-x")
    assert code == 1 and "0 passed, 1 failed, 1 not run" in out


def test_names_select_cases(tmp_path):
    path = file(tmp_path, case("first", WRONG), case("second", RIGHT))
    assert run(path, "-k", "second and not first")[0] == 0
    code, _, err = run(path, "-k", "third")
    assert (code, err) == (5, "no case was selected\n")
    code, _, err = run(path, "-k", "(second")
    assert code == 2 and err == (
        "error: invalid expression '(second' (for example -k 'hop and not late')\n"
    )


def test_late_rows_must_be_expected(tmp_path):
    #  0     10     20      00:00:16 moves the watermark to 11: 00:00:02 is late
    rows = "      rows: [[a, '00:00:10', 1], [b, '00:00:20', 1]]\n"
    code, out, _ = run(file(tmp_path, case("late", rows), tables=LATE))
    assert code == 1 and "1 row is late in this order of arrival" in out
    more = f"{rows}      dropped: 1\n      late: [['00:00:02', a, 3]]\n"
    more += "      batch: [[a, '00:00:10', 2], [b, '00:00:20', 1]]\n"
    code, out, _ = run(file(tmp_path, case("late", more), tables=LATE))
    assert code == 0, out
    code, out, _ = run(file(tmp_path, case("late", f"{rows}      dropped: 2\n"), tables=LATE))
    assert code == 1 and "1 rows are dropped, not 2" in out


def test_a_silent_source_holds_back_the_others_until_idle(tmp_path):
    both = """
tables:
  t:
    columns: {ts: TIMESTAMP(3), k: STRING, v: BIGINT}
    watermark: ts - INTERVAL '5' SECOND
    rows:
      - ['00:00:01', a, 1]
      - wait: 1 min
      - ['00:00:16', b, 2]
      - ['00:00:02', a, 3]
  u:
    columns: {ts: TIMESTAMP(3), k: STRING, v: BIGINT}
    watermark: ts - INTERVAL '5' SECOND
    rows: [['00:00:00', c, 1]]
"""
    query = """
  - name: idle
    query: |
      SELECT window_end, COUNT(*) AS n
      FROM TABLE(TUMBLE((SELECT * FROM t UNION ALL SELECT * FROM u), DESCRIPTOR(ts),
        INTERVAL '10' SECONDS)) GROUP BY window_start, window_end
    SETTINGS
    expect:
"""
    waiting = query.replace("SETTINGS", "")
    idle = query.replace("SETTINGS", "settings: {table.exec.source.idle-timeout: 30 s}")
    on_time = "      rows: [['00:00:10', 3], ['00:00:20', 1]]\n"
    late = "      rows: [['00:00:10', 2], ['00:00:20', 1]]\n      dropped: 1\n"
    code, out, _ = run(file(tmp_path, waiting + on_time, tables=both))
    assert code == 0, out
    code, out, _ = run(file(tmp_path, idle + late, tables=both))
    assert code == 0, out


def test_a_silent_stream_emits_its_windows_with_the_idle_advance_of_its_table(tmp_path):
    table = """
tables:
  t:
    columns: {ts: TIMESTAMP(3), k: STRING, v: BIGINT}
    watermark: ts - INTERVAL '5' SECOND
    rows:
      - ['2024-01-01 00:00:01', a, 1]
      - wait: 20 s
      - ['2024-01-01 00:00:02', a, 3]
"""
    late = "      rows: [[a, '2024-01-01 00:00:10', 1]]\n      dropped: 1\n"
    on_time = "      rows: [[a, '2024-01-01 00:00:10', 2]]\n"
    of = case("idle", "X").replace("X", "").replace("    expect:", "    SETTINGS\n    expect:")
    advancing = of.replace("SETTINGS", "settings: {sqlwin.watermark.idle-advance: 15 s}")
    code, out, _ = run(file(tmp_path, advancing + late, tables=table))
    assert code == 0, out
    longer = of.replace("SETTINGS", "settings: {sqlwin.watermark.idle-advance: 30 s}")
    code, out, _ = run(file(tmp_path, longer + on_time, tables=table))
    assert code == 0, out


@pytest.mark.long
def test_update_rewrites_failed_expectations_and_keeps_comments(tmp_path):
    path = file(tmp_path, case("first", WRONG), case("second", RIGHT))
    code, _, err = run(path, "--update")
    assert code == 1 and err == f"updated {path}\n"
    text = Path(path).read_text()
    assert "- [a, '1970-01-01 00:00:10', 2]" in text and "# a comment" in text and RIGHT in text
    assert run(path)[0] == 0


def test_update_rewrites_an_expectation_in_braces(tmp_path):
    expect = "expect: {rows: [[a, '00:00:10', 1]], dropped: 1}"
    path = file(tmp_path, case("braces", "").replace("expect:", expect))
    assert run(path, "--histories", "0")[0] != 0
    run(path, "--update", "--histories", "0")
    assert "expect: {rows: [[a, '1970-01-01 00:00:10', 2], [b, " in Path(path).read_text()
    assert "]], dropped: 0}\n" in Path(path).read_text()
    assert run(path, "--histories", "0")[0] == 0


def test_results_are_written_as_junit_xml(tmp_path):
    xml = tmp_path / "out.xml"
    run(file(tmp_path, case("first", WRONG), case("second", RIGHT)), "--junit-xml", str(xml))
    (suite,) = ElementTree.parse(xml).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    first, second = suite
    assert first.find("failure").get("message") == "the rows differ from `rows`"
    assert second.find("failure") is None and second.get("line") == "19"


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (TABLE.replace("a, 1]", "a, x]"), ":7: column `v` of table `t`: 'x' is not a whole number"),
        (TABLE.replace("a, 1]", "a]"), ":7: the row has 2 values, but table `t` has 3 columns"),
        (
            TABLE.replace("['00:00:01', a, 1]", "{ts: '00:00:01', x: 1}"),
            ":7: table `t` has no column `x`",
        ),
        (
            TABLE.replace("'00:00:01'", "soon"),
            ":7: column `ts` of table `t`: 'soon' is not a times",
        ),
        (
            TABLE.replace("- ['00:00:01', a, 1]", "- wait: soon"),
            ":7: 'soon' is not a duration such as 10 s, 1 min or 500 ms",
        ),
        (TABLE.replace("BIGINT", "BIGNUM"), ":4: table `t`: "),
        (TABLE.replace("'5' SECOND", "'5' APPLES"), ":4: table `t`: "),
    ],
)
def test_a_row_that_does_not_fit_its_table_is_named(tmp_path, tables, message):
    path = file(tmp_path, case("first", RIGHT), tables=tables)
    code, out, _ = run(path)
    assert code == 2
    assert f"  {path}{message}" in out
    assert "Traceback" not in out


def test_an_expected_error_needs_its_words_and_place(tmp_path):
    wrong_time = QUERY.format(name="error").replace("DESCRIPTOR(ts)", "DESCRIPTOR(k)")
    right = "      error: {words: must be TIMESTAMP, line: 2, column: 39}\n"
    assert run(file(tmp_path, wrong_time + right))[0] == 0
    code, out, _ = run(file(tmp_path, wrong_time + "      error: no such table\n"))
    assert code == 1 and "the error is another one" in out
    code, out, _ = run(file(tmp_path, wrong_time + "      error: {words: k, line: 3}\n"))
    assert code == 1 and "the error is in line 2, not 3" in out
    code, out, _ = run(file(tmp_path, case("no error", "      error: anything\n")))
    assert code == 1 and "there is no error" in out
    code, out, _ = run(file(tmp_path, wrong_time + RIGHT))
    assert code == 1 and "the query fails" in out


def test_a_query_that_only_spark_computes_says_so(tmp_path):
    path = file(tmp_path, case("soundex", RIGHT).replace("SELECT k", "SELECT SOUNDEX(k) AS k"))
    code, out, _ = run(path)
    assert code == 2 and "the case 'soundex' needs Spark: " in out


def test_missing_files_and_empty_directories_differ(tmp_path):
    code, _, err = run(str(tmp_path / "no"))
    assert (code, err) == (2, f"error: {tmp_path / 'no'} does not exist\n")
    code, _, err = run("queries/testing/departures.sql")
    assert code == 2 and err == (
        "error: queries/testing/departures.sql is not a test file (use --simulate N for a SQL file, "
        "or name its *.sqlwin.yaml)\n"
    )
    code, _, err = run(str(tmp_path))
    assert (code, err) == (5, "no test files\n")


def _restart(sql: str, *more: str) -> str:
    """Return a case whose stream resumes with other SQL."""
    lines = "".join(f"\n      {line}" for line in sql.splitlines())
    return case("restart", RIGHT) + "".join(more) + f"    restart: |{lines}\n"


COUNTS = """SELECT k, window_end, {calls}
FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
GROUP BY k, window_start, window_end"""


def test_a_stream_may_resume_with_an_allowed_change(tmp_path):
    changed = COUNTS.format(calls="COUNT(*) AS n") + " HAVING COUNT(*) > 1"
    code, out, _ = run(file(tmp_path, _restart(changed)), "--histories", "4")
    assert (code, out.split(",")[:2]) == (0, ["1 passed", " 8 histories"])


def test_a_stream_that_cannot_resume_fails_unless_that_is_expected(tmp_path):
    changed = COUNTS.format(calls="MAX(v) AS n")
    path = file(tmp_path, _restart(changed))
    code, out, _ = run(path, "--histories", "1")
    assert code == 1
    reason = "the state of operator 0 has COUNT(*), from which MAX(v) cannot be computed"
    assert f"the stream cannot resume with the SQL of `restart`\n  {reason}\n" in out
    refused = "      refused: MAX(v) cannot be computed\n"
    assert run(file(tmp_path, _restart(changed, refused)), "--histories", "1")[0] == 0
    other = "      refused: the keys have changed\n"
    code, out, _ = run(file(tmp_path, _restart(changed, other)), "--histories", "1")
    assert code == 1 and "the reason is another one\n  expected: the keys have changed" in out
    allowed = COUNTS.format(calls="COUNT(*) AS m")
    code, out, _ = run(file(tmp_path, _restart(allowed, other)), "--histories", "1")
    assert code == 1 and "the stream resumes with the SQL of `restart`" in out


def test_a_changed_view_is_a_changed_query(tmp_path):
    text = file(tmp_path, _restart("CREATE OR REPLACE VIEW w AS SELECT ts, k FROM t WHERE k = 'a'"))
    path = Path(text)
    # the query reads the view
    path.write_text(
        path.read_text()
        .replace("SELECT k, window_end, COUNT(*) AS n", "CREATE VIEW w AS SELECT ts, k FROM t;\n"
                 "      SELECT k, window_end, COUNT(*) AS n", 1)
        .replace("TABLE t,", "TABLE w,", 1)
    )  # fmt: skip
    code, out, _ = run(text, "--histories", "1")
    assert code == 1
    assert "now reads `SELECT ts, k FROM t WHERE k = 'a'`\n\n0 passed, 1 failed, 1 history, " in out


def test_a_refusal_needs_a_restart(tmp_path):
    code, _, err = run(file(tmp_path, case("a", RIGHT) + "      refused: words\n"))
    assert code == 2 and "`refused` needs the key 'restart' in the case" in err


COMPUTED = """
cases:
  - name: computed
    query: |
      CREATE TABLE t (raw TIMESTAMP(3), k STRING, `offset` BIGINT METADATA, big AS UPPER(k),
        ts AS raw - INTERVAL '1' HOUR, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
      WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json',
        'properties.bootstrap.servers' = 'nowhere:9092');
      SELECT big, window_end, SUM(`offset`) AS s
      FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
      GROUP BY big, window_start, window_end
    tables:
      t:
        rows:
          - ['2024-01-01 01:00:01', a, 5]
          - {raw: '2024-01-01 01:00:22', k: b, offset: 7}
          - ['2024-01-01 01:00:03', a, 6]
    expect:
      rows: [[A, '2024-01-01 00:00:10', 5], [B, '2024-01-01 00:00:30', 7]]
      late: [['2024-01-01 01:00:03', a, 6]]
"""


def test_a_table_of_the_script_may_have_computed_and_metadata_columns(tmp_path):
    path = tmp_path / "a.sqlwin.yaml"
    path.write_text(COMPUTED)
    code, out, err = run(str(path), "--histories", "3")
    assert (code, err) == (0, "") and out.startswith("1 passed, 3 histories"), out + err


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("computed", COMPUTED.replace("UPPER(k)", "SOUNDEX(k)")),
        (
            "arrays",
            TABLE.replace("v: BIGINT", "v: ARRAY<INT>").replace("a, 1]", "a, [1]]")
            + "cases:"
            + case("arrays", RIGHT),
        ),
    ],
)
def test_a_case_with_an_expression_or_type_of_spark_is_named_as_such(tmp_path, name, text):
    path = tmp_path / "a.sqlwin.yaml"
    path.write_text(text)
    # in a process of its own: a Spark that runs in this one would compute it
    command = [sys.executable, "-m", "sqlwin", "test", "--no-spark", str(path), "--histories", "3"]
    process = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert process.returncode == 2, process
    assert f"the case '{name}' needs Spark" in process.stdout


def test_a_time_that_python_does_not_have_is_a_failure_in_words(tmp_path):
    far = "TIMESTAMP '9999-12-31 23:59:59' + INTERVAL '1' DAY"
    text = case("far", "      rows: []\n").replace("COUNT(*) AS n", f"MAX({far}) AS n")
    code, out, _ = run(file(tmp_path, text), "--histories", "2")
    assert code == 1
    assert "column `n` has a time outside the years 1 to 9999" in out


def test_a_case_with_limit_has_the_first_rows(tmp_path):
    limited = case("limit", "      rows: [[a, '00:00:10', 2]]\n").replace(
        "window_start, window_end\n", "window_start, window_end ORDER BY window_end LIMIT 1\n"
    )
    code, out, err = run(file(tmp_path, limited), "--histories", "3")
    assert code == 0 and out.startswith("1 passed, 3 histories"), out + err
    assert "not compared with the definition: it sorts, groups or limits rows" in err


@pytest.mark.long
def test_simulate_agrees_on_the_querys_own_rows(monkeypatch):
    monkeypatch.chdir(ROOT)
    code, out, _ = run("--simulate", "5", "queries/testing/departures.sql", "--rows", "60")
    assert code == 0 and out.startswith("60 rows of flights\n5 histories agree with batch")


def _sql_file(directory: Path, seconds: Sequence[int], query: str) -> str:
    """Return a SQL file with a query of `t`: one row per second, the keys `a` and `b` by turns."""
    times = [START + dt.timedelta(seconds=second) for second in seconds]
    keys = ["ab"[i % 2] for i in range(len(times))]
    columns = {"ts": pa.array(times, pa.timestamp("us")), "k": keys, "v": range(1, len(times) + 1)}
    pq.write_table(pa.table(columns), directory / "t.parquet")
    sql = directory / "query.sql"
    sql.write_text(f"""
        CREATE TABLE t (ts TIMESTAMP(3), k STRING, v BIGINT,
          WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
        WITH ('connector' = 'filesystem', 'path' = '{directory}/t.parquet', 'format' = 'parquet');
        {query}""")
    return str(sql)


def test_simulate_finds_a_result_that_depends_on_the_order_of_rows(tmp_path):
    top = """SELECT * FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n) AS r
          FROM (SELECT k, window_start, window_end, COUNT(*) AS n
                FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
                GROUP BY k, window_start, window_end)) WHERE r <= 1"""
    code, out, _ = run("--simulate", "5", _sql_file(tmp_path, range(4), top))
    assert code == 0
    assert "finding: ROW_NUMBER of window_start=2024-01-01 00:00:00, window_end=" in out
    assert "depends on the order of rows with the same n\n" in out
    assert "finding: the result depends on the order of rows, also in batch:\n  row " in out
    assert "histories agree" not in out


def _counts(directory: Path, aggregate: str, seconds: Sequence[int] = (0, 1, 10)) -> str:
    """Return a SQL file that aggregates rows of some seconds in windows of ten."""
    return _sql_file(
        directory,
        seconds,
        f"""SELECT window_end, {aggregate} AS n
        FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
        GROUP BY window_start, window_end""",
    )


def test_simulate_says_why_a_query_is_not_compared_with_its_definition(tmp_path):
    code, out, _ = run("--simulate", "2", _counts(tmp_path, "APPROX_COUNT_DISTINCT(v)"))
    assert code == 0
    assert out.endswith(
        "2 histories agree with batch: 2 rows\n"
        "not compared with the definition: APPROX_COUNT_DISTINCT has no definition here\n"
    )


def _with_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the windows of batch and streams a second longer than the definition's."""

    def candidates(window, time_us):
        yield from definition(Tumble(window.size_us - 1_000_000), time_us)

    definition = Tumble.candidates
    monkeypatch.setattr(Tumble, "candidates", candidates)


def test_simulate_shows_the_rows_for_which_batch_differs_from_the_definition(tmp_path, monkeypatch):
    _with_a_fault(monkeypatch)
    code, out, _ = run("--simulate", "2", _counts(tmp_path, "LAST_VALUE(v)"))
    assert code == 1
    lines = out.splitlines()
    assert lines[1] == "batch differs from the definition:"
    assert lines[2].startswith("  row ") and len([x for x in lines if x[:6] == "  row "]) == 1
    assert "columns: window_end, n" in out


def test_a_case_fails_if_batch_differs_from_the_definition(tmp_path, monkeypatch):
    _with_a_fault(monkeypatch)
    code, out, _ = run(file(tmp_path, case("right", RIGHT)), "--histories", "2")
    assert code == 1 and "batch differs from the definition" in out


def test_a_case_says_why_it_is_not_compared_with_the_definition(tmp_path):
    approximate = case("about", RIGHT).replace("COUNT(*)", "APPROX_COUNT_DISTINCT(v)")
    code, out, err = run(file(tmp_path, approximate), "--histories", "2")
    assert code == 0
    reason = "not compared with the definition: APPROX_COUNT_DISTINCT has no definition here"
    assert reason in out + err


def test_simulate_names_rows_that_arrive_after_the_watermark(tmp_path):
    code, out, _ = run("--simulate", "5", _counts(tmp_path, "COUNT(*)", (0, 30, 1)))
    assert code == 0
    assert "finding: 1 row arrives after the watermark" in out
    assert "5 histories agree with batch and with the definition: 2 rows" in out
