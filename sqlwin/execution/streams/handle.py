"""Started streams: state, waiting, stopping."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from runtime.errors import ErrorKind, ExecutionError, SqlwinError
from runtime.files import Files
from runtime.frames.heartbeat import is_heartbeat
from runtime.frames.reports import BatchReport, last_report, recent_reports
from runtime.sinks.stream_sinks import StreamRun
from runtime.spark.errors import is_interruption, translate
from runtime.streaming.checkpoint import Checkpoint, end_input, mark_ended
from runtime.streaming.damage import damage_error, unwritable_checkpoint
from runtime.streaming.identity import Identity
from runtime.streaming.status import StreamStatus, Tally, has_seen_end
from sqlwin.execution.errors import StatementErrors
from sqlwin.execution.streams.checkpoint import remove_checkpoint
from sqlwin.execution.streams.history import History
from sqlwin.execution.streams.options import is_opening

T = TypeVar("T")

_POLL_SECONDS = 0.1
# Time for a micro-batch to finish after a stop request
GRACE_SECONDS = 60.0
# Errors of Spark about a state file with unexpected content
_STATE_IS_DAMAGED = ("CANNOT_LOAD_STATE_STORE", "ChecksumException")


class StreamState(StrEnum):
    """State of a stream."""

    RUNNING = "running"
    ENDED = "ended"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True)
class Setup:
    """Setup of a stream.

    Attributes:
        name: Name of the stream and its checkpoint.
        statement: Text of the statement.
        sink: Description of the sink.
        is_bounded: Whether its input ends.
        closes: Whether the end of input closes windows that are still open.
        keeps_checkpoint: Whether the checkpoint outlives the stream.
        source_names: Source names per window operator.
        errors: Translator of its errors.
        late_table: Table that receives late rows. None: they are dropped.
        inserts: Tables of the INSERTs that it runs together, empty if it runs one. If set,
            `source_names` has an entry per INSERT.
        outages: Directory of the notes about outages.
    """

    name: str
    statement: str
    sink: str
    is_bounded: bool
    closes: bool
    keeps_checkpoint: bool
    source_names: Sequence[Sequence[str]]
    errors: StatementErrors
    late_table: str | None = None
    inserts: tuple[str, ...] = ()
    outages: str = ""


class Stream:
    """A started stream. If its input ends, a thread finishes it.

    Attributes:
        number: Number of the stream in the session.
        setup: Setup of the stream.
        query: Spark's query.
        run: Start parameters, and the number of rows written.
        checkpoint: Checkpoint for resuming it.
        tally: Counts over all its micro-batches.
        history: Reports of its latest micro-batches.
        begun: Start, in seconds since 1970.
        is_over: Whether its end was noticed.
    """

    def __init__(
        self,
        number: int,
        setup: Setup,
        query: StreamingQuery,
        run: StreamRun,
        checkpoint: Checkpoint,
        identity: Identity,
        files: Files,
    ) -> None:
        self.number = number
        self.setup = setup
        self.query = query
        self.run = run
        self.checkpoint = checkpoint
        self.tally = Tally(len(setup.source_names))
        end = checkpoint.end_of_input
        self.history = History(setup.source_names, run, self.tally, end)
        self.begun = time.time()
        self._identity = identity
        self._files = files
        self._has_ended = False
        self._is_stopping = False
        # Whether Spark was asked to stop it, which interrupts the running micro-batch
        self._was_cut = False
        self.is_over = False
        self._error: BaseException | None = None
        self._finishing = threading.Lock()
        self._thread: threading.Thread | None = None
        if setup.is_bounded:
            self._thread = threading.Thread(
                target=self._run_to_end, name=f"stream-{number}", daemon=True
            )
            self._thread.start()

    def follow_reports(self, at_failure: Callable[[], None]) -> None:
        """Add reports of micro-batches to the history, in a thread that ends with the stream.

        Args:
            at_failure: Called once the stream has failed.
        """

        def follow() -> None:
            self.history.follow(self.query)
            # Spark may have ended too
            with contextlib.suppress(PySparkException, Py4JError, OSError):
                if self._failure() is not None:
                    at_failure()

        threading.Thread(target=follow, name=f"stream-reports-{self.number}", daemon=True).start()

    def __repr__(self) -> str:
        """Return a text such as `<Stream 1 totals: running, into print>`."""
        return f"<Stream {self.number} {self.setup.name}: {self.state}, into {self.setup.sink}>"

    @property
    def state(self) -> StreamState:
        """State of the stream."""
        if self._is_active():
            return StreamState.RUNNING
        if self._failure() is not None:
            return StreamState.FAILED
        return StreamState.ENDED if self._has_ended else StreamState.STOPPED

    @property
    def is_running(self) -> bool:
        """Whether the stream runs."""
        return self.state is StreamState.RUNNING

    def is_starting(self) -> bool:
        """Return whether Spark is still opening its sources, which may start processes."""
        return self._is_active() and is_opening(self.query)

    def status(self) -> StreamStatus:
        """Return its status as of the last micro-batch."""
        try:
            reports = recent_reports(self.query)
        except PySparkException:
            reports = []
        return self.history.status_of(reports)

    def failure(self) -> str:
        """Return the stream's error in one line, or "" if it has not failed."""
        error = self._failure()
        return "" if error is None else self._translate(error).message

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for its end and return whether it has ended.

        Args:
            seconds: Maximum time to wait. None: no limit.

        Raises:
            SqlwinError: The stream failed.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while self._is_active() or (self._thread is not None and self._thread.is_alive()):
            if until is not None and time.monotonic() >= until:
                return False
            time.sleep(_POLL_SECONDS)
        self.is_over = True
        failure = self._failure()
        if failure is None:
            self._finish_tables()
        if failure is not None and not self._is_stopping:
            raise self._translate(failure) from failure
        return True

    def _translate(self, failure: BaseException) -> SqlwinError:
        """Translate its error. Errors about damaged state name the checkpoint."""
        text = f"{failure}\n{getattr(failure, '_stackTrace', '')}"
        directory = self.checkpoint.directory
        if any(sign in text for sign in _STATE_IS_DAMAGED):
            state = f"{self.checkpoint.spark_directory}/state"
            named = re.search(rf"{re.escape(state)}/[^\s,;:()\[\]]+", text)
            path = state if named is None else named[0]
            failure = damage_error(directory, path, "cannot be read")
        error = self.setup.errors.translate(failure)
        if error.kind is not ErrorKind.CHECKPOINT:
            return error
        named_error = unwritable_checkpoint(
            directory, error.message, may_resume=self.setup.keeps_checkpoint
        )
        return self.setup.errors.translate(named_error)

    def fail(self, error: BaseException) -> None:
        """End the stream with an error that Spark does not know about."""
        if not self._is_stopping:
            self._error = self._error or error
            apart(self._cut)

    def stop(self, *, at_once: bool = False, grace_s: float = GRACE_SECONDS) -> None:
        """Stop the stream after the running micro-batch, and clean up.

        Args:
            at_once: Whether to interrupt the micro-batch, if the stream cannot be resumed anyway.
            grace_s: Maximum seconds to wait for the micro-batch.
        """
        # The connection of this thread may still hold the answer to an interrupted call
        apart(lambda: self._stop(at_once and not self.setup.keeps_checkpoint, grace_s))

    def _stop(self, at_once: bool, grace_s: float) -> None:
        self._is_stopping = True
        if self._is_active():
            if not at_once:
                self._let_batch_finish(grace_s)
            self._cut()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(grace_s)
        self.is_over = True
        self._finish_tables()
        self.clean_up()

    def _finish_tables(self) -> None:
        """Publish the rows of committed micro-batches that tables hold back.

        Raises:
            SqlwinError: A table fails. The next run retries.
        """
        with self._finishing:
            try:
                for action in self.run.at_end:
                    action()
            except Exception as error:
                self._error = self._error or error
                raise self._translate(error) from error

    def clean_up(self) -> None:
        """Remove the checkpoint of a stream that is over, unless it is kept."""
        if not self.setup.keeps_checkpoint:
            remove_checkpoint(self._files, self.checkpoint.directory)

    def leave(self) -> None:
        """Stop the stream and remove its temporary files at exit, unless it was stopped already."""
        if self.setup.keeps_checkpoint:
            return
        # Spark and its stream may have ended already
        with contextlib.suppress(PySparkException, Py4JError, OSError):
            if self._is_active():
                self._is_stopping = True
                self._cut()
        self.clean_up()

    def _is_active(self) -> bool:
        return bool(self.query.isActive)

    def _failure(self) -> BaseException | None:
        if self._is_active():
            return None
        failure: BaseException | None = self.query.exception()
        # Without an error from Spark, the micro-batch's error is Spark's own interruption.
        failure = self._error if failure is None else self.run.error or self._error or failure
        # an interrupted micro-batch is not committed, so the next run computes it again
        if not (self._was_cut and is_interruption(failure)):
            return failure
        return None if is_interruption(self._error) else self._error

    def _cut(self) -> None:
        """Make Spark stop the stream now."""
        self._was_cut = True
        self.query.stop()

    def _let_batch_finish(self, grace_s: float) -> None:
        """Wait for the running micro-batch to finish. The next one has barely begun by then."""
        before = self._last_batch()
        until = time.monotonic() + grace_s
        while self._is_active() and time.monotonic() < until:
            if not self.query.status["isTriggerActive"] or self._last_batch() != before:
                return
            time.sleep(0.02)

    def _last_batch(self) -> object:
        return report_key(last_report(self.query))

    # -- bounded input ------------------------------------------------------------------------

    def _run_to_end(self) -> None:
        try:
            self._use_up_input()
            if self.setup.closes and self.query.isActive and not self._is_stopping:
                with self._writing_the_end():
                    end_input(self._files, self.checkpoint)
                self._use_up_input(end_was_sent=True)
            if self.query.isActive and not self._is_stopping:
                self._finish_tables()
                if self.setup.closes:
                    with self._writing_the_end():
                        mark_ended(self._files, self.checkpoint, self._identity)
                self._has_ended = True
                self._cut()
        except Exception as error:
            # catch everything, because nothing else would end the stream
            if not self._is_stopping:
                self._error = self._error or error
                if self.query.isActive:
                    self._cut()

    @contextlib.contextmanager
    def _writing_the_end(self) -> Iterator[None]:
        """Report errors of a block as errors about the checkpoint.

        Raises:
            ExecutionError: The local or Hadoop file system does not accept the file.
        """
        try:
            yield
        except Exception as error:
            cause = translate(error).message
            raise ExecutionError(
                f"cannot record the end of the input in {self.checkpoint.directory}: {cause}",
                hint="make the directory writable, and run the statement again",
            ) from error

    def _use_up_input(self, end_was_sent: bool = False) -> None:
        """Wait until all input is processed and committed.

        Spark reports when no micro-batch is due. On processing time one is always due, so look for
        micro-batches that read nothing.
        """
        n_operators = len(self.setup.source_names)
        watch = InputWatch(self.query, n_operators if end_was_sent and n_operators else None)
        waiter = threading.Thread(target=self._process_available, daemon=True)
        waiter.start()
        while waiter.is_alive() and self.query.isActive:
            waiter.join(_POLL_SECONDS)
            if watch.is_used_up():
                return
        waiter.join()
        if self._error is not None:
            raise self._error

    def _process_available(self) -> None:
        try:
            self.query.processAllAvailable()
        except Exception as error:
            # on processing time it may still wait after the end
            if not self._has_ended:
                self._error = self._error or error


def apart(action: Callable[[], T]) -> T:
    """Run an action on its own thread, which has its own connection to Spark."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(action).result()


# -- used up input ---------------------------------------------------------------------------------


class InputWatch:
    """Watch for the end of a stream's input.

    Fetching all of Spark's reports (it keeps a hundred) transfers each text in separate calls. So
    they are fetched only when the last one may show the end.

    Args:
        query: Stream to watch.
        n_operators: Number of window operators that must have closed their windows after the end of
            input was sent. None: it was not sent.
    """

    def __init__(self, query: StreamingQuery, n_operators: int | None = None) -> None:
        self._query = query
        self._n_operators = n_operators
        self._since = report_key(last_report(query))
        self._seen: tuple[int, str] | None = None

    def is_used_up(self) -> bool:
        """Return whether micro-batches since the watch began have read or closed everything."""
        last = last_report(self._query)
        if last is None or report_key(last) == self._seen:
            return False
        self._seen = report_key(last)
        if self._n_operators is not None:
            return has_seen_end(recent_reports(self._query), self._n_operators)
        return not _has_read(last) and has_used_up(recent_reports(self._query), self._since)


def has_used_up(reports: Sequence[BatchReport], since: object) -> bool:
    """Return whether the micro-batches after `since` have read all input.

    The first micro-batch of a run may repeat the previous run's last one, so the empty micro-batch
    must be a later one.
    """
    batches = [report_key(report) for report in reports]
    new = reports[batches.index(since) + 1 :] if since in batches else reports
    return len(new) > 1 and not _has_read(new[-1])


def report_key(report: BatchReport | None) -> tuple[int, str] | None:
    """Return the key that identifies a report."""
    return None if report is None else (report.batch, report.timestamp)


def _has_read(report: BatchReport) -> bool:
    """Return whether a micro-batch read something."""
    return any(source.has_moved for source in report.sources if not is_heartbeat(source))
