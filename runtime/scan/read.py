"""Record batches of about a million rows from the row groups of a split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from runtime.compute.arrow.types import arrow_type
from runtime.errors import ExecutionError
from runtime.scan.splits import FilePart, Split
from runtime.scan.stores import Store, open_stored, why_of
from runtime.spec.scan import ScanSource

T = TypeVar("T")

BATCH_ROWS = 1 << 20
# Row groups of so many are not put together with others.
_ENOUGH_ROWS = BATCH_ROWS // 2
# Wide rows come in smaller batches.
_BATCH_BYTES = 128 << 20


def read_batches(
    split: Split, source: ScanSource, dictionaries: frozenset[str], store: Store | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a split, in order, under the names and types of `source`.

    Timestamps of all kinds come as microseconds. Small row groups are put together. Memory is
    bounded by a batch and what of a row group's columns is compressed; of a store, by two, since
    the next one is read meanwhile.

    Args:
        split: what to read.
        source: the table's columns; partition columns follow those of the files.
        dictionaries: names of columns of strings or binaries that are wanted dictionary-encoded.
        store: where the files are; None: on this machine.

    Raises:
        ExecutionError: a file cannot be read, or is not the one that was planned with.
    """
    batches = (
        batch for part in split for batch in _part_batches(part, source, dictionaries, store)
    )
    return _large_batches(batches if store is None else read_ahead(batches))


def read_ahead(batches: Iterator[T]) -> Iterator[T]:
    """The same, the next one being made while one is worked on."""
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield batch
            del batch


def _part_batches(
    part: FilePart, source: ScanSource, dictionaries: frozenset[str], store: Store | None
) -> Iterator[pa.RecordBatch]:
    names = dict(zip((column.name for column in source.columns), part.columns, strict=True))
    try:
        file = pq.ParquetFile(
            part.file.path if store is None else open_stored(store, part.file.path),
            # of a store the columns of a row group are asked for together
            pre_buffer=store is not None,
            read_dictionary=[stored for name in dictionaries if (stored := names.get(name))],
            coerce_int96_timestamp_unit="us",
        )
        with file:
            if file.metadata.num_rows != part.n_rows_in_file:
                raise ExecutionError(
                    f"{part.file.path} was changed while it was read", hint="run the query again"
                )
            for row_group in part.row_groups:
                # one at a time: the reader of several holds on to what it has read of them
                batches = file.iter_batches(
                    _batch_rows(part),
                    row_groups=[row_group],
                    columns=[name for name in part.columns if name is not None],
                    use_threads=False,
                )
                for batch in batches:
                    typed = _with_types(batch, part, source, dictionaries)
                    del batch
                    yield typed
                    del typed
    except FileNotFoundError as error:
        raise ExecutionError(
            f"{part.file.path} was deleted while it was read", hint="run the query again"
        ) from error
    except PermissionError as error:
        cause = "permission denied" if store is None else error.strerror
        raise ExecutionError(f"cannot read {part.file.path}: {cause}") from error
    except (OSError, pa.ArrowException) as error:
        cause = str(error).splitlines()[0] if str(error) else type(error).__name__
        if store is not None:
            cause = why_of(store, part.file.path, error)
        raise ExecutionError(f"cannot read {part.file.path}: {cause}") from error


def _batch_rows(part: FilePart) -> int:
    row_bytes = max(1, part.n_bytes // max(1, part.n_rows))
    return max(1024, min(BATCH_ROWS, _BATCH_BYTES // row_bytes))


def _with_types(
    batch: pa.RecordBatch, part: FilePart, source: ScanSource, dictionaries: frozenset[str]
) -> pa.RecordBatch:
    arrays, names = [], []
    for column, name in zip(source.columns, part.columns, strict=True):
        if name is None:
            array = pa.nulls(batch.num_rows, arrow_type(column.type))
        else:
            array = _leaf(batch, name)
        arrays.append(_typed(array, column.type, column.name in dictionaries))
        names.append(column.name)
    for column, value in zip(source.partition_columns, part.file.partition_values, strict=True):
        scalar = pa.scalar(value, arrow_type(column.type))
        array = pa.repeat(scalar, batch.num_rows)
        arrays.append(array.dictionary_encode() if column.name in dictionaries else array)
        names.append(column.name)
    return pa.RecordBatch.from_arrays(arrays, names=names)


def typed_rows(
    batch: pa.RecordBatch, source: ScanSource, dictionaries: frozenset[str]
) -> pa.RecordBatch:
    """Rows that Spark has read, as `read_batches` gives those of files."""
    columns = (*source.columns, *source.partition_columns)
    arrays = [_typed(batch.column(c.name), c.type, c.name in dictionaries) for c in columns]
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])


def _leaf(batch: pa.RecordBatch, path: str) -> pa.Array:
    """A column, or a field of a struct, which is NULL where the struct is."""
    name, *fields = [path] if path in batch.schema.names else path.split(".")
    array = batch.column(name)
    return pc.struct_field(array, fields) if fields else array


def _typed(array: pa.Array, spark_type: str, is_dictionary: bool) -> pa.Array:
    """The array as Spark's type, whatever Arrow schema the file's writer left in it."""
    type_ = arrow_type(spark_type)
    if is_dictionary:
        wanted = pa.dictionary(pa.int32(), type_)
        if array.type == wanted:
            return array
        if pa.types.is_dictionary(array.type):
            return pa.DictionaryArray.from_arrays(
                array.indices.cast(pa.int32()), array.dictionary.cast(type_)
            )
        return array.cast(type_).dictionary_encode()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type == type_:
        return array
    if pa.types.is_timestamp(type_):
        # The zone is a label; a cast that adds one would read local times.
        instants = array.cast(pa.timestamp("us", tz=array.type.tz))
        return instants.view(pa.int64()).view(type_)
    return array.cast(type_)


def _large_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that are not small, as long as the rows last."""
    pending: list[pa.RecordBatch] = []
    n_pending = n_bytes = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        is_full = n_pending + batch.num_rows > BATCH_ROWS or n_bytes + batch.nbytes > _BATCH_BYTES
        if pending and is_full:
            yield _joined(pending)
            pending, n_pending, n_bytes = [], 0, 0
        pending.append(batch)
        n_pending += batch.num_rows
        n_bytes += batch.nbytes
        del batch
        if n_pending >= _ENOUGH_ROWS:
            # at once, so that it is not in memory beside the next one
            yield _joined(pending)
            pending, n_pending, n_bytes = [], 0, 0
    if pending:
        yield _joined(pending)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    (batch,) = table.to_batches()
    return batch
