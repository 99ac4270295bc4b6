"""Connector 'print': prints a line per row, `+I[1, x]`, like Flink's print sink.

Values are spelled as in Java: NULL is `null`, timestamps without zone are LocalDateTime
(`2024-01-01T10:00`), with zone OffsetDateTime in the session's time zone
(`2024-01-01T11:00:00+01:00`, in UTC `2024-01-01T10:00:00Z`), nested rows `+I[...]`. Times reach
Python as numbers, because Python's own types only cover the years 1 to 9999.
"""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import TextIO

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from runtime.connectors.connector import Table
from runtime.frames.arrow_rows import BatchRows
from runtime.frames.wall_clock import timestamp_ntz_us_sql
from runtime.names import quote_name
from runtime.options.checks import option_values
from runtime.options.known import PRINT
from runtime.spec.figures import date_text, java_number
from runtime.spec.sink import FunctionSink, SinkMode, StreamWriter
from runtime.spec.stream import ROW_KIND
from runtime.spec.table import TableSpec

_DAY_US = 86_400_000_000
# Types whose values Python formats; Spark formats the others like Java
_LEFT_TO_PYTHON = (
    *(ArrayType, MapType, StructType, BinaryType, DateType, TimestampNTZType, TimestampType),
)
_TIMES = (DateType, TimestampNTZType, TimestampType)


def _output_of(spec: TableSpec) -> TextIO:
    is_error = option_values(spec).get("standard-error", "false").lower() == "true"
    return sys.stderr if is_error else sys.stdout


def _print_rows(dataframe: DataFrame, spec: TableSpec, output: TextIO) -> int:
    """Print all rows and return their number, with one partition at a time in memory."""
    identifier = option_values(spec).get("print-identifier", "")
    prefix = f"{identifier}> " if identifier else ""
    types = [field.dataType for field in dataframe.schema.fields]
    numbered = dataframe.toDF(*(f"_{position}" for position in range(len(types))))
    spelled = numbered.select(
        *(
            F.expr(_numbers(quote_name(name), t))
            if isinstance(t, _LEFT_TO_PYTHON)
            else F.col(name).cast("string")
            for name, t in zip(numbered.columns, types, strict=True)
        )
    )
    n_rows = 0
    has_kind = ROW_KIND in dataframe.columns
    for row in spelled.toLocalIterator():
        cells = [_java(value, t) for value, t in zip(row, types, strict=True)]
        kind = cells.pop(0) if has_kind else "+I"
        output.write(f"{prefix}{kind}[{', '.join(cells)}]\n")
        n_rows += 1
    output.flush()
    return n_rows


def _numbers(value: str, data_type: DataType, depth: int = 0) -> str:
    """Return SQL for a value with its times as numbers: days or microseconds since 1970.

    An instant becomes an array with its microseconds in UTC and on the wall clock of the session's
    time zone; a map becomes an array of its entries.
    """
    match data_type:
        case DateType():
            return f"unix_date({value})"
        case TimestampType():
            local = timestamp_ntz_us_sql(f"CAST({value} AS TIMESTAMP_NTZ)")
            return f"array(unix_micros({value}), {local})"
        case TimestampNTZType():
            return timestamp_ntz_us_sql(value)
        case ArrayType() if _has_times(data_type):
            item = f"x{depth}"
            element = _numbers(item, data_type.elementType, depth + 1)
            return f"transform({value}, {item} -> {element})"
        case MapType() if _has_times(data_type):
            entry = f"x{depth}"
            key = _numbers(f"{entry}.key", data_type.keyType, depth + 1)
            item = _numbers(f"{entry}.value", data_type.valueType, depth + 1)
            return f"transform(map_entries({value}), {entry} -> struct({key}, {item}))"
        case StructType() if _has_times(data_type):
            # names may be duplicates, positions may not
            renamed = ", ".join(
                f"'_{i}', {_numbers(f'{value}.{quote_name(f.name)}', f.dataType, depth + 1)}"
                for i, f in enumerate(data_type.fields)
            )
            return f"if({value} IS NULL, NULL, named_struct({renamed}))"
    return value


def _has_times(data_type: DataType) -> bool:
    match data_type:
        case ArrayType():
            return _has_times(data_type.elementType)
        case MapType():
            return _has_times(data_type.keyType) or _has_times(data_type.valueType)
        case StructType():
            return any(_has_times(field.dataType) for field in data_type.fields)
    return isinstance(data_type, _TIMES)


def _java(value: object, data_type: DataType) -> str:
    """Format a value like Java's toString. Its times are numbers, see `_numbers`."""
    if value is None:
        return "null"
    match value, data_type:
        case (Row(), StructType()):
            parts = [_java(v, f.dataType) for v, f in zip(value, data_type.fields, strict=True)]
            return f"+I[{', '.join(parts)}]"
        case (list(), TimestampType()):
            return _instant(*value)
        case (list(), ArrayType()):
            return "[" + ", ".join(_java(v, data_type.elementType) for v in value) + "]"
        case ((dict() | list()), MapType()):
            pairs = (
                f"{_java(k, data_type.keyType)}={_java(v, data_type.valueType)}"
                for k, v in (value.items() if isinstance(value, dict) else value)
            )
            return "{" + ", ".join(pairs) + "}"
        case ((bytes() | bytearray()), _):
            # Java's bytes are signed
            return "[" + ", ".join(str(b - 256 if b > 127 else b) for b in value) + "]"
        case (bool(), _):
            return "true" if value else "false"
        case (int(), DateType()):
            return date_text(value)
        case (int(), TimestampNTZType()):
            return _local(value)
        case (Decimal(), _):
            return f"{value:f}"
        case (float(), _):
            return java_number(repr(value))
    return str(value)


def _instant(time_us: int | None, local_us: int) -> str:
    """Format an OffsetDateTime, but always with seconds: `2024-01-01T11:00:00+01:00`.

    Args:
        time_us: Microseconds since 1970. None for NULL.
        local_us: The same time on the wall clock of the session's time zone.
    """
    if time_us is None:
        return "null"
    local = _local(local_us, has_seconds=True)
    if local_us == time_us:
        return f"{local}Z"
    seconds = (local_us - time_us) // 1_000_000
    minutes, second = divmod(abs(seconds), 60)
    offset = f"{'-' if seconds < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return local + offset + (f":{second:02d}" if second else "")


def _local(time_us: int, *, has_seconds: bool = False) -> str:
    """Format like LocalDateTime.toString: seconds only if not zero, and 3 or 6 fraction digits."""
    days, rest = divmod(time_us, _DAY_US)
    seconds, micros = divmod(rest, 1_000_000)
    minutes, second = divmod(seconds, 60)
    text = f"{date_text(days)}T{minutes // 60:02d}:{minutes % 60:02d}"
    if has_seconds or second or micros:
        text += f":{second:02d}"
    if micros:
        text += f".{micros:06d}" if micros % 1000 else f".{micros // 1000:03d}"
    return text


class PrintTable(Table):
    """Table whose rows are printed."""

    options = PRINT
    sink_mode = SinkMode.CHANGELOG

    def write(self, rows: BatchRows, *, overwrite: bool) -> int:
        """Print the rows of a batch and return their number."""
        return _print_rows(rows.dataframe, self.spec, _output_of(self.spec))

    def open_sink(self, rows: DataFrame, writer: StreamWriter) -> FunctionSink:
        """Return the sink that prints micro-batches."""
        output = _output_of(self.spec)
        return FunctionSink(lambda rows, _: _print_rows(rows, self.spec, output))
