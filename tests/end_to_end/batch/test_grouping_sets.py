"""GROUPING SETS, CUBE and ROLLUP over windows, compared with brute force in DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runtime.spark.versions.frames import to_arrow
from tests.end_to_end.batch.test_windows_against_oracle import random_rows, register
from tests.marks import among
from tests.oracle import MINUTE_US, OracleWindow, expected_grouping_sets, same_rows

WINDOWS = [
    OracleWindow("TUMBLE", 30 * MINUTE_US),
    OracleWindow("HOP", 25 * MINUTE_US, 10 * MINUTE_US),
    OracleWindow("CUMULATE", 60 * MINUTE_US, 20 * MINUTE_US),
]

# The GROUP BY in addition to the windows, and its grouping sets in DuckDB's syntax
GROUPINGS = {
    "GROUPING SETS ((k), ())": "((k), ())",
    "ROLLUP (k, s)": "((k, s), (k), ())",
    "CUBE (k, s)": "((k, s), (k), (s), ())",
    "k, GROUPING SETS ((s), (flag, s), ())": "((k, s), (k, flag, s), (k))",
    "ROLLUP (k, (s, flag))": "((k, s, flag), (k), ())",
}

CALLS = ["COUNT(*)", "SUM(i)", "MAX(k)", "COUNT(DISTINCT s)", "AVG(d) FILTER (WHERE flag)"]


@pytest.mark.variants(1)
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
        table = to_arrow(
            session.sql(f"""
            SELECT {", ".join(keys)}, window_start, window_end, {", ".join(bits + CALLS)}
            FROM {window.call} GROUP BY window_start, window_end, {clause}
        """)
        )
        expected = expected_grouping_sets(data, window, keys, sets, bits + CALLS)
        same_rows(rows_of(table), expected)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        whole = column.cast(pa.int64()) if name in ("window_start", "window_end") else column
        columns.append(whole.to_pylist())
    return list(zip(*columns, strict=True))
