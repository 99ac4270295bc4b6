"""Start of streams."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from tempfile import gettempdir

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from runtime.connectors.registry import open_table
from runtime.errors import AnalysisError, ExecutionError
from runtime.file_owner import check_only_we_write
from runtime.files import Files, is_local_path
from runtime.frames.job_properties import retrying
from runtime.refusal import Refusal
from runtime.sinks.late_rows import LateTable
from runtime.sinks.lookup_caches import LookupCaches
from runtime.sinks.stream_sinks import StreamRun
from runtime.spark.clusters import check_seen_by_all, check_workers
from runtime.spark.context import jvm_process
from runtime.spark.files import check_streams, resolve, writable_files_at
from runtime.spark.session import is_local_mode
from runtime.spec.table import IDLE_ADVANCE, TableSpec
from runtime.streaming.checkpoint import (
    Checkpoint,
    begin_with,
    find_checkpoint,
    has_begun,
    preview_checkpoint,
    resume_identity,
)
from runtime.streaming.control_sources import ControlSources
from runtime.streaming.current_watermark import watermark_before
from runtime.streaming.identity import CLOCK, Identity
from runtime.streaming.members import FILE
from runtime.streaming.operators.base import OperatorRun
from runtime.streaming.options import StreamOptions
from runtime.streaming.runs import read_runs, record_run, watermark_changes
from runtime.streaming.source_log import SourceLog
from runtime.streaming.spark_part.clock import add_clock
from runtime.temporary import process_directory
from sqlwin.execution.lowered import LoweredStream
from sqlwin.execution.planning import Plans
from sqlwin.execution.streams.checkpoint import (
    CheckpointPlace,
    existing_name,
    hold_checkpoint,
    lasting_place,
    open_stream_checkpoint,
    remove_checkpoint,
    resume_notes,
    temporary_place,
)
from sqlwin.execution.streams.describe import identity_of
from sqlwin.execution.streams.handle import Setup, Stream
from sqlwin.execution.streams.options import (
    await_sources,
    planned_options,
    stream_options,
    stream_retries,
    stream_settings,
    trigger_us,
)
from sqlwin.execution.streams.sinks import (
    Discard,
    IntoTables,
    StreamSink,
    StreamWriting,
    check_tables,
    late_tables,
    replaces_rows,
    write_stream,
)


def start_stream(
    plans: Plans, lowered: LoweredStream, sink: StreamSink, text: str
) -> Stream | Refusal:
    """Start a stream, or return why there is nothing to do.

    Args:
        plans: Planner of the session, with its tables, settings and streams.
        lowered: Lowered stream.
        sink: Sink for the rows. A stream that discards rows starts without a checkpoint.
        text: Text of the statement.

    Raises:
        SqlwinError: The sink cannot take the rows, Spark refuses the query, or the checkpoint
            belongs to another query.
    """
    check_streams(plans.spark)
    errors = plans.errors_of(text)
    # If the start fails, `undo` releases everything in reverse order.
    with errors, plans.streams.starting(), ExitStack() as undo:
        spark, config = plans.spark, plans.config
        planned = lowered.options(planned_options(spark, config))
        check_tables(lowered, sink, emits_updates=replaces_rows(lowered, planned))
        check_workers(spark)
        late = late_tables(plans.catalog, lowered, sink)
        first_late = next((table for table in late if table is not None), None)
        _check_settings(lowered, planned, first_late)
        identity = identity_of(lowered, planned, config.mask, partial(resolve, spark))
        place, files = _choose_place(undo, plans, sink, identity)
        in_use = _lock(undo, plans, files, place, lowered, text)
        checkpoint = open_stream_checkpoint(files, place, identity, planned, text, config.mask)
        identity = resume_identity(checkpoint, identity)
        plans.add_notes(resume_notes(spark, files, checkpoint))
        if checkpoint.has_ended:
            return Refusal(
                f"the input ended in an earlier run with the checkpoint {place.directory}"
            )
        control_sources = ControlSources(
            checkpoint.end_of_input, checkpoint.file_lists, lowered.tables_of_tasks
        )
        undo.callback(control_sources.stop)
        options = replace(
            planned,
            key_groups=checkpoint.key_groups,
            partitions=checkpoint.partitions,
            control_sources=control_sources,
            owner=checkpoint.owner,
            names=checkpoint.names,
            has_clock=CLOCK in identity.settings,
        )
        rules = lowered.watermarks(options)
        plans.add_notes(_changes_of_watermarks(files, checkpoint, lowered, rules))
        options = replace(options, runs=record_run(files, checkpoint, rules))
        caches = LookupCaches(plans.time_zone)
        undo.callback(caches.release_all)
        retries = stream_retries(config)
        with _cached_tables(plans, lowered, caches), retrying(spark, retries):
            writing = write_stream(spark, lowered, sink, late, options)
            if options.has_clock and not checkpoint.has_clock and has_begun(files, checkpoint):
                checkpoint = add_clock(files, checkpoint, writing.rows)
            number = plans.streams.next_number()
            run = _new_run(plans, lowered, f"{place.name} ({number})", files, checkpoint)
            run.late, run.around_batch = first_late, caches.batch if caches else None
            plans.streams.await_starts()
            undo.callback(begin_with(files, checkpoint, identity, config.mask))
            query = _start_query(undo, spark, writing, run, checkpoint)
        caches.follow(lambda: query.isActive, lambda: bool(query.status["isTriggerActive"]))
        setup = Setup(
            name=place.name,
            statement=text,
            sink=sink.name,
            is_bounded=lowered.is_bounded,
            closes=config.get("sqlwin.end-of-input") == "close-windows",
            keeps_checkpoint=place.stays,
            source_names=lowered.source_names,
            errors=errors,
            late_table=None if first_late is None else first_late.spec.name,
            inserts=sink.names if isinstance(sink, IntoTables) else (),
            outages=retries.directory,
        )
        stream = Stream(number, setup, query, run, checkpoint, identity, files)
        run.at_end += [control_sources.stop, in_use.close]
        control_sources.start(stream.fail, lambda: not stream.query.isActive)
        stream.follow_reports(at_failure=in_use.close)
        plans.streams.add(stream)
        undo.pop_all()
        return stream


def _check_settings(lowered: LoweredStream, options: StreamOptions, late: LateTable | None) -> None:
    """Check that a stream can run with the settings.

    Raises:
        AnalysisError: It cannot.
    """
    if lowered.measuring is not None and late is not None:
        raise AnalysisError(
            f"EXPLAIN ANALYZE cannot write late rows to `{late.spec.name}`",
            subjects=(late.spec.name,),
            hint="run the INSERT and use SHOW STREAMS",
        )
    if lowered.reads_watermark and options.max_jump_us is not None:
        raise AnalysisError(
            "CURRENT_WATERMARK does not support 'sqlwin.watermark.max-jump'",
            subjects=("'sqlwin.watermark.max-jump'",),
            hint="RESET 'sqlwin.watermark.max-jump'",
        )
    if lowered.reads_watermark and lowered.may_advance_with_clock:
        raise AnalysisError(
            f"CURRENT_WATERMARK does not support '{IDLE_ADVANCE}'",
            subjects=(f"'{IDLE_ADVANCE}'",),
            hint=f"RESET '{IDLE_ADVANCE}', or set the table option to '0 s'",
        )


def _choose_place(
    undo: ExitStack, plans: Plans, sink: StreamSink, identity: Identity
) -> tuple[CheckpointPlace, Files]:
    """Return the place of a stream's checkpoint and its file system."""
    place = _place(plans, sink, identity, plans.streams.claim)
    check_seen_by_all(
        plans.spark,
        place.directory,
        "the checkpoint of a stream",
        "SET 'execution.checkpointing.dir' to a directory that all hosts can access, "
        "such as hdfs://",
    )
    files = writable_files_at(plans.spark, place.directory)
    if not place.stays:
        undo.callback(remove_checkpoint, files, place.directory)
    return place, files


def _lock(
    undo: ExitStack,
    plans: Plans,
    files: Files,
    place: CheckpointPlace,
    lowered: LoweredStream,
    text: str,
) -> ExitStack:
    """Lock a checkpoint until the returned stack is closed."""
    in_use = undo.enter_context(ExitStack())
    jvm = jvm_process(plans.spark.sparkContext)
    hold_checkpoint(in_use, files, place, jvm, text)
    if lowered.general_windows and is_local_path(place.directory):  # their state is pickled
        check_only_we_write(place.directory, f"the checkpoint in {place.directory}")
    return in_use


def _cached_tables(
    plans: Plans, lowered: LoweredStream, caches: LookupCaches
) -> AbstractContextManager[None]:
    """Let a stream that is planned in the block read caches of the tables that it looks up."""
    cached = {
        view: (rows, reload)
        for name, reload in lowered.reloads(plans.catalog).items()
        for view, rows in [plans.catalog.shown_rows(name)]
    }
    return caches.shown_by_views(cached)


def _new_run(
    plans: Plans, lowered: LoweredStream, name: str, files: Files, checkpoint: Checkpoint
) -> StreamRun:
    """Return a run of a stream."""
    directory = checkpoint.spark_directory
    log = SourceLog(files, directory)
    specs = dict.fromkeys(source for source in lowered.sources if isinstance(source, TableSpec))
    found = [open_table(spec).check_input(plans.spark, log) for spec in specs]
    return StreamRun(
        name=name,
        checkpoint=checkpoint.spark_location,
        trigger_us=0 if lowered.is_bounded else trigger_us(plans.config, lowered.sources),
        writer=checkpoint.writer,
        checks=tuple(checks for checks in found if checks is not None),
        order=lowered.order,
        find_watermark=partial(watermark_before, files, directory)
        if lowered.reads_watermark
        else None,
    )


def _start_query(
    undo: ExitStack,
    spark: SparkSession,
    writing: StreamWriting,
    run: StreamRun,
    checkpoint: Checkpoint,
) -> StreamingQuery:
    """Start Spark's query, and wait until it has opened its sources."""

    def stop() -> None:
        if run.query is not None:
            run.query.stop()

    undo.callback(stop)
    is_on_disk = is_local_mode(spark) and is_local_path(checkpoint.directory)
    with stream_settings(spark.conf, checkpoint.partitions, is_local=is_on_disk):
        query = writing.start(run)
        await_sources(query)
    return query


def checkpoint_section(plans: Plans, lowered: LoweredStream, sink: StreamSink) -> str:
    """Return EXPLAIN's section about the checkpoint; empty without a checkpoint."""
    if not str(plans.config.get("execution.checkpointing.dir")):
        return ""
    options = lowered.options(stream_options(plans.config))
    identity = identity_of(lowered, options, plans.config.mask, partial(resolve, plans.spark))
    place = _place(plans, sink, identity, lambda directory: True)
    files = writable_files_at(plans.spark, place.directory)
    verdict = preview_checkpoint(files, place.directory, identity, plans.config.mask)
    if verdict is None:
        outlook = "new"
    elif isinstance(verdict, Refusal):
        outlook = f"refused, because it belongs to another query: {verdict}"
    else:
        changes = [change for operator in verdict for change in operator.changes]
        other = f" with changed SQL: {'; '.join(changes)}" if changes else ""
        checkpoint, _ = find_checkpoint(files, place.directory)
        rules = lowered.watermarks(options)
        moved = [*_changes_of_watermarks(files, checkpoint, lowered, rules)]
        needs_clock = CLOCK in identity.settings
        if needs_clock and not checkpoint.has_clock and has_begun(files, checkpoint):
            moved.append("Spark's part of the checkpoint is copied once, with a clock as a source")
        elif checkpoint.has_clock and not needs_clock:
            moved.append("the clock stays in the checkpoint: micro-batches run without rows too")
        outlook = "\n  ".join([f"the stream resumes{other}", *moved])
    return f"== Checkpoint ==\n{place.directory}: {outlook}\n"


def _changes_of_watermarks(
    files: Files,
    checkpoint: Checkpoint,
    lowered: LoweredStream,
    rules: tuple[OperatorRun, ...],
) -> tuple[str, ...]:
    """Describe how the watermarks of a resumed stream differ from its last run."""
    runs = read_runs(files, checkpoint)
    names = lowered.source_names[: len(rules)]
    return watermark_changes(runs[-1].operators, rules, names) if runs else ()


def _place(
    plans: Plans, sink: StreamSink, identity: Identity, claim: Callable[[str], bool]
) -> CheckpointPlace:
    """Return the place for a stream's checkpoint."""
    chosen = str(plans.config.get("pipeline.name"))
    inserts = sink.names if isinstance(sink, IntoTables) else ()
    name = chosen or (inserts or (sink.name,))[0]
    may_resume = not isinstance(sink, Discard)
    chosen_base = str(plans.config.get("execution.checkpointing.dir"))
    base = chosen_base if may_resume else ""
    is_local = is_local_mode(plans.spark)
    if not may_resume and chosen_base and not is_local:
        # tasks do not run on this machine, so its disk cannot hold the checkpoint
        return temporary_place(name, resolve(plans.spark, chosen_base))
    if not base:
        # tasks may run as another user, who cannot read this process's directory
        return temporary_place(name, str(process_directory()) if is_local else gettempdir())
    base = resolve(plans.spark, base)
    files = writable_files_at(plans.spark, base)

    def is_its_own(directory: str) -> bool:
        try:
            verdict = preview_checkpoint(files, directory, identity, plans.config.mask)
        except ExecutionError:
            return False  # opening the checkpoint reports the error
        return isinstance(verdict, tuple) and not any(operator.changes for operator in verdict)

    def has_checkpoint(directory: str) -> bool:
        return files.exists(f"{directory}/{FILE}")

    if chosen:
        # each INSERT would use this directory on its own too
        return lasting_place(base, chosen, (), claim, has_checkpoint, is_its_own)
    directory_name = partial(existing_name, files, base)
    names = tuple(map(directory_name, inserts))
    return lasting_place(base, directory_name(name), names, claim, has_checkpoint, is_its_own)
