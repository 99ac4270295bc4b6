"""Numbers of rows as a stream, made in the workers: what the connector 'datagen' runs on.

A data source of Spark's under the name `sqlwin_row_numbers`. Its columns: `id` (BIGINT), from 0
without a gap, and `at_us` (BIGINT), microseconds since 1970 at which the row is due.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from runtime.connectors.connector import register_source

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
    """The data source; options `per-second`, `per-batch`, `rows`, `partitions`."""

    @classmethod
    def name(cls) -> str:
        """Its name in `format()`."""
        return FORMAT

    def schema(self) -> str:
        """Its columns."""
        return "id BIGINT, at_us BIGINT"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of a stream."""
        per_second, n_rows = self.options.get("per-second"), self.options.get("rows")
        pace = Pace(
            int(per_second) if per_second else None,
            int(self.options["per-batch"]),
            int(n_rows) if n_rows else None,
        )
        return _NumberReader(pace, int(self.options.get("partitions") or os.cpu_count() or 1))


def row_numbers(spark: SparkSession, pace: Pace, partitions: int | None) -> DataFrame:
    """The numbers of rows as a streaming DataFrame.

    Args:
        spark: the session.
        pace: how fast they come.
        partitions: over how many tasks a micro-batch is spread at most; None: one a core.
    """
    register_source(spark, RowNumbers)
    options = {
        "per-second": "" if pace.per_second is None else str(pace.per_second),
        "per-batch": str(pace.per_batch),
        "rows": "" if pace.n_rows is None else str(pace.n_rows),
        "partitions": "" if partitions is None else str(partitions),
    }
    return spark.readStream.format(FORMAT).options(**options).load()
