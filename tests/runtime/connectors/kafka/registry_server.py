"""A schema registry of this process, over HTTP."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Registry:
    """Schemas by their ids, for those who say the right name and password.

    Args:
        login: name:password; empty: anybody may ask.
    """

    def __init__(self, login: str = "") -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.login = login
        self.n_asked = 0
        # so often it answers first that it cannot
        self.n_failures = 0
        self.url = ""

    def put(self, number: int, schema: Any, **more: Any) -> None:
        self.schemas[number] = {"schema": json.dumps(schema), **more}

    def answer(self, path: str, authorization: str) -> tuple[int, dict[str, Any]]:
        self.n_asked += 1
        wanted = "Basic " + base64.b64encode(self.login.encode()).decode()
        if self.login and authorization != wanted:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        if self.n_failures:
            self.n_failures -= 1
            return 503, {"error_code": 50003, "message": "no leader"}
        number = int(path.removeprefix("/schemas/ids/"))
        if number not in self.schemas:
            return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
        return 200, self.schemas[number]


@contextmanager
def served(registry: Registry) -> Iterator[Registry]:
    """Serve a registry in this context; its `url` says where."""

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
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield registry
        server.shutdown()
