"""A streaming query whose micro-batches one process computes without Spark.

The steps of `runtime.plan.streams` leave expressions to Spark SQL. Here they are relations
(`runtime.plan.arrow_rows`) over `GivenRows`: the rows that a table, a window operator or
a step on whole windows has in the micro-batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from runtime.plan.arrow_rows import FilledRows, JoinedRows, RankedRows
from runtime.plan.exchange import MergedWindows
from runtime.plan.nodes import PlanNode
from runtime.plan.streams import (
    EmissionMode,
    StreamFillStep,
    StreamRankStep,
    StreamWindowStep,
    WholeWindowsStep,
)
from runtime.spec.expressions import RankOrder
from runtime.spec.table import Column


@dataclass(frozen=True)
class SimulatedTable:
    """A stream that the query reads.

    Attributes:
        name: Name of the table, as in `StreamSource`.
        columns: Columns of a row.
        time: Column that the watermark follows. None without a watermark.
        delay_us: Time by which a row's watermark precedes its own time.
        time_type: Type of the time column.
        clock_columns: Columns with the processing time at the start of the micro-batch. Rows of the
            table have no values for them.
        watermark_column: Column with the watermark before the micro-batch. Empty without one. Rows
            of the table have no values for it.
    """

    name: str
    columns: tuple[Column, ...]
    time: str | None
    delay_us: int
    time_type: str
    clock_columns: frozenset[str] = frozenset()
    watermark_column: str = ""

    @property
    def own_columns(self) -> tuple[Column, ...]:
        """Columns of the table's rows, without the columns of the micro-batch."""
        others = {*self.clock_columns, self.watermark_column}
        return tuple(column for column in self.columns if column.name not in others)


@dataclass(frozen=True)
class SimulatedOperator:
    """A window operator.

    Attributes:
        step: Operator as it runs on Spark: sources, number, aggregation, slice store.
        windows: The same windows as a relation. Its local stage has the expressions, over
            `GivenRows` of tables and of operators with lower numbers.
    """

    step: StreamWindowStep
    windows: MergedWindows

    @property
    def name(self) -> str:
        """Name of its windows in `GivenRows`."""
        return f"$operator{self.step.number}"

    @property
    def rows(self) -> PlanNode:
        """Its windows as a relation."""
        return self.filled or self.windows

    @property
    def filled(self) -> FilledRows | None:
        """Its windows with the windows that FILL adds, as a relation. None without FILL."""
        if not isinstance(self.step, StreamFillStep):
            return None
        of = self.windows.aggregation
        filling = replace(self.step.filling, start=of.window_start, end=of.window_end)
        return FilledRows(self.windows, filling, self.step.input.mode.time_zone)


@dataclass(frozen=True)
class SimulatedWholeWindows:
    """A step on whole windows: a Top-N, a deduplication, a join or a regrouping.

    Attributes:
        number: Number of the step in the query.
        step: Step as it runs on Spark. Its inputs are not used.
        rows: The same rows as a relation over `GivenRows`.
    """

    number: int
    step: WholeWindowsStep
    rows: RankedRows | JoinedRows | MergedWindows

    @property
    def name(self) -> str:
        """Name of its rows in `GivenRows`."""
        return f"$step{self.number}"


SimulatedPart = SimulatedOperator | SimulatedWholeWindows


@dataclass(frozen=True)
class SimulatedQuery:
    """A streaming query for the simulator.

    Attributes:
        rows: Rows of the query, over the `GivenRows` of parts.
        columns: Result columns.
        tables: Streams.
        parts: Window operators and steps on whole windows. Each reads only tables and the parts
            before it.
        limit: Number of rows after which the stream ends. None without LIMIT. `rows` has all.
        order: Sort keys of the rows of a micro-batch, before LIMIT. Empty: any order.
        result_clock: Column of the rows of parts with the processing time of the micro-batch that
            emits them. Empty if no expression over results reads processing time.
        has_kinds: Whether rows have ROW_KIND if windows are emitted more than once.
        has_changes: Whether rows are computed from the kinds of changes, which depend on the
            micro-batches.
    """

    rows: PlanNode
    columns: tuple[Column, ...]
    tables: tuple[SimulatedTable, ...]
    parts: tuple[SimulatedPart, ...]
    limit: int | None = None
    order: tuple[RankOrder, ...] = ()
    result_clock: str = ""
    has_kinds: bool = True
    has_changes: bool = False

    @property
    def depends_on_batches(self) -> bool:
        """Whether processing time or the current watermark is a column of the rows."""
        has_moments = any(table.own_columns != table.columns for table in self.tables)
        return has_moments or bool(self.result_clock)

    @property
    def is_on_processing_time(self) -> bool:
        """Whether it has windows on processing time; then all are."""
        stages = (operator.step.input for operator in self.operators)
        return any(s.time_type == "proctime" for stage in stages for s in stage.mode.sources)

    @property
    def fills_gaps(self) -> bool:
        """Whether it has FILL or GAP_FILL."""
        return any(operator.filled is not None for operator in self.operators)

    @property
    def closes_over_changes(self) -> bool:
        """Whether windows close over results that change, so that later changes are late."""
        steps = [operator.step for operator in self.operators]
        is_changing = any(step.emission is EmissionMode.AT_ONCE for step in steps)
        return is_changing and any(step.input.window.closes for step in steps)

    @property
    def depends_on_cuts(self) -> bool:
        """Whether its rows depend on the rows that arrive in one micro-batch."""
        return self.closes_over_changes or self.has_changes or self.drops_state

    @property
    def drops_state(self) -> bool:
        """Whether keys leave the state when they have not changed for a processing time."""
        return any(op.step.input.window.state_ttl_us is not None for op in self.operators)

    @property
    def forgets_keys(self) -> bool:
        """Whether first rows of keys are forgotten after a time."""
        steps = (operator.step for operator in self.operators)
        return any(isinstance(step, StreamRankStep) and step.ttl_us is not None for step in steps)

    @property
    def operators(self) -> tuple[SimulatedOperator, ...]:
        """The window operators."""
        return tuple(part for part in self.parts if isinstance(part, SimulatedOperator))
