"""Delta tables with a PRIMARY KEY: batches and streams replace rows by key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import sqlwin
from runtime.errors import SqlwinError
from tests.end_to_end.recovery.killed_stream import QUERY, readings
from tests.end_to_end.recovery.test_killed import LATE, write_input
from tests.end_to_end.sinks.killed_postgres import UPDATES

ON_TIME = f"WHERE k <> {LATE}"


def target(path: Path, key: str = "k, window_end") -> str:
    return f"""CREATE TABLE totals (
          k INT, window_end TIMESTAMP(6), n BIGINT, total BIGINT, PRIMARY KEY ({key}) NOT ENFORCED
        ) WITH ('connector' = 'delta', 'path' = '{path}')"""


def written(path: Path) -> list[tuple[Any, ...]]:
    table = DeltaTable(path).to_pyarrow_table().to_pylist()
    return sorted(tuple(row.values()) for row in table if row["k"] != LATE)


@pytest.mark.long
def test_rows_that_a_stream_corrects_are_merged_once_per_micro_batch(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    write_input(tmp_path, 5)
    path = tmp_path / "out"
    fresh_session.execute(f"{readings(tmp_path)} {target(path)};")
    query = f"{QUERY} HAVING COUNT(*) BETWEEN 10 AND 90"
    fresh_session.execute("SET 'execution.runtime-mode' = 'streaming'")
    for name, value in UPDATES.items():
        fresh_session.execute(f"SET '{name}' = '{value}'")
    fresh_session.execute(f"INSERT INTO totals {query}")
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    expected = fresh_session.sql(f"SELECT * FROM ({query}) {ON_TIME}").collect()
    assert written(path) == sorted(map(tuple, expected)) and len(expected) > 20
    merges = [v for v in DeltaTable(path).history() if v["operation"] == "MERGE"]
    assert len(merges) > 2, "several micro-batches correct rows"


def test_a_batch_replaces_rows_by_key(fresh_session: sqlwin.Session, tmp_path: Path) -> None:
    path = tmp_path / "out"
    fresh_session.execute(target(path))
    at = "TIMESTAMP '2026-01-01 00:00:00'"
    (first,) = fresh_session.execute(f"INSERT INTO totals VALUES (1, {at}, 1, 1), (2, {at}, 2, 2)")
    (second,) = fresh_session.execute(f"INSERT INTO totals VALUES (2, {at}, 5, 5), (3, {at}, 3, 3)")
    assert (first.row_count, second.row_count) == (2, 2)
    assert [row[2] for row in written(path)] == [1, 5, 3]
    with pytest.raises(SqlwinError, match=r"several rows of this INSERT have the PRIMARY KEY"):
        fresh_session.execute(f"INSERT INTO totals VALUES (1, {at}, 7, 7), (1, {at}, 8, 8)")
    with pytest.raises(SqlwinError, match="column `k` of the PRIMARY KEY is NULL"):
        fresh_session.execute(f"INSERT INTO totals VALUES (NULL, {at}, 7, 7)")
    assert [row[2] for row in written(path)] == [1, 5, 3]
    rows = f"SELECT * FROM VALUES (1, {at}, 7, 7), (1, {at}, 8, 8) AS t(k, at, n, total)"
    (ordered,) = fresh_session.execute(f"INSERT INTO totals {rows} ORDER BY n DESC")
    assert ordered.row_count == 1 and [row[2] for row in written(path)] == [7, 5, 3]
    fresh_session.execute(f"INSERT INTO totals {rows} ORDER BY n")
    assert [row[2] for row in written(path)] == [8, 5, 3]
    fresh_session.execute(f"INSERT OVERWRITE totals VALUES (9, {at}, 9, 9)")
    assert [row[2] for row in written(path)] == [9]
