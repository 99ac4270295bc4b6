"""Queries as the simulator runs them in this process, and statements that run them.

EXPLAIN ROW and ADVISE read tables to their end in any runtime mode.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from sqlglot import exp

from planner.lowering.definition import lower_definition
from planner.lowering.given_tables import MomentCalls
from planner.lowering.simulated import lower_simulated
from planner.lowering.stream.steps import StreamSteps
from planner.nodes.logical import CHANGE_KIND
from planner.sql.depth import deep_trees
from planner.streams.refusals import StreamRefusal
from runtime.errors import AnalysisError
from runtime.names import quote_name
from runtime.plan.nodes import PlanNode
from runtime.plan.simulated import SimulatedQuery, SimulatedTable
from runtime.redaction import DEFAULT
from runtime.refusal import Refusal, tried
from runtime.spec.table import TableSpec
from runtime.streaming.options import StreamOptions
from sqlwin.catalog.entries import Name, name_in_text
from sqlwin.execution.streams.options import stream_options
from sqlwin.parts import load_part
from sqlwin.statements.nodes import Advise, Explain, Insert, Query, Statement
from sqlwin.statements.parse import parse_statement

if TYPE_CHECKING:
    import pyarrow as pa

    from runtime.plan.in_process import InProcessStep
    from runtime.streaming.identity import Identity
    from sqlwin.execution.lowered import LoweredStream
    from sqlwin.execution.planning import Plans


# Numbers of the copies of tables
_NUMBERS = count(1)


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


# Columns with the file, partition and offset of a row, and with the instant at which it arrived
FILE, PARTITION, OFFSET, ARRIVAL = "$file", "$partition", "$offset", "$arrival"
# Metadata columns that have them, by connector
_METADATA = {
    "filesystem": {
        FILE: "STRING METADATA FROM 'file.path'",
        ARRIVAL: "TIMESTAMP_LTZ(6) METADATA FROM 'file.modification-time'",
    },
    "kafka": {
        PARTITION: "INT METADATA FROM 'partition'",
        OFFSET: "BIGINT METADATA FROM 'offset'",
        ARRIVAL: "TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'",
    },
}


@dataclass(frozen=True)
class StoredRows:
    """Reader of the rows that a session's tables hold.

    Attributes:
        plans: Planner of the session.
        run: Runs a statement and returns its rows.
    """

    plans: Plans
    run: Callable[[Statement], pa.Table]

    def metadata(self, table: SimulatedTable) -> Mapping[str, str]:
        """Return the types and keys of the columns about a table's rows, by name."""
        entry = self.plans.catalog.entry(self._name(table))
        connector = entry.connector.lower() if isinstance(entry, TableSpec) else ""
        return _METADATA.get(connector, {})

    def read(
        self,
        table: SimulatedTable,
        columns: Mapping[str, str],
        metadata: Mapping[str, str],
    ) -> pa.Table:
        """Return the rows of a table: its own columns, then others.

        Args:
            table: Table.
            columns: Columns of the table to read again, by their new names.
            metadata: Columns to read, some of the columns of `metadata`.

        Raises:
            SqlwinError: The rows cannot be read.
        """
        items = [quote_name(column.name) for column in table.own_columns]
        items += [f"{quote_name(column)} AS {quote_name(own)}" for own, column in columns.items()]
        items += map(quote_name, metadata)
        name = self._name(table)
        if not metadata:
            return self._rows(items, name)
        copy = (*name[:-1], f"{name[-1]}${next(_NUMBERS)}")
        declared = ", ".join(f"{quote_name(own)} {text}" for own, text in metadata.items())
        self._run(f"CREATE TABLE {quote_name(*copy)} ({declared}) LIKE {quote_name(*name)}")
        try:
            return self._rows(items, copy)
        finally:
            self._run(f"DROP TABLE {quote_name(*copy)}")

    def _name(self, table: SimulatedTable) -> Name:
        return name_in_text(table.name, self.plans.catalog.entry)

    def _rows(self, items: Collection[str], name: Name) -> pa.Table:
        return self._run(f"SELECT {', '.join(items)} FROM {quote_name(*name)}")

    def _run(self, text: str) -> pa.Table:
        return self.run(parse_statement(text))


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
            return simulate_query(plans, statement.ast, statement.text)
        finally:
            plans.end()


def simulate_query(plans: Plans, ast: exp.Query, text: str) -> Simulated | Refusal:
    """Return a query of the current statement as a stream for the simulator, as `simulate`."""
    from sqlwin.execution.lowered import lower_query

    with plans.catalog.simulate_streams():
        plan = plans.plan(_without_order(ast), text)
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
    if isinstance(query, Refusal):
        return query
    options = lowered.options(stream_options(plans.config))
    if query.result_clock:
        definition = Refusal("the processing time of results depends on the micro-batches")
    if query.forgets_keys or query.drops_state:
        definition = Refusal("'table.exec.state.ttl' lets a stream forget keys")
    if any(CHANGE_KIND in node.column_names for node in plan.bound.walk()):
        query = replace(query, has_changes=True)
        definition = Refusal("TO_CHANGELOG gives the changes of each micro-batch")
    if query.result_clock and (options.emits_updates or query.limit is not None):
        return Refusal(
            "processing time in results that are emitted again or limited depends on the cuts"
        )
    return Simulated(query, options, definition, lowered)


@contextmanager
def _reading_whole(plans: Plans) -> Iterator[None]:
    """Within the block, read tables to their end in any runtime mode."""
    key = "execution.runtime-mode"
    before = plans.config.text(key) if plans.config.is_set(key) else None
    plans.config.set(key, "batch")
    plans.start_statement()
    try:
        yield
    finally:
        if before is None:
            plans.config.reset(key)
        else:
            plans.config.set(key, before)
        plans.start_statement()


def explain_row(stored: StoredRows, statement: Explain) -> str:
    """Return from which rows the one row of a query is computed.

    Raises:
        SqlwinError: The query is invalid, has not one row, or its row cannot be traced.
    """
    inner = statement.statement
    if not isinstance(inner, Query):
        raise AnalysisError("EXPLAIN ROW takes a query that returns one row")
    every = inner.ast.copy()
    for clause in ("order", "limit", "offset"):
        every.set(clause, None)
    with _reading_whole(stored.plans):
        try:
            simulated = simulate_query(stored.plans, every, inner.text)
        except StreamRefusal as error:
            # its rows are traced in the operators of a stream
            error.message = f"the rows of this query cannot be traced: {error.message}"
            error.hint = None
            raise
        picked = None
        if inner.ast.args.get("limit") or inner.ast.args.get("offset"):
            picked = stored.run(inner)
        lists_rows = "VERBOSE" in statement.details
        text: str = load_part("origin")(simulated, stored, picked, lists_rows=lists_rows)
    return text


def advise(stored: StoredRows, statement: Advise) -> Any:
    """Return which delay the watermark of a query's table should have.

    Returns:
        `sqlwin.advise.advice.Advice`, of a part that the core does not import.

    Raises:
        SqlwinError: The query or an option is invalid, or its late rows cannot be predicted.
    """
    with _reading_whole(stored.plans):
        simulated = simulate_query(stored.plans, statement.ast, statement.text)
        return load_part("advice")(simulated, stored, dict(statement.options))


def advice_rows(stored: StoredRows, statement: Advise) -> tuple[pa.Table, tuple[str, ...]]:
    """Return the rows of ADVISE, and lines for people. Raises the errors of `advise`."""
    table, lines = load_part("advice_result")(advise(stored, statement))
    return table, lines


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
