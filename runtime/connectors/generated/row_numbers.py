"""Row numbers as a stream, generated in workers: the source behind 'datagen' and 'nexmark'.

A Spark data source named `sqlwin_row_numbers`. Columns: `id` (BIGINT), from 0 without gaps, and
`at_us` (BIGINT), the microseconds since 1970 at which the row is due.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from runtime.connectors.connector import register_source
from runtime.options.checks import option_values
from runtime.spark.versions.newer_classes import DataSource, DataSourceStreamReader, InputPartition
from runtime.spec.table import TableSpec

FORMAT = "sqlwin_row_numbers"
# Maximum seconds' worth of rows in a micro-batch, so that a slow query is not overrun.
MAX_SECONDS = 10
_BATCH_ROWS = 10_000
_SCHEMA = pa.schema([("id", pa.int64()), ("at_us", pa.int64())])


@dataclass(frozen=True)
class Pace:
    """Rate of the rows.

    Attributes:
        per_second: Rows per second. None for as many as requested.
        per_batch: Rows per micro-batch without a rate.
        n_rows: Total number of rows. None if unbounded.
    """

    per_second: int | None
    per_batch: int
    n_rows: int | None

    def due(self, first: int, start: int, elapsed_us: int) -> int:
        """Return the total number of rows due by now.

        Args:
            first: Number of rows when the clock was started.
            start: Number of rows read so far.
            elapsed_us: Microseconds since the clock was started.
        """
        if self.per_second is None:
            rows = start + self.per_batch
        else:
            rows = first + self.per_second * elapsed_us // 1_000_000
            rows = min(rows, start + MAX_SECONDS * self.per_second)
        return max(start, rows if self.n_rows is None else min(rows, self.n_rows))


@dataclass
class _NumberRange(InputPartition):
    start: int
    end: int
    end_us: int
    last: int


class _NumberReader(DataSourceStreamReader):
    """Reader of numbered rows. An offset holds the rows read and when the last one was due."""

    def __init__(self, pace: Pace, partitions: int) -> None:
        self._pace = pace
        self._partitions = partitions
        self._clock: tuple[int, int] | None = None

    def initialOffset(self) -> dict[str, int]:
        return {"rows": 0, "us": time.time_ns() // 1_000}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        now = time.time_ns() // 1_000
        if self._clock is None:
            # a resumed stream continues where it stopped and does not catch up on the pause
            self._clock = start["rows"], now
        first, since = self._clock
        rows = self._pace.due(first, start["rows"], now - since)
        if rows == start["rows"]:
            return start
        if self._pace.per_second and rows == start["rows"] + MAX_SECONDS * self._pace.per_second:
            self._clock = rows, now
        return {"rows": rows, "us": now}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        n_rows = end["rows"] - start["rows"]
        if n_rows <= 0:
            return []
        parts = min(self._partitions, math.ceil(n_rows / _BATCH_ROWS))
        bounds = [start["rows"] + n_rows * i // parts for i in range(parts + 1)]
        return [
            _NumberRange(bounds[i], bounds[i + 1], end["us"], end["rows"]) for i in range(parts)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import numpy as np

        assert isinstance(partition, _NumberRange)
        for start in range(partition.start, partition.end, _BATCH_ROWS):
            ids = np.arange(start, min(start + _BATCH_ROWS, partition.end), dtype=np.int64)
            at = np.full(len(ids), partition.end_us)
            if self._pace.per_second:
                at -= (partition.last - 1 - ids) * 1_000_000 // self._pace.per_second
            yield pa.RecordBatch.from_arrays([pa.array(ids), pa.array(at)], schema=_SCHEMA)


class RowNumbers(DataSource):
    """Data source with options `pace`, the values of a Pace, and `partitions`, 0 for one a core."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format()`."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns."""
        return "id BIGINT, at_us BIGINT"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the stream reader."""
        pace = Pace(*json.loads(self.options["pace"]))
        return _NumberReader(pace, int(self.options["partitions"]) or os.cpu_count() or 1)


def bounded_row_numbers(spark: SparkSession, spec: TableSpec, n_rows: int) -> DataFrame:
    """Return row numbers in the number of tasks given by the table's `scan.parallelism`."""
    return spark.range(0, n_rows, 1, _parallelism(spec))


def row_numbers(spark: SparkSession, spec: TableSpec, pace: Pace) -> DataFrame:
    """Return row numbers as a streaming DataFrame.

    Args:
        spark: Spark session.
        spec: Table specification. `scan.parallelism` limits the tasks of a micro-batch; the default
            is one per core.
        pace: Rate of the rows.
    """
    register_source(spark, RowNumbers)
    partitions = _parallelism(spec) or 0
    reader = spark.readStream.format(FORMAT)
    return reader.options(pace=json.dumps(astuple(pace)), partitions=str(partitions)).load()


def _parallelism(spec: TableSpec) -> int | None:
    value = option_values(spec).get("scan.parallelism")
    return int(value) if value else None
