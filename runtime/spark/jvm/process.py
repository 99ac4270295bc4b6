"""Starting the JVM that Spark's driver runs in, and ending it.

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
from runtime.spark.jvm.submit import command_line, environment, masked_command, usable_archive
from runtime.temporary import new_directory

_START_SECONDS = 120
_CONNECTION = "connection"
# The pipe whose end makes the JVM exit: it must live as long as this process.
_jvm: subprocess.Popen[bytes] | None = None
# A JVM that has been begun, and what for: the Java, and Spark's configuration
_begun: tuple[tuple[JavaRuntime, dict[str, str]], StartingJvm] | None = None


@contextmanager
def running_jvm(java: JavaRuntime, conf: Mapping[str, str]) -> Iterator[None]:
    """Start a JVM for PySpark to connect to inside this context.

    The JVM dies with this process, however that ends: its standard input is a pipe from here.

    Args:
        java: what to run.
        conf: Spark's configuration, `spark.master` included.

    Raises:
        SetupError: the JVM does not come up.
    """
    begin_jvm(java, conf)
    starting = _take_begun()
    try:
        gateway = starting.answer()
    except SetupError:
        if starting.archive is None or not starting.has_crashed:
            raise
        # The one thing that can have broken a JVM which worked when the archive was made.
        class_archive.discard(starting.archive)
        Path(f"hs_err_pid{starting.process.pid}.log").unlink(missing_ok=True)
        gateway = start_jvm(java, conf, maps_archive=False).answer()
    with connecting_to(*gateway):
        yield


def begin_jvm(java: JavaRuntime, conf: Mapping[str, str]) -> None:
    """Start the JVM that `running_jvm` will be asked for, and do not wait for it.

    A program has modules to import that take as long as Java does. Asked once more with the same
    arguments this does nothing; one that was begun for others is ended.

    Args:
        java: what to run.
        conf: Spark's configuration, `spark.master` included.

    Raises:
        SetupError: there is nothing to run.
    """
    global _begun
    wanted = (java, dict(conf))
    if _begun is not None and _begun[0] == wanted:
        return
    _end_begun()
    _begun = wanted, start_jvm(java, conf)


def _take_begun() -> StartingJvm:
    global _begun
    assert _begun is not None
    (_, starting), _begun = _begun, None
    return starting


@atexit.register
def _end_begun() -> None:
    """End a JVM that was begun and that nobody came for."""
    if _begun is not None:
        starting = _take_begun()
        starting.process.kill()
        starting.process.wait()
        shutil.rmtree(starting.directory, ignore_errors=True)


@contextmanager
def connecting_to(port: int, secret: str) -> Iterator[None]:
    """Let PySpark connect to a gateway inside this context."""
    # Only for the connection: processes started from here later are to get a JVM of their own.
    os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = secret
    try:
        yield
    finally:
        os.environ.pop("PYSPARK_GATEWAY_PORT", None)
        os.environ.pop("PYSPARK_GATEWAY_SECRET", None)


def end_jvm(seconds: float) -> int | None:
    """Let the JVM exit in its own way, as it does when Python ends, and wait for it.

    Args:
        seconds: how long to wait; then it is killed.

    Returns:
        Its exit code; None if there was no JVM or it had to be killed.
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
    """In a process that was forked of one with a JVM: take that for the parent's alone."""
    global _jvm
    if _jvm is not None and _jvm.stdin is not None:
        _jvm.stdin.close()
        _jvm.returncode = 0  # nobody here is to wait for it
    _jvm = None


def let_jvm_end() -> bool:
    """Let the JVM exit in its own way, as it does when Python ends, and go on at once.

    For a process that ends now: Spark stops and cleans up behind its back.

    Returns:
        Whether there was a JVM started from here.
    """
    if _jvm is None or _jvm.stdin is None or _jvm.poll() is not None:
        return False
    _jvm.stdin.close()
    return True


@dataclass(frozen=True)
class StartingJvm:
    """A JVM that was started and has not answered yet.

    Attributes:
        process: the JVM.
        directory: where it puts the connection down.
        log_bytes: how long the log was before it.
        archive: the class archive that it maps, if any.
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
        """Wait for the JVM; port and secret of its gateway.

        Raises:
            SetupError: it does not come up.
        """
        connection = self.directory / _CONNECTION
        try:
            give_up = time.monotonic() + _START_SECONDS
            while not connection.is_file():
                if self.process.poll() is not None:
                    said = _complaint(self.log_bytes)
                    raise SetupError(f"Java did not start: {said}", hint=_hint())
                if time.monotonic() > give_up:
                    self.process.kill()
                    raise SetupError(
                        f"Java did not answer in {_START_SECONDS} seconds", hint=_hint()
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
    """Start a JVM as `running_jvm` does, and do not wait for it.

    Args:
        java: what to run.
        conf: Spark's configuration, `spark.master` included.
        maps_archive: whether it maps the class archive, if that is there.

    Raises:
        SetupError: there is nothing to run.
    """
    global _jvm
    archive = usable_archive(java, conf) if maps_archive else None
    directory = new_directory("gateway")
    try:
        with open_log() as log:
            log_bytes = log.tell()
            command = command_line(java, conf, archive)
            _jvm = subprocess.Popen(
                masked_command(command, directory / "arguments"),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment(java, conf, directory / _CONNECTION),
                # Ctrl-C in the terminal is for Python alone.
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
    """The first line that the JVM wrote that says what is wrong."""
    with log_file().open("rb") as log:
        log.seek(written_before)
        lines = log.read(64_000).decode("utf-8", errors="replace").splitlines()
    # "Error occurred during initialization of VM" is followed by what the error is.
    lines = [line.strip() for line in lines if "occurred during initialization" not in line]
    telling = [line for line in lines if re.search(r"error|exception|invalid", line, re.I)] or lines
    return telling[0].removeprefix('Exception in thread "main" ') if telling else "no output"


def _hint() -> str:
    return f"what it said is in {log_file()}"
