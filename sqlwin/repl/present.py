r"""Presentation of results: on the screen, through the pager, or in the file of \o."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from runtime.spec.figures import count_text
from sqlwin.console.formats import elapsed_text, writer_of
from sqlwin.display.progress import ProgressBar
from sqlwin.display.table import is_better_vertical, print_table, write_vertical
from sqlwin.repl.commands import ReplOptions
from sqlwin.repl.output import PARQUET
from sqlwin.repl.programs import PagedText, PagerClosed, pager_command
from sqlwin.repl.session_thread import Cancelled, SessionThread
from sqlwin.result import (
    ExplainResult,
    InsertResult,
    MessageResult,
    Result,
    RowsResult,
    StreamedRows,
    StreamResult,
    TableResult,
)

if TYPE_CHECKING:
    from sqlwin.repl.live import Keys, LiveView

# Wider than any table
_UNBOUNDED = 1_000_000
# Lines of the screen reserved for the prompt
_PROMPT_LINES = 4
_MORE = "\\rows 0 shows all, \\o FILE writes them to a file"


def has_only_message(result: Result) -> bool:
    """Return whether a result is only a message, as for CREATE or SET."""
    return isinstance(result, MessageResult | InsertResult | StreamResult)


class PromptPresenter:
    """Presenter of results according to the options.

    Args:
        options: Options of the prompt.
        bar: Progress bar while waiting for rows.
        thread: Session thread, which knows about interrupts.
        write: Prints on the screen.
        keep: Receives text typed while a stream was shown.
        can_page: Whether the output is an interactive screen.
    """

    def __init__(
        self,
        options: ReplOptions,
        bar: ProgressBar,
        thread: SessionThread,
        write: Callable[[str], object],
        keep: Callable[[str], object],
        *,
        can_page: bool,
    ) -> None:
        self.is_paging = False
        self.bar = bar
        self._thread = thread
        self._options = options
        self._write = write
        self._keep = keep
        self._view: LiveView | None = None
        self._keys: Keys | None = None
        self._can_page = can_page
        self._colours = Console().color_system if can_page else None

    def show(self, result: Result, started: float) -> None:
        """Show a result. `started` is the start of its statement (`time.monotonic`)."""
        is_table = self._options.format == "table"
        match result:
            case MessageResult():
                self._say(result.message)
            case InsertResult() | StreamResult():
                self._say(result.message + self._took(started))
            case _ if self._options.output is not None:
                self._to_file(result, started)
            case ExplainResult():
                text = result.text.rstrip("\n") + "\n"
                width, height = shutil.get_terminal_size()
                is_wide = max(map(cell_len, text.split("\n"))) > width
                self._page(text, at_once=is_wide or text.count("\n") > height - _PROMPT_LINES)
            case RowsResult(data=StreamedRows() as stream) if is_table:
                self._show_stream(result, stream, started)
            case RowsResult() | TableResult() if is_table:
                self._show_table(result, started)
            case _:
                self._show_text(result, started)
        for note in result.notes:
            self._say(f"note: {note}", dim=True)

    def show_end(self) -> None:
        """Show that the current stream is stopping."""
        if self._view is not None:
            self._view.show_end()

    def mute(self) -> None:
        """Stop showing results and reading keys, even if something is still running."""
        self._write = lambda text: None
        self.bar.__exit__()
        if self._view is not None:
            self._view.close()
        if self._keys is not None:
            self._keys.close()

    # -- the screen ----------------------------------------------------------------------------

    def _show_table(self, result: Result, started: float) -> None:
        limit = self._options.max_rows
        batches = list(self._batches(result, None if limit is None else limit + 1))
        took = self._took(started)  # excluding the time that the user spends in the pager
        width, height = shutil.get_terminal_size()
        vertical = self._options.vertical
        if isinstance(result, TableResult) and is_better_vertical(
            result.columns, batches, width, self._options.null
        ):
            vertical = "on"
        if vertical != "on":
            text, n_rows, is_cut = self._render(print_table, result, batches, _UNBOUNDED)
            # the rule below the names is as wide as the table
            needed = max(cell_len(Text.from_ansi(line).plain) for line in text.split("\n")[:2])
            if needed > width and vertical == "auto":
                vertical = "on"
            elif needed > width and not self._pages():
                text, n_rows, is_cut = self._render(print_table, result, batches, width)
                needed = width
        if vertical == "on":
            text, n_rows, is_cut = self._render(write_vertical, result, batches, width)
            needed = width
        is_long = text.count("\n") > height - _PROMPT_LINES
        if (is_long or needed > width) and self._pages():
            self._page(text, at_once=True)
        else:
            self._write(text)
        self._say(count_text(n_rows, "rows") + (" shown" if is_cut else "") + took, dim=True)

    def _show_stream(self, result: RowsResult, stream: StreamedRows, started: float) -> None:
        """Show rows as windows close, until the stream ends or the user presses q or Ctrl-C."""
        from sqlwin.repl.live import Keys, LiveView

        view = LiveView(
            result.columns,
            stream.opened.status,
            Console(highlight=False),
            null=self._options.null,
            keys=self._latest_keys(result.columns, stream),
            kind=stream.kind_place,
        )
        self._view = view
        try:
            with Keys("q", self._leave_stream, self._keep) as self._keys:
                view.show(iter(result.batches()))
        finally:
            self._view = self._keys = None
            self._foot(view.n_rows, " in total", started)
        self._check_interrupted()

    def _latest_keys(self, columns: Sequence[str], stream: StreamedRows) -> list[int] | None:
        r"""Return the positions of the key columns for \latest, or None to show all rows."""
        from sqlwin.repl.live import latest_places

        latest = self._options.latest
        if latest == "off":
            return None
        places = latest_places(latest, columns, stream.opened.keys)
        if places is None:
            hint = "name them with \\latest COLUMN, ..."
            self._say(f"note: the query is not grouped by keys; {hint}", dim=True)
        return places

    def _check_interrupted(self) -> None:
        """Raise `Cancelled` after Ctrl-C, which also skips the following statements. q does not."""
        if self._thread.was_interrupted:
            raise Cancelled

    def _leave_stream(self) -> None:
        self.show_end()
        self._thread.end()

    def _show_text(self, result: Result, started: float) -> None:
        """Write CSV, JSON and the like as it arrives, through a pager once the screen is full."""
        with self._page_of() as paged:

            def write(text: str) -> None:
                self._thread.check()
                paged.write(text)

            try:
                writer = writer_of(self._options.format, to_file=False)
                n_rows = writer(result.columns, self._batches(result, None), write)
                message = count_text(n_rows, "rows") + self._took(started)
            except PagerClosed:
                message = "the pager was closed before the end"
        self._say(message, dim=True)
        self._check_interrupted()

    def _render(
        self,
        show: Callable[..., tuple[int, bool]],
        result: Result,
        batches: Sequence[pa.RecordBatch],
        width: int,
    ) -> tuple[str, int, bool]:
        """Return the output of `print_table` or `write_vertical`, and their results."""
        console, stream = self._console(width)
        max_rows, null = self._options.max_rows, self._options.null
        n_rows, is_cut = show(
            result.columns, batches, console, max_rows=max_rows, null=null, more=_MORE
        )
        text = "\n".join(line.rstrip() for line in stream.getvalue().split("\n"))
        return text, n_rows, is_cut

    def _console(self, width: int) -> tuple[Console, io.StringIO]:
        stream = io.StringIO()
        console = Console(
            file=stream,
            force_terminal=True,
            color_system=self._colours,  # type: ignore[arg-type]  # its own answer
            width=width,
            highlight=False,
        )
        return console, stream

    def _pages(self) -> bool:
        return self._can_page and self._options.pager and pager_command() is not None

    def _page(self, text: str, at_once: bool = False) -> None:
        try:
            with self._page_of() as paged:
                if at_once:
                    paged.page()
                paged.write(text)
        except PagerClosed:
            return  # read as far as the user wanted

    def _page_of(self) -> PagedText:
        height = shutil.get_terminal_size().lines
        command = pager_command() if self._pages() else None
        return PagedText(height - _PROMPT_LINES, self._write, command, on_page=self._note_paging)

    def _note_paging(self, is_paging: bool) -> None:
        self.is_paging = is_paging

    # -- a file --------------------------------------------------------------------------------

    def _to_file(self, result: Result, started: float) -> None:
        file = self._options.output
        assert file is not None
        format = file.format or self._options.format

        def write(text: str) -> None:
            self._thread.check()
            file.write(text)

        is_text = isinstance(result, ExplainResult)
        is_continued = not is_text and file.begin(result.columns, format)
        if isinstance(result, ExplainResult):
            text = result.text.rstrip("\n") + "\n"
            write(text)
            n_rows = text.count("\n")
        elif format == PARQUET:
            n_rows = file.write_parquet(result.columns, self._batches(result, None))
        elif format == "table":
            stream = io.StringIO()
            console = Console(file=stream, force_terminal=False, color_system=None)
            shown = write_vertical if self._options.vertical == "on" else print_table
            batches = self._batches(result, None)
            n_rows, _ = shown(
                result.columns, batches, console, max_rows=None, null=self._options.null
            )
            write(stream.getvalue())
        else:
            writer = writer_of(format, to_file=True, has_header=not is_continued)
            n_rows = writer(result.columns, self._batches(result, None), write)
        file.flush()
        self._foot(n_rows, f" written to {file.path}", started)
        if isinstance(result, RowsResult) and isinstance(result.data, StreamedRows):
            self._check_interrupted()

    # -- rows ----------------------------------------------------------------------------------

    def _batches(self, result: Result, limit: int | None) -> Iterator[pa.RecordBatch]:
        for batch in self.bar.watch(iter(result.batches(limit)), "Running"):
            self._thread.check()
            yield batch

    def _foot(self, n_rows: int, suffix: str, started: float) -> None:
        self._say(count_text(n_rows, "rows") + suffix + self._took(started), dim=True)

    def _took(self, started: float) -> str:
        return f" ({elapsed_text(started)})" if self._options.timing else ""

    def _say(self, text: str, dim: bool = False) -> None:
        console, stream = self._console(max(shutil.get_terminal_size().columns, 20))
        console.print(Text(text, style="dim" if dim else ""), soft_wrap=True)
        self._write(stream.getvalue())
