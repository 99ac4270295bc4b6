"""Queries that this process computes have the rows that Spark computes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from sqlwin.result.in_process import InProcessRows
from sqlwin.session import Session
from tests.end_to_end.batch.test_in_process_files import (
    SETTING,
    TUMBLE,
    WINDOWS,
    comparable,
    trips,
)
from tests.unstarted import unstarted_spark

# from 1970 back to 1910
LONG_AGO_US = 1_893_456_000_000_000
HOURS = (
    "SELECT city, rider, window_start, window_end, window_time, SUM(fare) AS s, COUNT(*) AS n "
    f"FROM TABLE({TUMBLE}) GROUP BY city, rider, window_start, window_end, window_time"
).format(time="ts")
BY_CITY = (
    "SELECT city, window_start, window_end, SUM(fare) AS s, AVG(x) AS a "
    "FROM TABLE({}) GROUP BY city, window_start, window_end"
)
HOP = WINDOWS["hop"].format(time="ts")
PLAIN = {
    "all": "SELECT * FROM trips",
    "expressions": "SELECT fare + 1 AS f, -x AS y, ABS(fare) AS a, fare % 7 AS m, price AS p, "
    "COALESCE(city, rider) AS c, CASE WHEN fare > 0 THEN 'up' WHEN fare < 0 THEN 'down' END AS d, "
    "SQRT(x) AS r, fare / 3 AS t, x > 1 AS b FROM trips",
    "filter": "SELECT rider, x FROM trips WHERE (fare > 10 OR x IS NULL) AND city IN ('a', 'c') "
    "AND NOT rider LIKE 'r1%'",
    "nan": "SELECT x FROM trips WHERE x > 1e9 OR x = 0.0",
    "instants": "SELECT ts, tz, CAST(ts AS DATE) AS day FROM trips "
    "WHERE tz > TIMESTAMP_LTZ '2024-03-31 02:30:00' AND ts < TIMESTAMP_NTZ '2024-04-01'",
    "order": "SELECT x, fare, rider, ts FROM trips ORDER BY x DESC NULLS LAST, fare NULLS FIRST, "
    "rider, ts, city LIMIT 100 OFFSET 7",
    "order by expression": "SELECT rider AS fare, fare AS f FROM trips "
    "ORDER BY f + 1 DESC, fare, 2 LIMIT 40",
    "order by position": "SELECT DISTINCT fare, rider FROM trips ORDER BY 2, 1",
    "limit": "SELECT COUNT(*) AS n FROM (SELECT * FROM trips LIMIT 10 OFFSET 3) AS t",
    "distinct": "SELECT DISTINCT city, x FROM trips",
    "group": "SELECT city, COUNT(*) AS n, COUNT(fare) AS k, SUM(fare) AS s, AVG(fare) AS a, "
    "MIN(x) AS l, MAX(x) AS h, SUM(price) AS p, MIN(tz) AS t, MAX(ts) AS u, MAX(rider) AS r "
    "FROM trips GROUP BY city",
    "group by doubles": "SELECT x, COUNT(*) AS n FROM trips GROUP BY x",
    "group by expression": "SELECT CAST(ts AS DATE) AS day, fare % 3 AS m, COUNT(*) + 1 AS n "
    "FROM trips GROUP BY CAST(ts AS DATE), 2 HAVING COUNT(*) > 5 AND m IS NOT NULL",
    "group by alias": "SELECT city AS c, MAX(fare) - MIN(fare) AS d FROM trips GROUP BY c "
    "HAVING d > 3 ORDER BY d, MAX(fare), c",
    "distinct values": "SELECT city, COUNT(DISTINCT rider) AS r, SUM(DISTINCT fare) AS s, "
    "COUNT(DISTINCT rider, fare) AS p FROM trips GROUP BY city",
    "statistics": "SELECT city, STDDEV(fare) AS s, VAR_POP(fare) AS v, STDDEV_POP(price) AS p "
    "FROM trips GROUP BY city",
    "conditions": "SELECT COUNT(*) FILTER (WHERE fare > 0) AS n, BOOL_OR(x > 1) AS b, "
    "COUNT_IF(fare < 0) AS c, MAX_BY(rider, ts) FILTER (WHERE fare = 3) AS m FROM trips",
    "total of nothing": "SELECT COUNT(*) AS n, COUNT(DISTINCT rider) AS d, SUM(fare) AS s, "
    "AVG(x) AS a, STDDEV(fare) AS v, APPROX_COUNT_DISTINCT(rider) AS p FROM trips WHERE fare > 900",
    "groups of nothing": "SELECT city, COUNT(*) AS n FROM trips WHERE fare > 900 GROUP BY city",
    "having of nothing": "SELECT COUNT(*) AS n FROM trips WHERE fare > 900 HAVING COUNT(*) > 0",
    "empty file": "SELECT COUNT(*) AS n, MAX(city) AS m FROM nothing",
    "no rows": "SELECT city, x FROM nothing ORDER BY x",
    "union": "SELECT city, fare FROM trips WHERE fare > 45 UNION ALL SELECT rider, fare FROM trips "
    "WHERE fare < -45 ORDER BY fare, city LIMIT 30",
    "with": "WITH a AS (SELECT city, fare FROM trips WHERE fare > 0), b AS (SELECT city, "
    "SUM(fare) AS s FROM a GROUP BY city) SELECT b.city, b.s FROM b WHERE b.s > 10",
    "long ago": "SELECT ts, tz, fare FROM old ORDER BY ts, tz, fare, rider, x LIMIT 50",
    "constant": "SELECT 1, 'a' AS t, 1.50 AS d, 7 / 2 AS q, TRUE, -3, 2 + 3 * 4, DATE '1969-12-31' "
    "AS e, TIMESTAMP_NTZ '1900-01-01 00:00:00.000001' AS f",
    "no constant": "SELECT 1 AS one WHERE 1 > 2",
    "values": "SELECT k, SUM(v) AS s, COUNT(*) AS n FROM (VALUES ('a', 1), ('b', NULL), (NULL, 3), "
    "('a', 5)) AS t(k, v) GROUP BY k",
    "decimals": "SELECT * FROM (VALUES (1.5, 1e0), (2.5, 2e1)) AS t(d, e)",
}
OF_WINDOWS = {
    "rows": f"SELECT rider, fare, window_start, window_end, window_time FROM TABLE({HOP}) "
    "WHERE fare > 40",
    "rows in sessions": "SELECT city, rider, fare, window_start, window_end FROM TABLE(SESSION("
    "TABLE trips PARTITION BY (rider, city), DESCRIPTOR({time}), INTERVAL '20' MINUTE)) "
    "WHERE fare > 2",
    "rows in sessions of all": "SELECT window_start, window_end, x FROM TABLE(SESSION(TABLE trips, "
    "DESCRIPTOR({time}), INTERVAL '1' MINUTE))",
    "rows in sessions by doubles": "SELECT x, window_end, ts FROM TABLE(SESSION(TABLE trips "
    "PARTITION BY x, DESCRIPTOR({time}), INTERVAL '1' HOUR))",
    "rows and keys": f"SELECT city, window_end, COUNT(*) AS n FROM (SELECT * FROM TABLE({HOP})) "
    "AS w GROUP BY city, window_end",
    "distinct windows": f"SELECT DISTINCT city, window_start, window_end FROM TABLE({HOP})",
    "above": f"SELECT city, SUM(n) AS n, MAX(s) AS s, COUNT(*) AS k FROM ({HOURS}) AS h "
    "WHERE s > 3 GROUP BY city",
    "total above": f"SELECT SUM(n) AS n, MAX(window_time) AS t FROM ({HOURS}) AS h",
    "cascade": "SELECT city, window_start, window_end, SUM(s) AS s, MAX(n) AS n FROM TABLE(TUMBLE("
    f"(SELECT city, window_time AS wt, s, n FROM ({HOURS}) AS h), DESCRIPTOR(wt), INTERVAL '6' "
    "HOUR)) GROUP BY city, window_start, window_end",
    "cascade of the same keys": "SELECT city, rider, window_end, SUM(s) AS s FROM TABLE(TUMBLE("
    f"(SELECT city, rider, window_time AS wt, s FROM ({HOURS}) AS h), DESCRIPTOR(wt), INTERVAL "
    "'1' DAY)) GROUP BY city, rider, window_start, window_end",
    "cascade of hops": "SELECT city, window_end, MAX(s) AS s FROM TABLE(HOP((SELECT city, "
    f"window_time AS wt, s FROM ({HOURS}) AS h), DESCRIPTOR(wt), INTERVAL '1' HOUR, INTERVAL '3' "
    "HOUR)) GROUP BY city, window_start, window_end",
    "first": "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
    f"ORDER BY n DESC, s, city, rider) AS rn FROM ({HOURS}) AS h) WHERE rn <= 3",
    "ranks": "SELECT city, s, r FROM (SELECT *, RANK() OVER (PARTITION BY window_start, "
    f"window_end, city ORDER BY s DESC NULLS LAST) AS r FROM ({HOURS}) AS h) WHERE r BETWEEN 2 AND 3",
    "sums of first": "SELECT city, SUM(s) AS s FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY "
    f"window_start, window_end ORDER BY n DESC, s, city, rider) AS rn FROM ({HOURS}) AS h) "
    "WHERE rn <= 3 GROUP BY city",
    "deduplicated": "SELECT city, ts, window_end FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY "
    f"window_start, window_end, city ORDER BY ts DESC) AS rn FROM TABLE({TUMBLE})) WHERE rn = 1",
    "sets": f"SELECT city, rider, window_end, SUM(fare) AS s, COUNT(*) AS n FROM TABLE({TUMBLE}) "
    "GROUP BY GROUPING SETS ((city, rider, window_start, window_end), (city, window_start, "
    "window_end), (window_start, window_end))",
    "cube": f"SELECT city, rider, window_end, MAX(fare) AS s FROM TABLE({TUMBLE}) "
    "GROUP BY window_start, window_end, CUBE(city, rider)",
    "statistics": f"SELECT city, window_end, STDDEV_SAMP(fare) AS s, VAR_POP(price) AS v "
    f"FROM TABLE({HOP}) GROUP BY city, window_start, window_end",
    "shared": f"SELECT city, window_end, s FROM ({BY_CITY.format(HOP)}) AS a UNION ALL "
    f"SELECT city, window_end, s FROM ({BY_CITY.format(TUMBLE)}) AS b",
    "of rows in the query": "SELECT k, window_start, SUM(v) AS s FROM TABLE(HOP((SELECT * FROM "
    "(VALUES (TIMESTAMP_NTZ '1969-12-31 23:59:00', 'a', 1), (TIMESTAMP_NTZ '1970-01-01 00:00:30', "
    "'a', 2), (NULL, 'a', 3), (TIMESTAMP_NTZ '1970-01-01 00:02:00', NULL, 4)) AS t(ts, k, v)), "
    "DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '2' MINUTE)) GROUP BY k, window_start, window_end",
    "sessions of sums": "SELECT city, window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION(("
    f"SELECT city, window_time AS wt FROM ({HOURS}) AS h WHERE s > 30) PARTITION BY city, "
    "DESCRIPTOR(wt), INTERVAL '2' HOUR)) GROUP BY city, window_start, window_end",
}
JOIN = (
    "SELECT {items} FROM ({left}) AS l {kind} JOIN ({right}) AS r ON l.window_start = "
    "r.window_start AND l.window_end = r.window_end AND l.city = r.city{condition}"
)
LEFT = BY_CITY.format(TUMBLE) + " HAVING SUM(fare) > 0"
RIGHT = BY_CITY.format(TUMBLE) + " HAVING COUNT(*) > 2"
BOTH = "l.city AS c, r.city AS d, l.window_end AS e, l.s AS s, r.s AS t"
OF_WINDOWS |= {
    f"{kind.lower()} join": JOIN.format(
        items=BOTH, left=LEFT, right=RIGHT, kind=kind, condition=" AND l.s < r.s + 20"
    )
    for kind in ("INNER", "LEFT", "RIGHT", "FULL")
}
OF_WINDOWS |= {
    f"{kind.lower()} join": JOIN.format(
        items="l.city, l.window_end, l.s", left=LEFT, right=RIGHT, kind=kind, condition=""
    )
    for kind in ("LEFT SEMI", "LEFT ANTI")
}
QUERIES = PLAIN | {f"windows: {name}": sql.format(time="ts") for name, sql in OF_WINDOWS.items()}
# Queries in which Spark plans parts that this process cannot analyse without it
ANALYSED_BY_SPARK = {
    name for name in QUERIES if name.endswith(("semi join", "anti join", "cube"))
} | {"constant", "expressions", "instants", "group by expression"}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("queries")
    for name, back_us in (("trips", 0), ("old", LONG_AGO_US)):
        (path / name).mkdir()
        for number in range(2):
            rows = trips(900, number)
            for column in ("ts", "tz"):
                place, type_ = rows.schema.get_field_index(column), rows.schema.field(column).type
                times = [
                    None if time is None else time - back_us
                    for time in rows.column(column).cast(pa.int64()).to_pylist()
                ]
                rows = rows.set_column(place, column, pa.array(times, pa.int64()).cast(type_))
            pq.write_table(rows, path / name / f"{number}.parquet", row_group_size=200)
    pq.write_table(trips(1, 0).slice(1), path / "nothing.parquet")
    return path


def tables(path: Path) -> str:
    return "".join(
        f"CREATE TABLE {name} WITH ('connector' = 'filesystem', 'path' = '{path / where}');"
        for name, where in (("trips", "trips"), ("old", "old"), ("nothing", "nothing.parquet"))
    )


@pytest.fixture
def session(fresh_session: sqlwin.Session, path: Path) -> Iterator[sqlwin.Session]:
    fresh_session.execute(f"{tables(path)} SET '{SETTING}' = '1 gb'")
    return fresh_session


def rows_of(session: sqlwin.Session, sql: str, *, in_process: bool) -> pa.Table:
    (result,) = session.execute(sql)
    assert isinstance(result.data, InProcessRows) is in_process
    return result.to_arrow()


@pytest.mark.variants(1)
@pytest.mark.parametrize("zone", ["UTC", pytest.param("America/New_York", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", QUERIES)
def test_rows_are_the_ones_of_spark(session: sqlwin.Session, name: str, zone: str) -> None:
    session.execute(f"SET 'table.local-time-zone' = '{zone}'")
    sql = QUERIES[name]
    assert "== Execution ==\nin process: " in session.explain(sql)
    in_process_rows = rows_of(session, sql, in_process=True)
    session.execute(f"SET '{SETTING}' = '0'")
    spark_rows = rows_of(session, sql, in_process=False)
    assert (
        in_process_rows.schema.names == spark_rows.schema.names
        and in_process_rows.schema.types == spark_rows.schema.types
    )
    assert comparable(in_process_rows) == comparable(spark_rows)
    if "ORDER BY" in sql.rpartition(")")[2]:
        assert repr(in_process_rows.to_pylist()) == repr(spark_rows.to_pylist())


@pytest.mark.variants(15)
@pytest.mark.parametrize("name", sorted(QUERIES.keys() - ANALYSED_BY_SPARK))
def test_spark_does_not_start(path: Path, name: str) -> None:
    session = Session(unstarted_spark(), settings={})
    session.execute(tables(path))
    assert "== Execution ==\nin process: " in session.explain(QUERIES[name])
    rows_of(session, QUERIES[name], in_process=True)


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT INITCAP(city) AS u FROM trips", "INITCAP is not supported in this process"),
        ("SELECT first(city) AS f FROM trips", "FIRST without windows has no defined order"),
        ("SELECT a.x FROM trips AS a JOIN trips AS b ON a.ts = b.ts", "Spark computes joins"),
        ("SELECT price DIV 2 AS p FROM trips", "DIV of decimals is not supported in this process"),
        ("SELECT city FROM trips UNION SELECT rider FROM trips", "what follows UNION"),
        ("SELECT city FROM trips WHERE fare IN (SELECT 1)", "IN with a subquery"),
        ("SELECT COUNT(*) AS n FROM range(3)", "Spark reads range"),
    ],
)
def test_explain_says_which_expression_needs_spark(
    session: sqlwin.Session, sql: str, reason: str
) -> None:
    place = session.explain(sql).partition("== Execution ==\n")[2]
    assert place.startswith("on Spark: ") and reason in place
    assert rows_of(session, sql, in_process=False).num_rows >= 0


def test_a_limit_does_not_read_all_rows(tmp_path: Path) -> None:
    numbers = np.random.default_rng(1).integers(0, 1 << 60, 3_000_000)
    pq.write_table(pa.table({"x": numbers}), tmp_path / "a.parquet", row_group_size=100_000)
    session = Session(unstarted_spark(), settings={})
    (result,) = session.execute(f"SELECT x FROM '{tmp_path}/a.parquet' LIMIT 5")
    assert result.to_arrow().num_rows == 5
    assert result.scan_counts is not None and 5 <= result.scan_counts.rows_read() < 3_000_000


def test_an_overflow_is_an_error_as_on_spark(session: sqlwin.Session) -> None:
    sql = "SELECT 9223372036854775807 + fare AS f FROM trips WHERE fare > 0"
    with pytest.raises(sqlwin.SqlwinError, match="overflow"):
        rows_of(session, sql, in_process=True)
