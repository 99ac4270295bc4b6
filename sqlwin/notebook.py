"""IPython extension with the magics `%sqlwin` and `%%sqlwin`. No other module imports IPython."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import HTML, display
from rich.console import Console

from planner.explain.document import Document
from runtime.errors import SqlwinError
from runtime.spec.figures import count_text
from sqlwin.control import SessionControl
from sqlwin.display.charts.svg import svg_charts
from sqlwin.display.charts.text import write_chart
from sqlwin.display.html_table import MAX_ROWS, html_table
from sqlwin.display.table import DEFAULT_MAX_ROWS, print_table
from sqlwin.execution.explain_formats import Explanation
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
    from IPython.core.interactiveshell import InteractiveShell

    from sqlwin.session import Session

# Name of the notebook variable that holds the session
SESSION_NAME = "sqlwin_session"


@magics_class
class SqlwinMagics(Magics):
    """Line magic `%sqlwin` and cell magic `%%sqlwin`."""

    def __init__(self, shell: InteractiveShell, connect: Callable[[], Session]) -> None:
        super().__init__(shell)
        self._connect = connect

    @magic_arguments()
    @argument("name", nargs="?", help="a variable for the last query's DataFrame")
    @argument("--chart", action="store_true", help="draw the results")
    @argument("--explain", action="store_true", help="show the plans without running")
    @argument("--analyze", action="store_true", help="run, and show the plans with measurements")
    @line_cell_magic
    def sqlwin(self, line: str, cell: str | None = None) -> Any:
        """Run SQL statements and show their results.

        `%sqlwin SELECT ...` runs the rest of the line and returns the last result, as in `result =
        %sqlwin SELECT ...`. Options come before the SQL. `%%sqlwin` runs the cell. Both use the
        session in the variable `sqlwin_session`, and create it with `sqlwin.connect()` if the
        notebook has not set it. `:name` in the SQL is the notebook variable of that name. A SELECT
        on a stream shows its last rows as windows close. Interrupt the cell to stop it.
        """
        words, sql = (line, cell) if cell is not None else _switches(line)
        arguments = parse_argstring(self.sqlwin, words)
        try:
            session = self._session()
            control, values = SessionControl(session), self.shell.user_ns
            if arguments.explain or arguments.analyze:
                documents = control.query_documents(sql, analyze=arguments.analyze, values=values)
                explained = Explanation(Document(documents), "text")
                display(explained) if self._is_notebook() else print(explained)
                return None
            last = None
            for result in control.run_script(sql, None, values):
                if last is not None:
                    _show(last, is_chart=arguments.chart, is_notebook=self._is_notebook())
                if isinstance(result, RowsResult) and arguments.name:
                    self.shell.user_ns[arguments.name] = result.dataframe
                last = result
            return self._end(last, is_chart=arguments.chart, is_cell=cell is not None)
        except SqlwinError as error:
            # Errors of sqlwin say what to change, so a traceback adds nothing.
            raise UsageError(str(error)) from None

    def _end(self, last: Result | None, *, is_chart: bool, is_cell: bool) -> Any:
        """Show the last result, unless the notebook displays the returned value itself."""
        if last is None:
            return None
        shows_itself = self._is_notebook() and not _is_stream(last) and not is_chart
        if is_cell or not shows_itself:
            _show(last, is_chart=is_chart, is_notebook=self._is_notebook())
        else:
            _print_notes(last)
        return None if is_cell or is_chart else last

    def _is_notebook(self) -> bool:
        """Return whether the front end can show HTML and pictures. A terminal cannot."""
        return getattr(self.shell, "kernel", None) is not None

    def _session(self) -> Session:
        session: Any = self.shell.user_ns.get(SESSION_NAME)
        if session is None:
            session = self.shell.user_ns[SESSION_NAME] = self._connect()
        opened: Session = session
        return opened


def load(shell: InteractiveShell, connect: Callable[[], Session]) -> None:
    """Register the magics. `connect` creates a session if the notebook has none."""
    shell.register_magics(SqlwinMagics(shell, connect))


def _is_stream(result: Result) -> bool:
    return isinstance(result, RowsResult) and isinstance(result.data, StreamedRows)


def _show_stream(result: Result, stream: StreamedRows) -> None:
    """Show the last rows of a stream in a table that updates until the stream is stopped."""
    n_rows, last = 0, pa.table({name: pa.array([], pa.null()) for name in result.columns})

    def shown(is_over: bool) -> HTML:
        shown_rows = count_text(n_rows, "rows")
        if n_rows > last.num_rows:
            shown_rows = f"the last {last.num_rows} of {shown_rows}"
        status = stream.opened.status()
        foot = [shown_rows, *([status] if status else [])]
        if not is_over:
            foot.append("interrupt the cell to stop it")
        return HTML(html_table(result.columns, last.to_batches(), " · ".join(foot)))

    place = display(shown(is_over=False), display_id=True)
    try:
        for batch in result.batches():
            n_rows += batch.num_rows
            taken = pa.Table.from_batches([batch])
            rows = pa.concat_tables([last, taken]) if last.schema == taken.schema else taken
            last = rows.slice(max(0, rows.num_rows - MAX_ROWS))
            place.update(shown(is_over=False))
    except KeyboardInterrupt:
        pass  # users stop a stream by interrupting the cell, and its table stays
    place.update(shown(is_over=True))


def _switches(line: str) -> tuple[str, str]:
    """Split a line into the options at its beginning and the SQL behind them.

    Example:
        >>> _switches("--chart SELECT 1 -- one")
        ('--chart', 'SELECT 1 -- one')
    """
    match = re.match(r"((?:\s*--(?:chart|explain|analyze)\b)*)\s*(.*)", line, re.DOTALL)
    assert match is not None
    return match.group(1).strip(), match.group(2)


def _show(result: Result, *, is_chart: bool, is_notebook: bool) -> None:
    match result:
        case RowsResult() | TableResult() if is_chart and is_notebook:
            display(HTML(svg_charts(result.columns, result.batches())))
        case RowsResult() | TableResult() if is_chart:
            write_chart(result.columns, result.batches(), sys.stdout.write)
        case RowsResult(data=StreamedRows() as stream) if is_notebook:
            _show_stream(result, stream)
        case _ if is_notebook:
            display(result)
        case RowsResult() | TableResult():
            batches = result.batches(DEFAULT_MAX_ROWS + 1)
            print_table(result.columns, batches, Console(highlight=False))
        case ExplainResult():
            print(result.text)
        case MessageResult() | InsertResult() | StreamResult():
            print(result.message)
    _print_notes(result)


def _print_notes(result: Result) -> None:
    for note in result.notes:
        print(f"note: {note}")
