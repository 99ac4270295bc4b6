"""Read the files of a stream; each file is checked against the schema only when it is read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from runtime.errors import ExecutionError
from runtime.refusal import Refused, refuse
from runtime.scan.metadata import (
    check_types,
    column_indices,
    footer_of,
    open_footer,
    present_columns,
)
from runtime.scan.ranges import FileRange
from runtime.scan.read import read_batches
from runtime.scan.splits import FilePart, row_groups_in
from runtime.scan.stores import GONE, Store, explain_errors, open_stored
from runtime.spec.scan import ScanFile, ScanSource
from runtime.spec.table import Column

_HINT = (
    "SET 'sqlwin.optimizer.disabled-rules' = 'push_local_aggregate_into_scan' to read "
    "the files with Spark; the stream resumes from its checkpoint"
)

_DELETED = (
    "restore the file, or SET 'spark.sql.files.ignoreMissingFiles' = 'true' to skip "
    "missing files (Spark then reads the files)"
)


def read_stream_file(
    path: str,
    source: ScanSource,
    dictionaries: frozenset[str],
    store: Store | None = None,
    part: FileRange | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a file, with the names and types of `source`; see `read_batches`.

    A column missing from the file is NULL, unless the part has the file's own names of columns.

    Args:
        path: Path of the file.
        source: Columns. The part has the values of partition columns.
        dictionaries: Names of string or binary columns to return dictionary-encoded.
        store: Object store of the file; None for this machine.
        part: Part to read, with the file's size when listed; None for the whole file.

    Raises:
        ExecutionError: The file cannot be read, or a column has another type.
    """
    try:
        if store is None or part is None:
            if part is not None and part.file.n_bytes not in (0, os.path.getsize(path)):
                raise _changed(path)
            footer = open_footer(path, store)
        else:
            footer = _check_footer(part.file, store)
    except FileNotFoundError as error:
        reason = f"{path} was deleted before the stream read it"
        raise ExecutionError(reason, hint=_DELETED) from error
    except Refused as refused:
        reason = refused.refusal.reason
        is_gone = not os.path.exists(path) if store is None else GONE in reason
        if is_gone:
            reason = f"{path} was deleted before the stream read it"
            raise ExecutionError(reason, hint=_DELETED) from refused
        hint = None if "it is not a Parquet file" in reason else _HINT
        raise ExecutionError(reason, hint=hint) from refused
    file = ScanFile(path) if part is None else part.file
    columns = _columns_in(file, source.columns)
    try:
        check_types(path, footer, present_columns(footer, [c for c in columns if c is not None]))
    except Refused as refused:
        raise ExecutionError(refused.refusal.reason, hint=_HINT) from refused
    all_groups = range(footer.num_row_groups)
    numbers = tuple(all_groups) if part is None else row_groups_in(part, footer)
    read = _part_of_file(file, footer, columns, numbers)
    yield from read_batches((read,), source, dictionaries, store)


def _check_footer(file: ScanFile, store: Store) -> pq.FileMetaData:
    """Read the footer and check the file's size, because the ranges cover the listed size only."""
    try:
        with explain_errors(store, file.path), open_stored(store, file.path) as opened:
            if file.n_bytes in (0, opened.size()):
                return footer_of(opened, file.path)
    except OSError as error:
        refuse(f"cannot read {file.path}: {error.strerror or error}")
    raise _changed(file.path)


def _changed(path: str) -> ExecutionError:
    return ExecutionError(
        f"{path} changed after the stream had started to read it",
        hint="write new files instead of changing existing ones, and run the statement again",
    )


def _columns_in(file: ScanFile, columns: Sequence[Column]) -> list[Column | None]:
    """Return the columns under the names that they have in the file. None for missing ones."""
    if not file.names:
        return list(columns)
    return [
        None if name is None else Column(name, column.type)
        for name, column in zip(file.names, columns, strict=True)
    ]


def _part_of_file(
    file: ScanFile,
    footer: pq.FileMetaData,
    columns: Sequence[Column | None],
    numbers: Sequence[int],
) -> FilePart:
    index_of_name = column_indices(footer)
    indices = [None if c is None else index_of_name.get(c.name.lower()) for c in columns]
    for name, index in zip(file.names, indices, strict=bool(file.names)):
        if name is not None and index is None:
            raise ExecutionError(f"column {name} no longer exists in {file.path}")
    chunks = [footer.row_group(n).column(i) for n in numbers for i in indices if i is not None]
    return FilePart(
        file,
        tuple(n for n in numbers if footer.row_group(n).num_rows),
        tuple(None if i is None else footer.schema.column(i).path for i in indices),
        sum(footer.row_group(n).num_rows for n in numbers),
        sum(chunk.total_uncompressed_size for chunk in chunks),
        footer.num_rows,
    )
