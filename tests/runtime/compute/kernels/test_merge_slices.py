"""The global stage, compared with brute force: every row in every window of the definition."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runtime.compute.kernels.merge import merge_slices, merged_schema
from runtime.compute.kernels.slices import PART_ROWS, ascending_order
from runtime.errors import ExecutionError
from runtime.spec.aggregates import Merge, MergeOp, WindowAggregation
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.session import SessionWindow
from runtime.windows.tumble import Tumble
from tests.marks import among
from tests.reference import windows_of
from tests.runtime.compute.aggregates import CASES, same

WINDOWS = [
    Tumble(10),
    Tumble(7, -3),
    Hop(5, 5),
    Hop(1, 6, 4),
    Hop(5, 20, -1),
    Hop(3, 10),
    Hop(4, 6, 9),
    Hop(10, 4, 3),
    Hop(1, 60),
    Cumulate(4, 4),
    Cumulate(3, 12, 5),
    Cumulate(3, 12, 5, emit_only_on_update=True),
]
KEYS = {
    "no key": ((), st.just(())),
    "string": ((pa.string(),), st.tuples(st.sampled_from(["a", "b", None]))),
    "double, date": (
        (pa.float64(), pa.date32()),
        st.tuples(st.sampled_from([0.0, -0.0, float("nan"), None]), st.sampled_from([None, 0])),
    ),
}


def slice_end_of(window, t):
    return int(window.assigner().slice_end(np.array([t]))[0])


def canonical(key):
    return tuple("NaN" if v != v else v for v in key)


def brute_force(window, rows, cases):
    """Return {(key, start, end): merged rows of each case}."""
    members = defaultdict(list)
    for key, t, values in rows:
        for bounds in windows_of(window, t):
            members[(canonical(key), *bounds)].append((t, values))
    if isinstance(window, Cumulate) and window.emit_only_on_update:
        members = {
            (key, start, end): inside
            for (key, start, end), inside in members.items()
            if any(t >= end - window.step_us for t, _ in inside)
        }
    return {
        where: [case.merge([values[i] for _, values in inside]) for i, case in enumerate(cases)]
        for where, inside in members.items()
    }


def aggregation(window, key_types, cases):
    specs = [case.spec for case in cases]
    return WindowAggregation(
        window, tuple(f"k{i}" for i in range(len(key_types))), "s", tuple(specs)
    )


def partials(window, key_types, rows, cases):
    """Return one partial per row, several for a key and slice, in the order of the rows."""
    columns = {}
    for i, type_ in enumerate(key_types):
        columns[f"k{i}"] = pa.array([key[i] for key, _, _ in rows], type_)
    ends = [slice_end_of(window, t) for _, t, _ in rows]
    columns["s"] = pa.array(ends, pa.int64())
    for i, case in enumerate(cases):
        arrays = case.columns([values[i] for _, _, values in rows])
        columns |= dict(zip(case.spec.columns, arrays, strict=True))
    return pa.table(columns)


def merge_windows(table, spec, key_types, cases, max_rows=65_536, part_rows=PART_ROWS):
    """Return {(key, start, end): results}, after checking types, duplicates, batch sizes, validity."""
    result = {}
    for batch in merge_slices(table, spec, max_rows, part_rows=part_rows):
        batch.validate(full=True)
        assert batch.schema == merged_schema(table.schema, spec)
        assert 0 < batch.num_rows <= max_rows
        columns = list(batch.columns)
        keys = [columns.pop(0).to_pylist() for _ in key_types]
        if pa.date32() in key_types:
            keys[-1] = [None if day is None else day.toordinal() - 719163 for day in keys[-1]]
        start, end = (columns.pop(0).cast(pa.int64()).to_pylist() for _ in range(2))
        per_case = []
        for case in cases:
            n_outputs = len(case.spec.output_columns)
            per_case.append(case.results([columns.pop(0) for _ in range(n_outputs)]))
        for row in range(batch.num_rows):
            where = (canonical(key[row] for key in keys), start[row], end[row])
            assert where not in result
            result[where] = [results[row] for results in per_case]
    return result


def assert_as_brute_force(window, key_types, rows, cases, max_rows=65_536, part_rows=PART_ROWS):
    spec = aggregation(window, key_types, cases)
    table = partials(window, key_types, rows, cases)
    result = merge_windows(table, spec, key_types, cases, max_rows, part_rows)
    expected = brute_force(window, rows, cases)
    assert set(result) == set(expected)
    wrong = [
        (w, result[w], expected[w]) for w in result if not all(map(same, result[w], expected[w]))
    ]
    assert not wrong


times = st.one_of(st.integers(-30, 30), st.integers(-300, 300))


@pytest.mark.variants(7)
@pytest.mark.parametrize("window", among(WINDOWS, slow=[Hop(1, 60)]), ids=str)
@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
@given(data=st.data())
def test_every_window_is_emitted_once_with_its_merged_rows(window, keys, data):
    key_types, key = keys
    cases = [
        CASES[n] for n in ("sum int64", "count", "sum double", "max double", "last int", "moments")
    ]
    values = st.tuples(*(case.values for case in cases))
    rows = data.draw(st.lists(st.tuples(key, times, values), max_size=12))
    assert_as_brute_force(
        window, key_types, rows, cases, data.draw(st.sampled_from([1, 7, 65_536]))
    )


@pytest.mark.variants(10)
@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
def test_every_accumulator_merges_over_overlapping_windows(name, data):
    window = data.draw(st.sampled_from([Hop(3, 10), Hop(2, 16, 1), Cumulate(3, 12), Tumble(10)]))
    key_types, key = KEYS["string"]
    rows = data.draw(st.lists(st.tuples(key, times, st.tuples(CASES[name].values)), max_size=12))
    assert_as_brute_force(window, key_types, rows, [CASES[name]])


@pytest.mark.variants(12)
@pytest.mark.parametrize(
    "window",
    [Tumble(7, -3), Hop(3, 10), Hop(10, 4, 3), Hop(1, 64), Hop(7, 60), Cumulate(3, 12, 5)],
    ids=str,
)
@pytest.mark.parametrize("density", [0.03, 0.3, 1.0])
@pytest.mark.parametrize("is_sorted", [True, False], ids=["sorted", "shuffled"])
@pytest.mark.parametrize("part_rows", [10, 1 << 17])
def test_many_keys_with_few_and_with_many_slices(window, density, is_sorted, part_rows):
    rng = np.random.default_rng(int(density * 100))
    cases = [CASES[n] for n in ("sum int64", "sum double", "min double", "max string")]
    n_times, n_keys = 40, 25
    cells = np.flatnonzero(rng.random(n_times * n_keys) < density)
    if not is_sorted:
        rng.shuffle(cells)
    names = ["x", "yy", None]
    rows = [
        (
            (str(cell // n_times),),
            int(cell % n_times) * 3 - 60,
            (
                int(rng.integers(-9, 9)),
                float(rng.integers(-9, 9)),
                None if cell % 5 else float(cell),
                names[cell % 3],
            ),
        )
        for cell in cells
    ]
    assert_as_brute_force(window, (pa.string(),), rows, cases, part_rows=part_rows)


@pytest.mark.parametrize("n_cells", [300, 40_000, 1 << 20, 1 << 40, (1 << 62) + 1])
@pytest.mark.parametrize("order", ["ascending", "a few runs", "repeated", "any"])
def test_cells_sort_for_any_range_and_order(n_cells, order):
    rng = np.random.default_rng(0)
    cells = rng.permutation(300) if n_cells == 300 else rng.integers(0, n_cells, 300)
    cells[7] = n_cells - 1 if n_cells > 300 else cells[7]
    if order == "repeated":
        cells = np.tile(cells, 3)
    elif order != "any":
        cells = np.concatenate(
            [np.sort(run) for run in np.split(cells, 1 if order == "ascending" else 10)]
        )
    result = ascending_order(cells, n_cells)
    assert (result is None) == (order == "ascending")
    sorted_cells = cells if result is None else cells[result]
    assert sorted_cells.tolist() == sorted(cells.tolist())
    assert result is None or sorted(result.tolist()) == list(range(len(cells)))


NAN, INF = float("nan"), float("inf")


@example([(0, NAN), (4, 1.0), (9, 2.0), (12, INF), (13, -INF), (30, 3.0), (31, 1e300), (50, 1.0)])
@given(st.lists(st.tuples(times, st.sampled_from([NAN, INF, -INF, 1.0, 1e300])), max_size=10))
def test_nan_infinity_and_rounding_stay_in_the_windows_that_have_them(points):
    cases = [CASES["sum double"], CASES["min double"]]
    rows = [((), t, (x, x)) for t, x in points]
    assert_as_brute_force(Hop(3, 10), (), rows, cases)


def test_a_sum_may_overflow_in_a_running_sum_but_not_in_a_window():
    # HOP(slide 10, size 20): [-10, 10) [0, 20) [10, 30) [20, 40) [30, 50)
    largest = 2**63 - 1
    case = CASES["sum int64"]
    fits = [((), t, (v,)) for t, v in [(0, largest), (20, largest), (40, largest), (45, -5)]]
    assert_as_brute_force(Hop(10, 20), (), fits, [case])
    too_much = partials(Hop(10, 20), (), [*fits, ((), 15, (1,))], [case])
    with pytest.raises(ExecutionError, match="SUM overflows BIGINT"):
        list(merge_slices(too_much, aggregation(Hop(10, 20), (), [case])))


def test_cumulate_repeats_a_step_without_rows_up_to_the_end_of_the_maximal_window():
    #  0      3      6      9      12
    #         a             b
    #  [-------------)  1
    #  [--------------------)  1   (unchanged; not with emit_only_on_update)
    #  [---------------------------)  2
    rows = [((), 3, (1,)), ((), 9, (1,))]
    case = CASES["count"]
    for update_only, ends in [(False, [6, 9, 12]), (True, [6, 12])]:
        window = Cumulate(3, 12, 0, update_only)
        result = merge_windows(
            partials(window, (), rows, [case]), aggregation(window, (), [case]), (), [case]
        )
        assert [end for _, _, end in result] == ends
        assert result[((), 0, 12)] == [2]


def test_windows_are_ordered_by_key_and_time():
    rows = [((k,), t, (1,)) for t in (50, 0, 20) for k in ("b", "a")]
    case, window = CASES["count"], Hop(10, 30)
    spec = aggregation(window, (pa.string(),), [case])
    table = partials(window, (pa.string(),), rows, [case])
    (batch,) = merge_slices(table, spec)
    order = list(
        zip(batch.column("k0").to_pylist(), batch.column("window_end").to_pylist(), strict=True)
    )
    assert order == sorted(order, key=lambda row: (row[0] == "a", row[1]))


def test_dictionary_encoded_and_chunked_partials_merge_like_plain_ones():
    rows = [
        ((k,), t, (v,))
        for k, t, v in [("a", 0, "x"), ("b", 5, None), ("a", 6, "y"), (None, -9, "")]
    ]
    case, window = CASES["max string"], Hop(5, 15)
    spec = aggregation(window, (pa.string(),), [case])
    plain = partials(window, (pa.string(),), rows, [case])
    expected = merge_windows(plain, spec, (pa.string(),), [case])
    encoded = plain
    for name in ("k0", *case.spec.columns):
        column = encoded.column(name).dictionary_encode()
        encoded = encoded.set_column(encoded.schema.get_field_index(name), name, column)
    chunked = pa.concat_tables([encoded.slice(0, 1), encoded.slice(1, 3)])
    assert merge_windows(chunked, spec, (pa.string(),), [case]) == expected


def test_no_partials_and_partials_in_gaps_make_no_windows():
    case, window = CASES["count"], Hop(10, 4)
    spec = aggregation(window, (), [case])
    table = partials(window, (), [((), 5, (1,))], [case])
    assert list(merge_slices(table, spec)) == []
    assert list(merge_slices(table.slice(0, 0), spec)) == []


def test_without_accumulators_only_windows_are_returned():
    table = pa.table({"k0": ["a", "a", "b"], "s": [10, 10, 30]})
    spec = WindowAggregation(Hop(10, 20), ("k0",), "s", ())
    (batch,) = merge_slices(table, spec)
    assert batch.column("k0").to_pylist() == ["a", "a", "b", "b"]
    assert batch.column("window_end").cast(pa.int64()).to_pylist() == [10, 20, 30, 40]


def test_sessions_have_no_slices_to_merge():
    spec = WindowAggregation(SessionWindow(5), (), "s", (Merge(("c",), MergeOp.COUNT),))
    with pytest.raises(TypeError, match="not sessions"):
        next(merge_slices(pa.table({"s": [1], "c": [1]}), spec))
