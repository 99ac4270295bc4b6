"""Conditions on NaN, -0.0 and NULL over files: statistics and dictionaries must not lose rows.

Files have row groups or stripes of two rows. Brute force in Python gives the expected rows: NaN
equals itself and is greater than every number, -0.0 equals 0.0.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import sqlwin
from tests.marks import among

NAN, INFINITY = math.nan, math.inf
VALUES = [0.5, 1.0, 2.0, 3.0, 0.0, -0.0, -1.0, NAN, INFINITY, -INFINITY, None]
LITERALS = {
    "1": 1.0,
    "0": 0.0,
    "2.0": 2.0,
    "CAST('-0.0' AS DOUBLE)": -0.0,
    "CAST('NaN' AS DOUBLE)": NAN,
    "CAST('Infinity' AS DOUBLE)": INFINITY,
    "-0.5": -0.5,
}
STREAMING = "SET 'execution.runtime-mode' = 'streaming';"
# Spark reads a TIMESTAMP of ORC as an instant
TIMES = {"parquet": "TIMESTAMP(6)", "orc": "TIMESTAMP_LTZ(6)"}
SCAN = "ArrowScanLocalWindowAggregate("
BY_SPARK = "SET 'sqlwin.optimizer.disabled-rules' = 'push_local_aggregate_into_scan';"
BY_ARROW = "RESET 'sqlwin.optimizer.disabled-rules';"


def rank(value: float) -> tuple[bool, float]:
    """Return a sort key that orders numbers as SQL does."""
    return (True, 0.0) if math.isnan(value) else (False, value)


def compare(operator: str, left: float | None, right: float) -> bool | None:
    if left is None:
        return None
    a, b = rank(left), rank(right)
    return {
        "=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b,
    }[operator]  # fmt: skip


def write(directory: Path, file_format: str, values: list[float | None]) -> None:
    table = pa.table(
        {
            "ts": pa.array(range(len(values)), pa.timestamp("s")),
            "n": pa.array(range(len(values)), pa.int64()),
            "d": pa.array(values, pa.float64(), from_pandas=False),
            "f": pa.array(values, pa.float32(), from_pandas=False),
            "s": pa.array(
                [{"x": value, "n": n} for n, value in enumerate(values)],
                pa.struct([("x", pa.float64()), ("n", pa.int64())]),
            ),
        }
    )
    directory.mkdir()
    if file_format == "parquet":
        pq.write_table(table, directory / "a.parquet", row_group_size=2)
        return
    for start in range(0, len(values), 2):
        orc.write_table(table.slice(start, 2), directory / f"{start}.orc")


def create(directory: Path, file_format: str) -> str:
    return f"""
        CREATE OR REPLACE TABLE t (ts {TIMES[file_format]}, n BIGINT, d DOUBLE, f FLOAT,
                                   s ROW<x DOUBLE, n BIGINT>, WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'path' = '{directory}', 'format' = '{file_format}');
    """


PLAIN = "SELECT {number} AS c, n FROM t WHERE {condition}"
WINDOW = """
    SELECT {number} AS c, SUM(n) AS n
    FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND))
    WHERE {condition} GROUP BY window_start, window_end
"""
JOIN = """
    SELECT {number} AS c, l.n AS n
    FROM (SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY))
          WHERE {condition}) l
    JOIN (SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY))) r
    ON l.n = r.n AND l.window_start = r.window_start AND l.window_end = r.window_end
"""


def rows(session: sqlwin.Session, query: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, session.execute(query)[-1].rows))


def selected_rows(session: sqlwin.Session, query: str, conditions: list[str]) -> list[list[int]]:
    """Return the numbers of the rows that a query selects for each condition, in one statement."""
    parts = [query.format(number=i, condition=item) for i, item in enumerate(conditions)]
    numbers: list[list[int]] = [[] for _ in conditions]
    for i, n in rows(session, " UNION ALL ".join(parts)):
        numbers[i].append(n)
    return numbers


@st.composite
def conditions(draw: st.DrawFn) -> tuple[str, Any]:
    """Draw a condition on `d`, `f` or `s.x`, and the same condition as a Python function."""
    column = draw(st.sampled_from(["d", "f", "s.x"]))
    kind = draw(st.sampled_from(["compare", "not", "in", "not in", "or", "null"]))
    operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
    literals = draw(st.lists(st.sampled_from(sorted(LITERALS)), min_size=2, max_size=3))
    value = LITERALS[literals[0]]
    if kind == "compare":
        return f"{column} {operator} {literals[0]}", lambda x: compare(operator, x, value)
    if kind == "not":
        return (
            f"NOT ({column} {operator} {literals[0]})",
            lambda x: None if x is None else not compare(operator, x, value),
        )
    if kind == "or":
        return (
            f"({column} {operator} {literals[0]} OR {column} = {literals[1]})",
            lambda x: compare(operator, x, value) or compare("=", x, LITERALS[literals[1]]),
        )
    if kind == "null":
        return (
            f"({column} IS NULL OR {column} > {literals[0]})",
            lambda x: x is None or compare(">", x, value),
        )
    members = [LITERALS[literal] for literal in literals]
    has_null = draw(st.booleans())
    listed = ", ".join([*literals, "NULL"] if has_null else literals)

    def is_in(x: float | None) -> bool | None:
        if x is None:
            return None
        if any(compare("=", x, member) for member in members):
            return True
        return None if has_null else False

    if kind == "in":
        return f"{column} IN ({listed})", is_in
    return f"{column} NOT IN ({listed})", lambda x: None if is_in(x) is None else not is_in(x)


@pytest.mark.long
@pytest.mark.parametrize("file_format", among(["parquet", "orc"], long=["orc"]))
@settings(
    max_examples=1,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.sampled_from(VALUES), min_size=2, max_size=8),
    st.lists(conditions(), min_size=4, max_size=6),
)
@example(
    [0.5, NAN, 2.0, 3.0],
    [
        ("d > 1", lambda x: compare(">", x, 1.0)),
        ("f <> 0.5", lambda x: compare("<>", x, 0.5)),
        ("s.x = CAST('NaN' AS DOUBLE)", lambda x: compare("=", x, NAN)),
    ],
)
@example(
    [-0.0, -0.0, 0.0, 0.0],
    [
        ("s.x = 0", lambda x: compare("=", x, 0.0)),
        ("d IN (0, 5, NULL)", lambda x: compare("=", x, 0.0)),
    ],
)
def test_every_path_finds_the_same_rows(
    fresh_session: sqlwin.Session,
    tmp_path_factory: pytest.TempPathFactory,
    file_format: str,
    values: list[float | None],
    drawn: list[tuple[str, Any]],
) -> None:
    directory = tmp_path_factory.mktemp("t") / "t"
    write(directory, file_format, values)
    fresh_session.execute(create(directory, file_format))
    texts = [condition for condition, _ in drawn]
    right = [[n for n, x in enumerate(values) if is_true(x)] for _, is_true in drawn]
    plan = fresh_session.explain(WINDOW.format(number=0, condition="d > 1"))
    assert SCAN in plan or file_format == "orc"
    for query in (PLAIN, JOIN, WINDOW):
        assert selected_rows(fresh_session, query, texts) == right, (query, texts)
    fresh_session.execute(BY_SPARK)
    assert selected_rows(fresh_session, WINDOW, texts) == right, texts
    fresh_session.execute(BY_ARROW)


@pytest.mark.long
@pytest.mark.parametrize("file_format", among(["parquet", "orc"], long=["orc"]))
def test_streams_find_them_too(
    fresh_session: sqlwin.Session, tmp_path: Path, file_format: str
) -> None:
    session = fresh_session
    write(tmp_path / "t", file_format, [0.5, NAN, 2.0, 3.0, -0.0, -0.0])
    session.execute(STREAMING + create(tmp_path / "t", file_format))
    conditions = ["d > 1", "d = 0", "s.x = 0"]
    assert selected_rows(session, PLAIN, conditions) == [[1, 2, 3], [4, 5], [4, 5]]
    # Arrow does not scan ORC
    for rule in (BY_ARROW, BY_SPARK) if file_format == "parquet" else (BY_ARROW,):
        session.execute(rule)
        explained = session.explain(WINDOW.format(number=0, condition="d <> 0.5"))
        assert (SCAN in explained) is (rule == BY_ARROW and file_format == "parquet")
        assert selected_rows(session, WINDOW, ["d <> 0.5"]) == [[1, 2, 3, 4, 5]]
    session.execute(BY_ARROW)


@pytest.mark.variants(2)
@pytest.mark.parametrize("condition", ["n IN (1, 2, NULL)", "s.n IN (1, NULLIF(1, 1), 2)"])
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_a_null_in_a_list_is_no_error(
    session: sqlwin.Session, tmp_path: Path, file_format: str, condition: str
) -> None:
    write(tmp_path / "t", file_format, [0.5, 1.0, 2.0])
    name = tmp_path / "t" / ("a.parquet" if file_format == "parquet" else "*.orc")
    assert rows(session, f"SELECT n FROM '{name}' WHERE {condition}") == [(1,), (2,)]


@pytest.mark.long
def test_a_registered_dataframe_and_a_cached_one(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    session = fresh_session
    write(tmp_path / "t", "parquet", [0.5, NAN, 2.0, 3.0])
    read = session.spark.read.parquet(str(tmp_path / "t"))
    session.register("r", read)
    assert rows(session, "SELECT n FROM r WHERE d > 1") == [(1,), (2,), (3,)]
    cached = read.repartition(1).cache()
    try:
        session.register("c", cached)
        assert rows(session, "SELECT n FROM c WHERE d > 3") == [(1,)]
    finally:
        cached.unpersist()


def test_unused_columns_are_not_read(fresh_session: sqlwin.Session, tmp_path: Path) -> None:
    session = fresh_session
    write(tmp_path / "t", "parquet", [0.5, 1.0])
    session.execute(create(tmp_path / "t", "parquet"))
    text = str(session.execute("EXPLAIN EXTENDED SELECT s.x FROM t WHERE n > 0")[-1].text)
    assert "ReadSchema: struct<n:bigint,s:struct<x:double>>" in text
    assert "GreaterThan(n,0)" in text


@pytest.mark.long
def test_the_log_of_a_delta_table_excludes_no_file_with_nan(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    deltalake = pytest.importorskip("deltalake")
    session = fresh_session
    for start, values in enumerate([[0.5, NAN], [2.0, 3.0], [-0.0, -0.0]]):
        columns = {
            "ts": pa.array([start, start], pa.timestamp("us", "UTC")),
            "n": pa.array([2 * start, 2 * start + 1]),
            "d": pa.array(values, pa.float64(), from_pandas=False),
        }
        deltalake.write_deltalake(tmp_path / "t", pa.table(columns), mode="append")
    session.execute(f"CREATE TABLE t WITH ('connector' = 'delta', 'path' = '{tmp_path / 't'}')")
    conditions = ["d > 1", "d = 0"]
    right = [[1, 2, 3], [4, 5]]
    assert selected_rows(session, PLAIN, conditions) == right
    sums = [[sum(numbers)] for numbers in right]
    assert selected_rows(session, WINDOW, conditions) == sums
    session.execute(BY_SPARK)
    assert selected_rows(session, WINDOW, conditions) == sums
    session.execute(BY_ARROW)
