"""Changes from the results that were emitted to the current ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.kernels.conversions import Int64Array
from runtime.compute.kernels.keys import encode_keys
from runtime.spec.stream import ROW_KIND

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = "+I", "-U", "+U", "-D"


def inserts(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield rows as new ones."""
    return _with_kind(INSERT, rows)


def updates(
    old: pa.Table,
    new: pa.Table,
    identity: Sequence[str],
    exists: Callable[[pa.Table], pa.ChunkedArray] | None = None,
) -> tuple[pa.Table, list[pa.RecordBatch]]:
    """Return new rows that differ from the old ones, and the changes, in the order of the new ones.

    A row whose identity is not among the old ones is +I. One that differs is -U of the old row and
    +U of the new one. If several old rows have an identity, the last one counts. A new row
    that does not exist is not emitted; the old row with its identity is then -D.

    Args:
        old: Emitted rows.
        new: Current rows.
        identity: Columns that identify a row.
        exists: Returns for each row whether it exists, or only says that its identity has no row.
            None: all exist.
    """
    both = pa.concat_tables([old, new]).combine_chunks()
    values = [name for name in both.column_names if name not in identity]
    which, _ = encode_keys([both.column(name) for name in identity], both.num_rows)
    value_codes, _ = encode_keys([both.column(name) for name in values], both.num_rows)
    old_row = np.full(int(which.max(initial=0)) + 1, -1)
    old_row[which[: old.num_rows]] = np.arange(old.num_rows)
    new_rows = np.arange(old.num_rows, both.num_rows)
    before = old_row[which[new_rows]]
    is_new = before < 0
    changed = is_new | (value_codes[new_rows] != value_codes[np.maximum(before, 0)])
    new_rows, before, is_new = new_rows[changed], before[changed], is_new[changed]
    is_gone = np.zeros(len(new_rows), np.bool_)
    if exists is not None:
        is_row = exists(both).to_numpy()
        is_new, is_gone = is_new | ~is_row[before], ~is_row[new_rows]
    rows = np.stack((before, new_rows), axis=1).ravel()
    of_old, of_new = np.where(is_gone, 3, 1), np.where(is_new, 0, 2)
    kinds = np.stack((np.where(is_new, -1, of_old), np.where(is_gone, -1, of_new)), axis=1).ravel()
    rows, kinds = rows[kinds >= 0], kinds[kinds >= 0]
    names = pa.array([INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE], pa.string())
    table = both.take(pa.array(rows))
    table = table.add_column(0, ROW_KIND, names.take(pa.array(kinds)))
    return new.filter(pa.array(changed)), table.combine_chunks().to_batches()


def whole_window(old: pa.Table, new: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield all emitted rows of some windows as -D and all current ones as +I."""
    yield from _with_kind(DELETE, old)
    yield from _with_kind(INSERT, new)


def differences(changes: pa.Table, evaluate: Callable[[pa.Table], pa.Table]) -> pa.Table:
    """Return the changes of a function's rows, from whole windows that have changed.

    Args:
        changes: Rows of whole windows with ROW_KIND: emitted ones, and current ones.
        evaluate: Computes rows from at least one row. It depends on the rows of a window, and on
            their order only among equal rows.

    Returns:
        Rows with ROW_KIND: -D for rows of the emitted windows that are gone, +I for new rows.
    """
    is_new = pc.is_in(changes.column(ROW_KIND), pa.array([INSERT, UPDATE_AFTER]))
    rows = changes.drop_columns([ROW_KIND])
    # ties are broken in the same way for emitted and current rows
    order = [(name, "ascending") for name in rows.column_names]
    kinds = {DELETE: rows.filter(pc.invert(is_new)), INSERT: rows.filter(is_new)}
    results = {k: evaluate(t.sort_by(order)) for k, t in kinds.items() if t.num_rows}
    parts = [table.add_column(0, ROW_KIND, _kinds(k, table)) for k, table in results.items()]
    both = pa.concat_tables(parts).combine_chunks()
    n_old = 0 if DELETE not in results else results[DELETE].num_rows
    columns = [both.column(name) for name in both.column_names if name != ROW_KIND]
    which, _ = encode_keys(columns, both.num_rows)
    # a number distinguishes equal rows
    old, new = _with_number(which[:n_old]), _with_number(which[n_old:])
    pairs = np.concatenate([old, new])
    _, place = np.unique(pairs, axis=0, return_inverse=True)
    place = place.reshape(-1)
    is_same = np.concatenate(
        [np.isin(place[:n_old], place[n_old:]), np.isin(place[n_old:], place[:n_old])]
    )
    return both.filter(pa.array(~is_same))


def deletes(old: pa.Table, new: pa.Table, identity: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield old rows whose identity no current row has, as -D. Arguments as in `updates`."""
    both = [pa.concat_tables([t.select([name]) for t in (old, new)]) for name in identity]
    columns = [table.column(0) for table in both]
    which, _ = encode_keys(columns, old.num_rows + new.num_rows)
    is_gone = ~np.isin(which[: old.num_rows], which[old.num_rows :])
    yield from _with_kind(DELETE, old.filter(pa.array(is_gone)))


def _with_kind(kind: str, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from rows.add_column(0, ROW_KIND, _kinds(kind, rows)).combine_chunks().to_batches()


def _kinds(kind: str, rows: pa.Table) -> pa.Array:
    return pa.repeat(pa.scalar(kind), rows.num_rows)


def _with_number(codes: Int64Array) -> Int64Array:
    """Return for each code the code and the number of equal ones before it, as rows."""
    order = np.argsort(codes, kind="stable")
    is_first = np.ones(len(codes), np.bool_)
    is_first[1:] = codes[order][1:] != codes[order][:-1]
    places = np.arange(len(codes))
    number = np.empty(len(codes), np.int64)
    number[order] = places - np.maximum.accumulate(np.where(is_first, places, 0))
    return np.stack((codes, number), axis=1)
