"""Parquet timestamps in nanoseconds, which pandas and Arrow write and Spark does not read.

Spark refuses a file with such a column as long as it looks at the file's schema itself, but reads
the column as BIGINT when asked to. So the schema is taken with Arrow, and the microsecond that each
value lies in becomes the timestamp; without a setting of the session's being changed.
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
from runtime.names import quoted


def has_nanoseconds(file: str) -> bool:
    """Whether a column of a Parquet file is a timestamp in nanoseconds.

    Of a file of another file system it is not known, and Spark says what it does not read.
    """
    if not is_local_path(file):
        return False
    try:
        return any(map(_holds_nanoseconds, pq.read_schema(file).types))
    except (OSError, pa.ArrowException):
        # Spark's own reader says what is wrong with the file.
        return False


def read_nanoseconds(reader: DataFrameReader, file: str, paths: list[str]) -> DataFrame:
    """Load `paths`, whose schema is that of `file`, with nanoseconds floored to microseconds.

    Columns without a zone are TIMESTAMP_NTZ, those with one TIMESTAMP, as Spark has it for
    microseconds.

    Raises:
        CatalogError: such a timestamp is within an array, a struct or a map.
    """
    found = pq.read_schema(file)
    fields: list[StructField] = []
    zones: dict[str, str | None] = {}
    for field in found:
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            zones[field.name] = field.type.tz
            fields.append(StructField(field.name, LongType()))
            continue
        if _holds_nanoseconds(field.type):
            raise CatalogError(
                f"column `{field.name}` of {file} holds nanosecond timestamps within a "
                f"{field.type}, which Spark does not read",
                subjects=(field.name,),
                hint="write the file with microseconds: coerce_timestamps='us'",
            )
        fields += from_arrow_schema(pa.schema([field])).fields
    dataframe = reader.schema(StructType(fields)).load(paths)
    return dataframe.select(
        *(
            _microseconds(dataframe[quoted(name)], zones[name]).alias(name)
            if name in zones
            else dataframe[quoted(name)]
            # Partition columns come after those of the file.
            for name in dataframe.columns
        )
    )


def _holds_nanoseconds(data_type: pa.DataType) -> bool:
    if pa.types.is_timestamp(data_type):
        return bool(data_type.unit == "ns")
    return any(
        _holds_nanoseconds(data_type.field(i).type)
        for i in range(data_type.num_fields if pa.types.is_nested(data_type) else 0)
    )


def _microseconds(nanoseconds: Column, zone: str | None) -> Column:
    thousand = F.lit(1000).cast("long")
    rest = F.pmod(nanoseconds, thousand)
    # Not `/`, which goes through double; `div` rounds towards zero, so the rest goes off first.
    # Below the first microsecond that int64 nanoseconds hold there is none to subtract from.
    lowest = F.lit(-(2**63) + 1000).cast("long")
    floored = F.when(nanoseconds < lowest, F.lit(-9223372036854776).cast("long")).otherwise(
        F.call_function("div", nanoseconds - rest, thousand)
    )
    return from_micros(floored, is_instant=zone is not None)
