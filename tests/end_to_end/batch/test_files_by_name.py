"""Files queried by path, as users of DuckDB or Flink would first try."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from runtime.errors import ExecutionError
from tests.marks import among

EUROPEAN = """Zeit;Laden;Preis;Menge
31.12.2025 22:59:59;Köln;1.234,50;3
31.12.2025 23:10:00;Bonn;0,50;n/a
01.01.2026 00:00:10;Köln;n/a;12
"""
at = datetime.fromisoformat


def rows(session: sqlwin.Session, sql: str) -> list[tuple[object, ...]]:
    (result,) = session.execute(sql)
    return [tuple(row) for row in result.rows]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a directory with files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sales.csv").write_text(EUROPEAN)
    return tmp_path


@pytest.mark.long
def test_show_create_table_says_the_same_and_runs(
    fresh_session: sqlwin.Session, data: Path
) -> None:
    (data / "t.ndjson").write_text(
        '{"at": 1735689600123, "a": {"b": 1}, "z": "2025-01-01T00:00:00Z"}\n'
    )
    (data / "h" / "day=2025-01-01").mkdir(parents=True)
    (data / "h" / "day=2025-01-01" / "x.csv").write_text("a|b\n1|x\n2|y\n")
    times = pa.array([at("2025-01-01 00:00")], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"ts": times, "v": [1.5]}), data / "p.parquet")
    (data / "excel.csv").write_text("sep=;\nZeit;Wert\n;kWh\n01.01.2026 10:00:00;1.250,5 €\n")
    (data / "app.log").write_text("10 INFO\n20 WARN\n")
    for read, name in (
        ("'sales.csv'", "sales"),
        ("'t.ndjson'", "t"),
        ("'h'", "h"),
        ("'p.parquet'", "p"),
        ("'excel.csv' /*+ OPTIONS('csv.number-symbols' = '€') */", "excel"),
        (r"read_text('app.log', pattern => '(?<ms>\d+) (?<level>\w+)')", "app"),
    ):
        ((statement,),) = rows(fresh_session, f"SHOW CREATE TABLE {read}")
        assert str(statement).startswith(f"CREATE TABLE `{name}` (")
        assert name != "excel" or "'csv.skip-lines' = '1'" in str(statement)
        fresh_session.execute(str(statement))
        assert rows(fresh_session, f"DESCRIBE {name}") == rows(fresh_session, f"DESCRIBE {read}")
        by_name = rows(fresh_session, f"SELECT * FROM {read} ORDER BY 1")
        assert rows(fresh_session, f"SELECT * FROM {name} ORDER BY 1") == by_name
        assert by_name


@pytest.mark.long
def test_summarize(fresh_session: sqlwin.Session, data: Path) -> None:
    actual = {row[0]: row[1:] for row in rows(fresh_session, "SUMMARIZE 'sales.csv'")}
    assert actual["Menge"][:7] == ("BIGINT", 2, 1, 2, "3", "12", "7.5")
    assert actual["Laden"][:6] == ("STRING", 3, 0, 2, "Bonn", "Köln")
    assert actual["Zeit"][4:6] == ("2025-12-31 22:59:59", "2026-01-01 00:00:10")
    (only,) = rows(fresh_session, "SUMMARIZE SELECT Preis FROM 'sales.csv' WHERE Preis > 1")
    assert only[:5] == ("Preis", "DOUBLE", 1, 0, 1)
    for figures in rows(fresh_session, "SUMMARIZE SELECT id * 7919 AS id FROM RANGE(2000)"):
        n_values, _, n_distinct = figures[2:5]
        assert 0 < n_distinct <= n_values


LATE = [
    (
        "2025-01-01 00:00:00,abc\n",
        "SELECT SUM(v)",
        "line 12002, column `v`: 'abc' is not a valid BIGINT",
    ),
    (
        "2025-01-01 00:00:00,1.5\n",
        "SELECT SUM(v)",
        "line 12002, column `v`: '1.5' is not a valid BIGINT",
    ),
    ("01.02.2025,1\n", "SELECT MAX(ts)", "column `ts`: '01.02.2025' is not a valid TIMESTAMP"),
    (
        "2025-01-01 00:00:00Z,1\n",
        "SELECT MAX(ts)",
        "'2025-01-01 00:00:00Z' is not a valid TIMESTAMP",
    ),
    (
        "2025-01-01 00:00:00\n",
        "SELECT COUNT(*)",
        "line 12002: '2025-01-01 00:00:00' has 1 fields",
    ),
    ("2025-01-01 00:00:00,1,2\n", "SELECT COUNT(*)", "has 3 fields instead of 2"),
]
LONG_HEAD = "".join(f"2025-01-01 00:00:{i % 60:02},{i}\n" for i in range(12_000))


@pytest.mark.long
@pytest.mark.parametrize("late", among(LATE, slow=LATE[1::2]), ids=lambda late: late[2])
def test_values_that_do_not_fit_after_the_sample_are_located(
    fresh_session: sqlwin.Session, data: Path, late: tuple[str, str, str]
) -> None:
    last, sql, message = late
    (data / "late.csv").write_text(f"ts,v\n{LONG_HEAD}{last}2025-01-01 00:00:00,1\n")
    with pytest.raises(ExecutionError) as raised:
        rows(fresh_session, f"{sql} FROM 'late.csv'")
    assert message in str(raised.value)
    assert str(raised.value).startswith("late.csv")
    assert "NULL" in str(raised.value.hint)
    # the same of a table with declared columns
    fresh_session.execute(
        "CREATE TABLE late (ts TIMESTAMP(3), v BIGINT) "
        "WITH ('connector' = 'filesystem', 'path' = 'late.csv', 'header' = 'true')"
    )
    with pytest.raises(ExecutionError) as raised:
        rows(fresh_session, f"{sql} FROM late")
    assert message in str(raised.value)


@pytest.mark.long
def test_lines_of_logs_are_counted_beyond_the_sample(
    fresh_session: sqlwin.Session, data: Path
) -> None:
    (data / "long.log").write_text("took 12 ms\ntook 7 ms\n" * 20_000 + "boom\n")
    read = r"SELECT MAX(ms) FROM read_text('long.log', pattern => 'took (?<ms>\d+) ms')"
    with pytest.raises(ExecutionError, match=r"long\.log, line 40001: 'boom' does not match"):
        rows(fresh_session, read)
    assert rows(fresh_session, read.replace("')", "', ignore_errors => true)")) == [(12,)]


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    ("last", "sql", "message"),
    [
        ('{"v": "abc"}', "SELECT SUM(v)", "line 12001, column `v`: 'abc' is not a valid BIGINT"),
        ('{"v": 1, "t', "SELECT COUNT(*)", 'line 12001: \'{"v": 1, "t\' is not valid JSON'),
        (
            '{"t": "2025-01-01T00:00:00Z"}',
            "SELECT MAX(t)",
            "'2025-01-01T00:00:00Z' is not a valid TIMESTAMP",
        ),
        ('{"t": "x"}', "SELECT MAX(t)", "line 12001, column `t`: 'x' is not a valid TIMESTAMP"),
    ],
)
def test_json_values_that_do_not_fit_after_the_sample_are_located(
    fresh_session: sqlwin.Session, data: Path, last: str, sql: str, message: str
) -> None:
    lines = "".join(f'{{"v": {i}, "t": "2025-01-01T00:00:00"}}\n' for i in range(12_000))
    (data / "late.ndjson").write_text(f"{lines}{last}\n")
    with pytest.raises(ExecutionError) as raised:
        rows(fresh_session, f"{sql} FROM 'late.ndjson'")
    assert message in str(raised.value)


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("head", "last", "value"),
    [
        ("a;b\n1.234,5;x\n", "1.5;x\n", "1.5"),  # would be 15
        ("a;b\n1.234,5;x\n", "1.2.3;x\n", "1.2.3"),
        ("a;b\n1,5;x\n", "1.5;x\n", "1.5"),
        ("a,b\n2025-01-01T00:00:00Z,x\n", "2025,x\n", "2025"),
        ("a,b\n2025-01-01T00:00:00Z,x\n", "10:30,x\n", "10:30"),
        ("a,b\n2025-01-01,x\n", "2025-01-01 10:30,x\n", "2025-01-01 10:30"),
        ("a,b\n1735689600123,x\n", "soon,x\n", "soon"),
    ],
)
def test_values_that_a_lenient_cast_would_change_are_errors(
    fresh_session: sqlwin.Session, data: Path, head: str, last: str, value: str
) -> None:
    head = head.replace("a", "at", 1) if "17356" in head else head
    (header, first, _) = head.split("\n")
    rows_of_sample = f"{first}\n" * (300_000 // len(first))
    (data / "f.csv").write_text(f"{header}\n{rows_of_sample}{last}")
    with pytest.raises(ExecutionError, match=f"'{value}' is no"):
        rows(fresh_session, f"SELECT MAX({header[:2].strip(',;')}) FROM 'f.csv'")
