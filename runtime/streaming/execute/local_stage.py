"""Run the local stage of a stream over rows that Spark evaluates, or over files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType

from runtime.frames.blobs import map_in_arrow
from runtime.frames.job_properties import known_closed_us
from runtime.frames.meter import Wrap, unmeasured
from runtime.frames.views import temporary_view
from runtime.local.messages import run_two_passes
from runtime.local.projection import Projection, spark_types
from runtime.local.scan_rows import scan_projection
from runtime.local.streaming.messages import MESSAGE_DDL
from runtime.local.streaming.plan import encode_columns, local_plan, local_sql
from runtime.local.streaming.scan import PATH, ScanTask
from runtime.local.streaming.stage import LocalPlan, LocalTask, decode_sent
from runtime.plan.local import (
    LocalStep,
    SplitScan,
    SqlRows,
    Streaming,
    StreamLocalStep,
    is_local,
)
from runtime.plan.nodes import PlanNode
from runtime.spark.workers import prepare_worker
from runtime.spec.source import SplitReader
from runtime.spec.stream import FINAL_US, KEEP, LATE_ROW, SOURCE, TIME, WATERMARK
from runtime.streaming.options import StreamOptions
from runtime.streaming.source_reads import report_row_counts
from runtime.streaming.watermarks import idle_advance

# Function of a task's rows for `mapInArrow`
Stage = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class RunningStage:
    """A local stage as a DataFrame.

    Attributes:
        messages: Messages to the key groups, rows of MESSAGE_DDL.
        plan: Plan of the stage.
        late_row: Type of LATE_ROW. None if rows have no such column.
    """

    messages: DataFrame
    plan: LocalPlan
    late_row: DataType | None = None


def stream_local_stage(
    spark: SparkSession,
    local: StreamLocalStep,
    child: Callable[[PlanNode], DataFrame],
    options: StreamOptions,
    number: int = 0,
    wrap: Wrap = unmeasured,
) -> RunningStage:
    """Run the local stage of an operator.

    Args:
        spark: Session.
        local: Local stage.
        child: Runs the steps below.
        options: Options of the stream.
        number: Number of the operator.
        wrap: Wraps the stage to measure it.

    Raises:
        AnalysisError: The window operator does not know a type.
    """
    if is_local(local, SplitScan, Streaming):
        return _scan_stage(spark, local, options, number, wrap)
    assert is_local(local, SqlRows, Streaming)
    with temporary_view(spark, child(local.source.input)) as source:
        has_processing_time = needs_processing_time(local, options)
        sql, columns = local_sql(local, source, has_processing_time)
        rows = spark.sql(sql)
    if not has_processing_time and wrap is unmeasured:
        # when measuring, all rows are counted
        rows = rows.where(f"`{KEEP}` OR `{WATERMARK}` IS NOT NULL")
    rows = options.control_sources.add_to(
        rows, is_cascade=local.mode.is_cascade, has_processing_time=has_processing_time
    )
    plan = _local_plan(local, columns, spark_types(rows), options)
    has_watermark = local.mode.delay_us is None
    encoded_columns = encode_columns(
        rows.columns, has_watermark=has_watermark, time_key=plan.time_key
    )
    late = rows.schema[LATE_ROW].dataType if plan.carries_late_rows else None
    messages = map_in_arrow(
        rows.selectExpr(*encoded_columns), wrap(_run_local(plan, number)), MESSAGE_DDL
    )
    return RunningStage(messages, plan, late)


def _scan_stage(
    spark: SparkSession,
    local: LocalStep[SplitScan, Streaming],
    options: StreamOptions,
    number: int,
    wrap: Wrap,
) -> RunningStage:
    """Run a local stage whose tasks read the splits of a table themselves."""
    plan = _local_plan(local, *scan_projection(local.source), options)
    has_processing_time = needs_processing_time(local, options)
    table, columns = local.source.source.table, local.source.columns
    new_splits = options.control_sources.splits(spark, table)
    splits = new_splits.select(
        F.col(new_splits.columns[0]).alias(PATH),
        F.lit(False).alias(KEEP),
        F.lit(0).alias(SOURCE),
        *(F.lit(None).cast(LongType()).alias(name) for name in (WATERMARK, TIME)),
    )
    rows = options.control_sources.add_to(
        splits, is_cascade=False, has_processing_time=has_processing_time
    )
    rows = rows.selectExpr(*encode_columns(rows.columns, has_watermark=False))
    source = options.control_sources.source(spark, table)
    reader = source.reader(columns, is_stream=True)
    first = wrap(_run_scan(plan, local, reader))
    if reader.undecoded_ddl is None:
        messages = rows.mapInArrow(first, MESSAGE_DDL)
    else:
        second = _run_scan(plan, local, reader, is_second=True)
        messages = run_two_passes(rows, MESSAGE_DDL, first, second, source, reader, columns)
    return RunningStage(report_row_counts(messages, number, table.name), plan)


def needs_processing_time(step: StreamLocalStep, options: StreamOptions) -> bool:
    """Return whether an operator reads the clock: processing time, even without rows."""
    fires = options.fires_after_delay or step.window.state_ttl_us is not None
    if step.mode.is_cascade:
        return fires
    if options.has_clock:
        return True
    is_processing_time = any(source.time_type == "proctime" for source in step.mode.sources)
    may_be_idle = options.idle_timeout_us is not None or bool(idle_advance(step.mode.sources))
    return is_processing_time or may_be_idle or fires


def _local_plan(
    step: StreamLocalStep, columns: Projection[Any], types: dict[str, str], options: StreamOptions
) -> LocalPlan:
    plan = local_plan(step, columns, types, ())
    numbers, heads = options.numbers_of_groups(bool(plan.hashed_columns))
    return replace(plan, numbers=numbers, heads=heads)


def _run_local(plan: LocalPlan, number: int) -> Stage:
    """Return the local stage of an operator: from rows to messages for the key groups."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        batches = (decode_sent(batch, plan.delay_us, plan.time_key) for batch in batches)
        closed_us = known_closed_us(number) if plan.keeps_late_rows else None
        yield from LocalTask(plan, FINAL_US if closed_us is None else closed_us).run(batches)

    return run


def _run_scan(
    plan: LocalPlan,
    local: LocalStep[SplitScan, Streaming],
    reader: SplitReader,
    *,
    is_second: bool = False,
) -> Stage:
    """Return one pass of the local stage over splits: from splits to messages."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        stage = ScanTask(plan, local, reader)
        yield from stage.second(batches) if is_second else stage.run(batches)

    return run
