"""The schema of merged windows in Spark."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, StructField, StructType, TimestampNTZType

from runtime.compute.arrow.types import arrow_type
from runtime.spec.aggregates import (
    Accumulator,
    WindowAggregation,
)


def windows_schema(partials: StructType, aggregation: WindowAggregation) -> StructType:
    """Return Spark's schema of the merged windows."""
    merged = [
        StructField(name, _output_type(partials, accumulator, name), True)
        for accumulator in aggregation.accumulators
        for name in accumulator.output_columns
    ]
    averages = [
        StructField(average.output.name, from_arrow_type(arrow_type(average.output.type)), True)
        for average in aggregation.averages
    ]
    window = [
        StructField(name, TimestampNTZType(), False)
        for name in (aggregation.window_start, aggregation.window_end)
    ]
    return StructType([partials[key] for key in aggregation.keys] + window + merged + averages)


def _output_type(partials: StructType, accumulator: Accumulator, name: str) -> DataType:
    if accumulator.result is not None:
        return from_arrow_type(arrow_type(accumulator.result.type), True)
    return partials[name].dataType
