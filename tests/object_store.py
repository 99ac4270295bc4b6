"""An S3 server in this process, from moto, whose answers can be delayed, wrong or truncated."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.request import Request, urlopen

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

from runtime.scan.stores import Store, filesystem_of
from tests.http_servers import serving
from tests.observing import wait_until
from tests.remote_store import RemoteStore

KEYS = {"access.key": "AKIDOFTESTS", "secret.key": "secret-of-tests"}
REFUSALS = {
    "InvalidAccessKeyId": 403,
    "SignatureDoesNotMatch": 403,
    "ExpiredToken": 400,
    "AccessDenied": 403,
    "PermanentRedirect": 301,
    "InternalError": 500,
    "SlowDown": 503,
}

# Only reached if requests come one after the other; below the timeout of clients
_LONGEST_MEETING_S = 20.0

Environ = dict[str, Any]
# Predicate for requests to answer wrongly: method, path and headers
Which = Callable[[Environ], bool]


def is_read(environ: Environ) -> bool:
    """Return whether a request reads."""
    return environ["REQUEST_METHOD"] in ("GET", "HEAD")


def is_write_of(part: str) -> Which:
    """Return a predicate for requests that write or complete a file with `part` in its path."""
    return lambda environ: (
        environ["REQUEST_METHOD"] in ("PUT", "POST") and part in environ["PATH_INFO"]
    )


def is_of_rows(environ: Environ) -> bool:
    """Return whether a request reads a range of a file."""
    return environ["REQUEST_METHOD"] == "GET" and "HTTP_RANGE" in environ


class _Meeting:
    """Requests that wait for each other."""

    def __init__(self, which: Which, n: int) -> None:
        self.which = which
        self.has_met = threading.Event()
        self._n_missing = n
        self._lock = threading.Lock()

    def wait(self) -> None:
        with self._lock:
            self._n_missing -= 1
            if self._n_missing <= 0:
                self.has_met.set()
        self.has_met.wait(_LONGEST_MEETING_S)
        with self._lock:
            self._n_missing += 1


@dataclass
class ObjectStore(RemoteStore):
    """The server.

    Attributes:
        bucket: The only bucket.
        requests: Method, path and range of the requests so far.
    """

    bucket: str
    port: int = 0
    secret: str = KEYS["secret.key"]
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    _fault: tuple[str, Which, float, int] | None = None
    _meeting: _Meeting | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def endpoint(self) -> str:
        """Address, as in `fs.s3a.endpoint`."""
        return f"http://127.0.0.1:{self.port}"

    def settings(self, **changed: str) -> dict[str, str]:
        """Return Hadoop's settings; `secret_key="x"` changes `fs.s3a.secret.key`."""
        settings = {"endpoint": self.endpoint, "endpoint.region": "us-east-1", **KEYS}
        settings |= {name.replace("_", "."): value for name, value in changed.items()}
        return {f"fs.s3a.{name}": value for name, value in settings.items()}

    def uri(self, path: str = "") -> str:
        """Return a URI in the bucket."""
        return f"s3a://{self.bucket}/{path}".rstrip("/")

    @contextmanager
    def failing(
        self, fault: str, which: Which = is_read, *, seconds: float = 0, times: int = 1_000_000
    ) -> Iterator[None]:
        """Answer some requests wrongly.

        Args:
            fault: One of REFUSALS; `cut`: half of the answer; `slow`: a delayed answer; `lost`: the
                request is executed, and the answer is an error.
            which: Predicate of the requests.
            seconds: Delay.
            times: Maximum number of requests.
        """
        self._fault = (fault, which, seconds, times)
        try:
            yield
        finally:
            self._fault = None

    @contextmanager
    def meeting(self, part: str) -> Iterator[None]:
        """Let two writes wait for each other."""
        with self.holding(is_write_of(part), 2) as has_met:
            yield
        assert has_met.is_set()

    @contextmanager
    def holding(self, which: Which, n: int) -> Iterator[threading.Event]:
        """Hold requests back until `n` of them wait at the same time, then answer all.

        Yields an event that is set if that has happened. Requests that wait for long without it are
        answered.
        """
        self._meeting = _Meeting(which, n)
        try:
            yield self._meeting.has_met
        finally:
            self._meeting = None

    def answer(
        self, app: Callable[..., Iterable[bytes]], environ: Environ, start: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer a request."""
        method = environ["REQUEST_METHOD"]
        meeting = self._meeting
        if meeting is not None and meeting.which(environ):
            meeting.wait()
        with self._lock:
            self.requests.append((method, environ["PATH_INFO"], environ.get("HTTP_RANGE")))
            fault, which, seconds, times = self._fault or ("", is_read, 0.0, 0)
            if not (times and which(environ)):
                return app(environ, start)
            self._fault = (fault, which, seconds, times - 1)
        if fault == "slow":
            time.sleep(seconds)
            return app(environ, start)
        if fault == "cut":
            whole = b"".join(app(environ, start))
            return [whole[: len(whole) // 2]]
        if fault == "lost":
            b"".join(app(environ, lambda *_: None))
            fault = "InternalError"
        text = f"<Error><Code>{fault}</Code><Message>no</Message></Error>"
        body = b"" if method == "HEAD" else text.encode()
        headers = [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
        start(f"{REFUSALS[fault]} {fault}", headers)
        return [body]


@contextmanager
def object_store(
    bucket: str = "lake", handler: type[WSGIRequestHandler] = WSGIRequestHandler
) -> Iterator[ObjectStore]:
    """Start a server with an empty bucket; a handler may answer requests instead of moto."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = DomainDispatcherApplication(create_backend_app)
    result = ObjectStore(bucket)

    def answer(environ: Environ, start: Callable[..., Any]) -> Iterable[bytes]:
        return result.answer(app, environ, start)

    server = make_server("127.0.0.1", 0, answer, threaded=True, request_handler=handler)
    result.port = server.server_port
    with serving(server):
        # moto keeps the buckets of earlier servers in this process in memory
        urlopen(Request(f"{result.endpoint}/moto-api/reset", method="POST")).close()
        _make_bucket(result)
        result.requests.clear()
        yield result


@contextmanager
def store_of_a_process(bucket: str = "lake") -> Iterator[ObjectStore]:
    """Start a server in another process with an empty bucket; it never fails."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        try:
            wait_until(lambda: _is_listening(port) or running.poll() is not None)
            assert running.poll() is None, "no server"
            result = ObjectStore(bucket, port)
            _make_bucket(result)
            yield result
        finally:
            running.terminate()


def _is_listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _make_bucket(actual: ObjectStore) -> None:
    store = actual.store()
    options = dict(store.options, allow_bucket_creation=True)
    made = Store(store.kind, store.root, store.top, tuple(sorted(options.items())))
    filesystem_of(made).create_dir(actual.bucket)
