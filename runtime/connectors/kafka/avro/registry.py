"""Schemas of a schema registry, over HTTP, as Confluent's is asked and others answer too.

Of its interface are used `GET /schemas/ids/ID`, and `POST /subjects/SUBJECT/versions`.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from urllib.parse import quote, urlsplit, urlunsplit

from runtime.errors import ExecutionError
from runtime.redaction import DEFAULT

_TIMEOUT_SECONDS = 5.0
_TRY_SECONDS = 4.0
_JSON = "application/vnd.schemaregistry.v1+json"
_UNKNOWN, _REFUSED, _SERVER = 404, (401, 403), 500
# Schemas never change: of each registry, and login, those that were asked for, by their ids
_known: dict[tuple[tuple[tuple[str, str], ...], int], str] = {}

Registry = Mapping[str, str]


def schema_text(registry: Registry, number: int) -> str:
    """The schema with an id, as JSON.

    Args:
        registry: `url` (several with commas between them), and of `user_info` (name:password),
            `token`, `ca`, `certificate`, `key_password` those that there are.
        number: the id.

    Raises:
        ExecutionError: there is none, or no answer within seconds.
    """
    key = (tuple(sorted(registry.items())), number)
    if key not in _known:
        answer = _asked(registry, f"/schemas/ids/{number}", f"schema {number}")
        kind = answer.get("schemaType", "AVRO")
        if kind != "AVRO":
            raise ExecutionError(
                f"schema {number} of the registry is of type {kind}, and format 'avro-confluent' "
                "reads AVRO"
            )
        if answer.get("references"):
            raise ExecutionError(
                f"schema {number} of the registry refers to other subjects, which is not read",
                hint="register it with what it refers to in it",
            )
        _known[key] = str(answer["schema"])
    return _known[key]


def register(registry: Registry, subject: str, schema: str) -> int:
    """The id that a schema has under a subject, where it is put if it is not there.

    Raises:
        ExecutionError: the registry does not take it, or does not answer.
    """
    body = json.dumps({"schema": schema}).encode()
    path = f"/subjects/{quote(subject, safe='')}/versions"
    return int(str(_asked(registry, path, f"a schema of subject '{subject}'", body)["id"]))


def _asked(
    registry: Registry, path: str, what: str, body: bytes | None = None
) -> dict[str, object]:
    """What the registry answers to a request."""
    urls = [url.strip().rstrip("/") for url in registry["url"].split(",") if url.strip()]
    until = time.monotonic() + _TRY_SECONDS
    why = ""
    while True:
        for url in urls:
            try:
                return _answer(registry, url + path, body)
            except urllib.error.HTTPError as error:
                said = _said(error)
                if error.code in _REFUSED:
                    raise ExecutionError(
                        f"the schema registry at {DEFAULT.text(url)} does not take the login: "
                        f"{error.code} {said}",
                        hint="'avro-confluent.basic-auth.user-info' or "
                        "'avro-confluent.bearer-auth.token' says them",
                    ) from error
                if error.code < _SERVER:
                    verb = "has no" if error.code == _UNKNOWN else "refuses"
                    raise ExecutionError(
                        f"the schema registry at {DEFAULT.text(url)} {verb} {what}: {said}",
                        hint="'avro-confluent.url' says which registry it is"
                        if error.code == _UNKNOWN
                        else None,
                    ) from error
                why = f"{error.code} {said}"
            except (urllib.error.URLError, OSError, ValueError) as error:
                reason = getattr(error, "reason", error)
                if isinstance(reason, ssl.SSLCertVerificationError):
                    raise ExecutionError(
                        f"the certificate of the schema registry at {DEFAULT.text(url)} is not "
                        f"trusted: {reason.verify_message}",
                        hint="'avro-confluent.ssl.truststore.location' names a PEM file with "
                        "what is trusted",
                    ) from error
                why = str(reason)
        if time.monotonic() > until:
            break
        time.sleep(0.3)
    raise ExecutionError(
        f"the schema registry at {DEFAULT.text(', '.join(urls))} does not answer: {why}",
        hint="'avro-confluent.url' says where it is, and 'avro-confluent.ssl.*' how to trust it",
    )


def _answer(registry: Registry, url: str, body: bytes | None) -> dict[str, object]:
    parts = urlsplit(url)
    user_info = registry.get("user_info", "")
    if parts.username is not None:
        user_info = user_info or f"{parts.username}:{parts.password or ''}"
        url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    headers = {"Accept": _JSON}
    if body is not None:
        headers["Content-Type"] = _JSON
    if user_info:
        headers["Authorization"] = "Basic " + base64.b64encode(user_info.encode()).decode()
    elif token := registry.get("token"):
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, body, headers)
    context = _context(registry) if parts.scheme == "https" else None
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS, context=context) as response:
        answer = json.load(response)
    if not isinstance(answer, dict):
        raise ValueError("its answer is no object of JSON")
    return answer


def _context(registry: Registry) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=registry.get("ca"))
    if certificate := registry.get("certificate"):
        context.load_cert_chain(certificate, password=registry.get("key_password"))
    return context


def _said(error: urllib.error.HTTPError) -> str:
    """What a registry says of an error."""
    try:
        return str(json.load(error)["message"])
    except (ValueError, KeyError, TypeError, OSError):
        return str(error.reason)
