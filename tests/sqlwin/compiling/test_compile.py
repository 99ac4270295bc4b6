"""Compiled texts: goldens, rows on DuckDB and Spark, refusals."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import sqlwin
from planner.lowering.sql.target import Target
from planner.lowering.sql.targets import TARGETS, DuckDbTarget
from runtime.simulator.compare import is_same
from sqlwin.cli.app import main
from sqlwin.session import Session
from tests import goldens
from tests.oracle import MINUTE_US, OracleWindow, expected, same_rows
from tests.postgres import server
from tests.postgres_rows import load, result
from tests.unstarted import unstarted_spark

HERE = Path(__file__).parent
TEXTS = sorted((HERE / "texts").glob("*.sql"))
FLIGHTS = """
    CREATE TABLE flights WITH (
      'connector' = 'filesystem', 'path' = 'queries/data/flights.parquet', 'format' = 'parquet');
"""
SCHEMA = "CREATE TABLE t (ts TIMESTAMP(6), k STRING, v BIGINT, i INT, d DOUBLE, p DECIMAL(10, 2));"
START = dt.datetime.fromisoformat("1969-12-31 23:58")
MICROSECOND = dt.timedelta(microseconds=1)
EPOCH = dt.datetime.fromisoformat("1970-01-01")
WINDOWS = (
    OracleWindow("TUMBLE", 10 * MINUTE_US, offset_us=-3 * MINUTE_US),
    OracleWindow("HOP", 60 * MINUTE_US, MINUTE_US),
    OracleWindow("HOP", 5 * MINUTE_US, 2 * MINUTE_US, MINUTE_US),
    OracleWindow("HOP", 2 * MINUTE_US, 5 * MINUTE_US),
    OracleWindow("CUMULATE", 12 * MINUTE_US, 3 * MINUTE_US, MINUTE_US),
)


def rows_at(*seconds: float | None, **columns: Sequence[Any]) -> pa.Table:
    """Return rows of `t` at seconds after START. Other columns are NULL."""
    times = [None if s is None else START + dt.timedelta(seconds=s) for s in seconds]
    types = {"k": pa.string(), "v": pa.int64(), "i": pa.int32(), "d": pa.float64()}
    types["p"] = pa.decimal128(10, 2)
    nulls = [None] * len(times)
    arrays = {name: pa.array(columns.get(name, nulls), type_) for name, type_ in types.items()}
    return pa.table({"ts": pa.array(times, pa.timestamp("us")), **arrays})


def run(text: str, t: pa.Table) -> list[tuple[Any, ...]]:
    """Run a compiled text on DuckDB."""
    with duckdb.connect() as connection:
        connection.register("t", t)
        return connection.execute(text).fetchall()


def compiled_rows(query: str, t: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows of a compiled query on DuckDB, which equal the rows of this process."""
    text = sqlwin.compile(query, "duckdb", schema=SCHEMA)
    rows = run(text, t)
    assert sorted(rows, key=repr) == sorted(rows_here(query, t), key=repr)
    return rows


def rows_here(query: str, t: pa.Table) -> list[tuple[Any, ...]]:
    with TemporaryDirectory() as directory, Session(unstarted_spark(), settings={}) as session:
        pq.write_table(t, f"{directory}/t.parquet")
        session.execute(
            "CREATE TABLE t WITH ('connector' = 'filesystem', 'format' = 'parquet', "
            f"'path' = '{directory}/t.parquet')"
        )
        (result,) = session.execute(query)
        return [tuple(row.values()) for row in result.to_arrow().to_pylist()]


@pytest.mark.parametrize("dialect", sorted(TARGETS))
@pytest.mark.parametrize("case", TEXTS, ids=lambda path: path.stem)
def test_a_text_is_the_golden_one(
    case: Path, dialect: str, update_goldens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(goldens.ROOT)
    text = sqlwin.compile(case.read_text(), dialect, schema=FLIGHTS)
    goldens.check(case.with_suffix(f".{dialect}"), text + "\n", update_goldens)


@pytest.mark.parametrize("case", TEXTS, ids=lambda path: path.stem)
def test_a_golden_text_has_the_rows_of_its_query(
    case: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(goldens.ROOT)
    with Session(unstarted_spark(), settings={}) as session:
        *_, result = session.execute(FLIGHTS + case.read_text())
        here = result.to_arrow()
    with duckdb.connect() as connection:
        connection.sql("FROM 'queries/data/flights.parquet'").create_view("flights")
        there = connection.sql(case.with_suffix(".duckdb").read_text()).to_arrow_table()
    assert there.schema.names == here.schema.names
    assert there.num_rows == here.num_rows > 100
    same_rows(
        [tuple(row.values()) for row in there.to_pylist()],
        [tuple(row.values()) for row in here.to_pylist()],
    )


@pytest.mark.parametrize(
    "window",
    WINDOWS,
    ids=str,
)
def test_windows_have_the_rows_of_brute_force(window: OracleWindow) -> None:
    seconds = [(7 * n * n) % 30_000 for n in range(400)]
    keys = [["a", "b", None][n % 3] for n in range(400)]
    t = rows_at(*seconds, k=keys, v=[n % 17 - 8 for n in range(400)])
    call = window.call.replace("TABLE data", "TABLE t")
    query = (
        "SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s, MIN(v) AS l, MAX(v) AS h, "
        f"COUNT(DISTINCT v) AS c FROM {call} GROUP BY k, window_start, window_end"
    )
    aggregates = ["COUNT(*)", "SUM(v)", "MIN(v)", "MAX(v)", "COUNT(DISTINCT v)"]
    wanted = expected(t, window, ["k"], aggregates)
    rows = [
        (k, (start - EPOCH) // MICROSECOND, (end - EPOCH) // MICROSECOND, *results)
        for k, start, end, *results in compiled_rows(query, t)
    ]
    same_rows(rows, wanted)


def test_rows_exactly_the_gap_apart_are_in_one_session() -> None:
    t = rows_at(0, 10, 20.000001, None, 100, k=["a", "a", "a", "a", "a"])
    rows = compiled_rows(
        "SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE t PARTITION BY k, "
        "DESCRIPTOR(ts), INTERVAL '10' SECONDS)) GROUP BY k, window_start, window_end",
        t,
    )
    ends = sorted((end - START).total_seconds() for _, end, _ in rows)
    assert ends == [20, 30.000001, 110]


@pytest.mark.parametrize("gap", ["INTERVAL '10' SECONDS", "INTERVAL '1' SECOND * i"])
@pytest.mark.parametrize("partition", ["", "PARTITION BY k ", "PARTITION BY (k, v) "])
def test_rows_of_sessions_keep_their_session(gap: str, partition: str) -> None:
    n = range(200)
    t = rows_at(
        *((37 * i * i) % 4_001 for i in n),
        k=[["a", "b", None][i % 3] for i in n],
        v=[i % 2 for i in n],
        i=[i % 19 + 1 for i in n],
    )
    call = f"TABLE(SESSION(TABLE t {partition}, DESCRIPTOR(ts), {gap}))"
    rows = compiled_rows(f"SELECT * FROM {call} WHERE v = 1", t)
    assert len(rows) == 100
    compiled_rows(
        f"SELECT k, window_start, window_end, SUM(v) AS s FROM {call} "
        "GROUP BY k, window_start, window_end",
        t,
    )


def test_null_keys_are_one_group_and_rows_without_a_time_are_dropped() -> None:
    t = rows_at(0, 1, None, 2, k=[None, None, None, "a"])
    rows = compiled_rows(
        "SELECT k, COUNT(*) AS n FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, "
        "INTERVAL '2' MINUTES)) GROUP BY k, window_start, window_end",
        t,
    )
    assert sorted(rows, key=repr) == [("a", 1), ("a", 1), (None, 2), (None, 2)]


def test_zeros_and_nans_of_doubles_are_one_key() -> None:
    nan = float("nan")
    t = rows_at(0, 1, 2, 3, d=[0.0, -0.0, nan, -nan])
    text = sqlwin.compile("SELECT d, COUNT(*) AS n FROM t GROUP BY d", "duckdb", schema=SCHEMA)
    assert sorted(map(str, run(text, t))) == ["(0.0, 2)", "(nan, 2)"]


def test_numbers_are_computed_as_in_spark() -> None:
    t = rows_at(
        *range(6),
        v=[7, -7, 7, -7, 2**40, None],
        i=[2, 2, -2, -2, 3, 1],
        d=[2.675, -2.675, 1.005, -0.5, 1e17, float("nan")],
        p=[Decimal("1.05"), Decimal("-1.05"), Decimal("0.01"), Decimal("99999999.99"), None, None],
    )
    rows = compiled_rows(
        "SELECT v / i AS q, v DIV i AS w, v % i AS r, ROUND(d, 2) AS d2, FLOOR(d) AS f, "
        "CAST(d AS BIGINT) AS c, p * p AS pp, p + i AS pi, ROUND(p, 1) AS p1 "
        "FROM t WHERE v IS NOT NULL",
        t,
    )
    assert [row[2] for row in rows] == [1, -1, 1, -1, 1]
    assert [row[3] for row in rows] == [2.68, -2.68, 1.01, -0.5, 1e17]


def test_averages_of_decimals_are_rounded_half_up() -> None:
    values = [Decimal("0.01"), Decimal("0.02"), Decimal("0.02"), Decimal("-0.01"), None]
    t = rows_at(*range(5), k=["a", "a", "a", "b", "b"], p=values)
    t = pa.concat_tables([t] * 3)
    rows = compiled_rows("SELECT k, AVG(p) AS a, SUM(p) AS s, COUNT(p) AS n FROM t GROUP BY k", t)
    assert sorted(rows)[0] == ("a", Decimal("0.016667"), Decimal("0.15"), 9)


def test_times_of_windows_are_formatted_cut_and_compared_as_in_this_process() -> None:
    t = rows_at(*((37 * i * i) % 400_001 for i in range(200)), k=["a", "b"] * 100)
    rows = compiled_rows(
        "SELECT DATE_FORMAT(window_start, 'dd. HH:mm') AS at, DATE_TRUNC('DAY', window_end) AS day, "
        "TIMESTAMPDIFF(MINUTE, MIN(ts), window_end) AS m, COUNT(*) AS n FROM TABLE(HOP(TABLE t, "
        "DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '2' HOURS)) GROUP BY window_start, window_end "
        "HAVING DATE_TRUNC('HOUR', MIN(ts)) < window_end - INTERVAL '1' HOUR",
        t,
    )
    assert len(rows) > 50
    assert any(minutes > 60 for _, _, minutes, _ in rows)
    by_day = compiled_rows(
        "SELECT DATE_TRUNC('DAY', ts) AS day, COUNT(*) AS n FROM t GROUP BY DATE_TRUNC('DAY', ts)",
        t,
    )
    assert sum(n for _, n in by_day) == 200


@pytest.mark.parametrize(
    ("select", "columns"),
    [
        ("SUM(v) AS s", {"v": [2**62, 2**62]}),
        ("SUM(v + v) AS s", {"v": [2**62, 1]}),
        ("SUM(v / i) AS s", {"v": [1, 1], "i": [1, 0]}),
        ("SUM(v % i) AS s", {"v": [1, 1], "i": [1, 0]}),
        ("SUM(CAST(v AS INT)) AS s", {"v": [1, 2**31]}),
    ],
)
def test_overflow_and_division_by_zero_are_errors(
    select: str, columns: dict[str, list[int]]
) -> None:
    text = sqlwin.compile(f"SELECT {select} FROM t", "duckdb", schema=SCHEMA)
    with pytest.raises(duckdb.Error):
        run(text, rows_at(0, 1, **columns))


def test_a_division_is_refused_on_an_engine_that_cannot_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(DuckDbTarget, "fail", Target.fail)
    with pytest.raises(sqlwin.SqlwinError, match="the divisor may be zero on DuckDB"):
        sqlwin.compile("SELECT 1 / i AS x FROM t", "duckdb", schema=SCHEMA)


def test_a_sum_over_windows_that_overflows_is_an_error() -> None:
    text = sqlwin.compile(
        "SELECT SUM(v) AS s FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, "
        "INTERVAL '2' MINUTES)) GROUP BY window_start, window_end",
        "duckdb",
        schema=SCHEMA,
    )
    with pytest.raises(duckdb.Error, match="INT64"):
        run(text, rows_at(0, 60, v=[2**62, 2**62]))


def test_names_are_quoted_where_needed_and_collide_with_nothing() -> None:
    schema = (
        "CREATE TABLE slices (ts TIMESTAMP(6), `end` INT, `A b` INT, slice_us INT, end_us INT);"
    )
    query = (
        "SELECT `end`, `A b`, slice_us, end_us, COUNT(*) AS `select` FROM TABLE(HOP(TABLE slices, "
        "DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '2' MINUTES)) "
        "GROUP BY `end`, `A b`, slice_us, end_us, window_start, window_end"
    )
    text = sqlwin.compile(query, "duckdb", schema=schema)
    names = ["end", "A b", "slice_us", "end_us"]
    t = pa.table(
        {"ts": rows_at(0)["ts"], **{n: pa.array([i], pa.int32()) for i, n in enumerate(names)}}
    )
    with duckdb.connect() as connection:
        connection.register("slices", t)
        result = connection.sql(text)
        assert result.columns == [*names, "select"]
        assert result.fetchall() == [(0, 1, 2, 3, 1)] * 2


@pytest.mark.parametrize(
    ("query", "message", "column"),
    [
        ("SELECT k, UPPER(k) AS u FROM t", "the case of letters outside ASCII", 11),
        ("SELECT k FROM t WHERE REVERSE(k) = 'a'", "REVERSE(k)", 23),
        ("SELECT k, MEDIAN(v) AS m FROM t GROUP BY k", "MEDIAN", 11),
        ("SELECT a.k FROM t AS a JOIN t AS b ON a.k < b.k", "joins", 1),
        ("SELECT NOSUCH(k) FROM t", "only Spark knows the function NOSUCH", 8),
        ("SELECT MAX(NOSUCH(k)) AS m FROM t", "only Spark knows the function NOSUCH", 12),
        ("SELECT k FROM t WHERE POWER(v, 2) > 1", "only Spark knows the function POWER", 23),
        ("SELECT k FROM t GROUP BY k HAVING NOSUCH(MAX(v)) > 1", "the function NOSUCH", 35),
        ("SELECT k FROM t ORDER BY NOSUCH(k)", "only Spark knows the function NOSUCH", 26),
        ("WITH a AS (SELECT NOSUCH(k) AS x FROM t) SELECT x FROM a", "function NOSUCH", 19),
        ("SELECT EXTRACT(EPOCH FROM ts) AS d FROM t", "the type of EXTRACT(EPOCH FROM ts)", 8),
        ("SELECT DATE_FORMAT(ts, 'E') AS d FROM t", "DATE_FORMAT with this pattern", 8),
        ("SELECT TIMESTAMPDIFF(MONTH, ts, ts) AS d FROM t", "the function TIMESTAMPDIFF", 8),
        ("SELECT TIMESTAMPDIFF(DAY, ts, NOW()) AS d FROM t", "TIMESTAMP(6) and TIMESTAMP_LTZ", 8),
        ("SELECT ts - MAKE_DT_INTERVAL(1) AS d FROM t", "the function MAKE_DT_INTERVAL", 13),
        ("SELECT d, FLOOR(p) AS f FROM t", "only Spark knows FLOOR of DECIMAL(10, 2)", 11),
        ("SELECT k[0] AS a FROM t", "only Spark knows the type of k[0]", 8),
        ("SELECT LTRIM(k) FROM t", "only Spark knows the name of a column without AS", 8),
        (
            "SELECT SUM(v) OVER (ORDER BY ts) AS s FROM t",
            "only Spark knows SUM(v) OVER (ORDER BY ts)",
            8,
        ),
        (
            "SELECT LAG(v) OVER (PARTITION BY k) AS l FROM t",
            "knows LAG(v) OVER (PARTITION BY k)",
            8,
        ),
        (
            "SELECT LAG(v, i) OVER (ORDER BY ts) AS l FROM t",
            "knows LAG(v, i) OVER (ORDER BY ts)",
            8,
        ),
        ("SELECT LAG(v) IGNORE NULLS OVER (ORDER BY ts) AS l FROM t", "knows LAG(v) IGNORE", 8),
        ("SELECT LAG(NOSUCH(v)) OVER (ORDER BY ts) AS l FROM t", "the function NOSUCH", 12),
        ("SELECT LEAD(v, 1, v) OVER (ORDER BY ts) AS l FROM t", "LEAD with a default", 8),
        ("SELECT ROW_NUMBER() OVER (ORDER BY v) AS n FROM t", "ROW_NUMBER with OVER is not", 8),
        ("SELECT k, (SELECT 1 AS x) AS y FROM t", "only Spark knows subqueries in expressions", 11),
        ("SELECT k FROM t WHERE v IN (SELECT v FROM t)", "only Spark knows subqueries", 28),
        ("SELECT k, COUNT(*) AS n FROM t GROUP BY v", "k is not in GROUP BY", 8),
        ("SELECT COUNT(*) AS n FROM t GROUP BY ROLLUP(k)", "only Spark knows ROLLUP", 38),
        ("SELECT k FROM t SORT BY k", "only Spark knows SORT BY", 17),
        ("SELECT k FROM t LATERAL VIEW EXPLODE(k) x AS y", "only Spark knows LATERAL VIEW", 17),
        ("SELECT k FROM t UNION SELECT k FROM t", "only Spark knows UNION without ALL", 17),
        ("SELECT k FROM t INTERSECT SELECT k FROM t", "only Spark knows INTERSECT", 17),
        ("SELECT a.k FROM t AS a CROSS JOIN t AS b", "only Spark knows this CROSS JOIN", 24),
    ],
)
def test_a_refusal_has_its_reason_and_place(query: str, message: str, column: int) -> None:
    with pytest.raises(sqlwin.SqlwinError, match="cannot compile the query") as caught:
        sqlwin.compile(query, "duckdb", schema=SCHEMA)
    assert message in caught.value.message
    assert caught.value.position is not None
    assert (caught.value.position.line, caught.value.position.column) == (1, column)


def test_a_refused_view_has_its_reason_and_place() -> None:
    script = "CREATE VIEW w AS SELECT NOSUCH(k) AS x FROM t; FROM w"
    with pytest.raises(sqlwin.SqlwinError, match="only Spark knows the function NOSUCH") as caught:
        sqlwin.compile(script, "duckdb", schema=SCHEMA)
    assert caught.value.position is not None
    assert caught.value.position.column == 25


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("SELECT 1; SELECT 2", "duckdb"), "one query, but got 2"),
        (("SELECT 1", "oracle"), "unknown dialect `oracle`"),
        (("INSERT INTO t SELECT * FROM t", "duckdb"), "only queries are compiled"),
    ],
)
def test_other_input_is_refused(arguments: tuple[str, str], message: str) -> None:
    with pytest.raises(sqlwin.SqlwinError, match=message):
        sqlwin.compile(*arguments, schema=SCHEMA)


def test_the_command_prints_every_query_of_a_script(tmp_path: Path) -> None:
    schema, script = tmp_path / "schema.sql", tmp_path / "script.sql"
    schema.write_text(SCHEMA)
    script.write_text("CREATE VIEW w AS SELECT k, v FROM t;\nSELECT v FROM w;\nSELECT k FROM w")
    arguments = ["compile", str(script), "--schema", str(schema), "--to", "duckdb"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0
    assert result.stdout == "SELECT\n  v\nFROM t;\n\nSELECT\n  k\nFROM t\n"
    output = tmp_path / "out.sql"
    assert CliRunner().invoke(main, [*arguments, "-o", str(output)]).exit_code == 0
    assert output.read_text() == result.stdout


def test_the_command_fails_without_spark_where_only_spark_knows_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"v": pa.array([[1]])}), path)
    result = CliRunner().invoke(
        main, ["compile", "--to", "duckdb", "-e", "CREATE TABLE s USING parquet AS SELECT 1"]
    )
    assert result.exit_code == 1
    assert "only queries are compiled" in result.stderr


# Expressions over the columns of `t`; each is compared for all values below
SCALARS = """
v + i | v - 1 | i * 3 | -i | v / i | v / 4 | v % 5 | v % -3 | v DIV 7 | i % 2 = 0 | ABS(i) | ABS(d)
d + 1 | d * -2 | d / 3 | d % 1.5e0 | ROUND(d) | ROUND(d, 3) | FLOOR(d / 1e9) | CEIL(d / 1e9) | SQRT(d)
p + p | p - i | p * p | p * 2 | -p | ROUND(p, 1) | ROUND(p) | CAST(p AS DECIMAL(12, 1)) | p > i | p = 1.05
CAST(IF(d < 1e18, d / 1e9, 0e0) AS BIGINT) | CAST(v AS DOUBLE) | CAST(v AS STRING) | CAST(i AS DECIMAL(12, 2)) | CAST(p AS DOUBLE)
CAST(p AS STRING) | CAST(i > 0 AS INT) | CAST(i > 0 AS STRING) | CAST(ts AS DATE) | CAST(CAST(ts AS DATE) AS TIMESTAMP_NTZ)
CAST(1 AS BIGINT) | CAST(1 AS TINYINT) | 1 + 2 | 1.5 | 'it''s \\\\ a "text"' | TRUE | DATE '2024-02-29' | TIMESTAMP '1969-12-31 23:59:59.999999'
d = CAST('NaN' AS DOUBLE) | d > 1e0 | d < CAST('NaN' AS DOUBLE) | d <=> NULL | k = 'a' | k < 'b' | k <> 'é' | k IS NULL | k IS NOT NULL
k IN ('a', 'b') | v IN (1, 7, NULL) | v NOT IN (1, 7) | i BETWEEN -2 AND 2 | NOT (i > 0 AND k = 'a' OR v > 0) | i IS DISTINCT FROM 2
CASE WHEN i > 0 THEN 'pos' WHEN i < 0 THEN 'neg' END | CASE i WHEN 2 THEN 1 ELSE v END | IF(i > 0, d, 0e0) | COALESCE(v, i, 0) | NULLIF(i, 2)
p / 3 | p / i | v / p | p / (p - 0.005) | 100.0 * v / i | NVL2(k, 1, 2) | GREATEST(v, i, 3) | LEAST(d, 0e0) | GREATEST(d, 1e0)
LENGTH(k) | CONCAT(k, '-', v) | CONCAT_WS(',', k, 'x') | TRIM(k) | LTRIM(k) | RTRIM(k) | SUBSTRING(k, 2) | SUBSTRING(k, 1, 2)
REPLACE(k, 'a', 'bb') | STARTSWITH(k, 'a') | ENDSWITH(k, 'b') | CONTAINS(k, 'é') | k LIKE 'a%' | k LIKE '%.b_' | k LIKE 'a\\\\%%' | k NOT LIKE '_'
YEAR(ts) | QUARTER(ts) | MONTH(ts) | DAY(ts) | WEEKOFYEAR(ts) | DAYOFYEAR(ts) | DAYOFWEEK(ts) | WEEKDAY(ts) | HOUR(ts) | MINUTE(ts) | SECOND(ts)
ts + INTERVAL '1' DAY | ts - INTERVAL '1.5' SECOND | ts > TIMESTAMP '2000-01-01' | YEAR(CAST(ts AS DATE))
DATE_TRUNC('YEAR', ts) | DATE_TRUNC('quarter', ts) | DATE_TRUNC('MM', ts) | DATE_TRUNC('WEEK', ts) | DATE_TRUNC('DAY', ts) | DATE_TRUNC('HOUR', ts)
DATE_TRUNC('MINUTE', ts) | DATE_TRUNC('SECOND', ts) | DATE_TRUNC('MILLISECOND', ts) | DATE_TRUNC('MICROSECOND', ts) | TRUNC(CAST(ts AS DATE), 'Q' || 'UARTER')
DATE_FORMAT(ts, 'yyyy-MM-dd''T''HH:mm:ss.SSSSSS') | DATE_FORMAT(ts, 'HH:mm:ss.SSS') | DATE_FORMAT(CAST(ts AS DATE), 'dd/MM/yyyy')
TIMESTAMPDIFF(SECOND, TIMESTAMP '2000-01-01 00:00:00.5', ts) | TIMESTAMPDIFF(DAY, ts, TIMESTAMP '1999-01-01') | TIMESTAMPDIFF(MICROSECOND, ts, ts + INTERVAL '1' HOUR)
DATEDIFF(WEEK, CAST(ts AS DATE), DATE '2000-01-01') | TIMESTAMPDIFF(HOUR, ts, CAST(ts AS DATE)) | TIMESTAMPDIFF(MILLISECOND, ts, TIMESTAMP '1970-01-01')
"""


def scalar_rows() -> pa.Table:
    n = 400
    days = [-700_000, -1, 0, 1, 59, 60, 365, 11_016, 19_782, 2_900_000]
    texts = ["a", "b", "é", " a ", "\tab\n", "a.bc", "a%x", "", "日本語", "a\nb", "A", None]
    doubles = [0.0, -0.0, 1.5, -2.25, 2.675, 1e-7, 1e17, 123456.7895, float("nan"), None]
    decimals = [Decimal(x) for x in ("1.05", "-1.05", "0.01", "99999999.99", "-0.05", "12.34")]
    return rows_at(
        *(days[i % 10] * 86_400.0 + (i * 7_919 % 86_400) + i % 7 / 8 for i in range(n)),
        k=[texts[i % 12] for i in range(n)],
        v=[[1, 7, -7, 2**40, -(2**40), 0, None][i % 7] for i in range(n)],
        i=[[2, -2, 3, -1, 100, -1_000, None][i // 7 % 7] for i in range(n)],
        d=[doubles[i // 3 % 10] for i in range(n)],
        p=[[*decimals, None][i // 5 % 7] for i in range(n)],
    )


EXPRESSIONS = [part.strip() for line in SCALARS.strip().splitlines() for part in line.split(" | ")]


def test_scalars_have_the_values_and_types_of_this_process(tmp_path: Path) -> None:
    t = scalar_rows()
    pq.write_table(t, tmp_path / "t.parquet")
    items = ", ".join(f"{text} AS c{number}" for number, text in enumerate(EXPRESSIONS))
    query = f"SELECT {items} FROM t"
    with Session(unstarted_spark(), settings={}) as session:
        session.execute(
            "CREATE TABLE t WITH ('connector' = 'filesystem', 'format' = 'parquet', "
            f"'path' = '{tmp_path}/t.parquet')"
        )
        here = session.execute(query)[0].to_arrow()
    with duckdb.connect() as connection:
        connection.register("t", t)
        text = sqlwin.compile(query, "duckdb", schema=SCHEMA)
        there = connection.sql(text).to_arrow_table()
    wrong = [
        (text, here.field(name).type, there.field(name).type)
        for name, text in zip(here.schema.names, EXPRESSIONS, strict=True)
        if here.field(name).type != there.field(name).type
        or not is_same(here.column(name).to_pylist(), there.column(name).to_pylist())
    ]
    assert not wrong, wrong
    assert len(EXPRESSIONS) > 100


@pytest.mark.long
def test_scalars_have_the_same_values_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    t = scalar_rows()
    pq.write_table(t, tmp_path / "t.parquet")
    items = ", ".join(f"{text} AS c{number}" for number, text in enumerate(EXPRESSIONS))
    text = sqlwin.compile(f"SELECT {items} FROM t", "spark", schema=SCHEMA)
    there = sqlwin.compile(f"SELECT {items} FROM t", "duckdb", schema=SCHEMA)
    spark.read.parquet(str(tmp_path)).createOrReplaceTempView("t")
    try:
        rows = spark.sql(text).toArrow()
    finally:
        spark.catalog.dropTempView("t")
    with duckdb.connect() as connection:
        connection.register("t", t)
        wanted = connection.sql(there).to_arrow_table()
    columns = zip(rows.columns, wanted.columns, EXPRESSIONS, strict=True)
    assert not [e for a, b, e in columns if not is_same(a.to_pylist(), b.to_pylist())]


@pytest.mark.long
def test_decimals_are_rounded_on_spark_as_on_duckdb(spark: SparkSession, tmp_path: Path) -> None:
    t = scalar_rows()
    pq.write_table(t, tmp_path / "t.parquet")
    query = (
        "SELECT window_end, AVG(p) AS a, AVG(p * i) AS b, MAX(p) AS p, MIN(v) AS v FROM TABLE("
        "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '100' DAYS)) "
        "WHERE ts BETWEEN TIMESTAMP '1969-01-01' AND TIMESTAMP '2100-01-01' GROUP BY "
        "window_start, window_end FILL (a = LINEAR, b = LINEAR, p = LINEAR, v = LINEAR)"
    )
    spark.read.parquet(str(tmp_path)).createOrReplaceTempView("t")
    try:
        rows = spark.sql(sqlwin.compile(query, "spark", schema=SCHEMA)).toArrow()
    finally:
        spark.catalog.dropTempView("t")
    there = run(sqlwin.compile(query, "duckdb", schema=SCHEMA), t)
    assert sorted(tuple(row.values()) for row in rows.to_pylist()) == sorted(there)
    assert len(there) > 190


@pytest.mark.long
def test_scalars_have_the_same_values_on_postgres() -> None:
    t, n_refused, wrong = scalar_rows(), 0, []
    with server() as running, psycopg.connect(running.url()) as there, duckdb.connect() as here:
        load(there, "t", t)
        here.register("t", t)
        lag = (
            "SELECT LAG(p, 2) OVER (PARTITION BY k ORDER BY ts, v, i, d, p) AS c FROM t ORDER BY c"
        )
        for query in (*(f"SELECT {text} AS c FROM t" for text in EXPRESSIONS), lag):
            try:
                rows = result(there, sqlwin.compile(query, "postgres", schema=SCHEMA))
            except sqlwin.SqlwinError:
                n_refused += 1
                continue
            wanted = here.sql(sqlwin.compile(query, "duckdb", schema=SCHEMA)).to_arrow_table()
            if rows.schema != wanted.schema or not is_same(rows.to_pylist(), wanted.to_pylist()):
                wrong.append((query, rows.schema, wanted.schema))
    assert not wrong, wrong
    # `%` of DOUBLE and TINYINT
    assert n_refused == 2
