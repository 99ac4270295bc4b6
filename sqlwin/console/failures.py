"""Error reports, signals and exit codes of the command line."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click

from runtime.errors import ExecutionError, SetupError, SqlwinError
from runtime.redaction import DEFAULT
from runtime.temporary import user_directory

# Key of the program's arguments in a command's context
ARGUMENTS = "sqlwin.arguments"
SQL_IS_WRONG = 1
FAILED_WHILE_RUNNING = 3
# Messages for signals; SIGHUP has none because the terminal is gone
_SIGNAL_MESSAGES: dict[int, str] = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
# Maximum width of a line of SQL in an error that goes to a file or a pipe
_FILE_COLUMNS = 200
# Signals that ask a process to end
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Exit code of a program killed by SIGPIPE, so that `set -o pipefail` notices
READER_LEFT = 128 + signal.SIGPIPE


Handler = Callable[[int, FrameType | None], None]


class Stopped(KeyboardInterrupt):
    """A signal asked the process to end: SIGINT (Ctrl-C), SIGTERM or SIGHUP."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class ReportingGroup(click.Group):
    """Command group that reports errors with `report_errors`."""

    def make_context(
        self, info_name: str | None, args: list[str], *rest: Any, **extra: Any
    ) -> click.Context:
        """Return the context with the original arguments."""
        original = list(args)
        context = super().make_context(info_name, args, *rest, **extra)
        context.meta[ARGUMENTS] = original
        return context

    def invoke(self, ctx: click.Context) -> Any:
        """Run the requested command."""
        with report_errors(), raise_on_signals(lambda: None):
            result = super().invoke(ctx)
            # Cleanup at exit would be too late for a good report
            sys.stdout.flush()
            return result


@contextmanager
def raise_on_signals(before: Callable[[], None]) -> Iterator[None]:
    """Raise `Stopped` on SIGINT, SIGTERM and SIGHUP in the block, after calling `before`.

    A second signal ends the process at once.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        end_at_next_signal()
        before()
        raise Stopped(number)

    with handle_signals(dict.fromkeys(ENDING, stop)):
        yield


@contextmanager
def handle_signals(handlers: Mapping[signal.Signals, Handler]) -> Iterator[None]:
    """Install signal handlers for the block, except for signals that the process ignores.

    A program started by nohup, or in the background of a script, goes on ignoring them.
    """
    replaced = {n: signal.getsignal(n) for n in handlers if signal.getsignal(n) != signal.SIG_IGN}
    for number in replaced:
        signal.signal(number, handlers[number])
    try:
        yield
    finally:
        for number, handler in replaced.items():
            # After `end_at_next_signal` the default stays during cleanup.
            if signal.getsignal(number) == handlers[number]:
                signal.signal(number, handler)


def end_at_next_signal() -> None:
    """Make the next signal end the process at once, unless the signal is ignored."""
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def report_errors() -> Iterator[None]:
    """Turn an error of the block into a message on stderr and an exit code.

    The code is 1 for an error in the SQL, 3 for one at run time, 130 after Ctrl-C (128 and the
    number of the signal). A closed pipe is not reported. The trace of any other error goes to a
    file. With `SQLWIN_DEBUG=1` in the environment errors are raised.
    """
    try:
        yield
    except (click.ClickException, click.Abort, click.exceptions.Exit):
        raise
    except (KeyboardInterrupt, Exception) as error:
        stop = _stop_behind(error)
        if stop is None and _debugging():
            raise
        sys.exit(_report(error, stop))


def _report(error: BaseException, stop: KeyboardInterrupt | None) -> int:
    """Print the error and return the exit code."""
    if stop is not None:
        number = stop.number if isinstance(stop, Stopped) else signal.SIGINT
        if number in _SIGNAL_MESSAGES:
            print(_SIGNAL_MESSAGES[number], file=sys.stderr)
        return 128 + number
    if isinstance(error, BrokenPipeError):
        # Discard the buffer, so that it is not flushed again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_LEFT
    say_failure(error)
    if isinstance(error, SqlwinError) and not isinstance(error, ExecutionError | SetupError):
        return SQL_IS_WRONG
    return FAILED_WHILE_RUNNING


def _stop_behind(error: BaseException) -> KeyboardInterrupt | None:
    """Return the interruption that caused an error, or None.

    An interrupted call to Spark raises the cancelled job's error, with the interruption in its
    context.
    """
    causes: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        cause = waiting.pop()
        if isinstance(cause, KeyboardInterrupt):
            return cause
        if cause is not None and cause not in causes:
            causes.append(cause)
            waiting += [cause.__cause__, cause.__context__]
    return None


def report_text(error: SqlwinError) -> str:
    """Return an error's report, with its line of SQL cut to the width of the screen.

    The terminal would wrap a longer line and misplace the carets below it.
    """
    return error.report(_width_of_errors())


def _width_of_errors() -> int:
    """Return the width of the terminal that shows errors, or a readable width for a file."""
    named = os.environ.get("COLUMNS", "")
    if named.isdigit() and int(named):
        return int(named)
    try:
        # `shutil.get_terminal_size` would measure standard output, which may be redirected
        return os.get_terminal_size(sys.stderr.fileno()).columns or _FILE_COLUMNS
    except (OSError, ValueError):  # not a terminal, or no file at all
        return _FILE_COLUMNS


def say_error(text: str) -> None:
    """Print `error: ` and the text on stderr, the first line in red on a terminal."""
    from rich.console import Console
    from rich.text import Text

    first, _, rest = text.partition("\n")
    report = Text.assemble(("error: ", "bold red"), (first, "red"), "\n" * bool(rest), rest)
    Console(stderr=True).print(report, soft_wrap=True, highlight=False)


def say_failure(error: BaseException) -> None:
    """Print an error on stderr. For an unexpected error, name the file with its trace."""
    if isinstance(error, SqlwinError):
        say_error(report_text(error))
        return
    message = str(error).strip().splitlines() or ["no message"]
    say_error(
        f"unexpected {type(error).__name__}: {DEFAULT.text(message[0])[:300]}\n  full trace: "
        f"{write_trace(error)}"
    )


def _debugging() -> bool:
    return os.environ.get("SQLWIN_DEBUG", "") not in ("", "0")


def write_trace(error: BaseException) -> str:
    """Write the trace of an error to a new file, kept for a week, and return its name."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix="error-", suffix=".log", delete=False, dir=user_directory()
    ) as log:
        log.write(DEFAULT.text("".join(traceback.format_exception(error))))
    return log.name
