"""The command line over a session without Spark."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest
from click.testing import CliRunner, Result

import sqlwin
from sqlwin.cli.app import main
from tests.goldens import ROOT
from tests.sqlwin.cli.fake_session import FakeSession

PROGRAM = [sys.executable, str(Path(__file__).with_name("fake_session.py"))]
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100"}


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[FakeSession]:
    """Collect the sessions that the command line opens."""
    opened: list[FakeSession] = []

    def connect(**options: object) -> FakeSession:
        opened.append(FakeSession(**options))
        return opened[-1]

    monkeypatch.setattr(sqlwin, "connect", connect, raising=False)
    monkeypatch.setattr("runtime.spark.session.begin_java", lambda *_: None)
    # The JVM, if running, belongs to the suite
    monkeypatch.setattr("runtime.spark.jvm.process.let_jvm_end", lambda: False)
    monkeypatch.delenv("SQLWIN_DEBUG", raising=False)
    return opened


@pytest.fixture
def sqlwin_run(sessions: list[FakeSession]):
    def invoke(*arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(main, ["run", *arguments], input=stdin)

    return invoke


def test_rows_go_to_stdout_as_csv_and_messages_to_stderr(sqlwin_run):
    result = sqlwin_run("-e", "ok; values; insert")
    assert result.exit_code == 0
    assert result.stdout == "window_start,name,price\n2013-01-01T05:15:00,NULL,1.0\n,,NaN\n"
    assert result.stderr.startswith("OK\n12 rows inserted (")
    assert result.stderr.endswith("note: ordered by a\n")


def test_files_are_run_in_order_in_one_session_that_is_closed(sqlwin_run, sessions, tmp_path):
    first, second = tmp_path / "a.sql", tmp_path / "b.sql"
    first.write_text("ok", encoding="utf-8-sig")
    second.write_text("rows 1")
    result = sqlwin_run(
        str(first), str(second), "--set", "a.b=c=d", "--conf", "x=", "--master", "m"
    )
    assert result.exit_code == 0
    [session] = sessions
    assert session.executed == ["ok", "rows 1"]
    assert session.options == {
        "master": "m",
        "conf": {"spark.ui.showConsoleProgress": "false", "x": ""},
        "remote": None,
        "settings": {"a.b": "c=d"},
    }
    assert session.closed


def test_parameters_have_values_in_the_scripts_that_use_them(sqlwin_run, sessions):
    result = sqlwin_run(
        "-e", "rows :n; ok", "-e", "ok :who", "--param", "n=2", "--param", "who=a=b"
    )
    assert result.exit_code == 0, result.output
    assert [text.split() for text in sessions[0].executed] == [
        ["rows", "2"], ["ok"], ["ok", "'a=b'"]
    ]  # fmt: skip


def test_texts_run_after_the_files(sqlwin_run, sessions, tmp_path):
    script = tmp_path / "a.sql"
    script.write_text("rows 1")
    assert sqlwin_run(str(script), "-e", "ok", "-e", "values").exit_code == 0
    assert sqlwin_run("-e", "ok", str(script)).exit_code == 0
    assert [opened.executed for opened in sessions] == [
        ["rows 1", "ok", "values"],
        ["rows 1", "ok"],
    ]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["-e", "rows :n", "--param", "m=2"], "missing value for the parameter :n"),
        (["-e", "rows 1", "--param", "m=2"], "unknown parameter :m"),
        (["-e", "rows :n", "--param", "n"], "'n' must have the form name=value"),
        (["-e", "rows :n", "--param", "n=1", "--param", "n=2"], "n is given twice"),
        (["-e", "rows :n"], "missing value for the parameter :n"),
    ],
)
def test_a_parameter_without_a_value_or_a_value_without_one_is_refused(
    sqlwin_run, sessions, arguments, complaint
):
    result = sqlwin_run(*arguments)
    assert result.exit_code in (1, 2) and complaint in result.stderr
    assert not sessions or not sessions[0].executed


def test_plans_take_parameters(sessions):
    arguments = ["explain", "-e", "SELECT nothing WHERE a = :a", "--param", "a='x'"]
    result = CliRunner().invoke(main, arguments)
    assert (
        result.exit_code == 0
        and result.stdout.split() == "Plan of SELECT nothing WHERE a = 'x'".split()
    )


@pytest.mark.parametrize(
    ("arguments", "sql"),
    [
        (["/ck/t"], "SHOW STATE OF '/ck/t'"),
        (["/ck/t", "--rows"], "SELECT * FROM TABLE(STATE('/ck/t'))"),
        (
            ["/it's", "--rows", "--operator", "1", "--version", "7"],
            "SELECT * FROM TABLE(STATE('/it\\'s', operator => 1, version => 7))",
        ),
    ],
)
def test_a_checkpoint_is_shown_by_sql(sessions, arguments, sql):
    result = CliRunner().invoke(main, ["checkpoint", "show", *arguments])
    assert result.exit_code == 0 and set(sessions[0].executed) == {sql}


def test_the_version_of_a_checkpoint_is_one_of_its_rows():
    result = CliRunner().invoke(main, ["checkpoint", "show", "/ck/t", "--version", "7"])
    assert result.exit_code == 2 and "--version requires --rows" in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed_for_each_shell(shell):
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0 and "_SQLWIN_COMPLETE" in result.stdout


@pytest.mark.parametrize(
    ("words", "proposed"),
    [
        (["exp"], "plain,explain"),
        (["run", "--set", "table.local"], "plain,table.local-time-zone="),
        (["functions", "cum"], "plain,CUMULATE"),
        (["explain", "quer"], "file,quer"),
    ],
)
def test_commands_settings_functions_and_files_are_completed(words, proposed):
    env = {
        "_SQLWIN_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["sqlwin", *words]),
        "COMP_CWORD": str(len(words)),
    }
    result = CliRunner(env=env).invoke(main, prog_name="sqlwin")
    assert proposed in result.stdout.splitlines()


def test_standard_input_is_read_if_no_sql_is_given_or_for_a_dash(sqlwin_run):
    assert sqlwin_run(stdin="rows 2").stdout == "n\n0\n1\n"
    assert sqlwin_run("-", stdin="rows 2").stdout == "n\n0\n1\n"


@pytest.mark.parametrize(
    ("arguments", "port"),
    [
        (["--ui", "-e", "ok"], 4050),
        (["-e", "ok", "--ui"], 4050),
        (["--ui", "8080", "-e", "ok"], 8080),
        (["--ui=8080", "-e", "ok"], 8080),
        (["--ui", "0", "-e", "ok"], 0),
    ],
)
def test_the_page_is_served_on_the_requested_port(sqlwin_run, arguments, port):
    result = sqlwin_run(*arguments)
    assert result.exit_code == 0
    assert result.stderr == f"monitoring page: http://127.0.0.1:{port}/?token=t\nOK\n"


def test_a_file_may_follow_the_option_ui(sqlwin_run, sessions, tmp_path):
    script = tmp_path / "a.sql"
    script.write_text("rows 1")
    assert "127.0.0.1:4050" in sqlwin_run("--ui", str(script)).stderr
    assert sessions[0].executed == ["rows 1"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["-e", "ok", "--ui", "99999"], "'99999' is not a port from 0 to 65535"),
        (["-e", "ok", "--ui=x"], "'x' is not a port"),
        (["missing.sql"], "cannot read missing.sql: No such file or directory"),
        (["-e", "ok", "--set", "=1"], "'=1' must have the form key=value"),
        (["-e", "ok", "--master", "m", "--remote", "r"], "use either --master or --remote"),
        (["-e", "ok", "--format", "csv", "--max-rows", "1"], "--max-rows requires --format table"),
        (["-e", "ok", "--format", "xml"], "'xml' is not one of"),
        (["-e", "ok", "--output", "."], "is a directory"),
    ],
)
def test_a_wrong_command_line_ends_with_2_and_opens_no_session(
    sqlwin_run, sessions, arguments, complaint
):
    result = sqlwin_run(*arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert not sessions


def test_wrong_sql_ends_with_1_and_the_report_shows_the_place(sqlwin_run, sessions, tmp_path):
    file = tmp_path / "q.sql"
    file.write_text("rows 1;\n  wrong here;\nrows 2")
    result = sqlwin_run(str(file))
    assert result.exit_code == 1
    assert result.stdout == "n\n0\n"
    assert result.stderr == (
        "error: no column nope\n"
        f"  at {file}, line 2, column 3\n"
        "      wrong here;\n"
        "      ^^^^^^^^^^\n"
        "  Columns: a, b.\n"
    )
    assert sessions[0].closed


def test_a_failure_while_running_ends_with_3(sqlwin_run):
    result = sqlwin_run("-e", "crash")
    assert (result.exit_code, result.stderr) == (3, "error: division by zero\n")


def test_a_file_that_is_not_utf_8_is_named(sqlwin_run, tmp_path):
    file = tmp_path / "latin.sql"
    file.write_bytes(b"SELECT '\xe4'")
    result = sqlwin_run(str(file))
    assert result.exit_code == 1
    assert "not UTF-8 text: byte 0xe4 at offset 8" in result.stderr
    assert str(file) in result.stderr


def test_an_unexpected_error_is_one_line_and_its_trace_is_in_a_file(sqlwin_run):
    result = sqlwin_run("-e", "bug")
    assert result.exit_code == 3
    first, second = result.stderr.splitlines()
    assert first == "error: unexpected RuntimeError: surprise"
    log = Path(second.removeprefix("  full trace: "))
    assert "Traceback" in log.read_text() and "with more lines" in log.read_text()
    log.unlink()


def test_sqlwin_debug_raises(sqlwin_run, monkeypatch):
    monkeypatch.setenv("SQLWIN_DEBUG", "1")
    assert isinstance(sqlwin_run("-e", "bug").exception, RuntimeError)


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        (".csv", "n\n0\n0\n"),
        (".dat", "n\n0\n0\n"),
        (".jsonl", '{"n":0}\n{"n":0}\n'),
        (".md", "| n |\n| ---: |\n| 0 |\n\n| n |\n| ---: |\n| 0 |\n"),
        (".txt", "n\n─\n0\n\nn\n─\n0\n"),
    ],
)
def test_the_suffix_of_the_output_chooses_the_format(sqlwin_run, tmp_path, suffix, content):
    file = tmp_path / f"out{suffix}"
    result = sqlwin_run("-e", "rows 1; rows 1", "--output", str(file))
    assert (result.exit_code, result.stdout) == (0, "")
    assert file.read_text() == content
    assert f"2 rows written to {file}" in result.stderr


def test_json_is_one_array_and_a_second_result_does_not_fit_into_a_json_file(sqlwin_run, tmp_path):
    file = tmp_path / "out.json"
    assert sqlwin_run("-e", "values", "--output", str(file)).exit_code == 0
    assert json.loads(file.read_text()) == [
        {"window_start": "2013-01-01T05:15:00", "name": "NULL", "price": 1.0},
        {"window_start": None, "name": None, "price": "NaN"},
    ]
    before = file.read_bytes()
    result = sqlwin_run("-e", "values; values", "--output", str(file))
    assert result.exit_code == 2
    assert "use --format jsonl" in result.stderr
    assert file.read_bytes() == before


def test_a_result_of_other_columns_does_not_fit_into_a_csv_file(sqlwin_run, tmp_path):
    file = tmp_path / "out.csv"
    result = sqlwin_run("-e", "rows 1; values", "--output", str(file))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "a CSV file can hold only one table" in result.stderr
    assert not file.exists()


def test_a_failed_run_leaves_the_output_unchanged(sqlwin_run, tmp_path):
    file = tmp_path / "out.csv"
    file.write_text("before")
    file.chmod(0o640)
    assert sqlwin_run("-e", "rows 3; crash", "--output", str(file)).exit_code == 3
    assert file.read_text() == "before"
    assert sqlwin_run("-e", "ok", "--output", str(file)).exit_code == 0
    assert file.read_text() == "before"
    assert sqlwin_run("-e", "rows 1", "--output", str(file)).exit_code == 0
    assert file.read_text() == "n\n0\n"
    assert file.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["out.csv"]


def test_an_unwritable_output_fails_before_anything_runs(sqlwin_run, sessions, tmp_path):
    result = sqlwin_run("-e", "rows 1", "--output", str(tmp_path / "no" / "out.csv"))
    assert result.exit_code == 3
    assert "out.csv: No such file or directory" in result.stderr
    assert not sessions


def test_output_through_a_link_replaces_its_target(sqlwin_run, tmp_path):
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    assert sqlwin_run("-e", "rows 1", "--output", str(tmp_path / "link.csv")).exit_code == 0
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "n\n0\n"


def test_a_table_shows_all_rows_off_a_terminal_unless_max_rows_says_otherwise(sqlwin_run):
    assert len(sqlwin_run("-e", "rows 50", "--format", "table").stdout.splitlines()) == 52
    result = sqlwin_run("-e", "rows 50", "--format", "table", "--max-rows", "2")
    assert result.stdout == "n\n─\n0\n1\n… more rows: use --max-rows or --output\n"
    assert result.stderr.startswith("2 rows shown (")


def test_a_plan_is_text_in_a_table_and_a_value_in_csv(sqlwin_run):
    assert sqlwin_run("-e", "plan", "--format", "table").stdout == "Scan\n  Filter\n"
    assert sqlwin_run("-e", "plan", "--format", "markdown").stdout == "```\nScan\n  Filter\n```\n"
    assert sqlwin_run("-e", "plan").stdout == 'plan\n"Scan\n  Filter"\n'


@pytest.fixture
def sqlwin_explain(sessions: list[FakeSession]):
    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["explain", *arguments])

    return invoke


def test_explain_runs_ddl_and_explains_queries(sqlwin_explain, sessions, tmp_path):
    file = tmp_path / "q.sql"
    file.write_text(
        "-- tables\n"
        "SET 'a' = 'b';\n"
        "CREATE TABLE t (a INT) USING parquet;\n"
        "SELECT a FROM t;\n"
        "INSERT INTO u SELECT a FROM t;\n"
        "VALUES (1);\n"
        "DELETE FROM t;\n"
        "CREATE TABLE v USING parquet AS SELECT 1;\n"
    )
    result = sqlwin_explain(str(file))
    assert result.exit_code == 0
    assert result.stdout == (
        "-- line 4\nPlan of SELECT a FROM t\n\n"
        "-- line 5\nPlan of INSERT INTO u SELECT a FROM t\n\n"
        "-- line 6\nSpark's plan of VALUES (1)\n\n"
        "-- line 7\nSpark's plan of DELETE FROM t\n\n"
        "-- line 8\nSpark's plan of CREATE TABLE v USING parquet AS SELECT 1\n"
    )
    executed = [text for text in sessions[0].executed if not text.startswith("EXPLAIN")]
    assert executed == ["SET 'a' = 'b'", "CREATE TABLE t (a INT) USING parquet"]


def test_explain_of_one_statement_is_its_plan_alone(sqlwin_explain):
    assert sqlwin_explain("-e", "SELECT 1;").stdout == "Plan of SELECT 1\n"
    result = sqlwin_explain("-e", "SET 'a' = 'b'")
    assert (result.stdout, result.stderr) == ("", "no query or INSERT to explain\n")


def test_explain_analyze_runs_the_statement(sqlwin_explain):
    assert sqlwin_explain("-e", "SELECT 1", "--analyze").stdout == "Run of SELECT 1\n"


def test_explain_as_json_is_one_document_of_all_statements(sqlwin_explain, tmp_path):
    file = tmp_path / "plan.json"
    arguments = ("-e", "SELECT 1; SET 'a' = 'b'; VALUES (1)", "--output", str(file))
    assert sqlwin_explain(*arguments).exit_code == 0
    document = json.loads(file.read_text())
    assert [query["statement"] for query in document["queries"]] == ["SELECT 1", "VALUES (1)"]
    assert json.loads(sqlwin_explain(*arguments[:2], "--format", "json").stdout) == document


def test_explain_refuses_to_draw_statements_without_a_plan(sqlwin_explain):
    result = sqlwin_explain("-e", "VALUES (1)", "--format", "dot")
    assert result.exit_code == 1
    assert "cannot draw the plan as dot" in result.stderr


def test_explain_shows_errors_at_their_place_in_the_file(sqlwin_explain, tmp_path):
    file = tmp_path / "q.sql"
    file.write_text("SELECT 1;\nSELECT nope;\n")
    result = sqlwin_explain(str(file))
    assert result.exit_code == 1
    assert f"at {file}, line 2, column 8\n    SELECT nope;\n           ^^^^\n" in result.stderr
    file.write_text("SELECT 1;\nSELECT 'open;\n")
    result = sqlwin_explain(str(file))
    assert result.exit_code == 1
    assert f"at {file}, line 2, column 8" in result.stderr


def test_version_is_the_version_of_the_package():
    assert CliRunner().invoke(main, ["--version"]).stdout == f"sqlwin {sqlwin.__version__}\n"


def test_an_interrupt_is_recognised_behind_its_error():
    @main.command(hidden=True)
    def interrupted_call() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("job cancelled")

    try:
        assert CliRunner().invoke(main, ["interrupted-call"]).exit_code == 130
    finally:
        del main.commands["interrupted-call"]


def test_help_and_version_load_neither_spark_nor_arrow():
    code = (
        "import sys, sqlwin.cli.app as app\n"
        "try: app.main(['run', '--help'])\n"
        "finally: print({'pyspark', 'pyarrow', 'numpy', 'sqlglot'} & set(sys.modules))"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code], env=ENV, capture_output=True, text=True
    )
    assert "Usage:" in completed.stdout
    assert completed.stdout.endswith("set()\n"), completed.stderr


@pytest.mark.long
def test_a_reader_that_leaves_ends_the_run_quietly():
    command = f"{' '.join(PROGRAM)} run -e 'rows 1000000' | head -n 2"
    completed = subprocess.run(["bash", "-c", command], env=ENV, capture_output=True, text=True)
    assert (completed.stdout, completed.stderr) == ("n\n0\n", "")


def heed_interrupts() -> None:
    """Restore SIGINT, which is ignored if a shell started the suite in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.long
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_cancels_the_jobs_and_leaves_no_file(tmp_path, number, code):
    arguments = ["run", "-e", "hang", "--output", str(tmp_path / "out.csv")]
    process = subprocess.Popen(
        [*PROGRAM, *arguments],
        env={**ENV, "FAKE_SAYS_HANGING": "1"},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "hanging\n"
    (name,) = os.listdir(tmp_path)
    assert name.endswith(".tmp")
    process.send_signal(number)
    _, errors = process.communicate(timeout=180)
    assert process.returncode == code
    assert "jobs cancelled" in errors and "Traceback" not in errors
    assert os.listdir(tmp_path) == []


def _terminal(*arguments: str) -> pexpect.spawn:
    return pexpect.spawn(
        PROGRAM[0],
        [*PROGRAM[1:], "run", *arguments],
        env=ENV,
        dimensions=(24, 100),
        preexec_fn=heed_interrupts,
        encoding="utf-8",
        timeout=180,
    )


def test_on_a_terminal_rows_are_a_table_of_40_rows_with_a_footer():
    child = _terminal("-e", "values; rows 100")
    child.expect("window_start")
    child.expect(r"2013-01-01 05:15:00.*NULL.*1\.0")
    child.expect(r"\x1b\[2mNULL")  # dim, unlike the string
    child.expect(r"2 rows \(")
    child.expect("… more rows: use --max-rows or --output")
    child.expect(r"40 rows shown \(")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


@pytest.mark.long
def test_on_a_terminal_a_bar_is_shown_while_waiting_and_ctrl_c_erases_it():
    child = _terminal("-e", "hang")
    child.expect("Running")
    child.expect("0:00:01")
    child.sendintr()
    child.expect("interrupted")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130


def test_on_a_terminal_an_error_is_red():
    child = _terminal("-e", "crash")
    child.expect(r"\x1b\[1;31merror: ")
    child.expect("division by zero")
    child.expect(pexpect.EOF)


def test_no_sql_on_a_terminal_is_a_usage_error():
    child = _terminal()
    child.expect("no SQL: pass a file")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 2
