"""Read a table's Avro options: the schema of its messages and the registry."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructType

from runtime.connectors.avro.decoding import (
    AVRO,
    CONFLUENT,
    AvroDecoding,
    decoding,
    schema_of,
)
from runtime.options.checks import bad_option, missing_option, option_values, wrong_value
from runtime.spec.table import TableSpec

AVRO_FORMATS = (AVRO, CONFLUENT)
_PREFIX = f"{CONFLUENT}."
_STORES = ("ssl.truststore.location", "ssl.keystore.location")
_PEM = (".pem", ".crt", ".cer", ".key")


def avro_decoding(spec: TableSpec, columns: StructType, file_format: str) -> AvroDecoding:
    """Return the decoding of a table's messages into its columns.

    Raises:
        CatalogError: An option is wrong.
    """
    if file_format == CONFLUENT:
        return decoding(columns, registry=registry_of(spec))
    return decoding(columns, avro_schema(spec, columns))


def avro_schema(spec: TableSpec, columns: StructType) -> str:
    """Return the message schema: the option `avro.schema`, or else Flink's schema for the columns.

    Raises:
        CatalogError: The type of a column has no equivalent in Avro.
    """
    if declared := option_values(spec).get("avro.schema"):
        return declared
    try:
        return schema_of(columns)
    except ValueError as error:
        raise bad_option(
            spec,
            str(error),
            "use 'avro.schema' for the schema of the messages",
            subjects=("'avro'",),
        ) from error


def registry_of(spec: TableSpec) -> Mapping[str, str]:
    """Return address and credentials of the registry, see `registry.schema_texts`.

    Raises:
        CatalogError: An option is missing or needs Java.
    """
    bare = {name.removeprefix("value."): value for name, value in option_values(spec).items()}
    values = {n.removeprefix(_PREFIX): value for n, value in bare.items() if n.startswith(_PREFIX)}
    if "url" not in values:
        hint = "it must be the URL of the schema registry, such as http://localhost:8081"
        raise missing_option(spec, f"{_PREFIX}url", hint)
    source = values.get("basic-auth.credentials-source", "USER_INFO").upper()
    if source not in ("URL", "USER_INFO"):
        name = f"{_PREFIX}basic-auth.credentials-source"
        raise wrong_value(spec, name, source, "it must be URL or USER_INFO")
    for store in _STORES:
        if store in values and not values[store].lower().endswith(_PEM):
            raise bad_option(
                spec,
                f"option '{_PREFIX}{store}' is a key store that only Java can read",
                "use a PEM file: name.pem",
            )
    names = {
        "url": "url",
        "basic-auth.user-info": "user_info",
        "bearer-auth.token": "token",
        "ssl.truststore.location": "ca",
        "ssl.keystore.location": "certificate",
        "ssl.keystore.password": "key_password",
    }
    return {ours: values[name] for name, ours in names.items() if name in values}
