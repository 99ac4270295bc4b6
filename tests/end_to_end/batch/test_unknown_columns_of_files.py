"""A column that files do not have: the first error that most users see."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin

COLUMNS = "`Zeit` TIMESTAMP(6) (time column), `Tag` DATE (time column), `Ort` STRING, `kW h` DOUBLE"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to a directory with files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.csv").write_text("Zeit,Tag,Ort,kW h\n2026-01-01 10:00:00,2026-01-01,Bonn,1.5\n")
    at = pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table({"at": at, "v": [1]}), tmp_path / "f.parquet")


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SELECT nosuch FROM 'f.csv'", f"'f.csv' has {COLUMNS}"),
        ("SELECT Ortt FROM 'f.csv'", f"did you mean `Ort`? 'f.csv' has {COLUMNS}"),
        ("SELECT x.nosuch FROM 'f.csv' AS x", f"'f.csv' has {COLUMNS}"),
        (
            "SELECT COUNT(*) FROM TUMBLE('f.csv', ts, 1h) GROUP BY window_start, window_end",
            f"'f.csv' has {COLUMNS}",
        ),
        (
            "SELECT MAX(nosuch) FROM TUMBLE('f.csv', Zeit, 1h) GROUP BY window_start, window_end",
            f"'f.csv' has {COLUMNS}",
        ),
        (
            "SELECT MAX(v) FROM TUMBLE('f.parquet', ts, 1h) GROUP BY window_start, window_end",
            "'f.parquet' has `at` TIMESTAMP_LTZ(6) (time column), `v` BIGINT",
        ),
        (
            "SELECT nosuch FROM read_csv('f.csv', header = false)",
            "'f.csv' has `column0` STRING, `column1` STRING, `column2` STRING, `column3` STRING",
        ),
        ("SELECT nosuch FROM 'f.csv', 'f.parquet'", f"{COLUMNS}; 'f.parquet' has `at` TIMESTAMP"),
    ],
)
def test_an_unknown_column_lists_the_columns_of_files(
    fresh_session: sqlwin.Session, data: None, sql: str, hint: str
) -> None:
    with pytest.raises(sqlwin.SqlwinError, match="does not exist") as raised:
        fresh_session.execute(sql)[-1].rows  # noqa: B018
    assert raised.value.position is not None
    assert hint in (raised.value.hint or "")


def test_a_column_of_a_cte_is_not_looked_for_in_files(
    fresh_session: sqlwin.Session, data: None
) -> None:
    with pytest.raises(sqlwin.SqlwinError) as raised:
        fresh_session.execute("WITH d AS (SELECT Ort FROM 'f.csv') SELECT d.m FROM d")
    assert "f.csv" not in (raised.value.hint or "")


@pytest.mark.long
def test_of_many_columns_all_times_are_listed(
    fresh_session: sqlwin.Session, data: None, tmp_path: Path
) -> None:
    names = [f"c{i}" for i in range(99)]
    text = ",".join([*names, "at"]) + "\n" + ",".join([*["1"] * 99, "2026-01-01 10:00:00"]) + "\n"
    (tmp_path / "wide.csv").write_text(text)
    with pytest.raises(sqlwin.SqlwinError) as raised:
        fresh_session.execute("SELECT nosuch FROM 'wide.csv'")
    hint = raised.value.hint or ""
    assert "`at` TIMESTAMP(6) (time column) and 60 more" in hint
    assert "`c38` BIGINT" in hint and "`c39`" not in hint
