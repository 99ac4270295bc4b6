"""Columns of files whose statistics Spark may not use to skip rows.

Spark pushes conditions into its file readers, which skip row groups, pages and stripes by minimum,
maximum and dictionary. For FLOAT and DOUBLE that loses rows:

- Statistics leave NaN out, and Spark's NaN is greater than every number: `d > 1`, `d <> 1` and
  `d = 'NaN'` miss it.
- Readers order -0.0 before 0.0, and dictionaries tell them apart. In SQL they are equal: `d = 0`
  misses -0.0.

Spark's ORC reader also fails on a NULL in the list of an IN.

So these columns are replaced by expressions with the same values, which Spark cannot push down:
NANVL(d, d), and CASE WHEN v IS NOT NULL THEN v END.
Unused columns are still not read, and partitions are still pruned.
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
    VariantType,
)

from runtime.names import quoted

# Parquet itself, and lakes that keep Parquet
_WITH_STATISTICS = ("parquet", "orc", "delta", "iceberg", "hudi")
# Spark pushes no conditions on these
_NOT_PUSHED = (ArrayType, BinaryType, MapType, VariantType)


def without_pushdown(dataframe: DataFrame, file_format: str) -> DataFrame:
    """Return the same rows, with columns that Spark's reader of a format sees no conditions on.

    Args:
        dataframe: rows of files.
        file_format: their format. FLOAT and DOUBLE are protected, at any depth of structs; in ORC
            all columns. Formats without statistics need no protection.
    """
    if file_format not in _WITH_STATISTICS:
        return dataframe
    only_floats = file_format != "orc"
    schema = dataframe.schema
    if not _is_protected(schema, only_floats) or not _has_distinct_names(schema):
        return dataframe
    return dataframe.select(
        *(
            _protected_column(field.name, field.dataType, only_floats)
            if _is_protected(field.dataType, only_floats)
            else quoted(field.name)
            for field in schema.fields
        )
    )


def _protected_column(name: str, type_: DataType, only_floats: bool) -> Column:
    """A column under its name. One text where possible: each Column costs a call to Java."""
    if isinstance(type_, StructType):
        return _protected(F.col(quoted(name)), type_, only_floats).alias(name)
    column = quoted(name)
    if isinstance(type_, (DoubleType, FloatType)):
        return F.expr(f"nanvl({column}, {column}) AS {column}")
    return F.expr(f"CASE WHEN {column} IS NOT NULL THEN {column} END AS {column}")


def _is_protected(type_: DataType, only_floats: bool) -> bool:
    """Whether a column of a type, or a field in it, is to be replaced."""
    if isinstance(type_, StructType):
        return any(_is_protected(field.dataType, only_floats) for field in type_.fields)
    if isinstance(type_, _NOT_PUSHED):
        return False
    return not only_floats or isinstance(type_, (DoubleType, FloatType))


def _protected(value: Column, type_: DataType, only_floats: bool) -> Column:
    if isinstance(type_, (DoubleType, FloatType)):
        return F.nanvl(value, value)
    if not isinstance(type_, StructType) or not _has_distinct_names(type_):
        return F.when(value.isNotNull(), value)
    # not struct(...): so Spark still reads no more than the fields that a query needs
    for field in type_.fields:
        if _is_protected(field.dataType, only_floats):
            inner = _protected(value.getField(field.name), field.dataType, only_floats)
            value = value.withField(quoted(field.name), inner)
    return value


def _has_distinct_names(type_: StructType) -> bool:
    """Whether no two names differ in case only: Spark could not resolve them."""
    return len({name.lower() for name in type_.names}) == len(type_.names)
