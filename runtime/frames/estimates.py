"""What APPROX_COUNT_DISTINCT needs to estimate as Spark does: the tables that Spark carries."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from pyspark.sql import SparkSession

from runtime.spark.session import is_remote
from runtime.spec.aggregates import Accumulator, WindowAggregation

# Table 0 is that of precision 4.
_LEAST_PRECISION = 4


def with_spark_tables(spark: SparkSession, aggregation: WindowAggregation) -> WindowAggregation:
    """The aggregation with Spark's tables at hand where it estimates.

    Over Spark Connect, whose client does not reach them, it is left as it is and uses an estimator
    that needs none.
    """
    if is_remote(spark):
        return aggregation
    accumulators = tuple(_with_tables(spark, each) for each in aggregation.accumulators)
    return replace(aggregation, accumulators=accumulators)


def _with_tables(spark: SparkSession, accumulator: Accumulator) -> Accumulator:
    if accumulator.kind != "approx_count_distinct" or len(accumulator.arguments) > 1:
        return accumulator
    precision = int(accumulator.arguments[0])
    tables = _tables(spark.sparkContext._jvm, precision)
    return replace(accumulator, arguments=(float(precision), *tables))


@cache
def _tables(jvm: Any, precision: int) -> tuple[float, ...]:
    """Threshold, raw estimates and biases, in a few calls instead of one a number."""
    helper = jvm.org.apache.spark.sql.catalyst.util.HyperLogLogPlusPlusHelper
    number = precision - _LEAST_PRECISION
    texts = [
        jvm.java.util.Arrays.toString(table[number])
        for table in (helper.RAW_ESTIMATE_DATA(), helper.BIAS_DATA())
    ]
    numbers = [float(text) for each in texts for text in each.strip("[]").split(", ")]
    return (float(helper.THRESHOLDS()[number]), *numbers)
