"""Random window queries on Spark, in batch, as streams and from materialized tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.conftest import drop_views
from tests.fuzz.spark_roads import SparkRoads


@pytest.mark.parametrize(
    ("seeds", "streams"),
    [
        # 500046: a FILTER that compares with NaN, in a materialized table
        pytest.param((*range(500_000, 500_003), 500_046), False, marks=pytest.mark.long),
        pytest.param(range(500_010, 500_200), False, marks=pytest.mark.slow),
        pytest.param(range(600_000, 600_050), True, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_random_query_has_the_rows_of_its_definition_on_spark(
    seeds: Sequence[int], streams: bool, tmp_path: Path, spark: SparkSession
) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    roads = SparkRoads(tmp_path, spark, streams=streams)
    try:
        for seed in seeds:
            fault = roads.check(seed)
            assert fault is None, fault
    finally:
        drop_views(spark)
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    for way in ("Spark", "Spark's aggregation", "Spark, one phase", "materialized", "not stored"):
        assert roads.counts[way] > len(seeds) // 5, roads.counts
