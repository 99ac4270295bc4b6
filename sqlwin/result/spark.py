"""Rows that Spark's tasks compute.

Private API, as of Spark 4.3: `optimizedPlan().maxRows()`. Without it, small results arrive in
batches like large ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    CalendarIntervalType,
    NullType,
    StringType,
    StructField,
    StructType,
    VariantType,
    YearMonthIntervalType,
)

from runtime.frames.arrow_rows import ArrowRows
from runtime.frames.arrow_tables import arrow_zone, as_of_schema, session_zone
from runtime.frames.blobs import numbered, row_blobs
from runtime.spark.private import unless_missing
from runtime.spark.session import is_remote
from runtime.spec.table import Column
from sqlwin.result.rows import RunRecord, compute

# Types that Spark does not convert to Arrow, so they are shown as text
_NO_ARROW = (CalendarIntervalType, NullType, VariantType, YearMonthIntervalType)
# Results of at most this many rows are fetched at once, which saves a stage, and a job per
# partition
_AT_ONCE = 100_000


@dataclass(frozen=True)
class SparkRows:
    """Rows of a Spark DataFrame.

    Attributes:
        frame: DataFrame, which raises Spark's own errors.
        time_zone: Session time zone. Empty: the time zone of the DataFrame's session.
        run: Execution record of the statement, if there is one.
    """

    frame: DataFrame
    time_zone: str = ""
    run: RunRecord | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        """Names and Spark types of the columns."""
        return columns_of(self.frame.schema)

    @cached_property
    def schema(self) -> pa.Schema:
        """Arrow schema, with instants in the session's time zone."""
        return arrow_schema(self.frame, self.frame.columns, self.time_zone)

    def batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows, at most `limit`. Without a limit, fetch partition after partition."""
        frame = arrow_ready(self.frame)
        if limit is None and _most_rows(frame) > _AT_ONCE:
            blobs = row_blobs(numbered(frame))  # Spark's own Arrow refuses equal names
            yield from _fetched(blobs, self.schema, self.run)
            return
        limited = frame if limit is None else frame.limit(limit)
        for batch in compute(self.run, limited.toArrow).to_batches():
            yield as_of_schema(batch, self.schema)

    def dataframe(self) -> DataFrame:
        """Return the rows as a Spark DataFrame that has not been computed."""
        return self.frame


@dataclass(frozen=True)
class TaskRows:
    """Rows that Python workers hold as Arrow, fetched from the tasks without passing the JVM.

    Attributes:
        arrow: Rows as workers hold them.
        spark: The same rows as a Spark DataFrame, used for the first rows.
    """

    arrow: ArrowRows
    spark: SparkRows

    @property
    def columns(self) -> tuple[Column, ...]:
        """Names and Spark types of the columns."""
        return self.spark.columns

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema, with instants in the session's time zone."""
        return self.spark.schema

    def batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows, at most `limit`. Without a limit, fetch partition after partition."""
        if limit is not None:
            yield from self.spark.batches(limit)
        else:
            yield from _fetched(self.arrow.blobs(), self.schema, self.spark.run)

    def dataframe(self) -> DataFrame:
        """Return the rows as a Spark DataFrame that has not been computed."""
        return self.spark.frame


def arrow_ready(frame: DataFrame) -> DataFrame:
    """Cast columns of types that Arrow lacks to strings."""
    fields = frame.schema.fields
    lacking = [isinstance(field.dataType, _NO_ARROW) for field in fields]
    if not any(lacking):
        return frame
    columns = (
        F.col(f"_{i}").cast("string") if lacks else F.col(f"_{i}")
        for i, lacks in enumerate(lacking)
    )
    return numbered(frame).select(*columns).toDF(*(field.name for field in fields))


def arrow_schema(frame: DataFrame, names: Sequence[str], time_zone: str) -> pa.Schema:
    """Return the Arrow schema of `arrow_ready(frame)`, without calling Spark's analyser.

    Args:
        frame: Rows, also of a stream.
        names: Names of the columns.
        time_zone: Time zone of instants. Empty: the time zone of the DataFrame's session.
    """
    zone = arrow_zone(time_zone) if time_zone else session_zone(frame)
    fields = [
        StructField(
            name,
            StringType() if isinstance(field.dataType, _NO_ARROW) else field.dataType,
            field.nullable,
        )
        for name, field in zip(names, frame.schema.fields, strict=True)
    ]
    return to_arrow_schema(StructType(fields), timezone=zone)


def columns_of(schema: StructType) -> tuple[Column, ...]:
    """Return the names and types of a Spark schema."""
    return tuple(
        Column(field.name, field.dataType.simpleString(), field.nullable) for field in schema.fields
    )


def _fetched(
    blobs: DataFrame, schema: pa.Schema, run: RunRecord | None
) -> Iterator[pa.RecordBatch]:
    """Yield rows in the format of `row_blobs`, and fetch the next partition meanwhile."""
    rows = compute(run, lambda: blobs.toLocalIterator(prefetchPartitions=True))
    while (row := compute(run, lambda: next(rows, None))) is not None:
        for batch in pa.ipc.open_stream(row.rows):
            yield as_of_schema(batch, schema)


def _most_rows(frame: DataFrame) -> float:
    """Return the plan's upper bound on the number of rows; inf if it has none.

    A LIMIT or a global aggregate bounds it.
    """
    if is_remote(frame.sparkSession):
        return inf  # the plan is on the server

    def bound() -> float:
        # private, as of Spark 4.3
        most = frame._jdf.queryExecution().optimizedPlan().maxRows()
        return float(most.get()) if most.isDefined() else inf

    return unless_missing("small results come in as many pieces as large ones", bound, inf)
