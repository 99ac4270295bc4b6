"""Messages of Avro's binary encoding to columns, a field of all messages at a time, with NumPy.

The encoding has no lengths of records: where a field stands follows from those before it. So each
message has a position of its own, and a step reads the next field of all of them; integers are of
as many steps as the longest has bytes (variable-length zig-zag coding). See "Binary Encoding" in
Apache Avro's specification, version 1.12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Behind the last message, so that a field that is cut off can be looked at
PADDING = bytes(16)
_MOST_SHIFT = 63
_PRIMITIVE: Mapping[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_DTYPES: Mapping[str, np.dtype[Any]] = {"float": np.dtype("<f4"), "double": np.dtype("<f8")}

Named = Mapping[str, Any]


class BrokenError(Exception):
    """A message is not of its schema; the text says why."""


class NotByColumnsError(Exception):
    """A schema has parts whose places differ from message to message: arrays, maps, some unions."""


@dataclass
class Messages:
    """Messages and how far each has been read.

    Attributes:
        data: their bytes, and PADDING.
        at: the position of each, int64.
        ends: where each ends.
    """

    data: np.ndarray
    at: np.ndarray
    ends: np.ndarray

    def move(self, n_bytes: np.ndarray | int) -> np.ndarray:
        """Go on by so many bytes; where each message was before.

        Raises:
            BrokenError: a message is shorter.
        """
        before = self.at
        self.at = before + n_bytes
        if (self.at > self.ends).any() or (self.at < before).any():
            raise BrokenError("it ends before its schema does")
        return before

    def long(self) -> np.ndarray:
        """The integer that each has next.

        Raises:
            BrokenError: there is none.
        """
        at = self.at.copy()
        byte = self.data[at]
        value = (byte & 0x7F).astype(np.uint64)
        more = np.flatnonzero(byte >= 0x80)
        at += 1
        shift = 7
        while len(more):
            if shift > _MOST_SHIFT:
                raise BrokenError("it has an integer of more than ten bytes")
            byte = self.data[at[more]]
            value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            at[more] += 1
            more = more[byte >= 0x80]
            shift += 7
        self.move(at - self.at)
        sign = -(value & np.uint64(1)).astype(np.int64)
        found: np.ndarray = (value >> np.uint64(1)).astype(np.int64) ^ sign
        return found

    def below(self, bound: int, what: str) -> np.ndarray:
        """The integer that each has next, from 0 on and below a bound."""
        found = self.long()
        if ((found < 0) | (found >= bound)).any():
            raise BrokenError(f"it has {what} that its schema has not")
        return found

    def texts(self, lengths: np.ndarray) -> pa.Array:
        """So many bytes of each, as an array of binaries."""
        starts = self.move(lengths)
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        places = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
        buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(self.data[places])]
        return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)

    def some(self, rows: np.ndarray) -> Messages:
        """Some of them."""
        return Messages(self.data, self.at[rows], self.ends[rows])


def kind_of(schema: Any, named: Named) -> tuple[str, Any]:
    """The name of a schema's type, and the schema with names looked up: `union` of a list."""
    while True:
        if isinstance(schema, list):
            return "union", schema
        if isinstance(schema, str):
            if schema not in named:
                return schema, {"type": schema}
            schema = named[schema]
        elif isinstance(schema["type"], str) and schema["type"] not in named:
            return schema["type"], schema
        else:
            schema = schema["type"]


def raw_type(schema: Any, named: Named) -> pa.DataType:
    """The Arrow type of values as they are encoded, without what logical types make of them.

    Raises:
        NotByColumnsError: there is none, as for a union of several types.
    """
    kind, schema = kind_of(schema, named)
    match kind:
        case "union":
            others = [each for each in schema if kind_of(each, named)[0] != "null"]
            if len(others) > 1:
                raise NotByColumnsError("a union of several types")
            return raw_type(others[0], named) if others else pa.null()
        case "fixed":
            return pa.binary()
        case "record":
            return pa.struct([(f["name"], raw_type(f["type"], named)) for f in schema["fields"]])
        case "array":
            return pa.list_(raw_type(schema["items"], named))
        case "map":
            return pa.map_(pa.string(), raw_type(schema["values"], named))
    return _PRIMITIVE[kind]


def read_fields(
    messages: Messages, fields: Sequence[Mapping[str, Any]], named: Named, wanted: set[str]
) -> dict[str, pa.Array]:
    """The fields of a record that are wanted, by name, of the types that `raw_type` gives.

    Args:
        messages: each stands before the first of the fields, and then behind the last.
        fields: all fields of the record.
        named: the types that schemas name.
        wanted: the names of those that are wanted.

    Raises:
        BrokenError: a message is not of the schema.
        NotByColumnsError: the schema cannot be read so.
    """
    found = {}
    for field in fields:
        is_wanted = field["name"] in wanted
        array = _read(messages, field["type"], named, is_wanted)
        if is_wanted:
            found[field["name"]] = array
    return found


def _read(messages: Messages, schema: Any, named: Named, is_wanted: bool) -> pa.Array | None:
    """The next value of each message; None if it is only passed over."""
    kind, schema = kind_of(schema, named)
    found: pa.Array | None = None
    match kind:
        case "union":
            return _union(messages, schema, named, is_wanted)
        case "null":
            found = pa.nulls(len(messages.at))
        case "boolean":
            byte = messages.data[messages.move(1)]
            if (byte > 1).any():
                raise BrokenError("it has a truth value that is neither 0 nor 1")
            found = pa.array(byte == 1)
        case "int":
            value = messages.long()
            if (value != value.astype(np.int32)).any():
                raise BrokenError("it has an int of more than four bytes")
            found = pa.array(value.astype(np.int32))
        case "long":
            found = pa.array(messages.long())
        case "float" | "double":
            dtype = _DTYPES[kind]
            starts = messages.move(dtype.itemsize)
            if is_wanted:
                places = starts[:, None] + np.arange(dtype.itemsize)
                found = pa.array(messages.data[places].view(dtype)[:, 0])
        case "bytes" | "string":
            lengths = messages.long()
            if not is_wanted:
                messages.move(lengths)
            elif (lengths < 0).any():
                raise BrokenError("it has a text of less than no bytes")
            else:
                found = messages.texts(lengths)
                found = found.cast(pa.string()) if kind == "string" else found
        case "fixed":
            found = messages.texts(np.full(len(messages.at), schema["size"]))
        case "enum":
            symbols = pa.array(schema["symbols"], pa.string())
            found = symbols.take(pa.array(messages.below(len(symbols), "a symbol")))
        case "record":
            names = {field["name"] for field in schema["fields"]} if is_wanted else set()
            parts = read_fields(messages, schema["fields"], named, names)
            found = pa.StructArray.from_arrays(list(parts.values()), names=list(parts))
        case _:
            raise NotByColumnsError(kind)
    return found if is_wanted else None


def _union(
    messages: Messages, schemas: list[Any], named: Named, is_wanted: bool
) -> pa.Array | None:
    others = [i for i, each in enumerate(schemas) if kind_of(each, named)[0] != "null"]
    if len(others) != 1:
        raise NotByColumnsError("a union of several types")
    branch = messages.below(len(schemas), "a branch of a union")
    is_there = branch == others[0]
    if is_there.all():
        return _read(messages, schemas[others[0]], named, is_wanted)
    rows = np.flatnonzero(is_there)
    some = messages.some(rows)
    values = _read(some, schemas[others[0]], named, is_wanted)
    messages.at = messages.at.copy()
    messages.at[rows] = some.at
    if values is None:
        return None
    places = np.cumsum(is_there) - 1
    return pc.take(values, pa.array(places, mask=~is_there))
