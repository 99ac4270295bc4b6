"""Every display and output path shows instants in `table.local-time-zone`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import sqlwin
from sqlwin.display.formats import write_csv
from tests.marks import among

ZONE = "Europe/Berlin"
AT = datetime(2026, 6, 1, 12, tzinfo=ZoneInfo(ZONE))
SHOWN = "2026-06-01 12:00:00"
QUERIES = {
    "literal": f"SELECT TIMESTAMP_LTZ '{SHOWN}' AS at",
    "values": f"SELECT * FROM VALUES (TIMESTAMP_LTZ '{SHOWN}') AS v(at)",
    "files": "SELECT at FROM f",
    "limit": "SELECT at FROM f LIMIT 1",
    "order": "SELECT at FROM f ORDER BY at",
    "grouped": "SELECT MIN(at) AS at FROM f",
    "memory": "SELECT at FROM m",
    "window": "SELECT MAX(at) AS at, window_end FROM TABLE(TUMBLE(TABLE f, DESCRIPTOR(at), "
    "INTERVAL '1' MINUTE)) GROUP BY window_start, window_end",
    "window rows": "SELECT at, window_time FROM TABLE(TUMBLE(TABLE f, DESCRIPTOR(at), "
    "INTERVAL '1' MINUTE))",
    "window over memory": "SELECT MAX(at) AS at FROM TABLE(TUMBLE(TABLE m, DESCRIPTOR(at), "
    "INTERVAL '1' MINUTE)) GROUP BY window_start, window_end",
}
STREAMS = ("files", "window", "window rows")
CASES = [(name, "batch") for name in QUERIES] + [(name, "streaming") for name in STREAMS]


@pytest.fixture
def berlin(fresh_session: sqlwin.Session, tmp_path: Path) -> sqlwin.Session:
    """Create a table of files and one in memory, each with one instant."""
    fresh_session.execute(f"""
        SET 'table.local-time-zone' = '{ZONE}';
        CREATE TABLE f (at TIMESTAMP_LTZ(3), WATERMARK FOR at AS at) WITH (
          'connector' = 'filesystem', 'path' = '{tmp_path / "f"}', 'format' = 'parquet');
        CREATE TABLE m (at TIMESTAMP_LTZ(3)) WITH ('connector' = 'memory');
        INSERT INTO f VALUES (TIMESTAMP_LTZ '{SHOWN}');
        INSERT INTO m SELECT at FROM f;
    """)
    return fresh_session


@pytest.mark.variants(1)
@pytest.mark.parametrize("case", among(CASES, long=[("order", "batch")]))
def test_an_instant_is_in_the_session_s_zone(
    berlin: sqlwin.Session, case: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    name, mode = case
    berlin.execute(f"SET 'execution.runtime-mode' = '{mode}'")
    (result,) = berlin.execute(QUERIES[name])
    zoned = pa.timestamp("us", ZONE)
    if mode == "batch" or name == "files":  # each way runs a stream again
        batches = list(result.batches())
        assert [batch.column(0)[0].as_py() for batch in batches if batch.num_rows] == [AT]
        assert {batch.schema.field("at").type for batch in batches} == {zoned}
        assert result.to_arrow().schema.field("at").type == zoned
    (row,) = result.rows
    assert (row.at, row.at.utcoffset()) == (AT, timedelta(hours=2))
    if name.startswith("window r"):
        end = row.at.replace(tzinfo=None, second=59, microsecond=999_000)
        assert row.window_time.replace(tzinfo=None) == end
    capsys.readouterr()
    result.show()
    assert SHOWN in capsys.readouterr().out


@pytest.mark.parametrize(
    ("zone", "shown"),
    [
        ("GMT+8", "2026-06-01T18:00:00+08:00"),
        ("Asia/Kolkata", "2026-06-01T15:30:00+05:30"),
        ("UTC", "2026-06-01T10:00:00+00:00"),
    ],
)
def test_zones_of_java_s_are_shown_too(
    fresh_session: sqlwin.Session, zone: str, shown: str
) -> None:
    fresh_session.execute(f"SET 'table.local-time-zone' = '{zone}'")
    (result,) = fresh_session.execute("SELECT TIMESTAMP '2026-06-01 10:00:00Z' AS at")
    written: list[str] = []
    write_csv(result.columns, result.batches(), written.append)
    assert shown in "".join(written)


def test_nested_instants_are_in_the_session_s_zone(berlin: sqlwin.Session) -> None:
    (result,) = berlin.execute(
        "SELECT ARRAY(at) AS a, NAMED_STRUCT('x', at) AS s, MAP('k', at) AS m FROM f"
    )
    (row,) = result.rows
    assert (row.a, row.s.x, row.m) == ([AT], AT, {"k": AT})
    assert row.s.x.utcoffset() == timedelta(hours=2)


def test_a_later_zone_does_not_move_a_result(berlin: sqlwin.Session) -> None:
    (result,) = berlin.execute("SELECT at FROM f")
    berlin.execute("SET 'table.local-time-zone' = 'UTC'")
    assert result.to_arrow().schema.field("at").type == pa.timestamp("us", ZONE)


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("'format' = 'csv'", "2026-06-01 12:00:00.000000+02:00"),
        ("'format' = 'json'", '{"at":"2026-06-01 12:00:00.000000+02:00"}'),
    ],
    ids=["csv", "json"],
)
def test_files_of_text_have_the_local_time(
    berlin: sqlwin.Session, tmp_path: Path, options: str, text: str
) -> None:
    path = tmp_path / "out"
    berlin.execute(f"""
        CREATE TABLE o (at TIMESTAMP_LTZ(3)) WITH ('connector' = 'filesystem', {options},
          'path' = '{path}');
        INSERT INTO o SELECT at FROM f""")
    (written,) = (file.read_text() for file in path.glob("part*") if file.stat().st_size)
    assert text in written
    (result,) = berlin.execute("SELECT at FROM o")
    assert result.rows[0].at == AT.astimezone(UTC)


@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_print_has_the_local_time_with_its_offset(
    berlin: sqlwin.Session, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    berlin.execute(f"""
        CREATE TABLE p (at TIMESTAMP_LTZ(3), many ARRAY<TIMESTAMP_LTZ(3)>)
          WITH ('connector' = 'print');
        SET 'execution.runtime-mode' = '{mode}'""")
    (result,) = berlin.execute("INSERT INTO p SELECT at, ARRAY(at) FROM f")
    if result.stream is not None:
        result.stream.wait()
    assert capsys.readouterr().out == (
        "+I[2026-06-01T12:00:00+02:00, [2026-06-01T12:00:00+02:00]]\n"
    )
