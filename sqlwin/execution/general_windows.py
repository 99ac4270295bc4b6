"""`Session.windows`: from its arguments to a DataFrame, of a batch or of a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.plan import Plan
from runtime.errors import AnalysisError
from runtime.streaming.options import StreamOptions
from sqlwin.catalog.columns import check_time_column, column_of, output_columns
from sqlwin.execution.runner import Runner
from sqlwin.execution.streams.options import foreign_options
from sqlwin.statements.parse import Query, parse_statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from runtime.streaming.general import WindowJob


@dataclass(frozen=True)
class GeneralWindows:
    """Windows with triggers, evictors and functions over the rows of a query.

    Attributes:
        runner: the session's.
        query: the query.
        keys: the columns by which rows are grouped, as they are called in the query.
        time: the column that windows are on, in any case; None: they are on processing time.
        job: what to do.
        output: the columns of a result, as Spark's DDL.
    """

    runner: Runner
    query: str
    keys: tuple[str, ...]
    time: str | None
    job: WindowJob
    output: str

    def dataframe(self) -> DataFrame:
        """The results; a streaming DataFrame if the query reads a stream.

        Raises:
            SqlwinError: a column is not there, or the query cannot run on a stream.
        """
        from runtime.streaming.general.bounded import general_windows

        self.runner.start_statement()
        plan = self.plan()
        if self.runner.is_stream(plan):
            options = foreign_options(self.runner.spark, self.runner.config)
            return self.made(options, 0)
        keys, clock = self._columns(plan)
        output = output_columns(self.output)
        return general_windows(self.runner.rows_of(self._parsed()), keys, clock, self.job, output)

    # -- StreamOfWindows -----------------------------------------------------------------------

    def plan(self) -> Plan:
        """The plan of the query."""
        return self.runner.plan_of(self._parsed())

    def made(self, options: StreamOptions, number: int) -> DataFrame:
        """The streaming DataFrame, for a stream with these options.

        Args:
            options: how the stream runs.
            number: its number among the window operators of the stream.
        """
        from runtime.batch.execute import dataframe
        from runtime.streaming.execute.general import check_general_key, general_stream

        if options.emits_updates:
            raise AnalysisError(
                "windows() takes no early firing and no allowed lateness from settings",
                hint="give it a trigger and allowed_lateness; RESET 'table.exec.emit."
                "early-fire.enabled' and 'table.exec.emit.allow-lateness'",
            )
        plan = self.plan()
        keys, clock = self._columns(plan)
        for key in keys:
            check_general_key(key, column_of(plan.physical.schema, key).type)
        step = self.runner.lowered_rows(plan, clock)
        output = output_columns(self.output)
        spark = self.runner.spark
        return general_stream(spark, step, keys, self.job, output, options, number, dataframe)

    def source_names(self) -> list[str]:
        """The names of the sources whose watermarks the windows wait for."""
        plan = self.plan()
        step = self.runner.lowered_rows(plan, self._columns(plan)[1])
        return [source.name for source in step.sources]

    def described(self) -> str:
        """What the windows are, in one line; what functions do is not in it."""
        job = self.job
        kinds = [type(part).__name__ for part in (job.assigner, job.function, job.trigger) if part]
        by = f" by {', '.join(self.keys)}" if self.keys else ""
        return f"{', '.join(kinds)} over {self.query}{by} on {self.time or 'the clock'}"

    def _parsed(self) -> Query:
        parsed = parse_statement(self.query)
        assert isinstance(parsed, Query)
        return parsed

    def _columns(self, plan: Plan) -> tuple[tuple[str, ...], tuple[str, str] | None]:
        """The keys as they are called, and name and type of the time column."""
        schema = plan.physical.schema
        keys = tuple(column_of(schema, key).name for key in self.keys)
        if self.time is None:
            return keys, None
        check_time_column(schema, self.time)
        time = column_of(schema, self.time)
        return keys, (time.name, time.type)
