"""Grouping, ranking and joining whole windows, compared with plain Python."""

from __future__ import annotations

import math
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.arrow.expressions import to_arrow_expression
from runtime.compute.kernels.ranks import order_codes, rank_rows, ranked_rows
from runtime.local.stage import BufferPlan
from runtime.plan.arrow_rows import JoinedRows, RankedRows
from runtime.spec.aggregates import Merge, MergeOp, WindowAggregation
from runtime.spec.expressions import RankOrder
from runtime.spec.stream import KEEP, LATE_ROW, SOURCE, WATERMARK
from runtime.spec.table import Column
from runtime.streaming.operators.whole_windows import (
    IS_LEFT,
    evaluate_windows,
    join_sides,
    regroup_rows,
)
from runtime.windows.tumble import Tumble
from sqlwin.parser.parser import parse_query

SMALL = st.one_of(st.none(), st.integers(-3, 3))
FLOATS = st.one_of(st.none(), st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 2.0, math.nan]))
ROWS = st.lists(st.tuples(st.integers(0, 2), SMALL, FLOATS), min_size=1, max_size=30)


def place(value: Any, descending: bool, nulls_first: bool) -> tuple[int, float, float]:
    """Return a sort key in the order of the column; NaN is the largest number."""
    if value is None:
        return (0 if nulls_first else 2, 0.0, 0.0)
    number = (1.0, 0.0) if math.isnan(value) else (0.0, float(value) + 0.0)
    sign = -1.0 if descending else 1.0
    return (1, sign * number[0], sign * number[1])


@given(ROWS, st.booleans(), st.booleans(), st.sampled_from(["ROW_NUMBER", "RANK", "DENSE_RANK"]))
def test_ranks_equal_those_of_sorted_rows(
    rows: list[tuple[int, Any, Any]], descending: bool, nulls_first: bool, function: str
) -> None:
    window, number, real = (list(column) for column in zip(*rows, strict=True))
    order = [
        order_codes(pa.array(real, pa.float64()), descending, nulls_first),
        order_codes(pa.array(number, pa.int64()), False, True),
    ]
    result, ranks = ranked_rows([pa.array(window)], order, len(rows), function, (2, 4))

    def key(i: int) -> Any:
        return place(real[i], descending, nulls_first), place(number[i], False, True)

    expected = []
    for item in sorted(set(window)):
        members = sorted((i for i in range(len(rows)) if window[i] == item), key=key)
        distinct = sorted({key(i) for i in members})
        for n, i in enumerate(members):
            rank = {
                "ROW_NUMBER": n + 1,
                "RANK": 1 + sum(key(j) < key(i) for j in members),
                "DENSE_RANK": 1 + distinct.index(key(i)),
            }[function]
            if 2 <= rank <= 4:
                expected.append((i, rank))
    assert list(zip(result.tolist(), ranks.tolist(), strict=True)) == expected


def test_strings_booleans_and_times_rank_too() -> None:
    for values in (["b", None, "a"], [True, None, False]):
        assert order_codes(pa.array(values), False, True).tolist() == [2, 0, 1]
    assert order_codes(pa.array([5, None, 4], pa.timestamp("us")), True, False).tolist() == [
        1,
        3,
        2,
    ]


SIDE = st.lists(st.tuples(st.integers(0, 1), SMALL), max_size=12)


@given(SIDE, SIDE, st.sampled_from(["Inner", "LeftOuter", "RightOuter", "FullOuter", "LeftSemi", "LeftAnti"]))  # fmt: skip
def test_joins_pair_the_rows_of_equal_windows_and_keys(
    left: list[tuple[int, Any]], right: list[tuple[int, Any]], join_type: str
) -> None:
    n_left, n_right = len(left), len(right)
    table = pa.table(
        {
            IS_LEFT: pa.array([True] * n_left + [False] * n_right, pa.bool_()),
            "w": pa.array([w for w, _ in left] + [None] * n_right, pa.int64()),
            "k": pa.array([k for _, k in left] + [None] * n_right, pa.int64()),
            "w1": pa.array([None] * n_left + [w for w, _ in right], pa.int64()),
            "k1": pa.array([None] * n_left + [k for _, k in right], pa.int32()),
        }
    )
    step = JoinedRows(None, None, join_type, (("w", "w1"), ("k", "k1")))  # type: ignore[arg-type]
    result = join_sides(table, step, ["w1", "k1"])
    pairs = [(a, b) for a in left for b in right if a == b and a[1] is not None]
    lone_left = [a for a in left if a[1] is None or a not in right]
    lone_right = [b for b in right if b[1] is None or b not in left]
    none = (None, None)
    expected: list[Any] = [(*a, *b) for a, b in pairs]
    if join_type in ("LeftOuter", "FullOuter"):
        expected += [(*a, *none) for a in lone_left]
    if join_type in ("RightOuter", "FullOuter"):
        expected += [(*none, *b) for b in lone_right]
    if join_type == "LeftSemi":
        expected = [a for a in left if a not in lone_left]
    if join_type == "LeftAnti":
        expected = list(lone_left)
    names = ["w", "k"] if join_type in ("LeftSemi", "LeftAnti") else ["w", "k", "w1", "k1"]
    assert sorted(zip(*(result.column(n).to_pylist() for n in names), strict=True), key=str) == (
        sorted(expected, key=str)
    )


VALUES = st.lists(st.tuples(st.integers(0, 1), SMALL), max_size=12)


@given(VALUES, VALUES, st.sampled_from(["LeftOuter", "RightOuter", "FullOuter", "LeftSemi", "LeftAnti"]), st.sampled_from(["a < b", "a = b OR (a = b) IS NULL", "a > 0", "1 = 1"]))  # fmt: skip
def test_outer_joins_keep_rows_without_a_match(
    left: list[tuple[int, Any]], right: list[tuple[int, Any]], join_type: str, condition: str
) -> None:
    n_left, n_right = len(left), len(right)
    table = pa.table(
        {
            IS_LEFT: pa.array([True] * n_left + [False] * n_right, pa.bool_()),
            "w": pa.array([w for w, _ in left] + [None] * n_right, pa.int64()),
            "a": pa.array([a for _, a in left] + [None] * n_right, pa.int64()),
            "w1": pa.array([None] * n_left + [w for w, _ in right], pa.int64()),
            "b": pa.array([None] * n_left + [b for _, b in right], pa.int64()),
        }
    )
    schema = tuple(Column(name, "bigint", True) for name in ("w", "a", "w1", "b"))
    tree = parse_query(f"SELECT * FROM t WHERE {condition}").args["where"].this
    holds = to_arrow_expression(tree, schema, "UTC")
    step = JoinedRows(None, None, join_type, (("w", "w1"),), holds)  # type: ignore[arg-type]
    result = join_sides(table, step, ["w1", "b"])
    is_semi = join_type in ("LeftSemi", "LeftAnti")
    names = ["w", "a"] if is_semi else ["w", "a", "w1", "b"]
    kind = {
        "LeftOuter": "LEFT JOIN",
        "RightOuter": "RIGHT JOIN",
        "FullOuter": "FULL JOIN",
        "LeftSemi": "SEMI JOIN",
        "LeftAnti": "ANTI JOIN",
    }[join_type]
    rows = table.to_pylist()
    with duckdb.connect() as con:
        con.execute("CREATE TABLE l (w BIGINT, a BIGINT); CREATE TABLE r (w1 BIGINT, b BIGINT)")
        for row in rows:
            name, values = (
                ("l", (row["w"], row["a"])) if row[IS_LEFT] else ("r", (row["w1"], row["b"]))
            )
            con.execute(f"INSERT INTO {name} VALUES (?, ?)", values)
        sql = f"SELECT {', '.join(names)} FROM l {kind} r ON w = w1 AND ({condition})"
        expected = con.execute(sql).fetchall()
    assert sorted(zip(*(result.column(n).to_pylist() for n in names), strict=True), key=str) == (
        sorted(expected, key=str)
    )


@pytest.mark.parametrize("join_type", ["Inner", "FullOuter", "LeftSemi"])
def test_columns_that_are_never_null_are_joined(join_type: str) -> None:
    # Spark declares its literals and hashes as NOT NULL
    not_null = [pa.field(IS_LEFT, pa.bool_(), False), pa.field("$window", pa.int64(), False)]
    schema = pa.schema([*not_null, ("w", pa.int64()), ("w1", pa.int64())])
    table = pa.table([[True, False], [5, 5], [1, None], [None, 1]], schema=schema)
    step = JoinedRows(None, None, join_type, (("w", "w1"),))  # type: ignore[arg-type]
    assert join_sides(table, step, ["w1"]).column("w").to_pylist() == [1]


def test_rows_of_a_window_are_grouped_again() -> None:
    plan = BufferPlan(
        Tumble(3_600_000_000),
        ("window_end", "k"),
        "$slice_end",
        (
            Merge(("s",), MergeOp.SUM),
            Merge(("m",), MergeOp.MAX),
        ),
        (("v",), ("v",)),
        (None, "if"),
        pa.schema(
            [
                ("window_end", pa.timestamp("us")),
                ("k", pa.string()),
                ("$slice_end", pa.int64()),
                ("s", pa.int64()),
                ("m", pa.int64()),
            ]
        ),
    )
    rows = [(10, "a", 1, True), (10, None, 2, True), (20, "a", 4, None), (10, "a", 8, False)]
    ends, keys, values, ifs = zip(*rows, strict=True)
    table = pa.table(
        {
            "window_end": pa.array(ends, pa.timestamp("us")),
            "k": pa.array(keys),
            "v": pa.array(values),
            "if": pa.array(ifs),
        }
    )
    aggregation = WindowAggregation(plan.window, plan.keys, "$slice_end", plan.accumulators)
    result = regroup_rows(table, plan, aggregation).select(["k", "s", "m"]).to_pylist()
    assert sorted(map(str, (tuple(row.values()) for row in result))) == [
        "('a', 4, None)",
        "('a', 9, 1)",
        "(None, 2, 2)",
    ]


@pytest.mark.parametrize("n_kept", [0, 3])
def test_rows_that_tell_a_watermark_pass(n_kept: int) -> None:
    step = RankedRows(None, "ROW_NUMBER", (1, 2), ("w",), (RankOrder("v", True, False),), "rn")  # type: ignore[arg-type]
    batch = pa.RecordBatch.from_pydict(
        {
            "w": pa.array([None, *[7] * n_kept], pa.int64()),
            "v": pa.array([None, *range(n_kept)], pa.int64()),
            KEEP: [False] + [True] * n_kept,
            SOURCE: pa.array([0] * (n_kept + 1), pa.int32()),
            WATERMARK: pa.array([99, *[None] * n_kept], pa.int64()),
        }
    )
    schema = pa.schema([("w", pa.int64()), ("v", pa.int64()), ("rn", pa.int32())])
    result = evaluate_windows([batch], schema, lambda table: rank_rows(table, step))
    rows = pa.Table.from_batches(list(result)).to_pylist()
    assert [row[WATERMARK] for row in rows if not row[KEEP]] == [99]
    assert [(row["v"], row["rn"]) for row in rows if row[KEEP]] == [(2, 1), (1, 2)][:n_kept]


def test_late_rows_pass_without_being_counted() -> None:
    late = pa.struct([("v", pa.int64())])
    table = pa.table(
        {
            "k": pa.array(["a", "b", None, None]),
            LATE_ROW: pa.array([None, None, {"v": 7}, None], late),
            KEEP: [True, True, False, False],
            SOURCE: pa.array([0, 0, 0, 0], pa.int32()),
            WATERMARK: pa.array([None, None, 26, 45], pa.int64()),
        }
    )
    tables: list[pa.Table] = []

    def evaluate(rows: pa.Table) -> pa.Table:
        tables.append(rows)
        return pa.table({"n": [rows.num_rows]})

    schema = pa.schema([("n", pa.int64()), (LATE_ROW, late)])
    result = pa.Table.from_batches(list(evaluate_windows(table.to_batches(), schema, evaluate)))
    assert result.to_pylist() == [
        {"n": None, LATE_ROW: {"v": 7}, KEEP: False, SOURCE: 0, WATERMARK: 26},
        {"n": None, LATE_ROW: None, KEEP: False, SOURCE: 0, WATERMARK: 45},
        {"n": 2, LATE_ROW: None, KEEP: True, SOURCE: 0, WATERMARK: None},
    ]
    assert [rows.column_names for rows in tables] == [["k", KEEP, SOURCE, WATERMARK]]
