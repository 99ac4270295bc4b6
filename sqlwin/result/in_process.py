"""Rows computed in this process, without Spark jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from runtime.engines.local.execute import ComputedRows
from runtime.frames.arrow_tables import arrow_zone, cast_to_schema
from runtime.spark.versions.arrow_types import schema_in_zone
from runtime.spec.table import Column
from sqlwin.result.protocol import RunRecord, compute

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class InProcessRows:
    """Rows computed in this process.

    Attributes:
        computed: The rows, with instants in UTC.
        time_zone: Session time zone. Empty if no column has instants.
        make_dataframe: Creates the DataFrame with the same rows, which Spark computes.
        run: Execution record of the statement, if there is one.
    """

    computed: ComputedRows
    time_zone: str
    make_dataframe: Callable[[], DataFrame]
    run: RunRecord | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        """Names and Spark types of the columns."""
        return self.computed.step.columns

    @cached_property
    def schema(self) -> pa.Schema:
        """Arrow schema, with instants in the session's time zone."""
        return schema_in_zone(self.computed.schema, arrow_zone(self.time_zone))

    def batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows, at most `limit`."""
        rows = self.computed.batches(limit)
        while (batch := compute(self.run, lambda: next(rows, None), has_jobs=False)) is not None:
            yield cast_to_schema(batch, self.schema)

    def dataframe(self) -> DataFrame:
        """Return the rows as a Spark DataFrame that has not been computed."""
        return self.make_dataframe()
