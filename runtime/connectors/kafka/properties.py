"""Translate properties of Kafka's Java client in Flink's options to librdkafka.

Most names are the same. Known properties without an equivalent are refused here; librdkafka itself
rejects unknown names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from runtime.options.checks import bad_option
from runtime.spec.table import TableSpec

_PREFIX = "properties."
# Same meaning, another name
_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "max.request.size": "message.max.bytes",
    "default.api.timeout.ms": "socket.timeout.ms",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
}
# Set by the connector, or specific to Java without effect on the rows
_LEFT_OUT = frozenset(
    "key.deserializer value.deserializer key.serializer value.serializer enable.auto.commit "
    "auto.commit.interval.ms auto.offset.reset partition.discovery.interval.ms max.poll.records "
    "ssl.truststore.type ssl.keystore.type ssl.protocol ssl.enabled.protocols "
    "ssl.truststore.password security.providers metric.reporters metrics.recording.level "
    "metrics.num.samples metrics.sample.window.ms".split()
)
_ONLY_CONSUMERS = frozenset(
    "group.id group.instance.id isolation.level session.timeout.ms heartbeat.interval.ms "
    "max.poll.interval.ms fetch.min.bytes fetch.max.bytes fetch.wait.max.ms check.crcs "
    "max.partition.fetch.bytes partition.assignment.strategy".split()
)
_ONLY_PRODUCERS = frozenset(
    "acks linger.ms batch.size compression.type delivery.timeout.ms retries enable.idempotence "
    "max.in.flight.requests.per.connection message.max.bytes buffer.memory".split()
)
# Java classes, and settings of the Java client, that librdkafka cannot support
_REFUSED = (
    "interceptor.classes",
    "sasl.login.callback.handler.class",
    "sasl.client.callback.handler.class",
    "sasl.login.class",
    "ssl.engine.factory.class",
    "ssl.provider",
    "ssl.keymanager.algorithm",
    "ssl.trustmanager.algorithm",
    "ssl.secure.random.implementation",
    "partitioner.class",
    "max.block.ms",
    "transactional.id",
)
# The connector that reads Kafka through Spark's package and its Java client
_BY_SPARK = "use connector 'spark' with 'format' = 'kafka', which has the Java client"
_JAAS = re.compile(
    r"\s*(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)\s*(?P<rest>.*?)\s*;?\s*",
    re.DOTALL,
)
_JAAS_OPTION = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")
_JAAS_NAMES: Mapping[str, Mapping[str, str]] = {
    "PlainLoginModule": {"username": "sasl.username", "password": "sasl.password"},
    "ScramLoginModule": {"username": "sasl.username", "password": "sasl.password"},
    "OAuthBearerLoginModule": {
        "clientId": "sasl.oauthbearer.client.id",
        "clientSecret": "sasl.oauthbearer.client.secret",
        "scope": "sasl.oauthbearer.scope",
    },
    "Krb5LoginModule": {"keyTab": "sasl.kerberos.keytab", "principal": "sasl.kerberos.principal"},
}


def consumer_config(spec: TableSpec) -> dict[str, str]:
    """Return the configuration of a librdkafka consumer.

    Raises:
        CatalogError: A property has no equivalent.
    """
    # Java's default: also read uncommitted messages of transactions
    ours = {
        "group.id": "sqlwin",
        "isolation.level": "read_uncommitted",
        # Retry soon after the queue was full.
        "fetch.queue.backoff.ms": "10",
        # The messages to read exist already, so brokers need not wait for more.
        "fetch.wait.max.ms": "20",
        # A task has two consumers, and each prefetches this much.
        "queued.max.messages.kbytes": "32768",
    }
    config = _translate(spec)
    properties = {name: value for name, value in config.items() if name not in _ONLY_PRODUCERS}
    return {**ours, **properties}


def producer_config(spec: TableSpec) -> dict[str, str]:
    """Return the configuration of a librdkafka producer.

    Raises:
        CatalogError: A property has no equivalent.
    """
    config = _translate(spec)
    if (memory := config.pop("buffer.memory", None)) is not None:
        config["queue.buffering.max.kbytes"] = str(max(1, int(memory) // 1024))
    # The partition of a key must be the same as with a Java producer.
    ours = {"partitioner": "murmur2_random", "linger.ms": "20"}
    if config.get("acks", "all") in ("all", "-1"):
        ours["enable.idempotence"] = "true"
    properties = {name: value for name, value in config.items() if name not in _ONLY_CONSUMERS}
    return {**ours, **properties}


def _translate(spec: TableSpec) -> dict[str, str]:
    properties = {
        name[len(_PREFIX) :]: value
        for name, value in spec.options
        if name.lower().startswith(_PREFIX)
    }
    config: dict[str, str] = {}
    for name, value in properties.items():
        if name in _REFUSED:
            raise bad_option(
                spec, f"option '{_PREFIX}{name}' is supported by the Java client only", _BY_SPARK
            )
        if name == "sasl.jaas.config":
            config |= _parse_jaas(spec, value)
        elif name == "ssl.truststore.location":
            config["ssl.ca.location"] = _pem_truststore(spec, properties, value)
        elif name == "ssl.keystore.location":
            config |= _keystore(spec, properties, value)
        elif name == "ssl.keystore.password":
            if _store_type(properties, "keystore") == "PKCS12":
                config[name] = value
        elif name == "ssl.endpoint.identification.algorithm":
            config[name] = value or "none"
        elif name not in _LEFT_OUT:
            config[_RENAMED.get(name, name)] = value
    return config


def _parse_jaas(spec: TableSpec, text: str) -> dict[str, str]:
    """Return the user and password in a Java login module configuration."""
    option = f"{_PREFIX}sasl.jaas.config"
    match = _JAAS.fullmatch(text)
    module = match["module"].rpartition(".")[2] if match else ""
    if match is None or module not in _JAAS_NAMES:
        raise bad_option(
            spec,
            f"option '{option}' cannot be parsed",
            "it must look like 'org.apache.kafka.common.security.plain.PlainLoginModule "
            'required username="..." password="...";\', with one of '
            f"{', '.join(_JAAS_NAMES)}; or set 'properties.sasl.username' and "
            "'properties.sasl.password'",
        )
    names = _JAAS_NAMES[module]
    config = {"sasl.oauthbearer.method": "oidc"} if module == "OAuthBearerLoginModule" else {}
    for entry in _JAAS_OPTION.finditer(match["rest"]):
        value = next(part for part in entry.groups()[1:] if part is not None)
        if entry[1] in names:
            config[names[entry[1]]] = re.sub(r"\\(.)", r"\1", value)
        elif module != "Krb5LoginModule":
            raise bad_option(
                spec,
                f"option '{option}' sets {entry[1]}, which only the Java client supports",
                _BY_SPARK,
            )
    return config


def _store_type(properties: Mapping[str, str], store: str) -> str:
    location = properties.get(f"ssl.{store}.location", "").lower()
    guessed = "PKCS12" if location.endswith((".p12", ".pfx")) else "JKS"
    guessed = "PEM" if location.endswith((".pem", ".crt", ".cer")) else guessed
    return properties.get(f"ssl.{store}.type", guessed).upper()


def _pem_truststore(spec: TableSpec, properties: Mapping[str, str], location: str) -> str:
    if (kind := _store_type(properties, "truststore")) != "PEM":
        raise bad_option(
            spec,
            f"option '{_PREFIX}ssl.truststore.location' is a store of type {kind}, which "
            "only Java can read",
            (
                "export the certificates as a PEM file (keytool -exportcert -rfc) and set "
                "'properties.ssl.truststore.type' = 'PEM'; or "
            )
            + _BY_SPARK,
        )
    return location


def _keystore(spec: TableSpec, properties: Mapping[str, str], location: str) -> dict[str, str]:
    kind = _store_type(properties, "keystore")
    if kind == "PKCS12":
        return {"ssl.keystore.location": location}
    if kind == "PEM":
        return {"ssl.certificate.location": location, "ssl.key.location": location}
    raise bad_option(
        spec,
        f"option '{_PREFIX}ssl.keystore.location' is a store of type {kind}, which only "
        "Java can read",
        (
            "convert it to PKCS12 (keytool -importkeystore -deststoretype PKCS12) and set "
            "'properties.ssl.keystore.type' = 'PKCS12'; or "
        )
        + _BY_SPARK,
    )
