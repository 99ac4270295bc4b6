"""The prompt over Spark itself."""

import pytest

from tests.goldens import ROOT
from tests.repl.terminal import PROMPT, Terminal

pytestmark = pytest.mark.spark


def test_a_session_at_the_prompt(tmp_path):
    prompt = Terminal(
        ROOT,
        "--master",
        "local[2]",
        "--conf",
        "spark.driver.memory=1g",
        size=(50, 110),
        program=("-m", "sqlwin.cli.app"),
        SQLWIN_HISTORY=str(tmp_path / "history"),
        SQLWIN_CLASS_ARCHIVE="off",
    )
    prompt.see(PROMPT)
    prompt.shows("Spark is starting")
    prompt.type("CREATE TABLE flights WITH ('connector' = 'filesystem',\r")
    prompt.type("'path' = 'queries/data/flights.parquet');\r")
    prompt.see("OK", PROMPT)
    prompt.run(r"\d flights")
    prompt.see("sched_dep", "TIMESTAMP_NTZ", "11 rows (", PROMPT)
    prompt.type("SELECT origin, COUNT(*) AS n\r")
    prompt.type("FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '365' DAYS))\r")
    prompt.type("GROUP BY origin, window_start, window_end ORDER BY n DESC LIMIT 1;\r")
    prompt.see("origin", "EWR", "1 row (", PROMPT)
    prompt.type("SELECT dep_dealy FROM flights;\r")
    prompt.see("column `dep_dealy` does not exist", "    " + " " * 7 + "^^^^^^^^^", "dep_delay")
    prompt.see(PROMPT)
    # a job of hours, which Ctrl-C ends
    prompt.type("SELECT SUM(a.id % 7 * b.id) FROM range(1000000000) a, range(1000000000) b;\r")
    prompt.shows("0/")
    prompt.type("\x03")
    prompt.see("cancelled", PROMPT)
    prompt.type("SELECT 41 + 1 AS answer;\r")
    prompt.see("answer", "42", "1 row (", PROMPT)
    assert prompt.leave() == 0
