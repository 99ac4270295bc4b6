"""Get schemas from a schema registry with the client of confluent-kafka.

The client caches schemas by id and retries while a registry does not answer.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from runtime.errors import ExecutionError, kind_in_words
from runtime.installing import install_hint
from runtime.redaction import DEFAULT

# Short timeouts, so that a query fails within seconds if the registry does not respond
_CLIENT_OPTIONS = {
    "timeout": 3,
    "max.retries": 3,
    "retries.wait.ms": 300,
    "retries.max.wait.ms": 1000,
}
_UNKNOWN, _REFUSED = 404, (401, 403)
_SHOWN_CHARACTERS = 200

Registry = Mapping[str, str]


def schema_texts(registry: Registry, number: int) -> tuple[str, ...]:
    """Return the Avro schema with an id as JSON, preceded by the schemas that it refers to.

    Args:
        registry: `url` (or several, comma-separated), and optionally `user_info` (name:password),
            `token`, `ca`, `certificate` and `key_password`.
        number: Schema id.

    Raises:
        ExecutionError: The registry has no such schema, rejects the login, or does not answer
            within seconds.
    """
    client = _client(tuple(sorted(registry.items())))
    schema = _answer(registry, f"schema {number}", lambda: client.get_schema(number))
    if schema.schema_type != "AVRO":
        raise ExecutionError(
            f"schema {number} of the registry is of type {schema.schema_type}; format "
            "'avro-confluent' supports AVRO only"
        )
    texts: dict[tuple[str, int], str] = {}
    _add_references(registry, client, schema, texts)
    return (*texts.values(), schema.schema_str)


def _add_references(
    registry: Registry, client: Any, schema: Any, texts: dict[tuple[str, int], str]
) -> None:
    """Add the schemas that a schema refers to, each after its own references."""
    for reference in schema.references or ():
        key = (reference.subject, reference.version)
        if key in texts:
            continue
        what = f"version {reference.version} of subject '{reference.subject}'"
        version = _answer(registry, what, lambda key=key: client.get_version(*key))
        _add_references(registry, client, version.schema, texts)
        texts[key] = version.schema.schema_str


@lru_cache(maxsize=16)
def _client(registry: tuple[tuple[str, str], ...]) -> Any:
    """Return a client, which caches the schemas it gets.

    Raises:
        ExecutionError: The package is missing or rejects an option.
    """
    options = dict(registry)
    urls = [url.strip() for url in options["url"].split(",") if url.strip()]
    user_info = options.get("user_info")
    config: dict[str, Any] = {**_CLIENT_OPTIONS}
    if user_info:
        # the client accepts only one source of credentials
        urls = [_without_login(url) for url in urls]
        config["basic.auth.user.info"] = user_info
    elif token := options.get("token"):
        config |= {
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": token,
            "bearer.auth.logical.cluster": "",
        }
    config["url"] = ",".join(urls)
    # without a CA file the client trusts certifi's list instead of the machine's certificates
    machine = ssl.get_default_verify_paths()
    if trusted := options.get("ca") or machine.cafile or machine.capath:
        config["ssl.ca.location"] = trusted
    if certificate := options.get("certificate"):
        config["ssl.certificate.location"] = certificate
        if password := options.get("key_password"):
            config["ssl.key.password"] = password
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        return SchemaRegistryClient(config)
    except ImportError as error:
        raise ExecutionError(
            "format 'avro-confluent' requires the package confluent-kafka with the "
            f"extra schemaregistry: {error}",
            hint=install_hint("kafka"),
        ) from error
    except (ValueError, OSError) as error:
        raise ExecutionError(
            f"invalid options 'avro-confluent.*': {DEFAULT.text(str(error))}"
        ) from error


def _without_login(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _answer(registry: Registry, what: str, ask: Any) -> Any:
    """Send a request to the registry and return the response.

    Raises:
        ExecutionError: The registry rejects the request or does not answer.
    """
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    place = f"the schema registry at {DEFAULT.text(registry['url'])}"
    try:
        return ask()
    except SchemaRegistryError as error:
        status = error.http_status_code
        reason = " ".join(str(error.error_message).split())[:_SHOWN_CHARACTERS]
        if status in _REFUSED:
            raise ExecutionError(
                f"{place} rejected the login: {status} {reason}",
                hint="set 'avro-confluent.basic-auth.user-info' or "
                "'avro-confluent.bearer-auth.token'",
            ) from error
        if status == _UNKNOWN:
            hint = "check 'avro-confluent.url'"
            raise ExecutionError(f"{place} has no {what}: {reason}", hint=hint) from error
        raise ExecutionError(
            f"{place} rejected the request for {what}: {status} {reason}"
        ) from error
    # the HTTP library is chosen by confluent-kafka, and its exceptions have no usable base class
    except Exception as error:
        if (untrusted := _certificate_error(error)) is not None:
            raise ExecutionError(
                f"the certificate of {place} is not trusted: {untrusted}",
                hint="set 'avro-confluent.ssl.truststore.location' to a PEM file with the "
                "trusted certificates",
            ) from error
        reason = DEFAULT.text(" ".join(str(error).split()))[:_SHOWN_CHARACTERS]
        raise ExecutionError(
            f"{place} is not reachable: {reason or kind_in_words(error)}",
            hint="check 'avro-confluent.url' and 'avro-confluent.ssl.*'",
        ) from error


def _certificate_error(error: BaseException | None) -> str | None:
    """Return why a certificate is not trusted, if that caused an error, or None."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message
        error = error.__cause__ or error.__context__
    return None
