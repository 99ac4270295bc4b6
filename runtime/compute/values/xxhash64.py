"""XXH64 for whole columns, as computed by Spark's xxhash64() and APPROX_COUNT_DISTINCT.

The algorithm is Yann Collet's (xxhash.com, the XXH64 specification). The bytes of a value follow
Spark: integers of up to 32 bits, dates and booleans are hashed as four bytes; wider integers,
timestamps and decimals of up to 18 digits as eight.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.conversions import (
    Int64Array,
    UInt64Array,
    decimal_words,
    distinct_codes,
    float64_values,
    int64_values,
    integer_storage,
    is_variable_width,
    normalise_floats,
)

_SEED = np.uint64(42)
_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)


def xxhash64(column: pa.Array) -> UInt64Array:
    """Return the hash of each value; arbitrary for NULLs.

    Args:
        column: Column of any flat type; decimals of up to 18 digits.
    """
    type_ = column.type
    with np.errstate(over="ignore"):
        if is_variable_width(type_):
            codes, distinct = distinct_codes(column)
            return _hash_bytes(distinct)[codes]
        if pa.types.is_decimal128(type_):
            return _hash_longs(decimal_words(column)[:, 0].view(np.uint64))
        if pa.types.is_float64(type_):
            return _hash_longs(float64_values(normalise_floats(column)).view(np.uint64))
        if pa.types.is_float32(type_):
            singles = float64_values(normalise_floats(column)).astype(np.float32)
            return _hash_ints(singles.view(np.uint32).astype(np.uint64))
        values = int64_values(column)
        storage = integer_storage(type_)
        if storage == pa.int64():
            return _hash_longs(values.view(np.uint64))
        return _hash_ints(values.view(np.uint64) & np.uint64(0xFFFFFFFF))


def _rotate(value: UInt64Array, bits: int) -> UInt64Array:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


def _avalanche(hashes: UInt64Array) -> UInt64Array:
    hashes = (hashes ^ (hashes >> np.uint64(33))) * _P2
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _P3
    return hashes ^ (hashes >> np.uint64(32))


def _mix_word(hashes: UInt64Array, words: UInt64Array) -> UInt64Array:
    """Mix in eight more bytes."""
    return _rotate(hashes ^ (_rotate(words * _P2, 31) * _P1), 27) * _P1 + _P4


def _mix_half(hashes: UInt64Array, halves: UInt64Array) -> UInt64Array:
    """Mix in four more bytes."""
    return _rotate(hashes ^ (halves * _P1), 23) * _P2 + _P3


def _hash_longs(words: UInt64Array) -> UInt64Array:
    return _avalanche(_mix_word(np.full(len(words), _SEED + _P5 + np.uint64(8)), words))


def _hash_ints(halves: UInt64Array) -> UInt64Array:
    return _avalanche(_mix_half(np.full(len(halves), _SEED + _P5 + np.uint64(4)), halves))


def _hash_bytes(column: pa.Array) -> UInt64Array:
    """Hash byte strings of any length in parallel, the longest first.

    Each step consumes the next bytes of the values that have more, which are at the front.
    """
    is_large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    offset_type = np.dtype(np.int64 if is_large else np.int32)
    n_values = len(column)
    _, offset_buffer, data_buffer = column.buffers()
    if n_values == 0 or offset_buffer is None:
        return np.zeros(n_values, np.uint64)
    skipped = column.offset * offset_type.itemsize
    offsets = np.frombuffer(offset_buffer, offset_type, n_values + 1, skipped).astype(np.int64)
    # Words are read at any address, the last ones beyond the end.
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(last - first + 8, np.uint8)
    if data_buffer is not None:
        data[: last - first] = np.frombuffer(data_buffer, np.uint8)[first:last]
    words = np.ndarray((len(data) - 7,), np.dtype("<u8"), data.data, strides=(1,))
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")
    hashes = np.empty(n_values, np.uint64)
    hashes[order] = _hash_sorted(words, (offsets[:-1] - first)[order], lengths[order])
    return hashes


def _hash_sorted(words: UInt64Array, position: Int64Array, length: Int64Array) -> UInt64Array:
    """Return the hashes of values given by start and length, longest first.

    Args:
        words: Eight bytes that begin at each position.
        position: int64[n].
        length: int64[n], descending.
    """
    hashes = np.full(len(length), _SEED + _P5)
    n_long = _n_at_least(length, 32)
    if n_long:
        hashes[:n_long] = _hash_stripes(words, position[:n_long], length[:n_long])
    hashes += length.view(np.uint64)
    n_hashed = length // 32 * 32
    rest = length - n_hashed
    position = position + n_hashed
    for _ in range(3):
        (more,) = np.nonzero(rest >= 8)
        hashes[more] = _mix_word(hashes[more], words[position[more]])
        position[more] += 8
        rest[more] -= 8
    (more,) = np.nonzero(rest >= 4)
    hashes[more] = _mix_half(hashes[more], words[position[more]] & np.uint64(0xFFFFFFFF))
    position[more] += 4
    rest[more] -= 4
    for _ in range(3):
        (more,) = np.nonzero(rest > 0)
        byte = words[position[more]] & np.uint64(0xFF)
        hashes[more] = _rotate(hashes[more] ^ (byte * _P5), 11) * _P1
        position[more] += 1
        rest[more] -= 1
    return _avalanche(hashes)


def _hash_stripes(words: UInt64Array, position: Int64Array, length: Int64Array) -> UInt64Array:
    """Return the state after all whole stripes of 32 bytes; each value has at least one."""
    n_values = len(length)
    lanes = [np.full(n_values, seed) for seed in (_SEED + _P1 + _P2, _SEED + _P2, _SEED)]
    lanes.append(np.full(n_values, _SEED - _P1))
    for start in range(0, int(length[0]) - 31, 32):
        n_more = _n_at_least(length, start + 32)
        at = position[:n_more] + start
        for number, lane in enumerate(lanes):
            mixed = lane[:n_more] + words[at + 8 * number] * _P2
            lane[:n_more] = _rotate(mixed, 31) * _P1
    hashes = _rotate(lanes[0], 1) + _rotate(lanes[1], 7)
    hashes += _rotate(lanes[2], 12) + _rotate(lanes[3], 18)
    for lane in lanes:
        hashes = (hashes ^ (_rotate(lane * _P2, 31) * _P1)) * _P1 + _P4
    return hashes


def _n_at_least(length: Int64Array, bound: int) -> int:
    """Return how many of the descending lengths are at least `bound`."""
    return int(np.searchsorted(-length, -bound, side="right"))
