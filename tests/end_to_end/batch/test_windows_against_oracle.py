"""Window aggregations on random rows, compared with brute force in DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime.spark.versions.capabilities import TEXT_AGGREGATES, has
from runtime.spark.versions.frames import to_arrow
from tests.marks import among
from tests.oracle import MINUTE_US, OracleWindow, expected, same_rows

WINDOWS = [
    OracleWindow("TUMBLE", 10 * MINUTE_US),
    OracleWindow("TUMBLE", 10 * MINUTE_US, offset_us=-3 * MINUTE_US),
    OracleWindow("TUMBLE", 7_000_001, offset_us=13),
    OracleWindow("HOP", 60 * MINUTE_US, 5 * MINUTE_US),
    OracleWindow("HOP", 30 * MINUTE_US, 10 * MINUTE_US, 7 * MINUTE_US),
    OracleWindow("HOP", 25 * MINUTE_US, 10 * MINUTE_US, -61 * MINUTE_US),
    OracleWindow("HOP", 10 * MINUTE_US, 30 * MINUTE_US),
    OracleWindow("HOP", 10 * MINUTE_US, 10 * MINUTE_US),
    OracleWindow("CUMULATE", 60 * MINUTE_US, 10 * MINUTE_US),
    OracleWindow("CUMULATE", 60 * MINUTE_US, 5 * MINUTE_US, 17 * MINUTE_US),
    OracleWindow("CUMULATE", 60 * MINUTE_US, 60 * MINUTE_US, -90 * MINUTE_US),
]

# sqlwin's aggregate, and DuckDB's where the spelling differs
AGGREGATES = [
    ("COUNT(*)", None),
    ("COUNT(i)", None),
    ("SUM(i)", None),
    ("SUM(small)", None),
    ("SUM(d)", None),
    ("SUM(m)", None),
    ("MIN(i)", None),
    ("MAX(d)", None),
    ("MIN(d)", None),
    ("MIN(s)", None),
    ("MAX(s)", None),
    ("MAX(m)", None),
    ("MIN(day)", None),
    ("MAX(flag)", None),
    ("MAX(ts)", None),
    ("AVG(i)", None),
    ("AVG(d)", None),
    ("AVG(m)", "CAST(AVG(m) AS DECIMAL(20, 6))"),
    ("VAR_POP(d)", None),
    ("VAR_SAMP(i)", None),
    ("STDDEV(d)", "STDDEV_SAMP(d)"),
    ("STDDEV_POP(i)", None),
    ("MEDIAN(small)", None),
    ("MEDIAN_ABS_DEV(i)", "mad(i)"),
    ("MEDIAN_ABS_DEV(m) FILTER (WHERE flag)", "mad(CAST(m AS DOUBLE)) FILTER (WHERE flag)"),
    ("BOOL_AND(flag)", None),
    ("BOOL_OR(flag)", None),
    ("BIT_AND(i)", None),
    ("BIT_OR(small)", None),
    ("BIT_XOR(i)", None),
    ("COUNT_IF(i > 0)", "COUNT(*) FILTER (WHERE i > 0)"),
    ("FIRST_VALUE(i)", "first(i ORDER BY ts) FILTER (WHERE i IS NOT NULL)"),
    ("LAST_VALUE(s)", "last(s ORDER BY ts) FILTER (WHERE s IS NOT NULL)"),
    ("FIRST_VALUE(i) RESPECT NULLS", "first(i ORDER BY ts)"),
    ("LAST_VALUE(s, false)", "last(s ORDER BY ts)"),
    ("LAST(s)", "last(s ORDER BY ts)"),
    (
        "FIRST_VALUE(s) IGNORE NULLS",
        "first(s ORDER BY ts) FILTER (WHERE s IS NOT NULL)",
    ),
    (
        "MIN_BY(s, i)",
        "first(s ORDER BY i, s NULLS FIRST) FILTER (WHERE i IS NOT NULL)",
    ),
    (
        "MAX_BY(i, s)",
        "last(i ORDER BY s, i NULLS FIRST) FILTER (WHERE s IS NOT NULL)",
    ),
    ("LISTAGG(s)", "string_agg(s, ',' ORDER BY ts)"),
    (
        "LISTAGG(s, ' | ') FILTER (WHERE flag)",
        "string_agg(s, ' | ' ORDER BY ts) FILTER (WHERE flag)",
    ),
    ("STRING_AGG(s)", "string_agg(s, '' ORDER BY ts)"),
    ("SUM(i) FILTER (WHERE flag)", None),
    ("COUNT(*) FILTER (WHERE d > 0 AND s <> 'b')", None),
    ("AVG(i + small) FILTER (WHERE i % 2 = 0)", None),
    ("COUNT(DISTINCT i)", None),
    ("SUM(DISTINCT i)", None),
    ("AVG(DISTINCT i)", None),
    ("COUNT(DISTINCT s)", None),
    ("COUNT(DISTINCT d)", None),
    ("SUM(DISTINCT d)", None),
    ("AVG(DISTINCT m)", "CAST(AVG(DISTINCT m) AS DECIMAL(20, 6))"),
    ("SUM(DISTINCT m)", None),
    ("COUNT(DISTINCT f)", "COUNT(DISTINCT CASE WHEN f = 0 THEN 0.0 ELSE f END)"),
    ("SUM(DISTINCT f)", "SUM(DISTINCT CASE WHEN f = 0 THEN 0.0 ELSE f END)"),
    ("COUNT(DISTINCT small) FILTER (WHERE flag)", None),
    (
        "COUNT(DISTINCT s, day)",
        "COUNT(DISTINCT (s, day)) FILTER (WHERE s IS NOT NULL AND day IS NOT NULL)",
    ),
]
if not has(TEXT_AGGREGATES):
    AGGREGATES = [(call, other) for call, other in AGGREGATES if "AGG(s" not in call]

KEY_SHAPES: list[tuple[str, ...]] = [
    (),
    ("k",),
    ("s", "k"),
    ("m", "day", "flag"),
    ("f", "instant"),
    ("k % 2", "s || '!'"),
]


def random_rows(seed: int, n_rows: int = 400) -> pa.Table:
    """Return rows around 1970 and later, with NULLs in all columns and ties in keys and values
    only.
    """
    rng = np.random.default_rng(seed)

    def some_null(values: Sequence[Any], share: float = 0.1) -> list[Any]:
        return [
            None if hole else v for v, hole in zip(values, rng.random(n_rows) < share, strict=True)
        ]

    starts = rng.choice([-3 * 3_600_000_000, 0, 1_700_000_000_000_000], n_rows)
    ts = starts + rng.choice(3 * 3_600_000_000, n_rows, replace=False)
    doubles = rng.normal(0, 100, n_rows).round(3).tolist()
    floats = rng.choice([0.0, -0.0, 1.5, float("nan"), float("inf")], n_rows).tolist()
    return pa.table(
        {
            "ts": pa.array(some_null(ts.tolist(), 0.03), pa.timestamp("us")),
            "k": pa.array(some_null(rng.integers(0, 4, n_rows).tolist()), pa.int32()),
            "s": pa.array(some_null(rng.choice(["a", "b", "", "häß", "日本"], n_rows).tolist())),
            "i": pa.array(some_null(rng.integers(-50, 50, n_rows).tolist()), pa.int64()),
            "small": pa.array(some_null(rng.integers(0, 99, n_rows).tolist()), pa.int16()),
            "d": pa.array(some_null(doubles), pa.float64()),
            "f": pa.array(some_null(floats), pa.float64()),
            "m": pa.array(some_null([Decimal(int(v)) / 4 for v in rng.integers(-9, 9, n_rows)]),
                          pa.decimal128(12, 2)),
            "day": pa.array(some_null(rng.integers(-2, 2, n_rows).tolist()), pa.int32()).cast(
                pa.date32()
            ),
            "instant": pa.array(some_null((rng.integers(0, 3, n_rows) * 1_000_001).tolist()), pa.timestamp("us", "UTC")),
            "flag": pa.array(some_null((rng.random(n_rows) < 0.5).tolist()), pa.bool_()),
        }
    )  # fmt: skip


def register(session: Any, data: pa.Table, directory: Path) -> None:
    """Register the rows as the table `data`, through Parquet, which keeps timestamps without zone."""
    pq.write_table(data, directory / "data.parquet")
    session.register("data", session.spark.read.parquet(str(directory / "data.parquet")))


def query_of(window: OracleWindow, keys: Sequence[str], calls: Sequence[str]) -> str:
    key_list = "".join(f"{key} AS k{i}, " for i, key in enumerate(keys))
    groups = "".join(f"{key}, " for key in keys)
    return f"""
        SELECT {key_list} window_start, window_end, {", ".join(calls)}
        FROM {window.call} GROUP BY {groups} window_start, window_end
    """


def run(session: Any, window: OracleWindow, keys: Sequence[str], calls: Sequence[str]) -> list[Any]:
    table = to_arrow(session.sql(query_of(window, keys, calls)))
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name in ("window_start", "window_end"):
            column = column.cast(pa.int64())
        columns.append(column.to_pylist())
    return list(zip(*columns, strict=True))


@pytest.mark.variants(1)
@pytest.mark.parametrize("window", among(WINDOWS, slow=WINDOWS[::2]), ids=str)
def test_all_aggregates_equal_brute_force(
    session: Any, window: OracleWindow, tmp_path: Path
) -> None:
    data = random_rows(seed=WINDOWS.index(window))
    register(session, data, tmp_path)
    calls = [call for call, _ in AGGREGATES]
    expected_rows = expected(data, window, ["k"], [other or call for call, other in AGGREGATES])
    same_rows(run(session, window, ["k"], calls), expected_rows)


@pytest.mark.variants(1)
@pytest.mark.parametrize("keys", KEY_SHAPES, ids=lambda keys: "-".join(keys) or "none")
@pytest.mark.parametrize(
    "window", among([WINDOWS[1], WINDOWS[5], WINDOWS[9]], long=[WINDOWS[5], WINDOWS[9]]), ids=str
)
def test_all_key_shapes_equal_brute_force(
    session: Any, window: OracleWindow, keys: tuple[str, ...], tmp_path: Path
) -> None:
    data = random_rows(seed=100 + len(keys))
    register(session, data, tmp_path)
    calls = ["COUNT(*)", "SUM(i)", "MIN(s)"]
    # NaN and -0.0 as keys form one group each, as in Spark
    spelled = ["CASE WHEN f = 0 THEN 0.0 ELSE f END" if key == "f" else key for key in keys]
    same_rows(run(session, window, keys, calls), expected(data, window, spelled, calls))


@pytest.mark.long
@pytest.mark.parametrize("window", among(WINDOWS, slow=WINDOWS[2:]), ids=str)
def test_one_phase_and_two_phases_agree(session: Any, window: OracleWindow, tmp_path: Path) -> None:
    data = random_rows(seed=7)
    register(session, data, tmp_path)
    calls = [call for call, _ in AGGREGATES]
    query = query_of(window, ["k"], calls)
    assert "GlobalWindowAggregate" in session.explain(query)
    two_phases = run(session, window, ["k"], calls)
    session.execute("SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE'")
    try:
        assert "GlobalWindowAggregate" not in session.explain(query)
        same_rows(run(session, window, ["k"], calls), two_phases)
    finally:
        session.execute("RESET 'table.optimizer.agg-phase-strategy'")


@pytest.mark.variants(1)
@pytest.mark.parametrize("window", among(WINDOWS[1::2], slow=WINDOWS[1::4]), ids=str)
@pytest.mark.parametrize(
    "keys", among([("k",), ("s", "day")], long=[("s", "day")]), ids=lambda keys: "-".join(keys)
)
def test_windows_merged_in_the_scan_equal_brute_force(
    session: Any, window: OracleWindow, keys: tuple[str, ...], tmp_path: Path
) -> None:
    data = random_rows(seed=31)
    pq.write_table(data, tmp_path / "data.parquet", row_group_size=90)
    session.execute(f"""
        CREATE OR REPLACE TABLE data WITH (
          'connector' = 'filesystem', 'format' = 'parquet', 'path' = '{tmp_path}/data.parquet')
    """)
    calls = [call for call, _ in AGGREGATES]
    expected_rows = expected(data, window, keys, [other or call for call, other in AGGREGATES])
    same_rows(run(session, window, keys, calls), expected_rows)
    plan = session.explain(f"SELECT {', '.join(calls)} FROM {window.call} GROUP BY window_end")
    assert "ArrowScanLocalWindowAggregate" in plan
