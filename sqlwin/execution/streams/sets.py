"""INSERTs of a statement set that one stream runs, because their windows share slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame

from planner.explain.streams import explain_reader, explain_shared
from planner.lowering.stream.statement_set import (
    lower_stream_set,
    shared_below,
    shared_stream_groups,
)
from planner.plan import Plan
from runtime.batch.execute import dataframe
from runtime.connectors.late_rows import LateTable
from runtime.connectors.stream_set import SetPart, start_writing_set
from runtime.connectors.stream_sinks import StreamRun, check_sink
from runtime.spec.steps import Step
from runtime.spec.table import TableSpec
from runtime.streaming.execute.shared import SharedWindows, of_windows, shared_windows
from runtime.streaming.options import StreamOptions
from runtime.streaming.source_reads import reads_of_sources
from sqlwin.execution.errors import StatementErrors
from sqlwin.execution.inserts import arranged
from sqlwin.execution.streams.handle import Stream, StreamPart
from sqlwin.execution.streams.options import planned_options
from sqlwin.execution.streams.planning import StreamPlans
from sqlwin.execution.streams.start import StreamJob, StreamQueries
from sqlwin.statements.parse import Insert

# Whose rows of a micro-batch cannot be written but by Spark's own streaming sink
_ONLY_STREAMED = ("spark",)


@dataclass(frozen=True)
class SetInsert:
    """An INSERT with its plan and the table that it writes."""

    insert: Insert
    plan: Plan
    table: TableSpec

    @property
    def name(self) -> str:
        """The table, as the statement has it."""
        return ".".join(self.insert.name)


def needs_own_stream(
    table: TableSpec | None, emits_updates: bool, reads_general: bool
) -> str | None:
    """Why an INSERT from a stream cannot share it with others; None if it can.

    Args:
        table: what it writes; None for a table of Spark's.
        emits_updates: whether windows come out more than once.
        reads_general: whether it reads what `Session.windows` made.
    """
    if emits_updates:
        return "the windows of the stream come out more than once"
    if table is None or table.connector.lower() in _ONLY_STREAMED:
        kind = "a table of Spark's" if table is None else f"connector '{table.connector}'"
        return f"the stream goes into {kind}, which Spark writes by itself"
    if reads_general:
        return "the stream comes from windows made in Python"
    return None


def start_set(
    queries: StreamQueries,
    inserts: Sequence[SetInsert],
    text: str,
    errors: StatementErrors,
) -> list[StreamPart] | str:
    """Start INSERTs whose plans share slices as one stream; or tell why there is nothing to do.

    Args:
        queries: starts it.
        inserts: the INSERTs.
        text: the statement set.
        errors: translates what it fails with.

    Raises:
        SqlwinError: one of them cannot run on a stream, a table cannot take its rows, or the
            checkpoint is another query's.
    """
    for each in inserts:
        check_sink(each.table, overwrite=each.insert.overwrite, emits_updates=False)
        queries.plans.check(each.plan)
    late = [_late_table(queries, each) for each in inserts]
    names = tuple(each.name for each in inserts)
    plans = tuple(each.plan for each in inserts)
    steps = lower_stream_set(
        [plan.physical for plan in plans], names, queries.plans.catalog, queries.plans.time_zone
    )

    def prepare(options: StreamOptions) -> Callable[[StreamRun], Any]:
        shared = shared_windows(queries.plans.spark, steps.shared, options, dataframe)
        parts = [
            _part(queries, each, step, shared, number, late[number])
            for number, (each, step) in enumerate(zip(inserts, steps.results, strict=True))
        ]

        def start(run: StreamRun) -> Any:
            run.reads = reads_of_sources(shared.rows)
            return start_writing_set(shared.rows, parts, run)

        return start

    local = steps.shared.input
    sources = [source.name for source in local.sources]
    stream = queries.begin(
        StreamJob(
            plans,
            [local],
            [sources] * len(inserts),
            text,
            ", ".join(names),
            prepare,
            errors,
            late=next((each for each in late if each is not None), None),
            inserts=names,
        )
    )
    if not isinstance(stream, Stream):
        return stream
    return [StreamPart(stream, number) for number in range(len(inserts))]


def stream_sections(streams: StreamPlans, names: Sequence[str], plans: Sequence[Plan]) -> list[str]:
    """The sections of EXPLAIN about the streams of INSERTs; empty for those over tables at rest.

    Raises:
        SqlwinError: something in a plan cannot run on a stream.
    """
    options = planned_options(streams.spark, streams.config)
    sections = [""] * len(plans)
    for numbers in shared_stream_groups([plan.physical for plan in plans], streams.catalog):
        first = numbers[0]
        for number in numbers:
            if streams.is_stream(plans[number]):
                streams.check(plans[number])
        if len(numbers) == 1:
            if streams.is_stream(plans[first]):
                sections[first] = streams.explain(plans[first])
            continue
        together = [plans[number].physical for number in numbers]
        shared = shared_below(together[0], streams.catalog)
        assert shared is not None
        tables = [names[number] for number in numbers]
        steps = lower_stream_set(together, tables, streams.catalog, streams.time_zone)
        sections[first] = explain_shared(
            steps.shared, shared.number, options.key_groups, options.watermark_policy
        )
        for number in numbers[1:]:
            sections[number] = explain_reader(shared.number, names[first])
    return sections


def _late_table(queries: StreamQueries, each: SetInsert) -> LateTable | None:
    plan = each.plan if each.plan.alone is None else replace(each.plan, physical=each.plan.alone)
    found = queries.late_table(plan, StreamOptions(1, 1), each.table)
    # there is one operator, whatever the number of windows
    return None if found is None else replace(found, operators=(0,))


def _part(
    queries: StreamQueries,
    each: SetInsert,
    step: Step,
    shared: SharedWindows,
    number: int,
    late: LateTable | None,
) -> SetPart:
    def made(windows: DataFrame) -> DataFrame:
        insert = each.insert
        return arranged(
            of_windows(step, windows, dataframe), each.table, insert.columns, insert.static
        )

    def rows(found: DataFrame) -> DataFrame:
        return made(shared.of(found, number))

    spark = queries.plans.spark
    part = SetPart(each.table, rows, made(shared.none_of(spark, number)))
    if late is None:
        return part
    late_rows = partial(shared.late_of, reader=number)
    return replace(part, late=late, late_rows=late_rows, none_late=shared.none_late(spark))
