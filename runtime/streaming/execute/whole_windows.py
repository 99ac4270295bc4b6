"""Run steps on whole windows: send the rows of a window to one task, then compute in Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import IntegerType, StructField, StructType

from runtime.frames.aggregations import windows_schema
from runtime.frames.blobs import map_in_arrow
from runtime.frames.meter import Wrap
from runtime.frames.views import temporary_view
from runtime.local.projection import spark_types
from runtime.local.stage import buffer_plan
from runtime.local.streaming.plan import local_sql
from runtime.names import quote_name
from runtime.plan.arrow_rows import JoinedRows, RankedRows
from runtime.plan.nodes import PlanNode
from runtime.plan.streams import StreamRegroupStep
from runtime.spark.versions.arrow_types import to_arrow_type
from runtime.spark.workers import prepare_worker
from runtime.spec.stream import KEEP, LATE_ROW
from runtime.streaming.execute.output import MARKS
from runtime.streaming.operators.whole_windows import (
    IS_LEFT,
    Batches,
    Evaluate,
    evaluate_windows,
    join_sides,
    ranked_rows,
    regroup_rows,
)

_WINDOW = "$window"

Child = Callable[[PlanNode], DataFrame]


def regroup(
    spark: SparkSession, step: StreamRegroupStep, child: Child, partitions: int, wrap: Wrap
) -> DataFrame:
    """Group results of windows again; see StreamRegroupStep.

    Args:
        spark: Session.
        step: Node.
        child: Runs the steps below.
        partitions: Parallelism.
        wrap: Wraps a Python stage to measure it.

    Raises:
        AnalysisError: An argument has a type that its function does not accept.
    """
    local = step.input
    with temporary_view(spark, child(local.source.input)) as source:
        sql, columns = local_sql(local, source)
        rows = spark.sql(sql)
    plan = buffer_plan(local, columns, spark_types(rows))
    partials = from_arrow_schema(plan.schema, prefer_timestamp_ntz=True)
    bounds = (step.aggregation.window_start, step.aggregation.window_end)
    fields = [f for f in windows_schema(partials, step.aggregation) if f.name not in bounds]
    exchanged = _exchange(rows, step.aggregation.keys, partitions)
    evaluate = partial(regroup_rows, plan=plan, aggregation=step.aggregation)
    return _evaluate(exchanged, fields, evaluate, wrap)


def rank(step: RankedRows, child: Child, partitions: int, wrap: Wrap) -> DataFrame:
    """Rank results of windows; see `RankedRows`. Arguments as in `regroup`."""
    rows = child(step.input)
    fields = [*_data_fields(rows), StructField(step.column, IntegerType())]
    exchanged = rows if step.is_spread else _exchange(rows, step.by, partitions)
    return _evaluate(exchanged, fields, partial(ranked_rows, of=step), wrap)


def join(step: JoinedRows, child: Child, partitions: int, wrap: Wrap) -> DataFrame:
    """Join results of equal windows; see `JoinedRows`. Arguments as in `regroup`."""
    left, right = child(step.left), child(step.right)
    right_fields = _data_fields(right)
    fields = _data_fields(left)
    if step.join_type not in ("LeftSemi", "LeftAnti"):
        fields += right_fields
    sides = []
    for position, rows in enumerate((left, right)):
        window = F.xxhash64(*(F.col(quote_name(pair[position])) for pair in step.window_keys))
        sides.append(rows.withColumn(IS_LEFT, F.lit(position == 0)).withColumn(_WINDOW, window))
    # the watermark comes from the left side
    needed = F.col(quote_name(KEEP))
    if LATE_ROW in right.columns:
        needed |= F.col(quote_name(LATE_ROW)).isNotNull()
    both = sides[0].unionByName(sides[1].where(needed), allowMissingColumns=True)
    evaluate = partial(join_sides, of=step, right_columns=[f.name for f in right_fields])
    return _evaluate(_exchange(both, (_WINDOW,), partitions), fields, evaluate, wrap)


def _exchange(rows: DataFrame, by: tuple[str, ...], partitions: int) -> DataFrame:
    return rows.repartition(partitions, *(F.col(quote_name(name)) for name in by))


def _data_fields(rows: DataFrame) -> list[StructField]:
    """Return the columns of a DataFrame except control columns and LATE_ROW, all nullable."""
    others = (*(mark.name for mark in MARKS), LATE_ROW)
    return [StructField(f.name, f.dataType) for f in rows.schema if f.name not in others]


def _evaluate(
    rows: DataFrame, fields: Sequence[StructField], evaluate: Evaluate, wrap: Wrap
) -> DataFrame:
    result_fields = [StructField(field.name, field.dataType) for field in fields]
    if LATE_ROW in rows.columns:
        result_fields.append(StructField(LATE_ROW, rows.schema[LATE_ROW].dataType))
    arrow = pa.schema([(f.name, to_arrow_type(f.dataType)) for f in result_fields])

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        yield from evaluate_windows(batches, arrow, evaluate)

    return map_in_arrow(rows, wrap(run), StructType([*result_fields, *MARKS]))
