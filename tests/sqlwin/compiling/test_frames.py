"""Windows merged by frames: random rows against brute force, and the choice of frames or copies."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import sqlwin
from planner.lowering.sql.targets import TARGETS, DuckDbTarget
from tests.engines import engine
from tests.fuzz.compiled_roads import BlocksOnDuckDb
from tests.oracle import MINUTE_US, OracleWindow, expected, same_rows

SCHEMA = (
    "CREATE TABLE data (ts TIMESTAMP(6), k STRING, v BIGINT, i INT, d DOUBLE, b BOOLEAN, "
    "p DECIMAL(10, 2), wide DECIMAL(30, 10));"
)
EPOCH = datetime.fromisoformat("1970-01-01")
AGGREGATES = [
    "COUNT(*)",
    "COUNT(v)",
    "SUM(v)",
    "MIN(v)",
    "MIN(d)",
    "MAX(d)",
    "SUM(d) FILTER (WHERE b)",
    "BIT_AND(i)",
    "BIT_OR(i)",
    "BIT_XOR(i)",
    "BOOL_AND(b)",
    "SUM(p)",
]
BLOCKS, MOVING = BlocksOnDuckDb(), DuckDbTarget()


def random_data(draw: random.Random) -> tuple[pa.Table, OracleWindow]:
    """Return rows in bursts, with gaps shorter and longer than a window, and the window."""
    step = MINUTE_US * draw.choice([1, 3])
    size = step * draw.choice([2, 3, 5, 7, 30])
    kind = draw.choice(["HOP", "HOP", "CUMULATE"])
    window = OracleWindow(kind, size, step, draw.choice([0, MINUTE_US, -5 * MINUTE_US]))
    time, rows = draw.randrange(-10, 10) * size, []
    for _ in range(draw.randrange(1, 60)):
        time += draw.choice([0, step // 2, step, size - step, size, size + step, 3 * size])
        number = draw.randrange(-9, 9)
        rows.append(
            {
                "ts": EPOCH + timedelta(microseconds=time + draw.choice([0, 1, -1])),
                "k": draw.choice(["a", "b", None]),
                "v": draw.choice([number, None]),
                "i": number & 7,
                "d": draw.choice([number / 4, number / 4, number / 4, math.nan]),
                "b": draw.choice([True, False, None]),
                "p": number,
            }
        )
    types = [pa.timestamp("us"), pa.string(), pa.int64(), pa.int32(), pa.float64(), pa.bool_()]
    names = ["ts", "k", "v", "i", "d", "b", "p"]
    fields = [*zip(names, [*types, pa.decimal128(10, 2)], strict=True)]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields)), window


def query_of(window: OracleWindow, *aggregates: str) -> str:
    items = "".join(f", {text} AS a{n}" for n, text in enumerate(aggregates))
    return (
        f"SELECT k, window_start, window_end{items} FROM {window.call} "
        "GROUP BY k, window_start, window_end"
    )


def check(
    draw: random.Random,
    run: Callable[[str, pa.Table], pa.Table],
    dialect: str = "duckdb",
    change: Callable[[str], str] = str,
    aggregates: Sequence[str] = AGGREGATES,
) -> None:
    """Compare the rows of a text with brute force.

    Raises:
        AssertionError: They differ.
    """
    data, window = random_data(draw)
    text = change(sqlwin.compile(query_of(window, *aggregates), dialect, schema=SCHEMA))
    rows = [
        (k, *((time - EPOCH) // timedelta(microseconds=1) for time in bounds), *results)
        for k, *bounds, results in (
            (row.pop("k"), row.pop("window_start"), row.pop("window_end"), tuple(row.values()))
            for row in run(text, data).to_pylist()
        )
    ]
    same_rows(rows, expected(data, window, ["k"], list(aggregates)))


def run_on_duckdb(text: str, data: pa.Table) -> pa.Table:
    with duckdb.connect() as connection:
        connection.register("data", data)
        return connection.sql(text).to_arrow_table()


@pytest.mark.parametrize("target", [BLOCKS, MOVING], ids=["blocks", "moving"])
@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 30), marks=pytest.mark.long)])
def test_frames_have_the_rows_of_brute_force(
    seeds: range, target: DuckDbTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TARGETS, "duckdb", target)
    for seed in seeds:
        check(random.Random(seed), run_on_duckdb)


def shorter_blocks(text: str) -> str:
    """Return a text whose blocks have one window fewer, if windows slide by a minute."""
    return re.sub(
        r"(.*) AS block_us",
        lambda line: re.sub(r"% (\d+)", rf"% (\1 - {MINUTE_US})", line[1]) + " AS block_us",
        text,
    )


@pytest.mark.parametrize(
    "change",
    [
        shorter_blocks,
        lambda text: re.sub(r"LAG\((\w+_after), (\d+)\)", r"LAG(\1, \2 - 1)", text),
        lambda text: text.replace("PRECEDING AND 1 PRECEDING", "PRECEDING AND CURRENT ROW"),
        lambda text: re.sub(r"previous_slice_us < (\d+)", r"previous_slice_us < 1\1", text),
    ],
    ids=["block", "lag", "later slices", "run"],
)
def test_a_planted_fault_in_blocks_is_found(
    change: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TARGETS, "duckdb", BLOCKS)
    with pytest.raises(AssertionError):
        for seed in range(40):
            check(random.Random(seed), run_on_duckdb, change=change)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: re.sub(r"(\d+) PRECEDING AND", r"1\1 PRECEDING AND", text),
        lambda text: text.replace("SUM(CASE WHEN", "MAX(CASE WHEN"),
        lambda text: text.replace("RANGE(slice_us", "RANGE(slice_us + 1"),
    ],
    ids=["frame", "merge", "ends"],
)
def test_a_planted_fault_in_moving_frames_is_found(change: Callable[[str], str]) -> None:
    with pytest.raises(AssertionError):
        for seed in range(40):
            check(random.Random(seed), run_on_duckdb, change=change)


@pytest.mark.long
def test_frames_have_the_rows_of_brute_force_on_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(text: str, data: pa.Table) -> pa.Table:
        spark.createDataFrame(data).createOrReplaceTempView("data")
        try:
            return spark.sql(text).toArrow()
        finally:
            spark.catalog.dropTempView("data")

    monkeypatch.setattr(type(TARGETS["spark"]), "least_overlap", 2)
    for seed in range(2):
        check(random.Random(seed), run, "spark")


@pytest.mark.parametrize(
    "seeds", [range(1, 2), pytest.param(range(2, 22), marks=pytest.mark.long)], ids=str
)
def test_frames_have_the_rows_of_brute_force_on_clickhouse(
    seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = engine("clickhouse")

    def run(text: str, data: pa.Table) -> pa.Table:
        assert "slices_of_windows" not in text
        return there.run(text, {"data": data})

    monkeypatch.setattr(type(TARGETS["clickhouse"]), "least_overlap", 2)
    aggregates = [text for text in AGGREGATES if text not in ("MIN(d)", "MAX(d)")]
    for seed in seeds:
        check(random.Random(seed), run, "clickhouse", aggregates=aggregates)


def test_a_sum_of_halves_that_overflows_is_an_error_on_clickhouse() -> None:
    there = engine("clickhouse")
    times = [EPOCH, EPOCH + timedelta(minutes=4), EPOCH + timedelta(minutes=8)]
    rows = [{"ts": time, "v": 2**62} for time in times]
    schema = pa.schema([("ts", pa.timestamp("us")), ("v", pa.int64())])
    window = OracleWindow("HOP", 8 * MINUTE_US, MINUTE_US)
    query = f"SELECT SUM(v) AS s FROM {window.call} GROUP BY window_start, window_end"
    text = sqlwin.compile(query, "clickhouse", schema=SCHEMA)
    assert "halves_of_windows" in text
    with pytest.raises(RuntimeError, match="CANNOT_CONVERT_TYPE"):
        there.run(text, {"data": pa.Table.from_pylist(rows, schema=schema)})


@pytest.mark.parametrize(
    ("dialect", "minutes", "aggregate", "reason"),
    [
        ("spark", "'1' MINUTE, INTERVAL '1' HOUR", "SUM(v)", None),
        ("spark", "'1' MINUTE, INTERVAL '1' HOUR", "SUM(p)", None),
        ("spark", "'1' MINUTE, INTERVAL '1' HOUR", "MAX(wide)", None),
        ("spark", "'15' MINUTE, INTERVAL '1' HOUR", "SUM(v)", "frames cost more for 4 windows"),
        ("spark", "'1' MINUTE, INTERVAL '1' HOUR", "COUNT(DISTINCT v)", "no frame merges COUNT_"),
        ("duckdb", "'1' MINUTE, INTERVAL '1' HOUR", "SUM(DISTINCT v)", None),
        ("spark", "'1' MINUTE, INTERVAL '1' HOUR", "SUM(wide)", "a sum of two DECIMAL(38,10)"),
        ("clickhouse", "'10' MINUTE, INTERVAL '1' HOUR", "SUM(v)", None),
        ("clickhouse", "'15' MINUTE, INTERVAL '1' HOUR", "SUM(v)", "frames cost more for 4"),
        ("clickhouse", "'1' MINUTE, INTERVAL '1' HOUR", "MAX(d)", "no frame over DOUBLE"),
        ("duckdb", "'15' MINUTE, INTERVAL '1' HOUR", "SUM(wide)", None),
        ("duckdb", "'14' MINUTE, INTERVAL '1' HOUR", "SUM(v)", "slices differ in length"),
        ("duckdb", "'1' MONTH, INTERVAL '1' YEAR", "SUM(v)", "months differ in length"),
    ],
)
def test_a_text_copies_slices_for_a_reason(
    dialect: str, minutes: str, aggregate: str, reason: str | None
) -> None:
    text = sqlwin.compile(
        f"SELECT {aggregate} AS a FROM TABLE(HOP(TABLE data, DESCRIPTOR(ts), INTERVAL {minutes})) "
        "GROUP BY window_start, window_end",
        dialect,
        schema=SCHEMA,
    )
    if reason is None:
        assert "slices_of_windows" not in text
        assert " OVER " in text
    else:
        assert (
            f"slices_of_windows /* each slice once per window that has it, because {reason}" in text
        )
