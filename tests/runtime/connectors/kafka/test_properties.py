"""Properties of Kafka's Java client, translated to librdkafka's names."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import Consumer, Producer

from runtime.connectors.kafka.properties import consumer_config, producer_config
from runtime.connectors.registry import open_table
from runtime.errors import CatalogError
from runtime.spec.table import TableColumn, TableSpec

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def kafka(**properties: str) -> TableSpec:
    named = {"bootstrap.servers": "host:9092", **properties}
    options = {"topic": "t", "format": "json"}
    options |= {f"properties.{name}": value for name, value in named.items()}
    return TableSpec("t", "kafka", (TableColumn("a", "INT"),), tuple(options.items()))


def consumer_settings(**properties: str) -> dict[str, str]:
    """Return the consumer configuration in addition to its constant part."""
    always = consumer_config(kafka())
    result = consumer_config(kafka(**properties))
    # librdkafka accepts them all
    Consumer(result).close()
    return {name: value for name, value in result.items() if always.get(name) != value}


def test_user_and_password_are_read_from_the_login_module() -> None:
    config = f'{SCRAM} required username="reader" password="a\\"b;c";'
    result = consumer_settings(**{
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": config,
    })  # fmt: skip
    assert result == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "reader",
        "sasl.password": 'a"b;c',
    }


def test_names_of_stores_and_properties_are_translated() -> None:
    assert consumer_config(
        kafka(
            **{
                "ssl.truststore.location": "/ca.pem",
                "ssl.truststore.password": "unused",
                "ssl.keystore.location": "/me.p12",
                "ssl.keystore.password": "p",
                "ssl.endpoint.identification.algorithm": "",
                "fetch.max.wait.ms": "7",
                "key.deserializer": "a.Class",
            }
        )
    ).items() >= {
        "ssl.ca.location": "/ca.pem",
        "ssl.keystore.location": "/me.p12",
        "ssl.keystore.password": "p",
        "ssl.endpoint.identification.algorithm": "none",
        "fetch.wait.max.ms": "7",
    }.items()  # fmt: skip


def test_a_producer_is_idempotent_unless_it_does_not_wait_for_all() -> None:
    result = producer_config(kafka(**{"buffer.memory": "2048000", "group.id": "g"}))
    assert result["enable.idempotence"] == "true"
    assert result["queue.buffering.max.kbytes"] == "2000"
    assert "group.id" not in result
    Producer(result)
    assert "enable.idempotence" not in producer_config(kafka(acks="1"))


@pytest.mark.parametrize(
    ("property_", "value", "message"),
    [
        (
            "interceptor.classes",
            "a.B",
            "'properties.interceptor.classes' is supported by the Java client",
        ),
        ("ssl.truststore.location", "/ca.jks", "a store of type JKS, which only Java can read"),
        ("ssl.keystore.location", "/me.jks", "a store of type JKS, which only Java can read"),
        ("sasl.jaas.config", "nonsense", "'properties.sasl.jaas.config' cannot be parsed"),
        ("sasl.jaas.config", f'{PLAIN} required serviceName="x";', "sets serviceName"),
    ],
)
def test_properties_without_an_equivalent_are_refused(
    property_: str, value: str, message: str
) -> None:
    with pytest.raises(CatalogError, match=message):
        open_table(kafka(**{property_: value})).check()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("groupIdPrefix", "x", "unknown option 'groupIdPrefix'"),
        ("maxOffsetsPerTrigger", "none", "invalid value 'none' for option 'maxOffsetsPerTrigger'"),
        ("failOnDataLoss", "no", "invalid value 'no' for option 'failOnDataLoss'"),
    ],
)
def test_options_named_as_spark_s_are_checked(option: str, value: str, message: str) -> None:
    spec = kafka()
    with pytest.raises(CatalogError, match=message):
        open_table(replace(spec, options=(*spec.options, (option, value)))).check()
