"""Temporary files are removed with the process that made them, or at the next start after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime import logs
from runtime.temporary import length_below, process_directory, user_directory
from tests.goldens import ROOT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs locks of directories")

# Makes a directory and a log, prints their paths, and ends when its input does
MAKE = """
import sys
from runtime.logs import append_trace, open_log
from runtime.temporary import new_directory, process_directory
new_directory("kept")
open_log().close()
if "log" in sys.argv:
    append_trace("wrong", "a trace")
print(process_directory(), flush=True)
sys.stdin.read()
"""
HOUR_S = 3600


@contextmanager
def process(
    above: Path, *arguments: str, program: str = MAKE
) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Start a process with a temporary directory, and yield both."""
    result = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k != "SQLWIN_LOG_FILE"}
        | {"TMPDIR": str(above)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert result.stdin is not None and result.stdout is not None
    try:
        yield result, Path(result.stdout.readline().strip())
    finally:
        result.stdin.close()
        result.stdout.close()
        result.wait()


def age(*paths: Path) -> None:
    """Set modification times of paths an hour back."""
    for path in paths:
        os.utime(path, times=(time.time() - HOUR_S,) * 2, follow_symlinks=False)


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


def test_a_process_leaves_nothing_at_its_end(tmp_path: Path) -> None:
    with process(tmp_path) as (_, directory):
        user = user_directory(str(tmp_path))
        assert directory.parent == user
        assert user.stat().st_mode & 0o777 == 0o700
        assert len(str(directory)) == length_below(str(tmp_path))
        (log,) = user.glob("spark-*.log")
        assert log.stat().st_size == 0
    assert names(tmp_path) == []


def test_a_log_with_something_in_it_stays(tmp_path: Path) -> None:
    with process(tmp_path, "log"):
        pass
    (log,) = user_directory(str(tmp_path)).iterdir()
    assert log.name.startswith("spark-") and "a trace" in log.read_text()


def test_the_next_start_removes_leftovers_of_a_killed_process(tmp_path: Path) -> None:
    with process(tmp_path) as (killed, left):
        killed.send_signal(signal.SIGKILL)
    assert (left / "log").is_symlink()
    with process(tmp_path) as (_, young):
        assert left.is_dir(), "its process may be about to lock it"
        age(left, young)
        with process(tmp_path):
            assert not left.exists()
            assert young.is_dir(), "its process lives"
    assert names(tmp_path) == []


def test_a_killed_process_leaves_the_log_that_says_something(tmp_path: Path) -> None:
    with process(tmp_path, "log") as (killed, left):
        killed.send_signal(signal.SIGKILL)
    age(left)
    with process(tmp_path):
        pass
    (log,) = user_directory(str(tmp_path)).iterdir()
    assert log.name.startswith("spark-")


def test_foreign_files_in_the_directory_stay(tmp_path: Path) -> None:
    user = user_directory(str(tmp_path))
    with process(tmp_path) as (_, directory):
        _, host, _ = directory.name.split("-", 2)
    elsewhere = user / f"at-{'0000' if host != '0000' else '1111'}-abcdefgh"
    for path in (elsewhere, user / "mine", tmp_path / "sqlwin-abcdefgh"):
        path.mkdir(parents=True)
        age(path)
    with process(tmp_path):
        pass
    assert names(user) == [elsewhere.name, "mine"]
    assert names(tmp_path) == [user.name, "sqlwin-abcdefgh"]


def test_a_fork_has_a_directory_of_its_own_and_leaves_its_parents(tmp_path: Path) -> None:
    forking = """
import os, sys
from runtime.temporary import process_directory
own = process_directory()
child = os.fork()
if not child:
    assert process_directory() != own
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert own.is_dir() and os.listdir(own.parent) == [own.name]
print(own, flush=True)
"""
    with process(tmp_path, program=forking) as (done, _):
        pass
    assert done.returncode == 0
    assert names(tmp_path) == []


def test_where_the_users_directory_is_somebody_elses_a_process_has_another(
    tmp_path: Path,
) -> None:
    (tmp_path / f"sqlwin-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    with process(tmp_path) as (_, directory):
        assert directory.parent.parent == tmp_path
        assert directory.parent.stat().st_mode & 0o777 == 0o700
    assert names(tmp_path) == [f"sqlwin-{os.getuid()}"]


def test_old_logs_and_traces_are_removed_after_a_week(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("SQLWIN_LOG_FILE", raising=False)
    user = user_directory()
    for name, days in (("spark-a.log", 8), ("error-a.log", 8), ("error-b.log", 6)):
        (user / name).touch()
        os.utime(user / name, times=(time.time() - days * 24 * HOUR_S,) * 2)
    logs.log_file.cache_clear()
    try:
        assert logs.log_file().parent == user
    finally:
        logs.log_file.cache_clear()
    assert names(user) == sorted([process_directory().name, "error-b.log"])
