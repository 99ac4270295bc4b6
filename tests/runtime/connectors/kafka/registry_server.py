"""A schema registry in this process, over HTTP."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.http_servers import serving


class Registry:
    """Schemas by id, for clients with the right name and password.

    Args:
        login: `name:password`; empty: no login is needed.
    """

    def __init__(self, login: str = "") -> None:
        self.schemas: dict[str, dict[str, Any]] = {}
        self.authorizations: list[str] = []
        self.login = login
        self.n_asked = 0
        # number of requests that it first answers with an error
        self.n_failures = 0
        self.url = ""

    def put(self, number: int, schema: Any, **more: Any) -> None:
        self.schemas[f"/schemas/ids/{number}"] = {"schema": json.dumps(schema), **more}

    def put_version(self, subject: str, version: int, schema: Any, **more: Any) -> None:
        path = f"/subjects/{subject}/versions/{version}"
        entry = {"subject": subject, "version": version, "id": 100 + len(self.schemas)}
        self.schemas[path] = {"schema": json.dumps(schema), **entry, **more}

    def answer(self, path: str, authorization: str) -> tuple[int, dict[str, Any]]:
        self.n_asked += 1
        self.authorizations.append(authorization)
        expected = "Basic " + base64.b64encode(self.login.encode()).decode()
        if self.login and authorization != expected:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        if self.n_failures:
            self.n_failures -= 1
            return 503, {"error_code": 50003, "message": "no leader"}
        path = path.partition("?")[0]
        if path not in self.schemas:
            name = path.rpartition("/")[2]
            return 404, {"error_code": 40403, "message": f"Schema {name} not found"}
        return 200, self.schemas[path]


@contextmanager
def serve_registry(registry: Registry, certificate: Path | None = None) -> Iterator[Registry]:
    """Serve a registry in this context; its `url` is the address.

    Args:
        registry: Registry.
        certificate: PEM file with a certificate and its key, for HTTPS.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, answer = registry.answer(self.path, self.headers.get("Authorization", ""))
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        registry.url = f"http://127.0.0.1:{server.server_port}"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            registry.url = registry.url.replace("http:", "https:")
        with serving(server):
            yield registry


def self_signed(path: Path, address: str = "127.0.0.1") -> Path:
    """Write a PEM file with a self-signed certificate for an address, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "registry of tests")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    form = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    secret = key.private_bytes(form, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(builder.public_bytes(form) + secret)
    return path
