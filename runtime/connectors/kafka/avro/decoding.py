"""Messages of Avro to the columns of a table, in a Python worker.

A message is a record in Avro's binary encoding; with a schema registry there stand a zero byte and
the schema's id before it. Most records are read a column at a time (`columns`); with arrays,
maps and unions of several types they are read one by one by fastavro.
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
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from runtime.connectors.columns import find_column
from runtime.connectors.kafka.avro.columns import (
    PADDING,
    BrokenError,
    Messages,
    NotByColumnsError,
    kind_of,
    raw_type,
    read_fields,
)
from runtime.connectors.kafka.avro.registry import schema_text
from runtime.connectors.kafka.avro.values import converted, misfit, present
from runtime.errors import ExecutionError

AVRO, CONFLUENT = "avro", "avro-confluent"
# Before a message of a registry's: a zero byte, and the id of its schema, big-endian
_HEAD = 5


@dataclass(frozen=True)
class AvroDecoding:
    """How messages of Avro become columns.

    Attributes:
        fields: the name of each, and Spark's type.
        types: the same as Spark writes a schema in JSON, which is read without Spark.
        schema: that the messages were written with, as JSON; empty: the registry has it.
        registry: where schemas are, see `registry.schema_text`; empty: nowhere.
    """

    fields: tuple[tuple[str, str], ...]
    types: str
    schema: str = ""
    registry: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Schema:
    """A record, parsed.

    Attributes:
        fields: of the record.
        named: the types that they name.
        reader: what fastavro reads raw values with.
    """

    fields: Sequence[Mapping[str, Any]]
    named: Mapping[str, Any]
    reader: Any


def decoding(
    columns: StructType, schema: str = "", registry: Mapping[str, str] | None = None
) -> AvroDecoding:
    """How messages become these columns; see `AvroDecoding`."""
    fields = tuple((field.name, field.dataType.simpleString()) for field in columns)
    return AvroDecoding(fields, columns.json(), schema, registry or {})


def schema_of(columns: StructType) -> str:
    """The schema of messages with these columns, as Flink derives it: each may be null.

    Times are in milliseconds, as with Flink's default mapping.

    Raises:
        ValueError: a type has no match; the text says which.
    """
    fields = [
        {"name": field.name, "type": ["null", _of_type(field.type, field.name)], "default": None}
        for field in to_arrow_schema(columns, timezone="UTC")
    ]
    return json.dumps({"type": "record", "name": _RECORD, "fields": fields})


_RECORD = "org.apache.flink.avro.generated.record"


def _of_type(type_: pa.DataType, name: str) -> Any:
    if pa.types.is_timestamp(type_):
        return {"type": "long", "logicalType": "timestamp-millis"}
    if pa.types.is_decimal(type_):
        logical = {"precision": type_.precision, "scale": type_.scale}
        return {"type": "bytes", "logicalType": "decimal", **logical}
    if pa.types.is_list(type_):
        return {"type": "array", "items": ["null", _of_type(type_.value_type, name)]}
    if pa.types.is_map(type_) and pa.types.is_string(type_.key_type):
        return {"type": "map", "values": ["null", _of_type(type_.item_type, name)]}
    if pa.types.is_struct(type_):
        parts = [
            {
                "name": f.name,
                "type": ["null", _of_type(f.type, f"{name}_{f.name}")],
                "default": None,
            }
            for f in type_
        ]
        return {"type": "record", "name": f"{_RECORD}_{name}", "fields": parts}
    found = _NAMES.get(type_)
    if found is None:
        raise ValueError(f"Avro has no type for column `{name}`")
    return found


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


def decoded_avro(values: Sequence[bytes | None], how: AvroDecoding) -> list[pa.Array]:
    """The columns of messages.

    Args:
        values: the messages, one at least. One without a value has NULL in all columns.
        how: what is in them.

    Raises:
        BrokenMessageError: a message is not of its schema; it says which.
        ExecutionError: a schema is not there, or does not fit the columns.
    """
    try:
        return _columns(values, how)
    except (BrokenError, pa.ArrowInvalid):
        number = _first_broken(values, how)
        try:
            _columns(values[number : number + 1], how)
        except (BrokenError, pa.ArrowInvalid) as error:
            raise BrokenMessageError(number, str(error).partition("\n")[0]) from error
        raise


class BrokenMessageError(Exception):
    """A message cannot be read: its place among those given, and why."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(why)
        self.number = number


def _first_broken(values: Sequence[bytes | None], how: AvroDecoding) -> int:
    """The place of the first message that cannot be read, one of them being such."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _columns(values[low:middle], how)
        except (BrokenError, pa.ArrowInvalid):
            high = middle
        else:
            low = middle
    return low


def _columns(values: Sequence[bytes | None], how: AvroDecoding) -> list[pa.Array]:
    head = _HEAD if how.registry else 0
    columns = _columns_of(how.types)
    lengths = np.fromiter((-1 if v is None else len(v) for v in values), np.int64, len(values))
    is_there = lengths >= 0
    ends = np.cumsum(np.maximum(lengths, 0))
    starts = ends - np.maximum(lengths, 0)
    data = np.frombuffer(b"".join([*(v for v in values if v is not None), PADDING]), np.uint8)
    if head:
        if (lengths[is_there] < head).any() or data[starts[is_there]].any():
            raise BrokenError("it does not begin with a zero byte and the id of a schema")
        ids = data[starts[:, None] + np.arange(1, head)].view(">u4")[:, 0].astype(np.int64)
    else:
        ids = np.zeros(len(values), np.int64)
    ids[~is_there] = -1
    found = np.unique(ids)
    order, parts = [], []
    for each in found.tolist():
        rows = np.flatnonzero(ids == each)
        order.append(rows)
        if not is_there[rows[0]]:
            parts.append([pa.nulls(len(rows), column.type) for column in columns])
            continue
        schema, origin = _schema_with_id(each, how)
        messages = Messages(data, starts[rows] + head, ends[rows])
        parts.append(_of_schema(messages, schema, origin, columns))
    if len(parts) == 1:
        return parts[0]
    back = np.empty(len(values), np.int64)
    back[np.concatenate(order)] = np.arange(len(values))
    whole = [pa.concat_arrays(arrays) for arrays in zip(*parts, strict=True)]
    return [array.take(pa.array(back)) for array in whole]


def _schema_with_id(number: int, how: AvroDecoding) -> tuple[_Schema, str]:
    if how.schema:
        return _parsed(how.schema), "the messages' schema"
    return _parsed(schema_text(how.registry, number)), f"schema {number} of the registry"


@lru_cache(maxsize=256)
def _parsed(text: str) -> _Schema:
    """A schema of a record.

    Raises:
        ExecutionError: it is none.
    """
    try:
        import fastavro
    except ImportError as error:
        raise ExecutionError(
            "format 'avro' needs the package fastavro", hint="pip install 'sqlwin[kafka]'"
        ) from error
    try:
        named: dict[str, Any] = {}
        raw = json.loads(text)
        whole = fastavro.parse_schema(raw, named)
        reader = fastavro.parse_schema(_without_logical_types(raw))
    except (ValueError, KeyError, TypeError, fastavro.schema.SchemaParseException) as error:
        raise ExecutionError(f"the schema of messages is no Avro schema: {error}") from error
    kind, schema = kind_of(whole, named)
    if kind != "record":
        raise ExecutionError(f"the schema of messages is a {kind}, and columns are of a record")
    return _Schema(schema["fields"], named, reader)


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical_types(each) for each in schema]
    if isinstance(schema, dict):
        return {k: _without_logical_types(v) for k, v in schema.items() if k != "logicalType"}
    return schema


def _of_schema(
    messages: Messages, schema: _Schema, origin: str, columns: pa.Schema
) -> list[pa.Array]:
    """The columns of messages that were written with one schema."""
    names = [each["name"] for each in schema.fields]
    places = [find_column(names, column.name) for column in columns]
    types = {each["name"]: each["type"] for each in schema.fields}
    for column, place in zip(columns, places, strict=True):
        if place and (why := misfit(types[place[0]], schema.named, column.type)):
            raise ExecutionError(
                f"column {column.name} cannot hold what it is in {origin}, {why}",
                hint="declare it with the type that messages have; a computed column can cast it",
            )
    wanted = {name for place in places for name in place[:1]}
    starts = messages.at
    try:
        found = read_fields(messages, schema.fields, schema.named, wanted)
        if (messages.at != messages.ends).any():
            raise BrokenError("it goes on where its schema ends")
    except NotByColumnsError:
        messages.at = starts
        found = _one_by_one(messages, schema, wanted)
    return [
        converted(found[place[0]], types[place[0]], schema.named, column.type)
        if place
        else pa.nulls(len(starts), column.type)
        for column, place in zip(columns, places, strict=True)
    ]


def _one_by_one(messages: Messages, schema: _Schema, wanted: set[str]) -> dict[str, pa.Array]:
    """The fields that are wanted, as `read_fields` gives them, of any schema."""
    from fastavro import schemaless_reader

    data = messages.data.tobytes()
    rows: list[Any] = []
    for start, end in zip(messages.at.tolist(), messages.ends.tolist(), strict=True):
        stream = BytesIO(data[start:end])
        try:
            rows.append(schemaless_reader(stream, schema.reader, None))
        # what it raises depends on where bytes are missing
        except (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
            raise BrokenError(f"it is not of its schema: {error or 'it ends too early'}") from error
        if stream.tell() != end - start:
            raise BrokenError("it goes on where its schema ends")
    found = {}
    for each in schema.fields:
        if (name := each["name"]) in wanted:
            type_ = raw_type(each["type"], schema.named)
            values = [_plain(row[name], each["type"], schema.named) for row in rows]
            found[name] = pa.array(values, type_)
    return found


def _plain(value: Any, schema: Any, named: Mapping[str, Any]) -> Any:
    """A value with maps as pairs, as Arrow takes them."""
    kind, schema = present(schema, named)
    if value is None:
        return None
    match kind:
        case "record":
            return {f["name"]: _plain(value[f["name"]], f["type"], named) for f in schema["fields"]}
        case "array":
            return [_plain(each, schema["items"], named) for each in value]
        case "map":
            return [(key, _plain(each, schema["values"], named)) for key, each in value.items()]
    return value


@lru_cache(maxsize=64)
def _columns_of(types: str) -> pa.Schema:
    """The columns that a schema of Spark's, in JSON, describes."""
    return to_arrow_schema(StructType.fromJson(json.loads(types)), timezone="UTC")
