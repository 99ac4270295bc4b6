"""Main loop of the prompt: read, run, show."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.processors import HighlightMatchingBracketProcessor
from prompt_toolkit.lexers import PygmentsLexer

from runtime.errors import SqlwinError
from runtime.spec.figures import count_text
from sqlwin.console.failures import (
    Stopped,
    end_at_next_signal,
    handle_signals,
    report_text,
    say_failure,
)
from sqlwin.console.scripts import Script
from sqlwin.control import SessionControl
from sqlwin.repl import commands, toolbar
from sqlwin.repl.commands import ReplOptions
from sqlwin.repl.completion.names import SessionNames
from sqlwin.repl.completion.suggestions import SqlCompleter
from sqlwin.repl.highlighting import STYLE, SqlwinLexer
from sqlwin.repl.history import history_path, open_history
from sqlwin.repl.keys import key_bindings
from sqlwin.repl.session_thread import Cancelled, SessionState, SessionThread
from sqlwin.repl.statements import is_command
from sqlwin.repl.terminal import keep_ctrl_d, prompt_input

if TYPE_CHECKING:
    from sqlwin.repl.present import PromptPresenter
    from sqlwin.session import Session

# Seconds between redraws of the prompt while Spark starts
_REFRESH_SECONDS = 0.125
# Seconds to delay Spark's start, so that the prompt appears first
_START_DELAY_SECONDS = 0.02


class Repl:
    """The interactive prompt.

    Args:
        connect: Creates the session. Called in the session's thread.
        options: Initial options of the prompt.
        progress: Whether to show a progress bar while a statement runs.
    """

    def __init__(
        self, connect: Callable[[], Session], options: ReplOptions, *, progress: bool = True
    ) -> None:
        self.options = options
        self.thread = SessionThread(connect)
        self.thread.on_change = self._redraw
        self.thread.waiting = self._bar_of_start
        self.thread.on_spark = self._use_spark
        self.history = open_history(history_path())
        self.names = SessionNames(self.thread)
        self.last_sql = ""
        # Statements of the input after the one that runs
        self._n_skipped = 0
        self.next_text = ""
        self._is_left = False
        # Whether Ctrl-C raises in the main thread. Otherwise it is recorded.
        self._raises = False
        self._stopped_by: int | None = None
        self._progress = progress
        # Whether the main thread waits for a statement
        self._is_waiting = False
        self._presenter: PromptPresenter | None = None
        self._prompt: PromptSession[str] = PromptSession(
            input=prompt_input(),
            history=self.history,
            multiline=True,
            lexer=PygmentsLexer(SqlwinLexer),
            style=STYLE,
            include_default_pygments_style=False,
            completer=SqlCompleter(self.names),
            complete_while_typing=True,
            auto_suggest=AutoSuggestFromHistory(),
            key_bindings=key_bindings(),
            input_processors=[HighlightMatchingBracketProcessor(chars="[](){}")],
            prompt_continuation=toolbar.continuation,
            bottom_toolbar=lambda: toolbar.toolbar(self.thread, self.options),
            enable_open_in_editor=True,
            tempfile_suffix=".sql",
            reserve_space_for_menu=6,
        )

    def run(self, files: Sequence[Script], expressions: Sequence[str]) -> None:
        """Read and run statements until the user leaves.

        Args:
            files: Scripts to run in the background first.
            expressions: Statements to run before the first prompt.
        """
        handlers = {
            signal.SIGINT: self._on_interrupt,
            signal.SIGTERM: self._on_stop,
            signal.SIGHUP: self._on_stop,
        }
        try:
            with handle_signals(handlers), keep_ctrl_d():
                for script in files:
                    self._preload(script)
                for text in expressions:
                    self.run_sql(text)
                while self._turn():
                    pass
        finally:
            self._close()

    def say(self, text: str) -> None:
        """Print text."""
        _write_screen(text.rstrip("\n") + "\n")

    def sleep(self, seconds: float) -> bool:
        """Wait and return True, or False if Ctrl-C ended the wait or arrived before it."""
        try:
            if self.thread.is_interrupted:
                raise KeyboardInterrupt
            time.sleep(seconds)
        except Stopped:
            raise
        except KeyboardInterrupt:
            self.say("")
            return False
        return True

    def open_page(self, port: int | None) -> str:
        """Serve the session's web page and return its address.

        Raises:
            SqlwinError: Spark does not start, or the port is in use.
        """
        self.thread.start()
        with self._ctrl_c(is_raised=False), self._bar_while_starting():
            return self.thread.wait(self.thread.submit(lambda session: session.ui(port).url))

    def run_sql(self, text: str, file: str | None = None, *, is_typed: bool = True) -> bool:
        """Run statements and show results. Return False if one failed or was cancelled."""
        if file is None and is_typed:
            self.last_sql = text
        with self._ctrl_c(is_raised=False):
            return self._run_sql(text, file)

    def _run_sql(self, text: str, file: str | None) -> bool:
        self.names.stop_learning()
        self.thread.start()
        self._n_skipped = 0
        future: Future[bool] = self.thread.submit(lambda s: self._execute(s, text, file))
        try:
            self._is_waiting = True
            with self._bar_while_starting():
                return self.thread.wait(future)
        except Cancelled:
            if not future.done():
                self._leave_screen()
            self._result_presenter().is_paging = False
            _say_dim("cancelled")
            return False
        except Exception as error:
            say_failure(error)
            if self._n_skipped > 0:
                _say_dim(f"skipped {count_text(self._n_skipped, 'statements')} after the error")
            return False
        finally:
            self._is_waiting = False
            self.names.learn_soon()

    # -- one turn ------------------------------------------------------------------------------

    def _turn(self) -> bool:
        """Read and run one input. Return False to leave the prompt."""
        if self._is_left:
            return False
        default, self.next_text = self.next_text, ""
        thread = self.thread
        is_starting = thread.state is SessionState.STARTING or thread.is_starting_spark
        try:
            text = self._prompt.prompt(
                lambda: toolbar.prompt(self.thread),
                default=default,
                editing_mode=EditingMode.VI if self.options.keys == "vi" else EditingMode.EMACS,
                refresh_interval=_REFRESH_SECONDS if is_starting else 0,
                pre_run=self._begin_line,
                handle_sigint=False,  # `_on_interrupt` handles it, also after the end of the line
            )
        except Stopped:
            raise
        except KeyboardInterrupt:
            return True  # the line is discarded, but kept in the history
        except EOFError:
            return False
        finally:
            if self._stopped_by is not None:
                raise Stopped(self._stopped_by)
        if not text.strip():
            return True
        if not is_command(text):
            self.run_sql(text)
            return True
        try:
            with self._ctrl_c(is_raised=True):
                commands.run_command(self, text)
        except commands.Quit:
            return False
        except Stopped:
            raise
        except KeyboardInterrupt:
            self.say("")
        except Exception as error:
            say_failure(error)
        return True

    def _begin_line(self) -> None:
        self.thread.forget_interrupts()  # no statement is running that they could end
        loop = self._prompt.app.loop
        assert loop is not None
        loop.call_later(_START_DELAY_SECONDS, self.thread.start)

    @contextmanager
    def _ctrl_c(self, *, is_raised: bool) -> Iterator[None]:
        """Make Ctrl-C raise in the main thread, or record it for `SessionThread.wait`.

        Ctrl-C raises while the main thread waits for something else, such as a program or a pause.
        A Ctrl-C recorded since the end of the line then raises too. A command that runs statements
        keeps a Ctrl-C that arrives when one has just ended.
        """
        before = self._raises
        try:
            self._raises = is_raised
            if is_raised and self.thread.is_interrupted:
                raise KeyboardInterrupt
            yield
        finally:
            self._raises = before
            if not before:
                self.thread.forget_interrupts()

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._presenter is not None and self._presenter.is_paging:
            return  # less handles its own Ctrl-C
        if self._raises:
            raise KeyboardInterrupt
        self.thread.interrupt()
        app = self._prompt.app
        if app.is_running and app.loop is not None:
            # raising here would disrupt the prompt at an arbitrary point
            app.loop.call_soon_threadsafe(self._press_ctrl_c)
        elif self._presenter is not None:
            self._presenter.show_end()

    def _press_ctrl_c(self) -> None:
        """Pass Ctrl-C to the line editor, or to the statement if the line has ended."""
        app = self._prompt.app
        if not app.is_running or app.context is None:
            return

        def press() -> None:
            # Process characters typed before the signal first.
            app.key_processor.feed_multiple(app.input.read_keys())
            app.key_processor.process_keys()
            if not app.is_done:
                self.thread.forget_interrupts()
                app.key_processor.feed(KeyPress(Keys.ControlC))
                app.key_processor.process_keys()

        app.context.copy().run(press)

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        end_at_next_signal()
        app = self._prompt.app
        if not app.is_running or app.loop is None:
            raise Stopped(number)
        self._stopped_by = number

        def leave() -> None:
            if app.is_running and not app.is_done:
                app.exit(exception=Stopped(number))

        # raising here would disrupt the prompt at an arbitrary point
        app.loop.call_soon_threadsafe(leave)

    # -- in the thread of the session ----------------------------------------------------------

    def _execute(self, session: Session, text: str, file: str | None) -> bool:
        """Run statements in order. Return False if Ctrl-C ended one, which skips the rest."""
        from sqlwin.display.spark_tasks import spark_task_counts
        from sqlwin.repl.present import has_only_message

        control = SessionControl(session)
        presenter = self._result_presenter()
        bar = presenter.bar
        control.take_interrupt = self.thread.take_interrupt
        if bar.counts is None and control.has_spark:
            bar.counts = spark_task_counts(session.spark, lambda: control.rows_scanned)
        bar.restart_clock()
        started = time.monotonic()
        results = control.run_script(text, file, self._values())
        self._n_skipped = control.number_of_statements(text) - 1
        for result in bar.watch(iter(results), "Running"):
            self._n_skipped -= 1
            self.thread.check()
            presenter.show(result, started)
            if has_only_message(result):
                self.names.forget()
            if self.thread.was_interrupted:
                return False
            bar.restart_clock()
            started = time.monotonic()
        return True

    def _use_spark(self, spark: Any) -> None:
        """Show the tasks of a Spark that has started, and complete names from its catalog."""
        from sqlwin.display.spark_tasks import spark_task_counts

        self.names.forget()
        session = self.thread.session
        if self._presenter is not None and session is not None:
            control = SessionControl(session)
            counts = spark_task_counts(spark, lambda: control.rows_scanned)
            self._presenter.bar.counts = counts

    def _values(self) -> dict[str, object] | None:
        r"""Return the parameter values set by \param."""
        if not self.options.params:
            return None
        from sqlwin.statements.literals import read_value

        return {name: read_value(value) for name, value in self.options.params.items()}

    def _preload(self, script: Script) -> None:
        """Run a file in the background and show its output above the prompt."""

        def work(session: Session) -> None:
            from sqlwin.repl.present import has_only_message

            shown: list[str] = []
            presenter = self._new_presenter(shown.append, is_on_screen=False)
            n_statements = 0
            try:
                results = SessionControl(session).run_script(
                    script.text, script.file, self._values()
                )
                for result in results:
                    n_statements += 1
                    if not has_only_message(result):
                        presenter.show(result, time.monotonic())
            except SqlwinError as error:
                shown.append(f"error: {report_text(error)}\n")
            shown.append(f"{script.file}: ran {count_text(n_statements, 'statements')}\n")
            self._say_above("".join(shown))

        self.thread.submit(work)

    def _say_above(self, text: str) -> None:
        """Print from another thread, above the prompt if it is active."""
        app = self._prompt.app
        loop = app.loop
        if app.is_running and loop is not None:
            loop.call_soon_threadsafe(lambda: run_in_terminal(lambda: self.say(text)))
        else:
            self.say(text)

    def _redraw(self) -> None:
        if self.thread.state is SessionState.READY:
            self.names.learn_soon()
        if self._prompt.app.is_running:
            self._prompt.app.invalidate()

    # -- showing -------------------------------------------------------------------------------

    def _result_presenter(self) -> PromptPresenter:
        """Presenter of results, created on first use because Arrow takes time to import."""
        if self._presenter is None:
            self._presenter = self._new_presenter(_write_screen, is_on_screen=True)
            self._presenter.bar.__enter__()
        return self._presenter

    def _new_presenter(
        self, write: Callable[[str], object], *, is_on_screen: bool
    ) -> PromptPresenter:
        from rich.console import Console

        from sqlwin.display.progress import ProgressBar
        from sqlwin.repl.present import PromptPresenter

        bar = ProgressBar(Console(stderr=True), enabled=is_on_screen and self._progress)
        return PromptPresenter(
            self.options, bar, self.thread, write, self._keep_typed, can_page=is_on_screen
        )

    def _leave_screen(self) -> None:
        """Silence the presenter of a cancelled statement that has not ended."""
        if self._presenter is not None:
            self._presenter.mute()
            self._presenter = None

    def _keep_typed(self, text: str) -> None:
        """Put text typed during a stream into the next prompt. A lone Ctrl-D leaves the prompt."""
        typed = text.replace("\x04", "")
        if typed.strip():
            self.next_text += typed
        elif typed != text:
            self._is_left = True

    @contextmanager
    def _bar_while_starting(self) -> Iterator[None]:
        if self.thread.state is SessionState.READY and not self.thread.is_starting_spark:
            yield
            return
        with self._result_presenter().bar.waiting("Starting Spark"):
            yield

    @contextmanager
    def _bar_of_start(self) -> Iterator[None]:
        """Show the progress bar while a statement that the user waits for starts Spark."""
        if not self._is_waiting:
            yield
            return
        with self._result_presenter().bar.waiting("Starting Spark"):
            yield

    def _close(self) -> None:
        if self._presenter is not None:
            self._presenter.bar.__exit__()
        if self.options.output is not None:
            try:
                self.options.output.close()
            except SqlwinError as error:
                say_failure(error)
        self.names.stop_learning()
        session = self.thread.session
        if session is not None and session.streams.running():
            from sqlwin.console.streams import stop_streams

            try:
                stop_streams(session)
            except KeyboardInterrupt:
                return  # a second one: everything ends with the process
        self.thread.close()


def _say_dim(text: str) -> None:
    """Print a dim line on stderr."""
    from rich.console import Console

    Console(stderr=True).print(text, style="dim", highlight=False)


def _write_screen(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
