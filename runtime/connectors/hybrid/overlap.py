"""Rows that both tables of a hybrid table have: which of them count.

The first table is complete before the overlap. Within it, a row of the second counts unless the
first has its key. After the first table's newest time, all rows of the second count. A row without
a time or without a key is not recognised, so it counts.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from runtime.compute.kernels.conversions import int64_values, normalise_floats
from runtime.connectors.hybrid.parts import Parts
from runtime.names import quote_name
from runtime.spark.workers import prepare_worker
from runtime.spec.source import WATERMARK_SPLIT, SplitReader
from runtime.spec.table import Column

_NEWEST, _NUMBER = "$newest", "$number"


@dataclass(frozen=True)
class Overlap:
    """Overlap of a stream, in a task.

    Attributes:
        time: Time column.
        key: Columns that identify a row.
        from_us: Start of the overlap.
        newest_us: Newest time of the first table.
        splits: Splits of the first table that may have rows in the overlap.
        reader: Reads time and key of those splits.
    """

    time: Column
    key: tuple[Column, ...]
    from_us: int
    newest_us: int
    splits: tuple[str, ...]
    reader: SplitReader

    def rows_that_count(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of the second table that count.

        Args:
            batch: Rows with the time and the key, among other columns.

        Raises:
            ExecutionError: A file of the first table cannot be read.
        """
        times = batch.column(self.time.name)
        has_time = times.is_valid().to_numpy(zero_copy_only=False)
        times_us = int64_values(times.fill_null(0))
        counts = ~has_time | (times_us >= self.from_us)
        in_doubt = np.flatnonzero(has_time & counts & (times_us <= self.newest_us))
        if len(in_doubt):
            counts[in_doubt] = self._are_new(batch.take(pa.array(in_doubt)))
        return batch if counts.all() else batch.filter(pa.array(counts))

    def _are_new(self, rows: pa.RecordBatch) -> np.ndarray:
        """Return for each row whether the first table lacks its key."""
        keys = _keys_of(self)
        names = keys.column_names
        columns = [
            _plain(rows.column(column.name)).cast(keys.schema.field(name).type)
            for column, name in zip(self.key, names, strict=True)
        ]
        table = pa.table([*columns, pa.array(range(rows.num_rows))], names=[*names, _NUMBER])
        new = table.join(keys, names, join_type="left anti", use_threads=False)
        result = np.zeros(rows.num_rows, bool)
        result[new.column(_NUMBER).to_numpy()] = True
        return result


# Keys of the overlap that this worker read last
_read_keys: dict[tuple[object, ...], pa.Table] = {}


def _keys_of(overlap: Overlap) -> pa.Table:
    """Return the keys of the first table's rows in the overlap, read once per worker."""
    place = (overlap.splits, overlap.key, overlap.from_us)
    if place not in _read_keys:
        names = [f"k{number}" for number in range(len(overlap.key))]
        tables = []
        for batch in overlap.reader.read(overlap.splits, frozenset()):
            times = batch.column(overlap.time.name)
            is_in = int64_values(times.fill_null(overlap.from_us - 1)) >= overlap.from_us
            rows = batch.filter(pa.array(is_in))
            columns = [_plain(rows.column(column.name)) for column in overlap.key]
            tables.append(pa.table(columns, names=names).group_by(names).aggregate([]))
        _read_keys.clear()
        _read_keys[place] = pa.concat_tables(tables)
    return _read_keys[place]


def _plain(array: pa.Array) -> pa.Array:
    """Return an array without a dictionary, in which equal values are equal bitwise."""
    return normalise_floats(
        array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    )


def only_counting(rows: DataFrame, overlap: Overlap) -> DataFrame:
    """Drop rows of the second table that Spark decoded and that do not count.

    Rows without a WATERMARK_SPLIT are messages of tasks, see `SplitSource.with_decoded`.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for batch in batches:
            is_message = batch.column(WATERMARK_SPLIT).is_valid()
            yield batch.filter(pc.invert(is_message))
            yield overlap.rows_that_count(batch.filter(is_message))

    return rows.mapInArrow(run, rows.schema)


@dataclass(frozen=True)
class _GivenRows(SplitReader):
    """Reader that returns given rows for each split."""

    rows: pa.Table

    def read(self, splits: Sequence[str], dictionaries: frozenset[str]) -> Iterator[pa.RecordBatch]:
        return iter(self.rows.to_batches())


def rows_in_order(parts: Parts, first: pa.Table, then: pa.Table) -> pa.Table:
    """Return given rows in the order in which a stream reads them: first by time, and then others.

    Args:
        parts: The tables.
        first: Rows of the first table with the columns of the hybrid table.
        then: Rows of the second table, in the order of their arrival.
    """
    by_time = [(parts.time.name, "ascending", "at_start")]
    first = first.take(pc.sort_indices(first, sort_keys=by_time))
    newest = pc.max(first[parts.time.name].cast(pa.int64())).as_py()
    if parts.overlap_us is None or newest is None:
        return pa.concat_tables([first, then])
    # splits of their own, because keys are kept by them
    overlap = Overlap(
        parts.time,
        parts.key,
        newest - parts.overlap_us,
        newest,
        (uuid.uuid4().hex,),
        _GivenRows(first),
    )
    counting = map(overlap.rows_that_count, then.to_batches())
    return pa.concat_tables([first, pa.Table.from_batches(counting, then.schema)])


def rows_of_both(spark: SparkSession, parts: Parts) -> DataFrame:
    """Return the rows of a batch: all of the first table, and rows of the second that count.

    Raises:
        ExecutionError: The first table has no offsets at which the second starts.
    """
    parts = parts.at_stored_offsets(spark)
    names = [quote_name(column.name) for column in parts.columns]
    first = parts.first.rows(spark).select(*names)
    then = parts.then.rows(spark).select(*names)
    if parts.overlap_us is None:
        return first.unionAll(then)
    time = quote_name(parts.time.name)
    newest = F.broadcast(first.agg(F.max(time).alias(_NEWEST)))
    seconds = f"{parts.overlap_us // 10**6}.{parts.overlap_us % 10**6:06d}"
    start = f"{quote_name(_NEWEST)} - make_dt_interval(0, 0, 0, CAST({seconds} AS DECIMAL(18, 6)))"
    key = [f"$key{number}" for number in range(len(parts.key))]
    known = (
        first.crossJoin(newest)
        .where(f"{time} >= {start}")
        .select(
            *(
                F.col(quote_name(column.name)).alias(name)
                for column, name in zip(parts.key, key, strict=True)
            )
        )
    )
    is_same = F.expr(f"{time} <= {quote_name(_NEWEST)}")
    for column, name in zip(parts.key, key, strict=True):
        is_same &= F.col(quote_name(column.name)) == F.col(quote_name(name))
    new = (
        then.crossJoin(newest)
        .where(f"{time} IS NULL OR {quote_name(_NEWEST)} IS NULL OR {time} >= {start}")
        .join(known, is_same, "left_anti")
    )
    return first.unionAll(new.select(*names))
