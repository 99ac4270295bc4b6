"""Read the row groups of a split in record batches of about a million rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, islice
from threading import Lock
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from runtime.compute.arrow.types import arrow_type
from runtime.errors import ExecutionError
from runtime.scan.faults import why_unreadable
from runtime.scan.splits import FilePart, Split
from runtime.scan.stores import Store, open_stored, why_of
from runtime.spec.scan import ScanSource
from runtime.spec.table import Column

T = TypeVar("T")

BATCH_ROWS = 1 << 20
# Row groups of this size are not combined with others.
_TARGET_ROWS = BATCH_ROWS // 2
# Wide rows come in smaller batches.
_BATCH_BYTES = 128 << 20
# Number of small row groups read from a store in parallel. More would hide more latency but occupy
# more cores, because each is decoded in its own thread.
_AT_A_TIME = 2


def read_batches(
    split: Split, source: ScanSource, dictionaries: frozenset[str], store: Store | None = None
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a split in order, with the names and types of `source`.

    All timestamps are returned in microseconds. Small row groups are combined. Memory is bounded by
    one batch and one row group's compressed columns. A store's row groups are requested ahead to
    hide latency: as many as fit into a wide batch, or else two.

    Args:
        split: Split to read.
        source: Columns of the table; partition columns come last.
        dictionaries: Names of string or binary columns to return dictionary-encoded.
        store: Object store of the files; None for this machine.

    Raises:
        ExecutionError: A file cannot be read, or has changed since planning.
    """
    if store is None:
        parts = (_part_batches(part, source, dictionaries) for part in split)
        return _large_batches(chain.from_iterable(parts))
    largest = max((part.n_bytes // max(1, len(part.row_groups)) for part in split), default=0)
    at_a_time = max(1, min(_AT_A_TIME, _BATCH_BYTES // max(1, largest)))
    groups = _stored_groups(split, source, dictionaries, store)
    return _large_batches(read_ahead(_start_ahead(groups, at_a_time)))


def read_ahead(batches: Iterator[T]) -> Iterator[T]:
    """Yield the same batches, preparing the next one while the caller processes one."""
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield batch
            del batch


def _start_ahead(many: Iterator[Iterator[T]], at_a_time: int) -> Iterator[T]:
    """Chain iterators; compute the first item of `at_a_time` iterators in parallel."""

    def begin(iterator: Iterator[T]) -> tuple[T | None, Iterator[T]]:
        return next(iterator, None), iterator

    with ThreadPoolExecutor(at_a_time) as threads:
        pending = deque(threads.submit(begin, iterator) for iterator in islice(many, at_a_time))
        while pending:
            first, rest = pending.popleft().result()
            pending.extend(threads.submit(begin, iterator) for iterator in islice(many, 1))
            if first is not None:
                yield first
                del first
                yield from rest


def _part_batches(
    part: FilePart, source: ScanSource, dictionaries: frozenset[str]
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a part of a local file."""
    with _explain_errors(part, None), _open_part(part, source, dictionaries) as file:
        _check_same(part, file.metadata)
        for row_group in part.row_groups:
            # one at a time: a reader of several keeps all of them in memory
            yield from _group_batches(file, row_group, part, source, dictionaries)


def _stored_groups(
    split: Split, source: ScanSource, dictionaries: frozenset[str], store: Store
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Read the rows of a split, one iterator per row group."""
    for part in split:
        file = _StoredFile(part, store)
        for row_group in part.row_groups:
            yield file.batches(row_group, source, dictionaries)


class _StoredFile:
    """Part of a stored file, opened by the first thread that needs it."""

    def __init__(self, part: FilePart, store: Store) -> None:
        self._part = part
        self._store = store
        self._lock = Lock()
        self._found: tuple[pa.NativeFile, pq.FileMetaData] | None = None

    def batches(
        self, row_group: int, source: ScanSource, dictionaries: frozenset[str]
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of a row group; several may be read in parallel."""
        part = self._part
        with _explain_errors(part, self._store):
            with self._lock:
                if self._found is None:
                    where = open_stored(self._store, part.file.path)
                    self._found = where, pq.read_metadata(where)
            _check_same(part, self._found[1])
            # Use a separate reader, because readers keep the data they requested.
            with _open_part(part, source, dictionaries, *self._found) as file:
                yield from _group_batches(file, row_group, part, source, dictionaries)


def _open_part(
    part: FilePart,
    source: ScanSource,
    dictionaries: frozenset[str],
    where: pa.NativeFile | None = None,
    footer: pq.FileMetaData | None = None,
) -> pq.ParquetFile:
    names = dict(zip((column.name for column in source.columns), part.columns, strict=True))
    return pq.ParquetFile(
        part.file.path if where is None else where,
        metadata=footer,
        # request the columns of a stored row group together
        pre_buffer=where is not None,
        read_dictionary=[stored for name in dictionaries if (stored := names.get(name))],
        coerce_int96_timestamp_unit="us",
    )


def _check_same(part: FilePart, footer: pq.FileMetaData) -> None:
    if footer.num_rows != part.n_rows_in_file:
        raise ExecutionError(
            f"{part.file.path} changed while it was read", hint="run the query again"
        )


def _group_batches(
    file: pq.ParquetFile,
    row_group: int,
    part: FilePart,
    source: ScanSource,
    dictionaries: frozenset[str],
) -> Iterator[pa.RecordBatch]:
    batches = file.iter_batches(
        _batch_rows(part),
        row_groups=[row_group],
        columns=[name for name in part.columns if name is not None],
        use_threads=False,
    )
    for batch in batches:
        typed = _set_types(batch, part, source, dictionaries)
        del batch
        yield typed
        del typed


@contextmanager
def _explain_errors(part: FilePart, store: Store | None) -> Iterator[None]:
    """Convert errors of reading a file to ExecutionErrors that name it."""
    try:
        yield
    except FileNotFoundError as error:
        raise ExecutionError(
            f"{part.file.path} was deleted while it was read", hint="run the query again"
        ) from error
    except PermissionError as error:
        cause = "permission denied" if store is None else error.strerror
        raise ExecutionError(f"cannot read {part.file.path}: {cause}") from error
    except (OSError, pa.ArrowException) as error:
        cause = why_unreadable(error)
        if store is not None:
            cause = why_of(store, part.file.path, error)
        raise ExecutionError(f"cannot read {part.file.path}: {cause}") from error


def _batch_rows(part: FilePart) -> int:
    row_bytes = max(1, part.n_bytes // max(1, part.n_rows))
    return max(1024, min(BATCH_ROWS, _BATCH_BYTES // row_bytes))


def _set_types(
    batch: pa.RecordBatch, part: FilePart, source: ScanSource, dictionaries: frozenset[str]
) -> pa.RecordBatch:
    arrays, names = [], []
    for column, name in zip(source.columns, part.columns, strict=True):
        if name is None:
            array = pa.nulls(batch.num_rows, arrow_type(column.type))
        else:
            array = _leaf(batch, name)
        arrays.append(_to_spark_type(array, column.type, column.name in dictionaries))
        names.append(column.name)
    for column, value in zip(source.partition_columns, part.file.partition_values, strict=True):
        scalar = pa.scalar(value, arrow_type(column.type))
        array = pa.repeat(scalar, batch.num_rows)
        arrays.append(array.dictionary_encode() if column.name in dictionaries else array)
        names.append(column.name)
    return pa.RecordBatch.from_arrays(arrays, names=names)


def convert_types(
    batch: pa.RecordBatch, columns: Sequence[Column], dictionaries: frozenset[str]
) -> pa.RecordBatch:
    """Convert the columns of a batch to Spark's types, as `read_batches` returns them.

    Args:
        batch: Rows read by Spark or a connector.
        columns: Names and Spark types.
        dictionaries: Names of columns to dictionary-encode.
    """
    arrays = [_to_spark_type(batch.column(c.name), c.type, c.name in dictionaries) for c in columns]
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])


def _leaf(batch: pa.RecordBatch, path: str) -> pa.Array:
    """Return a column, or a field of a struct, which is NULL if the struct is."""
    name, *fields = [path] if path in batch.schema.names else path.split(".")
    array = batch.column(name)
    return pc.struct_field(array, fields) if fields else array


def _to_spark_type(array: pa.Array, spark_type: str, is_dictionary: bool) -> pa.Array:
    """Convert an array to Spark's type, regardless of the Arrow schema embedded in the file."""
    type_ = arrow_type(spark_type)
    if is_dictionary:
        encoded_type = pa.dictionary(pa.int32(), type_)
        if array.type == encoded_type:
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
        # The zone is only a label; casting from no zone to a zone would convert local times.
        instants = array.cast(pa.timestamp("us", tz=array.type.tz))
        return instants.view(pa.int64()).view(type_)
    return array.cast(type_)


def _large_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Combine small batches to large ones; only the last may be small."""
    pending: list[pa.RecordBatch] = []
    n_pending = n_bytes = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        is_full = n_pending + batch.num_rows > BATCH_ROWS or n_bytes + batch.nbytes > _BATCH_BYTES
        if pending and is_full:
            yield _concat_batches(pending)
            pending, n_pending, n_bytes = [], 0, 0
        pending.append(batch)
        n_pending += batch.num_rows
        n_bytes += batch.nbytes
        del batch
        if n_pending >= _TARGET_ROWS:
            # Release the batches before the next ones are read.
            yield _concat_batches(pending)
            pending, n_pending, n_bytes = [], 0, 0
    if pending:
        yield _concat_batches(pending)


def _concat_batches(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    (batch,) = table.to_batches()
    return batch
