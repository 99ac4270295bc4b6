"""Giving a DataFrame the columns that CREATE TABLE declares."""

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

from runtime.connectors.options.checks import check_options
from runtime.connectors.options.known import Options
from runtime.errors import CatalogError, nearest
from runtime.names import quoted
from runtime.spark.errors import translate
from runtime.spec.table import TableColumn, TableSpec

# Decimal digits that an integer type needs
_DIGITS: dict[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
_INTEGERS = (ByteType, ShortType, IntegerType, LongType)
# Widths of what a double holds exactly
_EXACT_IN_DOUBLE = (ByteType, ShortType, IntegerType, FloatType)
_EXACT_IN_FLOAT = (ByteType, ShortType)
# What Java need not be asked for, whatever is set; it takes half a millisecond for each
_BY_NAME: dict[str, DataType] = {
    "BOOLEAN": BooleanType(),
    "TINYINT": ByteType(),
    "SMALLINT": ShortType(),
    "INT": IntegerType(),
    "INTEGER": IntegerType(),
    "BIGINT": LongType(),
    "FLOAT": FloatType(),
    "DOUBLE": DoubleType(),
    "STRING": StringType(),
    "BINARY": BinaryType(),
    "DATE": DateType(),
    "TIMESTAMP_NTZ": TimestampNTZType(),
    "TIMESTAMP_LTZ": TimestampType(),
}
# A column beside those of a file of text: the record, if it is broken
BROKEN_RECORD = "_sqlwin_broken_record"
_ONLY_PROCTIME = re.compile(r"PROCTIME\s*\(\s*\)", re.IGNORECASE)
# A call of it, or what may hold its name: texts, quoted names and comments
_PROCTIME = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`|--[^\n]*|(?P<call>\bPROCTIME\s*\()",
    re.IGNORECASE,
)


def physical_columns(spec: TableSpec) -> list[TableColumn]:
    """The declared columns that the source brings itself: neither computed nor metadata."""
    return [c for c in spec.columns if c.computed is None and c.metadata is None]


def declared_type(spec: TableSpec, column: TableColumn) -> DataType:
    """The type of a column, as values of it are read: CHAR(n) and VARCHAR(n) are strings.

    Raises:
        CatalogError: the type is not one of Spark's.
    """
    if (known := _BY_NAME.get((column.type or "").upper())) is not None:
        return known
    try:
        parsed = DataType.fromDDL(column.type or "")
    except PySparkException as error:
        raise CatalogError(
            f"column `{column.name}` of table `{spec.name}` has an unknown type, {column.type}",
            subjects=(column.name, spec.name),
        ) from error
    return StringType() if isinstance(parsed, (CharType, VarcharType)) else parsed


def declared_schema(spec: TableSpec, columns: Sequence[TableColumn]) -> StructType:
    """The schema of `columns`, all nullable: what a file holds does not depend on what is said."""
    return StructType([StructField(c.name, declared_type(spec, c)) for c in columns])


def find_column(names: Sequence[str], wanted: str) -> list[str]:
    """Those of `names` that `wanted` may mean: the very same, or else the same in another case."""
    if wanted in names:
        return [wanted]
    return [name for name in names if name.lower() == wanted.lower()]


def pick(dataframe: DataFrame, spec: TableSpec, column: TableColumn, origin: str) -> Column:
    """The declared `column` out of `dataframe`, cast if no value can change by it.

    Args:
        dataframe: what was read.
        spec: the table.
        column: a physical column of it.
        origin: what `dataframe` is, for the error, such as a path.

    Raises:
        CatalogError: there is no such column, or its type does not fit.
    """
    names = [name for name in dataframe.columns if name != BROKEN_RECORD]
    found = find_column(names, column.name)
    if len(found) != 1:
        listed = ", ".join(f"`{name}`" for name in found or names)
        meant = nearest(column.name, names)
        raise CatalogError(
            f"column `{column.name}` of table `{spec.name}` "
            + (f"could be any of {listed} in {origin}" if found else f"is not in {origin}"),
            subjects=(column.name, spec.name),
            hint=None
            if found
            else (f"did you mean `{meant}`? " if meant else "") + f"It has {listed}",
        )
    actual, wanted = dataframe.schema[found[0]].dataType, declared_type(spec, column)
    value = dataframe[quoted(found[0])]
    if same_type(actual, wanted):
        return value.alias(column.name)
    if not is_widening(actual, wanted):
        raise CatalogError(
            f"column `{column.name}` of table `{spec.name}` is declared {spelled_type(wanted)}, "
            f"but it is {spelled_type(actual)} in {origin}",
            subjects=(column.name, spec.name),
            hint=f"declare it {spelled_type(actual)}; a computed column or the query can cast it",
        )
    return value.cast(wanted).alias(column.name)


def same_type(left: DataType, right: DataType) -> bool:
    """Whether two types hold the same values; NULLs and the case of field names do not matter."""
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


def is_widening(actual: DataType, wanted: DataType) -> bool:
    """Whether every value of `actual` is one of `wanted`, unchanged."""
    if isinstance(actual, _INTEGERS) and isinstance(wanted, _INTEGERS):
        return _INTEGERS.index(type(actual)) <= _INTEGERS.index(type(wanted))
    match actual, wanted:
        case (_, DecimalType()) if type(actual) in _DIGITS:
            return wanted.precision - wanted.scale >= _DIGITS[type(actual)]
        case (DecimalType(), DecimalType()):
            return (
                wanted.scale >= actual.scale
                and wanted.precision - wanted.scale >= actual.precision - actual.scale
            )
        case (_, DoubleType()):
            return isinstance(actual, _EXACT_IN_DOUBLE)
        case (_, FloatType()):
            return isinstance(actual, _EXACT_IN_FLOAT)
        case (DateType(), TimestampNTZType()):
            return True
    return same_type(actual, wanted)


def add_computed(dataframe: DataFrame, spec: TableSpec) -> DataFrame:
    """The declared columns in their order, the computed ones worked out from the others.

    Raises:
        CatalogError: a computed column is not an expression over the other columns.
    """
    if not spec.columns:
        return dataframe
    columns: list[Column] = []
    for column in spec.columns:
        if column.computed is None:
            columns.append(dataframe[quoted(column.name)])
            continue
        try:
            value = F.expr(_as_spark(column.computed)).alias(column.name)
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
    return dataframe.select(*columns)


def check_plain_table(options: Options, spec: TableSpec) -> None:
    """Check a table of which nothing is asked but that it has these options and right columns.

    Raises:
        CatalogError: an option or a column is wrong.
    """
    check_options(spec, options)
    check_columns(spec)


def check_columns(spec: TableSpec, metadata: Sequence[str] = ()) -> None:
    """Check what can be checked of columns without data; `metadata` are the keys that there are.

    Raises:
        CatalogError: a name comes twice, PARTITIONED BY names no column, or there is no such
            metadata.
    """
    seen: set[str] = set()
    for column in spec.columns:
        if column.name.lower() in seen:
            raise CatalogError(
                f"table `{spec.name}` has two columns `{column.name}`",
                subjects=(spec.name, column.name),
            )
        seen.add(column.name.lower())
    for name in spec.partitioned_by:
        if spec.columns and name.lower() not in seen:
            meant = nearest(name, [c.name for c in spec.columns])
            raise CatalogError(
                f"table `{spec.name}` is partitioned by `{name}`, which is not one of its columns",
                subjects=(spec.name, name),
                hint=f"did you mean `{meant}`?" if meant else None,
            )
    for column in spec.columns:
        if column.metadata is not None and column.metadata not in metadata:
            meant = nearest(column.metadata, metadata)
            there = f"it has {', '.join(metadata)}" if metadata else "it has none"
            raise CatalogError(
                f"connector '{spec.connector}' has no metadata '{column.metadata}' "
                f"(column `{column.name}` of table `{spec.name}`)",
                subjects=(f"'{spec.connector}'", f"'{column.metadata}'", column.name, spec.name),
                hint=f"did you mean '{meant}'?" if meant else there,
            )


def proctime_columns(spec: TableSpec) -> frozenset[str]:
    """The names, in lower case, of the columns declared AS PROCTIME()."""
    return frozenset(
        c.name.lower()
        for c in spec.columns
        if c.computed is not None and _ONLY_PROCTIME.fullmatch(c.computed.strip())
    )


def _as_spark(expression: str) -> str:
    """The text with PROCTIME() as Spark has it: the time at which a batch starts."""
    return _PROCTIME.sub(lambda m: "CURRENT_TIMESTAMP(" if m["call"] else m[0], expression)


def spelled_type(data_type: DataType) -> str:
    """A type as it is written in CREATE TABLE."""
    if isinstance(data_type, TimestampNTZType):
        return "TIMESTAMP"
    if isinstance(data_type, TimestampType):
        return "TIMESTAMP_LTZ"
    return data_type.simpleString().upper()


def no_columns(spec: TableSpec, path: str) -> CatalogError:
    """Return the error for a table that declares no columns and has no file to take them from."""
    return CatalogError(
        f"table `{spec.name}`: {path} holds no file to take the columns from",
        subjects=(spec.name,),
        hint="declare the columns in CREATE TABLE",
    )
