"""Files queried by path, as users of DuckDB or Flink would first try."""

from __future__ import annotations

import gzip
import json
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

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
def test_a_european_csv_takes_one_statement_to_its_first_window(
    fresh_session: sqlwin.Session, data: Path
) -> None:
    actual = rows(
        fresh_session,
        """
        SELECT window_start, COUNT(*), SUM(Preis), SUM(sales.Menge)
        FROM TABLE(TUMBLE('sales.csv', Zeit, 1h)) AS sales
        GROUP BY window_start, window_end ORDER BY window_start
        """,
    )
    assert actual == [
        (at("2025-12-31 22:00"), 1, 1234.5, 3),
        (at("2025-12-31 23:00"), 1, 0.5, None),
        (at("2026-01-01 00:00"), 1, None, 12),
    ]


@pytest.mark.long
def test_a_csv_of_windows_is_read_and_written_in_its_encoding(
    fresh_session: sqlwin.Session, data: Path
) -> None:
    text = "Stadt;Preis\nKöln;3,20\n„Œuvre“;12,80\n"
    (data / "windows.csv").write_bytes(text.encode("cp1252"))
    assert rows(fresh_session, "SELECT Stadt, Preis FROM 'windows.csv'") == [
        ("Köln", 3.2),
        ("„Œuvre“", 12.8),
    ]
    fresh_session.execute("""
        CREATE TABLE o (town STRING)
        WITH ('connector' = 'filesystem', 'path' = 'o', 'format' = 'csv', 'encoding' = 'cp1252');
        INSERT INTO o SELECT Stadt FROM 'windows.csv';
    """)
    written = b"".join(part.read_bytes() for part in (data / "o").glob("part-*"))
    assert "Köln".encode("cp1252") in written
    assert rows(fresh_session, "SELECT COUNT(*) FROM o WHERE town = 'Köln'") == [(1,)]


@pytest.mark.long
def test_json_lines_a_header_with_null_words_and_hive_parquet_do_too(
    fresh_session: sqlwin.Session, data: Path
) -> None:
    lines = [{"ts": f"2025-01-01T{hour:02}:30:00Z", "v": hour} for hour in range(4)]
    (data / "events.ndjson").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    header = "ts,v\n" + "".join(
        f"2025-01-01 {h:02}:30:00,{'n/a' if h == 2 else h}\n" for h in range(4)
    )
    (data / "plain.csv.gz").write_bytes(gzip.compress(header.encode()))
    for hour in range(4):
        (data / "hive" / f"hour={hour}").mkdir(parents=True)
        times = pa.array([at(f"2025-01-01 {hour:02}:30")], pa.timestamp("us"))
        table = pa.table({"ts": times, "v": [hour]})
        pq.write_table(table, data / "hive" / f"hour={hour}" / "part-0.parquet")
    strings = pa.table({"ts": [line["ts"][:19] for line in lines], "v": [0, 1, 2, 3]})  # type: ignore[index]
    pq.write_table(strings, data / "strings.parquet")
    for path, sums in (
        ("events.ndjson", [1, 5]),
        ("plain.csv.gz", [1, 3]),
        ("hive", [1, 5]),
        ("hive/*/*.parquet", [1, 5]),
        ("strings.parquet", [1, 5]),
    ):
        actual = rows(
            fresh_session,
            f"""
            SELECT window_start, SUM(v) FROM TABLE(
              TUMBLE(TABLE '{path}', DESCRIPTOR(ts), INTERVAL '2' HOURS))
            GROUP BY window_start, window_end ORDER BY window_start
            """,
        )
        assert [total for _, total in actual] == sums, path
    assert rows(fresh_session, "SELECT SUM(hour) FROM 'hive' WHERE hour > 1") == [(5,)]


def test_the_arrow_scan_reads_parquet_by_its_name(
    fresh_session: sqlwin.Session, data: Path
) -> None:
    times = pa.array([at("2025-01-01 00:30")], pa.timestamp("us"))
    pq.write_table(pa.table({"ts": times, "v": [1]}), data / "f.parquet")
    plan = fresh_session.explain(
        "SELECT window_start, SUM(v) FROM TUMBLE('f.parquet', ts, 1h) GROUP BY window_start, window_end"
    )
    assert "ArrowScanLocalWindowAggregate(table=['f.parquet']" in plan


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
    for path in ("sales.csv", "t.ndjson", "h", "p.parquet"):
        ((statement,),) = rows(fresh_session, f"SHOW CREATE TABLE '{path}'")
        name = path.partition(".")[0]
        assert str(statement).startswith(f"CREATE TABLE `{name}` (")
        fresh_session.execute(str(statement))
        assert rows(fresh_session, f"DESCRIBE {name}") == rows(fresh_session, f"DESCRIBE '{path}'")
        by_name = rows(fresh_session, f"SELECT * FROM '{path}' ORDER BY 1")
        assert rows(fresh_session, f"SELECT * FROM {name} ORDER BY 1") == by_name
        assert by_name


def test_create_table_without_columns_finds_them(fresh_session: sqlwin.Session, data: Path) -> None:
    fresh_session.execute("CREATE TABLE s WITH ('connector' = 'filesystem', 'path' = 'sales.csv')")
    assert rows(fresh_session, "SELECT SUM(Preis) FROM s") == [(1235.0,)]
    with pytest.raises(sqlwin.SqlwinError, match=r"table `x`: .*nowhere\.csv does not exist"):
        fresh_session.execute(
            "CREATE TABLE x WITH ('connector' = 'filesystem', 'path' = 'nowhere.csv')"
        )


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


def test_options_and_duckdbs_functions(fresh_session: sqlwin.Session, data: Path) -> None:
    hint = "/*+ OPTIONS('csv.null-literals' = 'n/a|12') */"
    assert rows(fresh_session, f"SELECT SUM(Menge) FROM 'sales.csv' {hint}") == [(3,)]
    call = "read_csv(['sales.csv'], delim = ';', nullstr = ['n/a', '3'])"
    assert rows(fresh_session, f"SELECT SUM(Menge) FROM {call}") == [(12,)]
    with pytest.raises(sqlwin.SqlwinError, match="unknown argument delm of read_csv"):
        fresh_session.execute("SELECT * FROM read_csv('sales.csv', delm = ';')")
    with pytest.raises(
        sqlwin.SqlwinError, match="cannot be used with files by path, which are read"
    ):
        fresh_session.execute(
            "SELECT * FROM 'sales.csv' /*+ OPTIONS('source.monitor-interval' = '1 s') */"
        )


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


@pytest.mark.long
def test_windows_work_on_dates(fresh_session: sqlwin.Session, data: Path) -> None:
    (data / "d.csv").write_text("Tag;Preis\n31.12.2025;1,5\n01.01.2026;2,5\n01.01.2026;1\n")
    for sql in (
        "SELECT window_start, SUM(Preis) FROM TUMBLE('d.csv', Tag, 1d) "
        "GROUP BY window_start, window_end ORDER BY window_start",
        "SELECT TUMBLE_START(Tag, INTERVAL '1' DAY) AS s, SUM(Preis) FROM 'd.csv' "
        "GROUP BY TUMBLE(Tag, INTERVAL '1' DAY) ORDER BY s",
    ):
        assert rows(fresh_session, sql) == [(at("2025-12-31"), 1.5), (at("2026-01-01"), 3.5)]


def test_files_are_no_tables_of_the_session(fresh_session: sqlwin.Session, data: Path) -> None:
    before = rows(fresh_session, "SHOW TABLES")
    rows(fresh_session, "SELECT * FROM 'sales.csv'")
    assert rows(fresh_session, "SHOW TABLES") == before
    fresh_session.execute("SET 'sqlwin.strict-flink' = 'true'")
    with pytest.raises(sqlwin.SqlwinError, match="a path cannot be used as a table in Flink"):
        fresh_session.execute("SELECT * FROM 'sales.csv'")


def test_ambiguous_dates_are_noted_and_an_option_settles_them(
    fresh_session: sqlwin.Session, data: Path
) -> None:
    (data / "f.csv").write_text("d,v\n01/02/2025 10:00,1\n03/04/2025 11:00,2\n")
    (result,) = fresh_session.execute("SELECT * FROM 'f.csv'")
    assert "d/M/yyyy H:mm or M/d/yyyy H:mm" in result.notes[0]
    with pytest.raises(sqlwin.SqlwinError) as raised:
        fresh_session.execute("SELECT * FROM TUMBLE('f.csv', d, 1h)")
    assert "set 'fields.d.format' = 'd/M/yyyy H:mm'" in str(raised.value)
    hint = "/*+ OPTIONS('fields.d.format' = 'd/M/yyyy H:mm') */"
    (first, _) = rows(fresh_session, f"SELECT window_start FROM TUMBLE('f.csv' {hint}, d, 1h)")
    assert first == (at("2025-02-01 10:00"),)


def test_a_path_is_read_as_it_is_now_in_streaming_mode_too(
    fresh_session: sqlwin.Session, data: Path
) -> None:
    fresh_session.execute("SET 'execution.runtime-mode' = 'streaming'")
    (result,) = fresh_session.execute("SELECT COUNT(*) FROM 'sales.csv'")
    assert [tuple(row) for row in result.rows] == [(3,)]
    assert "runs as a batch" in result.notes[0]


def test_a_path_without_files_points_at_itself(fresh_session: sqlwin.Session, data: Path) -> None:
    with pytest.raises(sqlwin.SqlwinError) as raised:
        fresh_session.execute("SELECT * FROM 'salse.csv'")
    assert raised.value.position is not None
    assert raised.value.position.column == len("SELECT * FROM '")
    assert "did you mean" in str(raised.value.hint)


def test_a_table_with_options_of_reading_is_not_written(
    fresh_session: sqlwin.Session, data: Path
) -> None:
    fresh_session.execute(
        "CREATE TABLE out (v DOUBLE) WITH ('connector' = 'filesystem', 'path' = 'out', "
        "'format' = 'csv', 'csv.decimal-separator' = ',')"
    )
    with pytest.raises(sqlwin.SqlwinError, match="applies to reading only"):
        fresh_session.execute("INSERT INTO out SELECT 1.5")


@pytest.mark.long
def test_orc_is_a_table_by_its_name_and_brings_the_columns_of_a_watermark(
    fresh_session: sqlwin.Session, data: Path
) -> None:
    times = [at(f"2025-01-01 10:{minute:02}") for minute in (0, 5, 10)]
    orc.write_table(pa.table({"ts": pa.array(times, pa.timestamp("us")), "v": [1, 2, 3]}), "f.orc")
    query = "SELECT SUM({}) FROM TUMBLE({}, ts, 10m) GROUP BY window_start, window_end"
    assert rows(fresh_session, query.format("v", "'f.orc'")) == [(3,), (3,)]
    fresh_session.execute(
        "CREATE TABLE f (d AS v * 2, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) "
        "WITH ('connector' = 'filesystem', 'path' = 'f.orc')"
    )
    assert rows(fresh_session, query.format("d", "f")) == [(6,), (6,)]
    described = rows(fresh_session, "DESCRIBE f")
    assert [(row[0], row[-1]) for row in described] == [
        ("ts", "ts - INTERVAL '5' SECOND"),
        ("v", ""),
        ("d", ""),
    ]


def test_avro_without_its_package_is_refused_in_one_line(
    fresh_session: sqlwin.Session, data: Path
) -> None:
    (data / "f.avro").write_bytes(b"Obj\x01")
    with pytest.raises(
        sqlwin.SqlwinError, match="Spark reads Avro only with an additional package"
    ) as raised:
        fresh_session.execute("SELECT * FROM 'f.avro'")
    assert raised.value.position is not None


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("second", "message"),
    [
        (
            '{"v": "x"},',
            "whole.json has a record that does not match the columns: field `v` is 'x', which is not a valid "
            "BIGINT",
        ),
        (
            '{"v": 2,',
            "whole.json, line 4, has a record that does not match the columns: unexpected character",
        ),
    ],
)
def test_a_multi_line_json_file_names_the_invalid_value(
    fresh_session: sqlwin.Session, data: Path, second: str, message: str
) -> None:
    (data / "whole.json").write_text("\n".join(["[", '{"v": 1},', second, '{"v": 3}', "]"]))
    fresh_session.execute(
        "CREATE TABLE w (v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'whole.json', "
        "'format' = 'json', 'multiLine' = 'true')"
    )
    with pytest.raises(sqlwin.SqlwinError) as raised:
        rows(fresh_session, "SELECT SUM(v) FROM w")
    assert message in raised.value.message
