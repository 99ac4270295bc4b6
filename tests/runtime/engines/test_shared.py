"""Partials that several jobs read are computed once and released."""

import pytest

from runtime.engines.spark_batch.execute import ExecutionOptions, dataframe
from runtime.engines.spark_batch.shared import SharedPartials
from runtime.frames.scan_source import scan_source
from runtime.plan.exchange import MergedWindows, SharedExchangeStep, SharedSlicesStep, SliceLevel
from runtime.plan.local import ArrowBuffer, FileScan, LocalStep, PartialColumns
from runtime.spec.aggregates import Merge, MergeOp, WindowAggregation
from runtime.spec.expressions import ColumnRef
from runtime.spec.table import Column
from runtime.windows.tumble import Tumble

pytestmark = pytest.mark.spark

SECOND = 1_000_000
COUNT = Merge(("n",), MergeOp.COUNT)


def test_windows_share_a_cache_of_partials_that_is_released(spark, tmp_path):
    path = str(tmp_path / "events")
    rows = "SELECT timestamp_ntz'2026-01-01' + make_interval(0,0,0,0,0,0,id) AS ts, id % 3 AS k"
    spark.sql(f"{rows} FROM range(600)").write.parquet(path)
    source = scan_source(spark, path, [Column("ts", "timestamp_ntz"), Column("k", "bigint")])
    keys, time = (("k", ColumnRef("k", "bigint")),), ColumnRef("ts", "timestamp_ntz")
    scan = FileScan(keys, (PartialColumns(COUNT, ()),), time, "UTC", (), source)
    local = LocalStep(scan, ArrowBuffer(), Tumble(10 * SECOND), "ts", "timestamp_ntz", "slice")
    levels = (
        SliceLevel(10 * SECOND, 0, columns=("n",)),
        SliceLevel(60 * SECOND, 0, 0, True, ("n",)),
    )
    exchange = SharedExchangeStep(local, ("k",), "slice", (COUNT,), levels)
    columns = (("k", "k"), ("slice", "slice"), ("n", "n"))
    steps = [
        MergedWindows(
            SharedSlicesStep(exchange, number, columns),
            WindowAggregation(Tumble(level.width_us), ("k",), "slice", (COUNT,)),
        )
        for number, level in enumerate(levels)
    ]

    def n_cached():
        return len(spark.sparkContext._jsc.getPersistentRDDs())

    before = n_cached()
    with SharedPartials(frozenset([exchange])) as shared:
        frames = [dataframe(spark, step, ExecutionOptions(2, 4), shared) for step in steps]
        fine, coarse = (sorted(row.n for row in frame.collect()) for frame in frames)
        assert n_cached() == before + 1
    assert n_cached() == before
    assert fine == [3] * 120 + [4] * 60
    assert coarse == [20] * 30
