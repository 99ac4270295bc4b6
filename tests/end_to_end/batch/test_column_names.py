"""Column names with dots, backticks and blanks, and duplicate names."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sqlwin
from runtime.names import quote_name
from tests.conftest import drop_views
from tests.marks import pairs

PLAIN = {"dotted": "d", "spaced": "s", "ticked": "q", "field": "f"}
ODD = {"dotted": "sales.total", "spaced": "x y", "ticked": "`q`", "field": "a.`b`.c"}
DATA = "TABLE({window}(TABLE {table}, DESCRIPTOR(ts), INTERVAL '10' MINUTES))"
TUMBLE = DATA.replace("{window}", "TUMBLE")
HOP = TUMBLE.replace("TUMBLE", "HOP").replace("(ts),", "(ts), INTERVAL '5' MINUTES,")
QUERIES = {
    "aggregate": f"""
        SELECT {{spaced}}, {{ticked}}, window_end, COUNT(*) AS {{field}}, SUM({{dotted}}) AS n
        FROM {TUMBLE} GROUP BY {{spaced}}, {{ticked}}, window_start, window_end""",
    "keys": f"""
        SELECT {{dotted}}, window_end, COUNT(*) AS {{field}}
        FROM {HOP} GROUP BY {{dotted}}, window_start, window_end""",
    "distinct": f"""
        SELECT {{ticked}}, window_end, COUNT(DISTINCT {{dotted}}) AS {{field}}
        FROM {HOP} GROUP BY {{ticked}}, window_start, window_end""",
    "grouping sets": f"""
        SELECT {{dotted}}, {{ticked}}, window_end, COUNT(*) AS {{field}}
        FROM {TUMBLE} GROUP BY window_start, window_end, GROUPING SETS (({{dotted}}), ({{ticked}}))""",
    "rows": f"SELECT {{dotted}}, {{ticked}}, window_end FROM {HOP}",
    "top-n of rows": f"""
        SELECT * FROM (
          SELECT {{dotted}}, {{ticked}}, window_end, ROW_NUMBER() OVER (
            PARTITION BY window_start, window_end, {{ticked}} ORDER BY {{dotted}}, ts) AS {{field}}
          FROM {TUMBLE}) WHERE {{field}} <= 2""",
    "top-n of windows": f"""
        SELECT * FROM (
          SELECT *, ROW_NUMBER() OVER (
            PARTITION BY window_start, window_end ORDER BY {{field}} DESC, {{dotted}}) AS rn
          FROM (
            SELECT window_start, window_end, {{dotted}}, SUM({{spaced}}) AS {{field}}
            FROM {TUMBLE} GROUP BY window_start, window_end, {{dotted}})) WHERE rn <= 2""",
    "join": f"""
        SELECT l.{{dotted}}, r.{{dotted}}, l.{{spaced}}, r.{{ticked}}
        FROM (SELECT * FROM {TUMBLE}) l JOIN (SELECT * FROM {TUMBLE}) r
        ON l.{{ticked}} = r.{{ticked}} AND l.{{dotted}} = r.{{dotted}}
        AND l.window_start = r.window_start AND l.window_end = r.window_end""",
    "session": """
        SELECT {dotted}, window_end, COUNT(*) AS {field}
        FROM TABLE(SESSION(TABLE {table} PARTITION BY {dotted}, DESCRIPTOR(ts), INTERVAL '3' MINUTES))
        GROUP BY {dotted}, window_start, window_end""",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the same rows to two files: one with plain column names, one with odd ones."""
    rng = random.Random(11)
    n = 300
    columns = {
        "dotted": pa.array([rng.randrange(12) for _ in range(n)], pa.int64()),
        "spaced": pa.array([rng.choice([None, 1, 2]) for _ in range(n)], pa.int64()),
        "ticked": pa.array([rng.choice("abc") for _ in range(n)]),
        "field": pa.array([rng.random() for _ in range(n)]),
    }
    times = [rng.randrange(3_600) * 1_000_000 for _ in range(n)]
    directory = tmp_path_factory.mktemp("names")
    for table, names in (("plain", PLAIN), ("odd", ODD)):
        actual = {"ts": pa.array(times, pa.timestamp("us"))}
        actual |= {names[column]: values for column, values in columns.items()}
        pq.write_table(pa.table(actual), directory / f"{table}.parquet")
    return directory


@pytest.fixture(scope="module")
def named(spark: SparkSession, files: Path) -> Iterator[sqlwin.Session]:
    session = sqlwin.connect(spark)
    for table, names in (("plain", PLAIN), ("odd", ODD)):
        dotted, spaced, ticked, field = map(quote_name, names.values())
        session.execute(f"""
            CREATE TABLE {table} (
              ts TIMESTAMP(6), {dotted} BIGINT, {spaced} BIGINT, {ticked} STRING, {field} DOUBLE,
              WATERMARK FOR ts AS ts
            ) WITH ('connector' = 'filesystem', 'path' = '{files / table}.parquet')""")
    yield session
    drop_views(spark)


def rows_of_query(session: sqlwin.Session, query: str, table: str) -> pa.Table:
    names = PLAIN if table == "plain" else ODD
    text = query.format(table=table, **{name: quote_name(column) for name, column in names.items()})
    (result,) = session.execute(text)
    return result.to_arrow()


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    columns = [column.to_pylist() for column in table.columns]
    return sorted(zip(*columns, strict=True), key=str)


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("mode", "query"),
    pairs(
        ["batch", "streaming"],
        QUERIES,
        long=[("streaming", query) for query in QUERIES if query not in ("aggregate", "rows")],
    ),
)
def test_odd_names_give_the_rows_of_plain_names(
    named: sqlwin.Session, mode: str, query: str
) -> None:
    expected = rows_of_query(named, QUERIES[query], "plain")
    named.execute(f"SET 'execution.runtime-mode' = '{mode}'")
    try:
        actual = rows_of_query(named, QUERIES[query], "odd")
    finally:
        named.execute("RESET 'execution.runtime-mode'")
    assert rows_of(actual) == rows_of(expected)
    assert expected.num_rows
    odd = dict(zip(PLAIN.values(), ODD.values(), strict=True))
    assert actual.column_names == [odd.get(name, name) for name in expected.column_names]


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    "select",
    [
        "SELECT d, d, D FROM plain",
        "SELECT s AS n, d AS N FROM plain ORDER BY ts",
        "SELECT l.d, r.d FROM plain l JOIN plain r ON l.ts = r.ts AND l.f = r.f",
        "SELECT upper(q), upper(q), ts FROM plain",
        f"SELECT q, q, COUNT(*) AS n, SUM(d) AS N FROM {TUMBLE.format(table='plain')} "
        "GROUP BY q, window_start, window_end",
    ],
)
def test_columns_with_the_same_name_are_all_returned(named: sqlwin.Session, select: str) -> None:
    (result,) = named.execute(select)
    assert rows_of(result.to_arrow()) == sorted(map(tuple, result.rows), key=str)
    assert result.to_arrow().column_names == result.columns
    assert result.to_arrow(limit=7).column_names == result.columns
    assert len(result.to_pandas().columns) == len(result.columns)


def test_columns_of_one_name_and_of_types_that_arrow_lacks(named: sqlwin.Session) -> None:
    (result,) = named.execute(
        "SELECT INTERVAL '1' MONTH AS i, d, INTERVAL '2' MONTH AS i FROM plain"
    )
    actual = result.to_arrow()
    assert actual.column_names == ["i", "d", "i"]
    assert set(actual.column(0).to_pylist()) == {"INTERVAL '1' MONTH"}
    assert set(actual.column(2).to_pylist()) == {"INTERVAL '2' MONTH"}


@pytest.mark.long
def test_names_with_dots_go_into_files_and_lakes(named: sqlwin.Session, tmp_path: Path) -> None:
    expected = rows_of(rows_of_query(named, "SELECT {dotted}, {spaced} FROM {table}", "plain"))
    for connector, options in (("filesystem", ", 'format' = 'parquet'"), ("delta", "")):
        named.execute(f"""
            CREATE OR REPLACE TABLE copied
            WITH ('connector' = '{connector}', 'path' = '{tmp_path / connector}' {options})
            AS SELECT `sales.total`, `x y` FROM odd""")
        (copied,) = named.execute("SELECT `sales.total`, `x y` FROM copied")
        assert rows_of(copied.to_arrow()) == expected
