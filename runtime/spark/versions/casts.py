"""Columns and types of Spark: TRY_CAST and types from their text.

Private APIs of Spark 3.5, which has no public ones; checked with PySpark 3.5 and not called on
later ones: `Column._jc`, `Cast` and `EvalMode` of Catalyst, `_parse_datatype_string`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.spark.versions.capabilities import COLUMN_CASTS, TYPES_FROM_TEXT, has

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


def try_cast(column: Column, type_: DataType | str) -> Column:
    """Return the column cast to a type, with NULL for values that the type does not have."""
    if has(COLUMN_CASTS):
        return column.try_cast(type_)
    from pyspark import SparkContext

    # a Column, and with it a context, exists
    jvm: Any = SparkContext._jvm
    target = type_ if isinstance(type_, str) else type_.simpleString()
    catalyst = jvm.org.apache.spark.sql.catalyst.expressions
    handle: Any = column._jc
    cast = catalyst.Cast(
        handle.expr(),
        jvm.org.apache.spark.sql.types.DataType.fromDDL(target),
        jvm.scala.Option.empty(),
        catalyst.EvalMode.TRY(),
    )
    return type(column)(jvm.org.apache.spark.sql.Column(cast))


def type_from_ddl(text: str) -> DataType:
    """Return the type that a text of SQL names, or a struct of the columns that it lists.

    Raises:
        ParseException: It names none.
    """
    if has(TYPES_FROM_TEXT):
        from pyspark.sql.types import DataType

        return DataType.fromDDL(text)
    from pyspark.sql.types import _parse_datatype_string

    return _parse_datatype_string(text)
