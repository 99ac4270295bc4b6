"""The splits of a hybrid table as a Spark data source, whose offset is the position in both tables.

    {"first": 3, "of": 8}                   3 of 8 ranges of the first table are read
    {"first": 8, "of": 8, "then": {...}}    all of them, and the offset of the second table's reader

The stream changes over with the first offset that has `then`, an entry of Spark's offset log: it
exists or not, so a killed stream continues in the table that it was in.
"""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from runtime.connectors.connector import register_source
from runtime.connectors.hybrid.history import HistoryRange
from runtime.spark.versions.newer_classes import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from runtime.spec.source import BRINGS_SPLITS, SplitOffsets

FORMAT = "sqlwin_hybrid"
FIRST, OF, THEN = "first", "of", "then"
# Spark masks options with such a name in its displays; the second table may have passwords
_OPTION = "secret.hybrid"
_SPLIT = "split"

Offset = dict[str, Any]


@dataclass
class _Splits(InputPartition):
    texts: tuple[str, ...]


class HybridOffsets(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of splits: first the ranges one by one, then the splits of the second table.

    Args:
        ranges: Ranges of the first table.
        then: Offsets of the second table.
    """

    def __init__(self, ranges: Sequence[HistoryRange], then: SplitOffsets) -> None:
        self._ranges = tuple(ranges)
        self._then = then

    def initialOffset(self) -> Offset:
        """Return the offset of a stream that has read nothing."""
        return {FIRST: 0, OF: len(self._ranges)}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return that the reader itself limits micro-batches."""
        return ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return the end of the micro-batch after `start`."""
        n_read = start[FIRST]
        if n_read < len(self._ranges):
            return {FIRST: n_read + 1, OF: start[OF]}
        return {FIRST: n_read, OF: start[OF], THEN: self._then.latest(self._position(start))}

    def prepareForTriggerAvailableNow(self) -> None:
        """Let the second table end with its present rows."""
        self._then.end_now()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the splits of a micro-batch."""
        tasks = [
            tuple(json.dumps([FIRST, range_.until_us, split]) for split in task)
            for range_ in self._ranges[start[FIRST] : end[FIRST]]
            for task in range_.tasks
        ]
        if THEN in end:
            splits = self._then.splits(start.get(THEN), end[THEN])
            tasks += [(json.dumps([THEN, split]),) for split in splits]
        return [_Splits(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the splits of a task."""
        assert isinstance(partition, _Splits)
        yield pa.record_batch({_SPLIT: pa.array(partition.texts, pa.string())})

    def stop(self) -> None:
        """Close the connections of the second table."""
        self._then.stop()

    def __getstate__(self) -> dict[str, Any]:
        # tasks get a copy, and read only what their partitions contain
        return {"_ranges": (), "_then": None}

    def _position(self, offset: Offset) -> Any:
        return offset[THEN] if THEN in offset else self._then.start()


class HybridSource(DataSource):
    """Data source whose only option is the pickled arguments of its reader."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format()`."""
        return FORMAT

    def schema(self) -> str:
        """Return the only column: the text of a split."""
        return f"`{_SPLIT}` STRING"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the stream reader."""
        return HybridOffsets(*pickle.loads(base64.b64decode(self.options[_OPTION])))


def split_texts(
    spark: SparkSession, ranges: Sequence[HistoryRange], then: SplitOffsets
) -> DataFrame:
    """Return the texts of the splits as they arrive. For the arguments see HybridOffsets."""
    register_source(spark, HybridSource)
    text = base64.b64encode(pickle.dumps((tuple(ranges), then))).decode()
    reader = spark.readStream.format(FORMAT).options(**{_OPTION: text, BRINGS_SPLITS: "true"})
    rows: DataFrame = reader.load()
    return rows
