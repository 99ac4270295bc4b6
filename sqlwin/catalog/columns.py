"""Columns that Python code names: found, or refused with what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.catalog import Schema, column_named
from planner.sql.build import is_timestamp
from runtime.errors import AnalysisError, nearest
from runtime.spec.table import Column

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def required_column(schema: Schema, name: str, hint: str | None = None) -> Column:
    """The column of a name, in any case.

    Raises:
        AnalysisError: there is none; with the hint, unless a column has a name like that.
    """
    found = column_named(schema, name)
    if found is not None:
        return found
    close = nearest(name, [column.name for column in schema])
    raise AnalysisError(
        f"the DataFrame has no column `{name}`",
        hint=f"did you mean `{close}`?" if close else hint,
    )


def check_time_column(schema: Schema, time_column: str) -> None:
    """Refuse a column that no window can be on.

    Raises:
        AnalysisError: there is none of that name, or it is no TIMESTAMP.
    """
    times = [column.name for column in schema if is_timestamp(column.type)]
    hint = f"its TIMESTAMP columns: {', '.join(times)}" if times else "it has no TIMESTAMP column"
    type_ = required_column(schema, time_column, hint).type
    if not is_timestamp(type_):
        message = f"time_column `{time_column}` is {type_.upper()}, no TIMESTAMP"
        raise AnalysisError(message, hint=hint)


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
