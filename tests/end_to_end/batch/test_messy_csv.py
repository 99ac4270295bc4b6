"""CSV as spreadsheets and loggers write it: equal rows in batches, windows and streams."""

from __future__ import annotations

import gzip
from datetime import datetime
from pathlib import Path

import pytest

import sqlwin
from runtime.errors import CatalogError, ExecutionError

at = datetime.fromisoformat

EXCEL = (
    "sep=;\r\nZeit;Wert;Anteil\r\n;kWh;%\r\n"
    "01.01.2026 10:00:00;1.250,5 €;3 %\r\n13.01.2026 11:00:00;-2,25 €;-4%\r\n"
)
LOGGER = (
    "Station Bonn\nmade, by hand\n\nts,v,note\n// begin\n2026-01-01 10:00:00,1,a\nts,v,note\n"
    '2026-01-01 11:00:00,2,"b, c"\n'
)


def rows(session: sqlwin.Session, sql: str) -> list[tuple[object, ...]]:
    result = session.execute(sql)[-1]
    return [tuple(row) for row in result.rows]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a directory with files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "excel.csv").write_text(EXCEL, encoding="utf-8", newline="")
    (tmp_path / "logger.csv").write_text(LOGGER)
    return tmp_path


@pytest.mark.long
def test_excels_file_with_units_and_symbols(fresh_session: sqlwin.Session, data: Path) -> None:
    (result,) = fresh_session.execute("SELECT * FROM 'excel.csv'")
    assert [tuple(row) for row in result.rows] == [
        (at("2026-01-01 10:00"), "1.250,5 €", "3 %"),
        (at("2026-01-13 11:00"), "-2,25 €", "-4%"),
    ]
    assert any("'csv.number-symbols' = '€|%'" in note for note in result.notes)
    (read,) = fresh_session.execute(
        "SELECT * FROM read_csv('excel.csv', number_symbols = ['€', '%'])"
    )
    expected = [(at("2026-01-01 10:00"), 1250.5, 3), (at("2026-01-13 11:00"), -2.25, -4)]
    assert [tuple(row) for row in read.rows] == expected
    # the option settles the note about symbols, although the statement names the same file
    assert not any("number-symbols" in note for note in read.notes)


@pytest.mark.long
def test_the_statement_shown_for_files_gives_the_same_rows(
    fresh_session: sqlwin.Session, data: Path
) -> None:
    options = "/*+ OPTIONS('csv.number-symbols' = '€|%') */"
    ((shown,),) = rows(fresh_session, f"SHOW CREATE TABLE 'excel.csv' {options}")
    assert "'csv.number-symbols' = '€|%'" in str(shown)
    assert "'csv.skip-lines' = '1'" in str(shown)
    fresh_session.execute(str(shown))
    actual = rows(fresh_session, "SELECT * FROM excel")
    assert actual == rows(fresh_session, f"SELECT * FROM 'excel.csv' {options}")
    described = rows(fresh_session, "DESCRIBE read_csv('excel.csv', number_symbols = '€|%')")
    assert [row[1] for row in described] == ["TIMESTAMP(6)", "DOUBLE", "BIGINT"]


@pytest.mark.variants(1)
@pytest.mark.parametrize("packed", [False, True])
def test_a_preamble_comments_and_repeated_headers(
    fresh_session: sqlwin.Session, data: Path, packed: bool
) -> None:
    (data / "many").mkdir()
    for name in ("a", "b"):
        path = data / "many" / f"{name}.csv"
        if packed:
            path.with_suffix(".csv.gz").write_bytes(gzip.compress(LOGGER.encode()))
        else:
            path.write_text(LOGGER)
    options = "/*+ OPTIONS('csv.comment' = '//', 'csv.skip-repeated-headers' = 'true') */"
    actual = rows(
        fresh_session,
        f"""
        SELECT window_start, SUM(v), COUNT(DISTINCT note), MAX(note)
        FROM TUMBLE('many' {options}, ts, 1h) GROUP BY window_start, window_end ORDER BY 1
        """,
    )
    assert actual == [(at("2026-01-01 10:00"), 2, 1, "a"), (at("2026-01-01 11:00"), 4, 1, "b, c")]


@pytest.mark.long
def test_a_stream_reads_the_rows_that_a_batch_reads(
    fresh_session: sqlwin.Session, data: Path
) -> None:
    (data / "in").mkdir()
    (data / "in" / "a.csv").write_text(LOGGER)
    fresh_session.execute("""
        CREATE TABLE t (ts TIMESTAMP(3), v BIGINT, note STRING, f STRING METADATA FROM 'file.name',
          WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'csv', 'header' = 'true',
          'csv.skip-lines' = '3', 'csv.comment' = '//', 'csv.skip-repeated-headers' = 'true');
    """)
    query = """
        SELECT window_start, SUM(v), MAX(f) FROM TUMBLE(t, ts, 1h)
        GROUP BY window_start, window_end
    """
    expected = [(at("2026-01-01 10:00"), 1, "a.csv"), (at("2026-01-01 11:00"), 2, "a.csv")]
    assert sorted(rows(fresh_session, query)) == expected
    fresh_session.execute("SET 'execution.runtime-mode' = 'streaming'")
    assert sorted(rows(fresh_session, query)) == expected


@pytest.mark.long
def test_fields_over_several_lines_below_a_preamble(
    fresh_session: sqlwin.Session, data: Path
) -> None:
    (data / "f.csv").write_text('It\'s a "report"\nk,v\n"a\nb",1\n"c ""d""",2\n', encoding="utf-16")
    actual = rows(fresh_session, "SELECT * FROM read_csv('f.csv', skip = 1)")
    assert actual == [("a\nb", 1), ('c "d"', 2)]


@pytest.mark.long
def test_values_that_do_not_fit_are_located_below_a_preamble(
    fresh_session: sqlwin.Session, data: Path
) -> None:
    table = """
        CREATE TABLE t (ts TIMESTAMP(3), v BIGINT, note {}) WITH ('connector' = 'filesystem',
          'path' = '{}', 'format' = 'csv', 'header' = 'true', 'csv.skip-lines' = '3',
          'csv.comment' = '//', 'csv.skip-repeated-headers' = 'true')
    """
    fresh_session.execute(table.format("INT", "logger.csv"))
    with pytest.raises(
        ExecutionError, match=r"logger\.csv, line 6, column `note`: 'a' is not a valid INT"
    ):
        rows(fresh_session, "SELECT * FROM t")
    (data / "short.csv").write_text(f"{LOGGER}2026-01-01 10:00:00,1\n")
    fresh_session.execute(table.replace("TABLE t", "TABLE s").format("STRING", "short.csv"))
    with pytest.raises(ExecutionError, match=r"short\.csv, line 9: .* has 2 fields instead of 3"):
        rows(fresh_session, "SELECT COUNT(*) FROM s")
    (data / "many").mkdir()
    (data / "many" / "a.csv").write_text(LOGGER)
    (data / "many" / "b.csv").write_text(LOGGER.replace("ts,v,note", "ts,w,note"))
    fresh_session.execute(table.replace("TABLE t", "TABLE m").format("STRING", "many"))
    with pytest.raises(
        ExecutionError, match=r"the headers of files differ: .*many/.*csv has 'ts,[vw],note'"
    ):
        rows(fresh_session, "SELECT COUNT(*) FROM m")


def test_options_of_lines_are_checked_and_are_not_written(
    fresh_session: sqlwin.Session, data: Path
) -> None:
    with pytest.raises(CatalogError, match="a whole number"):
        rows(fresh_session, "SELECT * FROM read_csv('excel.csv', skip = 'x')")
    with pytest.raises(CatalogError, match="requires a header"):
        fresh_session.execute("""
            CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = 'o',
              'format' = 'csv', 'csv.skip-lines-below-header' = '1')
        """)
    fresh_session.execute("""
        CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = 'o', 'format' = 'csv',
          'csv.skip-lines' = '1')
    """)
    with pytest.raises(CatalogError, match="applies to reading only"):
        fresh_session.execute("INSERT INTO t VALUES (1)")


@pytest.mark.long
def test_a_date_and_a_time_of_day_are_one_time(fresh_session: sqlwin.Session, data: Path) -> None:
    (data / "f.csv").write_text(
        "Tag;Uhr;v\n31.12.2025;23:59:30;1\n1.1.2026;00:10:00;2\n;10:00:00;4\n"
    )
    actual = rows(
        fresh_session,
        """
        SELECT window_start, SUM(v) FROM TUMBLE('f.csv', Tag + Uhr, 1h)
        GROUP BY window_start, window_end ORDER BY 1
        """,
    )
    assert actual == [(at("2025-12-31 23:00"), 1), (at("2026-01-01 00:00"), 2)]
    with pytest.raises(sqlwin.SqlwinError) as raised:
        rows(fresh_session, "SELECT * FROM TUMBLE('f.csv', Uhr, 1h)")
    assert "add the date: Tag + Uhr" in (raised.value.hint or "").replace("`", "")
    with pytest.raises(sqlwin.SqlwinError, match="a date and a time of day") as raised:
        rows(fresh_session, "SELECT * FROM TUMBLE('f.csv', Tag + Uhr + v, 1h)")
    assert raised.value.position is not None


@pytest.mark.parametrize(
    ("header", "other", "expected"),
    [
        ("a,b", "b,a", r"the headers of files differ: .*\.csv has [ab], [ab], other files have"),
        ("a,b", "a,b,c", r"the headers of files differ: .*\.csv has \d, other files have \d"),
        ("a,b,c2,c3", "a,b,c3,c2", "the headers of files differ"),
        # pandas leaves the name of the index empty
        (",a,b", ",a,b", [(1, 2), (1, 2)]),
        ("c,a,b,c", "c,a,b,c", [(1, 2), (1, 2)]),
        ("a,b", "A,B", [(0, 1), (0, 1)]),
    ],
)
def test_all_files_have_the_same_header(
    fresh_session: sqlwin.Session, data: Path, header: str, other: str, expected: object
) -> None:
    (data / "all").mkdir()
    for name, names in (("1.csv", header), ("2.csv", other)):
        numbers = ",".join(str(i) for i, _ in enumerate(names.split(",")))
        (data / "all" / name).write_text(f"{names}\n{numbers}\n")
    fresh_session.execute(
        "CREATE TABLE t (a INT, b INT) WITH ('connector' = 'filesystem', 'path' = 'all', "
        "'format' = 'csv', 'header' = 'true')"
    )
    if isinstance(expected, str):
        with pytest.raises(sqlwin.SqlwinError, match=expected):
            rows(fresh_session, "SELECT a, b FROM t")
    else:
        assert rows(fresh_session, "SELECT a, b FROM t") == expected
