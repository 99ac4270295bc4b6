"""Files that are no tables, and totals below the lines from which columns are derived."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from runtime.errors import SqlwinError
from sqlwin.session import Session
from tests.unstarted import unstarted_spark

at = datetime.fromisoformat


def session() -> Session:
    return Session(unstarted_spark(), settings={})


@contextmanager
def failing() -> Iterator[pytest.ExceptionInfo[SqlwinError]]:
    with pytest.raises(SqlwinError) as caught:
        yield caught


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
