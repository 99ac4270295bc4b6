"""Packed tables are read back bit for bit, and they are small."""

import datetime
import decimal
import math
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.compute.arrow.blobs import to_blob
from runtime.compute.arrow.packed import pack, unpack
from runtime.errors import ExecutionError
from runtime.streaming.state.codec import decode_metadata, decode_table, encode_table

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1


def integers(bits):
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    near = st.sampled_from([low, low + 1, -1, 0, 1, high - 1, high])
    return st.one_of(near, st.integers(low, high), st.integers(0, 100))


def decimals(precision):
    most = 10**precision - 1
    unscaled = st.one_of(st.sampled_from([-most, 0, most]), st.integers(-most, most))
    return unscaled.map(lambda n: decimal.Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -2)))


FLAT = {
    pa.int64(): integers(64),
    pa.int32(): integers(32),
    pa.int16(): integers(16),
    pa.int8(): integers(8),
    pa.uint64(): st.integers(0, (1 << 64) - 1),
    pa.bool_(): st.booleans(),
    pa.float64(): st.floats(),
    pa.float32(): st.floats(width=32),
    pa.timestamp("us"): integers(64),
    pa.timestamp("us", "Europe/Berlin"): integers(64),
    pa.duration("us"): integers(64),
    pa.date32(): integers(32),
    pa.time64("us"): st.integers(0, 86_399_999_999),
    pa.decimal128(9, 2): decimals(9),
    pa.decimal128(38, 2): decimals(38),
    pa.string(): st.text(max_size=5),
    pa.large_string(): st.sampled_from(["", "a", "customer-00000001", "ä"]),
    pa.binary(): st.binary(max_size=5),
    pa.binary(2): st.binary(min_size=2, max_size=2),
    pa.null(): st.none(),
}


def nested(values_of):
    def list_of(pair):
        type_, values = pair
        lists = st.lists(st.one_of(st.none(), values), max_size=4)
        return st.sampled_from([(pa.list_(type_), lists), (pa.large_list(type_), lists)])

    def struct_of(pair):
        type_, values = pair
        fields = st.fixed_dictionaries({"a": st.one_of(st.none(), values)})
        return st.just((pa.struct([("a", type_)]), fields))

    return st.one_of(values_of.flatmap(list_of), values_of.flatmap(struct_of))


TYPES = st.recursive(st.sampled_from(list(FLAT.items())), nested, max_leaves=2)


@st.composite
def tables(draw):
    n_rows = draw(st.sampled_from([0, 1, 2, 7, 64, 300]))
    columns, fields = [], []
    for number in range(draw(st.integers(0, 4))):
        type_, values = draw(TYPES)
        has_nulls = draw(st.booleans())
        few = draw(st.lists(st.one_of(st.none(), values) if has_nulls else values, max_size=12))
        chosen = [few[i % len(few)] if few else None for i in range(n_rows)]
        is_nullable = None in chosen or pa.types.is_null(type_) or draw(st.booleans())
        columns.append(pa.array(chosen, type_))
        fields.append(pa.field(f"c{number}", type_, nullable=is_nullable))
    table = pa.Table.from_arrays(columns, schema=pa.schema(fields, {"made": "here"}))
    if not columns or n_rows < 3:
        return table
    # arrays that begin inside their buffers, and columns of several chunks
    start = draw(st.sampled_from([0, 1, n_rows // 2]))
    cut = table.slice(start)
    return pa.concat_tables([cut, table.slice(0, start)]) if draw(st.booleans()) else cut


def bits(column):
    """Return values that are equal exactly if their bits are equal, including NaNs and zeros."""
    if isinstance(column, float):
        return struct.pack("<d", column)
    if isinstance(column, list):
        return [bits(value) for value in column]
    return {k: bits(v) for k, v in column.items()} if isinstance(column, dict) else column


def plain(column):
    """Return Python values; times, which may exceed Python's range, as numbers."""
    type_ = column.type
    if pa.types.is_timestamp(type_) or pa.types.is_duration(type_) or pa.types.is_time64(type_):
        column = column.cast(pa.int64())
    elif pa.types.is_date32(type_):
        column = column.cast(pa.int32())
    elif pa.types.is_list(type_) or pa.types.is_large_list(type_):
        joined = column.combine_chunks()
        return [plain(pa.chunked_array([v.values])) if v.is_valid else None for v in joined]
    elif pa.types.is_struct(type_):
        joined = column.combine_chunks()
        inner = plain(pa.chunked_array([joined.field("a")]))
        return [
            v if ok else None for v, ok in zip(inner, joined.is_valid().to_pylist(), strict=True)
        ]
    return bits(column.to_pylist())


@given(tables())
@settings(max_examples=100, deadline=None)
def test_a_packed_table_is_restored_bit_for_bit(table):
    result = unpack(pack(table))
    result.validate(full=True)
    assert result.schema.equals(table.schema, check_metadata=True)
    assert result.num_rows == table.num_rows or not table.num_columns
    for name in table.column_names:
        assert plain(result.column(name)) == plain(table.column(name))


@given(st.lists(integers(64), min_size=1, max_size=200), st.integers(1, 1 << 40))
def test_integers_are_restored_for_any_range_and_divisor(values, factor):
    multiples = [v * factor for v in range(len(values))]
    columns = {
        "as they are": pa.array(values, pa.int64()),
        "in order": pa.array(sorted(values), pa.int64()),
        "multiples": pa.array(multiples, pa.int64()),
        "downwards": pa.array(multiples[::-1], pa.int64()),
    }
    table = pa.table(columns)
    assert unpack(pack(table)).equals(table)


def test_zeros_and_nans_keep_their_sign_and_payload():
    payload = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_DEAD_BEEF))[0]
    values = [0.0, -0.0, math.nan, -math.nan, payload, math.inf, -math.inf, 5e-324] * 20
    table = pa.table({"v": pa.array(np.array(values))})
    result = unpack(pack(table))
    assert result.column("v").to_numpy().tobytes() == np.array(values).tobytes()


def test_adjacent_extreme_integers_are_restored():
    table = pa.table({"v": pa.array([LOWEST, HIGHEST, 0, HIGHEST, LOWEST] * 20, pa.int64())})
    assert unpack(pack(table)).equals(table)


def test_columns_of_types_that_are_not_packed_go_through():
    table = pa.table(
        {
            "word": pa.array(["a", "b", None, "a"]).dictionary_encode(),
            "map": pa.array([[("a", 1)], None, [], [("b", 2)]], pa.map_(pa.string(), pa.int64())),
            "wide": pa.array([decimal.Decimal(1), None] * 2, pa.decimal256(50, 0)),
            "day": pa.array([datetime.date(2024, 5, 1), None] * 2, pa.date64()),
        }
    )
    assert unpack(pack(table)).equals(table)


def live_slices(n_keys=250, n_slices=8):
    rng = np.random.default_rng(5)
    n_rows = n_keys * n_slices
    counts = rng.poisson(14, n_rows)
    return pa.table(
        {
            "key": np.repeat(np.sort(rng.choice(1_000, n_keys, replace=False)), n_slices),
            "$slice_end": np.tile(np.arange(n_slices) * 60_000_000 + 1_767_225_600_000_000, n_keys),
            "s": rng.normal(70_000, 20_000, n_rows).astype(np.int64),
            "n": counts,
            "v": rng.random(n_rows) * 1_000,
            "c": counts,
        }
    )


def test_slices_in_order_take_little_more_than_the_noise_in_them():
    table = live_slices()
    n_bytes = len(pack(table)) / table.num_rows
    # bytes: 6.6 per random double, 2.1 per sum, 0.5 per count; key and slice hardly any
    assert n_bytes < 9.9
    assert len(to_blob(table, "zstd")) / table.num_rows > 1.3 * n_bytes


def test_large_tables_of_state_are_packed():
    table = live_slices(20)
    packed = encode_table(table)
    assert len(packed) < len(to_blob(table, "zstd"))
    assert decode_table(packed).equals(table)


def test_small_tables_of_state_are_not_packed():
    table = live_slices(2, 2)
    assert encode_table(table)[1:] == to_blob(table)
    assert decode_table(encode_table(table)).equals(table)


@pytest.mark.parametrize("blob", [b"", b"\x01old", b"\x08new"])
def test_state_of_another_version_is_refused(blob):
    with pytest.raises(ExecutionError, match=r"has state of version .*, but this sqlwin reads"):
        decode_table(blob)
    with pytest.raises(ExecutionError, match=r"or another checkpoint directory"):
        decode_metadata(blob)
