"""GROUPING SETS, CUBE and ROLLUP over windows, compared with brute force in DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.end_to_end.batch.test_windows_against_oracle import random_rows, register
from tests.marks import among
from tests.oracle import MINUTE_US, OracleWindow, expected_grouping_sets, same_rows

WINDOWS = [
    OracleWindow("TUMBLE", 30 * MINUTE_US),
    OracleWindow("HOP", 25 * MINUTE_US, 10 * MINUTE_US),
    OracleWindow("CUMULATE", 60 * MINUTE_US, 20 * MINUTE_US),
]

# The GROUP BY beside the windows, and its sets of keys as DuckDB takes them
GROUPINGS = {
    "GROUPING SETS ((k), ())": "((k), ())",
    "ROLLUP (k, s)": "((k, s), (k), ())",
    "CUBE (k, s)": "((k, s), (k), (s), ())",
    "k, GROUPING SETS ((s), (flag, s), ())": "((k, s), (k, flag, s), (k))",
    "ROLLUP (k, (s, flag))": "((k, s, flag), (k), ())",
}

CALLS = ["COUNT(*)", "SUM(i)", "MAX(k)", "COUNT(DISTINCT s)", "AVG(d) FILTER (WHERE flag)"]


@pytest.mark.parametrize(
    "clause",
    among(GROUPINGS, slow=["GROUPING SETS ((k), ())", "CUBE (k, s)", "ROLLUP (k, (s, flag))"]),
)
def test_grouping_sets_over_windows_equal_brute_force(
    session: Any, clause: str, tmp_path: Path
) -> None:
    sets = GROUPINGS[clause]
    data = random_rows(seed=11)
    register(session, data, tmp_path)
    keys = [key for key in ("k", "s", "flag") if key in sets]
    bits = [f"GROUPING({key})" for key in keys]
    for window in WINDOWS:
        table = session.sql(f"""
            SELECT {", ".join(keys)}, window_start, window_end, {", ".join(bits + CALLS)}
            FROM {window.call} GROUP BY window_start, window_end, {clause}
        """).toArrow()
        wanted = expected_grouping_sets(data, window, keys, sets, bits + CALLS)
        same_rows(rows_of(table), wanted)


def test_an_id_of_a_grouping_may_be_asked_of_any_keys(session: Any, tmp_path: Path) -> None:
    data = random_rows(seed=12)
    register(session, data, tmp_path)
    table = session.sql(f"""
        SELECT GROUPING_ID(s, k) AS both, GROUPING_ID(k) AS one, COUNT(*) > 0
        FROM {WINDOWS[0].call} GROUP BY window_start, window_end, CUBE (k, s)
    """).toArrow()
    seen = {tuple(row[:2]) for row in rows_of(table)}
    assert seen == {(0, 0), (1, 1), (2, 0), (3, 1)}


def test_a_grouping_without_its_window_is_an_aggregate_of_sparks(
    session: Any, tmp_path: Path
) -> None:
    data = random_rows(seed=13)
    register(session, data, tmp_path)
    query = f"""
        SELECT window_end, k, COUNT(*) FROM {WINDOWS[0].call} GROUP BY ROLLUP (window_end, k)
    """
    assert "there is a grouping without window_end" in session.explain(query)
    totals = [row[2] for row in rows_of(session.sql(query).toArrow()) if row[0] is None]
    assert totals == [data.num_rows - data["ts"].null_count]


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        whole = column.cast(pa.int64()) if name in ("window_start", "window_end") else column
        columns.append(whole.to_pylist())
    return list(zip(*columns, strict=True))
