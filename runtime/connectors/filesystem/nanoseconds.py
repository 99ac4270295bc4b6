"""Parquet timestamps of INT64 nanoseconds, as written by pandas and Arrow.

Spark refuses to infer the schema of a file with such a column, but reads the column as BIGINT when
the schema says so. Arrow infers the schema instead, and each value is floored to its microsecond.
No setting of the session changes.

INT96 times hold nanoseconds too, and Arrow gives them the same type. Spark reads them as instants
without problems. Only the physical type in the footer distinguishes the two.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, DataFrameReader
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from runtime.connectors.filesystem.text import from_micros
from runtime.errors import CatalogError
from runtime.files import is_local_path
from runtime.names import quote_name


def has_nanoseconds(file: str) -> bool:
    """Return whether a Parquet file has a timestamp column of INT64 nanoseconds, on any level.

    False for files of other file systems and for files that cannot be read: Spark reports those.
    """
    if not is_local_path(file):
        return False
    try:
        return any(map(_holds_nanoseconds, _spark_schema(file).types))
    except (OSError, pa.ArrowException):
        return False


def read_nanoseconds(reader: DataFrameReader, file: str, paths: list[str]) -> DataFrame:
    """Load `paths`, which have the schema of `file`, with nanoseconds floored to microseconds.

    Columns without a zone become TIMESTAMP_NTZ, columns with a zone and INT96 become TIMESTAMP, as
    Spark reads microseconds.

    Raises:
        CatalogError: An array, a struct or a map holds such a timestamp.
    """
    fields: list[StructField] = []
    zones: dict[str, str | None] = {}
    for field in _spark_schema(file):
        if _is_nanoseconds(field.type):
            zones[field.name] = field.type.tz
            fields.append(StructField(field.name, LongType()))
            continue
        if _holds_nanoseconds(field.type):
            raise CatalogError(
                f"column `{field.name}` of {file} has nanosecond timestamps inside "
                f"{field.type}, which Spark cannot read",
                subjects=(field.name,),
                hint="write the file with microseconds: coerce_timestamps='us'",
            )
        fields += from_arrow_schema(pa.schema([field])).fields
    dataframe = reader.schema(StructType(fields)).load(paths)
    return dataframe.select(
        *(
            _microseconds(dataframe[quote_name(name)], zones[name]).alias(name)
            if name in zones
            else dataframe[quote_name(name)]
            # partition columns follow the file's columns
            for name in dataframe.columns
        )
    )


def _spark_schema(file: str) -> pa.Schema:
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
    return bool(pa.types.is_timestamp(type_) and type_.unit == "ns")


def _holds_nanoseconds(type_: pa.DataType) -> bool:
    return _is_nanoseconds(type_) or any(
        _holds_nanoseconds(type_.field(i).type)
        for i in range(type_.num_fields if pa.types.is_nested(type_) else 0)
    )


def _microseconds(nanoseconds: Column, zone: str | None) -> Column:
    thousand = F.lit(1000).cast("long")
    rest = F.pmod(nanoseconds, thousand)
    # Not `/`, which goes through double. `div` rounds towards zero, so the remainder is subtracted
    # first, which would overflow below the first whole microsecond of int64 nanoseconds.
    lowest = F.lit(-(2**63) + 1000).cast("long")
    floored = F.when(nanoseconds < lowest, F.lit(-9223372036854776).cast("long")).otherwise(
        F.call_function("div", nanoseconds - rest, thousand)
    )
    return from_micros(floored, is_instant=zone is not None)
