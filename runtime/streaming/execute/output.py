"""Run a window operator as a streaming DataFrame, and decode its output into rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from runtime.compute.arrow.blobs import from_blobs
from runtime.compute.wall_clock import is_known_zone
from runtime.errors import AnalysisError
from runtime.frames.meter import TaskFigures
from runtime.plan.local import Streaming
from runtime.plan.streams import StreamRowsStep
from runtime.spark.shipping import import_shipped_files
from runtime.spark.versions.arrow_types import to_arrow_type
from runtime.spark.workers import prepare_worker
from runtime.spec.stream import ALL_SOURCES, KEEP, LATE_ROW, SOURCE, WATERMARK
from runtime.streaming.execute.task_rows import OUTPUT_DDL
from runtime.streaming.operators.update_pairs import number_updates, settle_kinds
from runtime.streaming.operators.whole_windows import marked_batch
from runtime.streaming.options import StreamOptions
from runtime.streaming.processor import WindowProcessor
from runtime.streaming.status import STATUS
from runtime.streaming.task import OperatorSpec, TaskSpec
from runtime.streaming.watermarks import idle_advance

# State is on local disk; with a changelog instead of snapshots, micro-batches end sooner.
_STATE_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
# Control columns of rows
MARKS = (
    StructField(KEEP, BooleanType()),
    StructField(SOURCE, IntegerType()),
    StructField(WATERMARK, LongType()),
)


def operator_output(
    messages: DataFrame,
    operator: OperatorSpec,
    step: Streaming | StreamRowsStep,
    options: StreamOptions,
    figures: TaskFigures | None = None,
    names: tuple[tuple[str, str], ...] = (),
) -> DataFrame:
    """Run an operator and return its output, with the columns of OUTPUT_DDL.

    Args:
        messages: Rows of MESSAGE_DDL.
        operator: Operator.
        step: Step that produces the messages.
        options: Options of the stream.
        figures: Where tasks record their metrics. None means no metrics.
        names: Column names of the messages and their names in state.

    Raises:
        AnalysisError: Only Java knows the time zone, which instants and the clock need.
    """
    types = tuple(source.time_type for source in step.sources)
    needs_zone = any(type_ != "timestamp_ntz" for type_ in types) or idle_advance(step.sources)
    if needs_zone and not is_known_zone(step.time_zone):
        raise AnalysisError(
            f"the time zone {step.time_zone} exists in Java only",
            hint="SET 'table.local-time-zone' to a region such as Europe/Berlin",
        )
    for key, value in _STATE_SETTINGS.items():
        messages.sparkSession.conf.set(key, value)
    import_shipped_files(messages.sparkSession)
    numbers, heads = options.numbers_of_groups(bool(operator.common.by))
    spec = TaskSpec(operator, types, step.time_zone, numbers, heads, options.bucket_bytes, names)
    processor = WindowProcessor(spec, figures)
    groups = messages.groupBy("key_group")
    return groups.transformWithState(processor, OUTPUT_DDL, "Append", "None")


def decode_output(
    output: DataFrame,
    columns: StructType,
    late: DataType | None = None,
    *,
    numbers_updates: bool = False,
) -> DataFrame:
    """Decode the output of an operator into rows.

    Args:
        output: Rows with `windows` and `watermark_us`, as in OUTPUT_DDL, and with STATUS if it
            includes status rows.
        columns: Columns of a result.
        late: Type of late rows. None means that rows are never late.
        numbers_updates: Whether to number updates, for `settled`.

    Returns:
        The columns (all nullable), LATE_ROW if there are late rows, and MARKS. A late row has the
        watermark that it missed. A status row has only the watermark; at the end of input its
        source is ALL_SOURCES.
    """
    result_fields = [StructField(field.name, field.dataType) for field in columns]
    if late is not None:
        result_fields.append(StructField(LATE_ROW, late))
    schema = pa.schema([(f.name, to_arrow_type(f.dataType)) for f in result_fields])

    def part_of(part: pa.RecordBatch, missed: pa.Scalar) -> pa.RecordBatch:
        n_rows = part.num_rows
        if missed.is_valid:
            nulls = [pa.nulls(n_rows, field.type) for field in list(schema)[:-1]]
            return marked_batch([*nulls, part.column(0)], schema, pa.repeat(missed, n_rows))
        unset = [pa.nulls(n_rows, schema.field(LATE_ROW).type)] if late is not None else []
        return marked_batch([*part.columns, *unset], schema, None)

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        n_updates = 0
        for batch in batches:
            blobs = batch.column("windows")
            marks = batch.column("watermark_us")
            for blob, mark in zip(blobs, marks, strict=True):
                if blob.is_valid:
                    for part in from_blobs([blob.as_buffer()]).to_batches():
                        if numbers_updates and not mark.is_valid:
                            part, n_updates = number_updates(part, n_updates)
                        yield part_of(part, mark)
            is_status = blobs.is_null()
            marks, has_ended = (c.filter(is_status) for c in (marks, batch.column("has_ended")))
            if n_rows := len(marks):
                end = pa.scalar(ALL_SOURCES, pa.int32())
                source = pc.if_else(has_ended.fill_null(False), end, pa.scalar(0, pa.int32()))
                yield marked_batch(
                    [pa.nulls(n_rows, f.type) for f in schema], schema, marks, source
                )

    is_known = STATUS in output.columns
    has_ended = F.col(f"`{STATUS}`.has_ended") if is_known else F.lit(None).cast(BooleanType())
    rows = output.select("windows", "watermark_us", has_ended.alias("has_ended"))
    return rows.mapInArrow(decode, StructType([*result_fields, *MARKS]))


def settled(changes: DataFrame) -> DataFrame:
    """Return changes above filters without the numbers of updates; see `settle_kinds`."""

    def settle(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        yield from settle_kinds(batches)

    return changes.mapInArrow(settle, changes.schema)
