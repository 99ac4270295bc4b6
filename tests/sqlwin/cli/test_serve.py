"""`sqlwin serve` as a command: its options, its password, its end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from sqlwin.cli.app import main
from tests.goldens import ROOT
from tests.sqlwin.dbapi.conftest import FLIGHTS


def test_the_command_serves_a_script_until_it_is_interrupted(tmp_path: Path) -> None:
    script = tmp_path / "tables.sql"
    script.write_text(
        f"CREATE TABLE flights WITH ('connector' = 'filesystem', 'path' = '{FLIGHTS}');"
        'CREATE VIEW "late ones" AS SELECT "origin" FROM "flights" WHERE "dep_delay" > 600;'
    )
    server = subprocess.Popen(
        [sys.executable, "-m", "sqlwin", "serve", "--port", "0", str(script)],
        cwd=ROOT,
        env={**os.environ, "SQLWIN_SERVE_PASSWORD": ""},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    try:
        lines = iter(server.stderr.readline, "")
        assert [next(lines), next(lines)] == ["OK\n", "OK\n"]
        assert re.match(r"serving on 127\.0\.0\.1:\d+ \(read-only\)", next(lines))
        connection = re.search(r'psql "(.*)"', next(lines))
        assert connection is not None
        with psycopg.connect(connection[1]) as client:
            assert client.execute('SELECT COUNT(*) FROM "public"."flights"').fetchone() == (336776,)
            assert client.execute('SELECT COUNT(*) FROM "late ones"').fetchone() == (40,)
        server.send_signal(signal.SIGINT)
        assert server.wait() == 0
        assert "Traceback" not in server.stderr.read()
    finally:
        server.kill()
        server.wait()
        server.stderr.close()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["--no-password", "--host", "0.0.0.0"],
            2,
            "--no-password is not allowed with --host 0.0.0.0",
        ),
        (["--tls-key", "k"], 2, "--tls-key needs --tls-cert"),
        (["--password-file", "/nowhere/p"], 3, "cannot read the password file /nowhere/p"),
        (
            ["--tls-cert", "/nowhere/c", "--port", "0"],
            3,
            "cannot use the certificate in /nowhere/c",
        ),
        (["-e", "SELEC 'a", "--port", "0"], 1, "unterminated string"),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], code: int, message: str) -> None:
    result = CliRunner().invoke(main, ["serve", *arguments])
    assert (result.exit_code, message in result.output) == (code, True), result.output


def test_an_empty_password_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("\nsecond")
    result = CliRunner().invoke(main, ["serve", "--password-file", str(tmp_path / "password")])
    assert result.exit_code == 3
    assert "has an empty first line" in result.output


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sqlwin.server.client", "sqlwin.server.server"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "pg_mimic", None)
    result = CliRunner().invoke(main, ["serve"])
    assert result.exit_code == 3
    assert "sqlwin serve requires the package pg-mimic" in result.output
    assert "pip install '.[server]' in a clone of sqlwin" in result.output
