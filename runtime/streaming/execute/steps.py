"""Steps over streams to streaming DataFrames: the twin of `runtime.batch.execute`."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
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

from runtime.compute.arrow.blobs import from_blobs
from runtime.compute.arrow.types import arrow_type
from runtime.errors import AnalysisError
from runtime.frames.aggregations import windows_schema, with_spark_tables
from runtime.frames.expand import expand_sql
from runtime.frames.meter import Meter, Wrap, as_it_is
from runtime.frames.views import Bounded, sql_dataframe, temporary_view
from runtime.local.stream_stage import ROW_COUNT, LocalPlan
from runtime.scan.wall_clock import is_known_zone
from runtime.spark.workers import prepare_worker
from runtime.spec.aggregates import Accumulator, WindowAggregation
from runtime.spec.local import StreamLocalStep
from runtime.spec.steps import ExpandStep, MeasuredStep, SqlStep, Step
from runtime.spec.stream import KEEP, LATE_ROW, ROW_KIND, SOURCE, WATERMARK
from runtime.spec.stream_steps import (
    StreamJoinStep,
    StreamRankStep,
    StreamRegroupStep,
    StreamWindowStep,
)
from runtime.spec.windows import SessionWindow
from runtime.streaming.execute.local_stage import local_stage
from runtime.streaming.execute.whole_windows import join, rank, regroup
from runtime.streaming.operators.session import SessionSpec
from runtime.streaming.operators.updates import FireRule, UpdateRules
from runtime.streaming.operators.window import WindowSpec
from runtime.streaming.options import Firing, StreamOptions
from runtime.streaming.processor import OUTPUT_DDL, ProcessorSpec, WindowProcessor
from runtime.streaming.state.shared_slices import one_reader
from runtime.streaming.status import ROWS_METRIC, observed
from runtime.streaming.watermarks import WatermarkRules

# State on disk; with a log of changes in place of a snapshot each micro-batch ends sooner.
_STATE_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


def set_state_store(spark: SparkSession) -> None:
    """Have Spark keep the state of streams that are planned from now on as they need it."""
    for key, value in _STATE_SETTINGS.items():
        spark.conf.set(key, value)


def streaming_dataframe(
    spark: SparkSession,
    step: Step,
    options: StreamOptions,
    bounded: Bounded,
    meter: Meter | None = None,
) -> DataFrame:
    """The streaming DataFrame that computes `step`. Nothing runs yet.

    Tables are named in the steps' SQL as Spark knows them: temporary views over streaming
    DataFrames. The result has the query's columns, and ROW_KIND first if
    `options.emits_updates`.

    Args:
        spark: the session.
        step: the step.
        options: how it runs.
        bounded: makes DataFrames of the steps that read no stream.
        meter: what counts at the operators; None where nobody asked.

    Raises:
        AnalysisError: a type or the time zone is not known to the window operator.
    """

    def child(below: Step) -> DataFrame:
        return streaming_dataframe(spark, below, options, bounded, meter)

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
            return _windows(spark, step, child, options, meter)
        case MeasuredStep():
            return counted(child(step.input), step.label)
        case _:
            return bounded(spark, step)


def counted(dataframe: DataFrame, label: str) -> DataFrame:
    """The same rows; how many there are is told with every micro-batch, see `counted_rows`."""
    is_row = F.col(f"`{KEEP}`") if KEEP in dataframe.columns else F.lit(True)
    return dataframe.observe(f"{ROWS_METRIC}{label}", F.count_if(is_row).alias("rows"))


def _wrap(meter: Meter | None, label: str) -> Wrap:
    return as_it_is if meter is None else meter.wrap(label)


def _windows(
    spark: SparkSession,
    step: StreamWindowStep,
    child: Callable[[Step], DataFrame],
    options: StreamOptions,
    meter: Meter | None,
) -> DataFrame:
    """The rows of a window operator: windows, and one row a key group with its watermark."""
    local = step.input
    if isinstance(local.window, SessionWindow) and options.emits_updates:
        raise AnalysisError(
            "a SESSION is put out once: it knows no early firing and no allowed lateness",
            hint="RESET 'table.exec.emit.allow-lateness' and 'table.exec.emit.early-fire.enabled'",
        )
    set_state_store(spark)
    wrap = _wrap(meter, local.label)
    stage = local_stage(spark, local, child, options, step.number, wrap)
    plan = stage.plan
    aggregation = with_spark_tables(spark, step.aggregation)
    processor = ProcessorSpec(
        _operator_spec(local, aggregation, plan, options), _time_types(local), local.time_zone
    )
    tasks = None if meter is None else meter.tasks(step.label)
    told = stage.messages.groupBy("key_group").transformWithState(
        WindowProcessor(processor, tasks), OUTPUT_DDL, "Append", "None"
    )
    partials = from_arrow_schema(plan.schema, prefer_timestamp_ntz=True)
    windows = windows_schema(partials, step.aggregation)
    if options.emits_updates:
        windows = StructType([StructField(ROW_KIND, StringType()), *windows])
    told = observed(told, step.number)
    decode = _decode(windows, stage.late_row)
    return told.mapInArrow(decode, _with_marks(windows, stage.late_row))


def _operator_spec(
    local: StreamLocalStep,
    aggregation: WindowAggregation,
    plan: LocalPlan,
    options: StreamOptions,
) -> SessionSpec | WindowSpec:
    partials, rules = merged_partials(plan), watermark_rules(local, options)
    by_clock, run = "proctime" in _time_types(local), secrets.token_hex(4)
    n_sources = len(local.sources)
    if isinstance(aggregation.window, SessionWindow):
        return SessionSpec(aggregation, partials, ROW_COUNT, n_sources, rules, by_clock, run)
    updates = None
    if options.emits_updates:
        updates = UpdateRules(
            options.allowed_lateness_us,
            _rule(options.early_fire),
            _rule(options.late_fire),
            ROW_KIND,
        )
    shared = one_reader(aggregation, partials)
    return WindowSpec(shared, ROW_COUNT, n_sources, rules, updates, by_clock, run)


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
