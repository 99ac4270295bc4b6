"""Rows by partition, and directories of partitions that are named like Spark's: `column=value`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.spec.figures import date_text
from runtime.spec.scan import PartitionValue

# Name of the directory for NULL and the empty text
_DEFAULT = "__HIVE_DEFAULT_PARTITION__"
# ASCII characters that Spark escapes in names of directories
_ESCAPED = re.compile(r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]")


def plain_values(array: pa.Array) -> list[PartitionValue]:
    """Convert an Arrow array to `Constant` values: dates as days, times as microseconds."""
    type_ = array.type
    if pa.types.is_timestamp(type_):
        array = array.cast(pa.timestamp("us", tz=type_.tz)).cast(pa.int64())
    elif pa.types.is_date32(type_):
        array = array.cast(pa.int32())
    return list(array.to_pylist())


def split_by_partition(
    rows: pa.Table, names: Sequence[str], *, keeps: bool = False
) -> Iterator[tuple[tuple[PartitionValue, ...], pa.Table]]:
    """Yield the values of each partition and its rows, in the order of their first rows.

    Rows of a partition keep their order.

    Args:
        rows: Rows.
        names: Partition columns, outermost first.
        keeps: Whether the rows keep the partition columns. Otherwise the empty text is NULL, as in
            names of directories.
    """
    codes, columns = np.zeros(rows.num_rows, np.int64), []
    for name in names:
        column = rows.column(name).combine_chunks()
        if pa.types.is_string(column.type) and not keeps:
            column = pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column)
        values = pc.dictionary_encode(column, null_encoding="encode")
        column_codes = values.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        _, firsts, codes = np.unique(
            codes * len(values.dictionary) + column_codes, return_index=True, return_inverse=True
        )
        columns.append(column)
    places = firsts.argsort().argsort()[codes]
    stored = rows if keeps else rows.drop_columns(list(names))
    if (np.diff(places) < 0).any():
        stored = stored.take(pa.array(places.argsort(kind="stable")))
    firsts.sort()
    partitions = zip(
        *(plain_values(column.take(pa.array(firsts))) for column in columns), strict=True
    )
    start = 0
    for partition, n_rows in zip(partitions, np.bincount(places).tolist(), strict=True):
        yield partition, stored.slice(start, n_rows)
        start += n_rows


def spark_directory(
    columns: Sequence[tuple[str, pa.DataType]], values: Sequence[PartitionValue]
) -> str:
    """Return the directory of a partition by texts, integers, booleans and dates."""
    return "/".join(
        f"{_escape(name)}={_text(value, type_)}"
        for (name, type_), value in zip(columns, values, strict=True)
    )


def _text(value: PartitionValue, type_: pa.DataType) -> str:
    if value is None:
        return _DEFAULT
    if isinstance(value, bool):
        return str(value).lower()
    return (
        date_text(value) if type_ == pa.date32() and isinstance(value, int) else _escape(str(value))
    )


def _escape(text: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)
