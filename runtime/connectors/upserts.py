"""Changes of rows, folded to one upsert or delete per key.

A stream that updates its results emits changes: `+I` and `+U` add a row, `-U` and `-D` retract one
that was emitted before. Per micro-batch and key, the added row is kept. If rows were only
retracted, the key's row is deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from runtime.errors import ExecutionError
from runtime.spec.stream import ROW_KIND
from runtime.spec.table import TableSpec

_BRING = ("+I", "+U")
_PLACE = "$place"
# Maximum number of characters of a key in a message
_MAX_SHOWN = 200


@dataclass(frozen=True)
class Upserts:
    """Changes of a micro-batch by key.

    Attributes:
        rows: New rows, one per key.
        deleted: Keys of rows to delete.
    """

    rows: pa.Table
    deleted: pa.Table


def key_columns(spec: TableSpec, names: Sequence[str]) -> list[str]:
    """Return the columns of the PRIMARY KEY of a table among the names of its rows."""
    by_name = {name.lower(): name for name in names}
    return [by_name[name.lower()] for name in spec.primary_key if name.lower() in by_name]


def fold_changes(
    changes: pa.Table, spec: TableSpec, *, batch: int | None = None, is_ordered: bool = False
) -> Upserts:
    """Return the upserts and deletes of a micro-batch.

    Args:
        changes: Rows of the table, with ROW_KIND if rows may be retracted. Names are unique.
        spec: Table with a PRIMARY KEY.
        batch: Number of the micro-batch, for messages. None outside a stream.
        is_ordered: Whether the last of several rows with the same key is kept.

    Raises:
        ExecutionError: A key is NULL, or several rows have the same key and no order.
    """
    names = [name for name in changes.column_names if name != ROW_KIND]
    key = key_columns(spec, names)
    refuse_null_keys(changes, key, spec)
    if ROW_KIND not in changes.column_names:
        return Upserts(_one_per_key(changes, key, spec, batch, is_ordered), changes.slice(0, 0))
    brings = pc.is_in(changes[ROW_KIND], pa.array(_BRING))
    rows = _one_per_key(changes.filter(brings).select(names), key, spec, batch, is_ordered)
    taken = changes.filter(pc.invert(brings)).select(key).group_by(key).aggregate([])
    if not (taken.num_rows and rows.num_rows):
        return Upserts(rows, taken)
    return Upserts(rows, taken.join(rows.select(key), key, join_type="left anti"))


def refuse_null_keys(rows: pa.Table, key: Sequence[str], spec: TableSpec) -> None:
    """Check that no column of a key is NULL.

    Raises:
        ExecutionError: A column of a key is NULL.
    """
    for name in key:
        if rows[name].null_count:
            raise ExecutionError(
                f"table `{spec.name}`: column `{name}` of the PRIMARY KEY is NULL in a row",
                subjects=(name, spec.name),
                hint=f"filter such rows out, or use COALESCE({name}, ...)",
            )


def duplicate_key(spec: TableSpec, key: str, batch: int | None) -> ExecutionError:
    """Return the error for several rows with the same key.

    Args:
        spec: Table.
        key: Values of the key.
        batch: Number of the micro-batch. None outside a stream.
    """
    where = "this INSERT" if batch is None else f"micro-batch {batch}"
    shown = key if len(key) <= _MAX_SHOWN else key[:_MAX_SHOWN] + "..."
    names = ", ".join(spec.primary_key)
    order = ", or order the rows: ORDER BY window_end"
    return ExecutionError(
        f"table `{spec.name}`: several rows of {where} have the PRIMARY KEY ({names}) = ({shown}), "
        "and no order determines which one is kept",
        subjects=(spec.name,),
        hint=f"add columns that distinguish them, such as window_end, to the PRIMARY KEY{order}",
    )


def _one_per_key(
    rows: pa.Table, key: Sequence[str], spec: TableSpec, batch: int | None, is_ordered: bool
) -> pa.Table:
    keys = rows.select(key).append_column(_PLACE, pa.array(range(rows.num_rows), pa.int64()))
    last = keys.group_by(list(key)).aggregate([(_PLACE, "max")])[f"{_PLACE}_max"]
    if len(last) == rows.num_rows:
        return rows
    if not is_ordered:
        counts = keys.group_by(list(key)).aggregate([(_PLACE, "count")])
        first = counts.filter(pc.greater(counts[f"{_PLACE}_count"], 1)).slice(0, 1)
        values = [_shown(first[name][0].as_py()) for name in key]
        raise duplicate_key(spec, ", ".join(values), batch)
    return rows.take(last.combine_chunks().sort())


def _shown(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)
