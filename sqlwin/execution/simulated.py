"""Queries as the simulator runs them in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from sqlglot import exp

from planner.lowering.definition import lower_definition
from planner.lowering.given_tables import MomentCalls
from planner.lowering.simulated import lower_simulated
from planner.lowering.stream.steps import StreamSteps
from planner.sql.depth import deep_trees
from runtime.errors import AnalysisError
from runtime.plan.nodes import PlanNode
from runtime.plan.simulated import SimulatedQuery
from runtime.redaction import DEFAULT
from runtime.refusal import Refusal, tried
from runtime.streaming.options import StreamOptions
from sqlwin.execution.streams.options import stream_options
from sqlwin.statements.nodes import Explain, Insert, Query, Statement

if TYPE_CHECKING:
    import pyarrow as pa

    from runtime.plan.in_process import InProcessStep
    from runtime.streaming.identity import Identity
    from sqlwin.execution.lowered import LoweredStream
    from sqlwin.execution.planning import Plans


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
    definition: PlanNode | Refusal
    lowered: LoweredStream = field(compare=False, repr=False)

    def identity(self) -> Identity:
        """Return what a checkpoint of the stream keeps of the query."""
        # imports PySpark
        from sqlwin.execution.streams.describe import identity_of

        return identity_of(self.lowered, self.options, DEFAULT, str)


def simulate(plans: Plans, statement: Query | Insert) -> Simulated | Refusal:
    """Return a query as a stream for the simulator, or why only Spark can run it.

    Args:
        plans: Planner of the session.
        statement: Query, or INSERT with the query.

    Raises:
        SqlwinError: The query is invalid, or cannot run as a stream.
    """
    from sqlwin.execution.lowered import lower_query

    with plans.lock, deep_trees(statement.text):
        plans.begin(statement.text)
        try:
            with plans.catalog.simulate_streams():
                plan = plans.plan(_without_order(statement.ast), statement.text)
                if not plans.is_stream(plan):
                    return Refusal("it reads no table that can be a stream")
                context = (plans.catalog, plans.time_zone)
                with plans.errors_of(plan.sql):
                    lowered = lower_query(
                        plan,
                        *context,
                        plans.emits_updates,
                        is_taken=True,
                        keeps_late_rows=False,
                        has_allowed_lateness=plans.has_allowed_lateness,
                    )
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
    options = lowered.options(stream_options(plans.config))
    if query.result_clock:
        definition = Refusal("the processing time of results depends on the micro-batches")
    if query.forgets_keys:
        definition = Refusal("'table.exec.state.ttl' lets a stream forget keys")
    if query.result_clock and (options.emits_updates or query.limit is not None):
        return Refusal(
            "processing time in results that are emitted again or limited depends on the cuts"
        )
    return Simulated(query, options, definition, lowered)


def explain_row(plans: Plans, statement: Explain, read: Callable[[Statement], pa.Table]) -> str:
    """Return from which rows the one row of a query is computed.

    Args:
        plans: Planner of the session.
        statement: EXPLAIN ROW.
        read: Runs a statement and returns its rows.

    Raises:
        SqlwinError: The query is invalid, has not one row, or its row cannot be traced.
    """
    from sqlwin.parts import load_part
    from sqlwin.statements.parse import parse_statement

    inner = statement.statement
    if not isinstance(inner, Query):
        raise AnalysisError("EXPLAIN ROW takes a query that returns one row")
    if plans.config.get("execution.runtime-mode") == "streaming":
        raise AnalysisError(
            "EXPLAIN ROW reads tables to their end",
            hint="SET 'execution.runtime-mode' = 'batch'",
        )
    explain = load_part("origin")
    text: str = explain(
        simulate(plans, inner),
        lambda sql: read(parse_statement(sql)),
        plans.catalog.entry,
        lists_rows="VERBOSE" in statement.details,
    )
    return text


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
