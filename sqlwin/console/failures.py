"""How a run ends that does not end well: what is said, and the exit code."""

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

# In the context of a command: the arguments of the program
SAID_ARGUMENTS = "sqlwin.arguments"
SQL_IS_WRONG = 1
FAILED_WHILE_RUNNING = 3
# What is said of a signal; of SIGHUP nothing, whose terminal is gone
_SAID: dict[int, str] = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
# Of a line of SQL in an error that goes to a file or a pipe
_FILE_COLUMNS = 200
# Signals that ask a process to end
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# As of a program that does not mind the signal, so that `set -o pipefail` sees it
READER_LEFT = 128 + signal.SIGPIPE


Handler = Callable[[int, FrameType | None], None]


class Stopped(KeyboardInterrupt):
    """The process was asked to end, by Ctrl-C (SIGINT), SIGTERM or SIGHUP."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class ReportingGroup(click.Group):
    """A group of commands that reports errors as `reported` does."""

    def make_context(
        self, info_name: str | None, args: list[str], *rest: Any, **extra: Any
    ) -> click.Context:
        """The context, which knows the arguments as they were given."""
        said = list(args)
        context = super().make_context(info_name, args, *rest, **extra)
        context.meta[SAID_ARGUMENTS] = said
        return context

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for."""
        with reported(), stopped_by_signals(lambda: None):
            result = super().invoke(ctx)
            # Here and not at exit, where it would be too late for a good report
            sys.stdout.flush()
            return result


@contextmanager
def stopped_by_signals(before: Callable[[], None]) -> Iterator[None]:
    """Inside, SIGINT, SIGTERM and SIGHUP raise `Stopped`, after a call of `before`.

    A second signal ends the process at once.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        end_at_next_signal()
        before()
        raise Stopped(number)

    with signals_handled(dict.fromkeys(ENDING, stop)):
        yield


@contextmanager
def signals_handled(handlers: Mapping[signal.Signals, Handler]) -> Iterator[None]:
    """Inside, signals have these handlers, but for signals that the process ignores.

    A program started by nohup, or in the background of a script, keeps on ignoring them.
    """
    replaced = {n: signal.getsignal(n) for n in handlers if signal.getsignal(n) != signal.SIG_IGN}
    for number in replaced:
        signal.signal(number, handlers[number])
    try:
        yield
    finally:
        for number, handler in replaced.items():
            # After `end_at_next_signal` the default stays, for what is still to be cleaned up.
            if signal.getsignal(number) == handlers[number]:
                signal.signal(number, handler)


def end_at_next_signal() -> None:
    """Let the next signal that asks the process to end do so at once, unless it is ignored."""
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def reported() -> Iterator[None]:
    """Turn an error that is raised inside into a message on stderr and an exit code.

    1 for an error in the SQL, 3 for one while it ran, 130 after Ctrl-C (128 and the number of
    the signal). Nothing is said when the reader of a pipe has gone. Where none of this fits, the
    trace goes to a file; with `SQLWIN_DEBUG=1` in the environment it is raised.
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
    """Say what happened; the exit code."""
    if stop is not None:
        number = stop.number if isinstance(stop, Stopped) else signal.SIGINT
        if number in _SAID:
            print(_SAID[number], file=sys.stderr)
        return 128 + number
    if isinstance(error, BrokenPipeError):
        # What is still in the buffer must not be tried again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_LEFT
    say_failure(error)
    if isinstance(error, SqlwinError) and not isinstance(error, ExecutionError | SetupError):
        return SQL_IS_WRONG
    return FAILED_WHILE_RUNNING


def _stop_behind(error: BaseException) -> KeyboardInterrupt | None:
    """The interruption that led to `error`.

    A call to Spark that is interrupted raises what Spark says of the cancelled job, and the
    interruption is only found in that error's context.
    """
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        found = waiting.pop()
        if isinstance(found, KeyboardInterrupt):
            return found
        if found is not None and found not in seen:
            seen.append(found)
            waiting += [found.__cause__, found.__context__]
    return None


def report_text(error: SqlwinError) -> str:
    """Return the report of an error, whose line of SQL fits on the screen.

    Otherwise the screen would break the line, and carets would not stand below what they mark.
    """
    return error.report(_width_of_errors())


def _width_of_errors() -> int:
    """Return the columns of the terminal that shows errors; of a file, as many as are readable."""
    named = os.environ.get("COLUMNS", "")
    if named.isdigit() and int(named):
        return int(named)
    try:
        # standard output, where `shutil.get_terminal_size` looks, may go elsewhere
        return os.get_terminal_size(sys.stderr.fileno()).columns or _FILE_COLUMNS
    except (OSError, ValueError):  # no terminal, or no file at all
        return _FILE_COLUMNS


def say_error(text: str) -> None:
    """Print `error: ` and the text on stderr, the first line in red on a terminal."""
    from rich.console import Console
    from rich.text import Text

    first, _, rest = text.partition("\n")
    report = Text.assemble(("error: ", "bold red"), (first, "red"), "\n" * bool(rest), rest)
    Console(stderr=True).print(report, soft_wrap=True, highlight=False)


def say_failure(error: BaseException) -> None:
    """Say on stderr what went wrong; of an error that nobody thought of, where its trace is."""
    if isinstance(error, SqlwinError):
        say_error(report_text(error))
        return
    said = str(error).strip().splitlines() or ["no message"]
    say_error(
        f"unexpected {type(error).__name__}: {DEFAULT.text(said[0])[:300]}\n"
        f"  the full trace is in {write_trace(error)}"
    )


def _debugging() -> bool:
    return os.environ.get("SQLWIN_DEBUG", "") not in ("", "0")


def write_trace(error: BaseException) -> str:
    """Write the trace of an error to a new file, which stays for a week; return its name."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix="error-", suffix=".log", delete=False, dir=user_directory()
    ) as log:
        log.write(DEFAULT.text("".join(traceback.format_exception(error))))
    return log.name
