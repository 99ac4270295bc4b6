"""Codes and buckets of group keys."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.compute.kernels.keys import bucket_of, encode_keys

nan = float("nan")
COLUMNS = {
    "int": pa.array([3, None, 3, -1, 0], pa.int32()),
    "string": pa.array(["a", None, "a", "", "ab"]),
    "binary": pa.array([b"\x00", None, b"\x00", b"", b"\x00\x00"]),
    "fixed": pa.array([b"ab", None, b"ab", b"cd", b"ce"], pa.binary(2)),
    "decimal": pa.array(
        [Decimal("1.5"), None, Decimal("1.5"), Decimal("-1.5"), Decimal(2**60)],
        pa.decimal128(38, 1),
    ),
    "date": pa.array(
        [dt.date(1969, 1, 1), None, dt.date(1969, 1, 1), dt.date(1970, 1, 1), dt.date(1970, 1, 2)]
    ),
    "timestamp": pa.array([1, None, 1, 2, -3], pa.timestamp("us", "UTC")),
    "bool_like": pa.array([True, None, True, False, False]),
    "double": pa.array([nan, None, nan, 0.0, -0.0]),
    "float": pa.array([1.5, None, 1.5, -1.5, nan], pa.float32()),
    "dictionary": pa.array(["x", None, "x", "y", "z"]).dictionary_encode(),
}


def canonical(value):
    return "NaN" if isinstance(value, float) and np.isnan(value) else value


def rows_of(columns):
    return [tuple(canonical(c[i].as_py()) for c in columns) for i in range(len(columns[0]))]


@pytest.mark.parametrize(
    "names",
    [(n,) for n in COLUMNS] + [("double", "string"), ("int", "decimal", "date"), tuple(COLUMNS)],
    ids=",".join,
)
def test_equal_keys_share_a_code_and_a_bucket_and_codes_lead_back_to_keys(names):
    columns = [COLUMNS[name] for name in names]
    rows = rows_of(columns)
    codes, distinct = encode_keys(columns, 5)
    assert rows_of([key.take(pa.array(codes)) for key in distinct]) == rows
    assert len(set(rows)) == len(set(codes.tolist())) == len(distinct[0])
    assert sorted(set(codes.tolist())) == list(range(len(distinct[0])))
    buckets = bucket_of(columns, 5, 1 << 30)
    assert len(set(zip(rows, buckets.tolist(), strict=True))) == len(set(rows))
    assert len(set(buckets.tolist())) == len(set(rows))


def test_without_keys_all_rows_are_one_group_in_bucket_0():
    codes, distinct = encode_keys([], 3)
    assert (codes.tolist(), distinct) == ([0, 0, 0], [])
    assert bucket_of([], 3, 8).tolist() == [0, 0, 0]


def test_no_rows_have_no_codes():
    codes, distinct = encode_keys([pa.array([], pa.int64()), pa.array([], pa.string())], 0)
    assert len(codes) == 0 and [len(d) for d in distinct] == [0, 0]
    assert len(bucket_of([pa.array([], pa.string())], 0, 8)) == 0


@given(st.lists(st.one_of(st.none(), st.text(max_size=6)), max_size=30), st.integers(0, 30))
def test_buckets_do_not_depend_on_chunks_slices_or_dictionaries(values, cut):
    plain = pa.array(values, pa.string())
    expected = bucket_of([plain], len(values), 64).tolist()
    chunked = pa.chunked_array([plain[:cut], plain[cut:]])
    backwards = plain.take(pa.array(np.arange(len(values))[::-1], pa.int64()))
    assert bucket_of([chunked], len(values), 64).tolist() == expected
    assert bucket_of([plain.dictionary_encode()], len(values), 64).tolist() == expected
    assert bucket_of([backwards], len(values), 64).tolist() == expected[::-1]
    assert bucket_of([plain[cut:]], len(plain[cut:]), 64).tolist() == expected[cut:]


def test_buckets_are_the_same_in_every_process():
    columns = [pa.array(["a", "b", None]), pa.array([1, 2, 3])]
    # Fixed values: a change would send keys of one query to different buckets.
    assert bucket_of(columns, 3, 1 << 20).tolist() == [1014709, 415828, 266781]


@pytest.mark.parametrize(
    "keys",
    [
        pa.array(range(20_000)),
        pa.array(range(0, 20_000 << 32, 1 << 32)),
        pa.array([f"user-{i}" for i in range(20_000)]),
        pa.array([float(i) for i in range(20_000)]),
        pa.array(range(20_000), pa.int64()).cast(pa.decimal128(38, 2)),
    ],
    ids=["dense", "strided", "strings", "doubles", "decimals"],
)
def test_keys_spread_evenly_over_buckets(keys):
    sizes = np.bincount(bucket_of([keys], len(keys), 64), minlength=64)
    # Mean 312, standard deviation 18 for random buckets.
    assert sizes.min() > 312 - 6 * 18 and sizes.max() < 312 + 6 * 18


def test_a_long_string_and_many_strings_are_hashed_alike_in_pieces():
    short, long = "ab" * 10, "xy" * 2_000_000
    together = bucket_of([pa.array([short, long, short, long + "z"])], 4, 1 << 30).tolist()
    alone = [bucket_of([pa.array([s])], 1, 1 << 30)[0] for s in (short, long, short, long + "z")]
    assert together == alone and len(set(together)) == 3


def test_products_of_many_wide_key_columns_do_not_overflow():
    rng = np.random.default_rng(0)
    # 200,000 ** 4 is more than 2 ** 63.
    columns = [pa.array(rng.permutation(200_000)) for _ in range(4)]
    codes, distinct = encode_keys(columns, 200_000)
    assert len(distinct[0]) == 200_000
    assert all(d.take(pa.array(codes)).equals(c) for d, c in zip(distinct, columns, strict=True))
