"""A stream that was started: how it stands, and how it comes to its end."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from runtime.errors import ErrorKind, ExecutionError, SqlwinError
from runtime.files import Files
from runtime.sinks.stream_sinks import StreamRun
from runtime.spark.errors import is_interruption, translate
from runtime.streaming.checkpoint import Checkpoint, end_input, mark_ended
from runtime.streaming.damage import damaged, unwritable_checkpoint
from runtime.streaming.heartbeat import is_heartbeat
from runtime.streaming.identity import Identity
from runtime.streaming.status import StreamStatus, Tally, has_seen_end
from sqlwin.execution.errors import StatementErrors
from sqlwin.execution.streams.checkpoint import remove_checkpoint
from sqlwin.execution.streams.history import History
from sqlwin.execution.streams.options import is_opening

T = TypeVar("T")

_POLL_SECONDS = 0.1
# For how long a micro-batch may go on after it was asked to be the last
GRACE_SECONDS = 60.0
# What Spark says where a file of the state is not what it wrote
_STATE_IS_DAMAGED = ("CANNOT_LOAD_STATE_STORE", "ChecksumException")


class StreamState(StrEnum):
    """What has become of a stream."""

    RUNNING = "running"
    ENDED = "ended"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True)
class Setup:
    """How a stream was set up.

    Attributes:
        name: the name it goes by, and its checkpoint's.
        statement: its text.
        sink: where its rows go.
        is_bounded: whether its input ends.
        closes: whether the windows that are open then are closed.
        keeps_checkpoint: whether the checkpoint outlives it.
        source_names: for each window operator, the names of its sources.
        errors: translates what it fails with.
        late_table: the table that late rows go to; None: they are dropped.
        inserts: the tables of INSERTs that it runs together, if there are several; what of
            `source_names` stands for a window operator then stands for an INSERT.
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


class Stream:
    """A stream that was started. One whose input ends is brought to its end by a thread.

    Attributes:
        number: its number in the session.
        setup: how it was set up.
        query: Spark's query.
        run_id: Spark's name of this run.
        run: how it was started, and how many rows it has written.
        checkpoint: where it keeps what it needs to resume.
        tally: what is counted over all of its micro-batches.
        history: what the last of them reported.
        begun: when it was started, in seconds since 1970.
        is_known_over: whether it was seen to be over.
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
        self.run_id = str(query.runId)
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
        # Spark was asked to stop it, which interrupts a micro-batch that runs at that moment
        self._was_cut = False
        self.is_known_over = False
        self._error: BaseException | None = None
        self._finishing = threading.Lock()
        self._thread: threading.Thread | None = None
        if setup.is_bounded:
            self._thread = threading.Thread(
                target=self._run_to_end, name=f"stream-{number}", daemon=True
            )
            self._thread.start()

    def __repr__(self) -> str:
        """`<Stream 1 totals: running, into print>`."""
        return f"<Stream {self.number} {self.setup.name}: {self.state}, into {self.setup.sink}>"

    @property
    def state(self) -> StreamState:
        """What has become of it."""
        if self._is_active():
            return StreamState.RUNNING
        if self._failure() is not None:
            return StreamState.FAILED
        return StreamState.ENDED if self._has_ended else StreamState.STOPPED

    def is_starting(self) -> bool:
        """Whether Spark still opens its sources, for which it may start processes."""
        return self._is_active() and is_opening(self.query)

    def status(self) -> StreamStatus:
        """How it stands, as of its last micro-batch."""
        try:
            progress = list(self.query.recentProgress)
        except PySparkException:
            progress = []
        return self.history.status_of(progress)

    def failure(self) -> str:
        """What it failed with, in one line; empty if it did not."""
        error = self._failure()
        return "" if error is None else self._translated(error).message

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for its end, at most so long; whether it has come.

        Raises:
            SqlwinError: it failed.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while self._is_active() or (self._thread is not None and self._thread.is_alive()):
            if until is not None and time.monotonic() >= until:
                return False
            time.sleep(_POLL_SECONDS)
        self.is_known_over = True
        failure = self._failure()
        if failure is None:
            self._finish_tables()
        if failure is not None and not self._is_stopping:
            raise self._translated(failure) from failure
        return True

    def _translated(self, failure: BaseException) -> SqlwinError:
        """What it failed with, in the user's words; where it is the checkpoint, which."""
        text = f"{failure}\n{getattr(failure, '_stackTrace', '')}"
        directory = self.checkpoint.directory
        if any(sign in text for sign in _STATE_IS_DAMAGED):
            state = f"{self.checkpoint.spark_directory}/state"
            named = re.search(rf"{re.escape(state)}/[^\s,;:()\[\]]+", text)
            path = state if named is None else named[0]
            failure = damaged(directory, path, "cannot be read")
        error = self.setup.errors.translated(failure)
        if error.kind is not ErrorKind.CHECKPOINT:
            return error
        named_error = unwritable_checkpoint(
            directory, error.message, may_resume=self.setup.keeps_checkpoint
        )
        return self.setup.errors.translated(named_error)

    def fail(self, error: BaseException) -> None:
        """Have it end, for a reason that Spark does not know."""
        if not self._is_stopping:
            self._error = self._error or error
            apart(self._cut)

    def stop(self, *, at_once: bool = False, grace_s: float = GRACE_SECONDS) -> None:
        """Stop it when the micro-batch that is running is done, and tidy up.

        Args:
            at_once: without waiting for the micro-batch, if nobody can resume the stream.
            grace_s: how long the micro-batch is waited for.
        """
        # The connection of this thread may hold the answer to a call that was interrupted
        apart(lambda: self._stop(at_once and not self.setup.keeps_checkpoint, grace_s))

    def _stop(self, at_once: bool, grace_s: float) -> None:
        self._is_stopping = True
        if self._is_active():
            if not at_once:
                self._let_batch_finish(grace_s)
            self._cut()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(grace_s)
        self.is_known_over = True
        self._finish_tables()
        self.clean_up()

    def _finish_tables(self) -> None:
        """Have the tables show what they hold back of committed micro-batches.

        Raises:
            SqlwinError: one of them cannot; the next run does it.
        """
        with self._finishing:
            try:
                for action in self.run.at_end:
                    action()
            except Exception as error:
                self._error = self._error or error
                raise self._translated(error) from error

    def clean_up(self) -> None:
        """Remove the checkpoint of a stream that is over, unless it is kept."""
        if not self.setup.keeps_checkpoint:
            remove_checkpoint(self._files, self.checkpoint.directory)

    def leave(self) -> None:
        """Have nothing left of it when the process ends, which nobody has stopped it before."""
        if self.setup.keeps_checkpoint:
            return
        # Spark may have ended already, and its stream with it
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
        found: BaseException | None = self.query.exception()
        # where Spark knows of no failure, what a micro-batch raised was Spark's own interruption
        found = self._error if found is None else self.run.error or self._error or found
        # what was interrupted is not committed, and is computed again by the next run
        if not (self._was_cut and is_interruption(found)):
            return found
        return None if is_interruption(self._error) else self._error

    def _cut(self) -> None:
        """Have Spark stop it now."""
        self._was_cut = True
        self.query.stop()

    def _let_batch_finish(self, grace_s: float) -> None:
        """Wait until a micro-batch that runs now is done: the next one has hardly begun then."""
        before = self._last_batch()
        until = time.monotonic() + grace_s
        while self._is_active() and time.monotonic() < until:
            if not self.query.status["isTriggerActive"] or self._last_batch() != before:
                return
            time.sleep(0.02)

    def _last_batch(self) -> object:
        return report_key(self.query.lastProgress)

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
            # whatever it is: nobody else would end the stream
            if not self._is_stopping:
                self._error = self._error or error
                if self.query.isActive:
                    self._cut()

    @contextlib.contextmanager
    def _writing_the_end(self) -> Iterator[None]:
        """What goes wrong in the block is about the checkpoint.

        Raises:
            ExecutionError: the file system, this machine's or one of Hadoop's, takes no file.
        """
        try:
            yield
        except Exception as error:
            cause = translate(error).message
            raise ExecutionError(
                f"the end of the input could not be kept in {self.checkpoint.directory}: {cause}",
                hint="see to it that the directory can be written, and run the statement again",
            ) from error

    def _use_up_input(self, end_was_sent: bool = False) -> None:
        """Wait until all that the sources have is processed and committed.

        Spark says when no micro-batch is due. On processing time one always is: then
        those that read nothing say so.
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
            # on processing time it may still wait when all is done
            if not self._has_ended:
                self._error = self._error or error


def apart(action: Callable[[], T]) -> T:
    """Do something on a thread of its own, which talks to Spark on a connection of its own."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(action).result()


# -- used up input ---------------------------------------------------------------------------------


class InputWatch:
    """Asks of a stream, again and again, whether its input is used up.

    Of each report that Spark keeps, the last hundred by itself, Python fetches the whole text in
    calls of its own. So they are fetched when there is one that may say it, and not each time.

    Args:
        query: the stream.
        n_operators: of how many window operators the end of the input, which was sent, has to have
            closed the windows; None: none was sent.
    """

    def __init__(self, query: StreamingQuery, n_operators: int | None = None) -> None:
        self._query = query
        self._n_operators = n_operators
        self._since = report_key(query.lastProgress)
        self._seen: tuple[int, str] | None = None

    def is_used_up(self) -> bool:
        """Whether micro-batches since it was made have read, or closed, all that there was."""
        last = self._query.lastProgress
        if last is None or report_key(last) == self._seen:
            return False
        self._seen = report_key(last)
        if self._n_operators is not None:
            return has_seen_end(self._query.recentProgress, self._n_operators)
        return not _has_read(last) and has_used_up(self._query.recentProgress, self._since)


def has_used_up(progress: Sequence[Mapping[str, Any]], since: object) -> bool:
    """Whether the micro-batches after `since` have read all that there was.

    Of a run that has just begun the first one may be that of an earlier run, computed again; so
    it takes a second one that reads nothing.
    """
    batches = [report_key(each) for each in progress]
    new = progress[batches.index(since) + 1 :] if since in batches else progress
    return len(new) > 1 and not _has_read(new[-1])


def report_key(progress: Mapping[str, Any] | None) -> tuple[int, str] | None:
    """What tells a report of a micro-batch from those of others."""
    return None if progress is None else (progress["batchId"], progress["timestamp"])


def _has_read(progress: Mapping[str, Any]) -> bool:
    """Whether a micro-batch has read something."""
    sources = (each for each in progress["sources"] if not is_heartbeat(each))
    return any(each["startOffset"] != each["endOffset"] for each in sources)
