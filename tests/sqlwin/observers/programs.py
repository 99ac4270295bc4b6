"""Programs that follow a session, and collectors that they report to."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

import sqlwin
from sqlwin.execution.activity import StatementListener
from sqlwin.execution.runner import Runner
from tests.goldens import ROOT
from tests.http_servers import serving
from tests.unstarted import unstarted_spark


@contextmanager
def opened_session() -> Iterator[sqlwin.Session]:
    """Yield a session without Spark and without programs that follow it."""
    with sqlwin.connect(unstarted_spark()) as session:
        yield session


def runner_of(session: sqlwin.Session) -> Runner:
    """Return the runner of a session, for the listeners of `follow`."""
    return session._opened_runner


def follow(session: sqlwin.Session, listener: StatementListener) -> None:
    """Let a listener follow the statements that begin from now on."""
    runner_of(session).activity.listeners += (listener,)


@contextmanager
def collector(status: int = 200, path: str = "") -> Iterator[tuple[str, list[bytes]]]:
    """Yield the URL of a collector, and the bodies of the requests that it has received.

    Args:
        status: Status of its answers.
        path: Path of the requests whose bodies are collected. Empty for all.
    """
    bodies: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if path in ("", self.path):
                bodies.append(body)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Collector)
    with serving(server):
        yield f"http://127.0.0.1:{server.server_port}", bodies


@contextmanager
def absent_collector() -> Iterator[str]:
    """Yield the URL of a port without a listener."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{unused.getsockname()[1]}"


def run_command(variables: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `sqlwin run` with environment variables. By default it computes 6 * 7."""
    arguments = arguments or ("-e", "SELECT 6 * 7 AS answer")
    return subprocess.run(
        [sys.executable, "-m", "sqlwin", "run", "--no-engine", *arguments],
        env={**os.environ, **variables},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def set_only(monkeypatch: pytest.MonkeyPatch, prefix: str, variables: Mapping[str, str]) -> None:
    """Set environment variables, and remove the others with a prefix."""
    for name in [name for name in os.environ if name.startswith(prefix)]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
