"""Streams of a statement set start one after the other while they start processes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from runtime.files import LocalFiles
from runtime.sinks.stream_sinks import StreamRun
from runtime.streaming.checkpoint import Checkpoint
from runtime.streaming.identity import Identity
from sqlwin.execution.errors import StatementErrors
from sqlwin.execution.streams.handle import Setup, Stream
from sqlwin.execution.streams.registry import START_SECONDS, Streams

ERRORS = StatementErrors("INSERT INTO kept ...")


class Query:
    """A Spark query with prepared status messages; the last one is repeated."""

    runId = "run"

    def __init__(self, *messages: str, is_active: bool = True) -> None:
        self.isActive = is_active
        self.messages = list(messages)

    @property
    def status(self) -> dict[str, object]:
        message = self.messages.pop(0) if len(self.messages) > 1 else self.messages[0]
        return {"message": message, "isTriggerActive": False}


def session_of(directory: Path, *queries: Query) -> Streams:
    result = Streams()
    for query in queries:
        setup = Setup("kept", "INSERT INTO kept ...", "kept", False, True, True, (), ERRORS)
        run = StreamRun("kept (1)", "c", 0, "w")
        checkpoint = Checkpoint(str(directory), 1, 1, "w", "id")
        number = result.next_number()
        result.add(
            Stream(number, setup, cast(Any, query), run, checkpoint, Identity(""), LocalFiles())
        )
    return result


def returns(action: Callable[[], None]) -> bool:
    """Return whether an action returns in half of the time that streams are waited for."""
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    thread.join(START_SECONDS / 2)
    return not thread.is_alive()


def test_a_stream_that_opens_its_sources_is_waited_for(tmp_path: Path) -> None:
    query = Query(
        "Initializing StreamExecution", "Initializing sources", "Getting offsets from events"
    )
    session_of(tmp_path, query).await_starts()
    assert query.messages == ["Getting offsets from events"]


def test_streams_that_run_or_are_over_are_not_waited_for(tmp_path: Path) -> None:
    runs = Query("Waiting for data to arrive")
    failed = Query("Initializing sources", is_active=False)
    assert returns(session_of(tmp_path, runs, failed).await_starts)


def test_one_that_never_opens_its_sources_keeps_the_others_for_a_time_only(
    tmp_path: Path,
) -> None:
    result = session_of(tmp_path, Query("Initializing sources"), Query("Initializing sources"))
    assert returns(lambda: result.await_starts(at_most_s=0.2))
