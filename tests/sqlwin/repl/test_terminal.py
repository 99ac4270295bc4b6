"""The prompt in a real terminal, over a session without Spark."""

import signal
import subprocess
import sys

import pytest

from tests.observing import wait_until
from tests.sqlwin.repl.terminal import PROGRAM, PROMPT, SECONDS, Terminal


@pytest.mark.long
def test_the_prompt_appears_before_spark_and_shows_its_state(terminal, tmp_path):
    prompt = terminal(FAKE_START_AFTER=str(tmp_path / "go on"))
    prompt.shows("Spark is starting")
    prompt.run("rows 3;")
    prompt.shows("Starting Spark")
    (tmp_path / "go on").touch()
    prompt.see("3 rows (")
    prompt.see(PROMPT)
    assert prompt.leave() == 0


def test_the_prompt_loads_few_modules_before_spark():
    code = """
import sys, sqlwin.cli.app, sqlwin.repl.app
print({'pyspark', 'pyarrow', 'numpy', 'pandas', 'sqlglot', 'rich.console'} & set(sys.modules))
"""
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout == "set()\n"


def test_statements_that_need_no_spark_run_without_java(tmp_path):
    prompt = Terminal(
        tmp_path,
        program=("-m", "sqlwin.cli.app"),
        PATH="/nowhere",
        JAVA_HOME="/nowhere",
        SQLWIN_CLASS_ARCHIVE="off",
    )
    try:
        prompt.see(PROMPT)
        prompt.answers("SELECT 6 * 7 AS answer;", "42", "1 row (")
        prompt.answers("CREATE VIEW v AS SELECT 1 AS one;", "OK")
        prompt.answers("SHOW TABLES;", "table name", "1 row (")
        prompt.answers("\\d v", "one", "INT", "1 row (")
        prompt.shows("Spark starts when needed")
        prompt.answers("SELECT one + 1 AS two FROM v;", "two", "1 row (")
        assert prompt.leave() == 0
    finally:
        prompt.close()


def test_a_statement_runs_when_a_semicolon_ends_it_and_may_have_many_lines(prompt):
    prompt.run("values")
    prompt.see("->")
    prompt.run("-- not yet;")
    prompt.see("->")
    prompt.answers(";", "2013-01-01 05:15:00", "2 rows (")


def test_ctrl_d_leaves_and_so_does_backslash_q(terminal):
    prompt = terminal()
    assert prompt.leave("\\q\r") == 0


def test_an_error_shows_a_caret_and_returns_to_the_prompt(prompt):
    prompt.run("wrong here;")
    prompt.see("error: ", "no column nope", "at line 1, column 1")
    prompt.see("    wrong here", "    ^^^^^^^^^^", "Columns: a, b.", PROMPT)
    prompt.answers("crash;", "division by zero")
    prompt.answers("bug;", "unexpected RuntimeError: surprise", "full trace: ")
    prompt.run("rows 1;")
    prompt.see("1 row (")


def test_an_error_says_how_many_statements_of_the_input_are_skipped(prompt):
    prompt.answers("ok; crash; ok; rows 1;", "OK", "division by zero", "skipped 2 statements")
    prompt.answers("ok; crash;", "division by zero")
    assert prompt.screen.text().count("skipped") == 1


def test_a_wide_line_is_cut_to_the_part_with_the_error(prompt):
    prompt.type("ok; " * 40 + "wrong here;\r")
    seen = prompt.see(
        "at line 1, column 161", "…", "wrong here", "^^^^^^^^^^", "Columns: a, b.", PROMPT
    )
    line, carets = seen.split("column 161")[1].splitlines()[1:3]
    assert line.index("wrong here") == carets.index("^")
    assert max(len(line), len(carets)) <= prompt.screen.columns


@pytest.mark.long
def test_ctrl_c_cancels_a_statement_and_returns_to_the_prompt(prompt):
    prompt.run("hang;")
    prompt.shows("Running")
    prompt.child.sendintr()
    prompt.see("jobs cancelled", "cancelled", PROMPT)
    prompt.run("rows 2;")
    prompt.see("2 rows (")


@pytest.mark.long
@pytest.mark.parametrize(
    ("typed", "shown", "number"),
    [
        ("", PROMPT, signal.SIGTERM),
        pytest.param("rows 3", "rows 3", signal.SIGHUP, marks=pytest.mark.slow),
        pytest.param("hang;\r", "Running", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("stream;\r", "watermark 12:00", signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_sigterm_ends_the_prompt_at_any_moment(typed, shown, number, terminal):
    prompt = terminal()
    prompt.type(typed)
    prompt.shows(shown)
    prompt.child.kill(number)
    assert prompt.ended() == 128 + number, prompt.screen.text()
    text = prompt.screen.text()
    assert "Traceback" not in text and "unexpected" not in text, text


@pytest.mark.long
def test_ctrl_c_while_spark_starts_withdraws_the_statement(terminal, tmp_path):
    prompt = terminal(FAKE_START_AFTER=str(tmp_path / "go on"))
    prompt.run("rows 7;")
    prompt.shows("Starting Spark")
    prompt.child.sendintr()
    prompt.see("cancelled", PROMPT)
    prompt.run("rows 2;")
    (tmp_path / "go on").touch()
    assert "7 rows" not in prompt.see("2 rows (")


@pytest.mark.variants(1)
@pytest.mark.parametrize("is_answered", [True, False])
def test_ctrl_c_right_after_enter_cancels_the_statement(is_answered, terminal):
    prompt = terminal()
    prompt.shows("Spark")
    if not is_answered:
        # the cursor position: the prompt waits for the answer when a line has ended
        prompt.screen.write_process_input = lambda text: None
    # both arrive before the prompt has seen either
    prompt.type("job;\r\x03")
    prompt.see("job;", "cancelled", PROMPT)
    prompt.answers("rows 2;", "2 rows (")
    if not is_answered:
        return
    prompt.type("\\! sleep 600\r\x03")
    prompt.see("sleep 600", PROMPT)
    prompt.answers("rows 3;", "3 rows (")


def test_ctrl_c_at_an_empty_prompt_does_not_cancel_the_next_statement(prompt):
    for _ in range(2):
        prompt.type("\x03")
        prompt.see(PROMPT)
    prompt.answers("rows 2;", "2 rows (")


@pytest.mark.variants(1)
@pytest.mark.parametrize("typed", ["rows 5;\r\x04", "rows 4;\rrows 5;\r\x04", "ok;\r\x04\x04"])
def test_ctrl_d_right_after_enter_leaves_when_the_statement_is_done(typed, terminal, tmp_path):
    prompt = terminal(FAKE_START_AFTER=str(tmp_path / "go on"))
    prompt.type(typed)
    prompt.taken()
    (tmp_path / "go on").touch()
    assert prompt.ended() == 0
    assert ("5 rows (" if "rows 5" in typed else "OK") in prompt.screen.text()


@pytest.mark.long
def test_ctrl_d_while_a_statement_runs_leaves_after_it(terminal):
    prompt = terminal()
    prompt.run("job;")
    prompt.shows("Running")
    prompt.type("\x04")
    prompt.child.sendintr()  # which discards earlier input
    prompt.see("cancelled", PROMPT)
    prompt.run("stream;")
    prompt.shows("watermark 12:00  ·  q stops")
    prompt.type("\x04")
    prompt.taken()
    prompt.type("q")
    assert prompt.ended() == 0
    assert "rows in total (" in prompt.screen.text()


@pytest.mark.long
def test_ctrl_d_while_a_statement_waits_for_spark_leaves_after_it(terminal, tmp_path):
    prompt = terminal(FAKE_START_AFTER=str(tmp_path / "go on"))
    prompt.run("rows 5;")
    prompt.shows("Starting Spark")
    prompt.type("\x04")
    prompt.taken()
    (tmp_path / "go on").touch()
    assert prompt.ended() == 0
    assert "5 rows (" in prompt.screen.text()


@pytest.mark.long
def test_ctrl_d_leaves_while_spark_starts(terminal, tmp_path):
    prompt = terminal(FAKE_START_AFTER=str(tmp_path / "never"))
    prompt.shows("Spark is starting")
    prompt.run("rows 1;")
    prompt.shows("Starting Spark")
    prompt.type("\x03")
    prompt.see("cancelled", PROMPT)
    assert prompt.leave() == 0


def test_ctrl_d_ends_the_input_of_a_program(prompt):
    prompt.run("\\! cat; echo DONE")
    prompt.type("some text\r")
    prompt.see("some text", "some text")
    prompt.type("\x04")
    prompt.see("DONE", PROMPT)
    prompt.answers("rows 2;", "2 rows (")


def test_a_line_that_ctrl_c_drops_is_in_the_history(prompt):
    prompt.type("rows 11;")
    prompt.child.sendcontrol("c")
    prompt.see(PROMPT)
    prompt.type("\x1b[A")  # up
    prompt.run("")
    prompt.see("11 rows (")


@pytest.mark.long
def test_the_history_survives_a_restart_and_can_be_searched(terminal):
    first = terminal()
    first.answers("rows 12;", "12 rows (")
    first.answers("values;", "2 rows (")
    first.leave()
    second = terminal()
    second.type("\x12rows")  # Ctrl-R
    second.shows("I-search backward: rows")
    second.type("\r")
    second.type("\r")
    second.see("12 rows (")


def test_tab_completes_tables_and_columns_of_the_session(prompt):
    prompt.type("ok; SELECT * FROM bi")
    wait_until(lambda: _presses_tab(prompt, "bids"), SECONDS, explain=prompt.screen.text)
    prompt.type(" WHERE pri\t")
    prompt.see("bids WHERE price")
    prompt.answers(";", "OK")


def test_tab_ignores_words_that_only_contain_the_typed_text(prompt):
    prompt.type("ok; SELECT uppe")
    wait_until(lambda: _presses_tab(prompt, "upper("), SECONDS, explain=prompt.screen.text)
    prompt.type("\x03")
    prompt.see(PROMPT)
    # only the name concat_ws contains it
    prompt.type("ok; SELECT cat_w\t")
    prompt.shows("concat_ws(")
    prompt.run(";")
    prompt.see("SELECT cat_w;", "OK", PROMPT)


def _presses_tab(prompt: Terminal, shown: str) -> bool:
    """Press Tab and return whether a text is shown. Names are collected in the background."""
    prompt.type("\t")
    prompt.read()
    return any(shown in line.lower() for line in prompt.screen.display)


def test_brackets_and_quotes_come_in_pairs_and_are_typed_over(prompt):
    prompt.type("wrong (f('it''s'))")
    prompt.run(";")
    prompt.see("    wrong (f('it''s'))")
    prompt.see("    ^", PROMPT)


@pytest.mark.long
def test_vi_keys_work_with_their_option(terminal):
    prompt = terminal("--keys", "vi")
    prompt.type("rows 5 5;")
    prompt.type("\x1b")
    prompt.shows("vi normal")
    prompt.type("hhx")  # 'rows 5 5;' without the blank
    prompt.type("a\r")
    prompt.see("55 rows (")


@pytest.mark.long
def test_files_and_statements_of_the_command_line_run_first(tmp_path):
    (tmp_path / "first.sql").write_text("ok; rows 4;")
    prompt = Terminal(tmp_path, "--file", "first.sql")
    prompt.see("4 rows (", "first.sql: ran 2 statements", PROMPT)
    prompt.leave()
    other = Terminal(tmp_path, "-e", "rows 6")
    other.see("6 rows (", PROMPT)
    other.leave()


@pytest.mark.variants(1)
@pytest.mark.parametrize("goes_on", ["", "> out.txt", "| cat"])
def test_the_line_of_an_error_fits_on_the_screen_wherever_rows_go(goes_on, tmp_path):
    # 60 columns, which standard output does not know if it is redirected
    line = "ok; " * 40 + "wrong here; " + "ok; " * 40
    command = f"exec {sys.executable} {PROGRAM} run --no-progress -e '{line}' {goes_on}"
    shell = Terminal(
        tmp_path, command, size=(24, 60), program=("-c", "import os, sys; "
        "os.execvp('sh', ['sh', '-c', sys.argv[2]])"),
    )  # fmt: skip
    shell.ended()
    lines = shell.screen.text().split("\n")
    (number,) = (i for i, line in enumerate(lines) if "^^^" in line)
    assert lines[number].index("^") == lines[number - 1].index("wrong here")
    assert lines[number - 2].strip() == "at line 1, column 161"


@pytest.mark.long
def test_an_error_in_the_first_file_leaves_the_prompt_open(tmp_path):
    (tmp_path / "first.sql").write_text("ok;\nwrong here;")
    prompt = Terminal(tmp_path, "--file", "first.sql")
    prompt.see("no column nope", "first.sql, line 2", "ran 1 statement", PROMPT)
    prompt.answers("rows 2;", "2 rows (")
    prompt.leave()


@pytest.mark.long
def test_a_failed_start_is_shown_with_the_statement_and_tried_again(terminal):
    prompt = terminal(FAKE_START_ERROR="no Java was found")
    prompt.shows("Spark did not start")
    prompt.answers("rows 1;", "no Java was found", "install it")
    prompt.leave("\\q\r")


@pytest.mark.parametrize("how", ["q", "\x03"])
def test_a_stream_is_a_table_that_changes_until_q_or_ctrl_c(prompt, how):
    prompt.run("stream; rows 3;")
    prompt.shows("watermark 12:00")
    prompt.shows("2013-01-01 05:15:00")
    prompt.type(how)
    prompt.see("rows in total (")
    if how == "q":
        prompt.see("3 rows (", PROMPT)
    else:
        assert "3 rows" not in prompt.see("cancelled", PROMPT)
    prompt.answers("rows 2;", "2 rows (")


@pytest.mark.variants(1)
@pytest.mark.parametrize("how", ["q", "\x03"])
def test_text_typed_during_a_stream_appears_at_the_next_prompt(prompt, how):
    prompt.run("stream;")
    prompt.shows("watermark 12:00  ·  q stops")
    prompt.type("rows 4\x1b[A;\r")  # the arrow is not text
    prompt.taken()
    prompt.type(how)
    prompt.see("rows in total (", PROMPT, "rows 4;", "->")
    prompt.answers("", "4 rows (")


def test_a_second_ctrl_c_does_not_wait_for_a_stream_to_stop(prompt):
    prompt.run("stubborn;")
    prompt.shows("watermark 12:00  ·  q stops")
    prompt.child.sendintr()
    prompt.shows("watermark 12:00  ·  stopping")
    assert "cancelled" not in prompt.screen.text()[prompt.position :]
    prompt.child.sendintr()
    prompt.see("cancelled", PROMPT)
    later = prompt.answers("rows 5;", "5 rows (")
    assert "watermark" not in later and "in all" not in later, "nothing is drawn over the prompt"


def test_text_typed_during_a_statement_runs_after_it(prompt):
    prompt.run("stream; rows 3;")
    prompt.shows("watermark 12:00")
    prompt.type("q")
    prompt.taken()
    prompt.type("rows 5;\r")
    prompt.see("rows in total (", "3 rows (", PROMPT, "rows 5;", "5 rows (", PROMPT)


@pytest.mark.long
def test_long_and_wide_results_go_to_the_pager(terminal):
    pager = "sh -c 'echo PAGED; head -n 1; cat > /dev/null; echo LEFT'"
    prompt = terminal(SQLWIN_PAGER=pager)
    prompt.answers("rows 500;", "PAGED", "LEFT", "500 rows (")
    prompt.answers("wide 30;", "PAGED", "LEFT", "1 row (")
    prompt.answers(r"\pager off", "pager: off")
    prompt.run("wide 30;")
    prompt.see("more columns")


@pytest.mark.long
def test_a_pager_that_is_left_early_is_no_error(terminal):
    prompt = terminal("--format", "csv", SQLWIN_PAGER="sh -c 'head -n 2'")
    prompt.answers("rows 300000;", "the pager was closed before the end")


def test_the_toolbar_names_the_argument_at_the_cursor(prompt):
    prompt.type("SELECT * FROM HOP(TABLE bids, DESCRIPTOR(ts), ")
    prompt.shows("HOP(TABLE data, DESCRIPTOR(timecol), slide, size, [offset])")


def test_without_a_terminal_the_command_line_is_wrong():
    from click.testing import CliRunner

    from sqlwin.cli.app import main

    result = CliRunner().invoke(main, ["repl"])
    assert result.exit_code == 2
    assert "requires a terminal" in result.stderr


@pytest.mark.long
def test_a_run_shows_the_latest_row_of_each_key_in_place(tmp_path):
    running = Terminal(tmp_path, "-e", "grouped", "--latest", "--no-progress", command="run")
    running.shows("watermark 12:00  ·  Ctrl-C stops")
    running.shows("42.5")  # of the fifth batch
    assert running.screen.text().count("05:15:00") == 1
    running.child.sendintr()
    assert running.leave("") == 130


def test_the_latest_rows_are_for_a_terminal():
    from click.testing import CliRunner

    from sqlwin.cli.app import main

    result = CliRunner().invoke(main, ["run", "-e", "rows 1", "--latest"])
    assert result.exit_code == 2 and "--latest requires a table on a terminal" in result.stderr
