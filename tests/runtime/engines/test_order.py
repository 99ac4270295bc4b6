"""The first rows in an order, compared with a sort of all rows."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from runtime.engines.local.order import first_positions, first_rows, sort_rows
from runtime.plan.arrow_rows import InlineRows, OrderedRows
from runtime.spec.expressions import RankOrder

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("row", pa.int64())])
NOTHING = InlineRows((), ())


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(-3, 3)), min_size=1, max_size=60),
    st.integers(0, 70),
)
def test_the_first_positions_are_the_ones_of_a_sort(rows, n_rows):
    codes = [np.array(column) for column in zip(*rows, strict=True)]
    positions = first_positions(codes, n_rows)
    assert (np.diff(positions) > 0).all(), "ascending, so that ties keep their order"
    assert len(positions) <= max(2 * n_rows, 0)
    of_positions = positions[np.lexsort([code[positions] for code in reversed(codes)])]
    np.testing.assert_array_equal(of_positions[:n_rows], np.lexsort(codes[::-1])[:n_rows])


@given(
    st.lists(
        st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 9)), st.sampled_from("xyz"))),
        max_size=8,
    ),
    st.integers(0, 12),
    st.integers(0, 5),
)
def test_batches_are_cut_to_the_first_rows(parts, limit, offset):
    order = (RankOrder("a", True, False), RankOrder("b", False, True))
    of = OrderedRows(NOTHING, order, limit, offset)
    batches, n_rows = [], 0
    for part in parts:
        columns = list(zip(*part, strict=True)) or [(), ()]
        numbered = [*columns, range(n_rows, n_rows + len(part))]
        n_rows += len(part)
        arrays = [pa.array(c, type_) for c, type_ in zip(numbered, SCHEMA.types, strict=True)]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
    whole = pa.Table.from_batches(batches, SCHEMA).combine_chunks()
    everything = whole.to_batches()[0] if n_rows else pa.RecordBatch.from_pylist([], SCHEMA)
    expected = pa.Table.from_batches(sort_rows(everything, of, SCHEMA), SCHEMA)
    first = first_rows(batches, SCHEMA, of, batch_rows=4)
    assert first.num_rows <= max(4, 2 * (limit + offset)) + max(map(len, parts), default=0)
    assert pa.Table.from_batches(sort_rows(first, of, SCHEMA), SCHEMA) == expected
