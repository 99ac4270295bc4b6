"""EXPLAIN ROW: the rows that a row of a result is computed from."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import sqlwin
from runtime.errors import AnalysisError
from runtime.simulator.compare import rows_of
from runtime.simulator.origins import Origin, origins_of, result_rows
from runtime.simulator.tables import TableRows
from runtime.spec.stream import LATE_ROW
from sqlwin.cli.app import main
from sqlwin.control import SessionControl
from sqlwin.execution.simulated import Simulated
from sqlwin.origins import explain
from sqlwin.result import ExplainResult
from sqlwin.statements.nodes import Query
from sqlwin.testing.tables import GivenTable, create_tables

START = datetime(2026, 3, 1)  # noqa: DTZ001  # a wall clock
GROUPS = "GROUP BY k, window_start, window_end"
TUMBLE = "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECONDS)"
HOP = "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECONDS, INTERVAL '20' SECONDS)"
CUMULATE = "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECONDS, INTERVAL '30' SECONDS)"
SESSION = "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '4' SECONDS)"
SUMS = "SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s"
WIDER = f"""
    SELECT window_start, window_end, SUM(n) AS n, MAX(s) AS s FROM TABLE(TUMBLE(TABLE (
      SELECT k, COUNT(*) AS n, SUM(v) AS s, window_time AS w FROM TABLE({TUMBLE}) {GROUPS}, window_time
    ), DESCRIPTOR(w), INTERVAL '30' SECONDS)) GROUP BY window_start, window_end
"""
TUMBLED = f"({SUMS} FROM TABLE({TUMBLE}) {GROUPS})"
OTHERS = f"(SELECT window_start, window_end, k, MAX(v) AS most FROM TABLE({TUMBLE}) WHERE v % 2 = 0 {GROUPS})"
SAME_WINDOW = "l.window_start = r.window_start AND l.window_end = r.window_end"
QUERIES = [
    f"{SUMS} FROM TABLE({TUMBLE}) {GROUPS}",
    f"{SUMS} FROM TABLE({HOP}) WHERE v % 3 <> 0 {GROUPS} HAVING COUNT(*) > 1",
    f"{SUMS} FROM TABLE({CUMULATE}) WHERE v > 5 {GROUPS}",
    f"{SUMS} FROM TABLE({SESSION}) {GROUPS}",
    f"SELECT s * 2 AS twice, n FROM ({SUMS} FROM TABLE({TUMBLE}) {GROUPS}) WHERE n > 2",
    "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t WHERE v % 2 = 0 GROUP BY k",
    WIDER,
    "SELECT window_end, k, n, s FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, "
    f"window_end ORDER BY s DESC) AS r FROM ({SUMS} FROM TABLE({TUMBLE}) {GROUPS})) WHERE r = 1",
    f"SELECT l.k, l.window_end, l.n, r.most FROM {TUMBLED} l JOIN {OTHERS} r ON {SAME_WINDOW} AND l.k = r.k",
    f"SELECT l.k, l.window_end, l.n, r.most FROM {TUMBLED} l LEFT JOIN {OTHERS} r ON {SAME_WINDOW} "
    "AND l.k = r.k AND r.most > 40",
    f"SELECT l.k, l.window_end, l.n FROM {TUMBLED} l WHERE EXISTS (SELECT * FROM {OTHERS} r "
    f"WHERE {SAME_WINDOW} AND l.k = r.k)",
    f"SELECT window_start, window_end, SUM(n) AS n, COUNT(*) AS keys FROM {TUMBLED} "
    "GROUP BY window_start, window_end",
    f"SELECT window_start, window_end, SUM(n) AS n FROM (SELECT l.window_start, l.window_end, l.n "
    f"FROM {TUMBLED} l JOIN {OTHERS} r ON {SAME_WINDOW} AND l.k = r.k) GROUP BY window_start, window_end",
    f"{SUMS} FROM TABLE(TUMBLE(TABLE (SELECT ts, k, v FROM t WHERE v < 20 UNION ALL "
    "SELECT ts, k, v * 2 FROM t WHERE v > 15), DESCRIPTOR(ts), INTERVAL '10' SECONDS)) "
    f"{GROUPS}",
]


def rows(random: Random, n_rows: int = 60) -> pa.Table:
    times = [START + timedelta(seconds=random.uniform(0, 70)) for _ in range(n_rows)]
    return pa.table(
        {
            "ts": pa.array(
                [None if n % 13 == 0 else t for n, t in enumerate(times)], pa.timestamp("us")
            ),
            "k": [random.choice(["a", "b", None]) for _ in range(n_rows)],
            "v": pa.array(range(n_rows), pa.int64()),
        }
    )


def simulated(sql: str, table: pa.Table, directory: Path) -> Simulated:
    """Return a query over a table `t`, without Spark."""
    columns = (("ts", "TIMESTAMP(6)"), ("k", "STRING"), ("v", "BIGINT"))
    with sqlwin.connect() as session:
        create_tables(session, [GivenTable("t", table, columns, ("ts", "ts"))], directory)
        control = SessionControl(session)
        ((_, query),) = control.statements(sql, None, None)
        assert isinstance(query, Query)
        with control.without_start_of_spark():
            found = control.simulated(query)
    assert isinstance(found, Simulated), found
    return found


@pytest.mark.parametrize("sql", QUERIES)
def test_the_listed_rows_alone_give_the_row(sql: str, tmp_path: Path) -> None:
    table = rows(Random(sql))
    query = simulated(sql, table, tmp_path).query
    tables = {"t": TableRows(query.tables[0], table, 0)}
    result = result_rows(query, tables)
    assert len(result) > 1
    for place in range(len(result)):
        origins = origins_of(query, tables, result.column(LATE_ROW)[place].as_py())
        used = sorted({row for origin in origins for row in stored_rows(origin)})
        some = TableRows(query.tables[0], table.take(pa.array(used)), 0)
        again = result_rows(query, {"t": some}).drop_columns([LATE_ROW])
        assert rows_of([result.slice(place, 1).drop_columns([LATE_ROW])])[0] in rows_of([again])


def stored_rows(origin: Origin) -> Iterator[int]:
    """Yield the numbers of the rows of tables in an origin."""
    assert not {*origin.numbers.tolist()} & {*origin.filtered.tolist()}
    if not origin.below:
        yield from origin.numbers.tolist()
    for below in origin.below:
        yield from stored_rows(below)


@pytest.fixture
def table(fresh_session: sqlwin.Session, tmp_path: Path) -> sqlwin.Session:
    for name, seconds in (("one", [1, 2, 12]), ("two", [3, 4, 5])):
        path = tmp_path / "in" / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        times = pa.array([START + timedelta(seconds=s) for s in seconds], pa.timestamp("us"))
        pq.write_table(pa.table({"ts": times, "k": ["a"] * 3, "v": seconds}), path)
    fresh_session.execute(f"""
        CREATE TABLE t (ts TIMESTAMP(3), k STRING, v BIGINT, WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'parquet');
        CREATE VIEW sums AS {SUMS} FROM TABLE({HOP}) WHERE v <> 4 {GROUPS}""")
    return fresh_session


ROW = "SELECT * FROM sums WHERE k = 'a' AND window_end = TIMESTAMP '2026-03-01 00:00:15'"


def test_the_explanation_names_windows_slices_and_files(
    table: sqlwin.Session, tmp_path: Path
) -> None:
    (result,) = table.execute(f"EXPLAIN ROW VERBOSE {ROW}")
    assert isinstance(result, ExplainResult)
    assert result.text.replace(str(tmp_path), "").splitlines() == [
        "== Row ==",
        "k = a, window_start = 2026-02-28 23:59:55, window_end = 2026-03-01 00:00:15, n = 5, s = 23",
        "",
        "== Windows ==",
        "k = a: from 2026-02-28 23:59:55 to 2026-03-01 00:00:15",
        "slice that ends at 2026-03-01 00:00:05: 3 rows",
        "slice that ends at 2026-03-01 00:00:10: 1 row",
        "slice that ends at 2026-03-01 00:00:15: 1 row",
        "",
        "== Rows ==",
        "5 of 6 rows of t, with times from 2026-03-01 00:00:01 to 2026-03-01 00:00:12",
        "file /in/one.parquet: 3 rows",
        "file /in/two.parquet: 2 rows",
        "with these keys and times, but removed by filters: 1 row",
        "",
        "== Rows of t ==",
        *(
            f"ts = 2026-03-01 00:00:{second:02d}, k = a, v = {second}"
            for second in (1, 2, 12, 3, 5)
        ),
    ]
    assert [row[0] for row in table.execute("SHOW TABLES")[0].rows] == ["sums", "t"]


def test_a_group_without_a_window_has_no_times(table: sqlwin.Session, tmp_path: Path) -> None:
    (result,) = table.execute(
        "EXPLAIN ROW SELECT k, COUNT(*) AS n FROM t WHERE ts < TIMESTAMP '2026-03-01 00:00:04' "
        "GROUP BY k"
    )
    assert isinstance(result, ExplainResult)
    assert result.text.replace(str(tmp_path), "").splitlines() == [
        *("== Row ==", "k = a, n = 3", ""),
        *("== Windows ==", "k = a", ""),
        *("== Rows ==", "3 of 6 rows of t", "file /in/one.parquet: 2 rows"),
        "file /in/two.parquet: 1 row",
        "with these keys and times, but removed by filters: 3 rows",
    ]


def test_processing_time_is_read_but_no_window_of_it(table: sqlwin.Session) -> None:
    table.execute("CREATE TABLE c (now AS PROCTIME()) LIKE t")
    (result,) = table.execute("EXPLAIN ROW SELECT COUNT(*) AS n FROM c WHERE YEAR(now) > 2000")
    assert isinstance(result, ExplainResult)
    assert "6 of 6 rows of c" in result.text
    with pytest.raises(AnalysisError) as caught:
        table.execute(
            "EXPLAIN ROW SELECT COUNT(*) AS n FROM TABLE(TUMBLE(TABLE c, DESCRIPTOR(now), "
            "INTERVAL '1' DAY)) GROUP BY window_start, window_end"
        )
    assert caught.value.message.endswith("cannot be traced: its windows are on processing time")


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("SELECT * FROM sums", "the query returns 6 rows, and EXPLAIN ROW explains one"),
        ("SELECT * FROM sums WHERE k = 'b'", "the query returns 0 rows, and EXPLAIN ROW explains"),
        ("INSERT INTO t SELECT * FROM t", "EXPLAIN ROW takes a query that returns one row"),
        ("SELECT * FROM sums ORDER BY n LIMIT 2", "the query returns 2 rows, and EXPLAIN ROW"),
        (
            "SELECT a.k FROM t a JOIN t b ON a.v = b.v",
            "the rows of this query cannot be traced: a join of two streams would store all rows",
        ),
        (
            "SELECT a.v FROM t a JOIN t b ON a.k = b.k AND a.ts BETWEEN b.ts AND "
            "b.ts + INTERVAL '1' SECOND",
            "the rows of this query cannot be traced: it joins rows, not windows",
        ),
    ],
)
def test_errors_say_what_to_change(table: sqlwin.Session, sql: str, error: str) -> None:
    with pytest.raises(AnalysisError) as caught:
        table.execute(f"EXPLAIN ROW {sql}")
    assert caught.value.message.startswith(error)


@pytest.mark.usefixtures("commands")
@pytest.mark.parametrize(
    "statement",
    ["{}", "WITH c AS (SELECT 1 AS x) INSERT INTO o (k, n) ({})"],
)
def test_a_row_of_a_file_s_last_query_is_explained(statement: str, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("2026-03-01 00:00:01,a\n2026-03-01 00:00:02,b\n2026-03-01 00:00:03,b\n")
    path = tmp_path / "q.sql"
    path.write_text(f"""
        CREATE TABLE t (ts TIMESTAMP(3), k STRING, WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'path' = '{file}', 'format' = 'csv');
        CREATE TABLE o (k STRING, n BIGINT) WITH ('connector' = 'print');
        {statement.format(f"SELECT k, COUNT(*) AS n FROM TABLE({TUMBLE}) {GROUPS}")} -- last""")

    def explain(*options: str) -> Result:
        arguments = ["explain", str(path), "--no-progress", *options]
        return CliRunner().invoke(main, arguments, catch_exceptions=False)

    found = explain("--row", "k = 'b'", "--rows")
    assert found.output.startswith("== Row ==\nk = b, n = 2\n")
    assert "\n== Rows of t ==\nts = 2026-03-01 00:00:02, k = b\n" in found.output
    assert "returns 0 rows, and EXPLAIN ROW" in explain("--row", "k = 'c'").output
    assert "nothing after AND" in explain("--row", "k = 'b' AND").output
    assert "a condition selects the row" in explain("--row", " ").output
    assert "ends at the `;`" in explain("--row", "k = 'b'; SELECT 1").output
    assert "--rows requires --row" in explain("--rows").output
    assert "--row shows text" in explain("--row", "1 = 1", "--format", "json").output
    path.write_text("SET 'parallelism.default' = '1'")
    assert "no query or INSERT to explain" in explain("--row", "1 = 1").output


def test_rows_that_a_stream_misses_are_counted(table: sqlwin.Session, tmp_path: Path) -> None:
    # "one" has 12 s and arrives first: [0 s, 10 s) has closed when "two" brings 3 to 5 s
    for number, name in enumerate(("one", "two")):
        os.utime(tmp_path / "in" / f"{name}.parquet", (START.timestamp() + 10 * number,) * 2)
    sql = (
        f"EXPLAIN ROW SELECT COUNT(*) AS n FROM TABLE({TUMBLE}) WHERE v < 12 "
        "GROUP BY window_end, window_start"
    )
    late = "late: a stream that reads the rows as they arrive, every second, misses 3 rows"
    (explained,) = table.execute(sql)
    assert late in explained.text.splitlines()
    table.execute("SET 'table.exec.emit.allow-lateness' = '1 min'")
    (explained,) = table.execute(sql)
    assert "late:" not in explained.text


def test_tables_are_read_to_their_end_in_any_mode(table: sqlwin.Session) -> None:
    (in_batch,) = table.execute(f"EXPLAIN ROW {ROW}")
    table.execute("SET 'execution.runtime-mode' = 'streaming'")
    (in_streaming,) = table.execute(f"EXPLAIN ROW {ROW}")
    assert in_streaming.text == in_batch.text
    (mode,) = table.execute("SET 'execution.runtime-mode'")
    assert mode.to_arrow().column("value").to_pylist() == ["streaming"]
    (tables,) = table.execute("SHOW TABLES")
    assert tables.to_arrow().num_rows == 2


def explained(session: sqlwin.Session, sql: str, directory: Path) -> list[str]:
    (result,) = session.execute(f"EXPLAIN ROW {sql}")
    assert isinstance(result, ExplainResult)
    return result.text.replace(str(directory), "").splitlines()


def test_both_windows_of_a_join_are_named(table: sqlwin.Session, tmp_path: Path) -> None:
    sides = (f"({SUMS} FROM TABLE({TUMBLE}) WHERE {c} {GROUPS})" for c in ("v < 4", "v > 2"))
    left, right = sides
    lines = explained(
        table,
        f"SELECT l.k, l.n, r.s FROM {left} l JOIN {right} r ON {SAME_WINDOW} AND l.k = r.k",
        tmp_path,
    )
    assert lines[:2] == ["== Row ==", "k = a, n = 3, s = 12"]
    assert [line for line in lines if "rows" in line] == [
        "slice that ends at 2026-03-01 00:00:10: 3 rows",
        "3 of 6 rows of t, with times from 2026-03-01 00:00:01 to 2026-03-01 00:00:03",
        "file /in/one.parquet: 2 rows",
        "with these keys and times, but removed by filters: 2 rows",
        "slice that ends at 2026-03-01 00:00:10: 3 rows",
        "3 of 6 rows of t, with times from 2026-03-01 00:00:03 to 2026-03-01 00:00:05",
        "file /in/two.parquet: 3 rows",
        "with these keys and times, but removed by filters: 2 rows",
    ]


@pytest.mark.parametrize(
    ("filler", "value", "lines"),
    [
        ("0", "0", ["added by FILL: no row is in it"]),
        (
            "LOCF",
            "10",
            [
                "added by FILL: no row is in it, its values are from:",
                "",
                "== Windows ==",
                "k = a: from 2026-03-01 00:00:00 to 2026-03-01 00:00:05",
                "slice that ends at 2026-03-01 00:00:05: 4 rows",
                "",
                "== Rows ==",
                "4 of 6 rows of t, with times from 2026-03-01 00:00:01 to 2026-03-01 00:00:04",
                "file /in/one.parquet: 2 rows",
                "file /in/two.parquet: 2 rows",
            ],
        ),
    ],
)
def test_a_window_that_fill_adds_names_the_window_of_its_values(
    filler: str, value: str, lines: list[str], table: sqlwin.Session, tmp_path: Path
) -> None:
    window = TUMBLE.replace("10", "5")
    filled = f"{SUMS} FROM TABLE({window}) WHERE v <> 5 {GROUPS} FILL (n = 0, s = {filler})"
    start = "TIMESTAMP '2026-03-01 00:00:05'"
    found = explained(table, f"SELECT k, s FROM ({filled}) WHERE window_start = {start}", tmp_path)
    assert found == [
        *("== Row ==", f"k = a, s = {value}", "", "== Windows =="),
        "k = a: from 2026-03-01 00:00:05 to 2026-03-01 00:00:10",
        *lines,
    ]


def test_rows_that_are_read_twice_or_equal_others_are_counted(
    table: sqlwin.Session, tmp_path: Path
) -> None:
    both = "(SELECT ts, k FROM t UNION ALL SELECT ts, k FROM t)"
    lines = explained(table, f"SELECT k, COUNT(*) AS n FROM {both} GROUP BY k", tmp_path)
    assert "6 of 6 rows of t, read 12 times in all" in lines
    row = {"ts": [START], "k": ["a"], "v": pa.array([7], pa.int64())}
    for name in ("three", "four"):
        pq.write_table(pa.table(row), tmp_path / "in" / f"{name}.parquet")
    lines = explained(table, "SELECT k, COUNT(*) AS n FROM t GROUP BY k", tmp_path)
    assert "equal to a row before them in all columns: 1 row" in lines


def test_rows_of_several_tables_are_listed_apart(table: sqlwin.Session, tmp_path: Path) -> None:
    table.execute("CREATE TABLE u LIKE t")
    both = "(SELECT ts, k FROM t UNION ALL SELECT ts, k FROM u WHERE v = 1)"
    lines = explained(
        table,
        f"SELECT k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE {both}, DESCRIPTOR(ts), "
        "INTERVAL '1' MINUTE)) GROUP BY k, window_start, window_end",
        tmp_path,
    )
    rows = [line for line in lines if " of 6 rows" in line]
    assert [line.split(",")[0] for line in rows] == ["6 of 6 rows of t", "1 of 6 rows of u"]


def test_the_row_that_limit_picks_is_explained(table: sqlwin.Session, tmp_path: Path) -> None:
    sql = f"SELECT window_end, COUNT(*) AS n FROM TABLE({TUMBLE}) GROUP BY window_start, window_end"
    lines = explained(table, f"{sql} ORDER BY n DESC LIMIT 1", tmp_path)
    assert lines[1] == "window_end = 2026-03-01 00:00:10, n = 5"
    assert "slice that ends at 2026-03-01 00:00:10: 5 rows" in lines
    lines = explained(table, f"{sql} ORDER BY n DESC LIMIT 1 OFFSET 1", tmp_path)
    assert "1 of 6 rows of t, with times from 2026-03-01 00:00:12 to 2026-03-01 00:00:12" in lines


def test_a_row_of_a_table_is_found_where_it_is_stored(
    table: sqlwin.Session, tmp_path: Path
) -> None:
    lines = explained(table, "SELECT v * 2 AS twice FROM t WHERE v = 4", tmp_path)
    assert lines == [
        *("== Row ==", "twice = 8", "", "== Rows ==", "1 of 6 rows of t"),
        "file /in/two.parquet: 1 row",
    ]


def test_a_sum_of_doubles_that_differs_from_what_limit_picked(
    table: sqlwin.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = f"SELECT k, window_end, SUM(CAST(v AS DOUBLE) / 10) AS s FROM TABLE({TUMBLE}) {GROUPS}"
    picked = f"EXPLAIN ROW {sql} ORDER BY s DESC LIMIT 1"
    assert table.execute(picked)[0]

    def added_in_another_order(*arguments: Any) -> pa.Table:
        result = result_rows(*arguments)
        place = result.column_names.index("s")
        sums = [math.nextafter(value, math.inf) for value in result.column("s").to_pylist()]
        return result.set_column(place, "s", pa.array(sums))

    monkeypatch.setattr(explain, "result_rows", added_in_another_order)
    with pytest.raises(AnalysisError) as caught:
        table.execute(picked)
    assert caught.value.message == (
        "the rows of this query cannot be traced: its values differ from run to run, as sums of "
        "DOUBLE do"
    )
    # the rows of a condition are found without their values
    assert table.execute(f"EXPLAIN ROW SELECT * FROM ({sql}) WHERE s > 1.2")[0]
