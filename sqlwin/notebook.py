"""`%load_ext sqlwin`: the cell magic `%%sqlwin`. IPython is imported with this module only."""

from __future__ import annotations

import html
import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import HTML, display
from rich.console import Console

from runtime.errors import SqlwinError
from sqlwin.display.chart import write_chart
from sqlwin.display.html_table import MOST_ROWS, html_table
from sqlwin.display.table import DEFAULT_MAX_ROWS, write_table
from sqlwin.result import Result

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from sqlwin.session import Session

# The variable of the notebook that holds the session
SESSION_NAME = "sqlwin_session"


@magics_class
class SqlwinMagics(Magics):
    """The cell magic `%%sqlwin`.

    Args:
        shell: the notebook's.
        connect: makes a session where the notebook has none.
    """

    def __init__(self, shell: InteractiveShell, connect: Callable[[], Session]) -> None:
        super().__init__(shell)
        self._connect = connect

    @magic_arguments()
    @argument("name", nargs="?", help="a variable for the last query's DataFrame")
    @argument("--chart", action="store_true", help="draw the results")
    @argument("--explain", action="store_true", help="show the plans and run nothing")
    @argument("--analyze", action="store_true", help="run, and show plans with what was measured")
    @cell_magic
    def sqlwin(self, line: str, cell: str) -> None:
        """Run the cell's SQL statements and show each result.

        They run in the session `sqlwin_session`, which is made by `sqlwin.connect()` unless the
        notebook has put one there. A SELECT on a stream shows its last rows as windows close;
        interrupting the cell stops it.
        """
        arguments = parse_argstring(self.sqlwin, line)
        try:
            session = self._session()
            if arguments.explain or arguments.analyze:
                explained = session.explain(cell, analyze=arguments.analyze)
                display(explained) if self._is_notebook() else print(explained)
                return
            for result in session.execute_iter(cell):
                if result.dataframe is not None and arguments.name:
                    self.shell.user_ns[arguments.name] = result.dataframe
                _show(result, is_chart=arguments.chart, is_notebook=self._is_notebook())
        except SqlwinError as error:
            # one that says what to change needs no traceback
            raise UsageError(str(error)) from None

    def _is_notebook(self) -> bool:
        """Whether pictures and tables in HTML are seen, as they are not in a terminal."""
        return getattr(self.shell, "kernel", None) is not None

    def _session(self) -> Session:
        session: Any = self.shell.user_ns.get(SESSION_NAME)
        if session is None:
            session = self.shell.user_ns[SESSION_NAME] = self._connect()
        found: Session = session
        return found


def load(shell: InteractiveShell, connect: Callable[[], Session]) -> None:
    """Give a notebook the magic; `connect` makes a session where the notebook has none."""
    shell.register_magics(SqlwinMagics(shell, connect))


def _show_stream(result: Result) -> None:
    """The last rows of a stream in a table that changes as windows close, until it is stopped."""
    n_rows, last = 0, pa.table({name: pa.array([], pa.null()) for name in result.columns})
    opened = result.open_stream
    assert opened is not None

    def shown(is_over: bool) -> HTML:
        counted = f"{n_rows:,} row{'' if n_rows == 1 else 's'}"
        if n_rows > last.num_rows:
            counted = f"the last {last.num_rows} of {counted}"
        status = opened.status()
        foot = [counted, *([status] if status else [])]
        if not is_over:
            foot.append("interrupt the cell to stop it")
        return HTML(html_table(result.columns, last.to_batches(), " · ".join(foot)))

    place = display(shown(is_over=False), display_id=True)
    try:
        for batch in result.batches():
            n_rows += batch.num_rows
            taken = pa.Table.from_batches([batch])
            rows = pa.concat_tables([last, taken]) if last.schema == taken.schema else taken
            last = rows.slice(max(0, rows.num_rows - MOST_ROWS))
            place.update(shown(is_over=False))
    except KeyboardInterrupt:
        pass  # how a cell is stopped: what it has shown stays
    place.update(shown(is_over=True))


def _show(result: Result, *, is_chart: bool, is_notebook: bool) -> None:
    text = io.StringIO()
    if is_chart and result.dataframe is not None:
        write_chart(result.columns, result.batches(), text.write, size=(110, 24), color=False)
        style = "line-height:1.15;font-family:monospace"
        if is_notebook:
            display(HTML(f'<pre style="{style}">{html.escape(text.getvalue())}</pre>'))
        else:
            print(text.getvalue(), end="")
    elif is_notebook and result.open_stream is not None:
        _show_stream(result)
    elif is_notebook:
        display(result)
    elif result.columns:
        write_table(result.columns, result.batches(DEFAULT_MAX_ROWS + 1), Console(highlight=False))
    else:
        print(result.text or result.message)
    for note in result.notes:
        print(f"note: {note}")
