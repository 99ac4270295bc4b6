"""Schemas of a registry over HTTP, and messages with their ids."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import fastavro
import pytest

from runtime.connectors.avro.decoding import decode_avro, decoding
from runtime.connectors.avro.options import registry_of
from runtime.connectors.avro.registry import schema_texts
from runtime.connectors.kafka.client import Client
from runtime.connectors.kafka.consume import read_range
from runtime.connectors.kafka.offsets import Range, Reading
from runtime.connectors.kafka.source import read_table
from runtime.errors import CatalogError, ExecutionError
from tests.runtime.connectors.kafka.broker import Broker, broker
from tests.runtime.connectors.kafka.registry_server import Registry, self_signed, serve_registry
from tests.runtime.connectors.kafka.test_avro import columns, encode, schema
from tests.runtime.connectors.kafka.test_options import kafka

__all__ = ["broker"]

FIRST = schema([("k", "int", "", None), ("v", "long", "", None)])
SECOND = schema([("v", ["null", "double"], "", None), ("k", "int", "", None)])
POINT = {"type": "record", "name": "point", "fields": [{"name": "x", "type": "long"}]}
LINE = {"type": "record", "name": "line", "fields": [{"name": "start", "type": "point"}]}
NAMING = schema([("p", "point", "", None), ("l", ["null", "line"], "", None)])


def reference(subject: str) -> dict[str, object]:
    return {"name": subject, "subject": subject, "version": 1}


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serve_registry(Registry("reader:secret-of-mine")) as result:
        result.put(7, FIRST)
        result.put(300, SECOND)
        result.put(8, FIRST, schemaType="PROTOBUF")
        result.put(9, NAMING, references=[reference("point"), reference("line")])
        result.put_version("line", 1, LINE, references=[reference("point")])
        result.put_version("point", 1, POINT)
        yield result


def requests_to(registry: Registry, **more: str) -> dict[str, str]:
    return {"url": registry.url, "user_info": registry.login, **more}


def test_messages_of_several_schemas_keep_their_order(registry: Registry) -> None:
    def headed(number: int, *values: bytes) -> list[bytes]:
        return [b"\0" + number.to_bytes(4, "big") + value for value in values]

    old = headed(7, *encode(FIRST, *({"k": i, "v": 10 * i} for i in range(3))))
    new = headed(300, *encode(SECOND, {"k": 7, "v": 1.5}, {"k": 8, "v": None}))
    how = decoding(columns(k="int", v="double"), registry=requests_to(registry))
    result = decode_avro([old[0], new[0], None, old[1], new[1], old[2]], how)
    assert result[0].to_pylist() == [0, 7, None, 1, 8, 2]
    assert result[1].to_pylist() == [0.0, 1.5, None, 10.0, None, 20.0]
    decode_avro([*old, *new], how)
    assert registry.n_asked == 2, "a schema is asked for once"


def test_a_schema_may_name_types_of_other_subjects(registry: Registry) -> None:
    whole = [POINT, LINE, NAMING]
    assert [*map(json.loads, schema_texts(requests_to(registry), 9))] == whole
    named: dict[str, object] = {}
    for item in whole:
        parsed = fastavro.parse_schema(item, named)
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, parsed, {"p": {"x": 3}, "l": {"start": {"x": 4}}})
    point = struct("x", "long")
    how = decoding(columns(p=point, l=struct("start", point)), registry=requests_to(registry))
    result = decode_avro([b"\0\0\0\0\x09" + stream.getvalue()], how)
    assert [array.to_pylist() for array in result] == [[{"x": 3}], [{"start": {"x": 4}}]]


def struct(name: str, type_: object) -> dict[str, object]:
    fields = [{"name": name, "type": type_, "nullable": True, "metadata": {}}]
    return {"type": "struct", "fields": fields}


def test_a_message_without_a_value_has_no_schema_id(registry: Registry) -> None:
    how = decoding(columns(k="int"), registry=requests_to(registry))
    with pytest.raises(ExecutionError, match="has no schema 4294967295"):
        decode_avro([None, b"\0\xff\xff\xff\xff\x02"], how)


def test_messages_of_a_topic_are_read_for_spark_and_for_windows(
    registry: Registry, broker: Broker
) -> None:
    head = b"\0" + (7).to_bytes(4, "big")
    values = [head + item for item in encode(FIRST, {"k": 1, "v": 2}, {"k": 3, "v": 4})]
    broker.send("avro-read", [*values, None, b"\0\0"], 2)
    reading = Reading(
        "t",
        {"bootstrap.servers": broker.address, "group.id": "x"},
        ("avro-read",),
        columns=("offset", "value"),
        decoding=decoding(columns(k="int", v="bigint"), registry=requests_to(registry)),
        for_errors=("value",),
    )
    reading = Reading.of(reading.text())
    client = Client(reading.config)
    (result,) = read_range(client, reading, Range("avro-read", 2, 0, 3))
    client.kafka.close()
    assert result.to_pylist() == [
        {"offset": 0, "value": None, "field_0": 1, "field_1": 2},
        {"offset": 1, "value": None, "field_0": 3, "field_1": 4},
        {"offset": 2, "value": None, "field_0": None, "field_1": None},
    ]
    windows = replace(reading, wanted=(("v", 1), ("part", "partition")))
    (rows,) = read_table(windows, [Range("avro-read", 2, 1, 3)])
    assert rows.to_pylist() == [{"v": 4, "part": 2}, {"v": None, "part": 2}]
    with pytest.raises(ExecutionError) as caught:
        list(read_table(windows, [Range("avro-read", 2, 0, 4)]))
    assert caught.value.message == (
        "table `t`: topic 'avro-read', partition 2, offset 3: the message cannot be read as Avro: "
        "it does not start with a zero byte and a schema id"
    )


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("number", "more", "message"),
    [
        (5, {}, "has no schema 5: Schema 5 not found"),
        (7, {"user_info": "reader:wrong"}, "rejected the login: 401 Unauthorized"),
        (8, {}, "schema 8 of the registry is of type PROTOBUF"),
    ],
    ids=["id", "login", "kind"],
)
def test_errors_of_the_registry_are_one_line(
    registry: Registry, number: int, more: dict[str, str], message: str
) -> None:
    with pytest.raises(ExecutionError) as caught:
        schema_texts(requests_to(registry, **more), number)
    assert message in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.long
def test_a_registry_that_does_not_answer_is_named() -> None:
    with pytest.raises(
        ExecutionError, match=r"at http://127\.0\.0\.1:1 is not reachable: .*refused"
    ):
        schema_texts({"url": "http://127.0.0.1:1"}, 7)


@pytest.mark.long
def test_a_failing_registry_gets_four_requests(registry: Registry) -> None:
    registry.n_failures = 1_000
    with pytest.raises(ExecutionError, match="rejected the request for schema 7: 503"):
        schema_texts(requests_to(registry), 7)
    assert registry.n_failures == 996


def test_a_token_is_sent_and_another_login_is_not(registry: Registry) -> None:
    with pytest.raises(ExecutionError, match="rejected the login: 401"):
        schema_texts({"url": registry.url, "token": "mine"}, 7)
    assert registry.authorizations == ["Bearer mine"]
    # login options take precedence over a login in the URL
    wrong = registry.url.replace("://", "://reader:wrong@")
    assert schema_texts({"url": wrong, "user_info": registry.login}, 7)
    with pytest.raises(ExecutionError) as caught:
        schema_texts({"url": wrong}, 7)
    assert "wrong" not in caught.value.message


def test_a_registry_without_a_leader_is_asked_again(registry: Registry) -> None:
    registry.n_failures = 2
    url = registry.url.replace("://", "://reader:secret-of-mine@")
    assert '"row"' in schema_texts({"url": url}, 7)[-1]


def test_options_are_flinks() -> None:
    options = {
        "value__format": "avro-confluent",
        "format": "",
        "value__avro-confluent__url": "https://h:8081",
        "value__avro-confluent__basic-auth__user-info": "me:pw",
        "value__avro-confluent__ssl__truststore__location": "/ca.pem",
    }
    assert registry_of(kafka(**options)) == {
        "url": "https://h:8081", "user_info": "me:pw", "ca": "/ca.pem",
    }  # fmt: skip
    options["value__avro-confluent__ssl__truststore__location"] = "/ca.jks"
    with pytest.raises(CatalogError, match="is a key store that only Java can read"):
        registry_of(kafka(**options))
    with pytest.raises(CatalogError, match=r"option 'avro-confluent\.url' is missing"):
        registry_of(kafka(format="avro-confluent"))


@pytest.mark.long
def test_a_trusted_self_signed_registry_is_accepted(
    tmp_path: Path,
) -> None:
    own = self_signed(tmp_path / "own.pem")
    other = self_signed(tmp_path / "other.pem")
    with serve_registry(Registry("reader:secret"), own) as result:
        result.put(7, FIRST)
        for trusted in ({}, {"ca": str(other)}):
            with pytest.raises(ExecutionError) as caught:
                schema_texts(requests_to(result, **trusted), 7)
            assert caught.value.message.startswith(
                f"the certificate of the schema registry at {result.url} is not trusted: self"
            )
            assert "avro-confluent.ssl.truststore.location" in (caught.value.hint or "")
        assert result.n_asked == 0, "the login is not sent to whom nobody trusts"
        assert '"long"' in schema_texts(requests_to(result, ca=str(own)), 7)[-1]
