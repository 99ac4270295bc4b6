"""Run several window aggregations over one source as one streaming query with shared slices."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from runtime.frames.aggregations import windows_schema
from runtime.frames.views import Bounded, sql_dataframe
from runtime.plan.nodes import BatchWindowsStep, PlanNode, SqlStep
from runtime.plan.streams import StreamReader, StreamSharedStep
from runtime.spec.stream import LATE_ROW, SOURCE
from runtime.streaming.execute.local_stage import stream_local_stage
from runtime.streaming.execute.output import MARKS, decode_output, operator_output
from runtime.streaming.execute.steps import streaming_dataframe
from runtime.streaming.operator_specs import common_spec, merged_partials
from runtime.streaming.operators.window import WindowSpec
from runtime.streaming.options import StreamOptions
from runtime.streaming.slices.levels import SharedSpec
from runtime.streaming.state.partial_columns import StateColumns
from runtime.streaming.status import report_status


@dataclass(frozen=True)
class SharedWindows:
    """The windows of several readers in one stream.

    Attributes:
        rows: The stream: `reader` INT; `windows` BINARY, NULL in rows without windows;
            `watermark_us` BIGINT, not NULL if `windows` holds late rows.
        schemas: Columns of each reader's windows, all nullable.
        late: LATE_ROW, KEEP and WATERMARK. None means that late rows are dropped.
    """

    rows: DataFrame
    schemas: tuple[StructType, ...]
    late: StructType | None

    def of(self, rows: DataFrame, reader: int) -> DataFrame:
        """Return a reader's windows from the rows of a micro-batch."""
        schema = self.schemas[reader]
        window_rows = _blobs(rows, reader).where(F.col("watermark_us").isNull())
        return decode_output(window_rows, schema).drop(*(mark.name for mark in MARKS))

    def late_of(self, rows: DataFrame, reader: int) -> DataFrame:
        """Return a reader's late rows from a micro-batch's rows, with the columns of `late`."""
        assert self.late is not None
        late_blobs = _blobs(rows, reader).where(F.col("watermark_us").isNotNull())
        late = decode_output(late_blobs, StructType(), self.late[LATE_ROW].dataType)
        return late.select(*self.late.names)

    def none_of(self, spark: SparkSession, reader: int) -> DataFrame:
        """Return an empty DataFrame with the columns of a reader's windows."""
        return spark.createDataFrame([], self.schemas[reader])

    def none_late(self, spark: SparkSession) -> DataFrame:
        """Return an empty DataFrame with the columns of late rows."""
        assert self.late is not None
        return spark.createDataFrame([], self.late)


def shared_windows(
    spark: SparkSession, step: StreamSharedStep, options: StreamOptions, bounded: Bounded
) -> SharedWindows:
    """Return the stream that computes the windows of all readers. Nothing runs yet.

    Takes the arguments of `streaming_dataframe`.

    Raises:
        AnalysisError: The window operator does not know a type or the time zone.
    """
    local = step.input
    assert not options.emits_updates, "what comes more than once is not shared"
    stage = stream_local_stage(
        spark, local, lambda below: streaming_dataframe(spark, below, options, bounded), options
    )
    plan = stage.plan
    columns = StateColumns(local.keys, local.slice_end, merged_partials(plan))
    operator = WindowSpec(
        SharedSpec(step.readers, columns),
        common_spec(local.mode, options, 0, plan.hashed_columns),
    )
    output = operator_output(stage.messages, operator, local.mode, options)
    for number in range(len(step.readers)):
        output = report_status(output, number, F.col("reader") == number)
    partials = from_arrow_schema(plan.buffer.schema, prefer_timestamp_ntz=True)
    schemas = tuple(_windows_schema(partials, reader) for reader in step.readers)
    late = None
    if plan.keeps_late_rows:
        assert stage.late_row is not None
        marks = [mark for mark in MARKS if mark.name != SOURCE]
        late = StructType([StructField(LATE_ROW, stage.late_row), *marks])
    return SharedWindows(output.select("reader", "windows", "watermark_us"), schemas, late)


def run_over_windows(step: PlanNode, windows: DataFrame, bounded: Bounded) -> DataFrame:
    """Run a step over the windows of a micro-batch, which stand for its only BatchWindowsStep."""

    def child(below: PlanNode) -> DataFrame:
        match below:
            case BatchWindowsStep():
                return windows
            case SqlStep():
                return sql_dataframe(windows.sparkSession, below, child)
            case _:
                return bounded(windows.sparkSession, below)

    return child(step)


def _blobs(rows: DataFrame, reader: int) -> DataFrame:
    return rows.where((F.col("reader") == reader) & F.col("windows").isNotNull())


def _windows_schema(partials: StructType, reader: StreamReader) -> StructType:
    partial_fields = [
        StructField(name, partials[shared].dataType) for shared, name in reader.columns
    ]
    windows = windows_schema(StructType(partial_fields), reader.aggregation)
    return StructType([StructField(field.name, field.dataType) for field in windows])
