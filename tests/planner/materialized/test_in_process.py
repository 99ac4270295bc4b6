"""Window rows ordered and ranked in this process equal those of SQL."""

from __future__ import annotations

import duckdb
import pyarrow.parquet as pq
import pytest

from planner.lowering.plan import lower_in_process
from runtime.engines.local.execute import ComputedRows
from runtime.refusal import Refusal, tried
from sqlwin.execution.in_process import why_not_read
from tests.planner.materialized.stored_tables import Tables
from tests.planner.materialized.test_answers import DEFINITION, rows

WINDOWS = (
    "SELECT city, rider, window_start, window_end, COUNT(*) AS n, SUM(fare) AS s, AVG(fare) AS a "
    "FROM TABLE(HOP(TABLE trips, DESCRIPTOR(ts), INTERVAL '2' HOURS, INTERVAL '6' HOURS)) "
    "GROUP BY city, rider, window_start, window_end"
)
RANKED = (
    "SELECT {} FROM (SELECT *, {}() OVER (PARTITION BY window_start, window_end{} ORDER BY {}) "
    "AS rn FROM {}) AS r WHERE rn <= 3 {}"
)
ALL = "window_end NULLS LAST, city NULLS FIRST, rider NULLS FIRST"


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    path = tmp_path_factory.mktemp("kept")
    data, base = rows(900), path / "trips"
    base.mkdir()
    pq.write_table(data.slice(0, 700), base / "0.parquet")
    pq.write_table(data.slice(700), base / "1.parquet")
    catalog = Tables()
    catalog.add_files("trips", base)
    catalog.materialize("m", DEFINITION, path / "m", [str(base / "0.parquet")])
    return catalog


def rows_in_process(tables, sql):
    plan = tables.plan(sql)
    step = tried(lower_in_process, plan.physical, tables, "UTC")
    if isinstance(step, Refusal) or why_not_read(step, 1 << 30) is not None:
        return None
    return ComputedRows(step)


def answer(tables, sql):
    result = rows_in_process(tables, sql)
    assert result is not None
    batches = list(result.batches())
    assert all(batch.schema == result.schema for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    "outer",
    [
        f"SELECT * FROM {{}} ORDER BY {ALL}",
        f"SELECT city, s FROM {{}} ORDER BY s DESC NULLS LAST, {ALL} LIMIT 7",
        f"SELECT city, s + 1 AS s FROM {{}} ORDER BY n, a DESC NULLS FIRST, {ALL} LIMIT 20 OFFSET 5",
        f"SELECT city AS rider, rider AS city, a FROM {{}} ORDER BY a NULLS FIRST, {ALL} LIMIT 9",
        f"SELECT city, window_end FROM {{}} WHERE s > 40 ORDER BY {ALL} LIMIT 0",
        f"SELECT city, s FROM {{}} ORDER BY s + 1 DESC NULLS LAST, {ALL} LIMIT 9",
        f"SELECT s, city FROM {{}} ORDER BY 1 NULLS FIRST, {ALL} LIMIT 9",
    ],
    ids=["all", "limit", "offset", "renamed", "none", "expression", "position"],
)
def test_ordered_rows_equal_those_of_sql(tables, outer):
    windows = tables.rows(WINDOWS)  # noqa: F841 (DuckDB finds it by its name)
    expected = duckdb.sql(outer.format("windows"))
    sql = outer.format(f"({WINDOWS}) AS w")
    assert answer(tables, sql) == expected.to_arrow_table().to_pylist()


@pytest.mark.parametrize("function", ["ROW_NUMBER", "RANK", "DENSE_RANK"])
@pytest.mark.parametrize("keys", ["", ", city"], ids=["windows", "keys"])
def test_ranked_rows_equal_those_of_sql(tables, function, keys):
    windows = tables.rows(WINDOWS)  # noqa: F841
    # ROW_NUMBER breaks ties arbitrarily
    by = "s DESC NULLS LAST" + (
        ", city NULLS FIRST, rider NULLS FIRST" * (function == "ROW_NUMBER")
    )
    items, order = "city, rider, window_end, s, rn", f"ORDER BY {ALL}, rn LIMIT 200"
    expected = duckdb.sql(RANKED.format(items, function, keys, by, "windows", order))
    sql = RANKED.format(items, function, keys, by, f"({WINDOWS}) AS w", order)
    assert answer(tables, sql) == expected.to_arrow_table().to_pylist()


@pytest.mark.parametrize(
    "sql",
    [
        RANKED.format(
            "city, rider, window_end, s, rn", "RANK", ", city", "s * 2 DESC NULLS LAST", "{}", ""
        ),
        "SELECT window_start, window_end, city, MIN(n) AS n, MAX(s) AS s, COUNT(DISTINCT rider) AS d "
        "FROM {} GROUP BY window_start, window_end, city",
    ],
    ids=["ranks", "groups"],
)
def test_expressions_and_groups_over_windows_equal_those_of_sql(tables, sql):
    windows = tables.rows(WINDOWS)  # noqa: F841
    expected = duckdb.sql(sql.format("windows")).to_arrow_table().to_pylist()
    rows = answer(tables, sql.format(f"({WINDOWS}) AS w"))
    assert sorted(map(repr, rows)) == sorted(map(repr, expected)) != []


@pytest.mark.parametrize(
    "sql",
    [f"{WINDOWS} ORDER BY INITCAP(city)", f"{WINDOWS} ORDER BY s LIMIT 1 + 1"],
    ids=["expression", "count"],
)
def test_other_orders_are_for_spark(tables, sql):
    assert rows_in_process(tables, sql) is None


def test_an_instant_restricts_slices_on_the_sessions_clock(tables):
    for where in ("window_end > TIMESTAMP '{}'", "window_start >= TIMESTAMP_LTZ '{}'"):
        sql = f"SELECT city, s FROM ({WINDOWS}) AS w WHERE {where.format('2026-02-01 12:00:00')}"
        plain = sql.replace("TIMESTAMP_LTZ", "TIMESTAMP_NTZ").replace(
            "TIMESTAMP '", "TIMESTAMP_NTZ '"
        )
        assert answer(tables, sql) == answer(tables, plain)
        asked = []
        for item in (sql, plain):
            tables.asked.clear()
            tables.plan(item)
            asked.append(list(tables.asked))
        assert asked[0] == asked[1]
        assert asked[0][-1][0] is not None
