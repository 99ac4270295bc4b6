"""Local server of the web page: read-only and protected by a token.

It listens on 127.0.0.1. Every request needs the token of the page's address, in `?token=` or as
`Authorization: Bearer`. Requests with a foreign Host are refused, since a web page could otherwise
reach the server through a domain name that resolves to this machine (DNS rebinding). All requests
are GET requests that change nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.resources import files
from urllib.parse import quote

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from runtime.errors import MissingPackageError, SetupError, packages_of
from runtime.logs import append_once
from runtime.redaction import DEFAULT
from sqlwin.control import SessionControl
from sqlwin.display.plan_page import fill_template, plan_page
from sqlwin.page import Page
from sqlwin.session import Session
from sqlwin.ui.model import ActivitySnapshot, to_json
from sqlwin.ui.snapshot import Watched, plan_of, session_to_watch, snapshot

with packages_of("ui", "the monitoring page"):
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import HTTPConnection, Request
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Receive, Scope, Send

HOST = "127.0.0.1"
DEFAULT_PORT = 4050
# Names of this machine, on any forwarded port
_OWN_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
# Requests within this time get the same snapshot
_FRESH_SECONDS = 0.4
# At the end, wait at most this long for a page whose last request is at most this old
_WATCHED_SECONDS = 3.0
_LAST_LOOK_SECONDS = 2.5
_START_SECONDS = 10.0
# Variable with a fixed token instead of a random one, for Prometheus' configuration file
TOKEN_VARIABLE = "SQLWIN_UI_TOKEN"
# The page may load only its own parts and talk only to its own server
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Watchers:
    """Sessions shown by a server, with their last snapshot."""

    def __init__(self, sessions: Sequence[Watched] = ()) -> None:
        self.sessions = list(sessions)
        self._lock = threading.Lock()
        self._last: ActivitySnapshot | None = None
        self._asked = 0.0
        self._end_was_seen = threading.Event()
        self._is_over = False

    def add(self, session: Watched) -> None:
        """Add a session, unless it is shown already."""
        if self.find(session.activity.session) is None:
            self.sessions.append(session)
            self._last = None

    def remove(self, session: int) -> None:
        """Stop showing the session with a number."""
        if not self._is_over:
            self._last = None
        self.sessions = [e for e in self.sessions if e.activity.session != session]

    def find(self, session: int) -> Watched | None:
        """Return the session with a number, or None."""
        return next((e for e in self.sessions if e.activity.session == session), None)

    def look(self) -> ActivitySnapshot:
        """Return a recent snapshot for a page."""
        self._asked = time.monotonic()
        latest = self.snapshot()
        if latest.is_over:
            self._end_was_seen.set()
        return latest

    def snapshot(self, *, watches: bool = True) -> ActivitySnapshot:
        """Return a recent snapshot. If Spark is gone, return the last one.

        Args:
            watches: Whether a page currently displays rows.
        """
        with self._lock:
            last = self._last
            if last is not None and (
                last.is_over or (time.time() - last.at < _FRESH_SECONDS and not self._is_over)
            ):
                return last
            try:
                latest = snapshot(self.sessions, watches=watches)
            except (PySparkException, Py4JError, OSError):
                # Spark has ended, or is about to
                if last is None:
                    last = ActivitySnapshot(time.time(), (), (), ())
                latest = replace(last, is_over=True)
            self._last = replace(latest, is_over=latest.is_over or self._is_over)
            return self._last

    def end(self) -> None:
        """Mark everything as over, and let an open page fetch the last snapshot."""
        self._is_over = True
        if time.monotonic() - self._asked < _WATCHED_SECONDS:
            self._end_was_seen.wait(_LAST_LOOK_SECONDS)


# -- the application -------------------------------------------------------------------------------


def application(watchers: Watchers, token: str) -> ASGIApp:
    """Return the application of a server.

    Args:
        watchers: Sessions to show.
        token: Token that requests need.
    """

    async def page(request: Request) -> Response:
        return HTMLResponse(live_page(), headers=_HEADERS)

    async def state(request: Request) -> Response:
        latest = await run_in_threadpool(watchers.look)
        return JSONResponse(to_json(latest), headers=_HEADERS)

    async def metrics(request: Request) -> Response:
        try:
            with packages_of("metrics", "/metrics"):
                from sqlwin.ui.metrics import metrics_text
        except MissingPackageError as error:
            return _plain_text(str(error), 501)
        latest = await run_in_threadpool(watchers.snapshot, watches=False)
        return Response(
            metrics_text(latest),
            media_type="text/plain; version=0.0.4; charset=utf-8",
            headers=_HEADERS,
        )

    async def plan(request: Request) -> Response:
        number = int(request.path_params["number"])
        session = watchers.find(int(request.path_params["session"]))
        document = None
        try:
            if session is not None:
                document = await run_in_threadpool(plan_of, session, number)
        except (PySparkException, Py4JError, OSError):
            return _plain_text("the plan is not available: Spark has stopped", 410)
        if document is None:
            return _plain_text("the statement has no plan, or the plan was discarded", 404)
        return HTMLResponse(plan_page(document), headers=_HEADERS)

    routes = [
        Route("/", page),
        Route("/api/state", state),
        Route("/plan/{session:int}.{number:int}", plan),
        Route("/metrics", metrics),
    ]
    return _Guard(Starlette(routes=routes, exception_handlers={Exception: _failed}), token)


async def _failed(request: Request, error: Exception) -> Response:
    """Return the response for an unexpected error, and add it to the log."""
    message = DEFAULT.text(f"{type(error).__name__}: {error}")
    append_once("the monitoring page failed", message)
    return _plain_text(f"internal error: {message}", 500)


class _Guard:
    """Middleware that accepts only requests with the token, addressed to this machine."""

    def __init__(self, inner: ASGIApp, token: str) -> None:
        self._inner = inner
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # startup and shutdown of the server are not requests
        if scope["type"] != "lifespan":
            refusal = self._refusal(HTTPConnection(scope))
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        await self._inner(scope, receive, send)

    def _refusal(self, request: HTTPConnection) -> Response | None:
        if not is_this_machine(request.headers.get("host", "")):
            return _plain_text("this page is served only to 127.0.0.1 and localhost", 421)
        kind, _, bearer = request.headers.get("authorization", "").partition(" ")
        token = (
            bearer.strip() if kind.lower() == "bearer" else request.query_params.get("token", "")
        )
        if not secrets.compare_digest(token.encode(), self._token.encode()):
            return _plain_text(
                "the token is missing or wrong: open the address that sqlwin printed, "
                "including ?token=...",
                403,
            )
        return None


def is_this_machine(host: str) -> bool:
    """Return whether the Host of a request is this machine, on any port."""
    return re.sub(r":\d+$", "", host.strip().lower()) in _OWN_NAMES


def _plain_text(text: str, status: int) -> Response:
    return PlainTextResponse(f"{text}\n", status_code=status, headers=_HEADERS)


def live_page() -> str:
    """Return the page with its style and script inlined."""
    page_files, shared = files("sqlwin.ui") / "page", files("sqlwin.display") / "page"
    parts = {
        "/*style*/": (shared / "style.css", page_files / "live.css"),
        "/*script*/": (shared / "shared.js", page_files / "charts.js", page_files / "live.js"),
    }
    contents = {mark: "".join(p.read_text("utf-8") for p in paths) for mark, paths in parts.items()}
    return fill_template((page_files / "live.html").read_text("utf-8"), contents)


# -- the server ------------------------------------------------------------------------------------


def serve_session(session: Session, port: int | None) -> Page:
    """Serve the page of a session, which starts Spark. For the rest see `serve`."""
    SessionControl(session).start_spark()
    return serve(session_to_watch(session), port)


def serve(session: Watched, port: int | None = None) -> Page:
    """Serve the page of a session. Sessions of a process share a server if their ports allow it.

    Any process with sessions can do so: a program, the command line, the prompt.

    Args:
        session: Session to show.
        port: Port to listen on, 0 for any free one. None: the port of the running server, else
            4050, else a free one.

    Raises:
        SetupError: Another program uses the port, or it is not permitted.
    """
    with _servers_lock:
        session_activity = session.activity.session
        servers = [
            candidate for candidate in _servers.values() if port is None or candidate.port == port
        ]
        # prefer the server that shows the session already
        running = next(
            iter(
                sorted(
                    servers, key=lambda candidate: candidate.watchers.find(session_activity) is None
                )
            ),
            None,
        )
        server = running or _Server(_bind(port))
        _servers[server.port] = server
        server.watchers.add(session)
        if running is None:
            server.start()
        token = quote(server.token, safe="")
        address = f"http://{HOST}:{server.port}"
        return Page(
            server.port,
            f"{address}/?token={token}",
            f"{address}/metrics?token={token}",
            partial(server.leave, session_activity),
        )


def _bind(port: int | None) -> socket.socket:
    """Return a socket bound to a port of this machine.

    Raises:
        SetupError: The port is in use or not permitted.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # Reuse the port despite closed connections of a server that has just ended.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if port is None:
        with suppress(OSError):  # it is in use
            listening.bind((HOST, DEFAULT_PORT))
            return listening
    try:
        listening.bind((HOST, port or 0))
    except OSError as error:
        listening.close()
        reason = (error.strerror or str(error)).lower()
        raise SetupError(
            f"cannot serve the page at {HOST}:{port or 0}: {reason}",
            hint="choose another port, or 0 for any free port",
        ) from error
    return listening


class _Server:
    """A server in its own thread, which ends with the process at the latest."""

    def __init__(self, listening: socket.socket) -> None:
        self.port = int(listening.getsockname()[1])
        self.token = os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(24)
        self.watchers = Watchers()
        self._socket = listening
        config = uvicorn.Config(
            application(self.watchers, self.token),
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level=logging.CRITICAL,  # errors are returned to the client
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="sqlwin-ui", daemon=True)

    def start(self) -> None:
        """Start serving."""
        self._thread.start()
        until = time.monotonic() + _START_SECONDS
        while not self._server.started and self._thread.is_alive() and time.monotonic() < until:
            time.sleep(0.01)

    def leave(self, session: int) -> None:
        """Stop showing a session. Without sessions the server ends."""
        with _servers_lock:
            if self.watchers.find(session) is None:
                return
            is_last = len(self.watchers.sessions) == 1
            if is_last:
                _servers.pop(self.port, None)
        if not is_last:
            self.watchers.remove(session)
            return
        self.watchers.end()
        self.watchers.remove(session)
        self._server.should_exit = True
        self._thread.join(_START_SECONDS)

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))


_servers: dict[int, _Server] = {}
_servers_lock = threading.Lock()
