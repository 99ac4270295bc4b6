"""Which scripts start Java before they are planned."""

from __future__ import annotations

import pytest

from planner.scalars.functions import FUNCTIONS
from sqlwin.cli.java import _COMPUTED, may_need_no_spark
from sqlwin.console.scripts import Script

OPTIONS = {"master": None, "remote": None, "settings": []}


def may_wait(text: str, **options: object) -> bool:
    return may_need_no_spark([Script(text, None)], OPTIONS | options)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "USE default; SHOW FUNCTIONS; EXPLAIN ANALYZE SELECT 1",
        "SELECT COUNT(*) AS n FROM 'a.parquet' WHERE k IN (1, 2) -- upper(x)",
        "CREATE TABLE t (x DECIMAL(3, 1)) WITH ('path' = 'a(b)'); SHOW TABLES; DESCRIBE t",
        "CREATE TABLE t WITH ('path' = 'b') AS SELECT k FROM 'a.parquet'; INSERT INTO t SELECT 1",
        "SELECT TUMBLE_START(ts, INTERVAL '1' HOUR) AS s FROM t "
        "GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)",
        "SELECT * FROM (VALUES (1)) AS v(upper) WHERE 'length(x)' = 'a'",
        "SELECT SUM(x) AS s FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
        "GROUP BY window_start, window_end",
    ],
)
def test_java_waits_for_scripts_that_this_process_may_answer(text: str) -> None:
    assert may_wait(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT INITCAP(k) FROM 'a.parquet'",
        "SELECT * FROM a JOIN b ON a.k = b.k",
        "INSERT INTO t SELECT * FROM a JOIN b ON a.k = b.k",
        "CREATE TABLE t WITH ('path' = 'b') AS SELECT SHA2(k, 256) AS s FROM 'a.parquet'",
        "CREATE TABLE t WITH ('connector' = 'kafka')",
        "CREATE TABLE IF NOT EXISTS a.`t` USING parquet AS SELECT 1 AS a",
        "SELECT 1; SHOW DATABASES",
        "ANALYZE TABLE t COMPUTE STATISTICS",
    ],
)
def test_java_starts_at_once_for_other_scripts(text: str) -> None:
    assert not may_wait(text)


def test_java_starts_at_once_on_a_chosen_master() -> None:
    assert not may_wait("SELECT 1", master="local[2]")


def test_all_functions_of_this_process_are_listed() -> None:
    listed = {name.lower() for name in FUNCTIONS if name.isupper()}
    assert listed - _COMPUTED == set()
