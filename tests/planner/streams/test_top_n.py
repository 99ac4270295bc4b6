"""Which Top-N queries of windows a stream supports, and the rows that it stores for them."""

from __future__ import annotations

import pytest

from planner.lowering.stream.steps import lower_stream
from planner.nodes.logical import Node, WindowRank, WindowRows
from planner.optimizer import Options
from planner.plan import plan_query
from runtime.errors import AnalysisError
from sqlwin.parser.parser import parse_query
from tests.planner.test_growth import Catalog

TYPES = {"ts": "timestamp_ntz", "k": "string", "v": "bigint", "st": "struct<b:int>", "x": "bigint"}
WINDOWS = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
RANK = "ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v DESC) AS rn"


def plan_stream(sql: str) -> Node:
    """Return the physical plan of a query that runs on a stream."""
    catalog = Catalog(is_stream=True, types=TYPES)
    plan = plan_query(parse_query(sql), sql, Options(catalog))
    refusals = tuple(e.refusal for e in plan.trace.entries if e.refusal)
    lower_stream(plan.physical, catalog, "UTC", refusals=refusals, notes=plan.notes, sql=sql)
    return plan.physical


@pytest.mark.parametrize(
    "ranked",
    [
        f"SELECT *, {RANK} FROM {WINDOWS}",
        f"SELECT k, v, st, window_start, window_end, {RANK} FROM {WINDOWS}",
        f"SELECT k, v, window_start, window_end, {RANK} "
        f"FROM (SELECT k, v, st, window_start, window_end, window_time FROM {WINDOWS})",
        f"SELECT k, v, st, window_start, window_end, {RANK} FROM (SELECT * FROM {WINDOWS} WHERE v > 2)",
        f"SELECT *, {RANK} FROM (SELECT k, v, st AS whole, window_start, window_end FROM {WINDOWS})",
    ],
)
def test_an_unused_struct_is_not_buffered(ranked: str) -> None:
    plan = plan_stream(f"SELECT k, rn FROM ({ranked}) WHERE rn <= 2")
    (rows,) = plan.find_all(WindowRows)
    assert {column.name for column in rows.schema} == {"k", "v", "window_start", "window_end"}


def test_a_struct_in_the_result_is_refused() -> None:
    with pytest.raises(AnalysisError, match="column `st` of type ROW"):
        plan_stream(
            f"SELECT st, rn FROM (SELECT st, v, window_start, window_end, {RANK} FROM {WINDOWS}) WHERE rn <= 2"
        )


@pytest.mark.parametrize(
    ("condition", "ranks"),
    [
        ("rn <= 3", (1, 3)),
        ("NOT rn > 2", (1, 2)),
        ("NOT (rn > 2 OR rn < 2)", (2, 2)),
        ("rn <= 1 OR rn = 3", (1, 3)),
        ("rn IN (4, 2) AND v > 5", (2, 4)),
        ("NOT rn NOT IN (1, 2)", (1, 2)),
        ("rn <> 1 AND rn < 4", (2, 3)),
        ("rn = 1 OR (rn < 5 AND k = 'a')", (1, 4)),
        ("4 >= rn AND rn BETWEEN 2 AND 9", (2, 4)),
    ],
)
def test_conditions_that_bound_the_rank_choose_a_top_n(
    condition: str, ranks: tuple[int, int]
) -> None:
    plan = plan_stream(f"SELECT k, v, rn FROM (SELECT *, {RANK} FROM {WINDOWS}) WHERE {condition}")
    (rank,) = plan.find_all(WindowRank)
    assert (rank.rank_start, rank.rank_end) == ranks


@pytest.mark.parametrize(
    "condition", ["rn > 2", "NOT rn <= 2", "rn <= 2 OR k = 'a'", "NOT (rn > 2 AND k = 'a')"]
)
def test_conditions_without_a_last_rank_do_not(condition: str) -> None:
    with pytest.raises(AnalysisError, match="OVER functions require all rows"):
        plan_stream(f"SELECT k, v, rn FROM (SELECT *, {RANK} FROM {WINDOWS}) WHERE {condition}")


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        (f"SELECT k, {RANK} FROM {WINDOWS} QUALIFY rn <> 2", "rn"),
        (f"SELECT * FROM (SELECT k, {RANK} FROM {WINDOWS}) WHERE rn <> 2", "rn"),
        (f"SELECT k FROM {WINDOWS} QUALIFY {RANK.removesuffix(' AS rn')} <> 2", "ROW_NUMBER"),
    ],
)
def test_a_ranking_without_a_limit_is_refused_by_a_name_of_the_query(sql: str, name: str) -> None:
    with pytest.raises(AnalysisError) as error:
        plan_stream(sql)
    assert error.value.hint is not None
    assert error.value.hint.startswith(f"no condition limits {name}: rank with PARTITION BY")
