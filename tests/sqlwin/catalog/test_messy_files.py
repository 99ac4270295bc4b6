"""Files as people get them, read by path without Spark: the rows and notes that a person sees."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from runtime.errors import SqlwinError
from sqlwin.session import Session
from tests.unstarted import unstarted_spark

at = datetime.fromisoformat


def utc(text: str) -> datetime:
    return at(text).replace(tzinfo=UTC)


@dataclass(frozen=True)
class Messy:
    """A file, a query of it, and what the person who runs it sees."""

    file: str
    text: str
    query: str
    rows: list[tuple[object, ...]]
    notes: tuple[str, ...] = ()


SALES = """Zeit;Laden;Umsatz
01.03.2026 10:00;Bonn;1.249,00
01.03.2026 10:20;Bonn;3,20
01.03.2026 11:05;Köln;12,80
01.03.2026 11:10;Köln;9.900,00
01.03.2026 12:00;Bonn;58,49
Summe;;11.223,49
"""
SKIP_SUM = "/*+ OPTIONS('csv.skip-lines-starting-with' = 'Summe') */"
ON_SUM = (
    "'sales.csv': line 7: 'Summe' is not a time; the other 5 values are dd.MM.yyyy HH:mm, so `Zeit` "
    "is STRING; set 'csv.skip-lines-starting-with' = 'Summe' to skip the line, or set "
    "'csv.null-literals' = 'Summe' to read it as NULL"
)
DAYS = "day,k,x\n2026-03-01,a,0.25\n2026-03-02,b,0.5\nTotal,,0.75\n"
FILES = [
    Messy(
        "sales.csv",
        SALES,
        "SELECT Zeit FROM 'sales.csv' WHERE Umsatz > 9900",
        [("Summe",)],
        (ON_SUM,),
    ),
    Messy(
        "sales.csv",
        SALES,
        f"SELECT window_start, SUM(Umsatz) AS s FROM TUMBLE('sales.csv' {SKIP_SUM}, Zeit, 1h) "
        "GROUP BY window_start, window_end ORDER BY 1",
        [
            (at("2026-03-01 10:00"), 1252.2),
            (at("2026-03-01 11:00"), 9912.8),
            (at("2026-03-01 12:00"), 58.49),
        ],
    ),
    Messy(
        "days.csv",
        DAYS,
        "SELECT SUM(x) AS s FROM 'days.csv'",
        [(1.5,)],
        (
            "'days.csv': line 4: 'Total' is not a time; the other 2 values are ISO 8601, so `day` "
            "is STRING; set 'csv.skip-lines-starting-with' = 'Total' to skip the line, or set "
            "'csv.null-literals' = 'Total' to read it as NULL",
        ),
    ),
    Messy(
        "days.csv",
        DAYS,
        "SELECT day, x FROM read_csv('days.csv', skip_starting_with = ['Sum', 'Total'])",
        [(date(2026, 3, 1), 0.25), (date(2026, 3, 2), 0.5)],
    ),
    Messy(
        "quoted.csv",
        '"id","x"\n"1","5"\n"2","6"\n"Total, all","11"\n',
        "SELECT * FROM 'quoted.csv' /*+ OPTIONS('csv.skip-lines-starting-with' = '\"Total') */",
        [(1, 5), (2, 6)],
    ),
    Messy(
        "ids.csv",
        "id,x\n1,5\n2,6\nTotal,11\n",
        "SELECT COUNT(*) AS n FROM 'ids.csv'",
        [(3,)],
        (
            "'ids.csv': `id` is STRING instead of BIGINT, because of 'Total' in line 4; set "
            "'csv.skip-lines-starting-with' = 'Total' to skip the line, or set "
            "'csv.null-literals' = 'Total' to read it as NULL",
        ),
    ),
    Messy(
        "offsets.csv",
        "ts,x\n2026-03-01T10:00:00+01:00,1\n2026-03-01 10:10:00Z,2\n2026-03-01T10:20:00+0200,3\n"
        "2026-03-01T10:30:00.5-05,4\n",
        "SELECT ts FROM 'offsets.csv' ORDER BY x",
        [
            (utc("2026-03-01 09:00"),),
            (utc("2026-03-01 10:10"),),
            (utc("2026-03-01 08:20"),),
            (utc("2026-03-01 15:30:00.5"),),
        ],
    ),
    Messy(
        "midnight.csv",
        "ts,x\n2026-03-01,1\n2026-03-01 10:10:00,2\n",
        "SELECT ts FROM 'midnight.csv' ORDER BY x",
        [(at("2026-03-01"),), (at("2026-03-01 10:10"),)],
    ),
    Messy(
        "compact.csv",
        "ts,x\n20260301 101500,1\n20260301 235959,2\n",
        "SELECT ts FROM 'compact.csv' ORDER BY x",
        [(at("2026-03-01 10:15"),), (at("2026-03-01 23:59:59"),)],
    ),
    Messy(
        "digits.csv",
        "day,id,x\n20260301,20260301,1\n20260302,20260302,2\n",
        "SELECT day FROM 'digits.csv' WHERE x = 1",
        [(20260301,)],
        (
            "'digits.csv': `day` is BIGINT; if its values are times, set 'fields.day.format' = "
            "'yyyyMMdd'",
        ),
    ),
    Messy(
        "digits.csv",
        "day,x\n20260301,1\n20260302,2\n",
        "SELECT day FROM 'digits.csv' /*+ OPTIONS('fields.day.format' = 'yyyyMMdd') */ WHERE x = 1",
        [(date(2026, 3, 1),)],
    ),
    Messy(
        "months.csv",
        "month,x\n2026-01,1\n2026-02,2\n",
        "SELECT month FROM 'months.csv' WHERE x = 1",
        [("2026-01",)],
        (
            "'months.csv': `month` is STRING; if its values are months, TO_TIMESTAMP(`month`, "
            "'yyyy-MM') gives their beginnings, as does 'fields.month.format' = 'yyyy-MM'",
        ),
    ),
    Messy(
        "mixed.ndjson",
        '{"ts": 1772359200000, "x": 1}\n{"ts": "2026-03-01T10:10:00Z", "x": 2}\n',
        "SELECT ts FROM 'mixed.ndjson' WHERE x = 1",
        [("1772359200000",)],
        (
            "'mixed.ndjson': `ts` is STRING, because it has numbers such as 1772359200000 next to "
            "texts such as '2026-03-01T10:10:00Z'; use COALESCE(TIMESTAMP_MILLIS(TRY_CAST(`ts` AS "
            "BIGINT)), TRY_CAST(`ts` AS TIMESTAMP_LTZ))",
        ),
    ),
    Messy(
        "numbers.ndjson",
        '{"x": 1}\n{"x": "2.5"}\n{"x": 3}\n',
        "SELECT x FROM 'numbers.ndjson' WHERE x = '2.5'",
        [("2.5",)],
        (
            "'numbers.ndjson': `x` is STRING, because 2 of its 3 values are numbers and the others "
            "are texts; use CAST(`x` AS DOUBLE)",
        ),
    ),
    Messy(
        "total.ndjson",
        '{"ts": "2026-03-01 10:10:00"}\n{"ts": "2026-03-01 10:20:00"}\n{"ts": "Total"}\n',
        "SELECT COUNT(*) AS n FROM 'total.ndjson'",
        [(3,)],
        (
            "'total.ndjson': 'Total' is not a time; the other 2 values are ISO 8601, so `ts` is "
            "STRING; set 'json.null-literals' = 'Total' to read it as NULL",
        ),
    ),
    Messy(
        "total.ndjson",
        '{"ts": "2026-03-01 10:10:00"}\n{"ts": "2026-03-01 10:20:00"}\n{"ts": "Total"}\n',
        "SELECT ts FROM read_json('total.ndjson', nullstr = 'Total') WHERE ts IS NOT NULL "
        "ORDER BY ts LIMIT 1",
        [(at("2026-03-01 10:10"),)],
    ),
    Messy(
        "sensor.csv",
        "ts,received_ms,seen\n2026-03-01 10:00:00,1772359200000,1772359200000\n",
        "SELECT received_ms, seen FROM 'sensor.csv'",
        [(utc("2026-03-01 10:00"), 1772359200000)],
        (
            "'sensor.csv': `seen` is BIGINT; if its values are times, set 'fields.seen.format' = "
            "'epoch-millis'",
        ),
    ),
    Messy(
        "two.csv",
        "ts,x\n2026-03-01 10:00:00,1\n13.03.2026 11:00,2\n",
        "SELECT x FROM 'two.csv' WHERE ts LIKE '13.%'",
        [(2,)],
        (
            "'two.csv': `ts` is STRING, because its times have several formats: "
            "'2026-03-01 10:00:00' is ISO 8601, '13.03.2026 11:00' is dd.MM.yyyy HH:mm; use CASE "
            "WHEN TRY_TO_TIMESTAMP(`ts`, 'd.M.yyyy H:mm') IS NOT NULL THEN TO_TIMESTAMP(`ts`, "
            "'d.M.yyyy H:mm') ELSE TRY_CAST(`ts` AS TIMESTAMP(6)) END",
        ),
    ),
    Messy(
        "zones.csv",
        "ts,x\n2026-03-01 10:00:00,1\n2026-03-01 11:00:00+01:00,2\n",
        "SELECT x FROM 'zones.csv' WHERE ts LIKE '%+%'",
        [(2,)],
        (
            "'zones.csv': `ts` is STRING, because only some of its times have a zone; "
            "TRY_CAST(`ts` AS TIMESTAMP_LTZ) takes the others as times in the session's zone",
        ),
    ),
]


def session() -> Session:
    return Session(unstarted_spark(), settings={})


@contextmanager
def failing() -> Iterator[pytest.ExceptionInfo[SqlwinError]]:
    with pytest.raises(SqlwinError) as caught:
        yield caught


@pytest.mark.parametrize("messy", FILES, ids=lambda messy: messy.query)
def test_a_messy_file_gives_rows_and_notes(
    messy: Messy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(messy.file).write_text(messy.text)
    (result,) = session().execute(messy.query)
    assert [tuple(row) for row in result.rows] == messy.rows
    assert result.notes == messy.notes


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("a.log", "ts,x\n2026-01-01 10:00:00,1\n", ["ts", "x"]),
        ("b.log", '{"ts": "2026-01-01", "x": 1}\n', ["ts", "x"]),
        ("c.txt", '[{"ts": "2026-01-01", "x": 1}]', ["ts", "x"]),
        ("d.txt", '[\n {\n  "x": 1}]', ["x"]),
    ],
)
def test_files_without_a_known_suffix_have_the_format_of_their_first_bytes(
    name: str, text: str, columns: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text)
    (result,) = session().execute(f"DESCRIBE '{name}'")
    assert [row[0] for row in result.rows] == columns
    assert result.notes == ()


CSV = "save the sheet as CSV (UTF-8) and read that file"
PARQUET = "convert it to Parquet or CSV and read that file"


@pytest.mark.parametrize(
    ("name", "data", "message", "hint"),
    [
        ("a.xlsx", b"PK\x03\x04\x14\0\x06\0[Content_Types].xml", "is a spreadsheet", CSV),
        ("a.ods", b"PK\x03\x04\x14\0mimetypeapplication/vnd.oasis.x", "is a spreadsheet", CSV),
        ("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0", "is an Excel workbook", CSV),
        ("a.csv", b"PK\x03\x04\x14\0\x06\0[Content_Types].xml", "is a spreadsheet", CSV),
        (
            "a.zip",
            b"PK\x03\x04\x14\0\0\0data.csv",
            "is a ZIP archive",
            "extract it, and read the files in it; sqlwin reads .gz, .bz2 and .zst directly",
        ),
        (
            "a.db",
            b"SQLite format 3\0\x10",
            "is a SQLite database",
            "export the table as CSV and read that file",
        ),
        ("a.arrow", b"ARROW1\0\0", "is an Arrow or Feather file", PARQUET),
        ("a.feather", b"ARROW1\0\0", "is an Arrow or Feather file", PARQUET),
        ("old.feather", b"FEA1\0\0", "is a Feather file", PARQUET),
        ("a.arrows", b"\xff\xff\xff\xffx\0\0\0", "is an Arrow stream", PARQUET),
        (
            "a.bin",
            b"\1\0\2\0",
            "is not a text file",
            "convert it to Parquet, ORC, Avro, CSV, JSON or text, which sqlwin reads",
        ),
    ],
)
def test_a_file_that_is_no_table_says_what_to_do(
    name: str,
    data: bytes,
    message: str,
    hint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(data)
    with failing() as caught:
        session().execute(f"SELECT * FROM '{name}'")
    assert caught.value.message == f"{tmp_path / name} {message}"
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("missing", "similar"),
    [
        ("sale.csv", "sales.csv"),
        ("SALES.CSV", "sales.csv"),
        ("sales.parquet", "sales.csv"),
        ("aaa.csv", None),
        ("tables.csv", None),
        ("us.csv", None),
    ],
)
def test_only_files_of_similar_names_are_suggested(
    missing: str, similar: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("sales.csv", "months.csv", "ab.csv"):
        Path(name).write_text("a,b\n1,2\n")
    with failing() as caught:
        session().execute(f"SELECT * FROM '{missing}'")
    expected = (
        f"did you mean {tmp_path / similar}?" if similar else f"the directory {tmp_path} exists"
    )
    assert caught.value.hint == expected


def test_available_columns_are_all_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = [f"c{i}" for i in range(11)]
    Path("wide.csv").write_text(f"{','.join(names)}\n{','.join('1' * 11)}\n")
    reader = session()
    reader.execute("CREATE TABLE wide WITH ('connector' = 'filesystem', 'path' = 'wide.csv')")
    with failing() as caught:
        reader.execute("SELECT nope FROM wide")
    assert caught.value.hint == f"available columns: {', '.join(f'`{name}`' for name in names)}"
    with failing() as caught:
        reader.execute("SELECT nope FROM (SELECT * FROM wide) AS w")
    assert caught.value.hint == "available columns include: `c0`, `c1`, `c2`, `c3`, `c4`"


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        (
            "SELECT * FROM TUMBLE('days.csv', day, 1d)",
            "'days.csv': line 4: 'Total' is not a time",
        ),
        (
            "SELECT * FROM 'late.csv'",
            "set 'csv.skip-lines-starting-with' = 'Total' to skip such lines, or set 'csv.ignore",
        ),
    ],
)
def test_an_error_about_a_total_names_its_line_and_the_option(
    query: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("days.csv").write_text(DAYS)
    Path("late.csv").write_text(f"{DAYS.replace('Total,,', 'Total,,,')}")
    with failing() as caught:
        list(session().execute(query)[-1].rows)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(hint)
    if "late" in query:
        assert caught.value.message.startswith("late.csv, line 4: 'Total,,,0.75' has 4 fields")


def test_a_total_below_the_sample_has_a_line_and_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "2026-03-01 10:00:00,1\n" * 20_000
    Path("long.csv").write_text(f"ts,x\n{rows}Total,20000\n")
    with failing() as caught:
        list(session().execute("SELECT MAX(ts) AS t FROM 'long.csv'")[-1].rows)
    assert caught.value.message.startswith("long.csv, line 20002, column `ts`: 'Total' is not")
    assert "set 'csv.skip-lines-starting-with' = 'Total' to skip" in str(caught.value.hint)
    query = (
        "SELECT MAX(ts) AS t, SUM(x) AS s FROM read_csv('long.csv', skip_starting_with = 'Total')"
    )
    assert [tuple(row) for row in session().execute(query)[-1].rows] == [
        (at("2026-03-01 10:00"), 20_000)
    ]


def test_columns_of_one_name_have_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("twice.csv").write_text("a,ts,A,x\n1,2026-03-01 10:00:00,2,3\n")
    (result,) = session().execute("DESCRIBE 'twice.csv'")
    assert [row[0] for row in result.rows] == ["a0", "ts", "A2", "x"]
    assert result.notes == ("'twice.csv': 2 columns are named `a`; they are `a0` and `A2` here",)
