"""Key groups are numbered so that Spark's hash spreads them evenly."""

from collections import Counter

import pytest

from runtime.streaming.state.key_groups import key_group_numbers, spark_partition


def test_the_hash_is_spark_s():
    # SELECT pmod(hash(n), 1000) in Spark 4.3, for n = 0, 1, 2, 12345
    found = [spark_partition(number, 1000) for number in (0, 1, 2, 12345)]
    assert found == [791, 43, 574, 572]


@pytest.mark.parametrize(("n_groups", "partitions"), [(1, 4), (8, 2), (7, 3), (128, 50)])
def test_no_task_has_two_groups_more_than_another(n_groups, partitions):
    numbers = key_group_numbers(n_groups, partitions)
    assert len(set(numbers)) == n_groups
    tasks = Counter(spark_partition(number, partitions) for number in numbers)
    n_per_task = [tasks[task] for task in range(partitions)]
    assert max(n_per_task) - min(n_per_task) <= 1
