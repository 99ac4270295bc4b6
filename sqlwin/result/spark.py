"""Rows that Spark's tasks compute.

Private API, as of Spark 4.3: `optimizedPlan().maxRows()`. Without it, small results arrive in
batches like large ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    YearMonthIntervalType,
)

from runtime.frames.arrow_rows import ArrowRows, BatchRows
from runtime.frames.arrow_tables import (
    arrow_zone,
    cast_columns,
    cast_to_schema,
    fields_may_be_null,
    name_fields_apart,
    session_zone,
)
from runtime.results.transport import DEFAULT_MAX_BYTES, result_batches
from runtime.spark.private import unless_missing
from runtime.spark.session import is_remote
from runtime.spark.versions.arrow_types import to_arrow_schema
from runtime.spark.versions.frames import to_arrow
from runtime.spark.versions.newer_classes import CalendarIntervalType, VariantType
from runtime.spec.table import Column
from sqlwin.result.protocol import RunRecord, compute

# Types that Spark does not convert to Arrow, so they are shown as text
_NO_ARROW = (CalendarIntervalType, NullType, VariantType, YearMonthIntervalType)
# Types with the same Python values in Spark and in Arrow
_PLAIN = (StringType, BooleanType, ByteType, ShortType, IntegerType, LongType)
# Results of at most this many rows are fetched by Spark directly, which saves a Python stage
_AT_ONCE = 100_000


@dataclass(frozen=True)
class SparkRows:
    """Rows of a Spark DataFrame.

    Attributes:
        frame: DataFrame, which raises Spark's own errors.
        time_zone: Session time zone. Empty: the time zone of the DataFrame's session.
        run: Execution record of the statement, if there is one.
        most_bytes: Maximum bytes of rows held at a time.
        arrow: The same rows as Python workers hold them. None if Spark computes them.
        planned: Columns as planned, which say what may be NULL, for every executor alike. None:
            the columns of the DataFrame do.
        is_fetched_at_once: Whether Spark's driver sends all rows together, without Python workers.
    """

    frame: DataFrame
    time_zone: str = ""
    run: RunRecord | None = None
    most_bytes: int = DEFAULT_MAX_BYTES
    arrow: ArrowRows | None = None
    planned: tuple[Column, ...] | None = None
    is_fetched_at_once: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """Names and Spark types of the columns."""
        return as_planned(columns_of(self.frame.schema), self.planned)

    @cached_property
    def schema(self) -> pa.Schema:
        """Arrow schema, with instants in the session's time zone."""
        return arrow_schema(self.frame, self.columns, self.time_zone)

    def batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows, at most `limit`. Few rows are fetched at once."""
        if limit is None and self.arrow is not None:
            yield from self._fetch(replace(BatchRows.of(self.frame), arrow=self.arrow))
            return
        if limit is None and (present := present_rows(self.frame)) is not None:
            for batch in present.to_batches():
                yield cast_to_schema(batch, self.schema)
            return
        frame = arrow_ready(self.frame)
        if limit is not None:
            frame = frame.limit(limit)
        most_rows = _most_rows(frame) if limit is None else limit
        if most_rows > _AT_ONCE and not self.is_fetched_at_once:
            yield from self._fetch(BatchRows.of(frame))
            return
        for batch in compute(self.run, partial(to_arrow, frame)).to_batches():
            yield cast_to_schema(batch, self.schema)

    def _fetch(self, rows: BatchRows) -> Iterator[pa.RecordBatch]:
        """Yield rows with this schema, fetched from tasks within `most_bytes`."""
        batches = result_batches(rows, self.most_bytes)
        with closing(batches):
            # only the first call starts jobs
            batch = compute(self.run, lambda: next(batches, None))
            while batch is not None:
                yield cast_to_schema(batch, self.schema)
                batch = compute(self.run, lambda: next(batches, None), has_jobs=False)

    def dataframe(self) -> DataFrame:
        """Return the rows as a Spark DataFrame that has not been computed."""
        return self.frame


def present_rows(frame: DataFrame) -> pa.Table | None:
    """Return rows that are already on the driver, such as the rows of SHOW. None for others.

    `toArrow` would start a job, which waits for the jobs of other statements.
    """
    types = [field.dataType for field in frame.schema]
    if not all(isinstance(type_, _PLAIN) for type_ in types) or is_remote(frame.sparkSession):
        return None
    if not frame.isLocal():
        return None
    rows = frame.collect()
    fields = to_arrow_schema(frame.schema)
    arrays = [
        pa.array([row[place] for row in rows], field.type) for place, field in enumerate(fields)
    ]
    return pa.Table.from_arrays(arrays, schema=fields)


def arrow_ready(frame: DataFrame) -> DataFrame:
    """Cast columns to the types of `_arrow_types`, with fields as in `name_fields_apart`."""
    return cast_columns(frame, [name_fields_apart(type_) for type_ in _arrow_types(frame)])


def _arrow_types(frame: DataFrame) -> list[DataType]:
    """Return the columns' types, strings where Arrow has none; see `fields_may_be_null`."""
    return [_arrow_type(field.dataType) for field in fields_may_be_null(frame.schema)]


def _arrow_type(type_: DataType) -> DataType:
    """Return a type with strings in place of types that Arrow does not have, on any level."""
    if isinstance(type_, _NO_ARROW):
        return StringType()
    if isinstance(type_, StructType):
        return StructType(
            [StructField(f.name, _arrow_type(f.dataType), f.nullable, f.metadata) for f in type_]
        )
    if isinstance(type_, ArrayType):
        return ArrayType(_arrow_type(type_.elementType), type_.containsNull)
    if isinstance(type_, MapType):
        key, value = map(_arrow_type, (type_.keyType, type_.valueType))
        return MapType(key, value, type_.valueContainsNull)
    return type_


def as_planned(
    columns: tuple[Column, ...], planned: tuple[Column, ...] | None
) -> tuple[Column, ...]:
    """Return columns that may be NULL where the planned ones may.

    Args:
        columns: Columns of an executor.
        planned: Planned columns. None: the columns stay as they are.
    """
    if planned is None:
        return columns
    return tuple(replace(c, nullable=p.nullable) for c, p in zip(columns, planned, strict=True))


def arrow_schema(frame: DataFrame, columns: Sequence[Column], time_zone: str) -> pa.Schema:
    """Return the Arrow schema of a DataFrame's rows, without calling Spark's analyser.

    Args:
        frame: Rows, also of a stream.
        columns: Names of the columns, and whether they may be NULL.
        time_zone: Time zone of instants. Empty: the time zone of the DataFrame's session.
    """
    zone = arrow_zone(time_zone) if time_zone else session_zone(frame)
    fields = [
        StructField(column.name, type_, column.nullable)
        for column, type_ in zip(columns, _arrow_types(frame), strict=True)
    ]
    return to_arrow_schema(StructType(fields), zone)


def columns_of(schema: StructType) -> tuple[Column, ...]:
    """Return the names and types of a Spark schema."""
    return tuple(
        Column(field.name, field.dataType.simpleString(), field.nullable) for field in schema.fields
    )


def _most_rows(frame: DataFrame) -> float:
    """Return the plan's upper bound for the number of rows, or inf without one.

    A LIMIT or a global aggregate bounds it.
    """
    if is_remote(frame.sparkSession):
        return inf  # the plan is on the server

    def bound() -> float:
        # private, as of Spark 4.3
        most = frame._jdf.queryExecution().optimizedPlan().maxRows()
        return float(most.get()) if most.isDefined() else inf

    return unless_missing("small results arrive in as many batches as large ones", bound, inf)
