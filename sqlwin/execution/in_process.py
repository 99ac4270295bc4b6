"""Planner options from settings, and the choice between this process and Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.catalog import Catalog
from planner.lowering.plan import lower_in_process
from planner.lowering.target import Target
from planner.nodes.logical import Node
from planner.nodes.physical import SliceScan
from planner.nodes.window_columns import has_all_time_state, notes_on_windows
from planner.optimizer import Options, ParallelismOptions
from planner.plan import Plan
from runtime.plan.arrow_rows import DatabaseRows
from runtime.plan.exchange import MergedWindows
from runtime.plan.in_process import InProcessStep
from runtime.plan.local import SliceRows
from runtime.refusal import Refusal, tried
from runtime.spec.scan import ScanSource
from runtime.spec.text import TextSource
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.options import hint_notes
from sqlwin.config.config import Config

# Reason for all queries of a session with a Spark chosen by the user
FILES_ON_SPARK = Refusal(
    "the session has its own Spark (--master, master=, spark= or spark-submit)"
)
_FILE_BYTES = "sqlwin.in-process.max-bytes"
# Fraction of memory for rows by default: if no rows share a key and a slice, partials and windows
# have five times the bytes of the rows
_MEMORY_PER_BYTE = 16

if TYPE_CHECKING:
    from planner.explain.document import QueryDocument
    from sqlwin.execution.compiled.executors import StepOnSpark


def emits_updates(config: Config) -> bool:
    """Return whether settings let streams emit windows more than once."""
    return bool(
        config.get("table.exec.emit.allow-lateness")
        or config.get("table.exec.emit.early-fire.enabled")
        or config.get("sqlwin.emit.early-fire.rows")
    )


def planner_options(
    config: Config,
    catalog: Catalog,
    time_zone: str,
    most_partitions: int,
) -> Options:
    """Return the planner's options.

    Args:
        config: Settings of the session.
        catalog: Tables of the session.
        time_zone: Session time zone.
        most_partitions: Maximum partitions of an exchange, from Spark's configuration.
    """
    return Options(
        agg_phase_strategy=str(config.get("table.optimizer.agg-phase-strategy")),
        disabled_rules=frozenset(config.get("sqlwin.optimizer.disabled-rules")),
        rewrites_to_slices=bool(config.get("sqlwin.materialized.rewrite")),
        reads_stale=config.get("sqlwin.materialized.stale-read") == "allow",
        fill_keep_us=int(config.get("sqlwin.fill.keep")),
        fill_max_windows=int(config.get("sqlwin.fill.max-windows")),
        max_values=int(config.get("sqlwin.state.max-values")),
        state_ttl_us=int(config.get("table.exec.state.ttl")),
        emits_updates=emits_updates(config),
        strict_flink=bool(config.get("sqlwin.strict-flink")),
        catalog=catalog,
        time_zone=time_zone,
        parallelism=ParallelismOptions(
            partitions=config.get("sqlwin.exchange.partitions"),
            buckets=config.get("sqlwin.exchange.buckets"),
            most_partitions=most_partitions,
        ),
    )


def in_process(
    plan: Plan,
    config: Config,
    catalog: Catalog,
    time_zone: str,
    target: Target | None = None,
    *,
    is_spark_chosen: bool,
) -> InProcessStep | Refusal:
    """Return the step that computes a plan's rows in this process, or why Spark computes them.

    Args:
        plan: Plan of a batch query.
        config: Settings of the session.
        catalog: Tables of the session.
        time_zone: Session time zone.
        target: Columns of the table that the rows are written to. None: the columns of the query.
        is_spark_chosen: Whether the user has passed or named a Spark.
    """
    file_bytes = most_file_bytes(config, is_spark_chosen=is_spark_chosen)
    if file_bytes is None and not any(plan.physical.find_all(SliceScan)):
        return FILES_ON_SPARK
    step = tried(lower_in_process, plan.physical, catalog, time_zone, target)
    if isinstance(step, Refusal):
        return step
    slice_bytes = int(config.get("sqlwin.materialized.in-process-bytes"))
    return why_not_read(step, slice_bytes, file_bytes) or step


def why_not_read(
    step: InProcessStep, slice_bytes: int, file_bytes: int | None = None
) -> Refusal | None:
    """Return why this process does not read the files of a step, or None if it does.

    Args:
        step: Step that computes a plan's rows in this process.
        slice_bytes: Maximum bytes of slice files, plus the estimated bytes of uncovered rows.
        file_bytes: Maximum estimated bytes of the rows of files. None: Spark reads all files but
            slices.
    """
    slices = {node for node in step.rows.walk() if isinstance(node, SliceRows)}
    n_bytes = sum(file.n_bytes for source in slices for file in source.files.files)
    n_bytes += sum(source.tail.files.bytes_of_rows for source in slices if source.tail is not None)
    files = files_read([step])
    if n_bytes > slice_bytes:
        return Refusal("its slices have more bytes than 'sqlwin.materialized.in-process-bytes'")
    if files and file_bytes is None:
        return FILES_ON_SPARK
    if any(source.others for source in files):
        return Refusal("only Spark can read some of its files")
    if sum(source.bytes_of_rows for source in files) > (file_bytes or 0):
        return Refusal(f"its files have more bytes than '{_FILE_BYTES}'")
    return None


def files_read(steps: Sequence[InProcessStep]) -> list[ScanSource | TextSource]:
    """Return the files that steps read when they run together, without slices.

    Windows that share partials read their files once.
    """
    reads = [read for step in steps for read in step.reads]
    of_windows = {
        stage: files
        for stage, files in reads
        if stage is not None and not isinstance(stage.source, SliceRows)
    }
    return [*of_windows.values(), *(files for stage, files in reads if stage is None)]


def most_file_bytes(config: Config, *, is_spark_chosen: bool) -> int | None:
    """Return the maximum bytes of files to read here, or None if Spark reads all files."""
    n_bytes = int(config.get(_FILE_BYTES))
    if not config.is_set(_FILE_BYTES):
        from runtime.spark.defaults import machine_memory

        n_bytes = 0 if is_spark_chosen else min(n_bytes, machine_memory() // _MEMORY_PER_BYTE)
    return n_bytes or None


def query_notes(query: exp.Query, catalog: SessionCatalog, bound: Node) -> tuple[str, ...]:
    """Return notes about the spelling of a query, without duplicates."""
    notes = (
        *hint_notes(query, catalog.entry, has_state_ttl=has_all_time_state(bound)),
        *catalog.file_notes,
        *notes_on_windows(bound),
    )
    return tuple(dict.fromkeys(notes))


def with_place(
    document: QueryDocument, place: InProcessStep | Refusal, on_spark: StepOnSpark | None
) -> QueryDocument:
    """Return the document of a query with the place where it runs.

    Args:
        document: Document.
        place: Step that computes the rows in this process, or why Spark runs it.
        on_spark: How Spark runs it. None: in the default way, or not at all.
    """
    if on_spark is not None and on_spark.reason:
        text = on_spark.reason
        if on_spark.text:
            text += f"\n\n== Spark SQL ==\n{on_spark.text}"
    elif place == FILES_ON_SPARK:
        return document
    elif isinstance(place, Refusal):
        text = f"on Spark: {place}"
    elif place.reads_slices:
        text = "in process: reads and merges slices without a Spark job"
    elif any(isinstance(rows, DatabaseRows) for rows in place.rows.walk()):
        text = "in process: reads the database without Spark"
    elif not place.scans:
        text = "in process: computes the rows without Spark"
    elif any(isinstance(rows, MergedWindows) for rows in place.rows.walk()):
        text = "in process: reads and aggregates the files without Spark"
    else:
        text = "in process: reads the files without Spark"
    return replace(document, text=f"{document.text}\n== Execution ==\n{text}\n")
