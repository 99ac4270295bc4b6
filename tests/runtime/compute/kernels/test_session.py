"""Sessions from partials, compared with a model: rows in order of time, cut at gaps."""

import math
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.compute.buffer import BufferRows, WindowBuffer
from runtime.compute.kernels.merge import merged_schema
from runtime.compute.kernels.session import chain_partials, find_sessions, merge_sessions
from runtime.errors import ExecutionError
from runtime.spec.aggregates import Distinct, Merge, MergeOp, WindowAggregation
from runtime.spec.table import Column
from runtime.windows.session import SessionWindow
from runtime.windows.times import FIRST_TIME, LAST_TIME
from runtime.windows.tumble import Tumble
from tests.runtime.compute.aggregates import CASES, same
from tests.runtime.compute.kernels.test_merge_slices import KEYS, canonical

GAP = 10
times = st.one_of(st.integers(-30, 30), st.integers(-300, 300))


def test_a_session_that_ends_after_the_maximum_timestamp_is_an_error() -> None:
    latest = np.iinfo(np.int64).max - GAP
    (fitting,) = find_sessions(*map(np.array, ([0], [5], [latest])), GAP).last_us.tolist()
    assert fitting == latest
    message = f"the window of the time {latest + 1} .* ends after the maximum TIMESTAMP"
    with pytest.raises(ExecutionError, match=message):
        find_sessions(*map(np.array, ([0, 1], [5, 6], [latest + 1, 7])), GAP)


def cut_sessions(rows, partition_of=lambda key: key):
    """Return {(partition, start, end): rows of the session}; rows are (key, time, values)."""
    partitions = defaultdict(list)
    for row in rows:
        partitions[canonical(partition_of(row[0]))].append(row)
    sessions = {}
    for partition, members in partitions.items():
        members.sort(key=lambda row: row[1])
        session = []
        for row in [*members, ((), math.inf, ())]:
            if session and row[1] - session[-1][1] > GAP:
                sessions[(partition, session[0][1], session[-1][1] + GAP)] = session
                session = []
            session.append(row)
    return sessions


def table_of(key_types, partials, cases):
    """Return a row for each (key, first time, last time, values of the cases)."""
    columns = {
        f"k{i}": pa.array([partial[0][i] for partial in partials], type_)
        for i, type_ in enumerate(key_types)
    }
    columns[FIRST_TIME] = pa.array([partial[1] for partial in partials], pa.int64())
    columns[LAST_TIME] = pa.array([partial[2] for partial in partials], pa.int64())
    for i, case in enumerate(cases):
        arrays = case.columns([partial[3][i] for partial in partials])
        columns |= dict(zip(case.spec.columns, arrays, strict=True))
    return pa.table(columns)


def merge_windows(table, spec, cases, max_rows=65_536):
    """Return {(key, start, end): results}."""
    result = {}
    for batch in merge_sessions(table, spec, max_rows):
        batch.validate(full=True)
        assert batch.schema == merged_schema(table.schema, spec)
        assert 0 < batch.num_rows <= max_rows
        columns = list(batch.columns)
        keys = [columns.pop(0) for _ in spec.keys]
        keys = [k.cast(pa.int32()) if pa.types.is_date32(k.type) else k for k in keys]
        keys = [k.to_pylist() for k in keys]
        start, end = (columns.pop(0).cast(pa.int64()).to_pylist() for _ in range(2))
        results = []
        for case in cases:
            n_outputs = len(case.spec.output_columns)
            results.append(case.results([columns.pop(0) for _ in range(n_outputs)]))
        for row in range(batch.num_rows):
            where = (canonical(key[row] for key in keys), start[row], end[row])
            assert where not in result
            result[where] = [of_case[row] for of_case in results]
    return result


def assert_same(actual, expected):
    assert set(actual) == set(expected)
    wrong = [
        (w, actual[w], expected[w]) for w in actual if not all(map(same, actual[w], expected[w]))
    ]
    assert not wrong


def test_rows_exactly_the_gap_apart_are_one_session():
    #  0        10        20 21       31
    #  a---------a----------)|a--------)
    result = find_sessions(*map(np.array, ([0, 0, 0], [0, 10, 21], [0, 10, 21])), GAP)
    assert result.first_us.tolist() == [0, 21]
    assert result.last_us.tolist() == [10, 21]


def test_a_partial_inside_another_does_not_end_the_session():
    # the row at 55 is within the gap of 50, but not of 6
    result = find_sessions(*map(np.array, ([0, 0, 0], [0, 5, 55], [50, 6, 55])), GAP)
    assert (result.first_us.tolist(), result.last_us.tolist()) == ([0], [55])


def test_partitions_far_apart_in_time_are_distinguished():
    # times and partitions together exceed 64 bits
    late = 2**61
    partition = np.arange(200).repeat(2)
    first = np.tile([late, -late], 200)
    result = find_sessions(partition, first, first, GAP)
    assert result.first_us.tolist() == [-late, late] * 200
    assert result.session_of_partial().tolist() == [n ^ 1 for n in range(400)]


@pytest.mark.variants(1)
@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
@given(data=st.data())
def test_any_split_of_rows_into_partials_gives_the_sessions_of_the_rows(keys, data):
    key_types, key = keys
    cases = [CASES[n] for n in ("sum int64", "count", "max double", "bit_xor")]
    values = st.tuples(*(case.values for case in cases))
    rows = data.draw(st.lists(st.tuples(key, times, values), max_size=20))
    pieces = defaultdict(list)
    for row in rows:
        task = data.draw(st.integers(0, 2))
        pieces[(task, canonical(row[0]), row[1] // GAP)].append(row)
    partials = [
        (
            piece[0][0],
            min(t for _, t, _ in piece),
            max(t for _, t, _ in piece),
            [case.merge([vs[i] for _, _, vs in piece]) for i, case in enumerate(cases)],
        )
        for piece in pieces.values()
    ]
    names = tuple(f"k{i}" for i in range(len(key_types)))
    spec = WindowAggregation(
        SessionWindow(GAP, names), names, "s", tuple(case.spec for case in cases)
    )
    result = merge_windows(
        table_of(key_types, partials, cases), spec, cases, data.draw(st.sampled_from([1, 3, 99]))
    )
    expected = {
        where: [case.merge([vs[i] for _, _, vs in session]) for i, case in enumerate(cases)]
        for where, session in cut_sessions(rows).items()
    }
    assert_same(result, expected)


@pytest.mark.variants(4)
@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
def test_every_accumulator_merges_inside_sessions(name, data):
    case, (key_types, key) = CASES[name], KEYS["string"]
    rows = data.draw(st.lists(st.tuples(key, times, st.tuples(case.values)), max_size=12))
    partials = [(key, t, t, values) for key, t, values in rows]
    spec = WindowAggregation(SessionWindow(GAP, ("k0",)), ("k0",), "s", (case.spec,))
    result = merge_windows(table_of(key_types, partials, [case]), spec, [case])
    expected = {
        where: [case.merge([vs[0] for _, _, vs in session])]
        for where, session in cut_sessions(rows).items()
    }
    assert_same(result, expected)


# the buffer's partials of FIRST and LAST have one order column
@pytest.mark.variants(4)
@pytest.mark.parametrize("name", [name for name in CASES if name != "first wide"])
@given(data=st.data())
def test_partials_that_a_task_chains_make_the_same_sessions(name, data):
    case, (key_types, key) = CASES[name], KEYS["string"]
    rows = data.draw(
        st.lists(st.tuples(key, times, st.tuples(case.values)), min_size=1, max_size=12)
    )
    table = table_of(key_types, [(key, t, t, values) for key, t, values in rows], [case])
    spec = WindowAggregation(SessionWindow(GAP, ("k0",)), ("k0",), "s", (case.spec,))
    bounds = (Merge((FIRST_TIME,), MergeOp.MIN), Merge((LAST_TIME,), MergeOp.MAX))
    at = data.draw(st.integers(0, len(rows)))
    tasks = [table.slice(0, at), table.slice(at)]
    chained = [chain_partials(task, ("k0",), (case.spec, *bounds), GAP) for task in tasks]
    assert_same(
        merge_windows(pa.concat_tables(chained), spec, [case]), merge_windows(table, spec, [case])
    )


def test_partials_in_order_of_time_are_one_where_they_follow_within_the_gap():
    rows = [(("a",), t, t, (1,)) for t in range(0, 90, 9)]
    table = table_of((pa.string(),), [*rows, (("b",), 4, 4, (1,))], [CASES["sum int64"]])
    accumulators = (
        CASES["sum int64"].spec,
        Merge((FIRST_TIME,), MergeOp.MIN),
        Merge((LAST_TIME,), MergeOp.MAX),
    )
    chained = chain_partials(table, ("k0",), accumulators, GAP)
    assert chained.select(["k0", FIRST_TIME, LAST_TIME]).to_pylist() == [
        {"k0": "a", FIRST_TIME: 0, LAST_TIME: 81},
        {"k0": "b", FIRST_TIME: 4, LAST_TIME: 4},
    ]


@pytest.mark.parametrize("partition", [(), ("k0",), ("k1",)], ids=str)
@given(data=st.data())
def test_sessions_are_of_the_partition_and_groups_of_all_keys(partition, data):
    key = st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from(["x", "y"]))
    case = CASES["sum int64"]
    rows = data.draw(st.lists(st.tuples(key, times, st.tuples(case.values)), max_size=25))
    partials = [(key, t, t, values) for key, t, values in rows]
    spec = WindowAggregation(SessionWindow(GAP, partition), ("k0", "k1"), "s", (case.spec,))
    result = merge_windows(table_of((pa.string(), pa.string()), partials, [case]), spec, [case])
    members = defaultdict(list)
    places = [int(name[1]) for name in partition]
    sessions = cut_sessions(rows, lambda key: tuple(key[place] for place in places))
    for (_, start, end), session in sessions.items():
        for row in session:
            members[(row[0], start, end)].append(row[2][0])
    assert_same(result, {where: [case.merge(values)] for where, values in members.items()})


@given(data=st.data())
def test_distinct_values_are_distinguished_inside_sessions(data):
    key = st.sampled_from(["a", "b"])
    lists = st.lists(st.integers(0, 4), max_size=3)
    rows = data.draw(st.lists(st.tuples(st.tuples(key), times, lists), max_size=20))
    table = table_of((pa.string(),), [(key, t, t, ()) for key, t, _ in rows], [])
    table = table.append_column("v", pa.array([row[2] for row in rows], pa.list_(pa.int64())))
    count = Distinct(("v",), Column("n", "bigint"), MergeOp.COUNT)
    total = Distinct(("v",), Column("total", "bigint"), MergeOp.SUM)
    spec = WindowAggregation(SessionWindow(GAP, ("k0",)), ("k0",), "s", (total, count))
    result = {}
    for batch in merge_sessions(table, spec, 3):
        assert batch.schema == merged_schema(table.schema, spec)
        for row in batch.to_pylist():
            result[(row["k0"], row["window_start"])] = (row["total"], row["n"])
    expected = {}
    epoch = np.datetime64(0, "us")
    for ((k,), start, _), session in cut_sessions(rows).items():
        values = {value for row in session for value in row[2]}
        at = (epoch + np.timedelta64(start, "us")).item()
        expected[(k, at)] = (sum(values) if values else None, len(values))
    assert result == expected


def test_the_buffer_puts_rows_of_a_piece_together_and_keeps_their_times():
    names = ("k", "s", "n", FIRST_TIME, LAST_TIME)
    schema = pa.schema([("k", pa.string()), *((name, pa.int64()) for name in names[1:])])
    accumulators = (
        Merge(("n",), MergeOp.COUNT),
        Merge((FIRST_TIME,), MergeOp.MIN),
        Merge((LAST_TIME,), MergeOp.MAX),
    )
    buffer = WindowBuffer(SessionWindow(GAP).cells, ("k",), "s", accumulators, schema, 1 << 20)
    time_us = np.array([12, 3, 9, 0, -4, 25])
    times = pa.array(time_us)
    keys = [pa.array(["a", "a", "a", "a", "a", "b"])]
    tables = [*buffer.add(BufferRows(time_us, keys, [[], [times], [times]], [None] * 3))]
    table = pa.concat_tables([*tables, *buffer.flush()]).sort_by(LAST_TIME)
    assert table.to_pydict() == {
        "k": ["a", "a", "a", "b"],
        "s": [0, 10, 20, 30],
        "n": [1, 3, 1, 1],
        FIRST_TIME: [-4, 0, 12, 25],
        LAST_TIME: [-4, 9, 12, 25],
    }


def test_no_rows_make_no_sessions():
    spec = WindowAggregation(SessionWindow(GAP), (), "s", ())
    table = pa.table({FIRST_TIME: pa.array([], pa.int64()), LAST_TIME: pa.array([], pa.int64())})
    assert list(merge_sessions(table, spec)) == []


def test_aligned_windows_are_no_sessions():
    with pytest.raises(TypeError, match="merge_slices"):
        next(merge_sessions(pa.table({"s": [1]}), WindowAggregation(Tumble(5), (), "s", ())))
