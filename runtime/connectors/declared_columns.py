"""Apply the columns declared by CREATE TABLE to a DataFrame."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from runtime.errors import CatalogError, nearest
from runtime.names import quote_name
from runtime.shown_types import shown_type
from runtime.spark.errors import translate
from runtime.spark.versions.casts import type_from_ddl
from runtime.spec.table import TableColumn, TableSpec

# Decimal digits that an integer type needs
_DIGITS: dict[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
_INTEGERS = (ByteType, ShortType, IntegerType, LongType)
# Types whose values a double represents exactly
_EXACT_IN_DOUBLE = (ByteType, ShortType, IntegerType, FloatType)
_EXACT_IN_FLOAT = (ByteType, ShortType)
# Types by Spark's names, see `TableColumn.common_type`
_BY_NAME: dict[str, DataType] = {
    "boolean": BooleanType(),
    "tinyint": ByteType(),
    "smallint": ShortType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
}
# Extra column of text files that holds a broken record
BROKEN_RECORD = "_sqlwin_broken_record"
# Call of PROCTIME, or a text, quoted name or comment that could contain its name
_PROCTIME = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`|--[^\n]*|(?P<call>\bPROCTIME\s*\()",
    re.IGNORECASE,
)


def declared_type(spec: TableSpec, column: TableColumn) -> DataType:
    """Return the type with which a column is read. CHAR(n) and VARCHAR(n) are strings.

    Raises:
        CatalogError: The type is not one of Spark's.
    """
    if (common := column.common_type) is not None:
        if common.startswith("decimal"):
            return DecimalType(*map(int, common[len("decimal(") : -1].split(",")))
        return _BY_NAME[common]
    try:
        parsed = type_from_ddl(column.type or "")
    except PySparkException as error:
        raise CatalogError(
            f"column `{column.name}` of table `{spec.name}` has the unknown type {column.type}",
            subjects=(column.name, spec.name),
        ) from error
    return StringType() if isinstance(parsed, (CharType, VarcharType)) else parsed


def declared_schema(spec: TableSpec, columns: Sequence[TableColumn]) -> StructType:
    """Return the schema of `columns`. All are nullable because declarations do not bind files."""
    return StructType([StructField(c.name, declared_type(spec, c)) for c in columns])


def find_column(names: Sequence[str], column: str) -> list[str]:
    """Return the names that `wanted` can mean: the exact one, or else those in another case."""
    if column in names:
        return [column]
    return [name for name in names if name.lower() == column.lower()]


def pick(dataframe: DataFrame, spec: TableSpec, column: TableColumn, origin: str) -> Column:
    """Select the declared `column` from `dataframe`, cast if that cannot change a value.

    Args:
        dataframe: Rows as read.
        spec: Table specification.
        column: A physical column of the table.
        origin: Source of the rows for error messages, such as a path.

    Raises:
        CatalogError: The column does not exist, or its type does not fit.
    """
    names = [name for name in dataframe.columns if name != BROKEN_RECORD]
    matches = find_column(names, column.name)
    if len(matches) != 1:
        candidates = ", ".join(f"`{name}`" for name in matches or names)
        suggestion = nearest(column.name, names)
        raise CatalogError(
            f"column `{column.name}` of table `{spec.name}` "
            + (
                f"is ambiguous in {origin}: {candidates}"
                if matches
                else f"does not exist in {origin}"
            ),
            subjects=(column.name, spec.name),
            hint=None
            if matches
            else (f"did you mean `{suggestion}`? " if suggestion else "")
            + f"available columns: {candidates}",
        )
    actual, declared = dataframe.schema[matches[0]].dataType, declared_type(spec, column)
    value = dataframe[quote_name(matches[0])]
    if same_type(actual, declared):
        return value.alias(column.name)
    if not is_widening(actual, declared):
        raise CatalogError(
            f"column `{column.name}` of table `{spec.name}` is declared "
            f"{shown_type(declared.simpleString())}, but is "
            f"{shown_type(actual.simpleString())} in {origin}",
            subjects=(column.name, spec.name),
            hint=f"declare it {shown_type(actual.simpleString())}, and cast it in the query "
            "or in a "
            "computed column",
        )
    return value.cast(declared).alias(column.name)


def same_type(left: DataType, right: DataType) -> bool:
    """Whether two types hold the same values, ignoring nullability and the case of field names."""
    match left, right:
        case (ArrayType(), ArrayType()):
            return same_type(left.elementType, right.elementType)
        case (MapType(), MapType()):
            return same_type(left.keyType, right.keyType) and same_type(
                left.valueType, right.valueType
            )
        case (StructType(), StructType()):
            return len(left) == len(right) and all(
                a.name.lower() == b.name.lower() and same_type(a.dataType, b.dataType)
                for a, b in zip(left.fields, right.fields, strict=True)
            )
        case (StringType(), StringType()):
            return True
    return left == right


def is_widening(actual: DataType, declared: DataType) -> bool:
    """Return whether every value of `actual` is also a value of `wanted`, unchanged."""
    if isinstance(actual, _INTEGERS) and isinstance(declared, _INTEGERS):
        return _INTEGERS.index(type(actual)) <= _INTEGERS.index(type(declared))
    match actual, declared:
        case (_, DecimalType()) if type(actual) in _DIGITS:
            return declared.precision - declared.scale >= _DIGITS[type(actual)]
        case (DecimalType(), DecimalType()):
            return (
                declared.scale >= actual.scale
                and declared.precision - declared.scale >= actual.precision - actual.scale
            )
        case (_, DoubleType()):
            return isinstance(actual, _EXACT_IN_DOUBLE)
        case (_, FloatType()):
            return isinstance(actual, _EXACT_IN_FLOAT)
        case (DateType(), TimestampNTZType()):
            return True
    return same_type(actual, declared)


def add_computed(dataframe: DataFrame, spec: TableSpec, more: Sequence[str] = ()) -> DataFrame:
    """Return the declared columns in order, with computed columns evaluated, and `more` columns.

    Raises:
        CatalogError: A computed column is not an expression over the other columns.
    """
    if not spec.columns:
        return dataframe
    columns: list[Column] = []
    for column in spec.columns:
        if column.computed is None:
            columns.append(dataframe[quote_name(column.name)])
            continue
        try:
            value = F.expr(_replace_proctime(column.computed)).alias(column.name)
            dataframe.select(value)
        except PySparkException as error:
            cause = translate(error, column.computed)
            raise CatalogError(
                f"computed column `{column.name}` of table `{spec.name}`: {cause.message}",
                subjects=(column.name, spec.name),
                position=cause.position,
                sql=cause.sql,
                hint=cause.hint,
            ) from error
        columns.append(value)
    return dataframe.select(*columns, *map(quote_name, more))


def _replace_proctime(expression: str) -> str:
    """Replace PROCTIME() by Spark's function for the time at which a batch starts."""
    return _PROCTIME.sub(lambda m: "CURRENT_TIMESTAMP(" if m["call"] else m[0], expression)


def no_columns(spec: TableSpec, path: str) -> CatalogError:
    """Return the error for a table without declared columns and without files to take them from."""
    return CatalogError(
        f"table `{spec.name}`: cannot infer columns, because {path} contains no file",
        subjects=(spec.name,),
        hint="declare the columns in CREATE TABLE",
    )
