"""Entries of a Delta table's log: files to read, and texts that describe files to add."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.partitions import plain_values as plain_values_of
from runtime.lake.places import UnreadableError
from runtime.spec.figures import date_text, timestamp_text
from runtime.spec.scan import PartitionValue
from runtime.writing.written import WrittenFile

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction

# Hive's name for the directory of NULL
_NULL = "__HIVE_DEFAULT_PARTITION__"
_ODD = re.compile(r"[^A-Za-z0-9_.-]")
_MAX_LETTERS = 64


def add_actions(table: DeltaTable) -> pa.Table:
    """Return the files of a version as recorded in its log."""
    # pa.table() would import pandas for this
    return pa.RecordBatchReader.from_stream(table.get_add_actions()).read_all()


def plain_values(array: pa.Array) -> list[PartitionValue]:
    """Convert a column of a log to `Constant` values: dates as days, times as microseconds.

    Raises:
        UnreadableError: The type cannot be a partition type.
    """
    type_ = array.type
    if pa.types.is_nested(type_) or pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        raise UnreadableError(f"a partition column has the unsupported type {type_}")
    return plain_values_of(array)


def logged_partitions(actions: pa.Table, names: Sequence[str]) -> list[tuple[PartitionValue, ...]]:
    """Return the values of partition columns of the files in `add_actions`.

    Raises:
        UnreadableError: A type cannot be a partition type.
    """
    if not names:
        return [()] * actions.num_rows
    struct = actions["partition"].combine_chunks()
    return list(zip(*(plain_values(pc.struct_field(struct, p)) for p in names), strict=True))


def hive_directory(columns: Sequence[tuple[str, str]], values: Sequence[PartitionValue]) -> str:
    """Return a directory such as `day=2024-01-01/k=7` for values of partition columns.

    It is only informative, because readers use the log. So characters other than plain letters may
    be replaced.
    """
    names, types = [name for name, _ in columns], [type_ for _, type_ in columns]
    texts = partition_texts(names, types, values)
    return "/".join(
        f"{_ODD.sub('_', name)}={_ODD.sub('_', _NULL if text is None else text)[:_MAX_LETTERS]}"
        for name, text in texts.items()
    )


def partition_texts(
    names: Sequence[str], types: Sequence[str], values: Sequence[PartitionValue]
) -> dict[str, str | None]:
    """Return the values of partition columns as stored in a log, by column name."""
    return {
        name: partition_text(value, type_)
        for name, type_, value in zip(names, types, values, strict=True)
    }


def partition_text(value: PartitionValue, type_: str) -> str | None:
    """Return a value as stored in a log, where NULL and the empty text are the same."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if type_ == "date" and isinstance(value, int):
        return date_text(value)
    if type_.startswith("timestamp") and isinstance(value, int):
        return timestamp_text(value)
    return str(value)


def added_files(
    files: Sequence[WrittenFile],
    partitions: Sequence[str],
    types: dict[str, str],
    now_ms: int,
    *,
    changes_rows: bool = True,
) -> list[AddAction]:
    """Return the actions that add files.

    Args:
        files: Files to add.
        partitions: Partition columns.
        types: Spark type of each column.
        now_ms: Time of the commit in milliseconds since 1970.
        changes_rows: Whether the version has other rows.
    """
    from deltalake.transaction import AddAction

    partition_types = [types[name] for name in partitions]
    return [
        AddAction(
            file.path,
            file.size,
            partition_texts(partitions, partition_types, file.partition),
            now_ms,
            changes_rows,
            statistics_text(file, types),
        )
        for file in files
    ]


def statistics_text(file: WrittenFile, types: dict[str, str]) -> str:
    """Return the statistics of a file for the log: number of rows and column ranges."""

    def shown(name: str, value: Any) -> Any:
        match types[name]:
            case "date":
                return date_text(value)
            case "timestamp":
                return f"{timestamp_text(value, 'T')}Z"
            case "timestamp_ntz":
                return timestamp_text(value, "T")
        return value

    ranges = {
        name: (shown(name, low), shown(name, high)) for name, (low, high) in file.ranges.items()
    }
    return json.dumps(
        {
            "numRecords": file.n_rows,
            "minValues": {name: low for name, (low, _) in ranges.items()},
            "maxValues": {name: high for name, (_, high) in ranges.items()},
            "nullCount": file.nulls,
        }
    )
