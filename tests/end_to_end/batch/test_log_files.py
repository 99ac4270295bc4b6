"""Server and program logs, and JSON from web services, in batches, windows and streams."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

import sqlwin
from runtime.errors import CatalogError, ExecutionError
from tests.end_to_end.batch.test_messy_csv import rows

at = datetime.fromisoformat

ACCESS = "".join(
    f'192.0.2.{i} - - [10/Oct/2025:13:5{i}:36 +0000] "GET /{i} HTTP/1.1" {200 + i} {size} '
    '"-" "curl"\n'
    for i, size in enumerate(["10", "-", "30"])
)
APP = "2026-01-01 10:00:00 [INFO] took 12 ms\n2026-01-01 11:30:00 [WARN] took 7 ms\n"
PATTERN = r"(?<at>\S+ \S+) \[(?<level>\w+)\] took (?<ms>\d+) ms"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a directory with files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "access.log").write_text(ACCESS)
    (tmp_path / "app.log").write_text(APP)
    return tmp_path


def test_an_access_log_takes_one_statement_to_its_first_window(
    fresh_session: sqlwin.Session, data: Path
) -> None:
    fresh_session.execute("SET 'table.local-time-zone' = 'UTC'")
    result = rows(
        fresh_session,
        """
        SELECT window_start, COUNT(*), SUM(bytes), MAX(status), MAX(path), COUNT(user)
        FROM TUMBLE(read_text('access.log', pattern => 'combined'), time, 1h)
        GROUP BY window_start, window_end
        """,
    )
    assert result == [
        (datetime(2025, 10, 10, 13, tzinfo=UTC).replace(tzinfo=None), 3, 40, 202, "/2", 0)
    ]


@pytest.mark.long
def test_named_groups_are_columns_of_their_types(fresh_session: sqlwin.Session, data: Path) -> None:
    read = f"read_text('app.log', pattern => '{PATTERN}')"
    expected = [(at("2026-01-01 10:00"), "INFO", 12), (at("2026-01-01 11:30"), "WARN", 7)]
    assert rows(fresh_session, f"SELECT * FROM {read}") == expected
    ((shown,),) = rows(fresh_session, f"SHOW CREATE TABLE {read}")
    fresh_session.execute(str(shown))
    assert rows(fresh_session, "SELECT * FROM app WHERE ms > 10") == expected[:1]


@pytest.mark.long
def test_a_stream_of_logs_reads_the_rows_that_a_batch_reads(
    fresh_session: sqlwin.Session, data: Path
) -> None:
    (data / "in").mkdir()
    (data / "in" / "a.log").write_text(f"{APP}\nts=1\n")
    fresh_session.execute(f"""
        CREATE TABLE t (`at` TIMESTAMP(3), level STRING, MS INT, WATERMARK FOR `at` AS `at`)
        WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'text',
          'text.pattern' = '{PATTERN}', 'text.ignore-parse-errors' = 'true')
    """)
    query = """
        SELECT window_start, MAX(level), SUM(ms) FROM TUMBLE(t, `at`, 1h)
        GROUP BY window_start, window_end
    """
    expected = [(at("2026-01-01 10:00"), "INFO", 12), (at("2026-01-01 11:00"), "WARN", 7)]
    assert sorted(rows(fresh_session, query)) == expected
    fresh_session.execute("SET 'execution.runtime-mode' = 'streaming'")
    assert sorted(rows(fresh_session, query)) == expected


@pytest.mark.long
def test_lines_and_values_that_do_not_fit_are_errors_with_their_place(
    fresh_session: sqlwin.Session, data: Path
) -> None:
    (data / "long.log").write_text(APP * 8000 + "boom\n")
    read = f"SELECT MAX(ms) FROM read_text('long.log', pattern => '{PATTERN}')"
    with pytest.raises(ExecutionError, match=r"long\.log, line 16001: 'boom' does not match"):
        rows(fresh_session, read)
    assert rows(fresh_session, read.replace("')", "', ignore_errors => true)")) == [(12,)]
    fresh_session.execute(f"""
        CREATE TABLE t (level INT) WITH ('connector' = 'filesystem', 'path' = 'app.log',
          'format' = 'text', 'text.pattern' = '{PATTERN}')
    """)
    with pytest.raises(
        ExecutionError, match=r"app\.log, line 1, column `level`: 'INFO' is not a valid INT"
    ):
        rows(fresh_session, "SELECT * FROM t")
    with pytest.raises(CatalogError, match="has no group named `nosuch`"):
        fresh_session.execute(f"""
            CREATE TABLE s (nosuch INT) WITH ('connector' = 'filesystem', 'path' = 'app.log',
              'format' = 'text', 'text.pattern' = '{PATTERN}')
        """)
    with pytest.raises(CatalogError, match=r"invalid value for option 'text\.pattern'") as raised:
        rows(fresh_session, "SELECT * FROM read_text('app.log', pattern => '(')")
    assert "regular expression with named groups" in (raised.value.hint or "")


def test_logfmt_and_plain_lines(fresh_session: sqlwin.Session, data: Path) -> None:
    (data / "f.log").write_text('ts=2026-01-01T10:00:00Z msg="a \\"b\\"" n=1\nn=2 up\n')
    result = rows(fresh_session, "SELECT msg, n, up FROM read_text('f.log', pattern => 'logfmt')")
    assert result == [('a "b"', 1, None), (None, 2, True)]
    assert rows(fresh_session, "SELECT * FROM read_text('f.log') LIMIT 1")[0][0].startswith("ts=")  # type: ignore[attr-defined]


@pytest.mark.long
def test_records_in_a_field_of_json(fresh_session: sqlwin.Session, data: Path) -> None:
    (data / "in").mkdir()
    for name in ("a", "b"):
        records = [{"ts": f"2026-01-01 1{i}:00:00", "v": i, "w": {"x": name}} for i in range(2)]
        whole = {"page": {"n": 1}, "data": records}
        (data / "in" / f"{name}.json").write_text(json.dumps(whole, indent=1))
    query = """
        SELECT window_start, SUM(v), MAX(w.x) FROM TUMBLE('in', ts, 1h)
        GROUP BY window_start, window_end ORDER BY 1
    """
    expected = [(at("2026-01-01 10:00"), 0, "b"), (at("2026-01-01 11:00"), 2, "b")]
    assert rows(fresh_session, query) == expected
    table = """
        CREATE TABLE t (ts TIMESTAMP(3), v INT, w ROW<x STRING>, WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json', 'json.records' = 'data')
    """
    fresh_session.execute(table)
    fresh_session.execute(table.replace("TABLE t", "TABLE s").replace("'data'", "'dta'"))
    with pytest.raises(ExecutionError, match="has no array 'dta' of JSON objects"):
        rows(fresh_session, "SELECT * FROM s")
    fresh_session.execute("SET 'execution.runtime-mode' = 'streaming'")
    stream = query.replace("'in'", "t").replace("ORDER BY 1", "")
    assert sorted(rows(fresh_session, stream)) == expected
