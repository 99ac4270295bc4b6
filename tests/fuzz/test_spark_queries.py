"""Random window queries on Spark, in batch, as streams and from materialized tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.conftest import drop_views
from tests.fuzz.spark_roads import SparkRoads


@pytest.mark.parametrize(
    ("seeds", "streams"),
    [
        pytest.param(range(500_000, 500_006), False, marks=pytest.mark.long),
        pytest.param(range(500_010, 500_200), False, marks=pytest.mark.slow),
        pytest.param(range(600_000, 600_050), True, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_random_query_has_the_rows_of_its_definition_on_spark(
    seeds: range, streams: bool, tmp_path: Path, spark: SparkSession
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
    for way in ("Spark", "Spark's aggregation", "materialized"):
        assert roads.counts[way] > 0, roads.counts
