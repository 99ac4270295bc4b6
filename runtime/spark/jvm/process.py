"""Start and end of the JVM of Spark's driver.

PySpark finds it by PYSPARK_GATEWAY_PORT and PYSPARK_GATEWAY_SECRET, as it does when `spark-submit`
has started Python.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runtime.errors import SetupError
from runtime.logs import log_file, open_log
from runtime.spark.jvm import class_archive
from runtime.spark.jvm.java import JavaRuntime
from runtime.spark.jvm.submit import command_line, environment, hide_secrets, usable_archive
from runtime.temporary import new_directory

_START_SECONDS = 120
_CONNECTION = "connection"
# The JVM exits when its standard input, a pipe, closes: the pipe must live as long as this process.
_jvm: subprocess.Popen[bytes] | None = None
# JVM that was started ahead of time, and its arguments: Java and Spark configuration
_begun: tuple[tuple[JavaRuntime, dict[str, str]], StartingJvm] | None = None


@contextmanager
def running_jvm(java: JavaRuntime, conf: Mapping[str, str]) -> Iterator[None]:
    """Start a JVM that PySpark connects to inside this context.

    The JVM dies with this process, however that ends: its standard input is a pipe from here.

    Args:
        java: Java to run.
        conf: Spark configuration including `spark.master`.

    Raises:
        SetupError: The JVM does not start.
    """
    begin_jvm(java, conf)
    starting = _take_started()
    try:
        gateway = starting.answer()
    except SetupError:
        if starting.archive is None or not starting.has_crashed:
            raise
        # Only the archive can break a JVM that worked when the archive was created.
        class_archive.discard(starting.archive)
        Path(f"hs_err_pid{starting.process.pid}.log").unlink(missing_ok=True)
        gateway = start_jvm(java, conf, maps_archive=False).answer()
    with connecting_to(*gateway):
        yield


def begin_jvm(java: JavaRuntime, conf: Mapping[str, str]) -> None:
    """Start the JVM for a later `running_jvm` without waiting for it.

    Importing a program's modules takes as long as starting Java. A second call with the same
    arguments does nothing; a JVM that was started for others is ended.

    Args:
        java: Java to run.
        conf: Spark configuration including `spark.master`.

    Raises:
        SetupError: The command cannot be run.
    """
    global _begun
    arguments = (java, dict(conf))
    if _begun is not None and _begun[0] == arguments:
        return
    _end_unused()
    _begun = arguments, start_jvm(java, conf)


def _take_started() -> StartingJvm:
    global _begun
    assert _begun is not None
    (_, starting), _begun = _begun, None
    return starting


@atexit.register
def _end_unused() -> None:
    """End a JVM that was started ahead of time and never used."""
    if _begun is not None:
        starting = _take_started()
        starting.process.kill()
        starting.process.wait()
        shutil.rmtree(starting.directory, ignore_errors=True)


@contextmanager
def connecting_to(port: int, secret: str) -> Iterator[None]:
    """Let PySpark connect to a gateway inside this context."""
    # Only while connecting, because processes started from here later need their own JVM.
    os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = secret
    try:
        yield
    finally:
        os.environ.pop("PYSPARK_GATEWAY_PORT", None)
        os.environ.pop("PYSPARK_GATEWAY_SECRET", None)


def end_jvm(seconds: float) -> int | None:
    """Let the JVM exit as it does when Python ends, and wait for it.

    Args:
        seconds: Time limit, after which it is killed.

    Returns:
        Exit code. None if there was no JVM or it had to be killed.
    """
    if _jvm is None or _jvm.stdin is None:
        return None
    _jvm.stdin.close()
    try:
        return _jvm.wait(seconds)
    except subprocess.TimeoutExpired:
        _jvm.kill()
        _jvm.wait()
        return None


def leave_to_parent() -> None:
    """Leave the JVM to the parent, in a process forked from one with a JVM."""
    global _jvm
    if _jvm is not None and _jvm.stdin is not None:
        _jvm.stdin.close()
        _jvm.returncode = 0  # so that nobody here waits for it
    _jvm = None


def let_jvm_end() -> bool:
    """Let the JVM exit as it does when Python ends, without waiting for it.

    For a process that ends now: Spark stops and cleans up in the background.

    Returns:
        Whether a JVM was started from here.
    """
    if _jvm is None or _jvm.stdin is None or _jvm.poll() is not None:
        return False
    _jvm.stdin.close()
    return True


@dataclass(frozen=True)
class StartingJvm:
    """JVM that was started and has not answered yet.

    Attributes:
        process: The JVM.
        directory: Directory where it writes its connection data.
        log_bytes: Length of the log before it was started.
        archive: Class archive that it maps, if any.
    """

    process: subprocess.Popen[bytes]
    directory: Path
    log_bytes: int
    archive: Path | None

    @property
    def has_crashed(self) -> bool:
        """Whether a signal has ended it."""
        return self.process.returncode is not None and self.process.returncode < 0

    def answer(self) -> tuple[int, str]:
        """Wait for the JVM and return port and secret of its gateway.

        Raises:
            SetupError: The JVM does not start.
        """
        connection = self.directory / _CONNECTION
        try:
            give_up = time.monotonic() + _START_SECONDS
            while not connection.is_file():
                if self.process.poll() is not None:
                    reason = _complaint(self.log_bytes)
                    raise SetupError(f"Java did not start: {reason}", hint=_hint())
                if time.monotonic() > give_up:
                    self.process.kill()
                    raise SetupError(
                        f"Java did not respond within {_START_SECONDS} seconds", hint=_hint()
                    )
                time.sleep(0.02)
            answer = connection.read_bytes()
        except KeyboardInterrupt:
            self.process.kill()  # nobody will connect to it
            raise
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)
        port, length = struct.unpack_from(">ii", answer)
        return port, answer[8 : 8 + length].decode()


def start_jvm(
    java: JavaRuntime, conf: Mapping[str, str], *, maps_archive: bool = True
) -> StartingJvm:
    """Start a JVM without waiting for it.

    Args:
        java: Java to run.
        conf: Spark configuration including `spark.master`.
        maps_archive: Whether it maps the class archive if that exists.

    Raises:
        SetupError: The command cannot be run.
    """
    global _jvm
    archive = usable_archive(java, conf) if maps_archive else None
    directory = new_directory("gateway")
    try:
        with open_log() as log:
            log_bytes = log.tell()
            command = command_line(java, conf, archive)
            _jvm = subprocess.Popen(
                hide_secrets(command, directory / "arguments"),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment(java, conf, directory / _CONNECTION),
                # Ctrl-C in the terminal is for Python alone
                process_group=None if os.name == "nt" else 0,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
    except BaseException as error:
        shutil.rmtree(directory, ignore_errors=True)
        if isinstance(error, OSError):
            raise SetupError(f"Java did not start: {error}", hint=_hint()) from error
        raise
    return StartingJvm(_jvm, directory, log_bytes, archive)


def _complaint(written_before: int) -> str:
    """Return the first line of the JVM's output that describes an error."""
    with log_file().open("rb") as log:
        log.seek(written_before)
        lines = log.read(64_000).decode("utf-8", errors="replace").splitlines()
    # the actual error follows "Error occurred during initialization of VM"
    lines = [line.strip() for line in lines if "occurred during initialization" not in line]
    telling = [line for line in lines if re.search(r"error|exception|invalid", line, re.I)] or lines
    return telling[0].removeprefix('Exception in thread "main" ') if telling else "no output"


def _hint() -> str:
    return f"see its output in {log_file()}"
