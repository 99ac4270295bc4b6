"""Queries as streams that the simulator runs in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from sqlglot import exp

from planner.lowering.definition import lower_definition
from planner.lowering.given_tables import MomentCalls
from planner.lowering.simulated import lower_simulated
from planner.lowering.stream.steps import StreamSteps
from planner.sql.depth import deep_trees
from runtime.plan.nodes import PlanNode
from runtime.plan.simulated import SimulatedQuery
from runtime.refusal import Refusal, tried
from runtime.simulator.arrivals import Shape, overtaken_rows
from runtime.simulator.check import NO_DEFINITION, SimulatedStream
from runtime.simulator.tables import TableRows, order_of_times, table_rows
from runtime.streaming.options import StreamOptions
from runtime.streaming.watermarks import idle_advance
from sqlwin.execution.streams.options import stream_options
from sqlwin.statements.nodes import Insert, Query

if TYPE_CHECKING:
    import pyarrow as pa

    from runtime.plan.in_process import InProcessStep
    from runtime.simulator.changed_query import ChangedStream
    from sqlwin.execution.lowered import LoweredStream
    from sqlwin.execution.planning import Plans


_DAY_US = 86_400_000_000


@dataclass(frozen=True)
class Simulated:
    """A query for the simulator.

    Attributes:
        query: Lowered query.
        options: Options of its stream, from settings.
        definition: The query as a relation computed by definition, or its refusal.
        lowered: Stream as it runs on Spark, for its identity.
    """

    query: SimulatedQuery
    options: StreamOptions
    definition: PlanNode | Refusal = NO_DEFINITION
    lowered: LoweredStream | None = field(default=None, compare=False, repr=False)

    @property
    def advances_with_clock(self) -> bool:
        """Whether a watermark advances while all sources of its operator are silent."""
        stages = (operator.step.input for operator in self.query.operators)
        return any(idle_advance(stage.mode.sources) for stage in stages)

    def stream(
        self, rows: Mapping[str, pa.Table], waits: Mapping[tuple[str, int], int] | None = None
    ) -> SimulatedStream:
        """Return the stream over given rows.

        Args:
            rows: Rows of each table, by name in lower case.
            waits: Processing time in microseconds that passes before a row arrives, by table in
                lower case and number of the row, from 0.

        Returns:
            The stream. Rows arrive in the order of each table, and by time between tables.
        """
        tables = table_rows(
            self.query.tables, {t.name: rows[t.name.lower()] for t in self.query.tables}
        )
        arrival = order_of_times(tables)
        first = {name.lower(): table.numbers.start for name, table in tables.items()}
        is_shared = self.options.watermark_policy == "max"
        lateness_us = self.options.allowed_lateness_us
        late: Sequence[int] = ()
        if not self.query.is_on_processing_time:
            late = overtaken_rows(tables, arrival, lateness_us, is_shared=is_shared)
        shape = Shape(
            lateness_us,
            frozenset(late),
            clock_us=_after_all_rows_us(tables) if self.advances_with_clock else 0,
            idle_us=self.options.idle_timeout_us,
            advances_with_clock=self.advances_with_clock,
            is_shared=is_shared,
            waits={
                first[name] + row: us for (name, row), us in (waits or {}).items() if name in first
            },
            reads_clock=any(table.clock_columns for table in self.query.tables),
        )
        return SimulatedStream(
            self.query, tables, self.options, tuple(arrival), shape, self.definition
        )


def resume(
    before: Simulated, after: Simulated, stream: SimulatedStream, rows: Mapping[str, pa.Table]
) -> ChangedStream | Refusal:
    """Return a stream that resumes with another query, or the reason why it cannot.

    Args:
        before: First query.
        after: Query with which it resumes.
        stream: Stream of the first query.
        rows: Rows of each table, by name in lower case.
    """
    # these import PySpark
    from runtime.redaction import DEFAULT
    from runtime.simulator.changed_query import ChangedStream
    from runtime.simulator.run import ChangedQuery
    from runtime.streaming.identity import difference
    from sqlwin.execution.streams.describe import identity_of

    identities = []
    for simulated in (before, after):
        assert simulated.lowered is not None
        identities.append(identity_of(simulated.lowered, simulated.options, DEFAULT, str))
    outcome = tried(difference, *identities)
    if isinstance(outcome, Refusal):
        return outcome
    numbers = {name.lower(): table.numbers for name, table in stream.tables.items()}
    tables = {
        table.name: TableRows(table, rows[name], numbers[name].start)
        for table in after.query.tables
        for name in [table.name.lower()]
    }
    names = tuple(operator.names for operator in outcome)
    change = ChangedQuery(after.query, tables, replace(after.options, names=names))
    has_other_windows = any(operator.window is not None for operator in outcome)
    changed = replace(
        stream,
        query=after.query,
        tables=tables,
        options=after.options,
        definition=after.definition,
    )
    return ChangedStream(stream, changed, change, has_other_windows)


def _after_all_rows_us(tables: Mapping[str, TableRows]) -> int:
    """Return a processing time at which no row's time is in the future, in any time zone."""
    times = (time for table in tables.values() for time in table.times_us)
    return max((time for time in times if time is not None), default=0) + _DAY_US


def simulate(plans: Plans, statement: Query | Insert) -> Simulated | Refusal:
    """Return a query as a stream for the simulator, or why only Spark can run it.

    Args:
        plans: Planner of the session.
        statement: Query, or INSERT with the query.

    Raises:
        SqlwinError: The query is invalid, or cannot run as a stream.
    """
    with plans.lock, deep_trees(statement.text):
        plans.begin(statement.text)
        try:
            with plans.catalog.simulate_streams():
                plan = plans.plan(_without_order(statement.ast), statement.text)
                if not plans.is_stream(plan):
                    return Refusal("it reads no table that can be a stream")
                lowered = plans.lower_stream(plan, is_taken=True)
                context = (plans.catalog, plans.time_zone)
                moments = MomentCalls(reads_watermark=lowered.reads_watermark)
                steps = cast(StreamSteps, lowered.steps)  # of a single query
                query = tried(lower_simulated, steps, *context, moments)
                for clocks in ({"reads_clock": True}, {"reads_clock_of_results": True}):
                    if isinstance(query, Refusal):
                        # the reason may be a call of PROCTIME()
                        moments = replace(moments, **clocks)
                        query = tried(lower_simulated, steps, *context, moments)
                definition = tried(lower_definition, plan.bound, *context, moments)
        finally:
            plans.end()
    if isinstance(query, Refusal):
        return query
    options = stream_options(plans.config)
    if query.result_clock:
        definition = Refusal("the processing time of results depends on the micro-batches")
    if query.result_clock and (options.emits_updates or query.limit is not None):
        return Refusal(
            "processing time in results that are emitted again or limited depends on the cuts"
        )
    return Simulated(query, options, definition, lowered)


def place_of(plans: Plans, statement: Query | Insert) -> InProcessStep | Refusal:
    """Return the step that computes a batch query in this process, or why Spark runs it.

    Raises:
        SqlwinError: The query is invalid.
    """
    with plans.lock, deep_trees(statement.text):
        plans.begin(statement.text)
        try:
            return plans.in_process(plans.plan(statement.ast, statement.text))
        finally:
            plans.end()


def _without_order(query: exp.Query) -> exp.Query:
    """Return a query without its ORDER BY, because rows are compared in any order.

    A stream cannot sort all rows. LIMIT needs the order.
    """
    if not query.args.get("order") or query.args.get("limit") or query.args.get("offset"):
        return query
    unordered = query.copy()
    unordered.set("order", None)
    return unordered
