"""Numbers of rows as a stream, made in the workers: what 'datagen' and 'nexmark' run on.

A data source of Spark's under the name `sqlwin_row_numbers`. Its columns: `id` (BIGINT), from 0
without a gap, and `at_us` (BIGINT), microseconds since 1970 at which the row is due.
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
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from runtime.connectors.connector import register_source
from runtime.connectors.options.checks import option_values
from runtime.spec.table import TableSpec

FORMAT = "sqlwin_row_numbers"
# A micro-batch never gets more seconds' worth of rows than this: who is slower is not overrun.
MOST_SECONDS = 10
_BATCH_ROWS = 10_000
_SCHEMA = pa.schema([("id", pa.int64()), ("at_us", pa.int64())])


@dataclass(frozen=True)
class Pace:
    """How fast rows come.

    Attributes:
        per_second: rows a second; None: as many as are asked for.
        per_batch: rows a micro-batch where no second counts.
        n_rows: how many there are; None: unbounded.
    """

    per_second: int | None
    per_batch: int
    n_rows: int | None

    def due(self, first: int, start: int, elapsed_us: int) -> int:
        """How many rows there are by now.

        Args:
            first: how many there were when the clock was started.
            start: how many have been read.
            elapsed_us: microseconds since then.
        """
        if self.per_second is None:
            rows = start + self.per_batch
        else:
            rows = first + self.per_second * elapsed_us // 1_000_000
            rows = min(rows, start + MOST_SECONDS * self.per_second)
        return max(start, rows if self.n_rows is None else min(rows, self.n_rows))


@dataclass
class _NumberRange(InputPartition):
    start: int
    end: int
    end_us: int
    last: int


class _NumberReader(DataSourceStreamReader):
    """Reads rows by number. An offset is the number of rows read, and when the last was due."""

    def __init__(self, pace: Pace, partitions: int) -> None:
        self._pace = pace
        self._partitions = partitions
        self._clock: tuple[int, int] | None = None

    def initialOffset(self) -> dict[str, int]:
        return {"rows": 0, "us": time.time_ns() // 1_000}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        now = time.time_ns() // 1_000
        if self._clock is None:
            # A stream that was stopped goes on where it was: it does not make up for the pause.
            self._clock = start["rows"], now
        first, since = self._clock
        rows = self._pace.due(first, start["rows"], now - since)
        if rows == start["rows"]:
            return start
        if self._pace.per_second and rows == start["rows"] + MOST_SECONDS * self._pace.per_second:
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
    """The data source; options `pace`, the values of a Pace, and `partitions`, 0: one a core."""

    @classmethod
    def name(cls) -> str:
        """Its name in `format()`."""
        return FORMAT

    def schema(self) -> str:
        """Its columns."""
        return "id BIGINT, at_us BIGINT"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of a stream."""
        pace = Pace(*json.loads(self.options["pace"]))
        return _NumberReader(pace, int(self.options["partitions"]) or os.cpu_count() or 1)


def counted_rows(spark: SparkSession, spec: TableSpec, n_rows: int) -> DataFrame:
    """The numbers of so many rows, in as many tasks as `scan.parallelism` of their table says."""
    return spark.range(0, n_rows, 1, _parallelism(spec))


def row_numbers(spark: SparkSession, spec: TableSpec, pace: Pace) -> DataFrame:
    """The numbers of rows as a streaming DataFrame.

    Args:
        spark: the session.
        spec: the table; `scan.parallelism` says how many tasks make a micro-batch at most, one a
            core unless it is set.
        pace: how fast they come.
    """
    register_source(spark, RowNumbers)
    partitions = _parallelism(spec) or 0
    reader = spark.readStream.format(FORMAT)
    return reader.options(pace=json.dumps(astuple(pace)), partitions=str(partitions)).load()


def _parallelism(spec: TableSpec) -> int | None:
    said = option_values(spec).get("scan.parallelism")
    return int(said) if said else None
