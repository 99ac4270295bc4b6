"""Slices rolled up from finer ones give the same windows as slices computed directly."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.nodes.slice_levels import grid_of
from runtime.compute.arrow.types import arrow_type
from runtime.compute.kernels.merge import merge_slices
from runtime.compute.kernels.roll_up import roll_up, roll_up_levels
from runtime.plan.exchange import SliceLevel
from runtime.spec.aggregates import Distinct, ListAgg, Merge, MergeOp, WindowAggregation
from runtime.spec.table import Column
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from tests.runtime.compute.aggregates import CASES, same

# Windows whose slices consist of slices of 2 that begin at 1.
WINDOWS = [
    Tumble(10, 1),
    Tumble(6, -5),
    Hop(4, 12, 3),
    Hop(6, 10, 1),
    Hop(10, 4, 5),
    Cumulate(4, 24, 1),
    Cumulate(4, 24, 1, emit_only_on_update=True),
]
LISTS = {
    "ints": pa.list_(pa.int64()),
    "texts": pa.list_(pa.string()),
    "pairs": pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())])),
}
OF_NUMBER = {"ints": int, "texts": str, "pairs": lambda n: {"a": n % 2, "b": "x" * n}}
NUMBERS = st.one_of(st.none(), st.lists(st.integers(0, 3), max_size=4))
KEY = st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([0.0, -0.0, float("nan"), 1.5]))


# Accumulators that the planner creates, without sums that could overflow.
KINDS = [case for name, case in CASES.items() if name not in ("first wide", "sum int64 huge")]


@st.composite
def fine_partials(draw):
    """Draw (partials on slices of 2 that begin at 1, their accumulators)."""
    rows = draw(st.lists(st.tuples(KEY, st.integers(-30, 30)), max_size=25))
    n_rows = len(rows)
    columns = {
        "k": pa.array([key[0] for key, _ in rows], pa.string()),
        "f": pa.array([key[1] for key, _ in rows], pa.float64()),
        "s": pa.array([2 * number + 1 for _, number in rows], pa.int64()),
    }
    accumulators = []
    for case in draw(st.lists(st.sampled_from(KINDS), max_size=3, unique_by=id)):
        values = draw(st.lists(case.values, min_size=n_rows, max_size=n_rows))
        columns |= dict(zip(case.spec.columns, case.columns(values), strict=True))
        accumulators.append(case.spec)
    for name in draw(st.sets(st.sampled_from(list(LISTS)))):
        numbers = draw(st.lists(NUMBERS, min_size=n_rows, max_size=n_rows))
        values = [ns and [OF_NUMBER[name](n) for n in ns] for ns in numbers]
        columns[name] = pa.array(values, LISTS[name])
        accumulators.append(Distinct((name,), Column(f"n {name}", "bigint"), MergeOp.COUNT))
        if name == "ints":
            accumulators.append(Distinct((name,), Column("sum", "bigint"), MergeOp.SUM))
    if draw(st.booleans()):
        # a slice contains its times
        lists = [
            numbers and [{"o": 2 * end - n % 2, "v": "x" * n} for n in numbers]
            for (_, end), numbers in zip(
                rows, draw(st.lists(NUMBERS, min_size=n_rows, max_size=n_rows)), strict=True
            )
        ]
        columns["rows"] = pa.array(lists, arrow_type("array<struct<o:bigint,v:string>>"))
        accumulators.append(ListAgg(("rows",), Column("texts", "string"), separator=","))
    return pa.table(columns), tuple(accumulators)


def windows(table, window, accumulators):
    """Return {(key, start, end): results}."""
    spec = WindowAggregation(window, ("k", "f"), "s", accumulators)
    result = {}
    for batch in merge_slices(table, spec):
        columns = [column.to_pylist() for column in batch.columns]
        for k, f, start, end, *results in zip(*columns, strict=True):
            key = (k, "NaN" if f != f else f, start, end)
            assert key not in result
            result[key] = results
    return result


def assert_same_windows(actual, expected):
    assert actual.keys() == expected.keys()
    for where, results in expected.items():
        for item, other in zip(actual[where], results, strict=True):
            assert same(item, other), where


@pytest.mark.variants(3)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@given(partials=fine_partials())
def test_windows_over_finer_slices_equal_those_over_their_own(window, partials):
    table, accumulators = partials
    ends = table.column("s").to_numpy()
    own_ends = pa.array(window.assigner().slice_end(ends - 1), pa.int64())
    on_own_slices = table.set_column(table.schema.get_field_index("s"), "s", own_ends)
    assert_same_windows(
        windows(table, window, accumulators), windows(on_own_slices, window, accumulators)
    )


@pytest.mark.variants(4)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@given(partials=fine_partials())
def test_windows_over_rolled_up_slices_equal_those_over_finer_ones(window, partials):
    table, accumulators = partials
    grid = grid_of(window)
    level = SliceLevel(grid.width_us, grid.offset_us, 0)
    rolled = roll_up(table, ["k", "f"], "s", accumulators, level)
    assert rolled.schema == table.schema
    rolled.validate(full=True)
    assert_same_windows(windows(rolled, window, accumulators), windows(table, window, accumulators))


def test_a_rolled_up_slice_has_one_row_a_key_and_each_distinct_value_once():
    table = pa.table(
        {
            "k": pa.array(["a", "a", "a", "b"]),
            "s": pa.array([1, 2, 3, 1], pa.int64()),
            "n": pa.array([1, 2, 4, 8], pa.int64()),
            "v": pa.array([[1, 2], [2, 3], None, []], pa.list_(pa.int64())),
        }
    )
    accumulators = (
        Merge(("n",), MergeOp.COUNT),
        Distinct(("v",), Column("c", "bigint"), MergeOp.COUNT),
        Distinct(("v",), Column("t", "bigint"), MergeOp.SUM),
    )
    rolled = roll_up(table, ["k"], "s", accumulators, SliceLevel(2, 0, 0))
    #   0    1    2    3    4
    #   [---------[---------[     slices of 2; those of 1 end at 1, 2 and 3
    assert rolled.sort_by([("k", "ascending"), ("s", "ascending")]).to_pylist() == [
        {"k": "a", "s": 2, "n": 3, "v": [1, 2, 3]},
        {"k": "a", "s": 4, "n": 4, "v": []},
        {"k": "b", "s": 2, "n": 8, "v": []},
    ]


def test_only_read_levels_are_returned_each_from_its_source():
    table = pa.table(
        {
            "s": pa.array([1, 2, 3, 4, 7], pa.int64()),
            "n": pa.array([1, 1, 1, 1, 1]),
            "m": pa.array([5, 6, 7, 8, 9]),
        }
    )
    levels = [
        SliceLevel(1, 0, None, is_read=False),
        SliceLevel(2, 0, 0, columns=("n",)),
        SliceLevel(4, 0, 1, columns=("m", "n")),
        SliceLevel(8, 0, 2),
    ]
    accumulators = [Merge(("n",), MergeOp.COUNT), Merge(("m",), MergeOp.MAX)]
    result = {
        number: sorted(tuple(row.values()) for row in part.to_pylist())
        for number, part in roll_up_levels(table, [], "s", accumulators, levels)
    }
    assert result == {
        1: [(2, 2), (4, 2), (8, 1)],
        2: [(4, 8, 4), (8, 9, 1)],
        3: [(8,)],
    }
