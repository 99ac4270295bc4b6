"""The inverse of Spark's hash of an INT, which chooses the partition of a row."""

from __future__ import annotations

# Constants of MurmurHash3_x86_32, and Spark's seed
_SEED = 42
_C1, _C2 = 0xCC9E2D51, 0x1B873593
_ADDED = 0xE6546B64
_F1, _F2 = 0x85EBCA6B, 0xC2B2AE35
_BYTES = 4
_ALL = 0xFFFFFFFF


def number_hashed_to(target: int) -> int:
    """Return the INT with a given hash in Spark: `hash(number) = target`.

    Each step of the hash is a bijection of 32 bits, so exactly one number has it.

    Args:
        target: Hash, from 0 to 2^31 - 1.

    Example:
        >>> number_hashed_to(0), number_hashed_to(1)
        (1, 2)
    """
    value = _unshift(target, 16) * pow(_F2, -1, 1 << 32) & _ALL
    value = _unshift(value, 13) * pow(_F1, -1, 1 << 32) & _ALL
    value = _unshift(value, 16) ^ _BYTES
    value = (value - _ADDED) * pow(5, -1, 1 << 32) & _ALL
    value = _rotate(value, 32 - 13) ^ _SEED
    value = value * pow(_C2, -1, 1 << 32) & _ALL
    value = _rotate(value, 32 - 15) * pow(_C1, -1, 1 << 32) & _ALL
    return value - (1 << 32) if value >> 31 else value


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _ALL


def _unshift(value: int, bits: int) -> int:
    """Return x with `x ^ (x >> bits) == value`."""
    result = value
    for _ in range(32 // bits):
        result = value ^ (result >> bits)
    return result
