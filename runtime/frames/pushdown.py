"""Protect columns of files from skipping by statistics that would lose rows.

Spark pushes predicates into its file readers, which skip row groups, pages and stripes by minimum,
maximum and dictionary. For FLOAT and DOUBLE that loses rows:

- Statistics ignore NaN, and in Spark NaN is greater than every number: `d > 1`, `d <> 1` and `d =
  'NaN'` miss it.
- Readers order -0.0 before 0.0, and dictionaries distinguish them. In SQL they are equal: `d = 0`
  misses -0.0.

Spark's ORC reader also fails on a NULL in the list of an IN.

These columns are therefore replaced by expressions with the same values that Spark cannot push
down: NANVL(d, d), and CASE WHEN v IS NOT NULL THEN v END. Projection and partition pruning still
work.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StructType,
)

from runtime.names import quote_name
from runtime.spark.versions.newer_classes import VariantType

# Formats with statistics: Parquet, ORC, and lakes that store Parquet
_WITH_STATISTICS = ("parquet", "orc", "delta", "iceberg", "hudi")
# Types whose predicates Spark does not push down
_NOT_PUSHED = (ArrayType, BinaryType, MapType, VariantType)


def without_pushdown(dataframe: DataFrame, file_format: str) -> DataFrame:
    """Return the same rows with columns on which Spark pushes no predicates into its reader.

    Args:
        dataframe: Rows of files.
        file_format: Format of the files. FLOAT and DOUBLE are protected at any depth of structs; in
            ORC all columns are. Formats without statistics need no protection.
    """
    if file_format not in _WITH_STATISTICS:
        return dataframe
    only_floats = file_format != "orc"
    schema = dataframe.schema
    if not _is_protected(schema, only_floats) or not _has_distinct_names(schema):
        return dataframe
    return dataframe.select(
        *(
            _protect_column(field.name, field.dataType, only_floats)
            if _is_protected(field.dataType, only_floats)
            else quote_name(field.name)
            for field in schema.fields
        )
    )


def _protect_column(name: str, type_: DataType, only_floats: bool) -> Column:
    """Return a protected column. One SQL text where possible: each Column is a JVM call."""
    if isinstance(type_, StructType):
        return _protect(F.col(quote_name(name)), type_, only_floats).alias(name)
    column = quote_name(name)
    if isinstance(type_, (DoubleType, FloatType)):
        return F.expr(f"nanvl({column}, {column}) AS {column}")
    return F.expr(f"CASE WHEN {column} IS NOT NULL THEN {column} END AS {column}")


def _is_protected(type_: DataType, only_floats: bool) -> bool:
    """Return whether a column of the type, or a field in it, must be replaced."""
    if isinstance(type_, StructType):
        return any(_is_protected(field.dataType, only_floats) for field in type_.fields)
    if isinstance(type_, _NOT_PUSHED):
        return False
    return not only_floats or isinstance(type_, (DoubleType, FloatType))


def _protect(value: Column, type_: DataType, only_floats: bool) -> Column:
    if isinstance(type_, (DoubleType, FloatType)):
        return F.nanvl(value, value)
    if not isinstance(type_, StructType) or not _has_distinct_names(type_):
        return F.when(value.isNotNull(), value)
    # withField instead of struct(...), so that Spark still reads only the fields that a query needs
    for field in type_.fields:
        if _is_protected(field.dataType, only_floats):
            inner = _protect(value.getField(field.name), field.dataType, only_floats)
            value = value.withField(quote_name(field.name), inner)
    return value


def _has_distinct_names(type_: StructType) -> bool:
    """Return whether no two names differ only in case, which Spark could not resolve."""
    return len({name.lower() for name in type_.names}) == len(type_.names)
