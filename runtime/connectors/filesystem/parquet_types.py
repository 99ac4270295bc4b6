"""Columns of Parquet files, as pandas and Arrow write them, that Spark's reader does not know.

| column | Spark's reader | result |
| --- | --- | --- |
| INT64 nanoseconds | refuses the file | TIMESTAMP, floored to microseconds |
| Arrow's durations | BIGINT | INTERVAL DAY TO SECOND, floored to microseconds |
| FLOAT16, UUID | refuses the file | FLOAT, BINARY |
| TIME, decimals of more than 38 digits | refuses the file | an error when the column is used |
| another unit in another file | reads it as the same | an error when the column is used |

Spark refuses to infer the schema of such a file, but reads the stored integers and bytes when the
schema says so. Arrow infers the schema instead. No setting of the session changes.

INT96 times hold nanoseconds too, and Arrow gives them the same type. Spark reads them as instants
without problems. Only the physical type in the footer distinguishes the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, DataFrameReader
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    LongType,
    MapType,
    StructField,
    StructType,
)

from runtime.connectors.filesystem.text import from_micros
from runtime.files import is_local_path
from runtime.names import quote_name
from runtime.scan.whole_rows import MAX_DIGITS, spark_arrow_type

_UNITS = {"s": "1", "ms": "0.001", "us": "0.000001"}
_NANOSECONDS = "ns"


@dataclass(frozen=True)
class _Stored:
    """Type with which Spark reads values, and their conversion to the type in SQL."""

    type_: DataType
    convert: Callable[[Column], Column]


class _NoSqlType(Exception):
    """SQL has no type for the values of a column."""


def special_column(file: str) -> pa.Field | None:
    """Return the first column of a Parquet file that Spark's reader does not know, or None.

    None for files of other file systems and for files that cannot be read: Spark reports those.
    """
    if not is_local_path(file):
        return None
    try:
        return next((field for field in _schema(file) if _is_special(field.type)), None)
    except (OSError, pa.ArrowException):
        return None


def read_special(
    reader: DataFrameReader, file: str, files: Iterable[str], paths: list[str]
) -> DataFrame:
    """Load `paths`, which have the schema of `file`, with its special columns converted.

    Columns without a zone become TIMESTAMP_NTZ, columns with a zone and INT96 become TIMESTAMP, as
    Spark reads microseconds. A column for which SQL has no type, or whose unit differs between
    files, raises an error when it is used.

    Args:
        reader: Spark's reader of Parquet.
        file: One of the files.
        files: All local files below the paths.
        paths: Paths for Spark to load.
    """
    schema = _schema(file)
    differing = _differing(file, schema, files)
    fields: list[StructField] = []
    conversions: dict[str, Callable[[Column], Column]] = {}
    for field in schema:
        reason = f" of {file} has Arrow type {field.type}, for which SQL has no type"
        try:
            stored = _stored(field.type)
        except _NoSqlType:
            conversions[field.name] = _refusing(f"column `{field.name}`{reason}")
            continue
        if (difference := differing.get(field.name)) is not None:
            conversions[field.name] = _refusing(f"column `{field.name}`{difference}")
            continue
        fields.append(StructField(field.name, stored.type_))
        conversions[field.name] = stored.convert
    dataframe = reader.schema(StructType(fields)).load(paths)
    # partition columns follow the file's columns
    partitions = [name for name in dataframe.columns if name not in conversions]
    known = set(dataframe.columns)
    return dataframe.select(
        *(
            convert(dataframe[quote_name(name)] if name in known else F.lit(None)).alias(name)
            for name, convert in conversions.items()
        ),
        *(dataframe[quote_name(name)] for name in partitions),
    )


def _refusing(message: str) -> Callable[[Column], Column]:
    """Return a conversion that raises an error when its column is used."""
    return lambda _: F.raise_error(F.lit(message))


def _differing(file: str, schema: pa.Schema, files: Iterable[str]) -> dict[str, str]:
    """Return how special columns differ between files, by name: Spark would ignore the unit."""
    special = [field for field in schema if _is_special(field.type)]
    differing: dict[str, str] = {}
    for other in files:
        try:
            in_other = _schema(other)
        except (OSError, pa.ArrowException):
            continue  # Spark reports it
        for field in special:
            place = in_other.get_field_index(field.name)
            if place >= 0 and (type_ := in_other.field(place).type) != field.type:
                differing[field.name] = f" is {field.type} in {file}, but {type_} in {other}"
    return differing


def _schema(file: str) -> pa.Schema:
    """Return the Arrow schema of a Parquet file, with INT96 columns as instants in microseconds.

    Raises:
        OSError, pa.ArrowException: The file cannot be read.
    """
    with pq.ParquetFile(file) as plain:
        footer, schema = plain.metadata, plain.schema_arrow
    if not any(footer.schema.column(i).physical_type == "INT96" for i in range(footer.num_columns)):
        return schema
    with pq.ParquetFile(file, metadata=footer, coerce_int96_timestamp_unit="us") as coerced:
        return pa.schema(
            field.with_type(_with_instants(field.type, without_int96.type))
            for field, without_int96 in zip(schema, coerced.schema_arrow, strict=True)
        )


def _with_instants(type_: pa.DataType, coerced: pa.DataType) -> pa.DataType:
    """Return a type with INT96 as instants, where only `coerced` has microseconds."""
    if _is_nanoseconds(type_) and not _is_nanoseconds(coerced):
        return pa.timestamp("us", tz="UTC")
    if pa.types.is_map(type_):
        return pa.map_(
            _with_instants(type_.key_type, coerced.key_type),
            _with_instants(type_.item_type, coerced.item_type),
        )
    if pa.types.is_struct(type_):
        return pa.struct(
            type_.field(i).with_type(_with_instants(type_.field(i).type, coerced.field(i).type))
            for i in range(type_.num_fields)
        )
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(
            type_.value_field.with_type(_with_instants(type_.value_type, coerced.value_type))
        )
    return type_


def _is_nanoseconds(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_) and type_.unit == _NANOSECONDS)


def _is_special(type_: pa.DataType) -> bool:
    """Return whether Spark refuses or misreads values of a type, on any level."""
    types = pa.types
    if types.is_dictionary(type_):
        return _is_special(type_.value_type)
    if isinstance(type_, pa.UuidType):
        return True
    if isinstance(type_, pa.BaseExtensionType):
        return _is_special(type_.storage_type)
    return (
        _is_nanoseconds(type_)
        or types.is_duration(type_)
        or types.is_float16(type_)
        or types.is_time(type_)
        or (types.is_decimal(type_) and type_.precision > MAX_DIGITS)
        or any(_is_special(type_.field(i).type) for i in range(type_.num_fields))
    )


def _stored(type_: pa.DataType) -> _Stored:
    """Return how to read values of a type.

    Raises:
        _NoSqlType: SQL has no type for them.
    """
    types = pa.types
    if types.is_dictionary(type_):
        return _stored(type_.value_type)
    if isinstance(type_, pa.BaseExtensionType):
        return _stored(type_.storage_type)
    if _is_nanoseconds(type_):
        is_instant = type_.tz is not None
        return _Stored(LongType(), lambda n: from_micros(_floor(n), is_instant=is_instant))
    if types.is_duration(type_):
        return _Stored(LongType(), lambda n: _interval(n, type_.unit))
    if types.is_float16(type_):
        return _Stored(BinaryType(), _from_float16)
    if types.is_map(type_):
        key, item = _stored(type_.key_type), _stored(type_.item_type)
        return _Stored(MapType(key.type_, item.type_), lambda m: _convert_map(m, key, item, type_))
    if types.is_struct(type_):
        fields = {field.name: _stored(field.type) for field in type_}
        stored = StructType([StructField(name, field.type_) for name, field in fields.items()])
        return _Stored(stored, lambda s: _convert_struct(s, fields, type_))
    if types.is_nested(type_):
        item = _stored(type_.value_type)
        return _Stored(
            ArrayType(item.type_),
            lambda a: F.transform(a, item.convert) if _is_special(type_) else a,
        )
    try:
        return _Stored(from_arrow_type(spark_arrow_type(type_), True), lambda value: value)
    except TypeError as error:
        raise _NoSqlType from error


def _convert_map(value: Column, key: _Stored, item: _Stored, type_: pa.DataType) -> Column:
    if not _is_special(type_):
        return value
    entries = F.transform(
        F.map_entries(value),
        lambda e: F.struct(
            key.convert(e["key"]).alias("key"), item.convert(e["value"]).alias("value")
        ),
    )
    return F.map_from_entries(entries)


def _convert_struct(value: Column, fields: dict[str, _Stored], type_: pa.DataType) -> Column:
    if not _is_special(type_):
        return value
    parts = (field.convert(value.getField(name)).alias(name) for name, field in fields.items())
    return F.when(value.isNotNull(), F.struct(*parts))


def _floor(nanoseconds: Column) -> Column:
    """Return nanoseconds as microseconds, rounded down."""
    thousand = F.lit(1000).cast("long")
    rest = F.pmod(nanoseconds, thousand)
    # Not `/`, which goes through double. `div` rounds towards zero, so the remainder is subtracted
    # first, which would overflow below the first whole microsecond of int64 nanoseconds.
    lowest = F.lit(-(2**63) + 1000).cast("long")
    return F.when(nanoseconds < lowest, F.lit(-9223372036854776).cast("long")).otherwise(
        F.call_function("div", nanoseconds - rest, thousand)
    )


def _interval(number: Column, unit: str) -> Column:
    """Return INTERVAL DAY TO SECOND for a number of units."""
    if unit == _NANOSECONDS:
        number, unit = _floor(number), "us"
    return number * F.expr(f"INTERVAL '{_UNITS[unit]}' SECOND")


def _from_float16(value: Column) -> Column:
    """Return FLOAT for the two bytes of a number of 16 bits, the lower byte first."""
    high_first = F.concat(F.substring(F.hex(value), 3, 2), F.substring(F.hex(value), 1, 2))
    bits = F.conv(high_first, 16, 10).cast("int")
    exponent = F.shiftright(bits, 10).bitwiseAND(31)
    fraction = bits.bitwiseAND(1023).cast("double")
    sign = F.when(bits >= 1 << 15, F.lit(-1.0)).otherwise(F.lit(1.0))
    number = (
        F.when((exponent == 31) & (fraction == 0), F.lit(float("inf")))
        .when(exponent == 31, F.lit(float("nan")))
        .when(exponent == 0, fraction * F.lit(2.0**-24))
        .otherwise((fraction + 1024) * F.pow(F.lit(2.0), exponent - 25))
    )
    return (sign * number).cast("float")
