"""Decode Avro messages into the columns of a table, in a Python worker.

A message is a record in Avro's binary encoding. With a schema registry, a zero byte and the schema
id precede the record. fastavro reads the records without logical types; `values.convert_values`
applies those to whole columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from runtime.connectors.avro.conversion import convert_values, kind_of, misfit, plain, raw_type
from runtime.connectors.avro.registry import schema_texts
from runtime.connectors.declared_columns import find_column
from runtime.errors import ExecutionError, packages_of
from runtime.spark.versions.arrow_types import to_arrow_schema

AVRO, CONFLUENT = "avro", "avro-confluent"
# Prefix of a message with a registry: a zero byte and the schema id, big-endian
_HEAD = 5


@dataclass(frozen=True)
class AvroDecoding:
    """Rules for decoding Avro messages into columns.

    Attributes:
        fields: Name and Spark type of each column.
        types: The same as Spark's JSON schema, which can be parsed without a Spark session.
        schema: Writer schema as JSON. Empty if it comes from the registry.
        registry: Registry settings, see `registry.schema_texts`. Empty without a registry.
    """

    fields: tuple[tuple[str, str], ...]
    types: str
    schema: str = ""
    registry: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Schema:
    """Parsed schema of a record.

    Attributes:
        fields: Fields of the record.
        named_types: Types that the fields refer to by name.
        reader: Schema without logical types, with which fastavro reads raw values.
    """

    fields: Sequence[Mapping[str, Any]]
    named_types: Mapping[str, Any]
    reader: Any


def decoding(
    columns: StructType, schema: str = "", registry: Mapping[str, str] | None = None
) -> AvroDecoding:
    """Return the decoding into these columns; see `AvroDecoding`."""
    fields = tuple((field.name, field.dataType.simpleString()) for field in columns)
    return AvroDecoding(fields, columns.json(), schema, registry or {})


def schema_of(columns: StructType) -> str:
    """Return the schema of messages with these columns as Flink derives it: all fields nullable.

    Times are in milliseconds, as in Flink's default mapping.

    Raises:
        ValueError: A type has no equivalent in Avro; the text names it.
    """
    fields = [
        {"name": field.name, "type": ["null", _avro_type(field.type, field.name)], "default": None}
        for field in to_arrow_schema(columns)
    ]
    return json.dumps({"type": "record", "name": _RECORD, "fields": fields})


_RECORD = "org.apache.flink.avro.generated.record"


def _avro_type(type_: pa.DataType, name: str) -> Any:
    if pa.types.is_timestamp(type_):
        return {"type": "long", "logicalType": "timestamp-millis"}
    if pa.types.is_decimal(type_):
        logical = {"precision": type_.precision, "scale": type_.scale}
        return {"type": "bytes", "logicalType": "decimal", **logical}
    if pa.types.is_list(type_):
        return {"type": "array", "items": ["null", _avro_type(type_.value_type, name)]}
    if pa.types.is_map(type_) and pa.types.is_string(type_.key_type):
        return {"type": "map", "values": ["null", _avro_type(type_.item_type, name)]}
    if pa.types.is_struct(type_):
        parts = [
            {
                "name": f.name,
                "type": ["null", _avro_type(f.type, f"{name}_{f.name}")],
                "default": None,
            }
            for f in type_
        ]
        return {"type": "record", "name": f"{_RECORD}_{name}", "fields": parts}
    avro_type = _NAMES.get(type_)
    if avro_type is None:
        raise ValueError(f"column `{name}` has no Avro type")
    return avro_type


_NAMES: Mapping[pa.DataType, Any] = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
}


class BrokenMessageError(Exception):
    """Error for an undecodable message: its position in the input, and the reason."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(why)
        self.number = number


class _BrokenError(Exception):
    """Error for a message that does not match its schema. The text gives the reason."""


def decode_avro(values: Sequence[bytes | None], how: AvroDecoding) -> list[pa.Array]:
    """Decode messages into columns.

    Args:
        values: Messages, at least one. A message without a value has NULL in all columns.
        how: Columns, and the schema of the messages.

    Raises:
        BrokenMessageError: A message does not match its schema.
        ExecutionError: A schema is unavailable or does not fit the columns.
    """
    try:
        return _columns(values, how)
    except (_BrokenError, pa.ArrowInvalid):
        for number, value in enumerate(values):
            try:
                _columns([value], how)
            except (_BrokenError, pa.ArrowInvalid) as error:
                raise BrokenMessageError(number, str(error).partition("\n")[0]) from error
        raise


def _columns(values: Sequence[bytes | None], how: AvroDecoding) -> list[pa.Array]:
    columns = _arrow_schema(how.types)
    # positions of messages with the same writer schema; None for messages without a value
    groups: dict[int | None, list[int]] = {}
    for position, value in enumerate(values):
        groups.setdefault(_schema_id(value, how), []).append(position)
    parts = []
    for number, positions in groups.items():
        if number is None:
            parts.append([pa.nulls(len(positions), column.type) for column in columns])
            continue
        schema, origin = _schema_with_id(number, how)
        start = _HEAD if how.registry else 0
        messages = [(values[position] or b"")[start:] for position in positions]
        parts.append(_decode(messages, schema, origin, columns))
    if len(parts) == 1:
        return parts[0]
    order = np.empty(len(values), np.int64)
    order[np.concatenate([*groups.values()])] = np.arange(len(values))
    arrays_of_columns = [pa.concat_arrays(arrays) for arrays in zip(*parts, strict=True)]
    return [array.take(pa.array(order)) for array in arrays_of_columns]


def _schema_id(value: bytes | None, how: AvroDecoding) -> int | None:
    """Return a message's schema id, 0 without a registry, or None for a missing message."""
    if value is None:
        return None
    if not how.registry:
        return 0
    if len(value) < _HEAD or value[0]:
        raise _BrokenError("it does not start with a zero byte and a schema id")
    return int.from_bytes(value[1:_HEAD], "big")


def _schema_with_id(number: int, how: AvroDecoding) -> tuple[_Schema, str]:
    if how.schema:
        return parse_schema((how.schema,)), "the 'avro.schema' of the messages"
    return parse_schema(schema_texts(how.registry, number)), f"schema {number} of the registry"


@lru_cache(maxsize=256)
def parse_schema(texts: tuple[str, ...]) -> _Schema:
    """Parse a record schema, the last of `texts`; the others define types that it refers to.

    Raises:
        ExecutionError: The text is not the schema of a record.
    """
    with packages_of("kafka", "format 'avro'"):
        import fastavro
    named_types: dict[str, Any] = {}
    named_raw: dict[str, Any] = {}
    last_schema: Any = None
    reader: Any = None
    try:
        for text in texts:
            raw = json.loads(text)
            last_schema = fastavro.parse_schema(raw, named_types)
            reader = fastavro.parse_schema(_without_logical_types(raw), named_raw)
    except (ValueError, KeyError, TypeError, fastavro.schema.SchemaParseException) as error:
        raise ExecutionError(f"the writer schema is not a valid Avro schema: {error}") from error
    kind, schema = kind_of(last_schema, named_types)
    if kind != "record":
        raise ExecutionError(f"the writer schema must be a record, not {kind}")
    return _Schema(schema["fields"], named_types, reader)


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical_types(branch) for branch in schema]
    if isinstance(schema, dict):
        return {k: _without_logical_types(v) for k, v in schema.items() if k != "logicalType"}
    return schema


def _decode(
    messages: Sequence[bytes], schema: _Schema, origin: str, columns: pa.Schema
) -> list[pa.Array]:
    """Decode messages with the same writer schema.

    Args:
        messages: Encoded records without the registry prefix.
        schema: Writer schema.
        origin: Source of the schema, for error messages.
        columns: Columns of the table.
    """
    types = {part["name"]: part["type"] for part in schema.fields}
    places = [find_column(list(types), column.name) for column in columns]
    for column, place in zip(columns, places, strict=True):
        if place and (why := misfit(types[place[0]], schema.named_types, column.type)):
            raise ExecutionError(
                f"column {column.name} cannot hold its value in {origin}: {why}",
                hint="declare the column with the type that the messages have, and cast it "
                "in a computed column",
            )
    records = [_record(message, schema.reader) for message in messages]
    arrays = []
    for column, place in zip(columns, places, strict=True):
        if not place:
            arrays.append(pa.nulls(len(records), column.type))
            continue
        name = place[0]
        type_ = raw_type(types[name], schema.named_types)
        values = [record[name] for record in records]
        if pa.types.is_nested(type_):
            values = [plain(value, types[name], schema.named_types) for value in values]
        try:
            array = pa.array(values, type_)
        except (OverflowError, pa.ArrowInvalid) as error:
            raise _BrokenError(f"field {name} has a value outside its type") from error
        arrays.append(convert_values(array, types[name], schema.named_types, column.type))
    return arrays


def _record(message: bytes, schema: Any) -> Any:
    from fastavro import schemaless_reader

    stream = BytesIO(message)
    try:
        record = schemaless_reader(stream, schema, None)
    # the exception type of fastavro depends on where bytes are missing
    except (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
        why = str(error) or "it is truncated"
        raise _BrokenError(f"it does not match its schema: {why}") from error
    if stream.tell() != len(message):
        raise _BrokenError("it is longer than its schema")
    return record


@lru_cache(maxsize=64)
def _arrow_schema(types: str) -> pa.Schema:
    """Convert Spark's JSON schema to an Arrow schema."""
    return to_arrow_schema(StructType.fromJson(json.loads(types)))
