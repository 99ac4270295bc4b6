"""Plans, lowered: all that running, explaining and resuming a query takes, worked out once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from planner.explain.streams import Firing, explain_stream
from planner.lowering.batch import Labels
from planner.lowering.stream.statement_set import StreamSetSteps, lower_stream_set
from planner.lowering.stream.steps import (
    StreamSteps,
    lower_stream,
    lower_stream_rows,
    window_steps,
)
from planner.nodes.logical import Node, Sink
from planner.nodes.physical import with_rows_by_spark
from planner.optimizer import Refusal
from planner.plan import Plan
from planner.streams.plan_form import kept_operators
from planner.streams.refusals import StreamRefusal
from planner.streams.tables import sources_in_order, streams_of
from runtime.batch.execute import dataframe
from runtime.connectors.registry import is_unbounded
from runtime.frames.meter import Meter
from runtime.spec.exchange import InProcessStep
from runtime.spec.kept_state import KeptOperator
from runtime.spec.local import StreamLocalStep
from runtime.spec.ranks import RankOrder
from runtime.spec.steps import Step
from runtime.spec.stream import StreamSource
from runtime.spec.stream_steps import StreamRowsStep
from runtime.spec.table import TableSpec
from runtime.streaming.execute.steps import streaming_dataframe
from runtime.streaming.options import StreamOptions
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.entries import LoweredWindows, Registered, StreamOfWindows


@dataclass(frozen=True)
class LoweredBatch:
    """A query that runs as a batch.

    Attributes:
        plan: its plan.
        step: what computes its rows; None: Spark does, given the text as the user wrote it.
        here: what computes them in this process; None: a job does.
    """

    plan: Plan
    step: Step | None
    here: InProcessStep | None = None


@dataclass(frozen=True)
class Measuring:
    """How EXPLAIN ANALYZE measures a stream.

    Attributes:
        labels: the names of the operators of each node of its plan, by `id(node)`.
        meter: what counts.
    """

    labels: Labels
    meter: Meter


@dataclass(frozen=True)
class LateOutput:
    """The side output of a query for late rows.

    Attributes:
        table: the name of the table that they go to.
        sources: what the windows read that they are late for.
        operators: the numbers of these windows' operators.
    """

    table: str
    sources: tuple[StreamSource, ...]
    operators: tuple[int, ...]


@dataclass(frozen=True)
class LoweredStream:
    """A query over streams, or INSERTs whose windows one stream computes.

    Starting it, its identity, EXPLAIN and the streaming DataFrame take what they need from here.

    Attributes:
        plans: the plan; those of INSERTs that one stream runs.
        steps: what computes it.
        sources: the streams that it reads, and those that registered windows in it read.
        late: for each plan its side output for late rows; None if it has none; why it cannot have
            the one that a table of it asks for.
        general_windows: windows of `Session.windows` that it reads, by the names that Spark knows.
        time_zone: the session's.
        kept: what its window operators keep, by their numbers.
        order_of_sources: the names of the streams, in the order in which Spark numbers them.
        measuring: how it is measured, for EXPLAIN ANALYZE.
    """

    plans: tuple[Plan, ...]
    steps: StreamSteps | StreamSetSteps
    sources: tuple[TableSpec | Registered, ...]
    late: tuple[LateOutput | StreamRefusal | None, ...]
    general_windows: tuple[tuple[str, LoweredWindows], ...]
    time_zone: str
    kept: tuple[KeptOperator, ...]
    order_of_sources: tuple[str, ...]
    measuring: Measuring | None = None

    @property
    def local_stages(self) -> tuple[StreamLocalStep, ...]:
        """Those of its window operators, by their numbers."""
        if isinstance(self.steps, StreamSetSteps):
            return (self.steps.shared.input,)
        stages = {step.number: step.input for step in window_steps(self.steps.rows)}
        return tuple(stages[number] for number in sorted(stages))

    @property
    def source_names(self) -> tuple[tuple[str, ...], ...]:
        """For each window operator the names of its sources; of several INSERTs, for each."""
        modes = [stage.mode for stage in self.local_stages] * len(self.plans)
        names = (tuple(source.name for source in mode.sources) for mode in modes)
        return (*names, *(windows.source_names for _, windows in self.general_windows))

    @property
    def is_bounded(self) -> bool:
        """Whether its input ends."""
        # registered windows are as bounded as what they read, which is among the sources too
        return all(
            each.made_by is not None if isinstance(each, Registered) else not is_unbounded(each)
            for each in self.sources
        )

    @property
    def order(self) -> tuple[RankOrder, ...]:
        """By which columns of its result the rows of a micro-batch are sorted, if they are."""
        # what INSERTs of one stream make of its windows is sorted by Spark, as in a batch
        return self.steps.order if isinstance(self.steps, StreamSteps) else ()

    @property
    def limit(self) -> int | None:
        """The number of rows after which it ends; None: it has no LIMIT."""
        return self.steps.limit if isinstance(self.steps, StreamSteps) else None

    def dataframe(
        self, spark: SparkSession, options: StreamOptions, *, keeps_late_rows: bool = False
    ) -> DataFrame:
        """The streaming DataFrame of a query by itself.

        Args:
            spark: the session.
            options: how the stream runs.
            keeps_late_rows: whether late rows are among its rows, for their side output.

        Raises:
            SqlwinError: Spark refuses something in it, or late rows cannot be kept.
        """
        assert isinstance(self.steps, StreamSteps), "INSERTs that share a stream have no rows"
        for number, (view, windows) in enumerate(self.general_windows, len(self.local_stages)):
            windows.dataframe(options, number).createOrReplaceTempView(view)
        step = self.steps.whole if keeps_late_rows else self.steps.rows
        meter = None if self.measuring is None else self.measuring.meter
        return streaming_dataframe(spark, step, options, dataframe, meter)

    def explained(self, options: StreamOptions) -> str:
        """What the operators of a query by itself keep and wait for, as EXPLAIN shows it.

        Raises:
            StreamRefusal: late rows cannot be kept.
        """
        assert isinstance(self.steps, StreamSteps)
        firing = Firing(options.early_fire is not None, options.allowed_lateness_us > 0)
        return explain_stream(
            self.steps.whole, options.key_groups, options.watermark_policy, firing
        )


Lowered = LoweredBatch | LoweredStream


def lower_query(
    plan: Plan,
    catalog: SessionCatalog,
    time_zone: str,
    emits_updates: bool,
    measuring: Measuring | None = None,
    *,
    is_taken: bool = False,
) -> LoweredStream:
    """Lower the plan of one query over streams; `is_taken` is as in `lower_stream`.

    Raises:
        SqlwinError: something in it cannot run on a stream.
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
    )
    general = _lowered_windows(plan, catalog)
    return LoweredStream(
        (plan,),
        steps,
        _sources(plan, catalog, general),
        (_late_output(steps),),
        general,
        time_zone,
        kept_operators([with_rows_by_spark(plan.physical)], (), catalog),
        sources_in_order(plan.physical, catalog),
        measuring,
    )


def lower_set(
    plans: Sequence[Plan], names: Sequence[str], catalog: SessionCatalog, time_zone: str
) -> LoweredStream:
    """Lower the plans of INSERTs whose windows share slices, to one stream.

    Raises:
        SqlwinError: one of them cannot run on a stream, by itself or with the others.
    """
    late: list[LateOutput | StreamRefusal | None] = []
    for plan in plans:
        alone = plan if plan.alone is None else replace(plan, physical=plan.alone)
        (output,) = lower_query(alone, catalog, time_zone, emits_updates=False).late
        if isinstance(output, StreamRefusal):
            raise output
        # there is one operator, whatever the number of windows
        late.append(output and replace(output, operators=(0,)))
    steps = lower_stream_set([plan.physical for plan in plans], names, catalog, time_zone)
    return LoweredStream(
        tuple(plans),
        steps,
        _sources(plans[0], catalog, ()),
        tuple(late),
        (),
        time_zone,
        kept_operators([with_rows_by_spark(plan.physical) for plan in plans], names, catalog),
        sources_in_order(plans[0].physical, catalog),
    )


def lower_rows(
    plan: Plan, catalog: SessionCatalog, time_zone: str, time: tuple[str, str] | None
) -> tuple[StreamRowsStep, tuple[TableSpec | Registered, ...]]:
    """The rows of a plan for an operator that takes them one by one, and the streams they are of.

    `time` is name and type of the column that windows are on; None: processing time.

    Raises:
        SqlwinError: something in the plan cannot run on a stream, or a watermark is missing.
    """
    step = lower_stream_rows(plan.physical, catalog, time_zone, time, _refusals(plan), plan.notes)
    return step, _sources(plan, catalog, _lowered_windows(plan, catalog))


def general_windows_in(
    plan: Node, catalog: SessionCatalog
) -> tuple[tuple[str, StreamOfWindows], ...]:
    """The windows of `Session.windows` that a plan reads, with the names that Spark knows."""
    found = []
    for stream in streams_of(plan, catalog):
        name = tuple(stream.name.split("."))
        entry = catalog.readable(name)
        if isinstance(entry, Registered) and entry.made_by is not None:
            found.append((str(catalog.relation(name)), entry.made_by))
    return tuple(found)


def _lowered_windows(plan: Plan, catalog: SessionCatalog) -> tuple[tuple[str, LoweredWindows], ...]:
    found = general_windows_in(plan.physical, catalog)
    return tuple((view, windows.lowered()) for view, windows in found)


def _sources(
    plan: Plan, catalog: SessionCatalog, general: Iterable[tuple[str, LoweredWindows]]
) -> tuple[TableSpec | Registered, ...]:
    """The streams that a plan reads, each of `Session.windows` with those that it reads."""
    found: list[TableSpec | Registered] = []
    lowered = (windows for _, windows in general)
    for stream in streams_of(plan.physical, catalog):
        entry = catalog.readable(tuple(stream.name.split(".")))
        if isinstance(entry, TableSpec | Registered):
            found.append(entry)
        if isinstance(entry, Registered) and entry.made_by is not None:
            found += next(lowered).sources
    return tuple(found)


def _late_output(steps: StreamSteps) -> LateOutput | StreamRefusal | None:
    if steps.late is None or isinstance(steps.late, StreamRefusal):
        return steps.late
    found = [step for step in window_steps(steps.late) if step.input.mode.late_rows is not None]
    if not found:
        return None
    modes = [step.input.mode for step in found]
    sources = tuple(source for mode in modes for source in mode.sources)
    return LateOutput(str(modes[0].late_rows), sources, tuple(step.number for step in found))


def _refusals(plan: Plan) -> tuple[Refusal, ...]:
    """Why rules have left things as they are."""
    return tuple(e.refusal for e in plan.trace.entries if e.refusal is not None)
