"""Build DataFrames from steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from runtime.compute.arrow.projection import projection_schema, window_projector
from runtime.compute.kernels.merge import merge_slices
from runtime.engines.spark_batch.gap_fill import gaps_filled
from runtime.engines.spark_batch.global_aggregate import windows_of
from runtime.engines.spark_batch.local_stage import LocalStage, local_stage
from runtime.engines.spark_batch.shared import SharedBlobs, SharedPartials, shared_blobs
from runtime.frames.aggregations import windows_schema
from runtime.frames.arrow_rows import ArrowRows, BatchRows
from runtime.frames.blobs import BLOB_DDL, Emit, bucket_cut, place_blobs
from runtime.frames.expand import expand
from runtime.frames.meter import Meter, Wrap, unmeasured
from runtime.frames.scan_counts import StatementScanCounts
from runtime.frames.views import sql_dataframe, temporary_view
from runtime.local.catalyst import local_aggregate_sql
from runtime.plan.arrow_rows import FilledRows, WindowedRows
from runtime.plan.exchange import (
    ExchangeStep,
    MergedWindows,
    SharedExchangeStep,
    SharedSlicesStep,
    WindowProjection,
)
from runtime.plan.local import Catalyst, LocalStep, SqlRows, is_local
from runtime.plan.nodes import MeasuredStep, PlanNode, SqlStep
from runtime.spec.aggregates import Accumulator, WindowAggregation
from runtime.spec.expressions import ColumnRef
from runtime.spec.scan import DEFAULT_BUFFER_BYTES

# A task of the global stage holds one bucket in memory. More buckets than tasks keep buckets small.
BUCKETS_PER_PARTITION = 4
# Buffers' worth of partials merged at once; merging takes a few times their memory
_MERGED_BUFFERS = 2


@dataclass(frozen=True)
class ExecutionOptions:
    """Options of execution.

    Attributes:
        partitions: Default number of tasks of an exchange; None for Spark's shuffle partitions.
        buckets: Default number of buckets; None for a few per task.
        meter: Counters of the operators; None if nothing is counted.
        buffer_bytes: Maximum bytes of partials that a task buffers before it sends them.
        scan_counts: Row counters of scans.
    """

    partitions: int | None = None
    buckets: int | None = None
    meter: Meter | None = None
    buffer_bytes: int = DEFAULT_BUFFER_BYTES
    scan_counts: StatementScanCounts | None = None

    @property
    def bucket_bytes(self) -> int:
        """Maximum bytes of partials that a task merges at once."""
        return _MERGED_BUFFERS * self.buffer_bytes

    def wrap(self, label: str) -> Wrap:
        """Return the wrapper that measures a Python stage, or none."""
        return self.meter.wrap(label) if self.meter is not None and label else unmeasured


def dataframe(
    spark: SparkSession,
    step: PlanNode,
    options: ExecutionOptions = ExecutionOptions(),
    shared: SharedPartials | None = None,
) -> DataFrame:
    """Return the DataFrame that computes `step`, without running it.

    Args:
        spark: Spark session.
        step: Step to compute.
        options: Execution options.
        shared: Partials that `step` shares with other steps that run together.
    """
    return _Building(spark, options, shared or SharedPartials()).dataframe(step)


# Function that returns the projection of merged windows from Spark's types of their columns; None
# if Spark has to compute it
Project = Callable[[Mapping[str, str]], WindowProjection | None]


def batch_rows(
    spark: SparkSession, step: PlanNode, project: Project, options: ExecutionOptions
) -> BatchRows:
    """Return the rows that `step` computes.

    Args:
        spark: Spark session.
        step: Step to compute.
        project: Function that returns the projection of the last merged windows.
        options: Execution options.
    """
    building = _Building(spark, options, SharedPartials())
    last = _last_windows(step)
    if last is None:
        return BatchRows.of(building.dataframe(step))
    windows = building.global_input(last)
    types = {field.name: field.dataType.simpleString() for field in windows.schema.fields}
    projection = project(types)
    if projection is None:
        return BatchRows.of(building.dataframe(step))
    end = windows.aggregation.window_end
    to_windows = windows_of(windows.aggregation, windows.shared, options.bucket_bytes)
    make = window_projector(to_windows, projection, end)
    make_whole = None
    if windows.has_whole:
        merge = partial(merge_slices, spec=windows.aggregation)
        make_whole = window_projector(merge, projection, end)
    arrow = ArrowRows(windows.blobs, make, projection_schema(projection), make_whole)
    schema = from_arrow_schema(arrow.schema, prefer_timestamp_ntz=True)
    never_null = {field.name for field in windows.schema.fields if not field.nullable}
    if end in never_null and projection.window_time is not None:
        never_null.add(projection.window_time)
    for column, (_, expression) in zip(schema.fields, projection.columns, strict=True):
        column.nullable = not isinstance(expression, ColumnRef) or expression.name not in never_null
    return BatchRows(spark, schema, lambda: building.dataframe(step), arrow)


def _last_windows(step: PlanNode) -> MergedWindows | None:
    """Return the global step if all rows of a step come directly from its windows."""
    while isinstance(step, SqlStep) and len(step.inputs) == 1:
        (step,) = step.inputs
    return step if isinstance(step, MergedWindows) else None


@dataclass(frozen=True)
class _GlobalInput:
    """Input of a global stage, and its output schema.

    Attributes:
        blobs: Function that returns the input, see `ArrowRows.input`.
        aggregation: Keys, window and accumulators.
        shared: Part of shared partials to read; None if they are not shared.
        schema: Output schema.
        has_whole: Whether some windows are known to have all rows in one split.
    """

    blobs: Callable[[Emit | None], DataFrame]
    aggregation: WindowAggregation
    shared: SharedSlicesStep | None
    schema: StructType
    has_whole: bool = False


@dataclass(frozen=True)
class _Building:
    """Construction of one DataFrame. Shared local stages and exchanges are built once."""

    spark: SparkSession
    options: ExecutionOptions
    shared: SharedPartials
    inputs: dict[int, _GlobalInput] = field(default_factory=dict)

    def dataframe(self, step: PlanNode) -> DataFrame:
        match step:
            case SqlStep():
                return sql_dataframe(self.spark, step, self.dataframe)
            case WindowedRows():
                with temporary_view(self.spark, self.dataframe(step.input)) as source:
                    return expand(self.spark, step, source)
            case LocalStep() if is_local(step, SqlRows, Catalyst):
                with temporary_view(self.spark, self.dataframe(step.source.input)) as source:
                    partials = self.spark.sql(local_aggregate_sql(step, source))
                return self._observe(partials, step.label)
            case FilledRows():
                return gaps_filled(self.dataframe(step.input), step)
            case MeasuredStep():
                return self._observe(self.dataframe(step.input), step.label)
            case MergedWindows():
                return self._windows(step)
        raise TypeError(f"{type(step).__name__} has no batch form")

    def _windows(self, step: MergedWindows) -> DataFrame:
        source = self.global_input(step)
        to_windows = windows_of(source.aggregation, source.shared, self.options.bucket_bytes)
        measured = self.options.wrap(step.label)(to_windows)
        return source.blobs(None).mapInArrow(measured, source.schema)

    def global_input(self, step: MergedWindows) -> _GlobalInput:
        """Return the input of a step's global stage, cached per step."""
        if id(step) not in self.inputs:
            self.inputs[id(step)] = self._global_input(step)
        return self.inputs[id(step)]

    def _global_input(self, step: MergedWindows) -> _GlobalInput:
        exchanged, options = step.input, self.options
        aggregation = step.aggregation
        if isinstance(exchanged, SharedSlicesStep):
            shared, schema = self.shared.read(exchanged, self._shared_blobs)
            schema = windows_schema(schema, aggregation)
            return _GlobalInput(lambda _: shared, aggregation, exchanged, schema)
        partitions, buckets = _exchange_size(self.spark, exchanged, options)
        local = self._local_stage(exchanged, aggregation.accumulators)
        cut = bucket_cut(exchanged.keys, buckets)

        @cache
        def blobs(emit: Emit | None) -> DataFrame:
            return place_blobs(local.cut(cut, BLOB_DDL, options.wrap, emit), partitions)

        schema = windows_schema(local.schema, aggregation)
        return _GlobalInput(blobs, aggregation, None, schema, local.run_emitting is not None)

    def _shared_blobs(self, step: SharedExchangeStep) -> SharedBlobs:
        partitions, buckets = _exchange_size(self.spark, step, self.options)
        return shared_blobs(self._local_stage(step), step, buckets, partitions, self.options.wrap)

    def _local_stage(
        self, step: ExchangeStep | SharedExchangeStep, accumulators: Sequence[Accumulator] = ()
    ) -> LocalStage:
        buffer_bytes, counts = self.options.buffer_bytes, self.options.scan_counts
        return local_stage(self.spark, step, self.dataframe, buffer_bytes, counts, accumulators)

    def _observe(self, frame: DataFrame, label: str) -> DataFrame:
        if self.options.meter is None or not label:
            return frame
        return self.options.meter.observe(label, frame)


def _exchange_size(
    spark: SparkSession, step: ExchangeStep | SharedExchangeStep, options: ExecutionOptions
) -> tuple[int, int]:
    """Return the number of tasks and the number of buckets of an exchange."""
    if not step.keys:
        return 1, 1
    partitions = step.partitions or options.partitions
    if partitions is None:
        partitions = int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    buckets = step.buckets or options.buckets or partitions * BUCKETS_PER_PARTITION
    return min(partitions, buckets), buckets
