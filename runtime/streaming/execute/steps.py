"""Run plans over streams as streaming DataFrames; `runtime.engines.spark_batch` runs batches."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from runtime.frames.aggregations import windows_schema
from runtime.frames.expand import expand
from runtime.frames.meter import Meter, Wrap, unmeasured
from runtime.frames.reports import ROWS_METRIC
from runtime.frames.views import Bounded, sql_dataframe, temporary_view
from runtime.plan.arrow_rows import JoinedRows, RankedRows, WindowedRows
from runtime.plan.nodes import MeasuredStep, PlanNode, SqlStep
from runtime.plan.streams import (
    EmissionMode,
    SettledKindsStep,
    SplitRowsStep,
    StreamRegroupStep,
    StreamWindowStep,
    WatermarkedRowsStep,
)
from runtime.spec.stream import KEEP, ROW_KIND
from runtime.streaming.current_watermark import with_watermark
from runtime.streaming.execute.local_stage import stream_local_stage
from runtime.streaming.execute.output import decode_output, operator_output, settled
from runtime.streaming.execute.split_rows import split_rows
from runtime.streaming.execute.whole_windows import join, rank, regroup
from runtime.streaming.operator_specs import operator_spec
from runtime.streaming.options import StreamOptions
from runtime.streaming.status import report_status


def streaming_dataframe(
    spark: SparkSession,
    step: PlanNode,
    options: StreamOptions,
    bounded: Bounded,
    meter: Meter | None = None,
) -> DataFrame:
    """Return the streaming DataFrame that computes `step`. Nothing runs yet.

    Tables in the steps' SQL are named as Spark knows them: temporary views over streaming
    DataFrames. The result has the query's columns, preceded by ROW_KIND if
    `options.emits_updates`.

    Args:
        spark: Session.
        step: Node.
        options: Options of the stream.
        bounded: Runs steps that read no stream.
        meter: Counts rows at the operators. None means no metrics.

    Raises:
        AnalysisError: The window operator does not know a type or the time zone.
    """

    def child(below: PlanNode) -> DataFrame:
        return streaming_dataframe(spark, below, options, bounded, meter)

    match step:
        case SqlStep():
            return sql_dataframe(spark, step, child)
        case StreamRegroupStep():
            return regroup(spark, step, child, options.partitions, _wrap(meter, step.label))
        case RankedRows():
            return rank(step, child, options.partitions, _wrap(meter, step.label))
        case JoinedRows():
            return join(step, child, options.partitions, _wrap(meter, step.label))
        case WindowedRows():
            with temporary_view(spark, child(step.input)) as source:
                return expand(spark, step, source)
        case SplitRowsStep():
            return split_rows(spark, step, options)
        case WatermarkedRowsStep():
            return with_watermark(child(step.input), step)
        case StreamWindowStep():
            return _windows(spark, step, child, options, meter)
        case SettledKindsStep():
            return settled(child(step.input))
        case MeasuredStep():
            return with_row_count(child(step.input), step.label)
        case _:
            return bounded(spark, step)


def with_row_count(dataframe: DataFrame, label: str) -> DataFrame:
    """Report the number of rows of each micro-batch as a metric; see `BatchReport.row_counts`."""
    is_row = F.col(f"`{KEEP}`") if KEEP in dataframe.columns else F.lit(True)
    return dataframe.observe(f"{ROWS_METRIC}{label}", F.count_if(is_row).alias("rows"))


def _wrap(meter: Meter | None, label: str) -> Wrap:
    return unmeasured if meter is None else meter.wrap(label)


def _windows(
    spark: SparkSession,
    step: StreamWindowStep,
    child: Callable[[PlanNode], DataFrame],
    options: StreamOptions,
    meter: Meter | None,
) -> DataFrame:
    """Run a window operator: return its windows, and one row per key group with its watermark."""
    local = step.input
    wrap = _wrap(meter, local.label)
    stage = stream_local_stage(spark, local, child, options, step.number, wrap)
    operator = operator_spec(step, stage.plan, options)
    tasks = None if meter is None else meter.tasks(step.label)
    renamed = options.names_of(step.number).columns
    emitted = operator_output(stage.messages, operator, local.mode, options, tasks, renamed)
    output = report_status(emitted, step.number)
    partials = from_arrow_schema(stage.plan.buffer.schema, prefer_timestamp_ntz=True)
    windows = windows_schema(partials, step.aggregation)
    if step.emission is not EmissionMode.ONCE:
        windows = StructType([StructField(ROW_KIND, StringType()), *windows])
    return decode_output(output, windows, stage.late_row, numbers_updates=step.numbers_updates)
