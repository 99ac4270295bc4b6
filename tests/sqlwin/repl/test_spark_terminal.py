"""One prompt over Spark; each test continues where the previous one stopped."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.goldens import ROOT
from tests.observing import files_below, wait_until
from tests.sqlwin.repl.terminal import PROMPT, SECONDS, Terminal

pytestmark = [pytest.mark.spark, pytest.mark.long]

WINDOWS = (
    "SELECT window_end, COUNT(*) AS n\r"
    "FROM TABLE(TUMBLE(TABLE ticks, DESCRIPTOR(at), INTERVAL '1' SECOND))\r"
    "GROUP BY window_start, window_end;\r"
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory for temporary files of the prompt."""
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def prompt(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    opened = Terminal(
        ROOT,
        "--master",
        "local[2]",
        "--conf",
        "spark.driver.memory=1g",
        "--conf",
        "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        size=(50, 110),
        program=("-m", "sqlwin.cli.app"),
        SQLWIN_HISTORY=str(tmp_path_factory.mktemp("prompt") / "history"),
        TMPDIR=str(files),
    )
    opened.see(PROMPT)
    yield opened
    opened.close()


def commits(files: Path) -> set[Path]:
    """The commits of micro-batches in temporary checkpoints, named by their numbers."""
    return {path for path in files_below(files) if path.parent.name == "commits"}


def window_ends(prompt: Terminal) -> list[str]:
    """Return the window ends in the table on the screen, below the text seen before."""
    lines = prompt.screen.text()[prompt.position :].splitlines()
    rows = (re.match(r"([-\d]+ [:\d]+) +│ +\d+$", line) for line in lines)
    return [row[1] for row in rows if row]


def see_windows(prompt: Terminal, *, more_than: int) -> list[str]:
    def has_more() -> bool:
        prompt.read()
        return len(window_ends(prompt)) > more_than

    wait_until(has_more, SECONDS, every_s=0, explain=prompt.screen.text)
    return window_ends(prompt)


def test_the_prompt_appears_before_spark_starts(prompt: Terminal) -> None:
    prompt.shows("Spark is starting")
    prompt.type("CREATE TABLE flights WITH ('connector' = 'filesystem',\r")
    prompt.type("'path' = 'queries/data/flights.parquet');\r")
    prompt.see("OK", PROMPT)
    prompt.shows("Spark 4")


def test_a_query_of_windows_and_an_error_with_its_place(prompt: Terminal) -> None:
    prompt.answers(r"\d flights", "sched_dep", "TIMESTAMP(6)", "11 rows (")
    prompt.type("SELECT origin, COUNT(*) AS n\r")
    prompt.type("FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '365' DAYS))\r")
    prompt.type("GROUP BY origin, window_start, window_end ORDER BY n DESC LIMIT 1;\r")
    prompt.see("origin", "EWR", "1 row (", PROMPT)
    prompt.type("SELECT dep_dealy FROM flights;\r")
    prompt.see("column `dep_dealy` does not exist", "    " + " " * 7 + "^^^^^^^^^", "dep_delay")
    prompt.see(PROMPT)


def test_ctrl_c_ends_a_job_of_hours(prompt: Terminal) -> None:
    prompt.type("SELECT SUM(a.id % 7 * b.id) FROM range(1000000000) a, range(1000000000) b;\r")
    prompt.shows("0/")
    prompt.type("\x03")
    prompt.see("cancelled", PROMPT)
    prompt.type("SELECT 41 + 1 AS answer;\r")
    prompt.see("answer", "42", "1 row (", PROMPT)


def test_a_stream_is_a_table_that_grows_as_windows_close_and_q_stops_it(prompt: Terminal) -> None:
    prompt.type("CREATE TABLE ticks (id INT, at TIMESTAMP_LTZ(3), WATERMARK FOR at AS at)\r")
    prompt.type("WITH ('connector' = 'datagen', 'rows-per-second' = '20');\r")
    prompt.see("OK", PROMPT)
    prompt.type(WINDOWS)
    prompt.see("window_start, window_end;", "│  n")
    first = see_windows(prompt, more_than=0)
    later = see_windows(prompt, more_than=len(first) + 1)
    assert later[: len(first)] == first and later == sorted(set(later))
    prompt.shows("rows/s · batch ")
    prompt.shows("· watermark ")
    prompt.shows("q stops")
    prompt.type("q")
    output = prompt.see(" rows in total (", PROMPT)
    assert "· watermark " in output and "q stops" not in output and "stopping" not in output


def test_ctrl_c_stops_a_stream_and_keeps_the_typed_text(prompt: Terminal) -> None:
    prompt.type(WINDOWS)
    prompt.see("window_start, window_end;", "│  n")
    see_windows(prompt, more_than=1)
    prompt.type("SELECT 6 * 7 AS answer;")
    prompt.taken()
    prompt.type("\x03")
    prompt.see(" rows in total (", "cancelled", PROMPT, "SELECT 6 * 7 AS answer;")
    prompt.type("\r")
    prompt.see("answer", "42", "1 row (", PROMPT)


def test_ctrl_c_ends_explain_analyze_of_a_stream_with_its_figures(
    prompt: Terminal, files: Path
) -> None:
    before = commits(files)
    prompt.answers(r"\pager off", "pager: off")
    prompt.type("EXPLAIN ANALYZE " + WINDOWS)
    prompt.shows("Running")

    def has_two_micro_batches() -> bool:
        prompt.read()
        return any(commit.name == "1" for commit in commits(files) - before)

    wait_until(has_two_micro_batches, SECONDS, every_s=0, explain=prompt.screen.text)
    prompt.type("\x03")
    prompt.see("== Execution ==", "ran until interrupted: ", " micro-batch")
    prompt.see("TableSourceScan", "micro-batch", PROMPT)
    prompt.type("SELECT 42 AS answer;\r")
    prompt.see("answer", "42", "1 row (", PROMPT)


def test_ctrl_d_leaves(prompt: Terminal) -> None:
    assert prompt.leave() == 0
