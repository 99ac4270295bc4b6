"""Changes from the results that were emitted to the current ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.keys import encode_keys
from runtime.spec.stream import ROW_KIND

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = "+I", "-U", "+U", "-D"


def inserts(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield rows as new ones."""
    return _with_kind(INSERT, rows)


def updates(
    old: pa.Table, new: pa.Table, identity: Sequence[str]
) -> tuple[pa.Table, list[pa.RecordBatch]]:
    """Return new rows that differ from the old ones, and the changes, in the order of the new ones.

    A row whose identity is not among the old ones is +I. One that differs is -U of the old row and
    +U of the new one. If several old rows have an identity, the last one counts.

    Args:
        old: Emitted rows.
        new: Current rows.
        identity: Columns that identify a row.
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
    rows = np.stack((before, new_rows), axis=1).ravel()
    kinds = np.stack((np.where(is_new, -1, 1), np.where(is_new, 0, 2)), axis=1).ravel()
    rows, kinds = rows[kinds >= 0], kinds[kinds >= 0]
    names = pa.array([INSERT, UPDATE_BEFORE, UPDATE_AFTER], pa.string())
    table = both.take(pa.array(rows))
    table = table.add_column(0, ROW_KIND, names.take(pa.array(kinds)))
    return new.filter(pa.array(changed)), table.combine_chunks().to_batches()


def deletes(old: pa.Table, new: pa.Table, identity: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield old rows whose identity no current row has, as -D. Arguments as in `updates`."""
    both = [pa.concat_tables([t.select([name]) for t in (old, new)]) for name in identity]
    columns = [table.column(0) for table in both]
    which, _ = encode_keys(columns, old.num_rows + new.num_rows)
    is_gone = ~np.isin(which[: old.num_rows], which[old.num_rows :])
    yield from _with_kind(DELETE, old.filter(pa.array(is_gone)))


def _with_kind(kind: str, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    kinds = pa.repeat(pa.scalar(kind), rows.num_rows)
    yield from rows.add_column(0, ROW_KIND, kinds).combine_chunks().to_batches()
