"""`sqlwin serve`: PostgreSQL's wire protocol."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from runtime.errors import SetupError, packages_of
from sqlwin.console.options import connect, parameter_option, with_spark_options
from sqlwin.console.scripts import Script, read_scripts
from sqlwin.control import SessionControl

_PASSWORD_VARIABLE = "SQLWIN_SERVE_PASSWORD"  # the name, not a password
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@click.command(short_help="Serve tables to psql, Grafana and other programs for PostgreSQL.")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(allow_dash=True))
@click.option("-e", "expressions", multiple=True, metavar="SQL", help="Run this SQL first.")
@parameter_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=5432,
    show_default=True,
    help="Port to listen on; 0: any free one.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address to listen on.",
)
@click.option("--write", is_flag=True, help="Allow INSERT, CREATE, SET and other changes.")
@click.option(
    "--allow-path",
    "readable",
    multiple=True,
    metavar="PATH",
    help="File or directory that clients may read by path, as in FROM 'file.csv'; repeatable. "
    "Default: none, only tables and views. With --write they may read all.",
)
@click.option(
    "--password-file",
    type=click.Path(dir_okay=False),
    metavar="PATH",
    help=f"File with the password in its first line. Default: the variable {_PASSWORD_VARIABLE}, "
    "else a new password, which is printed.",
)
@click.option("--no-password", is_flag=True, help="Accept any client. Only on this machine.")
@click.option(
    "--tls-cert",
    type=click.Path(dir_okay=False),
    metavar="PATH",
    help="TLS certificate (PEM). Clients must then use TLS.",
)
@click.option(
    "--tls-key",
    type=click.Path(dir_okay=False),
    metavar="PATH",
    help="Private key of the certificate, if it is in another file.",
)
@with_spark_options
def serve(
    files: Sequence[str],
    expressions: Sequence[str],
    params: Sequence[tuple[str, str]],
    port: int,
    host: str,
    write: bool,
    readable: Sequence[str],
    password_file: str | None,
    no_password: bool,
    tls_cert: str | None,
    tls_key: str | None,
    **spark: Any,
) -> None:
    """Run the SQL of each FILE or -e, then serve its tables and views until Ctrl-C.

    Programs connect as to PostgreSQL, with any user and database name. They share the session and
    may only read these tables and views, unless --allow-path or --write is given. Streams that the
    SQL starts run meanwhile.

    Needs the extra `server`.

    \b
    Examples:
      sqlwin serve tables.sql
      psql "host=127.0.0.1 user=sqlwin password=... dbname=sqlwin"
    """  # noqa: D301 (click's mark is the character \b itself)
    with packages_of("server", "sqlwin serve"):
        from sqlwin.server.client import ServedSession
        from sqlwin.server.server import Address, serve_until_signal
    if no_password and host not in _LOOPBACK:
        raise click.UsageError(f"--no-password is not allowed with --host {host}")
    if tls_key and not tls_cert:
        raise click.UsageError("--tls-key needs --tls-cert")
    is_new, password = (False, None) if no_password else _password(password_file)
    scripts = read_scripts(files, expressions, params) if files or expressions else []
    with connect(spark, is_shared=True) as session:
        control = SessionControl(session)
        if "sqlwin.double-quotes" not in dict(spark["settings"]):
            session.execute("SET 'sqlwin.double-quotes' = 'identifier'")
        for script in scripts:
            _run(control, script)
        quotes = str(session.execute("SET 'sqlwin.double-quotes'")[0].rows[0][1])
        served = ServedSession(session, can_write=write, double_quotes=quotes, readable=readable)
        address = Address(host, port, password, tls_cert, tls_key)

        def started(bound: int) -> None:
            mode = "read and write" if write else "read-only"
            click.echo(f"serving on {host}:{bound} ({mode}); Ctrl-C stops", err=True)
            tls = " sslmode=require" if tls_cert else ""
            shown = f" password={password}" if is_new else ""
            client = f"host={host} port={bound} user=sqlwin{shown} dbname=sqlwin{tls}"
            click.echo(f'connect with: psql "{client}"', err=True)
            if host not in _LOOPBACK and not tls_cert:
                click.echo(
                    "note: other machines can connect, but without --tls-cert rows are sent "
                    "unencrypted",
                    err=True,
                )

        serve_until_signal(served, address, started)


def _run(control: SessionControl, script: Script) -> None:
    """Run a script and print its messages without computing the rows of queries."""
    for result in control.run_script(script.source, script.file, script.params):
        if result.message:
            click.echo(result.message, err=True)
        for note in result.notes:
            click.echo(f"note: {note}", err=True)


def _password(file: str | None) -> tuple[bool, str]:
    """Return whether a password was generated, and the password.

    Raises:
        SetupError: The file cannot be read, or is empty.
    """
    if file is None:
        password = os.environ.get(_PASSWORD_VARIABLE, "")
        return (False, password) if password else (True, secrets.token_urlsafe(12))
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise SetupError(f"cannot read the password file {file}: {error.strerror}") from error
    password = text.split("\n", 1)[0].rstrip("\r")
    if not password:
        raise SetupError(f"the password file {file} has an empty first line")
    return False, password
