"""Read stored slices as partials of a query: filter them, merge to its slices and keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from runtime.compute.arrow.evaluate import evaluate, filter_mask
from runtime.compute.arrow.types import arrow_type
from runtime.compute.counters import count
from runtime.compute.kernels.conversions import as_type
from runtime.compute.kernels.roll_up import merge_to
from runtime.plan.local import GroupingSets, SliceLocalStep, SliceRows
from runtime.scan.read import read_batches
from runtime.scan.splits import SelectRowGroups, Split, plan_splits, select_row_groups
from runtime.scan.stores import Store
from runtime.spec.expressions import ColumnRef, Expression, columns_of
from runtime.spec.materialized import SLICE_END
from runtime.windows import AlignedWindow

# Merging pays off if at most this fraction of the rows remains
_GOOD_RATIO = 0.75
_NESTED = "array<"


def partials_schema(step: SliceLocalStep) -> pa.Schema:
    """Return the schema of a step's partials, before they are copied for grouping sets."""
    source = step.source
    fields = [pa.field(name, arrow_type(key.type)) for name, key in source.keys]
    fields.append(pa.field(step.slice_end, pa.int64(), nullable=False))
    for partial in source.partials:
        types = (arrow_type(arg.type) for arg in partial.args)
        fields += map(pa.field, partial.columns, types)
    return pa.schema(fields)


def slice_splits(
    source: SliceRows,
    n_splits: int,
    store: Store | None = None,
    groups_of: SelectRowGroups = select_row_groups,
) -> list[Split]:
    """Return the splits that tasks read, without row groups that filters exclude.

    Raises:
        ExecutionError: A file has changed since the query was planned.
    """
    flat = tuple(c for c in source.files.columns if not c.type.startswith(_NESTED))
    lists = tuple(c.name for c in source.files.columns if c.type.startswith(_NESTED))
    # lists have no statistics, and span several columns in the file
    splits = plan_splits(
        replace(source.files, columns=flat),
        source.filters,
        n_splits,
        store=store,
        groups_of=groups_of,
    )
    return [
        tuple(replace(part, columns=(*part.columns, *lists)) for part in split) for split in splits
    ]


def split_tables(
    step: SliceLocalStep, split: Split, store: Store | None = None
) -> Iterator[pa.Table]:
    """Yield a split's partials with `partials_schema`, merged to the step's slices if worth it.

    Raises:
        ExecutionError: A file cannot be read, an expression fails or a sum overflows its type.
    """
    source, schema = step.source, partials_schema(step)
    flat = [c for c in source.files.columns if not c.type.startswith(_NESTED)]
    lists = [c for c in source.files.columns if c.type.startswith(_NESTED)]
    files = replace(source.files, files=(), columns=(*flat, *lists))
    window = step.window
    assert window.has_slices
    is_worth = not source.are_apart
    for batch in read_batches(split, files, _dictionaries(source), store):
        count("slices_read", batch.num_rows)
        if source.filters:
            mask = filter_mask(source.filters, batch)
            if mask.true_count < batch.num_rows:
                batch = batch.filter(mask)
        if batch.num_rows == 0:
            continue
        table = _partials(step, batch, schema.names)
        if is_worth:
            merged = _merge(step, table, window)
            is_worth = merged.num_rows <= _GOOD_RATIO * table.num_rows
            table = merged
        arrays = map(as_type, table.columns, schema.types)
        yield pa.Table.from_arrays(list(arrays), schema=schema)


def expand_tables(
    tables: Iterable[pa.Table], keys: Sequence[str], sets: GroupingSets | None
) -> Iterator[pa.Table]:
    """Yield tables of partials once per grouping set. They have all keys except the id."""
    for table in tables:
        if sets is None:
            yield table
            continue
        for number, set_keys in sets.sets:
            columns = {
                name: pa.nulls(table.num_rows, column.type)
                if name in keys and name not in set_keys
                else column
                for name, column in zip(table.column_names, table.columns, strict=True)
            }
            columns[sets.id_column] = pa.repeat(pa.scalar(number, pa.int64()), table.num_rows)
            yield pa.table(columns, expand_schema(table.schema, sets))


def expand_schema(schema: pa.Schema, sets: GroupingSets | None) -> pa.Schema:
    """Return the schema of partials after grouping sets."""
    return schema if sets is None else schema.append(pa.field(sets.id_column, pa.int64()))


def _partials(step: SliceLocalStep, batch: pa.RecordBatch, names: Sequence[str]) -> pa.Table:
    source = step.source
    arrays = [_column(key, batch) for _, key in source.keys]
    arrays.append(batch.column(SLICE_END))
    arrays += [_column(arg, batch) for partial in source.partials for arg in partial.args]
    return pa.Table.from_arrays(arrays, names=names)


def _column(expression: Expression, batch: pa.RecordBatch) -> pa.Array:
    if isinstance(expression, ColumnRef):
        return batch.column(expression.name)
    return evaluate(expression, batch)


def _merge(step: SliceLocalStep, table: pa.Table, window: AlignedWindow) -> pa.Table:
    return merge_to(table, step.keys, step.slice_end, step.accumulators, window)


def _dictionaries(source: SliceRows) -> frozenset[str]:
    """Return the string and binary keys that no other expression reads."""
    names = {
        key.name
        for _, key in source.keys
        if isinstance(key, ColumnRef) and key.type in ("string", "binary")
    }
    read = [*source.filters, *(arg for partial in source.partials for arg in partial.args)]
    read += [key for _, key in source.keys if not isinstance(key, ColumnRef)]
    return frozenset(names.difference(*map(columns_of, read)))
