"""A server in a thread of the test process."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from sqlwin.server.client import ServedSession
from sqlwin.server.server import Address, serve

PASSWORD = "secret '\\ word"
# Debian's package libpostgresql-jdbc-java, which .ci/run installs
_DRIVER = Path("/usr/share/java/postgresql.jar")


def run_with_jdbc(program: str, port: int) -> str:
    """Run a Java program of this folder with PostgreSQL's driver, and return its output.

    Skips the test where the driver or a JDK, which compiles the program, is not installed.
    """
    if shutil.which("javac") is None or not _DRIVER.exists():
        pytest.skip("the program needs a JDK and PostgreSQL's JDBC driver")
    source = Path(__file__).parent / program
    command = ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", str(_DRIVER), str(source)]
    url = f"jdbc:postgresql://127.0.0.1:{port}/any"
    # Java reports options of this variable
    env = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}
    done = subprocess.run(
        [*command, url, "anyone", PASSWORD], capture_output=True, text=True, check=False, env=env
    )
    assert done.stderr == ""
    return done.stdout


@contextmanager
def serving(served: ServedSession, address: Address | None = None) -> Iterator[int]:
    """Serve a session in the block, and yield the port.

    Raises:
        BaseException: The server has failed, or has not ended its tasks.
    """
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    ports: list[int] = []
    failures: list[BaseException] = []

    def started(port: int) -> None:
        ports.append(port)
        ready.set()

    def run() -> None:
        try:
            where = address or Address(password=PASSWORD)
            loop.run_until_complete(serve(served, replace(where, port=0), started, stop))
        except BaseException as error:
            failures.append(error)
        finally:
            pending = asyncio.all_tasks(loop)
            if pending:
                failures.append(AssertionError(f"the server has left tasks: {pending}"))
            ready.set()
            loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait()
    if failures:
        thread.join()
        raise failures[0]
    try:
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
    if failures:
        raise failures[0]
