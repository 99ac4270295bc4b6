"""Queries over streams: from a plan to a stream that runs."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from planner.explain_stream import explain_stream
from planner.logical import Node, Sink
from planner.lower import Labels
from planner.lower_stream import lower_stream, lower_stream_rows, streams_of
from planner.plan import Plan
from runtime.batch.meter import Meter
from runtime.errors import AnalysisError, Position, SetupError, SqlwinError
from runtime.sinks.late_rows import LateTable, check_late_tables
from runtime.sinks.streaming import (
    StreamRun,
    Take,
    check_sink,
    start_discarding,
    start_taking,
    start_writing,
)
from runtime.sources import is_unbounded
from runtime.sources.filesystem_stream import monitor_interval_us
from runtime.spark import stream_partitions
from runtime.spark_errors import translate
from runtime.spark_files import files_at
from runtime.stream_spec import ROW_KIND, StreamLocalStep, StreamRowsStep, StreamWindowStep
from runtime.streaming.checkpoint import (
    Identity,
    check_members,
    check_no_member,
    mark_members,
    open_checkpoint,
)
from runtime.streaming.execute import goes_by_clock, streaming_dataframe
from runtime.streaming.options import Firing, StreamOptions
from runtime.streaming.own_sources import OwnSources
from runtime.table_spec import TableSpec
from sqlwin.catalog import Registered, SessionCatalog, StreamOfWindows
from sqlwin.config import Config
from sqlwin.inserts import arranged
from sqlwin.late_rows import late_columns, late_target
from sqlwin.result import arrow_ready
from sqlwin.stream_identity import described_tables, plan_text
from sqlwin.stream_listener import tally_batches
from sqlwin.streams import Setup, Stream, Streams

# Groups of keys for each task. The windows of one are in memory at a time; but each takes some
# milliseconds of every micro-batch, however few rows it has.
KEY_GROUPS_PER_PARTITION = 2
_HADOOP_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
Explained = Callable[[BaseException], SqlwinError]


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
        explained: an error of Spark's in a person's words.
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
    explained: Explained
    may_resume: bool = True
    late: LateTable | None = None
    inserts: tuple[str, ...] = ()


class StreamQueries:
    """Starts streams.

    Attributes:
        spark: the session.
        catalog: the tables.
        streams: those that were started.
    """

    def __init__(self, spark: SparkSession, config: Config, catalog: SessionCatalog) -> None:
        self.streams = Streams()
        self.spark = spark
        self._config = config
        self.catalog = catalog

    @property
    def time_zone(self) -> str:
        """The session's time zone."""
        return str(self.spark.conf.get("spark.sql.session.timeZone"))

    def is_stream(self, plan: Plan) -> bool:
        """Whether a plan reads a stream, in the mode that its statement runs in."""
        return bool(streams_of(plan.physical, self.catalog))

    def ends(self, plan: Plan) -> bool:
        """Whether the input of a plan over streams ends."""
        return not any(
            entry.made_by is None if isinstance(entry, Registered) else is_unbounded(entry)
            for entry in self._sources(plan)
        )

    def dataframe(self, plan: Plan) -> DataFrame:
        """The streaming DataFrame of a query, for whoever starts it without sqlwin."""
        return self._dataframe(plan, self.options())

    def insert(
        self,
        plan: Plan,
        text: str,
        table: TableSpec,
        columns: tuple[str, ...],
        overwrite: bool,
        explained: Explained,
        measuring: Measuring | None = None,
    ) -> Stream | str:
        """Start an INSERT from a stream into a kept table.

        Raises:
            SqlwinError: the table cannot take it, or the checkpoint is another query's.
        """
        options = self._options(1, 1)
        check_sink(table, overwrite=overwrite, emits_updates=options.emits_updates)

        def arrange(rows: DataFrame) -> DataFrame:
            return _arranged(rows, table, columns)

        def start(rows: DataFrame, run: StreamRun) -> Any:
            return start_writing(rows, arrange, table, run)

        late = self._late_table(plan, options, table)
        if measuring is not None and late is not None:
            raise AnalysisError(
                f"EXPLAIN ANALYZE cannot keep the late rows that go to `{late.spec.name}`",
                hint="run the INSERT, and SHOW STREAMS tells how it stands",
            )
        return self._start(plan, text, table.name, start, explained, measuring, late=late)

    def select(self, plan: Plan, text: str, take: Take, explained: Explained) -> Stream | str:
        """Start a query whose rows go to a function of this process.

        Raises:
            SqlwinError: the checkpoint is another query's.
        """

        def start(rows: DataFrame, run: StreamRun) -> Any:
            return start_taking(rows, arrow_ready, run, take)

        late = self._late_table(plan, self._options(1, 1), None)
        return self._start(plan, text, "select", start, explained, late=late)

    def discard(
        self, plan: Plan, text: str, explained: Explained, measuring: Measuring
    ) -> Stream | str:
        """Start a query whose rows are thrown away; it begins anew, and leaves no checkpoint."""
        return self._start(plan, text, "nowhere", start_discarding, explained, measuring, False)

    # -- starting ------------------------------------------------------------------------------

    def _start(
        self,
        plan: Plan,
        text: str,
        sink: str,
        start: Callable[[DataFrame, StreamRun], Any],
        explained: Explained,
        measuring: Measuring | None = None,
        may_resume: bool = True,
        late: LateTable | None = None,
    ) -> Stream | str:
        step = self._step(plan)

        def prepare(options: StreamOptions) -> Callable[[StreamRun], Any]:
            rows = self._dataframe(plan, options, measuring, keeps_late_rows=late is not None)
            return lambda run: start(rows, run)

        sources = [made_by.source_names() for _, made_by in self._windows(plan)]
        return self.begin(
            StreamJob(
                (plan,),
                [operator.input for operator in _window_steps(step)],
                [*_source_names(step), *sources],
                text,
                sink,
                prepare,
                explained,
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
        identity = self._identity(job)
        name = str(self._config.get("pipeline.name")) or (job.inserts or (job.sink,))[0]
        directory, name, keeps = self._directory(name, job.may_resume)
        files = files_at(self.spark, directory)
        partitions = self._partitions()
        members = self._members(job, directory, keeps)
        try:
            if members:
                check_members(files, directory, members)
            elif keeps:
                check_no_member(files, directory)
            checkpoint = open_checkpoint(
                files, directory, identity, self._key_groups(partitions), partitions
            )
            mark_members(files, directory, members)
        except (SqlwinError, Py4JError) as error:
            raise _of_statement(error, directory, job.text) from error
        if checkpoint.has_ended:
            return f"the input ended in an earlier run, with the checkpoint {directory}"
        options = replace(
            self._options(checkpoint.key_groups, checkpoint.partitions),
            own_sources=OwnSources(checkpoint.end_of_input),
        )
        ends = self.ends(plan)
        start = job.prepare(options)
        number = self.streams.next_number()
        run = StreamRun(
            name=f"{name} ({number})",
            checkpoint=checkpoint.spark_directory,
            trigger_us=0 if ends else self._trigger_us(plan),
            writer=checkpoint.writer,
            late=job.late,
        )
        setup = Setup(
            name=name,
            statement=job.text,
            sink=job.sink,
            ends=ends,
            closes=self._config.get("sqlwin.end-of-input") == "close-windows",
            keeps_checkpoint=keeps,
            source_names=job.source_names,
            explained=job.explained,
            late_table=None if job.late is None else job.late.spec.name,
            inserts=job.inserts,
        )
        query = self._with_partitions(checkpoint.partitions, lambda: start(run))
        stream = Stream(number, setup, query, run, checkpoint, identity, files)
        tally_batches(self.spark, stream.run_id, stream.tally)
        self.streams.add(stream)
        return stream

    def _late_table(
        self, plan: Plan, options: StreamOptions, sink: TableSpec | None
    ) -> LateTable | None:
        """Where the late rows of a plan go; None if they are dropped, or none can be late.

        Raises:
            SqlwinError: they cannot be kept, or not in that table.
        """
        step = self._step(plan, keeps_late_rows=True)
        found = next((s.input for s in _window_steps(step) if s.input.late_rows), None)
        if found is None or found.late_rows is None:
            return None
        late = late_target(self.catalog, found.late_rows, found.sources)
        check_sink(late, overwrite=False, emits_updates=False)
        check_late_tables(sink, late)
        return LateTable(late, lambda rows: late_columns(rows, late), options.allowed_lateness_us)

    def _with_partitions(self, partitions: int, start: Callable[[], Any]) -> Any:
        """Start a query whose state is spread over so many tasks: Spark takes its own setting."""
        key = "spark.sql.shuffle.partitions"
        before = str(self.spark.conf.get(key))
        self.spark.conf.set(key, str(partitions))
        try:
            return start()
        finally:
            self.spark.conf.set(key, before)

    def _directory(self, name: str, may_stay: bool) -> tuple[str, str, bool]:
        """Where a stream of a name keeps its checkpoint, the name it gets, and whether it stays."""
        base = str(self._config.get("execution.checkpointing.dir")) if may_stay else ""
        slug = _slug(name)
        if not base:
            return tempfile.mkdtemp(prefix="sqlwin-checkpoint-"), slug, False
        if base.startswith("file:/"):
            base = "/" + base.removeprefix("file:").lstrip("/")
        if not _HADOOP_SCHEME.match(base):
            base = os.path.abspath(os.path.expanduser(base))
        base = base.rstrip("/")
        unique, more = slug, 2
        while self.streams.name_in_use(f"{base}/{unique}"):
            unique, more = f"{slug}-{more}", more + 1
        return f"{base}/{unique}", unique, True

    def _members(self, job: StreamJob, directory: str, keeps: bool) -> list[str]:
        """Where INSERTs that one stream runs would keep checkpoints by themselves."""
        if not keeps or self._config.get("pipeline.name"):
            return []
        base = directory.rpartition("/")[0]
        return list(dict.fromkeys(f"{base}/{_slug(name)}" for name in job.inserts))

    def _identity(self, job: StreamJob) -> Identity:
        return Identity(
            plan=plan_text(job.plans),
            tables=described_tables(self._sources(job.plans[0])),
            settings={
                "table.local-time-zone": self.time_zone,
                **self._kinds_of_state(job),
            },
        )

    def _kinds_of_state(self, job: StreamJob) -> dict[str, str]:
        """Settings that decide what is kept in state and which sources there are, if they are on.

        How long their times are may change from one start to the next.
        """
        options = self._options(1, 1)
        kinds = {
            "early firing or allowed lateness": options.emits_updates and bool(job.operators),
            "idle timeout or firing after a delay": any(
                goes_by_clock(operator, options)
                and all(source.time_type != "proctime" for source in operator.sources)
                for operator in job.operators
            )
            or (options.idle_timeout_us is not None and bool(self._windows(job.plans[0]))),
        }
        return {name: "on" for name, is_on in kinds.items() if is_on}

    def _windows(self, plan: Plan) -> list[tuple[str, StreamOfWindows]]:
        """The registered windows that a plan reads, with the names by which Spark knows them."""
        return self._windows_below(plan.physical)

    def _windows_below(self, plan: Node) -> list[tuple[str, StreamOfWindows]]:
        found = []
        for stream in streams_of(plan, self.catalog):
            name = tuple(stream.name.split("."))
            entry = self.catalog.entry(name)
            if isinstance(entry, Registered) and entry.made_by is not None:
                found.append((str(self.catalog.relation(name)), entry.made_by))
        return found

    def _sources(self, plan: Plan) -> list[TableSpec | Registered]:
        """The streams that a plan reads, and those that registered windows in it read."""
        found: list[TableSpec | Registered] = []
        for stream in streams_of(plan.physical, self.catalog):
            entry = self.catalog.entry(tuple(stream.name.split(".")))
            if isinstance(entry, TableSpec | Registered):
                found.append(entry)
            if isinstance(entry, Registered) and entry.made_by is not None:
                found += self._sources(entry.made_by.plan())
        return found

    def _trigger_us(self, plan: Plan) -> int:
        """Time between micro-batches: what is set, else how often directories are looked at."""
        if self._config.is_set("execution.checkpointing.interval"):
            return int(self._config.get("execution.checkpointing.interval"))
        intervals = [
            monitor_interval_us(spec) if isinstance(spec, TableSpec) else None
            for spec in self._sources(plan)
        ]
        known = [interval for interval in intervals if interval is not None]
        if known and len(known) == len(intervals):
            return min(known)
        return int(self._config.get("execution.checkpointing.interval"))

    # -- what is computed ----------------------------------------------------------------------

    def _step(
        self, plan: Plan, labels: Labels | None = None, *, keeps_late_rows: bool = False
    ) -> Any:
        updates = self.emits_updates
        top = plan.physical.input if isinstance(plan.physical, Sink) else plan.physical
        refusals = tuple(e.reason for e in plan.trace.entries if e.reason is not None)
        return lower_stream(
            top,
            self.catalog,
            self.time_zone,
            updates,
            refusals,
            labels,
            plan.notes,
            keeps_late_rows=keeps_late_rows,
            sql=plan.sql,
        )

    @property
    def emits_updates(self) -> bool:
        """Whether settings let windows of streams come out more than once."""
        return self._options(1, 1).emits_updates

    def reads_general_windows(self, plan: Node) -> bool:
        """Whether a plan reads what `Session.windows` made."""
        return bool(self._windows_below(plan))

    def check(self, plan: Plan) -> None:
        """Check that a plan can run on a stream by itself.

        Raises:
            SqlwinError: something in it cannot, and why.
        """
        self._step(plan if plan.alone is None else replace(plan, physical=plan.alone))

    def explain(self, plan: Plan) -> str:
        """What the operators of a stream keep and wait for, as EXPLAIN shows it.

        Raises:
            SqlwinError: something in the plan cannot run on a stream.
        """
        options = self.planned_options()
        step = self._step(plan, keeps_late_rows=True)
        return explain_stream(step, options.key_groups, options.watermark_policy)

    def _dataframe(
        self,
        plan: Plan,
        options: StreamOptions,
        measuring: Measuring | None = None,
        *,
        keeps_late_rows: bool = False,
    ) -> DataFrame:
        labels = None if measuring is None else measuring.labels
        step = self._step(plan, labels, keeps_late_rows=keeps_late_rows)
        for number, (view, windows) in enumerate(self._windows(plan), len(_source_names(step))):
            windows.made(options, number).createOrReplaceTempView(view)
        meter = None if measuring is None else measuring.meter
        return streaming_dataframe(self.spark, step, options, meter)

    def windows_step(self, plan: Plan, time: tuple[str, str] | None) -> StreamRowsStep:
        """The rows of a plan for an operator that takes them one by one; see `lower_stream_rows`.

        Raises:
            SqlwinError: something in the plan cannot run on a stream, or a watermark is missing.
        """
        refusals = tuple(e.reason for e in plan.trace.entries if e.reason is not None)
        return lower_stream_rows(
            plan.physical, self.catalog, self.time_zone, time, refusals, plan.notes
        )

    def planned_options(self) -> StreamOptions:
        """The options of a stream that sqlwin would start now, without a checkpoint."""
        partitions = self._partitions()
        return self._options(self._key_groups(partitions), partitions)

    def options(self) -> StreamOptions:
        """The options of a stream that is started now, for whoever starts it without sqlwin."""
        # then Spark goes by its own setting
        partitions = int(str(self.spark.conf.get("spark.sql.shuffle.partitions")))
        return self._options(self._key_groups(partitions), partitions)

    def _partitions(self) -> int:
        chosen = self._config.get("sqlwin.exchange.partitions")
        if not chosen and self._config.is_set("parallelism.default"):
            chosen = str(self.spark.conf.get("spark.sql.shuffle.partitions"))
        return int(chosen or stream_partitions(self.spark))

    def _key_groups(self, partitions: int) -> int:
        chosen = self._config.get("sqlwin.state.key-groups")
        return int(chosen or partitions * KEY_GROUPS_PER_PARTITION)

    def _options(self, key_groups: int, partitions: int) -> StreamOptions:
        get = self._config.get
        return StreamOptions(
            key_groups=key_groups,
            partitions=partitions,
            idle_timeout_us=get("table.exec.source.idle-timeout") or None,
            watermark_policy=str(get("sqlwin.watermark.policy")),
            max_jump_us=get("sqlwin.watermark.max-jump") or None,
            allowed_lateness_us=int(get("table.exec.emit.allow-lateness")),
            early_fire=self._firing("early-fire"),
            late_fire=self._firing("late-fire"),
        )

    def _firing(self, kind: str) -> Firing:
        rows = self._config.get(f"sqlwin.emit.{kind}.rows") or None
        if not self._config.get(f"table.exec.emit.{kind}.enabled"):
            return Firing(rows=rows)
        return Firing(int(self._config.get(f"table.exec.emit.{kind}.delay")), rows)


def _slug(name: str) -> str:
    """A name as that of a directory."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "stream"


def _of_statement(error: Exception, directory: str, text: str) -> SqlwinError:
    """An error about a stream's checkpoint, with the first line of the statement for a place."""
    if not isinstance(error, SqlwinError):
        # a file system of Hadoop's
        told = translate(error)
        message = f"no checkpoint can be kept in {directory}: {told.message}"
        error = SetupError(message, hint="SET 'execution.checkpointing.dir' to another directory")
    start = len(text) - len(text.lstrip())
    first = text[start:].partition("\n")[0].rstrip()
    error.position, error.sql = Position.at(text, start, len(first)), text
    return error


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


def _source_names(step: Any) -> list[list[str]]:
    """For each window operator in the steps, by its number, the names of its sources."""
    found = {s.number: [x.name for x in s.input.sources] for s in _window_steps(step)}
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
