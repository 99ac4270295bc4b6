"""Steps over streams to streaming DataFrames: the twin of `runtime.batch.execute`."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from runtime.batch.execute import ExecutionOptions, dataframe
from runtime.spec import Step
from runtime.streaming.options import StreamOptions


def streaming_dataframe(spark: SparkSession, step: Step, options: StreamOptions) -> DataFrame:
    """The streaming DataFrame that computes `step`. Nothing runs yet.

    Tables are named in the steps' SQL as Spark knows them: temporary views over streaming
    DataFrames. The result has the query's columns, and ROW_KIND first if
    `options.emits_updates`.
    """
    return dataframe(spark, step, ExecutionOptions(options.partitions, options.key_groups))
