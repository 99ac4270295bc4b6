"""Steps to DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count

from pyspark.sql import DataFrame, SparkSession

from runtime.batch.estimates import with_spark_tables
from runtime.batch.exchange import exchange
from runtime.batch.expand import expand_sql
from runtime.batch.global_aggregate import global_aggregate
from runtime.batch.local import local_aggregate_sql
from runtime.batch.meter import Meter, Wrap, as_it_is
from runtime.batch.null_times import StatementNullTimes
from runtime.batch.scan_local import scan_partials, scan_partials_schema
from runtime.spec import (
    DEFAULT_BUFFER_BYTES,
    ExchangeStep,
    ExpandStep,
    GlobalStep,
    LocalStep,
    MeasuredStep,
    ScanLocalStep,
    SqlStep,
    Step,
)
from runtime.stream_spec import StreamWindowStep

# A bucket is what a task of the global stage holds in memory; more buckets than tasks keep it small
BUCKETS_PER_PARTITION = 4

_view_numbers = count()


@dataclass(frozen=True)
class ExecutionOptions:
    """How steps are carried out.

    Attributes:
        partitions: over how many tasks exchanges are spread that do not say so themselves; None:
            as many as Spark's shuffle partitions.
        buckets: into how many buckets of keys; None: some for each task.
        meter: what counts at the operators; None where nobody asked.
        buffer_bytes: how much a task may hold of partials before it sends them.
        null_times: where scans count the rows that have no time.
    """

    partitions: int | None = None
    buckets: int | None = None
    meter: Meter | None = None
    buffer_bytes: int = DEFAULT_BUFFER_BYTES
    null_times: StatementNullTimes | None = None

    def wrap(self, label: str) -> Wrap:
        """How a Python stage is measured, if it is."""
        return self.meter.wrap(label) if self.meter is not None and label else as_it_is


def dataframe(spark: SparkSession, step: Step, options: ExecutionOptions) -> DataFrame:
    """The DataFrame that computes `step`. Nothing runs yet."""
    match step:
        case SqlStep():
            return sql_dataframe(spark, step, lambda child: dataframe(spark, child, options))
        case ExpandStep():
            with temporary_view(spark, dataframe(spark, step.input, options)) as source:
                return spark.sql(expand_sql(step, source))
        case LocalStep():
            with temporary_view(spark, dataframe(spark, step.input, options)) as source:
                partials = spark.sql(local_aggregate_sql(step, source))
            return _observed(partials, step.label, options)
        case MeasuredStep():
            return _observed(dataframe(spark, step.input, options), step.label, options)
        case StreamWindowStep():
            raise TypeError("a window operator over a stream has no batch form")
        case GlobalStep():
            local = step.input.input
            aggregation = with_spark_tables(spark, step.aggregation)
            wrap = options.wrap(step.label)
            if isinstance(local, ScanLocalStep):
                partitions, buckets = _spread(spark, step.input, options)
                read = options.wrap(local.label)
                local = replace(local, buffer_bytes=options.buffer_bytes)
                counts = options.null_times
                counter = counts.counter(local.time_column) if counts is not None else None
                keys = step.input.keys
                blobs = scan_partials(spark, local, keys, buckets, partitions, read, counter)
                schema = scan_partials_schema(local)
                return global_aggregate(blobs, schema, aggregation, wrap)
            partials = dataframe(spark, local, options)
            partitions, buckets = _spread(spark, step.input, options)
            cut = options.wrap(step.input.label)
            size = options.buffer_bytes
            blobs = exchange(partials, step.input.keys, buckets, partitions, cut, size)
            return global_aggregate(blobs, partials.schema, aggregation, wrap)


def _observed(frame: DataFrame, label: str, options: ExecutionOptions) -> DataFrame:
    if options.meter is None or not label:
        return frame
    return options.meter.observed(label, frame)


def _spread(spark: SparkSession, step: ExchangeStep, options: ExecutionOptions) -> tuple[int, int]:
    """Over how many tasks, and into how many buckets of keys, the exchange spreads partials."""
    if not step.keys:
        return 1, 1
    partitions = step.partitions or options.partitions
    if partitions is None:
        partitions = int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    buckets = step.buckets or options.buckets or partitions * BUCKETS_PER_PARTITION
    return min(partitions, buckets), buckets


def sql_dataframe(
    spark: SparkSession, step: SqlStep, child_dataframe: Callable[[Step], DataFrame]
) -> DataFrame:
    """The DataFrame of Spark SQL over other steps, which `child_dataframe` makes DataFrames of."""
    text = step.sql
    views = []
    for name, child in step.inputs:
        view = _create_view(spark, child_dataframe(child))
        views.append(view)
        text = text.replace(name, view)
    try:
        return spark.sql(text)
    finally:
        _drop_views(spark, views)


@contextmanager
def temporary_view(spark: SparkSession, source: DataFrame) -> Iterator[str]:
    """A name for a DataFrame in SQL, for as long as it takes to analyse the SQL."""
    view = _create_view(spark, source)
    try:
        yield view
    finally:
        _drop_views(spark, [view])


def _create_view(spark: SparkSession, source: DataFrame) -> str:
    name = f"sqlwin_step_{next(_view_numbers)}"
    source.createOrReplaceTempView(name)
    return name


def _drop_views(spark: SparkSession, views: list[str]) -> None:
    """Drop views that an analysed DataFrame no longer needs.

    Over Spark Connect a DataFrame is analysed again when it runs, so there the views stay.
    """
    if hasattr(spark, "_jsparkSession"):
        for view in views:
            spark.catalog.dropTempView(view)
