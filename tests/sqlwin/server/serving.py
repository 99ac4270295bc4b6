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
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import sqlwin
from runtime.errors import QueryCancelled
from sqlwin.server.client import ServedSession
from sqlwin.server.server import Address, serve
from tests.sqlwin.dbapi.conftest import FLIGHTS
from tests.unstarted import unstarted_spark

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


def served_session(*, can_write: bool = False) -> ServedSession:
    session = sqlwin.connect(unstarted_spark(), settings={"sqlwin.double-quotes": "identifier"})
    session.execute(
        f"CREATE TABLE flights WITH ('connector' = 'filesystem', 'path' = '{FLIGHTS}');"
        "CREATE VIEW late AS SELECT origin, dep_delay FROM flights WHERE dep_delay > 600;"
    )
    return ServedSession(session, can_write=can_write, double_quotes="identifier")


def connect(port: int, **options: Any) -> Any:
    settings = {"user": "anyone", "password": PASSWORD, "dbname": "any", "autocommit": True}
    return psycopg.connect(host="127.0.0.1", port=port, **{**settings, **options})


def psql(port: int, *commands: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    program = shutil.which("psql")
    if program is None:
        pytest.skip("needs psql, which the Debian package postgresql-client has; CI installs it")
    arguments = [argument for command in commands for argument in ("-c", command)]
    connection = ["-h", "127.0.0.1", "-p", str(port), "-U", "anyone", "-d", "any"]
    return subprocess.run(
        [program, "-X", "-At", *connection, *arguments],
        env={**os.environ, "PGPASSWORD": PASSWORD},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


class Blocked:
    """Makes the statements of a session wait."""

    def __init__(self, served: ServedSession, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.released = threading.Event(), threading.Event()
        run_script = served.control.run_script

        def waiting(script: Any, *args: Any, **options: Any) -> Any:
            if "'wait'" in script.text:
                self.begun.set()
                self.released.wait()
                raise QueryCancelled("the query was cancelled")
            return run_script(script, *args, **options)

        monkeypatch.setattr(served.control, "run_script", waiting)


def certificate_files(directory: Path) -> tuple[Path, Path]:
    """Return a self-signed certificate for this machine and its key."""
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    files = directory / "cert.pem", directory / "key.pem"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files
