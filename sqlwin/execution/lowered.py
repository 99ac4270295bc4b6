"""Lowered streams, shared by running, explaining and resuming a query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.explain.streams import Firing, explain_stream
from planner.lowering.plan import Labels
from planner.lowering.stream.statement_set import StreamSetSteps, lower_stream_set
from planner.lowering.stream.steps import (
    StreamSteps,
    lower_stream,
    lower_stream_rows,
    window_steps,
)
from planner.nodes.logical import Node, Sink
from planner.nodes.physical import ScanLocalWindowAggregate, with_rows_by_spark
from planner.nodes.window_columns import groups_all_time, only_inserts
from planner.plan import Plan
from planner.streams.plan_form import operator_schemas
from planner.streams.tables import bounded_tables, sources_in_order, streams_of
from runtime.connectors.registry import open_table
from runtime.errors import AnalysisError
from runtime.plan.local import Streaming, StreamLocalStep
from runtime.plan.streams import StreamRowsStep, watermarked_rows
from runtime.refusal import Refusal
from runtime.spec.expressions import RankOrder
from runtime.spec.state_schema import OperatorSchema
from runtime.spec.stream import ROW_KIND, StreamSource
from runtime.spec.table import LOOKUP_CACHE, Reload, TableSpec
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.entries import LoweredWindows, Registered, StreamOfWindows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from runtime.frames.meter import Meter
    from runtime.streaming.operators.base import OperatorRun
    from runtime.streaming.options import StreamOptions


@dataclass(frozen=True)
class Measuring:
    """Measurement of a stream by EXPLAIN ANALYZE.

    Attributes:
        labels: Operator names of each plan node, by `id(node)`.
        meter: Meter that collects the counts.
    """

    labels: Labels
    meter: Meter


@dataclass(frozen=True)
class LateOutput:
    """Side output of a query for late rows.

    Attributes:
        table: Name of the table that receives the late rows.
        sources: Sources of the windows for which rows are late.
        operators: Numbers of the operators of these windows.
    """

    table: str
    sources: tuple[StreamSource, ...]
    operators: tuple[int, ...]


@dataclass(frozen=True)
class LoweredStream:
    """A streaming query, or INSERTs whose windows one stream computes.

    Basis for starting it, its identity, EXPLAIN and the streaming DataFrame.

    Attributes:
        plans: Plan of the query, or of each INSERT of the stream.
        steps: Steps that compute the rows.
        sources: Streams that it reads, directly or through registered windows.
        late: Side output of each plan for late rows. None: late rows are dropped.
        general_windows: Windows of `Session.windows` that it reads, with their names in Spark.
        time_zone: Session time zone.
        operators: State schemas of its window operators, by operator number.
        order_of_sources: Names of the streams, in the order in which Spark numbers them.
        measuring: How EXPLAIN ANALYZE measures it.
    """

    plans: tuple[Plan, ...]
    steps: StreamSteps | StreamSetSteps
    sources: tuple[TableSpec | Registered, ...]
    late: tuple[LateOutput | None, ...]
    general_windows: tuple[tuple[str, LoweredWindows], ...]
    time_zone: str
    operators: tuple[OperatorSchema, ...]
    order_of_sources: tuple[str, ...]
    measuring: Measuring | None = None

    @property
    def local_stages(self) -> tuple[StreamLocalStep, ...]:
        """Local stages of its window operators, by operator number."""
        if isinstance(self.steps, StreamSetSteps):
            return (self.steps.shared.input,)
        stages = {step.number: step.input for step in window_steps(self.steps.rows)}
        return tuple(stages[number] for number in sorted(stages))

    def options(self, options: StreamOptions) -> StreamOptions:
        """Return the options of the settings as this stream uses them."""
        if any(groups_all_time(plan.physical) for plan in self.plans):
            return replace(options, is_of_all_time=True)
        return options

    @property
    def only_inserts(self) -> bool:
        """Whether it emits each row once, although its operator may emit groups again."""
        return all(only_inserts(plan.physical) for plan in self.plans)

    @property
    def source_names(self) -> tuple[tuple[str, ...], ...]:
        """Source names per window operator, or per INSERT if there are several."""
        modes = [stage.mode for stage in self.local_stages] * len(self.plans)
        names = (tuple(source.name for source in mode.sources) for mode in modes)
        return (*names, *(windows.source_names for _, windows in self.general_windows))

    @property
    def is_bounded(self) -> bool:
        """Whether its input ends."""
        # Registered windows are bounded if their sources are, which the list includes.
        return all(
            source.made_by is not None
            if isinstance(source, Registered)
            else not open_table(source).is_unbounded
            for source in self.sources
        )

    @property
    def tables_of_tasks(self) -> tuple[TableSpec, ...]:
        """Tables that only tasks read."""
        specs = dict.fromkeys(source for source in self.sources if isinstance(source, TableSpec))
        return tuple(spec for spec in specs if open_table(spec).is_streamed_by_tasks)

    def watermarks(self, options: StreamOptions) -> tuple[OperatorRun, ...]:
        """Return how a run with these options computes watermarks, by operator number."""
        from runtime.streaming.operator_specs import operator_run

        steps: tuple[Streaming | StreamRowsStep, ...] = (
            *(s.mode for s in self.local_stages),
            *(w.step for _, w in self.general_windows),
        )
        return tuple(operator_run(step, options) for step in steps)

    @property
    def may_advance_with_clock(self) -> bool:
        """Whether a watermark advances while all sources of its operator are silent."""
        from runtime.streaming.watermarks import idle_advance

        return any(idle_advance(stage.mode.sources) for stage in self.local_stages)

    def reloads(self, catalog: SessionCatalog) -> dict[tuple[str, ...], Reload]:
        """Return when each cached table that is joined to the stream is read again, by its name.

        Raises:
            AnalysisError: Tasks read a cached table without its view.
        """
        reloads: dict[tuple[str, ...], Reload] = {}
        for plan in self.plans:
            for table in bounded_tables(plan.physical, catalog):
                name = tuple(part.name for part in table.parts)
                entry = catalog.readable(name)
                if (
                    isinstance(entry, TableSpec)
                    and (reload := open_table(entry).reload()) is not None
                ):
                    reloads[name] = reload
            _refuse_scans(plan.physical, catalog)
        return reloads

    @property
    def order(self) -> tuple[RankOrder, ...]:
        """Columns by which the rows of a micro-batch are sorted, empty without sorting."""
        # With several INSERTs, Spark sorts the rows of each as in a batch.
        return self.steps.order if isinstance(self.steps, StreamSteps) else ()

    @property
    def limit(self) -> int | None:
        """LIMIT of the query, after which the stream ends. None: no LIMIT."""
        return self.steps.limit if isinstance(self.steps, StreamSteps) else None

    @property
    def reads_watermark(self) -> bool:
        """Whether it calls CURRENT_WATERMARK, which sqlwin sets for each micro-batch."""
        return isinstance(self.steps, StreamSteps) and any(watermarked_rows(self.steps.rows))

    def dataframe(
        self, spark: SparkSession, options: StreamOptions, *, keeps_late_rows: bool = False
    ) -> DataFrame:
        """Return the streaming DataFrame of a single query.

        Args:
            spark: Spark session.
            options: Options of the stream.
            keeps_late_rows: Whether to include late rows for their side output.

        Raises:
            SqlwinError: Spark refuses the query.
        """
        # imported late because EXPLAIN does not need them
        from runtime.engines.spark_batch.execute import dataframe
        from runtime.sinks.late_rows import results_among
        from runtime.streaming.execute.steps import streaming_dataframe

        assert isinstance(self.steps, StreamSteps), "INSERTs that share a stream have no rows"
        for number, (view, windows) in enumerate(self.general_windows, len(self.local_stages)):
            windows.dataframe(options, number).createOrReplaceTempView(view)
        meter = None if self.measuring is None else self.measuring.meter
        rows = streaming_dataframe(spark, self.steps.rows, options, dataframe, meter)
        if self.only_inserts:
            rows = rows.drop(ROW_KIND)
        carries_late = self.steps.carries_late_rows and not keeps_late_rows
        return results_among(rows) if carries_late else rows

    def explained(self, options: StreamOptions) -> str:
        """Return EXPLAIN's text about the state and watermarks of a single query."""
        assert isinstance(self.steps, StreamSteps)
        options = self.options(options)
        firing = Firing(
            options.early_fire is not None or options.is_of_all_time,
            options.allowed_lateness_us > 0,
        )
        return explain_stream(self.steps.rows, options.key_groups, options.watermark_policy, firing)


def lower_query(
    plan: Plan,
    catalog: SessionCatalog,
    time_zone: str,
    emits_updates: bool,
    measuring: Measuring | None = None,
    *,
    is_taken: bool = False,
    keeps_late_rows: bool = True,
    has_allowed_lateness: bool = False,
) -> LoweredStream:
    """Lower the plan of one streaming query. The last three arguments are as in `lower_stream`.

    Raises:
        SqlwinError: The plan cannot run as a stream.
    """
    steps = lower_stream(
        plan.physical.input if isinstance(plan.physical, Sink) else plan.physical,
        catalog,
        time_zone,
        emits_updates,
        _refusals(plan),
        None if measuring is None else measuring.labels,
        plan.notes,
        plan.sql,
        is_taken=is_taken,
        keeps_late_rows=keeps_late_rows,
        has_allowed_lateness=has_allowed_lateness,
    )
    general = _lower_windows(plan, catalog)
    return LoweredStream(
        (plan,),
        steps,
        _sources(plan, catalog, general),
        (_late_output(steps),),
        general,
        time_zone,
        operator_schemas([with_rows_by_spark(plan.physical)], (), catalog),
        sources_in_order(plan.physical, catalog),
        measuring,
    )


def lower_set(
    plans: Sequence[Plan], names: Sequence[str], catalog: SessionCatalog, time_zone: str
) -> LoweredStream:
    """Lower the plans of INSERTs whose windows share slices to one stream.

    Raises:
        SqlwinError: An INSERT cannot run as a stream, alone or with the others.
    """
    late: list[LateOutput | None] = []
    for plan in plans:
        alone = plan if plan.alone is None else replace(plan, physical=plan.alone)
        (output,) = lower_query(alone, catalog, time_zone, emits_updates=False).late
        # one operator serves all windows
        late.append(output and replace(output, operators=(0,)))
    steps = lower_stream_set([plan.physical for plan in plans], names, catalog, time_zone)
    return LoweredStream(
        tuple(plans),
        steps,
        _sources(plans[0], catalog, ()),
        tuple(late),
        (),
        time_zone,
        operator_schemas([with_rows_by_spark(plan.physical) for plan in plans], names, catalog),
        sources_in_order(plans[0].physical, catalog),
    )


def lower_rows(
    plan: Plan, catalog: SessionCatalog, time_zone: str, time: tuple[str, str] | None
) -> tuple[StreamRowsStep, tuple[TableSpec | Registered, ...]]:
    """Lower the rows of a plan for an operator on single rows, and return the streams read.

    `time` is name and type of the column for windows. None: processing time.

    Raises:
        SqlwinError: The plan cannot run as a stream, or a watermark is missing.
    """
    step = lower_stream_rows(plan.physical, catalog, time_zone, time, _refusals(plan), plan.notes)
    return step, _sources(plan, catalog, _lower_windows(plan, catalog))


def general_windows_in(
    plan: Node, catalog: SessionCatalog
) -> tuple[tuple[str, StreamOfWindows], ...]:
    """Return the `Session.windows` that a plan reads, with their names in Spark."""
    windows_read = []
    for stream in streams_of(plan, catalog):
        name = tuple(stream.name.split("."))
        entry = catalog.readable(name)
        if isinstance(entry, Registered) and entry.made_by is not None:
            windows_read.append((str(catalog.relation(name)), entry.made_by))
    return tuple(windows_read)


def _lower_windows(plan: Plan, catalog: SessionCatalog) -> tuple[tuple[str, LoweredWindows], ...]:
    windows_read = general_windows_in(plan.physical, catalog)
    return tuple((view, windows.lower()) for view, windows in windows_read)


def _sources(
    plan: Plan, catalog: SessionCatalog, general: Iterable[tuple[str, LoweredWindows]]
) -> tuple[TableSpec | Registered, ...]:
    """Return the streams that a plan reads, including the sources of `Session.windows`."""
    sources: list[TableSpec | Registered] = []
    lowered = (windows for _, windows in general)
    for stream in streams_of(plan.physical, catalog):
        entry = catalog.readable(tuple(stream.name.split(".")))
        if isinstance(entry, TableSpec | Registered):
            sources.append(entry)
        if isinstance(entry, Registered) and entry.made_by is not None:
            sources += next(lowered).sources
    return tuple(sources)


def _late_output(steps: StreamSteps) -> LateOutput | None:
    late_steps = [
        step for step in window_steps(steps.rows) if step.input.mode.late_rows is not None
    ]
    if not late_steps:
        return None
    modes = [step.input.mode for step in late_steps]
    sources = tuple(source for mode in modes for source in mode.sources)
    return LateOutput(str(modes[0].late_rows), sources, tuple(step.number for step in late_steps))


def _refuse_scans(node: Node, catalog: SessionCatalog) -> None:
    """Refuse windows over a cached table, which tasks read themselves in each micro-batch."""
    if isinstance(node, ScanLocalWindowAggregate) and not streams_of(node, catalog):
        entry = catalog.readable(tuple(node.table.split(".")))
        if isinstance(entry, TableSpec) and open_table(entry).reload() is not None:
            raise AnalysisError(
                f"windows over `{entry.name}`, which are joined to a stream, do not use its cache",
                subjects=(entry.name,),
                hint=f"remove '{LOOKUP_CACHE}' = 'FULL' from `{entry.name}`",
            )
    for child in node.inputs:
        _refuse_scans(child, catalog)


def _refusals(plan: Plan) -> tuple[Refusal, ...]:
    """Return the reasons why rules did not apply."""
    return tuple(e.refusal for e in plan.trace.entries if e.refusal is not None)
