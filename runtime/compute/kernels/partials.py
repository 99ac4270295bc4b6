"""Aggregate rows to partials, and merge partials of equal key and slice, by group.

The accumulators define the meaning of functions; this module assigns values to groups.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.accumulators import accumulator
from runtime.compute.accumulators.base import (
    AccumulatorState,
    ColumnarAccumulator,
    ElementwiseAccumulator,
)
from runtime.compute.accumulators.extrema import INT64
from runtime.compute.kernels.conversions import (
    BoolArray,
    Int64Array,
    all_valid,
    as_type,
    float64_array,
    float64_values,
    from_buffer,
    int64_array,
    int64_values,
    integer_storage,
    one_chunk,
    ranks,
    validity,
)
from runtime.compute.kernels.grouping import MAX_CELLS, Groups, SingleRows, group_cells
from runtime.compute.kernels.key_digits import key_digits
from runtime.compute.user_aggregates import accumulate_rows, merge_states
from runtime.compute.values.percentile_summaries import merge_summaries, summaries_of_rows
from runtime.compute.values.texts import merge_rows, rows_of_groups
from runtime.compute.values.too_many_values import TooManyValues, check_counts
from runtime.compute.values.value_counts import counts_of_rows, merge_counts
from runtime.compute.values.value_sets import (
    list_lengths,
    merge_registers,
    merge_sets,
    registers_of_rows,
    sets_of_rows,
)
from runtime.spec.aggregates import (
    Accumulator,
    AllValues,
    CollectRegisters,
    CollectRows,
    CollectSet,
    Merge,
    MergeMoments,
    MergeOp,
    Pick,
    Summaries,
    UserDefined,
)


def aggregate_rows(
    spec: Accumulator,
    types: Sequence[pa.DataType],
    groups: Groups,
    args: Sequence[pa.Array],
    condition: BoolArray | None,
) -> list[pa.Array]:
    """Return the partial columns of each group of rows.

    Args:
        spec: Accumulator with the names of the partial columns. COUNT counts rows in which no
            argument is NULL.
        types: Types of the partial columns.
        groups: Groups of the rows.
        args: Arguments, one value per row.
        condition: Rows to aggregate; None for all.

    Raises:
        ExecutionError: A sum overflows its type.
    """
    match spec:
        case CollectSet():
            # uses the codes of a dictionary if there is one
            return [sets_of_rows(groups, args, condition, types[0])]
        case CollectRegisters():
            return [registers_of_rows(groups, args[0], condition)]
        case CollectRows():
            return [rows_of_groups(groups, args, condition, types[0])]
        case AllValues():
            return [counts_of_rows(groups, args, condition)]
        case Summaries():
            return [summaries_of_rows(groups, args[0], condition, spec.accuracy)]
    args = [one_chunk(arg) for arg in args]
    match spec:
        case Merge(op=MergeOp.COUNT):
            counts = groups.count(all_valid(args, condition))
            return [int64_array(counts, None, types[0])]
        case Pick():
            return _pick(spec, groups, args, condition)
        case MergeMoments():
            return _row_moments(groups, args[0], condition)
        case UserDefined():
            return _user(spec, groups, args, condition)
    is_sum = spec == Merge(spec.columns, MergeOp.SUM)
    arg = _mask_values(args[0], condition)
    if isinstance(groups, SingleRows) and arg.type == types[0]:
        return [_from_zero(arg) if is_sum else arg]
    merge = accumulator(spec, types)
    (partial,) = merge.to_arrow(_reduce(merge, merge.from_arrow([arg]), groups))
    return [_from_zero(partial) if is_sum else partial]


def merge_partials(
    spec: Accumulator, groups: Groups, columns: Sequence[pa.Array]
) -> list[pa.Array]:
    """Merge the partial columns of each group of partials.

    Args:
        spec: Accumulator with the names of the partial columns.
        groups: Groups of the partials.
        columns: Partial columns.

    Raises:
        ExecutionError: A sum overflows its type.
    """
    columns = [one_chunk(column) for column in columns]
    match spec:
        case CollectSet():
            return [merge_sets(groups, columns[0])]
        case CollectRegisters():
            return [merge_registers(groups, columns[0])]
        case CollectRows():
            return [merge_rows(groups, columns[0])]
        case AllValues():
            return [merge_counts(groups, columns[0])]
        case Summaries():
            return [merge_summaries(groups, columns[0], spec.accuracy)]
        case Pick():
            return _pick(spec, groups, columns, None)
        case UserDefined():
            return merge_states(spec.function, groups.group_of_row(), len(groups), columns)
    merge = accumulator(spec, [column.type for column in columns])
    return merge.to_arrow(_reduce(merge, merge.from_arrow(columns), groups))


def _reduce(
    merge: ColumnarAccumulator, state: AccumulatorState, groups: Groups
) -> AccumulatorState:
    """Reduce the state to one row per group."""
    if not isinstance(merge, ElementwiseAccumulator):
        order, starts = groups.runs()
        return merge.reduce_runs(merge.take(state, order), starts)
    values = tuple(
        groups.reduce(merge.ufunc, array, merge.identity_value) for array in state.values
    )
    # For the rows of a group it only matters whether any is valid.
    n_valid = None if state.n_valid is None else groups.count(state.n_valid > 0)
    return AccumulatorState(values, n_valid, state.lookup)


def _row_moments(groups: Groups, arg: pa.Array, condition: BoolArray | None) -> list[pa.Array]:
    """Return count, mean and M2 in two passes: the mean, then the squared deviations."""
    valid = all_valid([arg], condition)
    values = float64_values(arg)
    n = groups.count(valid)
    with np.errstate(all="ignore"):
        if isinstance(groups, SingleRows):
            mean, m2 = values, np.where(np.isfinite(values), 0.0, np.nan)
        else:
            if valid is not None:
                values = np.where(valid, values, 0.0)
            mean = groups.reduce(np.add, values, 0.0) / n
            deviation = values - mean[groups.group_of_row()]
            if valid is not None:
                deviation[~valid] = 0.0
            m2 = groups.reduce(np.add, deviation * deviation, 0.0)
    has_any = None if n.all() else n > 0
    return [
        int64_array(n, None, pa.int64()),
        float64_array(mean, has_any, pa.float64()),
        float64_array(m2, has_any, pa.float64()),
    ]


def _pick(
    spec: Pick, groups: Groups, columns: Sequence[pa.Array], condition: BoolArray | None
) -> list[pa.Array]:
    """Return order and value of the first or last row of each group, or NULL."""
    order, value = columns
    is_last = spec.is_last
    valid = all_valid([order], condition)
    group_of_row = groups.group_of_row()
    candidates = np.arange(len(order)) if valid is None else np.flatnonzero(valid)
    if integer_storage(order.type) is not None and not isinstance(groups, SingleRows):
        # Few tied rows remain, so that few values need to be compared.
        none = INT64.min if is_last else INT64.max
        times = int64_values(order)
        if valid is not None:
            times = np.where(valid, times, none)
        ufunc = np.maximum if is_last else np.minimum
        ties = times == groups.reduce(ufunc, times, none)[group_of_row]
        candidates = np.flatnonzero(ties if valid is None else ties & valid)
    row = np.full(len(groups), -1)
    row[group_of_row[candidates]] = candidates
    if np.count_nonzero(row >= 0) < len(candidates):
        candidates = _winners(spec, len(groups), group_of_row, columns, candidates)
        row[group_of_row[candidates]] = candidates
    index = pa.array(row) if (row >= 0).all() else pa.array(row, mask=row < 0)
    return [order.take(index), value.take(index)]


def _user(
    spec: UserDefined, groups: Groups, args: Sequence[pa.Array], condition: BoolArray | None
) -> list[pa.Array]:
    """Return the state fields of a user-defined aggregate; rows must meet the condition."""
    group_of_row = groups.group_of_row()
    if condition is not None:
        mask = pa.array(condition)
        group_of_row, args = group_of_row[condition], [arg.filter(mask) for arg in args]
    return accumulate_rows(spec.function, group_of_row, len(groups), args)


def _winners(
    spec: Pick,
    n_groups: int,
    group_of_row: Int64Array,
    columns: Sequence[pa.Array],
    candidates: Int64Array,
) -> Int64Array:
    """Return the candidate rows that are first or last in their group; ties go by the value."""
    index = pa.array(candidates)
    candidate_columns = [column.take(index) for column in columns]
    pick = accumulator(spec, [column.type for column in candidate_columns])
    assert isinstance(pick, ElementwiseAccumulator)
    (codes,) = pick.from_arrow(candidate_columns).values
    best = np.full(n_groups, pick.identity_value, codes.dtype)
    group = group_of_row[candidates]
    pick.ufunc.at(best, group, codes)
    winners: Int64Array = candidates[codes == best[group]]
    return winners


def _from_zero(partial: pa.Array) -> pa.Array:
    """Add 0.0 as Spark does, which starts from 0.0, so that a sum of -0.0 becomes 0.0."""
    if not pa.types.is_floating(partial.type):
        return partial
    return float64_array(float64_values(partial) + 0.0, validity(partial), partial.type)


def _mask_values(column: pa.Array, condition: BoolArray | None) -> pa.Array:
    """Replace values by NULL where the condition does not hold."""
    if condition is None:
        return column
    return pc.if_else(pa.array(condition), column, pa.scalar(None, column.type))


def merge_equal_slices(
    table: pa.Table, n_keys: int, slice_end: str, accumulators: tuple[Accumulator, ...]
) -> pa.Table:
    """Return one row for each key and slice end; rows of a key are adjacent, in order of time.

    In this order state compresses well.

    Args:
        table: Partials: `n_keys` key columns, the slice end (int64 microseconds), the columns of
            the accumulators.
        n_keys: Number of key columns.
        slice_end: Name of the slice end column.
        accumulators: Accumulators with their partial columns; `first` and `last` keep both.

    Raises:
        ExecutionError: A sum overflows its type, or a key has too many values.
    """
    if table.num_rows < 2:
        return table
    slot, distinct = ranks(one_chunk(table.column(slice_end)))
    n_slots = len(distinct)
    columns = [one_chunk(column) for column in table.columns[:n_keys]]
    keys = key_digits(columns, table.num_rows, MAX_CELLS // n_slots)
    groups = group_cells(keys.codes * n_slots + slot, keys.n_codes * n_slots)
    if len(groups) == table.num_rows:
        order, _ = groups.runs()
        return table.take(pa.array(order))
    key_codes = groups.cells // n_slots
    ends = int64_values(distinct)[groups.cells - key_codes * n_slots]
    merged_columns = [*keys.decode(key_codes), from_buffer(ends, None, pa.int64(), len(ends))]
    for into in accumulators:
        partials = [one_chunk(table.column(name)) for name in into.columns]
        merged_columns += merge_partials(into, groups, partials)
        if isinstance(into, AllValues):
            try:
                check_counts(list_lengths(merged_columns[-1]), into.max_values)
            except TooManyValues as error:
                names = table.column_names[:n_keys]
                raise error.of_key("a stream", names, merged_columns[:n_keys]) from None
    plain = [
        as_type(column, field.type)
        for column, field in zip(merged_columns, table.schema, strict=True)
    ]
    return pa.Table.from_arrays(plain, schema=table.schema)
