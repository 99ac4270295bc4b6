"""Compute whole windows, a micro-batch at a time and without state.

All results of a window leave its operator in one micro-batch. So a task that has all rows of some
windows (or of some windows and keys) can group, rank and join them; its memory holds what those
windows emit in this micro-batch. Rows that only carry a watermark pass through to downstream
operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.arrow.batches import as_batch
from runtime.compute.counters import count
from runtime.compute.kernels.joins import join_rows
from runtime.compute.kernels.merge import merge_slices
from runtime.compute.kernels.ranks import rank_rows
from runtime.local.stage import BufferPlan, aggregate
from runtime.plan.arrow_rows import JoinedRows, RankedRows
from runtime.spec.aggregates import WindowAggregation
from runtime.spec.stream import KEEP, LATE_ROW, ROW_KIND, SOURCE, TIME, WATERMARK
from runtime.streaming.operators.row_changes import differences

# Whether a row is from the left side of a join
IS_LEFT = "$is_left"

Batches = Iterable[pa.RecordBatch]
# All kept rows of a task (at least one) -> table with the result columns
Evaluate = Callable[[pa.Table], pa.Table]


def evaluate_windows(
    batches: Batches, schema: pa.Schema, evaluate: Evaluate
) -> Iterator[pa.RecordBatch]:
    """Evaluate a task's kept rows together, and pass the others through.

    Args:
        batches: Rows with KEEP, SOURCE and WATERMARK; also LATE_ROW if `schema` ends with it.
        schema: Columns of the result, without those three.
        evaluate: Computes the columns of `schema` except LATE_ROW.

    Yields:
        Batches of `schema` and KEEP, SOURCE, WATERMARK.
    """
    has_late = LATE_ROW in schema.names
    kept_rows: list[pa.RecordBatch] = []
    for batch in batches:
        is_kept = batch.column(KEEP).fill_null(False)
        passing = batch.filter(pc.invert(is_kept))
        kept_rows.append((batch.drop_columns([LATE_ROW]) if has_late else batch).filter(is_kept))
        if n_passing := passing.num_rows:
            columns = [pa.nulls(n_passing, field.type) for field in schema]
            if has_late:
                columns[-1] = passing.column(LATE_ROW)
            marks = passing.column(WATERMARK), passing.column(SOURCE)
            yield marked_batch(columns, schema, *marks)
    n_kept = sum(batch.num_rows for batch in kept_rows)
    count("rows_in", n_kept)
    if n_kept == 0:
        return
    result_schema = schema.remove(len(schema) - 1) if has_late else schema
    for part in evaluate(pa.Table.from_batches(kept_rows)).select(result_schema.names).to_batches():
        late = [pa.nulls(part.num_rows, schema.field(LATE_ROW).type)] if has_late else []
        yield marked_batch([*part.columns, *late], schema, None)


def marked_batch(
    columns: list[pa.Array],
    schema: pa.Schema,
    marks: pa.Array | None,
    sources: pa.Array | None = None,
) -> pa.RecordBatch:
    """Return a batch of `schema` and KEEP, SOURCE, WATERMARK.

    Args:
        columns: Columns of `schema`, with its types or types that can be cast to them.
        schema: Columns before the control columns.
        marks: Watermarks of rows that are not kept. None: all rows are kept and have no watermark.
        sources: Source of each row. None: all rows are from the only source.
    """
    n_rows = len(columns[0]) if marks is None else len(marks)
    source = pa.repeat(pa.scalar(0, pa.int32()), n_rows) if sources is None else sources
    watermark = pa.nulls(n_rows, pa.int64()) if marks is None else marks
    plain = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(
        [*plain, pa.repeat(marks is None, n_rows), source, watermark],
        names=[*schema.names, KEEP, SOURCE, WATERMARK],
    )


def regroup_rows(table: pa.Table, plan: BufferPlan, aggregation: WindowAggregation) -> pa.Table:
    """Group rows by the plan's keys. There must be at least one row.

    Args:
        table: Keys, arguments and conditions as the plan names them.
        plan: Aggregates. Its window is ignored: all rows are in one.
        aggregation: How partials are merged.

    Raises:
        ExecutionError: A sum overflows its type.
    """
    rows = (
        plan.rows(
            dict(zip(batch.schema.names, batch.columns, strict=True))
            | {TIME: pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows)}
        )
        for batch in table.to_batches()
    )
    batches = list(aggregate(plan, rows, pa.Table.to_batches))
    return pa.Table.from_batches(list(merge_slices(pa.Table.from_batches(batches), aggregation)))


def ranked_rows(table: pa.Table, of: RankedRows) -> pa.Table:
    """Return the rows with a requested rank, and the rank as a column.

    If the rows have ROW_KIND, they are windows before and after a change, and the result has the
    changes of the ranked rows.
    """
    if ROW_KIND in table.column_names:
        return differences(table, partial(rank_rows, of=of))
    return rank_rows(table, of)


def join_sides(table: pa.Table, of: JoinedRows, right_columns: Sequence[str]) -> pa.Table:
    """Join the rows of both sides. NULL equals nothing.

    Args:
        table: Rows of both sides, marked by IS_LEFT. The other side's columns are NULL.
        of: Join.
        right_columns: Columns of the right side.
    """
    is_left = table.column(IS_LEFT)
    of_right = set(right_columns)
    left = table.filter(is_left).select([n for n in table.column_names if n not in of_right])
    right = table.filter(pc.invert(is_left)).select(list(right_columns))
    is_filter = of.join_type in ("LeftSemi", "LeftAnti")
    fields = left.schema if is_filter else [*left.schema, *right.schema]
    schema = pa.schema([field.with_nullable(True) for field in fields])
    return pa.Table.from_batches(join_rows(as_batch(left), as_batch(right), of, schema), schema)
