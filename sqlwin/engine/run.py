"""A run: a fork of the engine that attaches to Spark, waits for a command and runs it.

It takes over the command's directory, environment, standard streams and ignored signals.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlwin.console.scripts import Script, give_scripts
from sqlwin.engine import wire
from sqlwin.engine.place import SWITCH

if TYPE_CHECKING:
    from sqlwin.engine.attached import Attached

# Seconds for a run to end after its command is gone
_HANG_UP_SECONDS = 15.0
# Exit code of Python if standard output cannot be flushed
_NOT_FLUSHED = 120


@dataclass(frozen=True)
class Spark:
    """The JVM of an engine.

    Attributes:
        port: Port of its gateway.
        secret: Authentication secret of the gateway.
        settings: Spark configuration.
        environment: Environment of the engine when it started.
    """

    port: int
    secret: str
    settings: Mapping[str, str]
    environment: Mapping[str, str]


class EngineRun:
    """Work of a fork of the engine.

    Args:
        engine: Channel to the engine.
        spark: The JVM.
        is_first: Whether to start Spark in the JVM.
        main: Runs a command line and raises SystemExit with the exit code.
    """

    def __init__(
        self,
        engine: socket.socket,
        spark: Spark,
        is_first: bool,
        main: Callable[[Sequence[str]], None],
    ) -> None:
        self._engine = engine
        self._spark = spark
        self._is_first = is_first
        self._main = main

    def execute(self) -> int:
        """Attach, wait and run. Return the exit code, 0 if this process left nothing behind."""
        # imported late: the engine loads it while the JVM starts
        from sqlwin.engine.attached import Attached

        spark = self._spark
        try:
            attached = Attached(spark.port, spark.secret, spark.settings, is_first=self._is_first)
        except Exception as error:
            traceback.print_exc()
            with suppress(OSError):  # the engine is gone
                wire.send_message(self._engine, {"failed": str(error).splitlines()[0]})
            return 1
        try:
            wire.send_message(self._engine, {"ready": True})
            request, files = wire.receive(self._engine, 4)
        except (OSError, wire.Closed):
            return 0  # the engine has ended
        command = socket.socket(fileno=files[0])
        command.settimeout(None)  # the engine has set one
        with command:
            if self._accepts(attached, command, request, files[1:]):
                self._run_command(attached, command, request)
            else:
                attached.leave()
        wire.send_message(self._engine, {"done": True})
        return 0

    def _accepts(
        self, attached: Attached, command: socket.socket, request: wire.Message, files: list[int]
    ) -> bool:
        """Take over the command's state. Return whether the command can run."""
        try:
            if not all(map(attached.can_change, request["conf"])):
                wire.send_message(command, {"declined": True})
                return False
            _adopt_state_of(request, files, self._spark.environment)
            attached.begin(Path.cwd())
            wire.send_message(command, {"ready": os.getpid()})
            wire.receive(command)
        except (OSError, wire.Closed):
            return False
        return True

    def _run_command(
        self, attached: Attached, command: socket.socket, request: wire.Message
    ) -> None:
        ended = threading.Event()
        listener = threading.Thread(
            target=_receive_signals, args=(command, ended), name="sqlwin-command", daemon=True
        )
        listener.start()
        code = self._exit_code(request["arguments"])
        try:
            attached.stop_all()
        finally:
            # Spark may be gone too, and the command has reported that already
            ended.set()
            self._report_exit(command, code)
        attached.leave()

    def _report_exit(self, command: socket.socket, code: int) -> None:
        # Close the streams first, so that readers of the output see its end
        for number in (0, 1, 2):
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        with suppress(OSError):  # the engine has exited, which does not affect the command
            wire.send_message(self._engine, {"over": True})
        with suppress(OSError):  # the command is gone
            wire.send_message(command, {"exit": code})

    def _exit_code(self, arguments: Sequence[str]) -> int:
        """Run the command line and return its exit code, as Python itself would exit."""
        try:
            self._main(arguments)
            code: object = 0
        except SystemExit as end:
            code = end.code
            if code is not None and not isinstance(code, int):
                print(code, file=sys.stderr)
                code = 1
        except KeyboardInterrupt:
            code = 128 + signal.SIGINT
        except Exception:
            traceback.print_exc()
            code = 1
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:
            return _NOT_FLUSHED
        return code if isinstance(code, int) else 0


def _adopt_state_of(request: wire.Message, files: list[int], before: Mapping[str, str]) -> None:
    """Take over the command's directory, environment, streams and signals.

    Args:
        request: Request of the command.
        files: Standard streams of the command.
        before: Environment of the engine at its start. Variables that PySpark has set since then
            stay.
    """
    os.chdir(request["directory"])
    needed = {k: v for k, v in os.environ.items() if before.get(k) != v}
    os.environ.clear()
    os.environ.update({**request["environment"], **needed, SWITCH: "off"})
    time.tzset()
    give_scripts([Script(text, file) for text, file in request["scripts"]])
    sys.argv = ["sqlwin", *request["arguments"]]
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    encoding, errors = sys.stdout.encoding, sys.stdout.errors
    sys.stdin = open(0, encoding=encoding, errors=errors, closefd=False)
    sys.stdout = open(
        1, "w", encoding=encoding, errors=errors, closefd=False, buffering=1 if os.isatty(1) else -1
    )
    sys.stderr = open(
        2, "w", encoding=encoding, errors="backslashreplace", closefd=False, buffering=1
    )
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)


def _receive_signals(command: socket.socket, ended: threading.Event) -> None:
    """Forward the command's signals to this process, and end the process if the command is gone.

    A lost command is treated like a terminal that hangs up.
    """
    main = threading.main_thread().ident
    assert main is not None
    try:
        while True:
            message, _ = wire.receive(command)
            signal.pthread_kill(main, message["signal"])
    except (OSError, wire.Closed):
        if ended.is_set():
            return
    number = signal.SIGHUP if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN else signal.SIGTERM
    signal.pthread_kill(main, number)
    if not ended.wait(_HANG_UP_SECONDS):
        os._exit(1)
