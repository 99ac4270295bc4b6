"""Spark side of window aggregations: the schema of the windows and HyperLogLog++ tables.

Uses the private API `HyperLogLogPlusPlusHelper`, checked with Spark 4.3. Without it, as over Spark
Connect, APPROX_COUNT_DISTINCT uses an estimator that needs no tables.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, StructField, StructType, TimestampNTZType

from runtime.compute.arrow.types import arrow_type
from runtime.spark.private import unless_missing
from runtime.spark.session import is_remote
from runtime.spec.aggregates import (
    Accumulator,
    ApproxCountDistinct,
    WindowAggregation,
    WithResult,
)

# Table 0 belongs to precision 4.
_LEAST_PRECISION = 4


def windows_schema(partials: StructType, aggregation: WindowAggregation) -> StructType:
    """Return Spark's schema of the merged windows."""
    merged = [
        StructField(name, _output_type(partials, accumulator, name), True)
        for accumulator in aggregation.accumulators
        for name in accumulator.output_columns
    ]
    window = [
        StructField(name, TimestampNTZType(), False)
        for name in (aggregation.window_start, aggregation.window_end)
    ]
    return StructType([partials[key] for key in aggregation.keys] + window + merged)


def _output_type(partials: StructType, accumulator: Accumulator, name: str) -> DataType:
    if isinstance(accumulator, WithResult):
        return from_arrow_type(arrow_type(accumulator.output.type))
    return partials[name].dataType


def with_spark_tables(spark: SparkSession, aggregation: WindowAggregation) -> WindowAggregation:
    """Return the aggregation with Spark's HyperLogLog++ tables for its estimates.

    Over Spark Connect, whose client cannot read the tables, it is returned unchanged and uses an
    estimator without tables.
    """
    if is_remote(spark):
        return aggregation
    accumulators = tuple(
        _with_tables(spark, accumulator) for accumulator in aggregation.accumulators
    )
    return replace(aggregation, accumulators=accumulators)


def _with_tables(spark: SparkSession, accumulator: Accumulator) -> Accumulator:
    if not isinstance(accumulator, ApproxCountDistinct) or accumulator.tables:
        return accumulator
    precision = accumulator.precision
    tables = unless_missing(
        "APPROX_COUNT_DISTINCT goes without Spark's tables",
        lambda: _tables(spark.sparkContext._jvm, precision),
        (),
    )
    return replace(accumulator, tables=tables)


@cache
def _tables(jvm: Any, precision: int) -> tuple[float, ...]:
    """Return threshold, raw estimates and biases, as text to avoid a JVM call per number."""
    helper = jvm.org.apache.spark.sql.catalyst.util.HyperLogLogPlusPlusHelper
    number = precision - _LEAST_PRECISION
    texts = [
        jvm.java.util.Arrays.toString(table[number])
        for table in (helper.RAW_ESTIMATE_DATA(), helper.BIAS_DATA())
    ]
    numbers = [float(text) for array in texts for text in array.strip("[]").split(", ")]
    return (float(helper.THRESHOLDS()[number]), *numbers)
