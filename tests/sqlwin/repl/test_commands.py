"""The backslash commands in a real terminal, over a session without Spark."""

import time

import pytest
from pyarrow import parquet

from tests.sqlwin.repl.terminal import PROMPT


def test_d_lists_tables_and_describes_one(prompt):
    prompt.run(r"\d")
    prompt.see("table name", "bids", "my table", "2 rows (", PROMPT)
    prompt.run(r"\d bids")
    prompt.see("name  │ type", "price │ DOUBLE", "3 rows (", PROMPT)
    prompt.run(r"\d;")
    prompt.see("my table", PROMPT)


def test_d_plus_shows_how_a_table_was_made(prompt):
    prompt.run(r"\d+ bids")
    prompt.see("SHOW CREATE TABLE bids", PROMPT)
    prompt.run(r"\d+")
    prompt.see(r"error: \d+ needs the name of a table or view", r"\d lists them", PROMPT)


def test_words_and_the_commands_of_other_shells_do_what_is_meant(prompt):
    prompt.run(".tables")
    prompt.see("table name", "bids", PROMPT)
    prompt.run(".schema bids")
    prompt.see("SHOW CREATE TABLE bids", PROMPT)
    prompt.run(".schema")
    prompt.see("table name", PROMPT)
    prompt.run("help hop")
    prompt.see("HOP(TABLE data, DESCRIPTOR(timecol), slide, size [, offset])", PROMPT)
    prompt.type("HELP;\r")
    prompt.see("SQL statements:", PROMPT)
    prompt.run(".tabels")
    prompt.see("there is no command .tabels", "did you mean .tables?", PROMPT)


@pytest.mark.parametrize("how", ["quit", "exit;", ".quit", "Quit"])
def test_words_leave(terminal, how):
    assert terminal().leave(f"{how}\r") == 0


def test_parameters_have_values_until_they_are_forgotten(terminal):
    prompt = terminal("--param", "n=2")
    prompt.run("rows :n;")
    prompt.see("2 rows (", PROMPT)
    prompt.run(r"\param n=3")
    prompt.see(":n = 3", PROMPT)
    prompt.run("rows :n;")
    prompt.see("3 rows (", PROMPT)
    prompt.run(r"\param n")
    prompt.see(":n is forgotten", PROMPT)
    prompt.run(r"\param")
    prompt.see("no parameter has a value", PROMPT)
    prompt.run("rows :n;")
    prompt.see("no value for the parameter :n", "rows :n;", "^^", PROMPT)
    prompt.run(r"\param 1=2")
    prompt.see("\\param takes a name, not '1'", PROMPT)


def test_the_ending_of_a_file_says_how_rows_are_written(terminal, tmp_path):
    prompt = terminal()
    prompt.run(r"\o out.csv")
    prompt.see("rows go to out.csv as csv", PROMPT)
    prompt.run("rows 2;")
    prompt.see("2 rows written to out.csv", PROMPT)
    prompt.run(r"\o out.parquet")
    prompt.see("closed out.csv", "rows go to out.parquet as parquet", PROMPT)
    prompt.run("values; values;")
    prompt.see("2 rows written", "2 rows written to out.parquet", PROMPT)
    prompt.run("rows 1;")
    prompt.see("has rows with other columns", PROMPT)
    prompt.run("plan;")
    prompt.see("out.parquet takes rows alone", PROMPT)
    prompt.run(r"\o none.parquet")
    prompt.see("closed out.parquet", PROMPT)
    prompt.run(r"\o")
    prompt.see("closed none.parquet", PROMPT)
    assert (tmp_path / "out.csv").read_text() == "n\n0\n1\n"
    written = parquet.read_table(tmp_path / "out.parquet")
    assert (
        written.num_rows == 4 and str(written.schema.field("window_start").type) == "timestamp[us]"
    )
    assert not (tmp_path / "none.parquet").exists()


def test_a_stream_can_show_the_latest_row_of_each_key(prompt):
    prompt.run(r"\latest name")
    prompt.see("streams show the latest row of each name", PROMPT)
    prompt.run("stream;")
    prompt.shows("watermark 12:00  ·  q stops")
    time.sleep(1)
    prompt.type("q")
    view = prompt.see("rows in all (", PROMPT)
    assert view.count("05:15:00") == 1
    prompt.run(r"\latest on")
    prompt.see("streams show the latest window of each key", PROMPT)
    prompt.run("stream;")
    prompt.see("the query is not grouped by keys")
    prompt.shows("watermark 12:00")
    prompt.type("q")
    prompt.see(PROMPT)
    prompt.run(r"\latest nme")
    prompt.see(PROMPT)
    prompt.run("stream;")
    prompt.see("there is no column `nme`", PROMPT)
    prompt.run(r"\latest off")
    prompt.see("streams show their last rows", PROMPT)


def test_ui_says_where_the_page_is(prompt):
    prompt.run(r"\ui")
    prompt.see("watch it at http://127.0.0.1:4050/?token=t", PROMPT)
    prompt.run(r"\ui 0")
    prompt.see("watch it at http://127.0.0.1:0/?token=t", PROMPT)
    prompt.run(r"\ui here")
    prompt.see(r"error: \ui takes a port, not 'here'", PROMPT)


def test_df_lists_functions(prompt):
    prompt.run(r"\df")
    prompt.see("function name", "concat_ws", "3 rows (", PROMPT)
    prompt.run(r"\df %o'clock%")
    prompt.see("SHOW FUNCTIONS LIKE '%o''clock%'", PROMPT)


def test_a_command_of_the_shell_runs_and_tells_if_it_fails(prompt):
    prompt.run(r"\! echo from the $((1 + 1))nd shell")
    prompt.see("from the 2nd shell", PROMPT)
    prompt.run(r"\! exit 3")
    prompt.see("it ended with 3", PROMPT)


def test_history_lists_what_was_typed(prompt):
    prompt.run("rows 1;")
    prompt.see("1 row (", PROMPT)
    prompt.run("values;")
    prompt.see("2 rows (", PROMPT)
    prompt.run(r"\history ROWS 1")
    shown = prompt.see(PROMPT)
    assert "rows 1;" in shown and "values;" not in shown


def test_rows_bounds_tables(prompt):
    prompt.run(r"\rows 3")
    prompt.see("tables show at most 3 rows", PROMPT)
    prompt.run("rows 5;")
    prompt.see("… more rows", "3 rows shown (", PROMPT)
    prompt.run(r"\rows few")
    prompt.see("takes a number, not 'few'", PROMPT)
    prompt.run(r"\rows 0")
    prompt.see("tables show all rows", PROMPT)
    prompt.run("rows 5;")
    prompt.see("5 rows (", PROMPT)
    prompt.run(r"\rows 1000")
    prompt.see("tables show at most 1,000 rows", PROMPT)


def test_keys_switches_between_emacs_and_vi(prompt):
    prompt.run(r"\keys vi")
    prompt.see("the keys are those of vi", PROMPT)
    prompt.shows("table  vi")
    prompt.type("rows 5 5;")
    prompt.type("\x1b")
    time.sleep(0.7)
    prompt.type("hhxa\r")
    prompt.see("55 rows (", PROMPT)
    prompt.run(r"\keys")
    prompt.see("the keys are those of emacs", PROMPT)


def test_x_auto_turns_only_what_is_too_wide(prompt):
    prompt.run(r"\x auto")
    prompt.see("vertical output is auto", PROMPT)
    prompt.shows("vertical auto")
    prompt.run("wide 20;")
    prompt.see("row 1", "column_number_19 │ value 19", "1 row (", PROMPT)
    prompt.run("rows 1;")
    assert "row 1" not in prompt.see("1 row (").replace("rows 1", "")
    prompt.run(r"\x maybe")
    prompt.see("takes on, off, auto, not 'maybe'", PROMPT)
    prompt.run(r"\x off")
    prompt.see("vertical output is off", PROMPT)


def test_every_format_writes_rows_its_way(prompt):
    for name, written in (
        ("json", '"price":1.0},'),
        ("jsonl", '{"window_start":null'),
        ("markdown", "| NULL | NULL | NaN |"),
        ("csv", ",,NaN"),
        ("table", "NULL                │ NULL │   NaN"),
    ):
        prompt.run(rf"\format {name}")
        prompt.see(f"rows are written as {name}", PROMPT)
        prompt.run("values;")
        prompt.see(written, "2 rows (", PROMPT)


def test_a_file_is_edited_in_place_and_taken_to_the_prompt(terminal, tmp_path):
    editor = tmp_path / "edit.sh"
    editor.write_text("#!/bin/sh\necho 'rows 9;' > \"$1\"\n")
    editor.chmod(0o755)
    (tmp_path / "my report.sql").write_text("rows 2;\n")
    prompt = terminal(VISUAL=str(editor))
    prompt.run(r"\e my report.sql")
    prompt.see("rows 9;")
    prompt.run("")
    prompt.see("9 rows (", PROMPT)
    assert (tmp_path / "my report.sql").read_text() == "rows 9;\n"
    prompt.run(r"\e nowhere/new.sql")
    prompt.see("cannot write nowhere/new.sql", PROMPT)
    prompt.run(r"\e new.sql")
    prompt.see("rows 9;")
    assert (tmp_path / "new.sql").read_text() == "rows 9;\n"


def test_an_editor_that_fails_is_reported_and_nothing_is_lost(terminal):
    prompt = terminal(VISUAL="no-such-editor")
    prompt.run("rows 2;")
    prompt.see("2 rows (", PROMPT)
    prompt.run(r"\e")
    prompt.see("cannot run the editor no-such-editor", "export EDITOR=nano", PROMPT)


def test_watch_and_chart_need_a_statement(terminal):
    prompt = terminal()
    prompt.run(r"\watch")
    prompt.see("there is no statement to run again", PROMPT)
    prompt.run(r"\chart")
    prompt.see("there is no statement to draw", PROMPT)
    prompt.run(r"\watch soon")
    prompt.see("\\watch takes seconds, not 'soon'", PROMPT)


def test_formats_vertical_output_timing_and_null(prompt):
    prompt.run(r"\format csv")
    prompt.see("rows are written as csv", PROMPT)
    prompt.run("values;")
    prompt.see("window_start,name,price", "2013-01-01T05:15:00,NULL,1.0", PROMPT)
    prompt.run(r"\format table")
    prompt.see(PROMPT)
    prompt.run(r"\x")
    prompt.see("vertical output is on", PROMPT)
    prompt.run(r"\null nothing")
    prompt.see("nothing", PROMPT)
    prompt.run(r"\timing off")
    prompt.see("timing is off", PROMPT)
    prompt.run("values;")
    prompt.see("row 2", "window_start │ nothing")
    assert "(" not in prompt.see(PROMPT).split("2 rows")[1]
    prompt.run(r"\format xml")
    prompt.see("there is no format 'xml'", PROMPT)
    for back in (r"\x off", r"\null", r"\timing on"):
        prompt.run(back)
        prompt.see(PROMPT)


def test_rows_can_go_to_a_file_and_sql_come_from_one(terminal, tmp_path):
    (tmp_path / "two.sql").write_text("rows 2;")
    prompt = terminal("--format", "csv")
    prompt.run(r"\o out.csv")
    prompt.see("rows go to out.csv as csv", PROMPT)
    prompt.run(r"\i two.sql")
    prompt.see("2 rows written to out.csv", PROMPT)
    prompt.run(r"\o")
    prompt.see("closed out.csv", PROMPT)
    assert (tmp_path / "out.csv").read_text() == "n\n0\n1\n"
    prompt.run(r"\i nowhere.sql")
    prompt.see("cannot read nowhere.sql", PROMPT)


def test_watch_runs_the_last_statement_until_ctrl_c(prompt):
    prompt.run("rows 2;")
    prompt.see("2 rows (", PROMPT)
    prompt.run(r"\watch 0.3")
    prompt.see("every 0.3 s", "2 rows (", "every 0.3 s", "2 rows (")
    time.sleep(0.1)
    prompt.child.sendintr()
    prompt.see(PROMPT)


def test_an_editor_takes_the_last_statement_and_gives_it_to_the_prompt(terminal, tmp_path):
    editor = tmp_path / "edit.sh"
    editor.write_text("#!/bin/sh\nsed -i 's/rows 2/rows 8/' \"$1\"\n")
    editor.chmod(0o755)
    prompt = terminal(EDITOR=str(editor), VISUAL="")
    prompt.run("rows 2;")
    prompt.see("2 rows (", PROMPT)
    prompt.run(r"\e")
    prompt.see("rows 8;")
    prompt.run("")
    prompt.see("8 rows (")


def test_chart_draws_the_rows_of_the_last_statement(prompt):
    prompt.run("windows;")
    prompt.see("8 rows (", PROMPT)
    prompt.run(r"\chart")
    drawn = prompt.see("8 rows (", PROMPT)
    assert "8┤" in drawn and "12:00" in drawn, drawn
    prompt.run("windows;")
    prompt.see("window_end          │ n", PROMPT)


def test_help_lists_every_command_and_explains_functions(prompt):
    from sqlwin.repl.commands import COMMANDS

    prompt.type("\\?\r")
    shown = prompt.see("SQL statements:")
    for name in COMMANDS:
        assert name in shown
    prompt.run(r"\? hop")
    prompt.see("HOP(TABLE data, DESCRIPTOR(timecol), slide, size [, offset])", "Example:")


def test_a_wrong_command_names_the_nearest(prompt):
    prompt.run(r"\timming")
    prompt.see(r"there is no command \timming", r"did you mean \timing?", PROMPT)
