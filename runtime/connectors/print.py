"""The connector 'print': one line a row, `+I[1, x]`, as Flink's print sink writes them.

Values are spelled as Java spells them: NULL is `null`, timestamps without zone as LocalDateTime
(`2024-01-01T10:00`), with zone as Instant (`2024-01-01T10:00:00Z`), nested rows as `+I[...]`.
"""

from __future__ import annotations

import datetime as dt
import sys
from decimal import Decimal
from functools import partial
from typing import TextIO

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from runtime.connectors.columns import check_plain_table
from runtime.connectors.connector import Connector, StreamWriter, WriteBatch
from runtime.connectors.options.checks import idle_options, option_values
from runtime.connectors.options.known import PRINT
from runtime.spec.stream import ROW_KIND
from runtime.spec.table import TableSpec

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  # wall-clock arithmetic
_LEFT_TO_PYTHON = (ArrayType, MapType, StructType, BinaryType, TimestampNTZType)


def write(dataframe: DataFrame, spec: TableSpec, overwrite: bool) -> int:
    """Print the rows of a batch; how many they are."""
    return _print_rows(dataframe, spec, _output_of(spec))


def open_batches(dataframe: DataFrame, spec: TableSpec, writer: StreamWriter) -> WriteBatch:
    """What prints the micro-batches of a stream, with the kind of each row if there is one."""
    output = _output_of(spec)
    return lambda rows, _: _print_rows(rows, spec, output)


def _output_of(spec: TableSpec) -> TextIO:
    is_error = option_values(spec).get("standard-error", "false").lower() == "true"
    return sys.stderr if is_error else sys.stdout


def _print_rows(dataframe: DataFrame, spec: TableSpec, output: TextIO) -> int:
    """Print every row and return how many there were; one partition at a time is in memory."""
    identifier = option_values(spec).get("print-identifier", "")
    prefix = f"{identifier}> " if identifier else ""
    types = [field.dataType for field in dataframe.schema.fields]
    spelled = dataframe.toDF(*(f"_{position}" for position in range(len(types))))
    spelled = spelled.select(
        *(_spelled(F.col(name), t) for name, t in zip(spelled.columns, types, strict=True))
    )
    n_rows = 0
    has_kind = ROW_KIND in dataframe.columns
    for row in spelled.toLocalIterator():
        cells = [_top(value, t) for value, t in zip(row, types, strict=True)]
        kind = cells.pop(0) if has_kind else "+I"
        output.write(f"{prefix}{kind}[{', '.join(cells)}]\n")
        n_rows += 1
    output.flush()
    return n_rows


def _spelled(column: Column, data_type: DataType) -> Column:
    """What Spark spells as Java does goes to Python as text; instants go as microseconds."""
    if isinstance(data_type, TimestampType):
        return F.unix_micros(column)
    return column if isinstance(data_type, _LEFT_TO_PYTHON) else column.cast("string")


def _top(value: object, data_type: DataType) -> str:
    if isinstance(data_type, TimestampType) and isinstance(value, int):
        return _instant(_EPOCH + dt.timedelta(microseconds=value))
    return _java(value, data_type)


def _java(value: object, data_type: DataType) -> str:
    """A value within an array, a map or a row, as Java's toString has it."""
    if value is None:
        return "null"
    match value, data_type:
        case (Row(), StructType()):
            parts = [_java(v, f.dataType) for v, f in zip(value, data_type.fields, strict=True)]
            return f"+I[{', '.join(parts)}]"
        case (list(), ArrayType()):
            return "[" + ", ".join(_java(v, data_type.elementType) for v in value) + "]"
        case (dict(), MapType()):
            pairs = (
                f"{_java(k, data_type.keyType)}={_java(v, data_type.valueType)}"
                for k, v in value.items()
            )
            return "{" + ", ".join(pairs) + "}"
        case ((bytes() | bytearray()), _):
            # Java's bytes are signed.
            return "[" + ", ".join(str(b - 256 if b > 127 else b) for b in value) + "]"
        case (bool(), _):
            return "true" if value else "false"
        case (dt.datetime(), TimestampType()):
            # PySpark gives instants on the wall clock of this process.
            return _instant(value.astimezone(dt.UTC).replace(tzinfo=None))
        case (dt.datetime(), _):
            return _local(value)
        case (Decimal(), _):
            return f"{value:f}"
        case (float(), _):
            return _double(value)
    return str(value)


def _local(value: dt.datetime, *, has_seconds: bool = False) -> str:
    """LocalDateTime.toString: seconds only if there are any, then 3 or 6 digits."""
    timespec = "seconds" if has_seconds or value.second else "minutes"
    if value.microsecond:
        timespec = "microseconds" if value.microsecond % 1000 else "milliseconds"
    return value.isoformat(timespec=timespec)


def _instant(value: dt.datetime) -> str:
    """Instant.toString: seconds always, then 3 or 6 digits, and Z."""
    return _local(value, has_seconds=True) + "Z"


def _double(value: float) -> str:
    """Double.toString: plain digits from 0.001 to 10 million, else 1.0E10."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        plain = f"{Decimal(repr(value)):f}"
        return plain if "." in plain else f"{plain}.0"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    power = exponent + len(digits) - 1
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{power}"


CONNECTOR = Connector(
    "print",
    partial(check_plain_table, PRINT),
    write=write,
    open_batches=open_batches,
    takes_updates=True,
    idle_options=idle_options(PRINT),
)
