"""Compute whole windows, a micro-batch at a time and without state.

All results of a window leave its operator in one micro-batch. So a task that has all rows of some
windows (or of some windows and keys) can group, rank and join them; its memory holds what those
windows emit in this micro-batch. Rows that only carry a watermark pass through to downstream
operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.arrow.evaluate import filter_mask
from runtime.compute.counters import count
from runtime.compute.kernels.columns import normalise_floats, one_chunk
from runtime.compute.kernels.merge import merge_slices
from runtime.compute.kernels.ranks import order_codes, ranked_rows
from runtime.local.stage import BufferPlan, aggregate
from runtime.spec.aggregates import WindowAggregation
from runtime.spec.expressions import Expression, columns_of
from runtime.spec.stream import KEEP, LATE_ROW, ROW_KIND, SOURCE, TIME, WATERMARK
from runtime.spec.stream_steps import StreamJoinStep, StreamRankStep
from runtime.streaming.operators.row_changes import differences

IntArray = npt.NDArray[np.int64]

# Whether a row is from the left side of a join
IS_LEFT = "$is_left"

Batches = Iterable[pa.RecordBatch]
# All kept rows of a task (at least one) -> table with the result columns
Evaluate = Callable[[pa.Table], pa.Table]

_JOINS = {
    "Inner": "inner",
    "LeftOuter": "left outer",
    "RightOuter": "right outer",
    "FullOuter": "full outer",
    "LeftSemi": "left semi",
    "LeftAnti": "left anti",
}


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


def rank_rows(table: pa.Table, step: StreamRankStep) -> pa.Table:
    """Return the rows with a requested rank, and the rank as a column; see StreamRankStep.

    If the rows have ROW_KIND, they are windows before and after a change, and the result has the
    changes of the ranked rows.
    """
    if ROW_KIND in table.column_names:
        return differences(table, partial(rank_rows, step=step))
    order = [
        order_codes(table.column(key.column), key.is_descending, key.nulls_first)
        for key in step.order
    ]
    rows, ranks = ranked_rows(
        [table.column(name) for name in step.by],
        order,
        table.num_rows,
        step.function,
        (step.first, step.last),
    )
    result = table.take(pa.array(rows))
    return result.append_column(step.rank_column, pa.array(ranks.astype(np.int32)))


def join_sides(table: pa.Table, step: StreamJoinStep, right_columns: Sequence[str]) -> pa.Table:
    """Join the rows of both sides. NULL equals nothing.

    Args:
        table: Rows of both sides, marked by IS_LEFT. The other side's columns are NULL.
        step: Join step.
        right_columns: Columns of the right side.
    """
    is_left = table.column(IS_LEFT)
    of_right = set(right_columns)
    left = table.filter(is_left).select([n for n in table.column_names if n not in of_right])
    right = table.filter(pc.invert(is_left)).select(list(right_columns))
    left_keys, right_keys = _key_columns(left, right, (*step.window_keys, *step.keys))
    place = pa.table([*left_keys, _row_numbers(left)], [*_names("l", left_keys), "left"])
    other = pa.table([*right_keys, _row_numbers(right)], [*_names("r", right_keys), "right"])
    pairs = place.join(
        other,
        keys=_names("l", left_keys),
        right_keys=_names("r", right_keys),
        join_type=_JOINS["Inner" if step.condition is not None else step.join_type],
        coalesce_keys=False,
        use_threads=False,
    )
    if step.condition is not None:
        places = _matching_pairs(step.condition, pairs, left, right)
        pairs = _add_unmatched_rows(*places, left.num_rows, right.num_rows, step.join_type)
    result = left.take(pairs.column("left"))
    if step.join_type not in ("LeftSemi", "LeftAnti"):
        right_rows = right.take(pairs.column("right"))
        for name in right_columns:
            result = result.append_column(name, right_rows.column(name))
    return result


# Pairs whose condition is evaluated at once
_PAIRS = 100_000


def _matching_pairs(
    condition: Expression, pairs: pa.Table, left: pa.Table, right: pa.Table
) -> tuple[IntArray, IntArray]:
    """Return the pairs whose condition is true, as row numbers on both sides."""
    read = columns_of(condition)
    sides = [side.select([n for n in side.column_names if n in read]) for side in (left, right)]
    matches: list[tuple[IntArray, IntArray]] = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    for start in range(0, pairs.num_rows, _PAIRS):
        places = [one_chunk(pairs.column(n).slice(start, _PAIRS)) for n in ("left", "right")]
        side_rows = [side.take(place) for side, place in zip(sides, places, strict=True)]
        columns = {name: one_chunk(t.column(name)) for t in side_rows for name in t.column_names}
        # the condition may read no column; the batch needs one for its row count
        batch = pa.RecordBatch.from_pydict({**columns, "$place": places[0]})
        holds = filter_mask([condition], batch)
        matching = [place.filter(holds).to_numpy(zero_copy_only=False) for place in places]
        matches.append((matching[0], matching[1]))
    return np.concatenate([f[0] for f in matches]), np.concatenate([f[1] for f in matches])


def _add_unmatched_rows(
    left: IntArray, right: IntArray, n_left: int, n_right: int, join_type: str
) -> pa.Table:
    """Complete the pairs for this join type. NULL stands for no row of that side."""
    lone_left = np.setdiff1d(np.arange(n_left), left)
    lone_right = np.setdiff1d(np.arange(n_right), right)
    if join_type in ("LeftSemi", "LeftAnti"):
        return pa.table({"left": np.unique(left) if join_type == "LeftSemi" else lone_left})
    parts = [pa.table({"left": left, "right": right})]
    if join_type in ("LeftOuter", "FullOuter"):
        parts.append(pa.table({"left": lone_left, "right": pa.nulls(len(lone_left), pa.int64())}))
    if join_type in ("RightOuter", "FullOuter"):
        no_left = pa.nulls(len(lone_right), pa.int64())
        parts.append(pa.table({"left": no_left, "right": lone_right}))
    return pa.concat_tables(parts)


def _key_columns(
    left: pa.Table, right: pa.Table, pairs: Sequence[tuple[str, str]]
) -> tuple[list[pa.Array], list[pa.Array]]:
    """Return the keys of both sides, cast to common types."""
    keys: tuple[list[pa.Array], list[pa.Array]] = ([], [])
    for names in pairs:
        columns = [one_chunk(side.column(n)) for side, n in zip((left, right), names, strict=True)]
        types = [pa.schema([("key", column.type)]) for column in columns]
        common = pa.unify_schemas(types, promote_options="permissive").field(0).type
        for side, column in zip(keys, columns, strict=True):
            side.append(normalise_floats(column.cast(common)))
    return keys


def _row_numbers(table: pa.Table) -> pa.Array:
    return pa.array(np.arange(table.num_rows))


def _names(prefix: str, columns: Sequence[pa.Array]) -> list[str]:
    return [f"{prefix}{number}" for number in range(len(columns))]
