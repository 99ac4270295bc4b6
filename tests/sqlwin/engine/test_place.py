"""Which engine a command uses, and which users may have one."""

from __future__ import annotations

import os
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from runtime.errors import SqlwinError
from runtime.temporary import user_directory
from sqlwin.engine import client, place, wire
from sqlwin.engine.place import find_place, idle_seconds, is_switched_off, private_directory

OPTIONS = {"no_engine": False, "master": None, "remote": None, "conf": [], "output": None}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the engine is for Linux")


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # tmp_path may be too long for a socket
    with tempfile.TemporaryDirectory(prefix="sqlwin-") as directory:
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        yield Path(directory)


def identity() -> str:
    result = find_place()
    assert result is not None
    return result.identity


def test_terminals_of_a_user_share_an_engine_and_environments_do_not(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = identity()
    monkeypatch.setenv("TERM", "other")
    monkeypatch.setenv("COLUMNS", "44")
    monkeypatch.setenv("SSH_TTY", "/dev/pts/9")
    monkeypatch.chdir(runtime)
    assert identity() == first
    for variable in ("AWS_PROFILE", "TZ", "SPARK_CONF_DIR", "JAVA_TOOL_OPTIONS"):
        with monkeypatch.context() as other:
            other.setenv(variable, "other")
            assert identity() != first, variable


def test_files_of_sparks_configuration_are_part_of_the_identity(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(runtime))
    first = identity()
    (runtime / "spark-defaults.conf").write_text("spark.sql.shuffle.partitions 3\n")
    assert identity() != first


def test_an_engine_is_of_one_version_of_the_code(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = runtime / "site-packages"
    for package in ("sqlwin/engine", "planner", "runtime"):
        (installed / package).mkdir(parents=True)
    module = installed / "planner" / "plan.py"
    module.write_text("VERSION = 1\n")
    monkeypatch.setattr(place, "__file__", str(installed / "sqlwin" / "engine" / "place.py"))
    first = identity()
    assert identity() == first
    module.write_text("VERSION = 22\n")
    edited = identity()
    (installed / "runtime" / "more.py").touch()
    assert len({first, edited, identity()}) == 3


def test_the_directory_is_private_to_its_user(runtime: Path) -> None:
    directory = private_directory()
    assert directory == runtime / "sqlwin"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    directory.chmod(0o755)
    assert private_directory() != directory


def test_a_directory_too_deep_for_a_socket_is_passed_over(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = runtime / ("d" * 100)
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    result = find_place()
    assert result is not None
    assert result.directory == user_directory() / "engine"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(result.socket))
    result.socket.unlink()


def test_other_systems_than_linux_have_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delattr(os, "sched_getaffinity")
    assert find_place() is None
    assert client.status() == client.stop() == []


def test_ci_and_the_switch_turn_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("CI", "SQLWIN_ENGINE", "PYTEST_CURRENT_TEST", "PYTEST_VERSION"):
        monkeypatch.delenv(variable, raising=False)
    assert not is_switched_off()
    for variable, value in (("CI", "true"), ("SQLWIN_ENGINE", "off"), ("SQLWIN_ENGINE", "0")):
        with monkeypatch.context() as other:
            other.setenv(variable, value)
            assert is_switched_off()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"no_engine": True}, "SELECT 1"),
        ({"master": "local[2]"}, "SELECT 1"),
        ({"remote": "sc://localhost"}, "SELECT 1"),
        ({"conf": [("spark.remote", "sc://localhost")]}, "SELECT 1"),
        ({"output": "/dev/fd/9"}, "SELECT 1"),
        ({}, "ADD JAR functions.jar"),
        ({}, "CREATE FUNCTION f AS 'a.B' USING JAR 'functions.jar'"),
        ({}, "SELECT '${env:HOME}'"),
    ],
)
def test_commands_that_need_their_own_spark_do_not_use_the_engine(
    options: dict[str, object], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "is_switched_off", lambda: False)
    flags = SimpleNamespace(isolated=0, optimize=0, no_site=0)
    streams = {f"__{name}__": name for name in ("stdin", "stdout", "stderr")}
    clean = SimpleNamespace(
        platform="linux", flags=flags, _xoptions={}, warnoptions=[], **streams,
        stdin="stdin", stdout="stdout", stderr="stderr",
    )  # fmt: skip
    monkeypatch.setattr(client, "sys", clean)
    monkeypatch.delenv("SYSTEMD_EXEC_PID", raising=False)
    assert client.unfit(OPTIONS, ["SELECT added, jar FROM t"]) is None
    assert client.unfit({**OPTIONS, **options}, [text]) is not None


def test_services_do_not_use_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "is_switched_off", lambda: False)
    monkeypatch.setenv("SYSTEMD_EXEC_PID", str(os.getpid()))
    assert "service" in str(client.unfit(OPTIONS, ["SELECT 1"]))


def test_messages_bring_open_files_with_them(tmp_path: Path) -> None:
    receiver, sender = socket.socketpair()
    with receiver, sender, (tmp_path / "file").open("w+") as file:
        wire.send_message(receiver, {"text": "ü" * 1000, "bad": "\udcff"}, [file.fileno()])
        message, (number,) = wire.receive(sender, 1)
        assert message == {"text": "ü" * 1000, "bad": "\udcff"}
        os.write(number, b"written there")
        os.close(number)
        file.seek(0)
        assert file.read() == "written there"
        receiver.close()
        with pytest.raises(wire.Closed):
            wire.receive(sender)


def test_the_engine_stays_15_minutes_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert idle_seconds() == 900
    monkeypatch.setenv("SQLWIN_ENGINE_IDLE", "2h")
    assert idle_seconds() == 7200
    monkeypatch.setenv("SQLWIN_ENGINE_IDLE", "a while")
    with pytest.raises(SqlwinError, match="SQLWIN_ENGINE_IDLE"):
        idle_seconds()
