"""Run a stream through a history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from runtime.plan.simulated import SimulatedQuery
from runtime.simulator.histories import Batch, Restart, StreamHistory, Write
from runtime.simulator.micro_batch import RunningQuery
from runtime.simulator.storage import BatchOutput, CrashError, Storage
from runtime.simulator.tables import TableRows
from runtime.streaming.operator_specs import operator_run
from runtime.streaming.options import StreamOptions
from runtime.streaming.state.blobs import Owner

_OWNER = Owner("simulated", "simulated")


@dataclass(frozen=True)
class ChangedQuery:
    """Query with which a stream resumes.

    Attributes:
        query: Query.
        tables: Rows of its streams by name, with the same numbers as for the first query.
        options: Options of its stream, with the names of its operators' columns in the state of
            the first query.
    """

    query: SimulatedQuery
    tables: Mapping[str, TableRows]
    options: StreamOptions


@dataclass(frozen=True)
class HistoryOutcome:
    """Result of a history.

    Attributes:
        batches: Outputs in the sink, by number of the micro-batch.
        planned: The micro-batches as they ran.
        repeated: Outputs of attempts that were replaced.
        n_before_change: Number of micro-batches before the query changed. All if it did not.
    """

    batches: tuple[BatchOutput, ...]
    planned: tuple[Batch, ...]
    repeated: tuple[BatchOutput, ...]
    n_before_change: int

    @property
    def passed_us(self) -> Mapping[int, int]:
        """Latest window end that the watermark passes before the end of the input, by operator."""
        passed: dict[int, int] = {}
        for output in self.batches:
            for number, end_us in output.passed_us.items():
                passed[number] = max(end_us, passed.get(number, end_us))
        return passed


def run_history(
    query: SimulatedQuery,
    tables: Mapping[str, TableRows],
    options: StreamOptions,
    history: StreamHistory,
    changed: ChangedQuery | None = None,
) -> HistoryOutcome:
    """Run a stream through a history and return the rows in its sink.

    Args:
        query: Query.
        tables: Rows of its streams, by name.
        options: Options of the stream. The history decides key groups and tasks.
        history: What happens.
        changed: Query with which the stream resumes, if it changes in the history.

    Raises:
        ExecutionError: An expression fails, or a sum overflows its type.
    """
    storage = Storage(history.key_groups, history.partitions)

    def start() -> RunningQuery:
        return start_query(query, tables, options, storage, history.batch_rows)

    def has_all_rows() -> bool:
        """Return whether LIMIT has ended the stream."""
        return query.limit is not None and storage.rows_before(len(storage.planned)) >= query.limit

    running = start()
    n_before_change = None
    # rows of a micro-batch that was never planned arrive with the next one
    unplanned: tuple[Batch, ...] = ()
    steps = list(history.steps)
    while steps and not has_all_rows():
        step = steps.pop(0)
        if isinstance(step, Restart):
            if step.partitions is not None and storage.n_committed:
                storage.rescale(step.partitions)
            if step.is_changed:
                assert changed is not None, "the history changes the query"
                query, tables, options = changed.query, changed.tables, changed.options
                n_before_change = len(storage.planned)
            running = start()
            continue
        rows = tuple(row for batch in (*unplanned, step) for row in batch.rows)
        batch, unplanned = replace(step, rows=rows), ()
        crash = step.crash
        if crash is not None and crash.write is Write.STATE:
            n_groups = max(storage.key_groups * len(query.operators), 1)
            crash = replace(crash, number=crash.number % n_groups)
        storage.begin(crash)
        try:
            run_batch(running, storage, batch)
        except CrashError:
            running = start()
            storage.begin(None)
            if len(storage.planned) > storage.n_committed:
                run_again(running, storage)
            elif storage.planned and storage.planned[-1] is batch:
                pass  # it crashed after the commit
            elif steps and any(isinstance(later, Batch) for later in steps):
                unplanned = (replace(batch, crash=None),)
            else:
                run_batch(running, storage, replace(batch, crash=None))
    outputs = tuple(storage.outputs[number] for number in sorted(storage.outputs))
    planned = tuple(storage.planned)
    if n_before_change is None:
        n_before_change = len(planned)
    return HistoryOutcome(outputs, planned, tuple(storage.repeated), n_before_change)


def start_query(
    query: SimulatedQuery,
    tables: Mapping[str, TableRows],
    options: StreamOptions,
    storage: Storage,
    batch_rows: int = StreamHistory.batch_rows,
) -> RunningQuery:
    """Start a run of a stream.

    Args:
        query: Query.
        tables: Rows of its streams, by name.
        options: Options of the stream. The storage decides key groups and tasks.
        storage: Storage.
        batch_rows: Rows of a record batch.
    """
    steps = sorted((operator.step for operator in query.operators), key=lambda step: step.number)
    storage.start(tuple(operator_run(step.input.mode, options) for step in steps))
    at_start = replace(
        options,
        key_groups=storage.key_groups,
        partitions=storage.partitions,
        owner=_OWNER,
        runs=storage.runs,
    )
    return RunningQuery(query, tables, at_start, storage, batch_rows)


def run_batch(running: RunningQuery, storage: Storage, batch: Batch) -> None:
    """Plan a micro-batch and run it."""
    number = storage.plan(batch)
    _finish(running, storage, number, batch)


def run_again(running: RunningQuery, storage: Storage) -> None:
    """Run the last planned micro-batch again, which has no commit."""
    number = storage.n_committed
    _finish(running, storage, number, storage.planned[number])


def _finish(running: RunningQuery, storage: Storage, number: int, batch: Batch) -> None:
    storage.write_output(running.run(number, batch))
    storage.commit(number)
