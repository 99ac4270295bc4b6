"""Kinds of changes above a filter: an update with one row that passes is an insertion or deletion.

An operator emits an update as two rows, -U and +U, which a filter sees one by one. So the rows of
an update get the same number, as part of their ROW_KIND, and the kinds of the rows that pass are
settled above the filter: a -U without its +U is -D, a +U without its -U is +I.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.kernels.conversions import BoolArray
from runtime.spec.stream import ROW_KIND
from runtime.streaming.operators.row_changes import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE


def number_updates(rows: pa.RecordBatch, first: int) -> tuple[pa.RecordBatch, int]:
    """Return an operator's changes with a number in the kinds of updates, and the next number.

    Args:
        rows: Changes, where each -U precedes its +U.
        first: Number of the first update.
    """
    kinds = rows.column(ROW_KIND)
    is_before = _is(kinds, UPDATE_BEFORE)
    numbers = first - 1 + np.cumsum(is_before)
    numbered = pc.binary_join_element_wise(kinds, pa.array(numbers).cast(pa.string()), "")
    is_update = pa.array(is_before | _is(kinds, UPDATE_AFTER))
    kinds = pc.if_else(is_update, numbered, kinds)
    return _with_kinds(rows, kinds), first + int(np.count_nonzero(is_before))


def settle_kinds(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield changes without the numbers of updates, with the kinds that are true after the filters.

    Args:
        batches: Rows of `number_updates` that have passed filters, in their order. Rows without a
            kind stay as they are.
    """
    waiting: pa.RecordBatch | None = None
    for batch in batches:
        if waiting is not None:
            table = pa.Table.from_batches([waiting, batch])
            (batch,) = table.combine_chunks().to_batches()
            waiting = None
        if not batch.num_rows:
            continue
        n_ready = batch.num_rows - _n_last(batch.column(ROW_KIND))
        if n_ready:
            yield _settled(batch.slice(0, n_ready))
        if n_ready < batch.num_rows:
            waiting = batch.slice(n_ready)
    if waiting is not None:
        yield _settled(waiting)


def _n_last(kinds: pa.Array) -> int:
    """Return the number of last rows that may belong to an update with later rows."""
    last = kinds[-1].as_py()
    if last is None or last[:2] not in (UPDATE_BEFORE, UPDATE_AFTER):
        return 0
    both = pa.array([UPDATE_BEFORE + last[2:], UPDATE_AFTER + last[2:]])
    is_other = np.flatnonzero(~_plain(pc.is_in(kinds, both)))
    return len(kinds) - (int(is_other[-1]) + 1 if len(is_other) else 0)


def _settled(batch: pa.RecordBatch) -> pa.RecordBatch:
    kinds = batch.column(ROW_KIND)
    plain = pc.utf8_slice_codeunits(kinds, 0, 2)
    is_before, is_after = _is(plain, UPDATE_BEFORE), _is(plain, UPDATE_AFTER)
    # rows of one update are neighbours, and several if a join has multiplied them
    numbers = pc.utf8_slice_codeunits(kinds, 2).fill_null("").dictionary_encode().indices
    codes = np.asarray(numbers)
    has_before = np.zeros(int(codes.max()) + 1, np.bool_)
    has_after = has_before.copy()
    has_before[codes[is_before]] = True
    has_after[codes[is_after]] = True
    kinds = pc.if_else(pa.array(is_before & ~has_after[codes]), DELETE, plain)
    kinds = pc.if_else(pa.array(is_after & ~has_before[codes]), INSERT, kinds)
    return _with_kinds(batch, kinds)


def _with_kinds(rows: pa.RecordBatch, kinds: pa.Array) -> pa.RecordBatch:
    place = rows.schema.get_field_index(ROW_KIND)
    return rows.set_column(
        place, rows.schema.field(place), kinds.cast(rows.schema.field(place).type)
    )


def _is(kinds: pa.Array, kind: str) -> BoolArray:
    return _plain(pc.equal(kinds, kind))


def _plain(values: pa.Array) -> BoolArray:
    result: BoolArray = values.fill_null(False).to_numpy(zero_copy_only=False)
    return result
