"""Columns that Python code names: found, or refused with what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.catalog import Schema, column_named
from planner.sql.build import is_timestamp
from runtime.errors import AnalysisError, nearest
from runtime.spec.table import Column
from sqlwin.catalog.entries import type_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def dataframe_schema(dataframe: DataFrame) -> Schema:
    """The columns of a DataFrame."""
    fields = dataframe.schema.fields
    return tuple(Column(f.name, type_ddl(f.dataType), f.nullable) for f in fields)


def required_column(schema: Schema, name: str) -> Column:
    """The column of a name, in any case.

    Raises:
        AnalysisError: there is none.
    """
    found = column_named(schema, name)
    if found is not None:
        return found
    close = nearest(name, [column.name for column in schema])
    raise AnalysisError(
        f"the DataFrame has no column `{name}`",
        hint=f"did you mean `{close}`?" if close else None,
    )


def check_time_column(schema: Schema, time_column: str) -> None:
    """Refuse a column that no window can be on.

    Raises:
        AnalysisError: there is none of that name, or it is no TIMESTAMP.
    """
    times = [column.name for column in schema if is_timestamp(column.type)]
    hint = f"its TIMESTAMP columns: {', '.join(times)}" if times else "it has no TIMESTAMP column"
    found = column_named(schema, time_column)
    if found is None:
        close = nearest(time_column, [column.name for column in schema])
        raise AnalysisError(
            f"the DataFrame has no column `{time_column}`",
            hint=f"did you mean `{close}`?" if close else hint,
        )
    if not is_timestamp(found.type):
        kind = found.type.upper()
        raise AnalysisError(f"time_column `{time_column}` is {kind}, no TIMESTAMP", hint=hint)


def output_columns(ddl: str) -> StructType:
    """The columns that a DDL text names.

    Raises:
        AnalysisError: it names none.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        schema = StructType.fromDDL(ddl)
    except PySparkException as error:
        raise AnalysisError(
            f"`{ddl}` are no columns", hint="for example output='n bigint, top string'"
        ) from error
    if isinstance(schema, StructType) and schema.fields:
        return schema
    raise AnalysisError(f"`{ddl}` are no columns", hint="for example output='n bigint'")
