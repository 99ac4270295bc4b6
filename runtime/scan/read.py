"""Record batches of about a million rows from the row groups of a split."""

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
from runtime.scan.splits import FilePart, Split
from runtime.scan.stores import Store, open_stored, why_of
from runtime.spec.scan import ScanSource
from runtime.spec.table import Column

T = TypeVar("T")

BATCH_ROWS = 1 << 20
# Row groups of so many are not put together with others.
_ENOUGH_ROWS = BATCH_ROWS // 2
# Wide rows come in smaller batches.
_BATCH_BYTES = 128 << 20
# Of a store so many row groups are read at a time, if they are small together. More would hide more
# of the time that it takes to answer, and take more of the cores: each is decoded by its own thread
_AT_A_TIME = 2


def read_batches(
    split: Split, source: ScanSource, dictionaries: frozenset[str], store: Store | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a split, in order, under the names and types of `source`.

    Timestamps of all kinds come as microseconds. Small row groups are put together. Memory is
    bounded by a batch and what of a row group's columns is compressed; of a store, by some, whose
    bytes together are no more than those of a wide batch, or else by two: a store takes a while to
    answer, and so they are asked for before they are needed.

    Args:
        split: what to read.
        source: the table's columns; partition columns follow those of the files.
        dictionaries: names of columns of strings or binaries that are wanted dictionary-encoded.
        store: where the files are; None: on this machine.

    Raises:
        ExecutionError: a file cannot be read, or is not the one that was planned with.
    """
    if store is None:
        parts = (_part_batches(part, source, dictionaries) for part in split)
        return _large_batches(chain.from_iterable(parts))
    largest = max((part.n_bytes // max(1, len(part.row_groups)) for part in split), default=0)
    at_a_time = max(1, min(_AT_A_TIME, _BATCH_BYTES // max(1, largest)))
    groups = _stored_groups(split, source, dictionaries, store)
    return _large_batches(read_ahead(_begun_ahead(groups, at_a_time)))


def read_ahead(batches: Iterator[T]) -> Iterator[T]:
    """The same, the next one being made while one is worked on."""
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield batch
            del batch


def _begun_ahead(many: Iterator[Iterator[T]], at_a_time: int) -> Iterator[T]:
    """What iterators give, one after the other; so many of them make their first at a time."""

    def begin(each: Iterator[T]) -> tuple[T | None, Iterator[T]]:
        return next(each, None), each

    with ThreadPoolExecutor(at_a_time) as threads:
        coming = deque(threads.submit(begin, each) for each in islice(many, at_a_time))
        while coming:
            first, rest = coming.popleft().result()
            coming.extend(threads.submit(begin, each) for each in islice(many, 1))
            if first is not None:
                yield first
                del first
                yield from rest


def _part_batches(
    part: FilePart, source: ScanSource, dictionaries: frozenset[str]
) -> Iterator[pa.RecordBatch]:
    """The rows of a part of a file of this machine."""
    with _explained(part, None), _opened(part, source, dictionaries) as file:
        _check_same(part, file.metadata)
        for row_group in part.row_groups:
            # one at a time: the reader of several holds on to what it has read of them
            yield from _group_batches(file, row_group, part, source, dictionaries)


def _stored_groups(
    split: Split, source: ScanSource, dictionaries: frozenset[str], store: Store
) -> Iterator[Iterator[pa.RecordBatch]]:
    """The rows of each row group of a split."""
    for part in split:
        file = _StoredFile(part, store)
        for row_group in part.row_groups:
            yield file.batches(row_group, source, dictionaries)


class _StoredFile:
    """A part of a file of a store, which is opened by the thread that needs it first."""

    def __init__(self, part: FilePart, store: Store) -> None:
        self._part = part
        self._store = store
        self._lock = Lock()
        self._found: tuple[pa.NativeFile, pq.FileMetaData] | None = None

    def batches(
        self, row_group: int, source: ScanSource, dictionaries: frozenset[str]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a row group; several may be read at a time."""
        part = self._part
        with _explained(part, self._store):
            with self._lock:
                if self._found is None:
                    where = open_stored(self._store, part.file.path)
                    self._found = where, pq.read_metadata(where)
            _check_same(part, self._found[1])
            # a reader of its own: it holds what it has asked for
            with _opened(part, source, dictionaries, *self._found) as file:
                yield from _group_batches(file, row_group, part, source, dictionaries)


def _opened(
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
        # of a store the columns of a row group are asked for together
        pre_buffer=where is not None,
        read_dictionary=[stored for name in dictionaries if (stored := names.get(name))],
        coerce_int96_timestamp_unit="us",
    )


def _check_same(part: FilePart, footer: pq.FileMetaData) -> None:
    if footer.num_rows != part.n_rows_in_file:
        raise ExecutionError(
            f"{part.file.path} was changed while it was read", hint="run the query again"
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
        typed = _with_types(batch, part, source, dictionaries)
        del batch
        yield typed
        del typed


@contextmanager
def _explained(part: FilePart, store: Store | None) -> Iterator[None]:
    """Raise what goes wrong with a file as an error that names it."""
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
    batch: pa.RecordBatch, columns: Sequence[Column], dictionaries: frozenset[str]
) -> pa.RecordBatch:
    """Return the columns of a batch in Spark's types, as `read_batches` gives them.

    Args:
        batch: rows that Spark or a connector has read.
        columns: names and types of Spark's.
        dictionaries: names of columns to dictionary-encode.
    """
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
