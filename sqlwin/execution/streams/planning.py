"""What queries over streams read and compute: from a plan to a streaming DataFrame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from planner.explain.streams import explain_stream
from planner.lowering.batch import Labels
from planner.lowering.stream.steps import lower_stream, lower_stream_rows, streams_of
from planner.nodes.logical import Node, Sink
from planner.plan import Plan
from runtime.batch.execute import dataframe
from runtime.connectors.registry import is_unbounded
from runtime.frames.meter import Meter
from runtime.spec.stream_steps import StreamRowsStep, StreamWindowStep
from runtime.spec.table import TableSpec
from runtime.streaming.execute.steps import streaming_dataframe
from runtime.streaming.options import StreamOptions
from sqlwin.catalog.catalog import Registered, SessionCatalog, StreamOfWindows
from sqlwin.config.config import Config
from sqlwin.execution.streams.options import foreign_options, planned_options, stream_options


@dataclass(frozen=True)
class Measuring:
    """How EXPLAIN ANALYZE measures a stream.

    Attributes:
        labels: the names of the operators of each node of its plan, by `id(node)`.
        meter: what counts.
    """

    labels: Labels
    meter: Meter


class StreamPlans:
    """Plans over streams, and the DataFrames that carry them out.

    Attributes:
        spark: the session.
        config: the settings.
        catalog: the tables.
    """

    def __init__(self, spark: SparkSession, config: Config, catalog: SessionCatalog) -> None:
        self.spark = spark
        self.config = config
        self.catalog = catalog

    @property
    def time_zone(self) -> str:
        """The session's time zone."""
        return str(self.spark.conf.get("spark.sql.session.timeZone"))

    @property
    def emits_updates(self) -> bool:
        """Whether settings let windows of streams come out more than once."""
        return stream_options(self.config).emits_updates

    # -- what is read --------------------------------------------------------------------------

    def is_stream(self, plan: Plan) -> bool:
        """Whether a plan reads a stream, in the mode that its statement runs in."""
        return bool(streams_of(plan.physical, self.catalog))

    def ends(self, plan: Plan) -> bool:
        """Whether the input of a plan over streams ends."""
        return not any(
            entry.made_by is None if isinstance(entry, Registered) else is_unbounded(entry)
            for entry in self.sources(plan)
        )

    def sources(self, plan: Plan) -> list[TableSpec | Registered]:
        """The streams that a plan reads, and those that registered windows in it read."""
        found: list[TableSpec | Registered] = []
        for stream in streams_of(plan.physical, self.catalog):
            entry = self.catalog.entry(tuple(stream.name.split(".")))
            if isinstance(entry, TableSpec | Registered):
                found.append(entry)
            if isinstance(entry, Registered) and entry.made_by is not None:
                found += self.sources(entry.made_by.plan())
        return found

    def reads_general_windows(self, plan: Node) -> bool:
        """Whether a plan reads what `Session.windows` made."""
        return bool(self._general_windows(plan))

    def _general_windows(self, plan: Node) -> list[tuple[str, StreamOfWindows]]:
        """The registered windows that a plan reads, with the names by which Spark knows them."""
        found = []
        for stream in streams_of(plan, self.catalog):
            name = tuple(stream.name.split("."))
            entry = self.catalog.entry(name)
            if isinstance(entry, Registered) and entry.made_by is not None:
                found.append((str(self.catalog.relation(name)), entry.made_by))
        return found

    # -- what is computed ----------------------------------------------------------------------

    def check(self, plan: Plan) -> None:
        """Check that a plan can run on a stream by itself.

        Raises:
            SqlwinError: something in it cannot, and why.
        """
        alone = plan if plan.alone is None else replace(plan, physical=plan.alone)
        self._step(alone, keeps_late_rows=True)

    def explain(self, plan: Plan) -> str:
        """What the operators of a stream keep and wait for, as EXPLAIN shows it.

        Raises:
            SqlwinError: something in the plan cannot run on a stream.
        """
        options = planned_options(self.spark, self.config)
        step = self._step(plan, keeps_late_rows=True)
        return explain_stream(step, options.key_groups, options.watermark_policy)

    def window_steps(self, plan: Plan, *, keeps_late_rows: bool = False) -> list[StreamWindowStep]:
        """The window operators of a plan, but for the windows that `Session.windows` made.

        Args:
            plan: the plan.
            keeps_late_rows: whether rows that are late for them go to a table.

        Raises:
            SqlwinError: something in the plan cannot run on a stream.
        """
        return list(_window_steps(self._step(plan, keeps_late_rows=keeps_late_rows)))

    def source_names(self, plan: Plan, steps: Sequence[StreamWindowStep]) -> list[list[str]]:
        """For each window operator the names of its sources: those of `steps`, then of the rest."""
        general = [windows.source_names() for _, windows in self._general_windows(plan.physical)]
        return [*_source_names(steps), *general]

    def dataframe(
        self,
        plan: Plan,
        options: StreamOptions | None = None,
        measuring: Measuring | None = None,
        *,
        keeps_late_rows: bool = False,
    ) -> DataFrame:
        """The streaming DataFrame of a query.

        Args:
            plan: its plan.
            options: how the stream runs; None: as whoever starts it without sqlwin has it.
            measuring: how it is measured, if it is.
            keeps_late_rows: whether rows that are late for its windows go to a table.

        Raises:
            SqlwinError: something in the plan cannot run on a stream.
        """
        options = options or foreign_options(self.spark, self.config)
        labels = None if measuring is None else measuring.labels
        step = self._step(plan, labels, keeps_late_rows=keeps_late_rows)
        first = len(_source_names(list(_window_steps(step))))
        for number, (view, windows) in enumerate(self._general_windows(plan.physical), first):
            windows.made(options, number).createOrReplaceTempView(view)
        meter = None if measuring is None else measuring.meter
        return streaming_dataframe(self.spark, step, options, dataframe, meter)

    def windows_step(self, plan: Plan, time: tuple[str, str] | None) -> StreamRowsStep:
        """The rows of a plan for an operator that takes them one by one; see `lower_stream_rows`.

        Raises:
            SqlwinError: something in the plan cannot run on a stream, or a watermark is missing.
        """
        return lower_stream_rows(
            plan.physical, self.catalog, self.time_zone, time, _refusals(plan), plan.notes
        )

    def _step(
        self, plan: Plan, labels: Labels | None = None, *, keeps_late_rows: bool = False
    ) -> Any:
        top = plan.physical.input if isinstance(plan.physical, Sink) else plan.physical
        return lower_stream(
            top,
            self.catalog,
            self.time_zone,
            self.emits_updates,
            _refusals(plan),
            labels,
            plan.notes,
            keeps_late_rows=keeps_late_rows,
            sql=plan.sql,
        )


def _refusals(plan: Plan) -> tuple[str, ...]:
    """Why rules have left things as they are."""
    return tuple(e.reason for e in plan.trace.entries if e.reason is not None)


def _source_names(steps: Sequence[StreamWindowStep]) -> list[list[str]]:
    """For each of the window operators, by its number, the names of its sources."""
    found = {step.number: [source.name for source in step.input.sources] for step in steps}
    return [found[number] for number in sorted(found)]


def _window_steps(value: Any) -> Iterator[StreamWindowStep]:
    if isinstance(value, StreamWindowStep):
        yield value
    if isinstance(value, tuple):
        for item in value:
            yield from _window_steps(item)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _window_steps(getattr(value, field.name))
