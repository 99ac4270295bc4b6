"""Key groups are numbered so that Spark's hash spreads them evenly."""

from collections import Counter

import pytest

from runtime.streaming.options import StreamOptions
from runtime.streaming.state.key_groups import (
    head_groups,
    key_group_numbers,
    spark_partition,
)


def test_the_hash_is_spark_s():
    # SELECT pmod(hash(n), 1000) in Spark 4.3, for n = 0, 1, 2, 12345
    result = [spark_partition(number, 1000) for number in (0, 1, 2, 12345)]
    assert result == [791, 43, 574, 572]


@pytest.mark.parametrize(("n_groups", "partitions"), [(1, 4), (8, 2), (7, 3), (128, 50)])
def test_no_task_has_two_groups_more_than_another(n_groups, partitions):
    numbers = key_group_numbers(n_groups, partitions)
    assert len(set(numbers)) == n_groups
    tasks = Counter(spark_partition(number, partitions) for number in numbers)
    n_per_task = [tasks[task] for task in range(partitions)]
    assert max(n_per_task) - min(n_per_task) <= 1


@pytest.mark.parametrize(("n_groups", "partitions"), [(1, 4), (8, 2), (7, 3), (3, 8), (128, 50)])
def test_the_head_of_a_task_is_its_first_key_group(n_groups, partitions):
    numbers = key_group_numbers(n_groups, partitions)
    by_task = {}
    for number in numbers:
        by_task.setdefault(spark_partition(number, partitions), []).append(number)
    assert head_groups(numbers, partitions) == sorted(min(some) for some in by_task.values())


def test_key_groups_of_foreign_streams_may_be_alone_in_a_task():
    numbers, heads = StreamOptions(8, 2).numbers_of_groups(has_keys=True)
    assert (len(numbers), len(heads)) == (8, 2)
    # it may start with another number of tasks than planned
    numbers, heads = StreamOptions(8, 2, fixes_partitions=False).numbers_of_groups(has_keys=True)
    assert heads == numbers
    # without keys, one group has all rows
    numbers, heads = StreamOptions(8, 2).numbers_of_groups(has_keys=False)
    assert len(numbers) == 1 and heads == numbers
