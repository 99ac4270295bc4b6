"""Arrow tables into a PostgreSQL server, and results of queries as Arrow tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import psycopg
import pyarrow as pa

_TYPES = {
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE PRECISION",
    pa.string(): "TEXT",
    pa.bool_(): "BOOLEAN",
    pa.timestamp("us"): "TIMESTAMP",
    pa.timestamp("us", "UTC"): "TIMESTAMPTZ",
}
_OF_OIDS = {
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "text": pa.string(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
# First and last year of TIMESTAMP in whole years, as microseconds since 1970
FIRST_US, LAST_US = -210_000_000_000_000_000, 9_200_000_000_000_000_000


def can_store(tables: Iterable[pa.Table]) -> bool:
    """Return whether PostgreSQL has all times of tables. Its TIMESTAMP begins in 4713 BC."""
    for table in tables:
        for column in table.columns:
            if pa.types.is_timestamp(column.type):
                numbers = column.cast(pa.int64()).drop_null().to_pylist()
                if numbers and not FIRST_US < min(numbers) <= max(numbers) < LAST_US:
                    return False
    return True


def load(connection: psycopg.Connection[Any], name: str, rows: pa.Table) -> None:
    """Create a temporary table, instead of one with this name."""
    types = [_type(field.type) for field in rows.schema]
    columns = ", ".join(f'"{n}" {t}' for n, t in zip(rows.schema.names, types, strict=True))
    stored = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for column in rows.columns
    ]
    items = [
        _time("%s::BIGINT", type_) if type_.startswith("TIMESTAMP") else f"%s::{type_}"
        for type_ in types
    ]
    connection.execute(f'DROP TABLE IF EXISTS pg_temp."{name}"'.encode())
    connection.execute(f'CREATE TEMPORARY TABLE "{name}" ({columns})'.encode())
    values = [column.to_pylist() for column in stored]
    insert = f'INSERT INTO "{name}" VALUES ({", ".join(items)})'
    with connection.cursor() as cursor:
        cursor.executemany(
            insert.encode(),
            [
                tuple(v for value, type_ in zip(row, types, strict=True)
                      for v in ((value, value) if type_.startswith("TIMESTAMP") else (value,)))
                for row in zip(*values, strict=True)
            ],
        )  # fmt: skip


def run_on_postgres(
    connection: psycopg.Connection[Any], text: str, tables: Mapping[str, pa.Table]
) -> pa.Table:
    """Run a text over tables. Times need not fit Python's datetime."""
    for name, rows in tables.items():
        load(connection, name, rows)
    return result(connection, text)


def result(connection: psycopg.Connection[Any], text: str) -> pa.Table:
    """Return the rows and columns of a query, in its order."""
    described = connection.execute(f"SELECT * FROM ({text}) AS q LIMIT 0".encode())
    fields = []
    for column in described.description or ():
        type_ = _OF_OIDS.get(column.type_display.split("(")[0])
        if column.type_display.startswith("numeric"):
            assert column.precision is not None, f"{column.name} is NUMERIC without digits"
            type_ = pa.decimal128(column.precision, column.scale or 0)
        assert type_ is not None, column.type_display
        fields.append(pa.field(column.name, type_))
    names = [f"c{number}" for number in range(len(fields))]
    items = [
        f"(EXTRACT(EPOCH FROM {name}) * 1000000)::BIGINT"
        if pa.types.is_timestamp(field.type)
        else name
        for name, field in zip(names, fields, strict=True)
    ]
    rows = connection.execute(
        f"SELECT {', '.join(items)} FROM ({text}) AS q({', '.join(names)})".encode()
    ).fetchall()
    arrays = []
    for position, field in enumerate(fields):
        values = [row[position] for row in rows]
        is_time = pa.types.is_timestamp(field.type)
        array = pa.array(values, pa.int64() if is_time else field.type)
        arrays.append(array.cast(field.type) if is_time else array)
    return pa.table(arrays, schema=pa.schema(fields))


def _type(type_: pa.DataType) -> str:
    if pa.types.is_decimal(type_):
        return f"NUMERIC({type_.precision}, {type_.scale})"
    return _TYPES[type_]


def _time(us: str, type_: str) -> str:
    """Return an exact time: products with an interval are exact below 2^53 microseconds."""
    time = (
        f"DATE '1970-01-01' + ({us} / 86400000000)::INT "
        f"+ ({us} %% 86400000000) * INTERVAL '1 microsecond'"
    )
    return f"({time})" if type_ == "TIMESTAMP" else f"(({time}) AT TIME ZONE 'UTC')"
