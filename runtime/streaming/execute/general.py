"""Run the general window operator over a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, TimestampNTZType

from runtime.compute.arrow.blobs import pieces, split_by_bucket
from runtime.compute.kernels.conversions import one_chunk
from runtime.compute.kernels.keys import bucket_of
from runtime.errors import AnalysisError
from runtime.frames.blobs import map_in_arrow
from runtime.frames.views import Bounded, temporary_view
from runtime.frames.wall_clock import wall_clock_us_sql
from runtime.local.streaming.messages import MESSAGE_DDL, Partials, encode
from runtime.local.streaming.plan import control_sql
from runtime.local.streaming.progress import TaskProgress, is_first_task
from runtime.names import quote_name
from runtime.plan.streams import StreamRowsStep
from runtime.spark.versions.arrow_types import to_arrow_schema
from runtime.spark.workers import prepare_worker
from runtime.spec.stream import KEEP, PROCESSING_TIME, SOURCE, TIME, WATERMARK
from runtime.streaming.execute.output import MARKS, decode_output, operator_output
from runtime.streaming.execute.steps import streaming_dataframe
from runtime.streaming.general.operator import WindowJob
from runtime.streaming.operator_specs import common_spec
from runtime.streaming.operators.general import POSITION, GeneralSpec
from runtime.streaming.options import StreamOptions
from runtime.streaming.state.cells import n_positions
from runtime.streaming.status import report_status
from runtime.streaming.watermarks import idle_advance

_OWN = (KEEP, SOURCE, WATERMARK, TIME)


def general_stream(
    spark: SparkSession,
    step: StreamRowsStep,
    keys: tuple[str, ...],
    job: WindowJob,
    output: StructType,
    options: StreamOptions,
    number: int,
    bounded: Bounded,
) -> DataFrame:
    """Run a window job over a stream. The result is append-only.

    Args:
        spark: Session.
        step: Input rows.
        keys: Key columns. May be empty.
        job: Window job. It must be picklable.
        output: Columns of a result.
        options: Options of the stream.
        number: Number of the operator in the query.
        bounded: Runs steps that read no stream.

    Returns:
        The keys, `window_start` and `window_end` as TIMESTAMP_NTZ (NULL for a window without
        bounds), and the columns of `output`.

    Raises:
        AnalysisError: Python does not know the time zone.
    """
    may_wait = may_be_idle(step, options)
    is_processing_time = any(source.time_type == "proctime" for source in step.sources)
    has_processing_time = is_processing_time or may_wait or job.needs_processing_time
    with temporary_view(spark, streaming_dataframe(spark, step.input, options, bounded)) as source:
        # Do not evaluate expressions in rows that only carry a watermark.
        time = "0L" if step.time is None else wall_clock_us_sql(*step.time)
        timed = f"CASE WHEN {quote_name(KEEP)} THEN {time} END AS {quote_name(TIME)}"
        names = [quote_name(name) for name in spark.table(source).columns if name not in _OWN]
        rows = spark.sql(control_sql([timed, *names], source, has_processing_time))
    rows = options.control_sources.add_to(
        rows, is_cascade=step.is_cascade, has_processing_time=has_processing_time
    )
    bounds = [StructField(name, TimestampNTZType()) for name in ("window_start", "window_end")]
    key_fields = [StructField(key, rows.schema[key].dataType) for key in keys]
    result = StructType([*key_fields, *bounds, *output])
    schema = to_arrow_schema(result)
    numbers, heads = options.numbers_of_groups(bool(keys))
    n_places = n_positions(len(numbers))
    operator = GeneralSpec(
        job,
        keys,
        schema,
        common_spec(step, options, number, keys),
        step.time_zone,
        n_places // len(numbers),
    )
    messages = map_in_arrow(
        rows, _to_groups(keys, len(step.sources), numbers, heads, n_places), MESSAGE_DDL
    )
    emitted = report_status(operator_output(messages, operator, step, options), number)
    results = decode_output(emitted.where(F.col("windows").isNotNull()), result)
    return results.drop(*(mark.name for mark in MARKS))


def _to_groups(
    keys: tuple[str, ...],
    n_sources: int,
    numbers: tuple[int, ...],
    heads: tuple[int, ...],
    n_places: int,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Send rows to the key groups of their keys, and the task's watermarks to the head groups."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        progress = TaskProgress(n_sources, numbers, heads)
        for batch in batches:
            if batch.num_rows == 0:
                continue
            progress.observe(batch)
            timed = progress.drop_untimed(batch)
            if timed.num_rows == 0:
                continue
            columns = [one_chunk(timed.column(key)) for key in keys]
            places = bucket_of(columns, timed.num_rows, n_places)
            marks = [
                n for n in (KEEP, SOURCE, WATERMARK, PROCESSING_TIME) if n in timed.schema.names
            ]
            rows = pa.Table.from_batches([timed]).drop_columns(marks)
            rows = rows.append_column(POSITION, pa.array(places, pa.int32()))
            for group, part in split_by_bucket(rows, places // (n_places // len(numbers))):
                for piece in pieces(pa.Table.from_batches([part])):
                    yield encode([(numbers[group], Partials(piece))])
        yield progress.control(wakes=is_first_task())

    return run


def may_be_idle(step: StreamRowsStep, options: StreamOptions) -> bool:
    """Return whether sources of an operator can be idle, so that it reads the clock."""
    has_rule = options.idle_timeout_us is not None or bool(idle_advance(step.sources))
    return (has_rule or options.has_clock) and not step.is_cascade


def check_general_key(name: str, type_: str) -> None:
    """Refuse a key column whose values cannot be matched exactly.

    Args:
        name: Key column.
        type_: Its type, as in Spark's DDL.

    Raises:
        AnalysisError: The column holds floating-point numbers, or values of several parts.
    """
    if type_ in ("float", "double") or type_.startswith(
        ("array", "map", "struct", "variant", "interval")
    ):
        raise AnalysisError(
            f"the key `{name}` is {type_}, which is not supported as a key of a stream",
            subjects=(name,),
            hint="CAST it to DECIMAL or STRING, or use a part of it",
        )
