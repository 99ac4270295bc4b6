"""Columns of a query that identify the rows that its stream updates."""

from __future__ import annotations

import pytest

from planner.streams.update_identity import update_identity
from tests.planner.streams.test_top_n import plan_stream

TUMBLE = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
GROUPED = "GROUP BY k, window_start, window_end"


def identity(sql: str) -> list[tuple[str, tuple[int, ...]]] | None:
    columns = update_identity(plan_stream(sql))
    return None if columns is None else [(c.name, c.positions) for c in columns]


def test_keys_and_the_window_identify_a_row() -> None:
    sql = f"SELECT window_end, COUNT(*) AS n, k FROM {TUMBLE} {GROUPED}"
    assert identity(sql) == [("k", (2,)), ("window_end", (0,))]


def test_the_start_or_the_time_of_a_window_serves_as_well_as_its_end() -> None:
    sql = f"SELECT k, window_start, window_end, COUNT(*) AS n FROM {TUMBLE} {GROUPED}"
    assert identity(sql) == [("k", (0,)), ("window_end", (1, 2))]


def test_windows_that_grow_have_the_same_start() -> None:
    cumulate = TUMBLE.replace("TUMBLE", "CUMULATE").replace(
        "'1' MINUTE", "'1' MINUTE, INTERVAL '9' MINUTE"
    )
    sql = f"SELECT k, window_start, window_end, COUNT(*) AS n FROM {cumulate} {GROUPED}"
    assert identity(sql) == [("k", (0,)), ("window_end", (2,))]


def test_columns_are_followed_through_names_conditions_and_subqueries() -> None:
    inner = f"SELECT k AS item, window_end AS until, COUNT(*) AS n FROM {TUMBLE} {GROUPED} HAVING COUNT(*) > 2"
    assert identity(f"SELECT n, until, item AS it FROM ({inner}) WHERE n < 9") == [
        ("k", (2,)), ("window_end", (1,)),
    ]  # fmt: skip
    assert identity(f"SELECT * FROM ({inner})") == [("k", (0,)), ("window_end", (1,))]


def test_a_computed_column_does_not_identify_a_row() -> None:
    sql = f"SELECT UPPER(k) AS k, window_end, COUNT(*) AS n FROM {TUMBLE} {GROUPED}"
    assert identity(sql) == [("k", ()), ("window_end", (1,))]


@pytest.mark.parametrize(
    ("text", "distinguishes"),
    [
        ("CAST({} AS STRING)", True),
        ("CAST({} AS VARCHAR)", True),
        ("DATE_FORMAT({}, 'yyyy-MM-dd HH:mm')", True),
        ("DATE_FORMAT({}, 'yyyy-MM-dd HH:mm:ss')", True),
        ("DATE_FORMAT({}, 'yyyyMMdd''T''HHmm')", True),
        # two windows of an hour, of two days, of two centuries have the same text
        ("DATE_FORMAT({}, 'yyyy-MM-dd HH')", False),
        ("DATE_FORMAT({}, 'HH:mm')", False),
        ("DATE_FORMAT({}, 'yy-MM-dd HH:mm')", False),
        ("DATE_FORMAT({}, 'yyyy-MM-dd hh:mm')", False),
        ("DATE_FORMAT({}, k)", False),
        ("SUBSTRING(CAST({} AS STRING), 1, 16)", False),
    ],
)
@pytest.mark.parametrize("bound", ["window_start", "window_end"])
def test_a_text_serves_as_well_as_the_window_if_windows_have_different_texts(
    text: str, distinguishes: bool, bound: str
) -> None:
    sql = f"SELECT k, {text.format(bound)} AS w, COUNT(*) AS n FROM {TUMBLE} {GROUPED}"
    assert identity(sql) == [("k", (0,)), ("window_end", (1,) if distinguishes else ())]


@pytest.mark.parametrize(
    ("items", "columns"),
    [
        ("k, rn", [("k", (0,)), ("v", (1,))]),
        ("k, v", [("k", (0,)), ("v", (1,))]),
        ("k, CAST(v AS INT) AS v", [("k", (0,)), ("v", ())]),
    ],
)
def test_the_rank_of_a_top_without_a_window_serves_as_well_as_its_columns(
    items: str, columns: list[tuple[str, tuple[int, ...]]]
) -> None:
    top = "SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS rn FROM t"
    assert identity(f"SELECT {items} FROM ({top}) WHERE rn <= 3") == columns


@pytest.mark.parametrize(
    ("rank", "last", "columns"),
    [
        ("ROW_NUMBER", 3, [("c", (0,)), ("item", (1, 3))]),
        ("RANK", 3, [("c", (0,)), ("item", (1,))]),
        ("ROW_NUMBER", 1, [("c", (0,))]),
    ],
)
def test_ranked_totals_are_identified_by_their_groups_or_their_rank(
    rank: str, last: int, columns: list[tuple[str, tuple[int, ...]]]
) -> None:
    totals = "SELECT k AS c, v + 0 AS item, COUNT(*) AS n FROM t GROUP BY k, v + 0"
    sql = (
        f"SELECT * FROM (SELECT *, {rank}() OVER (PARTITION BY c ORDER BY n DESC) AS rn "
        f"FROM ({totals})) WHERE rn <= {last}"
    )
    assert identity(sql) == columns


@pytest.mark.parametrize("sql", ["SELECT ts, k FROM t", "SELECT k, v + 1 AS v FROM t WHERE v > 1"])
def test_rows_without_windows_are_not_updated(sql: str) -> None:
    assert identity(sql) is None
