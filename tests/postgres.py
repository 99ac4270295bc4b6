"""A PostgreSQL server of the tests' own, on a socket in a temporary directory."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin", "/opt/homebrew/opt/postgresql*/bin")
# Durability only costs time here
_SETTINGS = "fsync = off\nlisten_addresses = ''\n"


def programs() -> Path | None:
    """Return the directory of PostgreSQL's programs, None if it is not installed."""
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    found = [place for glob in _PLACES for place in sorted(Path("/").glob(glob[1:]))]
    return next((place for place in reversed(found) if (place / "initdb").exists()), None)


def _as_user() -> tuple[list[str], int | None]:
    """Return a command prefix for another user, and its id. PostgreSQL refuses to run as root."""
    if os.getuid():
        return [], None
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        setpriv = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        return setpriv, user.pw_uid
    pytest.skip("PostgreSQL needs a user other than root")


@dataclass
class Server:
    """A running server. Its only user is `tester`, whom the socket needs no password for.

    Attributes:
        directory: Directory of its socket and data.
        bin: Directory of its programs.
        prefix: Command prefix that runs its programs as its user.
        user: Id of that user. None for the user of the tests.
    """

    directory: Path
    bin: Path
    prefix: list[str]
    user: int | None
    n_schemas: int = 0

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database."""
        return f"postgresql:///{database}?host={self.directory}&user=tester"

    def new_schema(self) -> str:
        """Create an empty schema and return a URL for which it is the first of the search path."""
        self.n_schemas += 1
        run(self.url(), f"CREATE SCHEMA s{self.n_schemas}")
        return f"{self.url()}&options=-csearch_path%3Ds{self.n_schemas}"

    def run_alone(self, statement: str) -> None:
        """Run a statement that cannot be in a transaction."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement.encode())

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self._control(
            "start", "-w", "-l", str(self.directory / "log"), "-o", f"-k {self.directory}"
        )

    def stop(self, how: str = "fast") -> None:
        """Stop the server. `immediate` is like a crash."""
        self._control("stop", "-w", "-m", how)

    def _control(self, *command: str) -> None:
        data = str(self.directory / "data")
        subprocess.run(
            [*self.prefix, str(self.bin / "pg_ctl"), "-D", data, *command],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip


@contextmanager
def server() -> Iterator[Server]:
    """Run a server for the block. Skips the test if PostgreSQL is not installed."""
    directory_of_programs = programs()
    if directory_of_programs is None:
        pytest.skip("PostgreSQL is not installed: no initdb")
    prefix, user = _as_user()
    # a socket's path has at most 107 characters
    directory = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    try:
        if user is not None:
            os.chown(directory, user, -1)
        directory.chmod(0o755)
        subprocess.run(
            [*prefix, str(directory_of_programs / "initdb"), "-D", str(directory / "data"),
             "-U", "tester", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
            check=True, stdout=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip
        with (directory / "data/postgresql.conf").open("a") as settings:
            settings.write(_SETTINGS)
        running = Server(directory, directory_of_programs, prefix, user)
        running.start()
        try:
            yield running
        finally:
            running.stop("immediate")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with psycopg.connect(url) as connection:
        return connection.execute(query.encode()).fetchall()


def run(url: str, *statements: str) -> None:
    """Run statements in one transaction."""
    with psycopg.connect(url) as connection:
        for statement in statements:
            connection.execute(statement.encode())
