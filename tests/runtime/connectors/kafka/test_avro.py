"""Avro messages as columns, compared with the values that fastavro wrote."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from runtime.connectors.avro.decoding import (
    BrokenMessageError,
    decode_avro,
    decoding,
    schema_of,
)
from runtime.errors import ExecutionError

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}
PARTS: list[tuple[str, Any, Any, st.SearchStrategy[Any]]] = [
    ("i", "int", "int", st.integers(-(2**31), 2**31 - 1)),
    ("n", ["null", "int"], "bigint", st.none() | st.integers(-(2**31), 2**31 - 1)),
    ("l", ["long", "null"], "bigint", st.none() | st.integers(-(2**63), 2**63 - 1)),
    ("f", "float", "double", st.floats(width=32, allow_nan=False)),
    ("d", ["null", "double"], "double", st.none() | st.floats(allow_nan=False)),
    ("o", "boolean", "boolean", st.booleans()),
    ("s", ["null", "string"], "string", st.none() | st.text()),
    ("y", "bytes", "binary", st.binary()),
    ("x", {"type": "fixed", "name": "x4", "size": 4}, "binary", st.binary(min_size=4, max_size=4)),
    ("e", {"type": "enum", "name": "en", "symbols": ["A", "B"]}, "string", st.sampled_from("AB")),
    ("again", ["null", "en"], "string", st.none() | st.sampled_from("AB")),
    ("c", ["null", DECIMAL], "decimal(20,2)",
     st.none() | st.decimals(-(10**17), 10**17, places=2, allow_nan=False)),
    ("day", {"type": "int", "logicalType": "date"}, "date", st.dates()),
    ("ms", {"type": "long", "logicalType": "timestamp-millis"}, "timestamp_ntz",
     st.integers(-(10**13), 10**13)),
    ("us", ["null", {"type": "long", "logicalType": "timestamp-micros"}], "timestamp",
     st.none() | st.integers(-(10**16), 10**16)),
    ("r", ["null", {"type": "record", "name": "r2", "fields": [
        {"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"]}]}],
     {"type": "struct", "fields": [
         {"name": n, "type": t, "nullable": True, "metadata": {}}
         for n, t in (("b", "string"), ("a", "long"), ("z", "integer"))]},
     st.none() | st.fixed_dictionaries({"a": st.integers(0, 9), "b": st.none() | st.text()})),
]  # fmt: skip
NESTED: list[tuple[str, Any, Any, st.SearchStrategy[Any]]] = [
    ("a", {"type": "array", "items": ["null", "int"]}, {"type": "array", "elementType": "long", "containsNull": True},
     st.lists(st.none() | st.integers(0, 9))),
    ("m", ["null", {"type": "map", "values": "long"}], {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True},
     st.none() | st.dictionaries(st.text(), st.integers(0, 9))),
    ("u", ["null", "int", "string"], "", st.none() | st.integers(0, 9) | st.text()),
]  # fmt: skip
UTC = dt.timezone.utc  # noqa: UP017


def schema(parts: list[tuple[str, Any, Any, Any]]) -> dict[str, Any]:
    fields = [{"name": name, "type": type_} for name, type_, *_ in parts]
    return {"type": "record", "name": "row", "fields": fields}


def encode(message: Any, *rows: dict[str, Any]) -> list[bytes]:
    parsed = fastavro.parse_schema(message)
    result = []
    for row in rows:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, row)
        result.append(stream.getvalue())
    return result


def columns(**fields: Any) -> StructType:
    """Return columns by Spark's type names, as in its schemas in JSON."""
    names = {"int": "integer", "bigint": "long"}
    return StructType.fromJson(
        {
            "fields": [
                {"name": n, "type": t if isinstance(t, dict) else names.get(t, t), "nullable": True}
                for n, t in fields.items()
            ]
        }
    )


def read(values: list[bytes | None], message: Any, **fields: Any) -> dict[str, list[Any]]:
    how = decoding(columns(**fields), json.dumps(message))
    result = decode_avro(values, how)
    return {name: array.to_pylist() for name, array in zip(fields, result, strict=True)}


def expected(name: str, value: Any) -> Any:
    if value is None:
        return None
    match name:
        case "ms":
            return dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=value)  # noqa: DTZ001
        case "us":
            return dt.datetime(1970, 1, 1, tzinfo=UTC) + dt.timedelta(microseconds=value)
        case "r":
            return {**value, "z": None}
        case "m":
            return list(value.items())
    return value


@given(st.data())
def test_columns_equal_the_written_values(data: st.DataObject) -> None:
    parts = [*PARTS, *NESTED]
    row = st.fixed_dictionaries({name: values for name, _, _, values in parts})
    rows = data.draw(st.lists(row, min_size=1, max_size=6))
    expected_rows = {name: type_ for name, _, type_, _ in parts if type_}
    some = data.draw(st.sets(st.sampled_from(sorted(expected_rows)), min_size=1))
    result = read(
        [*encode(schema(parts), *rows)], schema(parts), **{n: expected_rows[n] for n in some}
    )
    for name in some:
        assert result[name] == [expected(name, row[name]) for row in rows], name


def test_missing_values_and_fields_are_null() -> None:
    writer_schema = schema([("i", "int", "", None)])
    first, second = encode(writer_schema, {"i": 1}, {"i": 2})
    assert read([first, None, second], writer_schema, i="int", later="string") == {
        "i": [1, None, 2], "later": [None] * 3,
    }  # fmt: skip
    assert read([None], writer_schema, i="int") == {"i": [None]}


def test_columns_match_in_any_case_and_may_be_wider() -> None:
    writer_schema = schema([("Id", "int", "", None), ("v", "long", "", None)])
    (value,) = encode(writer_schema, {"Id": 7, "v": 2})
    assert read([value], writer_schema, id="bigint", v="double") == {"id": [7], "v": [2.0]}


@pytest.mark.parametrize(
    ("type_", "column", "why"),
    [
        ("long", "int", "long"),
        ("string", "int", "string"),
        (["null", "int", "string"], "string", "a union of several types"),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "timestamp",
         "long (local-timestamp-millis)"),
        ({"type": "array", "items": "string"}, {"type": "array", "elementType": "long", "containsNull": True}, "array"),
    ],
    ids=["narrower", "text", "union", "local", "items"],
)  # fmt: skip
def test_a_type_that_does_not_fit_is_named(type_: Any, column: Any, why: str) -> None:
    writer_schema = schema([("x", type_, "", None)])
    with pytest.raises(ExecutionError) as caught:
        read([b"\0\0"], writer_schema, x=column)
    assert caught.value.message == (
        f"column x cannot hold its value in the 'avro.schema' of the messages: {why}"
    )


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "it does not match its schema: "),
        (b"\x02\x08ab", "it does not match its schema: "),
        (b"\x02\x01", "it does not match its schema: "),
        (b"\x02\x02\xff", "it does not match its schema: 'utf-8' codec can't decode"),
        (b"\x02\x02ab", "it is longer than its schema"),
        (b"\xff" * 12, "it does not match its schema: "),
        (b"\xff" * 6 + b"\x01\x02a", "field i has a value outside its type"),
    ],
    ids=["empty", "cut", "negative", "text", "longer", "endless", "wide"],
)
def test_a_broken_message_is_named_by_its_place(value: bytes, why: str) -> None:
    writer_schema = schema([("i", "int", "", None), ("s", "string", "", None)])
    good = encode(writer_schema, *({"i": i, "s": "é" * i} for i in range(5)))
    with pytest.raises(BrokenMessageError, match=why) as caught:
        read([*good, value, *good, value], writer_schema, i="int", s="string")
    assert caught.value.number == 5


def test_a_schema_of_the_columns_is_flinks() -> None:
    strings = {"type": "array", "elementType": "string", "containsNull": True}
    fields = {"k": "int", "at": "timestamp_ntz", "c": "decimal(5,2)", "a": strings}
    text = schema_of(columns(**fields))
    parsed = json.loads(text)
    assert parsed["fields"][1]["type"] == [
        "null",
        {"type": "long", "logicalType": "timestamp-millis"},
    ]
    at = dt.datetime(2026, 5, 1, 10, 0, 0, 123000, tzinfo=UTC)
    values = encode(parsed, {"k": 1, "at": at, "c": Decimal("1.25"), "a": ["x", None]}, {"k": None})
    result = read([*values], parsed, **fields)
    assert result == {
        "k": [1, None], "at": [at.replace(tzinfo=None), None], "c": [Decimal("1.25"), None],
        "a": [["x", None], None],
    }  # fmt: skip


def test_schemas_that_are_no_records_are_refused() -> None:
    with pytest.raises(ExecutionError, match="the writer schema is not a valid Avro schema"):
        read([b""], {"type": "recrod"}, i="int")
    with pytest.raises(ExecutionError, match="the writer schema must be a record, not string"):
        read([b""], "string", i="int")
