"""`Session.windows`: from its arguments to a batch or streaming DataFrame."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.nodes.physical import with_rows_by_spark
from planner.plan import Plan
from planner.streams.plan_form import form_of
from runtime.engines.spark_batch.execute import dataframe
from runtime.errors import AnalysisError
from runtime.plan.streams import StreamRowsStep
from runtime.spec.table import TableSpec
from runtime.streaming.execute.general import check_general_key, general_stream, may_be_idle
from runtime.streaming.options import StreamOptions
from sqlwin.catalog.column_lookup import check_time_column, output_columns, required_column
from sqlwin.catalog.entries import Registered
from sqlwin.execution.lowered import lower_rows
from sqlwin.execution.planning import Plans
from sqlwin.execution.streams.options import foreign_options
from sqlwin.statements.nodes import Query
from sqlwin.statements.parse import parse_statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from runtime.streaming.general.operator import WindowJob


@dataclass(frozen=True)
class GeneralWindows:
    """Windows with custom triggers, evictors and functions over the rows of a query.

    Attributes:
        plans: Planner of the session.
        query: Query that yields the rows.
        keys: Columns to group by, as named in the query.
        time: Time column, in any case. None: processing time.
        job: Assigner, function, trigger and evictor.
        output: Columns of a result, as Spark DDL.
    """

    plans: Plans
    query: str
    keys: tuple[str, ...]
    time: str | None
    job: WindowJob
    output: str

    def dataframe(self) -> DataFrame:
        """Return the results, as a streaming DataFrame if the query reads a stream.

        Raises:
            SqlwinError: A column does not exist, or the query cannot run as a stream.
        """
        from runtime.streaming.general.bounded import general_windows

        plans = self.plans
        plans.start_statement()
        plan = self._plan()
        if plans.is_stream(plan):
            options = foreign_options(plans.spark, plans.config)
            return self._lower(plan).dataframe(options, 0)
        keys, time = self._columns(plan)
        rows = plans.dataframe(plans.lower(plan, is_whole=True))
        return general_windows(rows, keys, time, self.job, output_columns(self.output))

    # -- StreamOfWindows -----------------------------------------------------------------------

    def lower(self) -> LoweredGeneralWindows:
        """Plan and lower the windows over the current tables.

        Raises:
            SqlwinError: A column does not exist, or the query cannot run as a stream.
        """
        return self._lower(self._plan())

    def describe(self) -> str:
        """Describe the windows in one line, without the code of functions."""
        job = self.job
        kinds = [type(part).__name__ for part in (job.assigner, job.function, job.trigger) if part]
        by = f" by {', '.join(self.keys)}" if self.keys else ""
        # checkpoints store this line, so its wording must not change
        return f"{', '.join(kinds)} over {self.query}{by} on {self.time or 'the clock'}"

    def _lower(self, plan: Plan) -> LoweredGeneralWindows:
        keys, time = self._columns(plan)
        for key in keys:
            check_general_key(key, required_column(plan.physical.schema, key).type)
        step, sources = lower_rows(plan, self.plans.catalog, self.plans.time_zone, time)
        return LoweredGeneralWindows(self, plan, step, sources, keys)

    def _plan(self) -> Plan:
        parsed = parse_statement(self.query)
        assert isinstance(parsed, Query)
        return self.plans.plan(parsed.ast, parsed.text)

    def _columns(self, plan: Plan) -> tuple[tuple[str, ...], tuple[str, str] | None]:
        """Return the key columns as spelled in the schema, and the time column's name and type."""
        schema = plan.physical.schema
        keys = tuple(required_column(schema, key).name for key in self.keys)
        if self.time is None:
            return keys, None
        check_time_column(schema, self.time)
        time = required_column(schema, self.time)
        return keys, (time.name, time.type)


@dataclass(frozen=True)
class LoweredGeneralWindows:
    """Windows over streams, planned and lowered for one statement.

    Attributes:
        windows: Definition of the windows.
        plan: Plan of the input rows.
        step: Step that computes the input rows.
        sources: Streams that the plan reads.
        keys: Columns to group by, as spelled in the schema.
    """

    windows: GeneralWindows
    plan: Plan
    step: StreamRowsStep
    sources: tuple[TableSpec | Registered, ...]
    keys: tuple[str, ...]

    @property
    def source_names(self) -> tuple[str, ...]:
        """Names of the sources whose watermarks the windows wait for."""
        return tuple(source.name for source in self.step.sources)

    @property
    def state_dependencies(self) -> str:
        """Everything that their state depends on, as JSON: the rows, the window, the key types.

        The code of Python functions is not included.
        """
        physical = with_rows_by_spark(self.plan.physical)
        types = {key.lower(): required_column(physical.schema, key).type for key in self.keys}
        identity = {
            "rows": form_of(physical),
            "window": self.windows.job.assigner.bounds,
            "keys": types,
        }
        return json.dumps(identity)

    def may_be_idle(self, options: StreamOptions) -> bool:
        """Return whether their sources can be idle, so that they need processing time."""
        return may_be_idle(self.step, options)

    def dataframe(self, options: StreamOptions, number: int) -> DataFrame:
        """Return the streaming DataFrame.

        Args:
            options: Options of the stream.
            number: Number among the window operators of the stream.

        Raises:
            AnalysisError: Settings ask for early firing or allowed lateness.
        """
        if options.emits_updates:
            raise AnalysisError(
                "windows() does not support early firing and allowed lateness from settings",
                hint="pass trigger= and allowed_lateness=, and RESET "
                "'table.exec.emit.early-fire.enabled' and 'table.exec.emit.allow-lateness'",
            )
        windows, output = self.windows, output_columns(self.windows.output)
        spark, job = windows.plans.spark, windows.job
        return general_stream(spark, self.step, self.keys, job, output, options, number, dataframe)
