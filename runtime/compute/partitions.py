"""Directories of partitions, named like Spark's: `column=value`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Name of the directory for NULL and the empty text
_DEFAULT = "__HIVE_DEFAULT_PARTITION__"
# ASCII characters that Spark escapes in names of directories
_ESCAPED = re.compile(r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]")


def can_partition(schema: pa.Schema, names: Sequence[str]) -> bool:
    """Return whether the values of partition columns have one form as text."""
    types = [schema.field(name).type for name in names]
    return all(
        pa.types.is_string(type_)
        or pa.types.is_integer(type_)
        or pa.types.is_boolean(type_)
        or type_ == pa.date32()
        for type_ in types
    )


def split_by_partition(table: pa.Table, names: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """Yield the directory of each partition, and its rows without the partition columns.

    Rows of a partition keep their order.

    Args:
        table: Rows.
        names: Partition columns, outermost first.
    """
    codes, rows = np.zeros(table.num_rows, np.int64), table.drop_columns(list(names))
    for name in names:
        column = table.column(name).combine_chunks()
        if pa.types.is_string(column.type):
            # Spark stores both in one directory
            column = pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column)
        values = pc.dictionary_encode(column, null_encoding="encode")
        column_codes = values.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        _, codes = np.unique(codes * len(values.dictionary) + column_codes, return_inverse=True)
    order = codes.argsort(kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
        positions = pa.array(order[start:stop])
        directory = "/".join(
            f"{_escape(name)}={_text(table.column(name)[int(order[start])])}" for name in names
        )
        yield directory, rows.take(positions)


def _text(value: pa.Scalar) -> str:
    text = pc.cast(value, pa.string()).as_py()
    return _escape(text) if text else _DEFAULT


def _escape(text: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)
