"""Column lookup for names from Python code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.catalog import Schema, column_named
from planner.sql.build import is_timestamp
from runtime.errors import AnalysisError, nearest
from runtime.shown_types import shown_type
from runtime.spark.versions.casts import type_from_ddl
from runtime.spec.table import Column

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def required_column(schema: Schema, name: str, hint: str | None = None) -> Column:
    """Return the column with a given name, ignoring case.

    Raises:
        AnalysisError: The column does not exist. The hint is a similar name, or else `hint`.
    """
    match = column_named(schema, name)
    if match is not None:
        return match
    close = nearest(name, [column.name for column in schema])
    raise AnalysisError(
        f"the DataFrame has no column `{name}`",
        hint=f"did you mean `{close}`?" if close else hint,
    )


def check_time_column(schema: Schema, time_column: str) -> None:
    """Check that windows can be assigned by a column.

    Raises:
        AnalysisError: The column does not exist or is not a TIMESTAMP.
    """
    times = [column.name for column in schema if is_timestamp(column.type)]
    hint = (
        f"TIMESTAMP columns: {', '.join(times)}"
        if times
        else "the DataFrame has no TIMESTAMP column"
    )
    type_ = required_column(schema, time_column, hint).type
    if not is_timestamp(type_):
        message = f"time_column `{time_column}` must be TIMESTAMP, but it is {shown_type(type_)}"
        raise AnalysisError(message, hint=hint)


def output_columns(ddl: str) -> StructType:
    """Parse the columns of a DDL text.

    Raises:
        AnalysisError: The DDL is not valid.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        schema = type_from_ddl(ddl)
    except PySparkException as error:
        raise AnalysisError(
            f"invalid columns: `{ddl}`", hint="for example output='n bigint, top string'"
        ) from error
    if isinstance(schema, StructType) and schema.fields:
        return schema
    raise AnalysisError(f"invalid columns: `{ddl}`", hint="for example output='n bigint'")
