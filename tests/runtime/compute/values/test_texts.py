"""LISTAGG: texts of windows in order of time, compared with the definition row by row."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.compute.kernels.grouping import SortedGroups
from runtime.compute.kernels.merge import merge_slices
from runtime.compute.values.texts import merge_rows, rows_of_groups
from runtime.spec.aggregates import ListAgg, WindowAggregation
from runtime.spec.table import Column
from tests.runtime.compute.kernels.test_merge_slices import WINDOWS, brute_force, slice_end_of

TIME = pa.timestamp("us")
LISTS = pa.list_(pa.struct([("o", TIME), ("v", pa.string())]))
LISTED = ListAgg(("rows",), Column("texts", "string"), separator=", ")
LISTED_ONCE = ListAgg(("rows",), Column("once", "string"), separator="; ", is_unique=True)
# (key, time, text): few times, so that some are equal
ROWS = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(-40, 40), st.none() | st.sampled_from(["", "b", "a", "é"])
    ),
    min_size=1,
    max_size=40,
)


class Joined:
    """A case for `brute_force`: texts by time, then by their bytes."""

    @staticmethod
    def merge(rows):
        present = sorted((t, v.encode()) for t, v in rows if v is not None)
        return ", ".join(v.decode() for _, v in present) if present else None


class JoinedOnce:
    """The same, each text only at its first time."""

    @staticmethod
    def merge(rows):
        present = sorted((t, v.encode()) for t, v in rows if v is not None)
        texts = dict.fromkeys(v.decode() for _, v in present)
        return "; ".join(texts) if present else None


def lists_of(rows, group, n_groups):
    """Return (groups, their rows as lists), concatenated from the lists of three batches."""
    group = np.array(group, np.int64)
    columns = [pa.array([t for _, t, _ in rows], TIME), pa.array([v for *_, v in rows])]
    columns[1] = columns[1].cast(pa.string()).dictionary_encode()
    cells, lists = [], []
    for number in range(min(3, len(rows))):
        batch_rows = np.arange(number, len(rows), 3)
        groups = SortedGroups(group[batch_rows], n_groups)
        batch_columns = [column.take(pa.array(batch_rows)) for column in columns]
        cells.append(groups.cells)
        lists.append(rows_of_groups(groups, batch_columns, None, LISTS))
    merged = SortedGroups(np.concatenate(cells), n_groups)
    return merged.cells, merge_rows(merged, pa.concat_arrays(lists))


@pytest.mark.variants(4)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@given(rows=ROWS)
def test_texts_of_a_window_stand_in_the_order_of_time(window, rows):
    of_row = [(key, slice_end_of(window, t)) for key, t, _ in rows]
    slices = sorted(set(of_row))
    cells, lists = lists_of(rows, [slices.index(item) for item in of_row], len(slices))
    keys, ends = zip(*(slices[cell] for cell in cells), strict=True)
    table = pa.table({"k": pa.array(keys), "s": pa.array(ends, pa.int64()), "rows": lists})
    spec = WindowAggregation(window, ("k",), "s", (LISTED, LISTED_ONCE))
    result = {}
    for batch in merge_slices(table, spec, 5):
        batch.validate(full=True)
        key, start, end, *texts = (
            (column.cast(pa.int64()) if i in (1, 2) else column).to_pylist()
            for i, column in enumerate(batch.columns)
        )
        windows = zip(key, start, end, strict=True)
        result |= dict(zip(windows, zip(*texts, strict=True), strict=True))
    timed = [((key,), t, ((t, v),) * 2) for key, t, v in rows]
    expected = brute_force(window, timed, [Joined, JoinedOnce])
    assert result == {
        (k, start, end): tuple(texts) for ((k,), start, end), texts in expected.items()
    }


def test_rows_without_a_text_or_against_the_condition_are_left_out() -> None:
    groups = SortedGroups(np.array([1, 0, 1, 1]), 2)
    args = [pa.array([1, 2, 3, 4], TIME), pa.array(["a", "b", None, "d"])]
    result = rows_of_groups(groups, args, np.array([True, False, True, True]), LISTS)
    assert [[row["v"] for row in rows] for rows in result.to_pylist()] == [[], ["a", "d"]]
