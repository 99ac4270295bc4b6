"""Dense codes for distinct key tuples, and hash buckets of keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.compute.kernels.conversions import (
    Int64Array,
    UInt64Array,
    distinct_codes,
    float64_values,
    int64_values,
    integer_storage,
    is_variable_width,
    normalise_floats,
    one_chunk,
    validity,
)

_MAX_CODE = 2**63 - 1
_NULL_HASH = np.uint64(0x9E3779B97F4A7C15)
# Odd, so that multiplication loses no information; any large odd number would do.
_FACTOR = np.uint64(0xD6E8FEB86659FD93)
# Bytes are hashed in pieces, so that memory stays a small multiple of this.
_PIECE_BYTES = 1 << 20


def encode_keys(
    columns: Sequence[pa.Array | pa.ChunkedArray], n_rows: int
) -> tuple[Int64Array, list[pa.Array]]:
    """Number the distinct key tuples.

    NULL is a key value, NaN equals NaN, and -0.0 equals 0.0 (and is decoded as 0.0).

    Args:
        columns: Key columns of any flat type with `n_rows` rows each; may be empty.
        n_rows: Number of rows, needed without columns.

    Returns:
        Codes int64[n_rows], dense from 0 by first appearance, and for each key column an array with
        the value of each code. Without columns every code is 0.
    """
    if not columns:
        return np.zeros(n_rows, np.int64), []
    keys = [normalise_floats(one_chunk(column)) for column in columns]
    codes, distinct = distinct_codes(keys[0])
    if len(keys) == 1:
        return codes, [distinct]
    n_codes = len(distinct)
    for key in keys[1:]:
        more, distinct = distinct_codes(key)
        if n_codes * len(distinct) > _MAX_CODE:
            codes, n_codes = _densify(codes)
        codes = codes * len(distinct) + more
        n_codes *= len(distinct)
    codes, n_codes = _densify(codes)
    # Assigned in reverse, so that the first row of each code wins.
    first_row = np.empty(n_codes, np.int64)
    first_row[codes[::-1]] = np.arange(n_rows - 1, -1, -1)
    first_row_index = pa.array(first_row)
    return codes, [key.take(first_row_index) for key in keys]


def bucket_of(
    columns: Sequence[pa.Array | pa.ChunkedArray], n_rows: int, n_buckets: int, seed: int = 0
) -> npt.NDArray[np.int32]:
    """Return the bucket, 0 to n_buckets - 1, of each key tuple.

    Depends only on the values and the columns' types: the result is the same in every process,
    regardless of chunks and dictionaries. Keys that are equal for `encode_keys` are in the same
    bucket. Without columns everything is in bucket 0. With another `seed`, the keys of one bucket
    are spread over all buckets.
    """
    if not columns or n_buckets == 1:
        return np.zeros(n_rows, np.int32)
    hashes = np.full(n_rows, seed, np.uint64)
    for column in columns:
        hashes = _mix(hashes * _FACTOR + _hash_column(one_chunk(column)))
    # The high half times n_buckets, shifted down: uniform, without a division.
    buckets = ((hashes >> np.uint64(32)) * np.uint64(n_buckets)) >> np.uint64(32)
    return buckets.astype(np.int32)


def _densify(codes: Int64Array) -> tuple[Int64Array, int]:
    dense, distinct = distinct_codes(pa.array(codes))
    return dense, len(distinct)


def _hash_column(column: pa.Array) -> UInt64Array:
    """Return a hash of each value; narrow integers are not well mixed yet."""
    if pa.types.is_null(column.type):
        return np.full(len(column), _NULL_HASH)
    if integer_storage(column.type) is not None:
        hashes = int64_values(column).view(np.uint64)
    elif pa.types.is_floating(column.type):
        hashes = float64_values(normalise_floats(column)).view(np.uint64)
    elif is_variable_width(column.type):
        codes, distinct = distinct_codes(column)
        return _hash_bytes(distinct)[codes]
    else:
        hashes = _hash_words(column)
    valid = validity(column)
    return hashes if valid is None else np.where(valid, hashes, _NULL_HASH)


def _hash_words(column: pa.Array) -> UInt64Array:
    """Hash values of fixed-width types, such as decimals and intervals, by their words."""
    n_values, width = len(column), column.type.bit_width // 8
    padded = np.zeros((n_values, -(-width // 8) * 8), np.uint8)
    buffer = column.buffers()[1]
    if buffer is not None:
        values = np.frombuffer(buffer, np.uint8, n_values * width, column.offset * width)
        padded[:, :width] = values.reshape(n_values, width)
    hashes = np.zeros(n_values, np.uint64)
    for word in padded.view(np.uint64).T:
        hashes = _mix(hashes * _FACTOR + word)
    return hashes


def _hash_bytes(column: pa.Array) -> UInt64Array:
    """Hash bytes by a polynomial, with each byte first replaced by a random number."""
    is_large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    offset_type = np.dtype(np.int64 if is_large else np.int32)
    n_values = len(column)
    _, offset_buffer, data_buffer = column.buffers()
    hashes = np.full(n_values, _NULL_HASH)
    if n_values == 0 or offset_buffer is None:
        return hashes
    skipped = column.offset * offset_type.itemsize
    offsets = np.frombuffer(offset_buffer, offset_type, n_values + 1, skipped)
    offsets = offsets.astype(np.int64)
    data = np.frombuffer(data_buffer or b"", np.uint8)
    first = 0
    while first < n_values:
        after = int(np.searchsorted(offsets, offsets[first] + _PIECE_BYTES, side="right")) - 1
        after = min(max(after, first + 1), n_values)
        hashes[first:after] = _hash_piece(data, offsets[first : after + 1])
        first = after
    valid = validity(column)
    return hashes if valid is None else np.where(valid, hashes, _NULL_HASH)


def _hash_piece(data: npt.NDArray[np.uint8], offsets: Int64Array) -> UInt64Array:
    lengths = np.diff(offsets)
    position = np.arange(offsets[-1] - offsets[0])
    position -= np.repeat(offsets[:-1] - offsets[0], lengths)
    powers = np.full(int(lengths.max(initial=0)) + 1, _FACTOR)
    powers[0] = 1
    powers = np.multiply.accumulate(powers)
    terms = _BYTE_HASHES[data[offsets[0] : offsets[-1]]] * powers[position]
    # Sums modulo 2**64 can be subtracted; unlike reduceat, this is correct for empty values.
    running = np.concatenate((np.zeros(1, np.uint64), np.cumsum(terms)))
    ends = offsets - offsets[0]
    sums: UInt64Array = running[ends[1:]] - running[ends[:-1]]
    return _mix(sums + lengths.view(np.uint64))


def _mix(hashes: UInt64Array) -> UInt64Array:
    """Apply MurmurHash3's finaliser (Appleby): every input bit affects every output bit."""
    hashes = (hashes ^ (hashes >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    hashes = (hashes ^ (hashes >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return hashes ^ (hashes >> np.uint64(33))


_BYTE_HASHES = _mix(np.arange(1, 257, dtype=np.uint64) * _NULL_HASH)
