"""Key group numbers that Spark spreads evenly over its tasks.

Spark assigns a group of state to a task by the hash of its number. With consecutive numbers some
tasks would get no key group and others three. So numbers are chosen by their hash.
"""

from __future__ import annotations

from collections.abc import Iterable

# Seed of Spark's Murmur3Hash
_SEED = 42
_MASK = 0xFFFFFFFF


def key_group_numbers(n_groups: int, partitions: int) -> list[int]:
    """Return a number for each key group such that tasks differ by at most one group.

    Args:
        n_groups: Number of key groups.
        partitions: Number of tasks: Spark's number of shuffle partitions.
    """
    room = [n_groups // partitions + (task < n_groups % partitions) for task in range(partitions)]
    numbers: list[int] = []
    candidate = 0
    while len(numbers) < n_groups:
        task = spark_partition(candidate, partitions)
        if room[task]:
            room[task] -= 1
            numbers.append(candidate)
        candidate += 1
    return numbers


def head_groups(numbers: Iterable[int], partitions: int) -> list[int]:
    """Return the key groups that Spark processes first in each task, by their numbers.

    Args:
        numbers: Numbers of the key groups.
        partitions: As for `key_group_numbers`.
    """
    first: dict[int, int] = {}
    for number in sorted(numbers):
        first.setdefault(spark_partition(number, partitions), number)
    return sorted(first.values())


def spark_partition(number: int, partitions: int) -> int:
    """Return the task of an INT in Spark's hash partitioning: pmod(murmur3(number), partitions).

    Murmur3 (Appleby) of one 32-bit word, as org.apache.spark.unsafe.hash.Murmur3_x86_32.hashInt.
    """
    k = (number * 0xCC9E2D51) & _MASK
    k = ((k << 15) | (k >> 17)) & _MASK
    k = (k * 0x1B873593) & _MASK
    h = _SEED ^ k
    h = ((h << 13) | (h >> 19)) & _MASK
    h = (h * 5 + 0xE6546B64) & _MASK
    h ^= 4
    h ^= h >> 16
    h = (h * 0x85EBCA6B) & _MASK
    h ^= h >> 13
    h = (h * 0xC2B2AE35) & _MASK
    h ^= h >> 16
    signed = h - (1 << 32) if h >= 1 << 31 else h
    return signed % partitions
