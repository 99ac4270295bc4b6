"""A key with most of the rows costs no more than others after the local stage."""

import numpy as np
import pyarrow as pa

from runtime.compute.arrow.blobs import split_by_bucket, to_blob
from runtime.compute.buffer import BufferRows, WindowBuffer
from runtime.compute.kernels.keys import bucket_of
from runtime.spec.aggregates import CollectSet, Merge, MergeOp
from runtime.windows.tumble import Tumble

N_KEYS, N_SLICES, N_BUCKETS = 1_000, 50, 8
SCHEMA = pa.schema(
    [
        ("key", pa.int64()),
        ("slice", pa.int64()),
        ("n", pa.int64()),
        ("s", pa.int64()),
        ("values", pa.list_(pa.int64())),
    ]
)
ACCUMULATORS = (Merge(("n",), MergeOp.COUNT), Merge(("s",), MergeOp.SUM))


def partials(hot, accumulators, schema):
    """Return a task's partials of 600,000 rows; one key has the fraction `hot` of them."""
    rng = np.random.default_rng(3)
    buffer = WindowBuffer(Tumble(10), ("key",), "slice", accumulators, schema, 64 << 20)
    tables = []
    for _ in range(6):
        n = 100_000
        key = np.where(rng.random(n) < hot, 7, rng.integers(0, N_KEYS, n))
        values = pa.array(rng.integers(0, 100, n))
        args = [
            [] if accumulator == Merge(accumulator.columns, MergeOp.COUNT) else [values]
            for accumulator in accumulators
        ]
        rows = BufferRows(
            rng.integers(0, 10 * N_SLICES, n), [pa.array(key)], args, [None] * len(args)
        )
        tables += buffer.add(rows)
    return pa.concat_tables([*tables, *buffer.flush()])


def bucket_bytes(table):
    buckets = bucket_of([table.column("key")], table.num_rows, N_BUCKETS)
    return [len(to_blob(part)) for _, part in split_by_bucket(table, buckets)]


def test_a_key_with_nine_rows_in_ten_sends_a_partial_a_slice():
    table = partials(0.9, ACCUMULATORS, SCHEMA.remove(4))
    of_key = np.bincount(table["key"].to_numpy(), minlength=N_KEYS)
    assert of_key[7] == N_SLICES
    assert np.bincount(table["key"].to_numpy(), table["n"].to_numpy())[7] > 0.9 * 600_000


def test_no_bucket_is_larger_for_a_hot_key():
    even = bucket_bytes(partials(0.0, ACCUMULATORS, SCHEMA.remove(4)))
    hot = bucket_bytes(partials(0.9, ACCUMULATORS, SCHEMA.remove(4)))
    assert max(even) < 1.2 * np.mean(even)
    assert max(hot) < 1.2 * np.mean(hot)
    assert max(hot) <= max(even)


def test_the_distinct_values_of_a_hot_key_are_bounded_by_its_values():
    table = partials(0.9, (*ACCUMULATORS, CollectSet(("values",))), SCHEMA)
    is_hot = pa.array(table["key"].to_numpy() == 7)
    (lengths,) = (table.filter(is_hot)["values"].combine_chunks().value_lengths(),)
    assert set(lengths.to_pylist()) == {100}
