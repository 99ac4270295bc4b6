"""Check that all histories of a stream give the rows of the batch query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from runtime.definition.relations import (
    defined_rows,
    filled_on_stream,
    rows_ranked,
    versions_joined,
)
from runtime.engines.local.execute import computed_batches, schema_of
from runtime.errors import ExecutionError, SqlwinError
from runtime.plan.nodes import PlanNode
from runtime.plan.simulated import SimulatedOperator, SimulatedPart, SimulatedQuery
from runtime.plan.streams import EmissionMode, StreamRankStep, StreamVersionStep
from runtime.refusal import Refusal
from runtime.simulator.arrivals import Shape, cut_at_every_row, random_history
from runtime.simulator.compare import (
    Difference,
    Row,
    difference,
    final_rows,
    limited_difference,
    rows_of,
)
from runtime.simulator.histories import Batch, StreamHistory
from runtime.simulator.run import ChangedQuery, HistoryOutcome, run_history
from runtime.simulator.tables import Moment, TableRows, moments_of, with_clock
from runtime.streaming.operators.row_changes import inserts
from runtime.streaming.options import StreamOptions

NO_DEFINITION = Refusal("it has none")


@dataclass(frozen=True)
class Defined:
    """Rows of a query by definition.

    Attributes:
        rows: Rows.
        ties: Results that depend on the order of equal rows, as texts. If there are any, other rows
            may be right, too.
    """

    rows: list[Row]
    ties: tuple[str, ...] = ()


@dataclass(frozen=True)
class SimulatedStream:
    """A stream over rows that are known in advance.

    Attributes:
        query: Query.
        tables: Rows of its tables by name.
        options: Options of the stream.
        order: Numbers of all rows in their order of arrival.
        shape: What its histories may contain.
        definition: The query as a relation that is computed by definition, or why it has none.
    """

    query: SimulatedQuery
    tables: Mapping[str, TableRows]
    options: StreamOptions
    order: tuple[int, ...]
    shape: Shape = field(default_factory=Shape)
    definition: PlanNode | Refusal = NO_DEFINITION

    def run(self, history: StreamHistory, changed: ChangedQuery | None = None) -> HistoryOutcome:
        """Run the stream through a history. Arguments and errors as in `run_history`."""
        return run_history(self.query, self.tables, self.options, history, changed)

    def history(self, seed: int) -> StreamHistory:
        """Return the random history of a seed."""
        return random_history(self.tables, self.order, self.shape, seed)

    def batch_rows(
        self,
        rows: Sequence[int],
        moments: Mapping[int, Moment] | None = None,
        passed_us: Mapping[int, int] | None = None,
    ) -> list[Row]:
        """Return the rows of `batch_table`. Arguments and errors are the same."""
        return rows_of([self.batch_table(rows, moments, passed_us)])

    def batch_table(
        self,
        rows: Sequence[int],
        moments: Mapping[int, Moment] | None = None,
        passed_us: Mapping[int, int] | None = None,
    ) -> pa.Table:
        """Return the result of the batch query over some rows of the tables.

        Args:
            rows: Numbers of the rows.
            moments: Moment at which each row is read, for a query that depends on it. Default: the
                moments of `every_row`.
            passed_us: Latest window end that the watermark of each operator passes before the end
                of the input. FILL then adds the windows of a stream, as its definition says. None:
                the windows of a batch.

        Raises:
            ExecutionError: An expression fails, or a sum overflows its type.
        """
        moments = self.moments if moments is None else moments
        given = self._given(rows, moments)
        # batch has all results once the last row has arrived
        clock_us = max((moment.clock_us for moment in moments.values()), default=0)
        for part in self.query.parts:
            batches = self._batches(part, given, passed_us)
            if isinstance(part, SimulatedOperator) and part.step.emission is not EmissionMode.ONCE:
                batches = (
                    inserted for b in batches for inserted in inserts(pa.Table.from_batches([b]))
                )
            if self.query.result_clock:
                batches = (with_clock(b, self.query.result_clock, clock_us) for b in batches)
            given[part.name] = list(batches)
        schema = schema_of(self.query.rows)
        return pa.Table.from_batches(computed_batches(self.query.rows, given), schema)

    @staticmethod
    def _batches(
        part: SimulatedPart,
        given: Mapping[str, Sequence[pa.RecordBatch]],
        passed_us: Mapping[int, int] | None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part. Arguments as in `batch_table`, and the rows below it."""
        if not isinstance(part, SimulatedOperator):
            yield from computed_batches(part.rows, given)
        elif isinstance(part.step, StreamVersionStep):
            windows = list(computed_batches(part.windows, given))
            yield versions_joined(part.windows, part.step.versions, windows)
        elif isinstance(part.step, StreamRankStep):
            windows = list(computed_batches(part.windows, given))
            step = part.step
            yield rows_ranked(part.windows, step.first, step.first_rank, step.ttl_us, windows)
        elif part.filled is not None and passed_us is not None:
            windows = list(computed_batches(part.windows, given))
            yield filled_on_stream(part.filled, windows, passed_us.get(part.step.number))
        else:
            yield from computed_batches(part.rows, given)

    @cached_property
    def every_row(self) -> StreamHistory:
        """The history in which each row is a micro-batch, in the given order."""
        return cut_at_every_row(self.order, self.shape)

    def expected_rows(self, expected: Sequence[Row], outcome: HistoryOutcome) -> Sequence[Row]:
        """Return the rows that the micro-batches of a history must leave in the sink.

        Args:
            expected: Rows of the batch query, if it does not depend on micro-batches.
            outcome: Result of the history.
        """
        of = self.query
        if not (of.depends_on_batches or of.fills_gaps or of.depends_on_cuts):
            return expected
        batches = outcome.planned
        if self.shape.late or of.result_clock or of.depends_on_cuts:
            # batch has the late rows, too, and its results have another processing time
            calm = tuple(replace(batch, crash=None) for batch in batches)
            return final_rows_of(self.run(StreamHistory(calm)))
        rows = [arrival.row for batch in batches for arrival in batch.rows]
        moments = moments_of(self.tables, batches)
        return self.batch_rows(rows, moments, outcome.passed_us)

    def _given(
        self, rows: Sequence[int], moments: Mapping[int, Moment] | None
    ) -> dict[str, list[pa.RecordBatch]]:
        """Return some rows of the tables, by name."""
        if moments is None:
            moments = self.moments
        return {name: [table.at(rows, moments)] for name, table in self.tables.items()}

    @cached_property
    def moments(self) -> Mapping[int, Moment]:
        """Moments of the rows in `every_row`."""
        return moments_of(self.tables, self.every_row.batches)

    def defined(
        self, rows: Sequence[int], moments: Mapping[int, Moment] | None = None
    ) -> Defined | Refusal:
        """Return the rows of the query by definition over some rows of the tables.

        Args as in `batch_rows`.

        Returns:
            The rows, or why they have no definition.
        """
        if isinstance(self.definition, Refusal):
            return self.definition
        given = self._given(rows, moments)
        ties: list[str] = []
        try:
            batch = defined_rows(self.definition, given, ties).batch()
        except ExecutionError as error:
            return Refusal(error.message)
        return Defined(rows_of([pa.Table.from_batches([batch])]), tuple(ties))


@dataclass(frozen=True)
class Disagreement:
    """A history that does not give the rows of the batch query.

    Attributes:
        history: History.
        difference: Difference of the final rows. None if something else is wrong.
        reason: Why the result is wrong, for messages.
        seed: Seed of the history. None if it was not drawn.
    """

    history: StreamHistory
    difference: Difference | None
    reason: str
    seed: int | None = None


def final_rows_of(outcome: HistoryOutcome) -> list[Row]:
    """Return the rows that a stream leaves in its sink.

    Raises:
        ExecutionError: The stream retracts a row that it has not emitted.
    """
    return final_rows(rows_of(output.rows for output in outcome.batches))


def without_clock(history: StreamHistory) -> StreamHistory:
    """Return a history in which no processing time passes."""
    clock_us = history.batches[0].clock_us
    steps = tuple(
        replace(step, clock_us=clock_us) if isinstance(step, Batch) else step
        for step in history.steps
    )
    return replace(history, steps=steps)


def difference_from_batch(stream: SimulatedStream, history: StreamHistory) -> Difference | None:
    """Return how the rows of a history differ from batch at the same processing times, or None.

    Raises:
        SqlwinError: An expression fails, or the stream retracts a row that it has not emitted.
    """
    outcome = stream.run(history)
    rows = [arrival.row for batch in outcome.planned for arrival in batch.rows]
    moments = moments_of(stream.tables, outcome.planned)
    expected = stream.batch_rows(rows, moments, outcome.passed_us)
    return difference(expected, final_rows_of(outcome))


def disagreement(
    stream: SimulatedStream,
    history: StreamHistory,
    expected: Sequence[Row],
    seed: int | None = None,
) -> Disagreement | None:
    """Return how a history differs from the expected rows, or None.

    Args:
        stream: Stream.
        history: History to run.
        expected: Final rows of the stream, without its LIMIT.
        seed: Seed of the history, for messages.
    """
    try:
        outcome = stream.run(history)
        final = final_rows_of(outcome)
        expected = stream.expected_rows(expected, outcome)
    except SqlwinError as error:
        return Disagreement(history, None, error.message, seed)
    mismatch = limited_difference(expected, final, stream.query.limit)
    if mismatch is not None:
        return Disagreement(history, mismatch, "the rows differ", seed)
    if stream.query.result_clock and not stream.shape.late:
        stopped = without_clock(history)
        mismatch = difference_from_batch(stream, stopped)
        if mismatch is not None:
            return Disagreement(stopped, mismatch, "the rows differ from batch", seed)
    for repeated in outcome.repeated:
        again = outcome.batches[repeated.number]
        changed = difference(rows_of([repeated.rows]), rows_of([again.rows]))
        if changed is not None:
            reason = (
                f"micro-batch {repeated.number} has other rows when it runs again after a crash"
            )
            return Disagreement(history, changed, reason, seed)
    for output in outcome.batches:
        if output.needless is not None:
            reason = f"after micro-batch {output.number} {output.needless}"
            return Disagreement(history, None, reason, seed)
    if len(outcome.batches) != len(outcome.planned):
        return Disagreement(history, None, "a micro-batch has no output", seed)
    return None


def disagreements(
    stream: SimulatedStream, expected: Sequence[Row], seeds: Iterator[int] | Sequence[int]
) -> Iterator[Disagreement | None]:
    """Yield the result of each random history: None if it gives the expected rows."""
    for seed in seeds:
        yield disagreement(stream, stream.history(seed), expected, seed)


def first_disagreement(
    stream: SimulatedStream, expected: Sequence[Row], n_histories: int, seed: int
) -> Disagreement | None:
    """Return the first random history that does not give the expected rows, or None."""
    mismatch = disagreements(stream, expected, range(seed, seed + n_histories))
    return next((item for item in mismatch if item is not None), None)
