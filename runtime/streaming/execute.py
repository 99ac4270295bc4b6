"""Steps over streams to streaming DataFrames: the twin of `runtime.batch.execute`."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark import SparkContext, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_type
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from runtime.arrow.types import arrow_type
from runtime.batch.estimates import with_spark_tables
from runtime.batch.execute import ExecutionOptions, dataframe, sql_dataframe, temporary_view
from runtime.batch.expand import expand_sql
from runtime.batch.global_aggregate import output_schema
from runtime.batch.meter import Meter, Wrap, as_it_is
from runtime.errors import AnalysisError
from runtime.kernels.blobs import from_blobs
from runtime.scan.wall_clock import is_known_zone
from runtime.scan_spec import StreamScan
from runtime.spec import Accumulator, Session, WindowAggregation
from runtime.steps import ExpandStep, MeasuredStep, SqlStep, Step
from runtime.stream_spec import (
    KEEP,
    LATE_ROW,
    ROW_KIND,
    SOURCE,
    TIME,
    WATERMARK,
    StreamJoinStep,
    StreamLocalStep,
    StreamRankStep,
    StreamRegroupStep,
    StreamWindowStep,
)
from runtime.streaming.execute_whole import join, rank, regroup
from runtime.streaming.key_groups import key_group_numbers
from runtime.streaming.local_plan import (
    LocalSql,
    local_plan,
    local_sql,
    scan_columns,
    sent_columns,
)
from runtime.streaming.local_stage import (
    MESSAGE_DDL,
    ROW_COUNT,
    LocalPlan,
    LocalStage,
    received,
)
from runtime.streaming.operator import OperatorSpec
from runtime.streaming.options import Firing, StreamOptions
from runtime.streaming.processor import OUTPUT_DDL, ProcessorSpec, WindowProcessor
from runtime.streaming.scan_stage import PATH, ScanStage
from runtime.streaming.status import ROWS_METRIC, observed, read_counted
from runtime.streaming.updates import FireRule, UpdateRules
from runtime.streaming.watermarks import FINAL_US, WatermarkRules
from runtime.workers import prepare_worker

# The local property of Spark's jobs that tells tasks which rows can be late: those of which no
# window ends after a time. Where it is not set, any row may be.
CLOSED_UNTIL = "sqlwin.closed-until"
# By these of Spark's own a job of a micro-batch is told from others
_OF_MICRO_BATCH = ("sql.streaming.queryId", "streaming.sql.batchId")

# State on disk; with a log of changes in place of a snapshot each micro-batch ends sooner.
STATE_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


def streaming_dataframe(
    spark: SparkSession, step: Step, options: StreamOptions, meter: Meter | None = None
) -> DataFrame:
    """The streaming DataFrame that computes `step`. Nothing runs yet.

    Tables are named in the steps' SQL as Spark knows them: temporary views over streaming
    DataFrames. The result has the query's columns, and ROW_KIND first if
    `options.emits_updates`.

    Args:
        spark: the session.
        step: the step.
        options: how it runs.
        meter: what counts at the operators; None where nobody asked.

    Raises:
        AnalysisError: a type or the time zone is not known to the window operator.
    """

    def child(below: Step) -> DataFrame:
        return streaming_dataframe(spark, below, options, meter)

    match step:
        case SqlStep():
            return sql_dataframe(spark, step, child)
        case StreamRegroupStep():
            return regroup(spark, step, child, options.partitions, _wrap(meter, step.label))
        case StreamRankStep():
            return rank(step, child, options.partitions, _wrap(meter, step.label))
        case StreamJoinStep():
            return join(step, child, options.partitions, _wrap(meter, step.label))
        case ExpandStep():
            with temporary_view(spark, child(step.input)) as source:
                return spark.sql(expand_sql(step, source))
        case StreamWindowStep():
            return _windows(spark, step, options, meter)
        case MeasuredStep():
            return counted(child(step.input), step.label)
        case _:
            return dataframe(spark, step, ExecutionOptions())


def counted(dataframe: DataFrame, label: str) -> DataFrame:
    """The same rows; how many there are is told with every micro-batch, see `counted_rows`."""
    is_row = F.col(f"`{KEEP}`") if KEEP in dataframe.columns else F.lit(True)
    return dataframe.observe(f"{ROWS_METRIC}{label}", F.count_if(is_row).alias("rows"))


def _wrap(meter: Meter | None, label: str) -> Wrap:
    return as_it_is if meter is None else meter.wrap(label)


def _windows(
    spark: SparkSession, step: StreamWindowStep, options: StreamOptions, meter: Meter | None
) -> DataFrame:
    """The rows of a window operator: windows, and one row a key group with its watermark."""
    local = step.input
    if isinstance(local.window, Session) and options.emits_updates:
        raise AnalysisError(
            "a SESSION is put out once: it knows no early firing and no allowed lateness",
            hint="RESET 'table.exec.emit.allow-lateness' and 'table.exec.emit.early-fire.enabled'",
        )
    stage = local_stage(spark, local, options, step.number, meter)
    plan = stage.plan
    aggregation = with_spark_tables(spark, step.aggregation)
    processor = ProcessorSpec(
        _operator(local, aggregation, plan, options), _time_types(local), local.time_zone
    )
    tasks = None if meter is None else meter.tasks(step.label)
    told = stage.messages.groupBy("key_group").transformWithState(
        WindowProcessor(processor, tasks), OUTPUT_DDL, "Append", "None"
    )
    partials = from_arrow_schema(plan.schema, prefer_timestamp_ntz=True)
    windows = output_schema(partials, step.aggregation)
    if options.emits_updates:
        windows = StructType([StructField(ROW_KIND, StringType()), *windows])
    told = observed(told, step.number)
    decode = _decode(windows, stage.late_row)
    return told.mapInArrow(decode, _with_marks(windows, stage.late_row))


@dataclass(frozen=True)
class RunningStage:
    """A local stage at work.

    Attributes:
        messages: what it tells the key groups, rows of MESSAGE_DDL.
        plan: what it does.
        late_row: the type of LATE_ROW; None: rows do not come with it.
    """

    messages: DataFrame
    plan: LocalPlan
    late_row: DataType | None = None


def local_stage(
    spark: SparkSession,
    local: StreamLocalStep,
    options: StreamOptions,
    number: int = 0,
    meter: Meter | None = None,
) -> RunningStage:
    """The local stage of the operator with a number.

    Raises:
        AnalysisError: a type is not known to the window operator.
    """
    for key, value in STATE_SETTINGS.items():
        spark.conf.set(key, value)
    wrap = _wrap(meter, local.label)
    if local.scan is not None:
        return _scan_stage(local, local.scan, options, number, spark, wrap)
    below = streaming_dataframe(spark, local.input, options, meter)
    with temporary_view(spark, below) as source:
        has_clock = goes_by_clock(local, options)
        sql = local_sql(local, source, has_clock)
        rows = spark.sql(sql.text)
    rows = options.own_sources.beside(rows, is_cascade=local.is_cascade, has_clock=has_clock)
    types = {field.name: field.dataType.simpleString() for field in rows.schema}
    plan = _local_plan(local, sql, types, options)
    sent = sent_columns(rows.columns, has_watermark=local.delay_us is None)
    late = rows.schema[LATE_ROW].dataType if plan.carries_late_rows else None
    told = rows.selectExpr(*sent).mapInArrow(wrap(run_local(plan, number)), MESSAGE_DDL)
    return RunningStage(told, plan, late)


def _scan_stage(
    local: StreamLocalStep,
    scan: StreamScan,
    options: StreamOptions,
    number: int,
    spark: SparkSession,
    wrap: Wrap,
) -> RunningStage:
    """The same where it reads the files itself."""
    names, types = scan_columns(local, scan)
    plan = _local_plan(local, names, types, options)
    has_clock = goes_by_clock(local, options)
    paths = options.own_sources.paths(spark, scan.table).select(
        F.col("path").alias(PATH),
        F.lit(False).alias(KEEP),
        F.lit(0).alias(SOURCE),
        *(F.lit(None).cast(LongType()).alias(name) for name in (WATERMARK, TIME)),
    )
    rows = options.own_sources.beside(paths, is_cascade=False, has_clock=has_clock)
    sent = sent_columns(rows.columns, has_watermark=False)
    told = rows.selectExpr(*sent).mapInArrow(wrap(run_scan(plan, scan)), MESSAGE_DDL)
    return RunningStage(read_counted(told, number, scan.table.name), plan)


def goes_by_clock(step: StreamLocalStep, options: StreamOptions) -> bool:
    """Whether an operator asks for the clock, with rows or without."""
    if step.is_cascade:
        return False
    by_clock = any(source.time_type == "proctime" for source in step.sources)
    delays = [options.early_fire.delay_us, options.late_fire.delay_us]
    fires = options.emits_updates and any(delays)
    return by_clock or options.idle_timeout_us is not None or fires


def _local_plan(
    step: StreamLocalStep, sql: LocalSql, types: dict[str, str], options: StreamOptions
) -> LocalPlan:
    by = step.window.partition if isinstance(step.window, Session) else step.keys
    n_groups = options.key_groups if by else 1
    numbers = tuple(key_group_numbers(n_groups, options.partitions))
    return local_plan(step, sql, types, numbers)


def _operator(
    local: StreamLocalStep,
    aggregation: WindowAggregation,
    plan: LocalPlan,
    options: StreamOptions,
) -> OperatorSpec:
    updates = None
    if options.emits_updates:
        updates = UpdateRules(
            options.allowed_lateness_us,
            _rule(options.early_fire),
            _rule(options.late_fire),
            ROW_KIND,
        )
    return OperatorSpec(
        aggregation,
        merged_partials(plan),
        ROW_COUNT,
        len(local.sources),
        watermark_rules(local, options),
        updates,
        "proctime" in _time_types(local),
        run=secrets.token_hex(4),
    )


def watermark_rules(local: StreamLocalStep, options: StreamOptions) -> WatermarkRules:
    """How an operator makes its watermark of those of its sources.

    Raises:
        AnalysisError: the time zone is known to Java only.
    """
    types = _time_types(local)
    check_zone(types, local.time_zone)
    # neither is the clock ever silent, nor does it jump
    is_bare = local.is_cascade or "proctime" in types
    return WatermarkRules(
        options.watermark_policy,
        None if is_bare else options.idle_timeout_us,
        None if is_bare else options.max_jump_us,
    )


def merged_partials(plan: LocalPlan) -> tuple[Accumulator, ...]:
    """The accumulators of a local stage but for the count of rows."""
    return tuple(each for each in plan.partials if each.columns != (ROW_COUNT,))


def _time_types(local: StreamLocalStep) -> tuple[str, ...]:
    return tuple(source.time_type for source in local.sources)


def check_zone(time_types: tuple[str, ...], time_zone: str) -> None:
    """Refuse a zone of which the workers know no wall clock, where a source asks for one.

    Raises:
        AnalysisError: the zone is known to Java only.
    """
    if any(type_ != "timestamp_ntz" for type_ in time_types) and not is_known_zone(time_zone):
        raise AnalysisError(
            f"the time zone {time_zone} is known to Java only",
            hint="SET 'table.local-time-zone' to a region such as Europe/Berlin",
        )


def _rule(firing: Firing) -> FireRule | None:
    return FireRule(firing.delay_us, firing.rows) if firing.is_on else None


def run_local(
    plan: LocalPlan, number: int = 0
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The local stage of an operator, for `mapInArrow`: rows to messages for the key groups."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        batches = (received(batch, plan.delay_us) for batch in batches)
        if not plan.keeps_late_rows:
            yield from LocalStage(plan).run(batches)
            return
        context = TaskContext.get()
        known_us = None if context is None else known_closed_us(context, number)
        yield from LocalStage(plan, FINAL_US if known_us is None else known_us).run(batches)

    return run


def run_scan(
    plan: LocalPlan, scan: StreamScan
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The same for a stage that reads files itself: paths to messages for the key groups."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        pa.set_io_thread_count(1)
        yield from ScanStage(plan, scan).run(batches)

    return run


def closed_until_text(context: SparkContext, closed_us: Mapping[int, int]) -> str:
    """The value of CLOSED_UNTIL, which counts in jobs of the micro-batch that this thread runs.

    Args:
        context: Spark's.
        closed_us: what was closed for operators, by their numbers.
    """
    told = [str(context.getLocalProperty(name)) for name in _OF_MICRO_BATCH]
    return json.dumps([told, list(closed_us.items())])


def known_closed_us(context: TaskContext, number: int) -> int | None:
    """What CLOSED_UNTIL tells a task of an operator and its own micro-batch; None: nothing."""
    text = context.getLocalProperty(CLOSED_UNTIL)
    if not text:
        return None
    told, closed_us = json.loads(text)
    own = [context.getLocalProperty(name) for name in _OF_MICRO_BATCH]
    return dict(closed_us).get(number) if None not in own and told == own else None


def _with_marks(windows: StructType, late: DataType | None) -> StructType:
    """The windows' columns, all nullable, a late row if there are any, what is told in band."""
    columns = [StructField(field.name, field.dataType) for field in windows]
    if late is not None:
        columns.append(StructField(LATE_ROW, late))
    marks = [
        StructField(KEEP, BooleanType()),
        StructField(SOURCE, IntegerType()),
        StructField(WATERMARK, LongType()),
    ]
    return StructType(columns + marks)


def _decode(
    windows: StructType, late: DataType | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Blobs of windows to rows; a status to a row that has nothing but its watermark.

    Where late rows are kept, their blobs come with the watermark that they missed, and so do they.
    """
    types = [arrow_type(field.dataType.simpleString()) for field in windows]
    names = [*windows.names, KEEP, SOURCE, WATERMARK]
    if late is not None:
        types.append(to_arrow_type(late, timezone="UTC"))
        names.insert(len(windows), LATE_ROW)

    def batch_of(columns: list[pa.Array], is_kept: bool, marks: pa.Array) -> pa.RecordBatch:
        n_rows = len(marks)
        source = pa.repeat(pa.scalar(0, pa.int32()), n_rows)
        plain = [
            column if column.type == type_ else column.cast(type_)
            for column, type_ in zip(columns, types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(
            [*plain, pa.repeat(is_kept, n_rows), source, marks], names=names
        )

    def part_of(part: pa.RecordBatch, missed: pa.Scalar) -> pa.RecordBatch:
        n_rows = part.num_rows
        if missed.is_valid:
            nulls = [pa.nulls(n_rows, type_) for type_ in types[:-1]]
            return batch_of([*nulls, part.column(0)], False, pa.repeat(missed, n_rows))
        unset = [pa.nulls(n_rows, types[-1])] if late is not None else []
        return batch_of([*part.columns, *unset], True, pa.nulls(n_rows, pa.int64()))

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for batch in batches:
            blobs = batch.column("windows")
            marks = batch.column("watermark_us")
            for blob, mark in zip(blobs, marks, strict=True):
                if blob.is_valid:
                    for part in from_blobs([blob.as_buffer()]).to_batches():
                        yield part_of(part, mark)
            marks = marks.filter(blobs.is_null())
            if len(marks):
                yield batch_of([pa.nulls(len(marks), t) for t in types], False, marks)

    return decode
