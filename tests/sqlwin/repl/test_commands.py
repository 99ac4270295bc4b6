"""The backslash commands in a real terminal, over a session without Spark."""

import json

import pytest
from pyarrow import parquet

from tests.sqlwin.repl.terminal import PROMPT, Terminal


def test_d_lists_tables_and_describes_one(prompt):
    prompt.answers(r"\d", "table name", "bids", "my table", "2 rows (")
    prompt.answers(r"\d bids", "name  │ type", "price │ DOUBLE", "3 rows (")
    prompt.answers(r"\d;", "my table")


def test_d_plus_shows_how_a_table_was_made(prompt):
    prompt.answers(r"\d+ bids", "SHOW CREATE TABLE bids")
    prompt.answers(
        r"\d+", r"error: \d+ requires the name of a table or view", r"\d lists tables and views"
    )


def test_words_and_commands_of_other_shells_are_aliases(prompt):
    prompt.answers(".tables", "table name", "bids")
    prompt.answers(".schema bids", "SHOW CREATE TABLE bids")
    prompt.answers(".schema", "table name")
    prompt.answers("help hop", "HOP(TABLE data, DESCRIPTOR(timecol), slide, size [, offset])")
    prompt.answers("help asof join;", "MATCH_CONDITION (left >= right)", "docs/sql.md#as-of-joins")
    prompt.answers(r"\h create", "Help on CREATE: CREATE TABLE, CREATE VIEW")
    prompt.type("HELP;\r")
    prompt.see("SQL statements:", PROMPT)
    prompt.answers(".tabels", "unknown command .tabels", "did you mean .tables?")


@pytest.mark.long
def test_an_error_in_a_command_leaves_the_prompt_open(prompt):
    prompt.answers(r"\null it's", 'NULL is shown as "it\'s"')
    prompt.answers(r"\null ''", "NULL is shown as ''")
    prompt.answers(r"\null", "NULL is shown as 'NULL'")
    prompt.answers(r"\i ~nobody-of-this-name/a.sql", "unknown user")
    prompt.answers(r"\o /dev/full", "writing rows to /dev/full")
    prompt.answers("rows 1;", "error: cannot write /dev/full: No space left on device")
    prompt.answers(r"\o", "error: cannot write /dev/full: No space left on device")
    prompt.answers("rows 2;", "2 rows (")


@pytest.mark.variants(1)
@pytest.mark.parametrize("how", ["quit", "exit;", ".quit", "Quit"])
def test_words_leave(terminal, how):
    assert terminal().leave(f"{how}\r") == 0


@pytest.mark.long
def test_parameters_have_values_until_they_are_forgotten(terminal):
    prompt = terminal("--param", "n=2")
    prompt.answers("rows :n;", "2 rows (")
    prompt.answers(r"\param n=3", ":n = 3")
    prompt.answers("rows :n;", "3 rows (")
    prompt.answers(r"\param n", "deleted :n")
    prompt.answers(r"\param", "no parameters")
    prompt.answers("rows :n;", "missing value for the parameter :n", "rows :n;", "^^")
    prompt.answers(r"\param 1=2", "\\param requires a name, not '1'")


@pytest.mark.long
def test_the_ending_of_a_file_says_how_rows_are_written(terminal, tmp_path):
    prompt = terminal()
    prompt.answers(r"\o out.csv", "writing rows to out.csv as csv")
    prompt.answers("rows 2;", "2 rows written to out.csv")
    prompt.answers(r"\o out.parquet", "closed out.csv", "writing rows to out.parquet as parquet")
    prompt.answers("values; values;", "2 rows written", "2 rows written to out.parquet")
    prompt.answers("plan;", "out.parquet is a Parquet file")
    prompt.answers("rows 1;", "1 row written to out-2.parquet")
    prompt.answers(r"\o none.parquet", "closed out-2.parquet")
    prompt.answers(r"\o", "closed none.parquet")
    assert (tmp_path / "out.csv").read_text() == "n\n0\n1\n"
    assert parquet.read_table(tmp_path / "out-2.parquet").to_pydict() == {"n": [0]}
    written = parquet.read_table(tmp_path / "out.parquet")
    assert (
        written.num_rows == 4 and str(written.schema.field("window_start").type) == "timestamp[us]"
    )
    assert not (tmp_path / "none.parquet").exists()


@pytest.mark.long
def test_a_stream_can_show_the_latest_row_of_each_key(prompt):
    prompt.answers(r"\latest name", "streams show the latest row of each name")
    prompt.run("grouped;")
    prompt.shows("watermark 12:00  ·  q stops")
    prompt.shows("42.5")  # of the fifth batch
    prompt.type("q")
    view = prompt.see("rows in total (", PROMPT)
    assert view.count("05:15:00") == 1
    prompt.answers(r"\latest on", "streams show the latest window of each key")
    prompt.run("stream;")
    prompt.see("the query is not grouped by keys")
    prompt.shows("watermark 12:00")
    prompt.type("q")
    prompt.see(PROMPT)
    prompt.answers(r"\latest nme")
    prompt.answers("stream;", "column `nme` for")
    prompt.answers(r"\latest off", "streams show their last rows")


def test_ui_says_where_the_page_is(prompt):
    prompt.answers(r"\ui", "monitoring page: http://127.0.0.1:4050/?token=t")
    prompt.answers(r"\ui 0", "monitoring page: http://127.0.0.1:0/?token=t")
    prompt.answers(r"\ui here", r"error: \ui requires a port, not 'here'")


def test_df_lists_functions(prompt):
    prompt.answers(r"\df", "function name", "concat_ws", "3 rows (")
    prompt.answers(r"\df %o'clock%", "SHOW FUNCTIONS LIKE '%o''clock%'")


def test_a_command_of_the_shell_runs_and_tells_if_it_fails(prompt):
    prompt.answers(r"\! echo from the $((1 + 1))nd shell", "from the 2nd shell")
    prompt.answers(r"\! exit 3", "exit code 3")


def test_history_lists_the_typed_statements(prompt):
    prompt.answers("rows 1;", "1 row (")
    prompt.answers("values;", "2 rows (")
    shown = prompt.answers(r"\history ROWS 1")
    assert "rows 1;" in shown and "values;" not in shown


def test_rows_bounds_tables(prompt):
    prompt.answers(r"\rows 3", "tables show at most 3 rows")
    prompt.answers("rows 5;", "… more rows", "3 rows shown (")
    prompt.answers(r"\rows few", "requires a number, not 'few'")
    prompt.answers(r"\rows 0", "tables show all rows")
    prompt.answers("rows 5;", "5 rows (")
    prompt.answers(r"\rows 1000", "tables show at most 1,000 rows")


@pytest.mark.long
def test_keys_switches_between_emacs_and_vi(prompt):
    prompt.answers(r"\keys vi", "key bindings: vi")
    prompt.shows("table  vi")
    prompt.type("rows 5 5;")
    prompt.type("\x1b")
    prompt.shows("vi normal")
    prompt.type("hhxa\r")
    prompt.see("55 rows (", PROMPT)
    prompt.answers(r"\keys", "key bindings: emacs")


def test_x_auto_shows_only_wide_tables_vertically(prompt):
    prompt.answers(r"\x auto", "vertical output: auto")
    prompt.shows("vertical auto")
    prompt.answers("wide 20;", "row 1", "column_number_19 │ value 19", "1 row (")
    prompt.run("rows 1;")
    assert "row 1" not in prompt.see("1 row (").replace("rows 1", "")
    prompt.answers(r"\x maybe", "requires one of on, off, auto, not 'maybe'")
    prompt.answers(r"\x off", "vertical output: off")


@pytest.mark.long
def test_a_wide_table_shows_one_value_per_line(terminal, tmp_path):
    prompt = terminal()
    prompt.answers("listing 13;", "row 1", "column_number_12 │ value 12", "1 row (")
    prompt.run("listing 5;")
    assert "row 1" not in prompt.see("1 row (").replace("1 row (", "")
    wide = Terminal(tmp_path, "-e", "listing 13", command="run", size=(24, 300))
    assert wide.ended() == 0 and "column_number_0 │ column_number_1 │" in wide.screen.text()
    narrow = Terminal(tmp_path, "-e", "listing 13", command="run", size=(24, 120))
    assert narrow.ended() == 0 and "column_number_12 │ value 12" in narrow.screen.text()


@pytest.mark.long
def test_every_format_writes_rows_its_way(prompt):
    for name, written in (
        ("json", '"price":1.0},'),
        ("jsonl", '{"window_start":null'),
        ("markdown", "| NULL | NULL | NaN |"),
        ("csv", ",,NaN"),
        ("table", "NULL                │ NULL │   NaN"),
    ):
        prompt.answers(rf"\format {name}", f"output format: {name}")
        prompt.answers("values;", written, "2 rows (")


@pytest.mark.long
def test_the_editor_returns_the_changed_file_to_the_prompt(terminal, tmp_path):
    editor = tmp_path / "edit.sh"
    editor.write_text("#!/bin/sh\necho 'rows 9;' > \"$1\"\n")
    editor.chmod(0o755)
    (tmp_path / "my report.sql").write_text("rows 2;\n")
    prompt = terminal(VISUAL=str(editor))
    prompt.run(r"\e my report.sql")
    prompt.see("rows 9;")
    prompt.answers("", "9 rows (")
    assert (tmp_path / "my report.sql").read_text() == "rows 9;\n"
    prompt.answers(r"\e nowhere/new.sql", "cannot write nowhere/new.sql")
    prompt.run(r"\e new.sql")
    prompt.see("rows 9;")
    assert (tmp_path / "new.sql").read_text() == "rows 9;\n"


@pytest.mark.long
def test_an_editor_that_fails_is_reported_and_nothing_is_lost(terminal):
    prompt = terminal(VISUAL="no-such-editor")
    prompt.answers("rows 2;", "2 rows (")
    prompt.answers(r"\e", "cannot run the editor no-such-editor", "export EDITOR=nano")


@pytest.mark.long
def test_watch_chart_and_row_need_a_statement(terminal):
    prompt = terminal()
    prompt.answers(r"\row n = 1", "no statement with rows", "run a query, then")
    prompt.answers(r"\watch", "no statement to repeat")
    prompt.answers(r"\chart", "no statement to draw")
    prompt.answers(r"\watch soon", "\\watch requires seconds, not 'soon'")


@pytest.mark.long
def test_formats_vertical_output_timing_and_null(prompt):
    prompt.answers(r"\format csv", "output format: csv")
    prompt.answers("values;", "window_start,name,price", "2013-01-01T05:15:00,NULL,1.0")
    prompt.answers(r"\format table")
    prompt.answers(r"\x", "vertical output: on")
    prompt.answers(r"\null nothing", "nothing")
    prompt.answers(r"\timing off", "timing: off")
    prompt.run("values;")
    prompt.see("row 2", "window_start │ nothing")
    assert "(" not in prompt.see(PROMPT).split("2 rows")[1]
    prompt.answers(r"\format xml", "unknown format 'xml'")
    for back in (r"\x off", r"\null", r"\timing on"):
        prompt.answers(back)


@pytest.mark.long
def test_an_output_file_holds_one_table(terminal, tmp_path):
    (tmp_path / "out-2.csv").write_text("somebody's")
    prompt = terminal()
    prompt.answers(r"\o out.csv", "writing rows to out.csv as csv")
    prompt.answers("rows 1; rows 2;", "1 row written to out.csv", "2 rows written to out.csv")
    prompt.answers("wide 2;", "1 row written to out-3.csv")
    prompt.answers(r"\o out.json", "closed out-3.csv", "writing rows to out.json as json")
    prompt.answers("rows 1; rows 2;", "1 row written to out.json", "2 rows written to out-2.json")
    prompt.answers(r"\o out.md", "closed out-2.json", "writing rows to out.md as markdown")
    prompt.answers("rows 1; rows 2;", "1 row written to out.md", "2 rows written to out.md")
    prompt.answers(r"\o", "closed out.md")
    read = {path.name: path.read_text() for path in tmp_path.glob("out*")}
    assert read["out.csv"] == "n\n0\n0\n1\n"
    assert read["out-2.csv"] == "somebody's"
    assert read["out-3.csv"] == "column_number_0,column_number_1\nvalue 0,value 1\n"
    assert [json.loads(read[f"out{number}.json"]) for number in ("", "-2")] == [
        [{"n": 0}],
        [{"n": 0}, {"n": 1}],
    ]


@pytest.mark.long
def test_o_writes_rows_to_a_file_and_i_reads_sql_from_one(terminal, tmp_path):
    (tmp_path / "two.sql").write_text("rows 2;")
    prompt = terminal("--format", "csv")
    prompt.answers(r"\o out.csv", "writing rows to out.csv as csv")
    prompt.answers(r"\i two.sql", "2 rows written to out.csv")
    prompt.answers(r"\o", "closed out.csv")
    assert (tmp_path / "out.csv").read_text() == "n\n0\n1\n"
    prompt.answers(r"\i nowhere.sql", "cannot read nowhere.sql")


def test_watch_runs_the_last_statement_until_ctrl_c(prompt):
    prompt.answers("rows 2;", "2 rows (")
    prompt.run(r"\watch 0.3")
    prompt.see("every 0.3 s", "2 rows (", "every 0.3 s", "2 rows (")
    prompt.child.sendintr()
    prompt.see(PROMPT)


@pytest.mark.long
def test_an_editor_takes_the_last_statement_and_gives_it_to_the_prompt(terminal, tmp_path):
    editor = tmp_path / "edit.sh"
    editor.write_text("#!/bin/sh\nsed -i 's/rows 2/rows 8/' \"$1\"\n")
    editor.chmod(0o755)
    prompt = terminal(EDITOR=str(editor), VISUAL="")
    prompt.answers("rows 2;", "2 rows (")
    prompt.run(r"\e")
    prompt.see("rows 8;")
    prompt.run("")
    prompt.see("8 rows (")


def test_row_explains_a_row_of_the_last_query(prompt):
    prompt.answers("rows 2;", "2 rows (")
    prompt.answers(r"\row n = 1", "ROWS has no rows to explain")
    prompt.answers("SELECT 1 AS n;", "OK")
    prompt.answers(r"\row", "a condition selects the row")
    prompt.answers(r"\row n = 1", "OK")


def test_chart_draws_the_rows_of_the_last_statement(prompt):
    prompt.answers("windows;", "8 rows (")
    drawn = prompt.answers(r"\chart", "8 rows (")
    assert "8┤" in drawn and "12:00" in drawn, drawn
    prompt.answers("windows;", "window_end          │ n")


def test_help_lists_every_command_and_explains_functions(prompt):
    from sqlwin.repl.commands import COMMANDS

    prompt.type("\\?\r")
    shown = prompt.see("SQL statements:")
    for name in COMMANDS:
        assert name in shown
    prompt.run(r"\? hop")
    prompt.see("HOP(TABLE data, DESCRIPTOR(timecol), slide, size [, offset])", "Example:")


def test_a_wrong_command_names_the_nearest(prompt):
    prompt.answers(r"\timming", r"unknown command \timming", r"did you mean \timing?")
