"""Number of tasks and buckets of a window aggregation."""

import pytest

from planner.nodes.logical import SqlQuery
from planner.nodes.physical import Exchange, LocalWindowAggregate, ScanLocalWindowAggregate
from planner.optimizer import ParallelismOptions
from planner.parallelism import set_parallelism
from runtime.plan.local import FileScan
from runtime.spec.expressions import ColumnRef
from runtime.spec.scan import ScanSource
from runtime.spec.table import Column
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble

MINUTE = 60_000_000
MINUTELY = Tumble(MINUTE)
COLUMNS = (Column("ts", "timestamp_ntz"), Column("key", "string"), Column("price", "bigint"))


def scan(n_rows, window=MINUTELY):
    source = ScanSource("events", (), COLUMNS, n_rows=n_rows)
    files = FileScan((), (), ColumnRef("ts", "timestamp_ntz"), "UTC", (), source)
    return ScanLocalWindowAggregate(
        (), SqlQuery((), None), window, "ts", "timestamp_ntz", (), (), "slice",
        table="events", scan=files, conditions=(),
    )  # fmt: skip


def spread(local, keys=("key",), **options):
    [exchange] = set_parallelism([Exchange((), local, keys)], ParallelismOptions(**options))
    return exchange.partitions, exchange.buckets


def test_few_rows_take_one_task():
    assert spread(scan(60_000, Hop(MINUTE, 1440 * MINUTE))) == (1, 4)
    assert spread(scan(0)) == (1, 4)


def test_rows_that_make_many_windows_take_more_tasks_than_rows_that_make_one():
    assert spread(scan(300_000)) == (1, 4)
    assert spread(scan(300_000, Hop(MINUTE, 1440 * MINUTE))) == (5, 20)


def test_no_more_tasks_than_spark_takes():
    assert spread(scan(200_000_000), most_partitions=4) == (4, 96)


def test_buckets_grow_with_the_data_up_to_a_bound():
    # 32 bytes a row, 64 MB a bucket
    assert spread(scan(20_000_000), most_partitions=4) == (4, 16)
    assert spread(scan(2_000_000_000), most_partitions=4) == (4, 256)


def test_without_keys_there_is_one_bucket():
    assert spread(scan(10**9), keys=()) == (1, 1)


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"partitions": 3}, (3, 12)),
        ({"buckets": 2}, (2, 2)),
        ({"partitions": 5, "buckets": 7}, (5, 7)),
        ({"partitions": 7, "buckets": 5}, (5, 5)),
    ],
)
def test_settings_go_before_the_data(options, expected):
    assert spread(scan(20_000_000), **options) == expected


def test_an_unknown_number_of_rows_uses_sparks_tasks():
    local = LocalWindowAggregate(
        (), SqlQuery((), None), Tumble(MINUTE), "ts", "timestamp_ntz", (), (), "slice"
    )
    assert spread(local, most_partitions=8) == (8, 32)
