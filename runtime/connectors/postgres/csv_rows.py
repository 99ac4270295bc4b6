"""Rows as the CSV text of PostgreSQL's COPY. Arrow writes and reads it in C++.

NULL is an empty field, and an empty string is quoted. Arrow formats and parses the times of the
years 1 to 9999; others are rare and are formatted one by one.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

# Rows per piece of text
_ROWS = 1 << 16
_DAY_US = 86_400_000_000
# Microseconds since 1970 of the first time of the year 1 and of the year 10000
_FIRST_US, _AFTER_US = -62_135_596_800_000_000, 253_402_300_800_000_000


def csv_pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Yield rows as CSV text for `COPY ... FROM STDIN (FORMAT csv)`."""
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
    for batch in batches:
        columns = [_as_csv(column) for column in batch.columns]
        table = pa.table(columns, names=[f"_{i}" for i in range(len(columns))])
        for start in range(0, batch.num_rows, _ROWS):
            text = io.BytesIO()
            pyarrow.csv.write_csv(table.slice(start, _ROWS), text, options)
            yield text.getvalue()


def _as_csv(column: pa.Array) -> pa.Array:
    """Return a column whose values Arrow writes as PostgreSQL reads them."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        values = [None if value is None else f"\\x{value.hex()}" for value in column.to_pylist()]
        return pa.array(values, pa.string())
    if pa.types.is_date32(column.type):
        days = column.cast(pa.int32()).cast(pa.int64())
        return column if _is_usual(days, _DAY_US) else _times_text(days, "D")
    if pa.types.is_timestamp(column.type):
        zone = "" if column.type.tz is None else "+00"
        us = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        if not _is_usual(us, 1):
            return _times_text(us, "us", zone)
        return us.cast(pa.timestamp("us", "UTC" if zone else None))
    return column


def _is_usual(values: pa.Array, unit_us: int) -> bool:
    """Return whether all times are in the years 1 to 9999."""
    least, most = pc.min_max(values).as_py().values()
    return least is None or (least * unit_us >= _FIRST_US and most * unit_us < _AFTER_US)


def _times_text(values: pa.Array, unit: str, zone: str = "") -> pa.Array:
    """Return times, counted in a unit since 1970, as PostgreSQL writes them: `0044-03-15 BC`."""
    moments: Any = np.datetime64
    texts: list[str | None] = []
    for value in values.to_pylist():
        if value is None:
            texts.append(None)
            continue
        text = str(moments(value, unit)).replace("T", " ")
        year = text.rsplit("-", 2)[0]
        number, rest = int(year), text[len(year) :]
        era = "" if number > 0 else " BC"
        texts.append(f"{number if number > 0 else 1 - number:04d}{rest}{zone}{era}")
    return pa.array(texts, pa.string())


def read_csv(text: bytes, schema: pa.Schema) -> pa.Table:
    r"""Return the rows of CSV text from `COPY ... TO STDOUT (FORMAT csv)`.

    Args:
        text: Whole lines, without a header.
        schema: Columns, with binary columns as text like `\x00ff`.

    Raises:
        pa.ArrowInvalid: A value is not one of its type, such as a time outside the years 1 to 9999.
    """
    read = pa.schema(
        [
            field.with_type(pa.string()) if pa.types.is_binary(field.type) else field
            for field in schema
        ]
    )
    if not text:
        return schema.empty_table()
    table = pyarrow.csv.read_csv(
        pa.BufferReader(text),
        read_options=pyarrow.csv.ReadOptions(column_names=read.names),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=read,
            null_values=[""],
            true_values=["t"],
            false_values=["f"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    columns = [
        _from_hex(column) if pa.types.is_binary(field.type) else column
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.table(columns, schema=schema)


def _from_hex(column: pa.ChunkedArray) -> pa.Array:
    return pa.array(
        [None if text is None else bytes.fromhex(text[2:]) for text in column.to_pylist()],
        pa.binary(),
    )
