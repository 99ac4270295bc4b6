"""Files as people get them, on Spark: the rows and notes that a person sees."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sqlwin
from runtime.errors import ExecutionError
from tests.marks import among
from tests.sqlwin.catalog.test_messy_files import DAYS, FILES, at, utc

# Lines of logs, and the patterns that split them
LOGS = {
    "java.log": (
        "[2026-01-01 10:00:00,123] [main] INFO started\n[2026-01-01 10:00:01,456] [io] WARN slow\n",
        r"^\[(?<time>[^\]]+)\] \[(?<thread>[^\]]+)\] +(?<level>[A-Z]+) +(?<message>.*)",
        [(at("2026-01-01 10:00:00.123"),), (at("2026-01-01 10:00:01.456"),)],
    ),
    "app.log": (
        "2026-01-01 10:00:00 [INFO] ready\n2026-01-01 10:20:00 [WARN] slow\n  at line 3\n",
        r"^(?<time>\S+ \S+) \[?(?<level>[A-Z]+)\]?:? +(?<message>.*)",
        [(at("2026-01-01 10:00"),), (at("2026-01-01 10:20"),)],
    ),
    "access.log": (
        '1.2.3.4 - - [10/Oct/2025:13:55:36 -0700] "GET /a HTTP/1.1" 200 26 "-" "Mozilla/5.0"\n',
        "combined",
        [(utc("2025-10-10 20:55:36"),)],
    ),
    "host.log": (
        '1.2.3.4 - - [10/Oct/2025:13:55:36 -0700] "GET /a HTTP/1.1" 200 26\n',
        "common",
        [(utc("2025-10-10 20:55:36"),)],
    ),
}


EXPRESSIONS = {
    "months.csv": [at("2026-01-01"), at("2026-02-01")],
    "mixed.ndjson": [utc("2026-03-01 10:00"), utc("2026-03-01 10:10")],
    "numbers.ndjson": [1.0, 2.5, 3.0],
    "two.csv": [at("2026-03-01 10:00"), at("2026-03-13 11:00")],
    "zones.csv": [utc("2026-03-01 10:00"), utc("2026-03-01 10:00")],
}


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    "name", among(EXPRESSIONS, long=["months.csv", "numbers.ndjson", "zones.csv"])
)
def test_the_expression_of_a_note_reads_all_values(
    name: str, fresh_session: sqlwin.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    messy = next(messy for messy in FILES if messy.file == name)
    Path(name).write_text(messy.text)
    (note,) = messy.notes
    match = re.search(r"(?:use |; |, )((?:CASE|COALESCE|CAST|TRY_CAST|TO_TIMESTAMP)\b.*)", note)
    assert match is not None
    expression = re.split(r" gives | takes ", match[1])[0]
    (result,) = fresh_session.execute(f"SELECT {expression} AS v FROM '{name}' ORDER BY v")
    assert [row[0] for row in result.rows] == EXPRESSIONS[name]


@pytest.mark.parametrize("name", among(LOGS, long=["app.log", "host.log"]))
def test_a_log_names_the_pattern_that_splits_its_lines(
    name: str, fresh_session: sqlwin.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text, pattern, times = LOGS[name]
    Path(name).write_text(text)
    (whole,) = fresh_session.execute(f"DESCRIBE '{name}'")
    assert [row[0] for row in whole.rows] == ["value"]
    assert whole.notes == (
        f"'{name}': each line is one column, `value`; read_text('{name}', pattern => "
        f"'{pattern}') splits lines into columns",
    )
    (result,) = fresh_session.execute(
        f"SELECT time FROM read_text('{name}', pattern => '{pattern}', ignore_errors => true)"
    )
    assert [tuple(row) for row in result.rows] == times


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    "name",
    among(
        ["offsets.csv", "midnight.csv", "compact.csv", "days.csv"],
        long=["midnight.csv", "compact.csv"],
    ),
)
def test_spark_reads_the_same_rows(
    name: str, fresh_session: sqlwin.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    messy = [messy for messy in FILES if messy.file == name][-1]
    Path(name).write_text(messy.text)
    fresh_session.execute("SET 'sqlwin.in-process.max-bytes' = '0'")
    (result,) = fresh_session.execute(messy.query)
    assert [tuple(row) for row in result.rows] == messy.rows
    assert result.notes == messy.notes


@pytest.mark.long
def test_month_names_first_are_times(
    fresh_session: sqlwin.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("us.csv").write_text("ts;x\nMar 4, 2026 1:05 PM;1\nMay 14, 2026 11:05 AM;2\n")
    (result,) = fresh_session.execute("SELECT ts FROM 'us.csv' ORDER BY x")
    assert [row[0] for row in result.rows] == [at("2026-03-04 13:05"), at("2026-05-14 11:05")]
    assert result.notes == ()


def test_lines_in_no_known_notation_have_no_note(
    fresh_session: sqlwin.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("e.txt").write_text("[INFO] ready\n[WARN] slow\n")
    (result,) = fresh_session.execute("SELECT * FROM 'e.txt'")
    assert [tuple(row) for row in result.rows] == [("[INFO] ready",), ("[WARN] slow",)]
    assert result.notes == ()


@pytest.mark.long
def test_a_cast_that_fails_names_the_line_of_the_total(
    fresh_session: sqlwin.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("days.csv").write_text(DAYS)
    with pytest.raises(ExecutionError, match="'Total'") as caught:
        list(fresh_session.execute("SELECT CAST(day AS DATE) AS d FROM 'days.csv'")[-1].rows)
    assert str(caught.value.hint).startswith("'days.csv': line 4: 'Total' is not a time")
