"""Client of the engine: hands over a command and forwards signals.

Every command imports this module, so it imports little.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from runtime.background import start_module
from runtime.errors import ExecutionError
from sqlwin.console.failures import ENDING, end_at_next_signal, handle_signals
from sqlwin.engine import wire
from sqlwin.engine.place import (
    SWITCH,
    EnginePlace,
    find_place,
    idle_seconds,
    is_switched_off,
    sockets,
)

# The engine answers at once, even when starting or busy, but has to import PySpark first
_ANSWER_SECONDS = 30.0
# Spark hangs if it takes longer to start
_READY_SECONDS = 180.0
# SQL that depends on the JVM's own directory or environment, changes all sessions of the JVM, or
# reads files that only this process has open
_NEEDS_OWN_SPARK = re.compile(
    r"\bADD\s+(JAR|FILE|ARCHIVE)S?\b|\bUSING\s+(JAR|FILE|ARCHIVE)\b|\$\{(env|system):"
    r"|/dev/(fd/|std|tty)|/proc/self/",
    re.IGNORECASE,
)
_CAN_BE_IGNORED = (*ENDING, signal.SIGPIPE)


def unfit(options: Mapping[str, Any], texts: Sequence[str]) -> str | None:
    """Return why a command needs its own Spark, or None if an engine can serve it.

    Args:
        options: Options of the command, by name.
        texts: SQL to run.
    """
    if sys.platform != "linux":
        return "the engine requires Linux"
    if options["no_engine"] or is_switched_off():
        return "the engine is disabled"
    if options["master"] or options["remote"] or "spark.remote" in dict(options["conf"]):
        return "the command selects another Spark"
    for variable in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT", "SQLWIN_LOG_FILE"):
        if os.environ.get(variable):
            return f"{variable} is set"
    if os.getpid() == 1 or os.environ.get("SYSTEMD_EXEC_PID") in (
        str(os.getpid()),
        str(os.getppid()),
    ):
        return "services start their own Spark"
    flags = sys.flags
    if sys._xoptions or sys.warnoptions or flags.isolated or flags.optimize or flags.no_site:
        return "Python was started with options"
    streams = (sys.stdin, sys.stdout, sys.stderr)
    if streams != (sys.__stdin__, sys.__stdout__, sys.__stderr__) or None in streams:
        return "standard input or output is redirected within Python"
    if any(map(_NEEDS_OWN_SPARK.search, (*texts, str(options["output"])))):
        return "the SQL affects Spark's own process"
    return None


def run(
    arguments: Sequence[str],
    scripts: Sequence[tuple[str, str | None]],
    conf: Sequence[str],
    waiting: Callable[[], AbstractContextManager[object]] | None,
    say_left: Callable[[], None] = lambda: None,
) -> int | None:
    """Run a command in the engine.

    Args:
        arguments: Command line.
        scripts: SQL of its files and standard input, with their names in error messages.
        conf: Spark properties that the command sets.
        waiting: Context that shows the user that an engine is starting. None: start none.
        say_left: Called if an engine was started that outlives the command.

    Returns:
        The exit code, or None if the command has to start its own Spark.

    Raises:
        ExecutionError: The engine broke while it ran the command.
    """
    place = find_place()
    if place is None or place.why_refused() is not None:
        return None
    channel = _connect(place.socket)
    is_new = channel is None
    if is_new and waiting is None:
        return None
    with waiting() if is_new and waiting is not None else nullcontext():
        channel = channel or _start_engine(place)
        if channel is None:
            return None
        pid = _submit(channel, arguments, scripts, conf)
    if is_new and place.why_refused() is None:
        say_left()
    with channel:
        return None if pid is None else _wait_for_exit(channel, pid)


def start() -> str | None:
    """Start an engine for commands like this one unless it runs. Return why it cannot run."""
    place = find_place()
    if place is None:
        return "no directory for its socket"
    place.refused.unlink(missing_ok=True)
    channel = _connect(place.socket) or _start_engine(place)
    if channel is None:
        return place.why_refused() or "it exited immediately"
    with channel:
        # answered once it has a run ready
        wire.send_message(channel, {"command": "wait", "idle": idle_seconds()})
        channel.settimeout(_READY_SECONDS)
        try:
            wire.receive(channel)
        except (OSError, wire.Closed):
            return place.why_refused() or "it exited immediately"
    return None


def status() -> list[wire.Message]:
    """Return the status of each engine of this user.

    The field `ours`, whether commands here would use the engine, is added to the answer of
    `server.py`.
    """
    place = find_place()
    engines = []
    for path in [] if place is None else sockets(place.directory):
        answer = _request(path, {"command": "status"})
        if answer is not None:
            engines.append({**answer, "ours": place is not None and path == place.socket})
    return engines


def stop() -> list[wire.Message]:
    """Tell each engine of this user to exit once it is idle, and return their answers."""
    place = find_place()
    paths = [] if place is None else sockets(place.directory)
    return [answer for path in paths if (answer := _request(path, {"command": "end"})) is not None]


def _connect(path: Path) -> socket.socket | None:
    """Return a connection to the engine at `path`, or None if no engine listens."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        channel.settimeout(_ANSWER_SECONDS)
        channel.connect(str(path))
        return channel
    except OSError:
        channel.close()
        return None


def _request(path: Path, message: wire.Message) -> wire.Message | None:
    """Return the answer of the engine at `path`, or None if it does not answer."""
    channel = _connect(path)
    if channel is None:
        return None
    with channel:
        try:
            wire.send_message(channel, message)
            return wire.receive(channel)[0]
        except (OSError, wire.Closed):
            return None


def _start_engine(place: EnginePlace) -> socket.socket | None:
    """Start an engine, stop other idle engines, and return a connection to the new one."""
    for other in sockets(place.directory):
        if other != place.socket:
            _request(other, {"command": "end"})
    environment = {**os.environ, SWITCH: "off"}
    try:
        process = start_module("sqlwin.cli.background", place.socket, place.directory, environment)
    except OSError:  # an engine that ended has removed the directory
        return None
    give_up = time.monotonic() + _ANSWER_SECONDS
    while time.monotonic() < give_up:
        channel = _connect(place.socket)
        if channel is not None:
            return channel
        if process.poll() is not None:
            return None
        time.sleep(0.02)
    return None


def _submit(
    channel: socket.socket,
    arguments: Sequence[str],
    scripts: Sequence[tuple[str, str | None]],
    conf: Sequence[str],
) -> int | None:
    """Send a command to the engine and return the pid of the process ready to run it, or None.

    The command has not begun to run yet.
    """
    request = {
        "command": "run",
        "arguments": list(arguments),
        "scripts": list(scripts),
        "conf": list(conf),
        "environment": dict(os.environ),
        "ignored": [n for n in _CAN_BE_IGNORED if signal.getsignal(n) == signal.SIG_IGN],
        "idle": idle_seconds(),
    }
    try:
        request["directory"] = os.getcwd()
        wire.send_message(channel, request, [0, 1, 2])
        channel.settimeout(_READY_SECONDS)
        answer, _ = wire.receive(channel)
    except (OSError, wire.Closed):
        return None
    pid = answer.get("ready")
    return pid if isinstance(pid, int) else None


def _wait_for_exit(channel: socket.socket, pid: int) -> int:
    """Start the run, wait for its end and return its exit code."""
    channel.settimeout(None)
    with _forward_signals(channel, pid):
        try:
            wire.send_message(channel, {"go": True})
            answer, _ = wire.receive(channel)
            return int(answer["exit"])
        except (OSError, wire.Closed) as error:
            raise ExecutionError(
                "the background engine failed while running this command, which may have "
                "been partly executed",
                hint="check what was written before you run it again; --no-engine runs it without "
                "the engine",
            ) from error


@contextmanager
def _forward_signals(channel: socket.socket, pid: int) -> Iterator[None]:
    """Forward signals to the run. A second signal ends this process, and the run with it."""

    def forward(number: int, frame: FrameType | None) -> None:
        end_at_next_signal()
        with suppress(OSError):  # it has just ended
            wire.send_message(channel, {"signal": number})

    def pause(number: int, frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            os.kill(os.getpid(), signal.SIGSTOP)  # until the shell continues it
            os.kill(pid, signal.SIGCONT)

    with handle_signals({**dict.fromkeys(ENDING, forward), signal.SIGTSTP: pause}):
        yield
