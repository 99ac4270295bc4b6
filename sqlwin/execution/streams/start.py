"""Queries over streams: from a plan to a stream that runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame

from planner.plan import Plan
from runtime.connectors.late_rows import LateTable, check_late_tables
from runtime.connectors.stream_sinks import (
    StreamRun,
    Take,
    check_sink,
    start_discarding,
    start_taking,
    start_writing,
)
from runtime.errors import AnalysisError
from runtime.spark.files import files_at
from runtime.spark.session import is_local
from runtime.spec.local import StreamLocalStep
from runtime.spec.stream import ROW_KIND
from runtime.spec.table import TableSpec
from runtime.streaming.options import StreamOptions
from runtime.streaming.own_sources import OwnSources
from runtime.streaming.source_reads import reads_of_sources
from sqlwin.execution.errors import StatementErrors
from sqlwin.execution.inserts import arranged, with_static
from sqlwin.execution.streams.checkpoint import (
    Place,
    lasting_place,
    opened_checkpoint,
    temporary_place,
)
from sqlwin.execution.streams.handle import Setup, Stream
from sqlwin.execution.streams.identity import identity_of
from sqlwin.execution.streams.late_rows import late_columns, late_target
from sqlwin.execution.streams.listener import tally_batches
from sqlwin.execution.streams.options import (
    planned_options,
    stream_options,
    trigger_us,
    with_stream_settings,
)
from sqlwin.execution.streams.planning import Measuring, StreamPlans
from sqlwin.execution.streams.registry import Streams
from sqlwin.result import arrow_ready


@dataclass(frozen=True)
class StreamJob:
    """A stream to be started.

    Attributes:
        plans: what it computes: one plan, or those of INSERTs that one stream runs.
        operators: the local stages of its window operators.
        source_names: for each window operator the names of its sources; of several INSERTs, for
            each of these.
        text: the statement.
        sink: where its rows go.
        prepare: makes what starts it, for the options that it gets.
        errors: translates what it fails with.
        may_resume: whether it may keep a checkpoint.
        late: where late rows go.
        inserts: the tables of INSERTs that one stream runs.
    """

    plans: tuple[Plan, ...]
    operators: Sequence[StreamLocalStep]
    source_names: Sequence[Sequence[str]]
    text: str
    sink: str
    prepare: Callable[[StreamOptions], Callable[[StreamRun], Any]]
    errors: StatementErrors
    may_resume: bool = True
    late: LateTable | None = None
    inserts: tuple[str, ...] = ()


class StreamQueries:
    """Starts streams.

    Attributes:
        plans: what they read and compute.
        streams: those that were started.
    """

    def __init__(self, plans: StreamPlans) -> None:
        self.plans = plans
        self.streams = Streams()
        self._spark = plans.spark
        self._config = plans.config

    def insert(
        self,
        plan: Plan,
        text: str,
        table: TableSpec,
        columns: tuple[str, ...],
        overwrite: bool,
        errors: StatementErrors,
        measuring: Measuring | None = None,
        static: tuple[tuple[str, str], ...] = (),
    ) -> Stream | str:
        """Start an INSERT from a stream into a kept table.

        Raises:
            SqlwinError: the table cannot take it, or the checkpoint is another query's.
        """
        options = stream_options(self._config)
        check_sink(table, overwrite=overwrite, emits_updates=options.emits_updates)

        def arrange(rows: DataFrame) -> DataFrame:
            rows, names = with_static(rows, table, columns, static)
            return _arranged(rows, table, names)

        def start(rows: DataFrame, run: StreamRun) -> Any:
            return start_writing(rows, arrange, table, run)

        late = self.late_table(plan, options, table)
        if measuring is not None and late is not None:
            raise AnalysisError(
                f"EXPLAIN ANALYZE cannot keep the late rows that go to `{late.spec.name}`",
                subjects=(late.spec.name,),
                hint="run the INSERT, and SHOW STREAMS tells how it stands",
            )
        return self._start(plan, text, table.name, start, errors, measuring, late=late)

    def select(self, plan: Plan, text: str, take: Take, errors: StatementErrors) -> Stream | str:
        """Start a query whose rows go to a function of this process.

        Raises:
            SqlwinError: the checkpoint is another query's.
        """

        def start(rows: DataFrame, run: StreamRun) -> Any:
            return start_taking(rows, arrow_ready, run, take)

        late = self.late_table(plan, stream_options(self._config), None)
        return self._start(plan, text, "select", start, errors, late=late)

    def discard(
        self, plan: Plan, text: str, errors: StatementErrors, measuring: Measuring
    ) -> Stream | str:
        """Start a query whose rows are thrown away; it begins anew, and leaves no checkpoint."""
        return self._start(plan, text, "nowhere", start_discarding, errors, measuring, False)

    # -- starting ------------------------------------------------------------------------------

    def _start(
        self,
        plan: Plan,
        text: str,
        sink: str,
        start: Callable[[DataFrame, StreamRun], Any],
        errors: StatementErrors,
        measuring: Measuring | None = None,
        may_resume: bool = True,
        late: LateTable | None = None,
    ) -> Stream | str:
        steps = self.plans.window_steps(plan)

        def prepare(options: StreamOptions) -> Callable[[StreamRun], Any]:
            keeps_late_rows = late is not None
            rows = self.plans.dataframe(plan, options, measuring, keeps_late_rows=keeps_late_rows)

            def start_counted(run: StreamRun) -> Any:
                run.reads = reads_of_sources(rows)
                return start(rows, run)

            return start_counted

        return self.begin(
            StreamJob(
                (plan,),
                [step.input for step in steps],
                self.plans.source_names(plan, steps),
                text,
                sink,
                prepare,
                errors,
                may_resume,
                late,
            )
        )

    def begin(self, job: StreamJob) -> Stream | str:
        """Start a stream, or tell why there is nothing to do.

        Raises:
            SqlwinError: it cannot be started, or the checkpoint is another query's.
        """
        plan = job.plans[0]
        sources = self.plans.sources(plan)
        identity = identity_of(
            job.plans,
            sources,
            job.operators,
            stream_options(self._config),
            time_zone=self.plans.time_zone,
            reads_general_windows=self.plans.reads_general_windows(plan.physical),
        )
        place = self._place(job)
        files = files_at(self._spark, place.directory)
        planned = planned_options(self._spark, self._config)
        checkpoint = opened_checkpoint(files, place, identity, planned, job.text)
        if checkpoint.has_ended:
            return f"the input ended in an earlier run, with the checkpoint {place.directory}"
        options = replace(
            planned,
            key_groups=checkpoint.key_groups,
            partitions=checkpoint.partitions,
            own_sources=OwnSources(checkpoint.end_of_input),
        )
        ends = self.plans.ends(plan)
        start = job.prepare(options)
        number = self.streams.next_number()
        run = StreamRun(
            name=f"{place.name} ({number})",
            checkpoint=checkpoint.spark_directory,
            trigger_us=0 if ends else trigger_us(self._config, sources),
            writer=checkpoint.writer,
            late=job.late,
        )
        setup = Setup(
            name=place.name,
            statement=job.text,
            sink=job.sink,
            ends=ends,
            closes=self._config.get("sqlwin.end-of-input") == "close-windows",
            keeps_checkpoint=place.stays,
            source_names=job.source_names,
            errors=job.errors,
            late_table=None if job.late is None else job.late.spec.name,
            inserts=job.inserts,
        )
        self.streams.await_starts()
        query = with_stream_settings(
            self._spark.conf,
            checkpoint.partitions,
            lambda: start(run),
            is_local=is_local(self._spark) and place.directory.startswith("/"),
        )
        stream = Stream(number, setup, query, run, checkpoint, identity, files)
        tally_batches(self._spark, stream.run_id, stream.tally)
        self.streams.add(stream)
        return stream

    def late_table(
        self, plan: Plan, options: StreamOptions, sink: TableSpec | None
    ) -> LateTable | None:
        """Where the late rows of a plan go; None if they are dropped, or none can be late.

        Args:
            plan: the plan, by itself.
            options: how its windows come out.
            sink: the table that its results go to; None: they go to this process.

        Raises:
            SqlwinError: they cannot be kept, or not in that table.
        """
        steps = self.plans.window_steps(plan, keeps_late_rows=True)
        found = [step for step in steps if step.input.late_rows is not None]
        if not found:
            return None
        sources = [source for step in found for source in step.input.sources]
        late = late_target(self.plans.catalog, str(found[0].input.late_rows), sources)
        check_sink(late, overwrite=False, emits_updates=False)
        check_late_tables(sink, late)
        return LateTable(
            late,
            lambda rows: late_columns(rows, late),
            options.allowed_lateness_us,
            "select" if sink is None else sink.name,
            tuple(each.number for each in found),
        )

    def _place(self, job: StreamJob) -> Place:
        """Where a stream keeps its checkpoint."""
        chosen = str(self._config.get("pipeline.name"))
        name = chosen or (job.inserts or (job.sink,))[0]
        base = str(self._config.get("execution.checkpointing.dir")) if job.may_resume else ""
        if not base:
            return temporary_place(name)
        # under a chosen name each INSERT would be found by itself too
        members = () if chosen else job.inserts
        return lasting_place(base, name, members, self.streams.name_in_use)


def _arranged(rows: DataFrame, table: TableSpec, columns: tuple[str, ...]) -> DataFrame:
    """The query's columns as the table has them; a row kind stays in front."""
    if ROW_KIND not in rows.columns:
        return arranged(rows, table, columns)
    kept = "_sqlwin_row_kind"
    positions = [f"_{i}" for i in range(len(rows.columns) - 1)]
    numbered = rows.toDF(kept, *positions)
    names = [name for name in rows.columns if name != ROW_KIND]
    inner = arranged(numbered.select(*positions).toDF(*names), table, columns)
    casts = [f"CAST(`{p}` AS {f.dataType.simpleString()}) AS `{f.name}`"
             for p, f in zip(positions, inner.schema.fields, strict=True)]  # fmt: skip
    return numbered.selectExpr(f"`{kept}` AS `{ROW_KIND}`", *casts)
