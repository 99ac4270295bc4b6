"""Files of a stream, each read when it has come: whether it fits is known only then."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from runtime.compute.arrow.types import arrow_type
from runtime.errors import ExecutionError
from runtime.scan.files import NotScannable
from runtime.scan.metadata import column_index, find_misfit, open_footer, present_columns
from runtime.scan.read import BATCH_ROWS, read_batches
from runtime.scan.splits import FilePart
from runtime.spec.scan import ScanFile, ScanSource
from runtime.spec.table import Column

_HINT = (
    "SET 'sqlwin.optimizer.disabled-rules' = 'push_local_aggregate_into_scan' has Spark read the "
    "files; the stream goes on from its checkpoint"
)

_DELETED = (
    "put it back; SET 'spark.sql.files.ignoreMissingFiles' = 'true' has Spark read the files, and "
    "leaves out those that are gone"
)


def read_stream_file(
    path: str, source: ScanSource, dictionaries: frozenset[str]
) -> Iterator[pa.RecordBatch]:
    """The rows of a file, under the names and types of `source`; see `read_batches`.

    A column that the file lacks is NULL.

    Args:
        path: the file.
        source: the columns.
        dictionaries: names of columns of strings or binaries that are wanted dictionary-encoded.

    Raises:
        ExecutionError: the file cannot be read, or has a column in another type.
    """
    footer = open_footer(path)
    if isinstance(footer, NotScannable):
        if not os.path.exists(path):
            raise ExecutionError(f"{path} was deleted before the stream has read it", hint=_DELETED)
        if "magic bytes" in footer.reason:
            raise ExecutionError(f"cannot read {path}: it is no Parquet file, or it is cut short")
        raise ExecutionError(footer.reason, hint=_HINT)
    present = present_columns(footer, source.columns)
    misfit = find_misfit(path, footer, present)
    if misfit is not None:
        raise ExecutionError(misfit.reason, hint=_HINT)
    if not present:
        yield from _nulls(source.columns, footer.num_rows)
        return
    part = _whole_file(path, footer, present)
    for batch in read_batches((part,), replace(source, columns=present), dictionaries):
        yield batch if len(present) == len(source.columns) else _with_nulls(batch, source.columns)


def _whole_file(path: str, footer: pq.FileMetaData, columns: Sequence[Column]) -> FilePart:
    indices = [column_index(footer, column.name) for column in columns]
    numbers = range(footer.num_row_groups)
    chunks = [footer.row_group(n).column(i) for n in numbers for i in indices]
    return FilePart(
        ScanFile(path),
        tuple(n for n in numbers if footer.row_group(n).num_rows),
        tuple(footer.schema.column(i).path for i in indices),
        footer.num_rows,
        sum(chunk.total_uncompressed_size for chunk in chunks),
        footer.num_rows,
    )


def _with_nulls(batch: pa.RecordBatch, columns: Sequence[Column]) -> pa.RecordBatch:
    found = dict(zip(batch.schema.names, batch.columns, strict=True))
    arrays = [
        found[c.name] if c.name in found else pa.nulls(batch.num_rows, arrow_type(c.type))
        for c in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])


def _nulls(columns: Sequence[Column], n_rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, n_rows, BATCH_ROWS):
        n = min(BATCH_ROWS, n_rows - start)
        arrays = [pa.nulls(n, arrow_type(column.type)) for column in columns]
        yield pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])
