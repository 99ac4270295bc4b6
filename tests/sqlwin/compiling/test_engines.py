"""Compiled texts on engines in this process: windows, arithmetic, NULL and NaN, refusals."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from planner.lowering.sql.targets import TARGETS
from runtime.simulator.compare import is_same
from sqlwin.compiling.scripts import Compiler
from sqlwin.session import Session
from tests.engines import ENGINES, Engine, engine
from tests.fuzz.compiled_roads import run_on_duckdb
from tests.oracle import OracleWindow, expected, same_rows
from tests.sqlwin.compiling.test_compile import (
    EPOCH,
    EXPRESSIONS,
    MICROSECOND,
    SCHEMA,
    WINDOWS,
    rows_at,
    rows_here,
    scalar_rows,
)
from tests.unstarted import unstarted_spark

HOP = "TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '3' MINUTES))"


@pytest.fixture(params=sorted(ENGINES))
def there(request: pytest.FixtureRequest) -> Engine:
    return engine(request.param)


def rows_there(there: Engine, query: str, t: pa.Table) -> list[tuple[object, ...]]:
    """Return the rows of a compiled query on an engine."""
    rows = there.run(sqlwin.compile(query, there.name, schema=SCHEMA), {"t": t})
    return [tuple(row.values()) for row in rows.to_pylist()]


def values(n: int = 400) -> pa.Table:
    """Return rows of three keys in 8 hours, some at the same time and some without one."""
    seconds = [None if i % 50 == 7 else (7 * i * i) % 30_000 for i in range(n)]
    return rows_at(
        *seconds,
        k=[["a", "b", None][i % 3] for i in range(n)],
        v=[None if i % 11 == 3 else i % 17 - 8 for i in range(n)],
        d=[[0.0, -0.0, 1.5, float("nan"), -2.25, None][i % 6] for i in range(n)],
    )


@pytest.mark.parametrize(
    "window",
    WINDOWS,
    ids=str,
)
def test_windows_have_the_rows_of_brute_force(there: Engine, window: OracleWindow) -> None:
    aggregates = ["COUNT(*)", "SUM(v)", "MIN(v)", "MAX(v)", "COUNT(DISTINCT v)"]
    items = ", ".join(f"{text} AS a{i}" for i, text in enumerate(aggregates))
    query = (
        f"SELECT k, window_start, window_end, {items} "
        f"FROM {window.call.replace('TABLE data', 'TABLE t')} GROUP BY k, window_start, window_end"
    )
    t = values()
    rows = [
        (k, (start - EPOCH) // MICROSECOND, (end - EPOCH) // MICROSECOND, *results)
        for k, start, end, *results in rows_there(there, query, t)
    ]
    same_rows(rows, expected(t, window, ["k"], aggregates))


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT k, MIN(d) AS l, MAX(d) AS h, COUNT(DISTINCT d) AS c FROM {HOP} "
        "GROUP BY k, window_start, window_end",
        "SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(SESSION(TABLE t "
        "PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' MINUTES)) GROUP BY k, window_start, window_end",
        "SELECT d, COUNT(*) AS n FROM t GROUP BY d",
        "SELECT k, window_end, n, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, "
        "window_end ORDER BY n DESC, k) AS rn FROM (SELECT k, window_start, window_end, COUNT(*) AS "
        f"n FROM {HOP} GROUP BY k, window_start, window_end)) WHERE rn <= 2",
        "SELECT k, d, v, rk FROM (SELECT *, RANK() OVER (PARTITION BY window_start, window_end "
        f"ORDER BY d DESC) AS rk FROM {HOP}) WHERE rk <= 2",
        "SELECT l.k AS k, r.k AS o, l.window_end AS e, l.n AS n, r.n AS m FROM (SELECT k, "
        f"window_start, window_end, COUNT(*) AS n FROM {HOP} WHERE v > 0 GROUP BY k, window_start, "
        "window_end) AS l FULL JOIN (SELECT k, window_start, window_end, COUNT(*) AS n FROM "
        f"{HOP} WHERE v < 0 GROUP BY k, window_start, window_end) AS r ON l.window_start = "
        "r.window_start AND l.window_end = r.window_end AND l.k = r.k",
        "SELECT l.k AS k, l.v AS v, l.window_end AS e FROM (SELECT * FROM TABLE(TUMBLE(TABLE t, "
        "DESCRIPTOR(ts), INTERVAL '1' HOUR))) AS l WHERE NOT EXISTS (SELECT 1 FROM (SELECT * FROM "
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))) AS r WHERE l.window_start = "
        "r.window_start AND l.window_end = r.window_end AND l.k = r.k AND l.d = r.d AND l.v < r.v)",
        "SELECT k, v, COUNT(*) AS n, GROUPING(k) AS g FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), "
        "INTERVAL '1' HOUR)) GROUP BY window_start, window_end, ROLLUP (k, v)",
        "SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), "
        "INTERVAL '1' MONTH, INTERVAL '3' MONTH)) GROUP BY window_start, window_end",
        f"SELECT k, MIN_BY(v, d) AS a, MAX_BY(d, i) AS b, LAST_VALUE(v) AS c FROM {HOP} "
        "GROUP BY k, window_start, window_end",
        f"SELECT k, VAR_POP(v) AS a, STDDEV(v) AS b, VARIANCE(d) AS c, VAR_POP(d) AS e FROM {HOP} "
        "GROUP BY k, window_start, window_end",
        "SELECT AVG(v) AS a, AVG(d) AS b, SUM(v) AS s, COUNT(*) AS n FROM t WHERE v > 100",
    ],
    ids=[
        *("nan", "session", "keys", "top", "rank", "join", "anti join", "sets", "months"),
        *("picks", "variance", "none"),
    ],
)
def test_a_query_has_the_rows_of_this_process(there: Engine, query: str) -> None:
    t = values(120)
    rows = rows_there(there, query, t)
    assert is_same(sorted(rows, key=repr), sorted(rows_here(query, t), key=repr))
    assert rows


def test_nulls_come_first_and_nan_is_the_greatest_number(there: Engine) -> None:
    t = rows_at(*range(5), v=list(range(5)), d=[float("nan"), 1.5, None, float("-inf"), -0.0])
    for order, wanted in (("", [2, 3, 4, 1, 0]), ("DESC", [0, 1, 4, 3, 2])):
        query = f"SELECT v FROM t ORDER BY d {order}"
        assert [v for (v,) in rows_there(there, query, t)] == wanted


@pytest.mark.variants(8)
@pytest.mark.parametrize(
    "query", ["SELECT SUM({}) AS s FROM t", f"SELECT SUM({{}}) AS s FROM {HOP}"]
)
@pytest.mark.parametrize(
    ("sum_", "columns"),
    [
        ("v", {"v": [2**62, 2**62]}),
        ("v + v", {"v": [2**62, 1]}),
        ("v * v", {"v": [2**32, 1]}),
        ("i + i", {"i": [2**30, 1]}),
        ("-v", {"v": [-(2**63), -1]}),
        ("ABS(v)", {"v": [-(2**63), 1]}),
        ("v / i", {"v": [1, 1], "i": [1, 0]}),
        ("v % i", {"v": [1, 1], "i": [1, 0]}),
        ("v DIV i", {"v": [1, 1], "i": [1, 0]}),
        ("CAST(v AS INT)", {"v": [1, 2**31]}),
        ("CAST(d AS BIGINT)", {"d": [1e19, 1.0]}),
    ],
    ids=str,
)
def test_overflow_and_division_by_zero_are_errors(
    there: Engine, query: str, sum_: str, columns: dict[str, list[float]]
) -> None:
    if "HOP" in query:
        query += " GROUP BY window_start, window_end"
    text = sqlwin.compile(query.format(sum_), there.name, schema=SCHEMA)
    with pytest.raises(
        Exception, match=r"(?i)overflow|range|convert|cast|divide|division|zero|large"
    ):
        there.run(text, {"t": rows_at(0, 1, **columns)})


def test_a_sum_of_slices_that_overflows_is_an_error(there: Engine) -> None:
    query = f"SELECT SUM(v) AS s FROM {HOP} GROUP BY window_start, window_end"
    with pytest.raises(Exception, match=r"(?i)range|convert|large"):
        rows_there(there, query, rows_at(0, 60, v=[2**62, 2**62]))


def test_averages_of_decimals_are_rounded_half_up(there: Engine) -> None:
    p = [
        Decimal("0.01"),
        Decimal("0.02"),
        Decimal("0.02"),
        Decimal("-0.01"),
        Decimal("-0.02"),
        None,
    ]
    t = rows_at(*range(6), k=["a", "a", "a", "b", "b", "c"], p=p)
    t = pa.concat_tables([t] * 3)
    query = "SELECT k, AVG(p) AS a, SUM(p) AS s, COUNT(p) AS n FROM t GROUP BY k"
    rows = sorted(rows_there(there, query, t))
    assert rows == sorted(rows_here(query, t))
    assert rows[0] == ("a", Decimal("0.016667"), Decimal("0.15"), 9)


def neighbours(s: str, p: str) -> str:
    over = "OVER (PARTITION BY k ORDER BY window_end)"
    return (
        f"SELECT k, window_end, LAG({s}) {over} AS a, LAG({p}, 3) {over} AS c, "
        f"{s} - LEAD({s}, 2, CAST(0 AS BIGINT)) {over} AS b, "
        f"LEAD(k) OVER (ORDER BY k DESC NULLS LAST, {s} NULLS FIRST, window_end) AS n"
    )


@pytest.mark.parametrize("name", ["duckdb", *sorted(ENGINES)])
def test_neighbours_of_windows_are_those_of_their_results(name: str) -> None:
    below = f"FROM {HOP} WHERE v > -8 GROUP BY k, window_start, window_end"
    windows = f"SELECT k, window_end, SUM(v) AS s, MAX(p) AS p {below}"
    t = values()
    place = t.schema.get_field_index("p")
    t = t.set_column(
        place, "p", t["v"].cast("int32").cast(pa.decimal128(12, 2)).cast(pa.decimal128(10, 2))
    )
    columns = zip(*rows_here(windows, t), strict=True)
    results = pa.table(dict(zip(["k", "window_end", "s", "p"], columns, strict=True)))
    expected = run_on_duckdb(f"{neighbours('s', 'p')} FROM w", {"w": results}).to_pylist()
    run = run_on_duckdb if name == "duckdb" else engine(name).run
    for query in (
        f"{neighbours('s', 'p')} FROM ({windows})",
        f"{neighbours('SUM(v)', 'MAX(p)')} {below}",
    ):
        rows = run(sqlwin.compile(query, name, schema=SCHEMA), {"t": t})
        assert sorted(map(str, rows.to_pylist())) == sorted(map(str, expected))
        assert rows.schema.field("c").type == t.schema.field("p").type
    assert len(expected) > 500


@pytest.mark.long
def test_scalars_have_the_values_and_types_of_this_process(there: Engine, tmp_path: Path) -> None:
    t = scalar_rows()
    t = t.filter(pa.array([there.can_store([t.slice(i, 1)]) for i in range(t.num_rows)]))
    assert t.num_rows > 300
    items, n_refused = [], 0
    for text in EXPRESSIONS:
        try:
            sqlwin.compile(f"SELECT {text} AS c FROM t", there.name, schema=SCHEMA)
        except sqlwin.SqlwinError:
            n_refused += 1
        else:
            items.append(text)
    query = f"SELECT {', '.join(f'{text} AS c{i}' for i, text in enumerate(items))} FROM t"
    pq.write_table(t, tmp_path / "t.parquet")
    with Session(unstarted_spark(), settings={}) as session:
        session.execute(
            "CREATE TABLE t WITH ('connector' = 'filesystem', 'format' = 'parquet', "
            f"'path' = '{tmp_path}/t.parquet')"
        )
        here = session.execute(query)[0].to_arrow()
    rows = there.run(sqlwin.compile(query, there.name, schema=SCHEMA), {"t": t})
    wrong = [
        (text, here.field(name).type, rows.field(name).type)
        for name, text in zip(here.schema.names, items, strict=True)
        if here.field(name).type != rows.field(name).type
        or not is_same(here.column(name).to_pylist(), rows.column(name).to_pylist())
    ]
    assert not wrong, wrong
    assert n_refused == REFUSED_SCALARS[there.name]


# by ClickHouse: ROUND, %, <=>, LEAST and GREATEST of DOUBLE, and CONCAT_WS
REFUSED_SCALARS = {"clickhouse": 7, "datafusion": 0}


def test_a_nan_with_a_sign_is_a_nan() -> None:
    # an infinity minus itself is such a NaN, which sorts before all numbers in Arrow
    there = engine("datafusion")
    t = rows_at(0, 1, 2, d=[float("nan"), -float("nan"), 1.5])
    query = "SELECT MAX(d) AS h, MIN(d) AS l, COUNT(DISTINCT d) AS c, COUNT_IF(d > 2e0) AS n FROM t"
    assert str(rows_there(there, query, t)) == "[(nan, 1.5, 2, 2)]"


@pytest.mark.parametrize(
    ("name", "column", "read"),
    [("clickhouse", "explain", "ReadFromMemory"), ("datafusion", "plan", "DataSourceExec")],
)
def test_the_table_is_read_once(name: str, column: str, read: str) -> None:
    there = engine(name)
    query = (
        f"SELECT k, SUM(v) AS s, COUNT(DISTINCT i) AS c FROM {HOP} "
        "GROUP BY k, window_end, window_start"
    )
    text = sqlwin.compile(query, name, schema=SCHEMA)
    plan = there.run(f"EXPLAIN {text}", {"t": rows_at(0)}).column(column).to_pylist()
    assert " ".join(plan).count(read) == 1


def test_a_sum_of_decimals_with_more_digits_than_38_is_an_error(there: Engine) -> None:
    schema = "CREATE TABLE t (ts TIMESTAMP(6), w DECIMAL(38, 2));"
    times = rows_at(*range(4))["ts"]
    query = f"SELECT window_end, SUM(w) AS s FROM {HOP} GROUP BY window_start, window_end"
    text = sqlwin.compile(query, there.name, schema=schema)
    for units, fails in (([3, 1, None, -2], False), ([6, 6, None, 0], True)):
        w = pa.array(
            [None if n is None else Decimal(n * 10**35) for n in units], pa.decimal128(38, 2)
        )
        t = {"t": pa.table({"ts": times, "w": w})}
        if fails:
            with pytest.raises(Exception, match=r"(?i)digits|large|overflow"):
                there.run(text, t)
        else:
            assert set(there.run(text, t)["s"].to_pylist()) == {Decimal(2 * 10**35)}


OVERLAPPING = f"FROM {HOP} GROUP BY window_start, window_end"
SESSIONS = "TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
SETS = "GROUP BY GROUPING SETS ((k, window_start, window_end), (window_start, window_end))"
UPDATED = HOP.replace("HOP(", "CUMULATE(").replace("'3' MINUTES", "'3' MINUTES, 0s, TRUE")
RANGES = "TABLE(RANGES(TABLE t, DESCRIPTOR(ts), TABLE bounds, DESCRIPTOR(a, b)))"
EVERY = ("clickhouse", "datafusion", "duckdb", "postgres")
# Engines, query and reason: refusals of docs/compile.md that no other test has
REFUSED: list[tuple[tuple[str, ...], str, str]] = [
    (EVERY, "SELECT UPPER(k) AS u FROM t", "the case of letters"),
    (EVERY, "SELECT LOWER(k) AS u FROM t", "the case of letters"),
    (EVERY, "SELECT CAST(k AS INT) AS i FROM t", "CAST(k AS INT)"),
    (EVERY, "SELECT CAST(d AS DECIMAL(10, 2)) AS p FROM t", "from DOUBLE to DECIMAL(10, 2)"),
    (("spark",), "SELECT CAST(d AS DECIMAL(10, 2)) AS p FROM t", "from DOUBLE to DECIMAL(10, 2)"),
    (EVERY, "SELECT p / w AS q FROM t", "divisors of more than 18 digits"),
    (("spark",), "SELECT REVERSE(k) AS r FROM t", "REVERSE(k)"),
    (("spark",), "SELECT JSON_VALUE(k, '$.a') AS a FROM t", "JSON_VALUE(k, "),
    (("duckdb",), f"SELECT MAX(x) AS m {OVERLAPPING}", "the type of MAX(x)"),
    (("duckdb", "spark"), f"SELECT SUM(DISTINCT d) AS s {OVERLAPPING}", "SUM(DISTINCT) is not"),
    (("datafusion",), f"SELECT SUM(DISTINCT v) AS s {OVERLAPPING}", "SUM(DISTINCT) is not merged"),
    (EVERY, f"SELECT APPROX_COUNT_DISTINCT(v) AS n {OVERLAPPING}", "an estimate"),
    (("spark",), f"SELECT AVG(w) AS a {OVERLAPPING}", "AVG of DECIMAL(30, 8)"),
    (("clickhouse",), "SELECT ROUND(d, 1) AS x FROM t", "ROUND(d, 1)"),
    (("clickhouse", "postgres"), "SELECT d % 2e0 AS x FROM t", "d % 2e0"),
    (("clickhouse",), "SELECT GREATEST(d, 1e0) AS x FROM t", "GREATEST(d, 1e0)"),
    (("clickhouse",), "SELECT LEAST(d, 1e0) AS x FROM t", "LEAST(d, 1e0)"),
    (("clickhouse",), "SELECT d IN (1e0, 2e0) AS x FROM t", "d IN (1e0, 2e0)"),
    (("clickhouse",), "SELECT d <=> 1e0 AS x FROM t", "d IS NOT DISTINCT FROM 1e0"),
    (("clickhouse",), "SELECT CONCAT_WS(',', k, k) AS x FROM t", "CONCAT_WS(',', k, k)"),
    (("clickhouse",), "SELECT CAST(p AS DECIMAL(5, 2)) AS x FROM t", "digits that do not fit"),
    (("datafusion",), "SELECT ROUND(d, 5) AS x FROM t", "more than 4 decimals"),
    (
        ("datafusion",),
        f"SELECT LISTAGG(k) AS a, FIRST_VALUE(v) AS f FROM {HOP} {SETS}",
        "DataFusion orders the rows of GROUPING SETS in one way only",
    ),
    (
        ("datafusion",),
        "SELECT MAX(v) AS a, MAX(CAST(v AS INT)) AS b FROM t",
        "differ only in a cast",
    ),
    (("postgres",), "SELECT CAST(v AS TINYINT) AS x FROM t", "PostgreSQL has no TINYINT"),
    (("postgres",), f"SELECT k AS {'a' * 64}, v FROM t", "is cut off on PostgreSQL"),
    (
        ("duckdb",),
        f"SELECT COUNT(*) AS n FROM {RANGES} GROUP BY window_start, window_end",
        "RANGES",
    ),
    (
        ("duckdb",),
        f"SELECT COUNT(*) AS n FROM {UPDATED} GROUP BY window_start, window_end",
        "EMITONLYONUPDATE is not compiled",
    ),
    (("duckdb",), f"SELECT COUNT(*) AS n FROM {SESSIONS} {SETS}", "GROUPING SETS"),
    (("duckdb",), "SELECT * FROM 'queries/data/flights.parquet'", "files by path are not compiled"),
    (
        ("duckdb",),
        "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT * FROM t; END",
        "only queries are compiled",
    ),
]


def test_other_constructs_are_refused_with_the_reason() -> None:
    more = "w DECIMAL(20, 8), x BINARY); CREATE TABLE bounds (a TIMESTAMP(6), b TIMESTAMP(6));"
    schema = f"{SCHEMA.removesuffix(');')}, {more}"
    for name in TARGETS:
        with Compiler(name) as compiler:
            compiler.define(schema)
            for names, query, message in REFUSED:
                if name not in names:
                    continue
                with pytest.raises(sqlwin.SqlwinError) as caught:
                    list(compiler.queries(query))
                assert message in caught.value.message, (name, query)
