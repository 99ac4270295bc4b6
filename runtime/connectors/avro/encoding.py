"""Encode the columns of a table as Avro messages of one schema, in a Python worker."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from io import BytesIO
from typing import Any

import pyarrow as pa

from runtime.connectors.avro.decoding import parse_schema
from runtime.errors import ExecutionError


def unwritten_part(schema: str, columns: Sequence[str]) -> str | None:
    """Return why records of a schema cannot hold rows with these columns, or None if they can.

    Raises:
        ExecutionError: The text is not the schema of a record.
    """
    parsed = parse_schema((schema,))
    fields = {field["name"]: field for field in parsed.fields}
    for name in columns:
        if name not in fields:
            return f"the schema has no field {name}"
    for name, part in fields.items():
        if name not in columns and "default" not in part and not _is_nullable(part["type"]):
            return f"the table has no column for the field {name}, which has no default"
    return None


def _is_nullable(type_: Any) -> bool:
    return type_ == "null" or (isinstance(type_, list) and "null" in type_)


def encode_avro(rows: pa.StructArray, schema: str) -> pa.Array:
    """Return the message of each row, without a schema id.

    Raises:
        ExecutionError: A value does not fit the schema.
    """
    import fastavro

    parsed = _parsed(schema)
    messages = []
    for row in rows.cast(_in_utc(rows.type)).to_pylist(maps_as_pydicts="strict"):
        stream = BytesIO()
        try:
            fastavro.schemaless_writer(stream, parsed, row)
        # the exception type of fastavro depends on the type in the schema
        except (ValueError, TypeError, KeyError, OverflowError, AttributeError) as error:
            why = str(error).partition("\n")[0] or "it does not fit"
            raise ExecutionError(
                f"a row cannot be written as Avro: {why}",
                hint="check 'avro.schema', or cast the columns in the query",
            ) from error
        messages.append(stream.getvalue())
    return pa.array(messages, pa.binary())


@lru_cache(maxsize=16)
def _parsed(schema: str) -> Any:
    import fastavro

    return fastavro.parse_schema(json.loads(schema))


def _in_utc(type_: pa.DataType) -> pa.DataType:
    """Return a type whose times are instants in UTC, as which Avro counts local times too."""
    if pa.types.is_timestamp(type_):
        return pa.timestamp(type_.unit, "UTC")
    if pa.types.is_struct(type_):
        return pa.struct([f.with_type(_in_utc(f.type)) for f in type_])
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_in_utc(type_.value_type)))
    if pa.types.is_map(type_):
        return pa.map_(type_.key_type, type_.item_field.with_type(_in_utc(type_.item_type)))
    return type_
