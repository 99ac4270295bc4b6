"""Engine process: starts the JVM, forks a run for each command, and ends when idle.

It has all modules loaded and no connection to Spark, so a fork is ready at once. At any time there
is one run, waiting for a command or running one.
"""

from __future__ import annotations

import gc
import importlib
import os
import selectors
import signal
import socket
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from runtime.errors import SqlwinError
from runtime.logs import log_file, open_log
from runtime.spark.defaults import clear_warehouse, is_local_master
from runtime.spark.jvm.java import find_java
from runtime.spark.jvm.process import StartingJvm, end_jvm, start_jvm
from runtime.spark.session import new_settings
from sqlwin.engine import wire
from sqlwin.engine.place import idle_seconds
from sqlwin.engine.run import EngineRun, Spark

# Seconds between checks whether the engine should end
_TICK_SECONDS = 2.0
# A command sends its request at once
_REQUEST_SECONDS = 5.0
# Preparing a run hangs if it takes longer
_PREPARE_SECONDS = 150.0
_END_SECONDS = 20.0
# Modules that runs need, loaded while the JVM starts
_LOADED = (
    "sqlwin.session",
    "sqlwin.cli.run",
    "sqlwin.cli.explain",
    "sqlwin.console.streams",
    "runtime.engines.spark_batch.execute",
    "sqlwin.engine.attached",
    "runtime.spark.start_workers",
    "pandas",
    "rich.progress",
)


@dataclass
class _Child:
    """The current run.

    Attributes:
        pid: Process id.
        channel: Channel to the run.
        since: Time of the fork.
        is_ready: Whether it has attached to Spark.
        is_busy: Whether a command is waiting for it.
        is_done: Whether it reported that it leaves nothing behind.
    """

    pid: int
    channel: socket.socket
    since: float = field(default_factory=time.monotonic)
    is_ready: bool = False
    is_busy: bool = False
    is_done: bool = False


@dataclass
class _Waiting:
    """A command that waits for a run to be ready. Without files it only asks for readiness."""

    channel: socket.socket
    request: wire.Message
    files: list[int]

    def close(self) -> None:
        """Close the connection and the files."""
        self.channel.close()
        for file in self.files:
            os.close(file)


class Engine:
    """The engine, from its socket to its end.

    Args:
        path: Path of the socket.
        version: Version to report.
        main: Runs a command line in a fork.
    """

    def __init__(self, path: Path, version: str, main: Callable[[Sequence[str]], None]) -> None:
        self._path = path
        self._version = version
        self._main = main
        self._environment = dict(os.environ)
        self._idle_seconds = idle_seconds()
        self._started = time.monotonic()
        self._idle_since = time.monotonic()
        self._n_forks = 0
        self._is_started = False
        self._n_runs = 0
        self._is_ending = False
        self._selector = selectors.DefaultSelector()
        self._child: _Child | None = None
        self._waiting: _Waiting | None = None
        self._starting: StartingJvm | None = None

    def serve(self) -> EngineRun | None:
        """Listen until the end. In a forked process, return the run to execute."""
        listener = _listening(self._path)
        if listener is None:
            return None  # another one was faster
        self._listener = listener
        self._inode = self._path.stat().st_ino
        self._selector.register(listener, selectors.EVENT_READ)
        signal.signal(signal.SIGTERM, self._terminate)
        run = None
        try:
            run = self._serve()
        except SqlwinError as error:
            self._refuse(error.message)
        finally:
            if run is None:
                self._close()
        return run

    def _serve(self) -> EngineRun | None:
        settings = new_settings(None, {"spark.ui.showConsoleProgress": "false"})
        if not is_local_master(settings["spark.master"]):
            self._refuse(f"Spark's master is {settings['spark.master']}, which is not local")
            return None
        self._starting = start_jvm(find_java(), settings)
        for module in _LOADED:
            importlib.import_module(module)
        spark = Spark(*self._starting.answer(), settings, self._environment)
        # A collection in a run would copy all the pages that it visits
        gc.collect()
        gc.freeze()
        while not self._is_over():
            if self._child is None:
                run = self._fork(spark)
                if run is not None:
                    return run
            channels = [key.fileobj for key, _ in self._selector.select(_TICK_SECONDS)]
            # Handle the run's message first: the next request depends on whether it is busy
            for channel in sorted(channels, key=lambda channel: channel is self._listener):
                if channel is self._listener:
                    self._accept()
                else:
                    self._read_message()
        return None

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self._is_ending = True

    # -- the run -------------------------------------------------------------------------------

    def _fork(self, spark: Spark) -> EngineRun | None:
        """Fork the next run. In the new process, return the run to execute."""
        ours, theirs = socket.socketpair()
        is_first, self._n_forks = self._n_forks == 0, self._n_forks + 1
        pid = os.fork()
        if pid:
            theirs.close()
            self._child = _Child(pid, ours)
            self._selector.register(ours, selectors.EVENT_READ)
            return None
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        ours.close()
        self._listener.close()
        self._selector.close()
        if self._waiting is not None:
            self._waiting.close()
        return EngineRun(theirs, spark, is_first, self._main)

    def _read_message(self) -> None:
        """Handle a message of the run."""
        child = self._child
        assert child is not None
        try:
            message, _ = wire.receive(child.channel)
        except (OSError, wire.Closed):
            self._selector.unregister(child.channel)
            self._reap(child)
            return
        child.is_done = child.is_done or "done" in message
        if "ready" in message:
            child.is_ready = self._is_started = True
        elif "over" in message:
            # its command has the exit code, and later commands wait for the next run
            child.is_busy, child.is_ready, child.since = False, False, time.monotonic()
        if "failed" in message:
            self._refuse(message["failed"])
        if child.is_ready and not child.is_busy and self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            self._dispatch(child, waiting)

    def _dispatch(self, child: _Child, command: _Waiting) -> None:
        """Pass a command to the run, or report readiness to a client that waits for it."""
        with suppress(OSError):  # the command is gone, or the run, which the next read shows
            if command.files:
                files = [command.channel.fileno(), *command.files]
                wire.send_message(child.channel, command.request, files)
                child.is_busy = True
                self._n_runs += 1
            else:
                wire.send_message(command.channel, {"ready": True})
        command.close()

    def _reap(self, child: _Child) -> None:
        """Wait for a run that closed its channel. Unless it ended cleanly, the engine ends too."""
        child.channel.close()
        self._child = None
        self._idle_since = time.monotonic()
        if _exit_code(child.pid, _END_SECONDS) != 0 or not child.is_done:
            self._is_ending = True
        clear_warehouse()  # the tables ended with the run

    # -- commands ------------------------------------------------------------------------------

    def _accept(self) -> None:
        channel, _ = self._listener.accept()
        channel.settimeout(_REQUEST_SECONDS)
        try:
            if not _is_same_user(channel):
                return channel.close()
            request, files = wire.receive(channel, 3)
        except (OSError, wire.Closed):
            return channel.close()
        command = _Waiting(channel, request, files)
        child = self._child
        with suppress(OSError):  # the client did not wait for an answer
            match request.get("command"):
                case "status":
                    wire.send_message(channel, self._status())
                case "end":
                    self._is_ending = True
                    wire.send_message(channel, self._status())
                case _ if self._is_ending or self._waiting or (child and child.is_busy):
                    wire.send_message(channel, {"busy": True})
                case _:
                    self._idle_seconds = request.get("idle", self._idle_seconds)
                    if child is not None and child.is_ready:
                        self._dispatch(child, command)
                    else:
                        self._waiting = command
                    return None
        return command.close()

    def _status(self) -> wire.Message:
        now = time.monotonic()
        busy = self._child is not None and self._child.is_busy
        # between two runs, a command waits less than a second for the next one to attach
        state = "running a command" if busy else "ready" if self._is_started else "starting"
        return {
            "pid": os.getpid(),
            "version": self._version,
            "state": state,
            "seconds": now - self._started,
            "runs": self._n_runs,
            "idle_seconds": None if busy else now - self._idle_since,
            "idle_limit": self._idle_seconds,
            "log": str(log_file()),
        }

    # -- the end -------------------------------------------------------------------------------

    def _is_over(self) -> bool:
        """Return whether the engine should end. Never while a command runs."""
        child, now = self._child, time.monotonic()
        if child is not None and child.is_busy:
            return False
        if child is not None and not child.is_ready and now - child.since > _PREPARE_SECONDS:
            self._refuse("Spark was not ready in time")
            return True
        if self._starting is None or self._starting.process.poll() is not None:
            return True
        is_idle = self._waiting is None and now - self._idle_since > self._idle_seconds
        return self._is_ending or is_idle or not self._exists()

    def _exists(self) -> bool:
        """Return whether its socket and its code still exist."""
        try:
            return self._path.stat().st_ino == self._inode and Path(__file__).exists()
        except OSError:
            return False

    def _refuse(self, reason: str) -> None:
        """Record for a while why the engine cannot start."""
        with suppress(OSError):  # the directory is gone
            self._path.with_suffix(".refused").write_text(reason, encoding="utf-8")

    def _close(self) -> None:
        if self._exists():
            self._path.unlink(missing_ok=True)
        self._listener.close()
        if self._waiting is not None:
            self._waiting.close()
        if self._child is not None:
            self._child.channel.close()
            _exit_code(self._child.pid, _END_SECONDS)
        end_jvm(_END_SECONDS)
        with suppress(OSError):  # other engines are there
            self._path.parent.rmdir()


def write_to_log() -> None:
    """Redirect output of this process, and of forks without a command, to the log."""
    with open_log() as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)


def _listening(path: Path) -> socket.socket | None:
    """Return a listening socket at a path, or None if another process listens there."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    new_path = path.with_suffix(f".{os.getpid()}")
    listener.bind(str(new_path))
    listener.listen(16)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        try:
            other.connect(str(path))
        except OSError:
            # no process listens there: the socket was left behind
            new_path.replace(path)
            return listener
    new_path.unlink()
    listener.close()
    return None


def _is_same_user(channel: socket.socket) -> bool:
    packed = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", packed)[1]) == os.getuid()


def _exit_code(pid: int, seconds: float) -> int:
    """Return the exit code of a process that is about to end. Kill it if it takes too long."""
    give_up = time.monotonic() + seconds
    while True:
        ended_pid, status = os.waitpid(pid, os.WNOHANG)
        if ended_pid:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > give_up:
            os.kill(pid, signal.SIGKILL)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        time.sleep(0.01)
