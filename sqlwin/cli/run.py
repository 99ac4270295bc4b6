"""`sqlwin run`: runs scripts statement by statement and shows each result."""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import click
import pyarrow as pa
from rich.console import Console

from runtime.compute.arrow.without_pandas import without_pandas
from runtime.errors import kind_in_words
from runtime.spec.figures import count_text
from sqlwin.console.failures import raise_on_signals
from sqlwin.console.formats import elapsed_text, writer_of
from sqlwin.console.options import connect
from sqlwin.console.scripts import Script
from sqlwin.control import SessionControl
from sqlwin.display.output import AtomicFile
from sqlwin.display.progress import ProgressBar
from sqlwin.display.spark_tasks import spark_task_counts
from sqlwin.display.status_line import StatusLine
from sqlwin.display.table import (
    is_better_vertical,
    print_table,
    write_stream_table,
    write_vertical,
)
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
    from pyspark.sql import SparkSession

    from sqlwin.session import Session


class ScriptPresenter:
    """Presenter of results, in one format and to one place.

    Rows go to standard output or the file, everything else to stderr. A blank line separates
    results, except in JSON lines and in a CSV file, which has one header.

    Args:
        format: `table` or a format of `writer_of`.
        max_rows: Maximum rows of a table. None: all.
        output: File to write to. None: standard output.
        bar: Progress bar to show while waiting for rows.
        stream_rows: Rows after which a stream is stopped. None: at its end or Ctrl-C.
        shows_latest: Whether a stream shows the latest window of each key instead of all rows.
    """

    def __init__(
        self,
        format: str,
        max_rows: int | None,
        output: AtomicFile | None,
        bar: ProgressBar,
        stream_rows: int | None = None,
        *,
        shows_latest: bool = False,
    ) -> None:
        self._format = format
        self._max_rows = max_rows
        self._stream_rows = stream_rows
        self._shows_latest = shows_latest
        self._output = output
        self._bar = bar
        self._n_results = 0
        self._columns: list[str] = []
        self._n_rows = 0
        self._begun = time.monotonic()
        if output is None:
            _use_utf8(sys.stdout)
        self._write = sys.stdout.write if output is None else output.write

    def show_all(self, results: Iterable[Result]) -> None:
        """Show the results of statements, each before the next statement begins."""
        self._bar.restart_clock()
        started = time.monotonic()
        for result in self._bar.watch(iter(results), "Running"):
            self._show(result, started)
            self._bar.restart_clock()
            started = time.monotonic()

    def _show(self, result: Result, started: float) -> None:
        """Show a result. `started` is the statement's start time (`time.monotonic`)."""
        match result:
            case MessageResult():
                click.echo(result.message, err=True)
            case InsertResult() | StreamResult():
                click.echo(f"{result.message} ({elapsed_text(started)})", err=True)
            case _:
                self._show_rows(result, started)
        for note in result.notes:
            click.echo(f"note: {note}", err=True)

    def _show_rows(self, result: Result, started: float) -> None:
        is_continued = self._separate(result)
        is_text_format = self._format in ("table", "markdown", "chart")
        if isinstance(result, ExplainResult) and is_text_format:
            text = result.text.rstrip("\n")
            self._write(f"```\n{text}\n```\n" if self._format == "markdown" else text + "\n")
        elif self._format == "table":
            self._show_table(result, started)
        else:
            columns, batches = self._rows(result, None)
            write_rows = writer_of(
                self._format, self._output is not None, has_header=not is_continued
            )
            self._n_rows += write_rows(columns, batches, self._write)
        if self._output is None:
            sys.stdout.flush()

    def finish(self) -> None:
        """Commit the file and print its name."""
        if self._output is None:
            return
        if not self._n_results:
            click.echo(f"no statement returned rows; {self._output.path} was not written", err=True)
            return
        self._output.commit()
        where = f"written to {self._output.path} ({elapsed_text(self._begun)})"
        click.echo(f"{count_text(self._n_rows, 'rows')} {where}", err=True)

    def _separate(self, result: Result) -> bool:
        """Begin a result. Return whether its rows continue the previous result without a header."""
        columns = ["plan"] if isinstance(result, ExplainResult) else result.columns
        before, self._columns = self._columns, columns
        self._n_results += 1
        if self._n_results == 1:
            return False
        if self._format == "csv" and self._output is not None:
            if columns != before:
                raise click.UsageError(
                    "a CSV file can hold only one table, but a second result has other columns: "
                    "write each result to its own file"
                )
            return True
        if self._format == "json" and self._output is not None:
            raise click.UsageError(
                "a JSON file can hold only one result: use --format jsonl, or write each result "
                "to its own file"
            )
        if self._format != "jsonl":
            self._write("\n")
        return False

    def _show_table(self, result: Result, started: float) -> None:
        match result:
            case RowsResult(data=StreamedRows() as stream) if self._output is None:
                self._show_stream_table(result, stream)
                return
        limit = None if self._max_rows is None else self._max_rows + 1
        columns, batches = self._rows(result, limit)
        if self._output is None:
            n_rows, is_cut = self._print(result, columns, batches)
            sys.stdout.flush()
            shown = count_text(n_rows, "rows") + (" shown" if is_cut else "")
            Console(stderr=True).print(
                f"{shown} ({elapsed_text(started)})", style="dim", highlight=False, soft_wrap=True
            )
            return
        text = io.StringIO()
        plain = Console(file=text, force_terminal=False, color_system=None)
        n_rows, _ = print_table(columns, batches, plain, max_rows=self._max_rows)
        self._n_rows += n_rows
        self._output.write(text.getvalue())

    def _print(
        self, result: Result, columns: Sequence[str], batches: Iterator[pa.RecordBatch]
    ) -> tuple[int, bool]:
        """Print rows on standard output. Return their number, and whether there are more."""
        console = Console(highlight=False)
        if isinstance(result, TableResult) and console.is_terminal:
            rows = list(batches)
            if is_better_vertical(columns, rows, console.width):
                return write_vertical(columns, rows, console, max_rows=self._max_rows)
            batches = iter(rows)
        return print_table(columns, batches, console, max_rows=self._max_rows)

    def _show_stream_table(self, result: RowsResult, stream: StreamedRows) -> None:
        """Print rows as windows close, until the stream ends, the limit is reached, or Ctrl-C."""
        n_rows = self._show_latest(result, stream) if self._shows_latest else None
        if n_rows is None:
            columns, batches = self._rows(result, self._stream_rows)
            n_rows = write_stream_table(columns, batches, Console(highlight=False))
        if self._stream_rows is not None and n_rows >= self._stream_rows:
            click.echo(f"stopped after {count_text(n_rows, 'rows')} (--max-rows)", err=True)

    def _show_latest(self, result: RowsResult, stream: StreamedRows) -> int | None:
        """Show the latest row of each key in place, and return the number of rows received.

        None if the keys are unknown.
        """
        from sqlwin.repl.live import LiveView, latest_places

        places = latest_places("on", result.columns, stream.opened.keys)
        if places is None:
            click.echo("note: showing all rows, because the query is not grouped by keys", err=True)
            return None
        view = LiveView(
            result.columns,
            stream.opened.status,
            Console(highlight=False),
            keys=places,
            kind=stream.kind_place,
            end="Ctrl-C stops",
        )
        view.show(iter(result.batches(self._stream_rows)))
        return view.n_rows

    def _rows(
        self, result: Result, limit: int | None
    ) -> tuple[Sequence[str], Iterator[pa.RecordBatch]]:
        if isinstance(result, ExplainResult):
            return ["plan"], iter([pa.record_batch([pa.array([result.text])], names=["plan"])])
        batches = iter(result.batches(limit))
        match result:
            case RowsResult(data=StreamedRows(opened=opened)):
                return result.columns, self._yield_with_status(batches, opened.status)
        return result.columns, self._bar.watch(batches, "Running")

    @staticmethod
    def _yield_with_status(
        batches: Iterator[pa.RecordBatch], text: Callable[[], str | None]
    ) -> Iterator[pa.RecordBatch]:
        with StatusLine(Console(stderr=True), text) as status:
            for batch in status.watch(batches):
                yield batch
                sys.stdout.flush()


def run_scripts(session: Session, scripts: Sequence[Script], presenter: ScriptPresenter) -> None:
    """Run every statement, show its result before the next begins, and wait for the streams."""
    for script in scripts:
        results = SessionControl(session).run_script(script.source, script.file, script.params)
        presenter.show_all(results)
    presenter.finish()
    if session.streams.may_run:
        from sqlwin.console.streams import wait_for_streams

        wait_for_streams(session)


@contextmanager
def open_session(
    spark: Mapping[str, Any], *, no_progress: bool
) -> Iterator[tuple[Session, ProgressBar]]:
    """Yield a session, closed at the end, and a progress bar. Ctrl-C cancels Spark's jobs.

    Args:
        spark: Values of `with_spark_options`.
        no_progress: Whether to hide the progress bar.
    """
    # Spark Connect does not report progress
    with ProgressBar(Console(stderr=True), enabled=not (no_progress or spark["remote"])) as bar:
        with bar.waiting("Starting Spark"):
            session = connect(spark)
        control = SessionControl(session)
        if not control.has_spark:
            without_pandas()
        is_over = threading.Event()
        group = f"sqlwin-{uuid4().hex}"

        def use_spark(started: SparkSession) -> None:
            from runtime.spark.jobs import begin_group
            from runtime.spark.start_workers import start_workers

            start_workers(started)
            begin_group(started, group)
            bar.counts = spark_task_counts(started, lambda: control.rows_scanned)

        try:
            with raise_on_signals(lambda: cancel_jobs(session, group, is_over.is_set)):
                control.when_spark_starts(lambda: bar.waiting("Starting Spark"), use_spark)
                try:
                    yield session, bar
                except KeyboardInterrupt:
                    if session.streams.all():
                        from sqlwin.console.streams import stop_streams

                        stop_streams(session)
                    raise
        finally:
            is_over.set()
            control.close_page()
            _end(session, has_spark=control.has_spark)


def _end(session: Session, *, has_spark: bool) -> None:
    """Close the session before the process exits."""
    from runtime.spark.jvm.process import let_jvm_end

    # Stopping Spark takes a second, so let it end with the process. But streams have to finish
    # their micro-batches.
    if session.streams.may_run or not let_jvm_end():
        session.close()
    if has_spark:
        from runtime.spark.jvm.class_archive import make_missing

        # Prepare the next start, now that this command has shown its results.
        make_missing()


def cancel_jobs(session: Session, group: str, is_over: Callable[[], bool]) -> None:
    """Cancel Spark's work for a session, if Spark can still be reached.

    Streams finish their micro-batches: see `stop_streams`.

    Args:
        session: Session whose jobs to cancel.
        group: Job group of this thread, cancelled until `is_over`: see `cancel_until`.
        is_over: Returns whether this thread's work has ended.
    """
    if session.streams.may_run or not SessionControl(session).has_spark:
        return
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from runtime.spark.jobs import cancel_until
    from sqlwin.execution.streams.handle import apart

    context = getattr(session.spark, "sparkContext", None)
    # The connection of this thread waits for the answer of the call to cancel
    try:
        if context is None:  # Spark Connect
            apart(session.spark.interruptAll)
        else:
            apart(context.cancelAllJobs)
    except (Py4JError, PySparkException, OSError) as error:
        # The session is closed next, which ends its jobs too.
        click.echo(f"could not cancel the running jobs: {kind_in_words(error)}", err=True)
        return
    threading.Thread(
        target=cancel_until, args=(session.spark, group, is_over), name="sqlwin-cancel", daemon=True
    ).start()


def _use_utf8(stream: object) -> None:
    """Write UTF-8 to pipes in any locale. A terminal shows `?` for characters that it lacks."""
    if not isinstance(stream, io.TextIOWrapper) or stream.encoding.lower() in ("utf-8", "utf8"):
        return
    if stream.isatty():
        stream.reconfigure(errors="replace")
    else:
        stream.reconfigure(encoding="utf-8")
