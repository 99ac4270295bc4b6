"""One process at a time uses a checkpoint."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread

import pytest

from runtime.checkpoint_lock import (
    OWNER,
    held_for_rescale,
    hold_for_stream,
    start_by_proc,
    start_by_ps,
)
from runtime.errors import ExecutionError
from tests.observing import wait_until

_HOLD = """
import sys
from contextlib import ExitStack
from runtime.checkpoint_lock import held_for_rescale, hold_for_stream
with ExitStack() as until:
    if sys.argv[2] == "stream":
        hold_for_stream(until, sys.argv[1], int(sys.argv[3]))
    else:
        until.enter_context(held_for_rescale(sys.argv[1]))
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process(
    directory: str, use: str = "stream", jvm: int = 1 << 30
) -> Iterator[subprocess.Popen[str]]:
    """Run a process that uses a checkpoint until its input ends. Its JVM has ended by default."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", _HOLD, directory, use, str(jvm)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(params=["local", "store"])
def directory(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Provide a checkpoint on this machine, and one in an object store."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return str(tmp_path) if request.param == "local" else "s3a://bucket/checkpoints/totals"


def hold(directory: str) -> None:
    with ExitStack() as until:
        hold_for_stream(until, directory)


def test_the_second_process_is_refused_and_the_first_is_named(directory: str) -> None:
    with another_process(directory) as first:
        with pytest.raises(ExecutionError) as caught:
            hold(directory)
        assert caught.value.message == (
            f"a stream of process {first.pid} on host {socket.gethostname()} is running on the "
            f"checkpoint in {directory}"
        )
        with pytest.raises(ExecutionError, match=f"a stream of process {first.pid} on host"):
            with held_for_rescale(directory):
                pass
    with another_process(directory, "rescale") as first:
        pattern = f"is being rescaled by process {first.pid} on host"
        with pytest.raises(ExecutionError, match=pattern):
            hold(directory)


def test_a_killed_process_does_not_block_the_next(directory: str) -> None:
    with another_process(directory) as first:
        first.kill()
        first.wait()
        hold(directory)


def test_the_next_process_waits_for_the_jvm_of_a_killed_one(directory: str) -> None:
    with subprocess.Popen(["sleep", "60"]) as jvm, ExitStack() as until:
        with another_process(directory, jvm=jvm.pid) as first:
            first.kill()
            first.wait()
            message = f"the JVM of a killed stream still runs on the checkpoint in {directory}"
            with pytest.raises(ExecutionError, match=message) as caught:
                hold_for_stream(until, directory, seconds=0.1)
            assert caught.value.hint == f"end process {jvm.pid}"
            waiting = Thread(target=hold, args=(directory,))
            waiting.start()
            waiting.join(0.2)
            assert waiting.is_alive()
            jvm.kill()
            jvm.wait()
            waiting.join(30)
            assert not waiting.is_alive()


@pytest.mark.parametrize("start_of", [start_by_proc, start_by_ps])
def test_a_process_has_one_start_until_it_ends(start_of: Callable[[int], str | None]) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        start = start_of(process.pid)
        assert start is not None and start_of(process.pid) == start
        process.kill()
        # It has ended, although its exit code has not been read
        wait_until(lambda: start_of(process.pid) is None)
    assert start_of(process.pid) is None


def test_a_later_process_with_the_number_of_the_jvm_is_not_awaited(tmp_path: Path) -> None:
    jvm = {"jvm": os.getpid(), "jvm_start": "long ago"}
    owner = {"host": socket.gethostname(), "process": 1, "use": "stream", **jvm}
    (tmp_path / OWNER).write_text(json.dumps(owner))
    with ExitStack() as until:
        hold_for_stream(until, str(tmp_path), seconds=0)


def test_a_process_that_ends_leaves_no_record(tmp_path: Path) -> None:
    with ExitStack() as until:
        hold_for_stream(until, str(tmp_path))
        owner = json.loads((tmp_path / OWNER).read_text())
        assert (owner["host"], owner["process"]) == (socket.gethostname(), os.getpid())
    assert list(tmp_path.iterdir()) == []


def test_a_stream_takes_the_lock_of_a_failed_stream_of_the_same_process(directory: str) -> None:
    with ExitStack() as failed, ExitStack() as again:
        hold_for_stream(failed, directory)
        hold_for_stream(again, directory)
        failed.close()
        with pytest.raises(ExecutionError, match=f"a stream of process {os.getpid()} on host"):
            with held_for_rescale(directory):
                pass
    with held_for_rescale(directory):
        pass


def test_a_process_without_a_record_is_another_process(tmp_path: Path) -> None:
    with another_process(str(tmp_path)):
        (tmp_path / OWNER).unlink()
        with pytest.raises(ExecutionError, match="a stream of another process is running on"):
            hold(str(tmp_path))
