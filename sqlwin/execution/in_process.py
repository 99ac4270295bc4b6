"""Planner options from settings, and the choice between this process and Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.catalog import Catalog
from planner.lowering.in_process.plan import FILES_ON_SPARK, Limits, lower_in_process
from planner.lowering.in_process.target import Target
from planner.nodes.logical import Node
from planner.nodes.windows import notes_on_windows
from planner.optimizer import Options, ParallelismOptions
from planner.plan import Plan
from runtime.plan.exchange import MergedWindows
from runtime.plan.in_process import InProcessStep
from runtime.plan.rows import DatabaseRows, LocalRows
from runtime.refusal import Refusal, tried
from runtime.spec.table import Column
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.options import hint_notes
from sqlwin.config.config import Config

_FILE_BYTES = "sqlwin.in-process.max-bytes"
# Fraction of memory for rows by default: if no rows share a key and a slice, partials and windows
# have five times the bytes of the rows
_MEMORY_PER_BYTE = 16

if TYPE_CHECKING:
    from planner.explain.document import QueryDocument


def planner_options(
    config: Config, catalog: Catalog, time_zone: str, most_partitions: int
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
    slice_bytes = int(config.get("sqlwin.materialized.in-process-bytes"))
    limits = Limits(slice_bytes, most_file_bytes(config, is_spark_chosen=is_spark_chosen))
    context = (limits, catalog, types_of_local, target)
    return tried(lower_in_process, plan.physical, time_zone, *context)


def most_file_bytes(config: Config, *, is_spark_chosen: bool) -> int | None:
    """Return the maximum bytes of files to read here, or None if Spark reads all files."""
    n_bytes = int(config.get(_FILE_BYTES))
    if not config.is_set(_FILE_BYTES):
        from runtime.spark.defaults import machine_memory

        n_bytes = 0 if is_spark_chosen else min(n_bytes, machine_memory() // _MEMORY_PER_BYTE)
    return n_bytes or None


def types_of_local(local: LocalRows, results: Sequence[Column]) -> Mapping[str, str]:
    """Return the types of windows merged from partials of rows, by column name.

    Raises:
        AnalysisError: A function does not accept the type of an argument.
    """
    # imported late because only windows and groups need the kernels
    from runtime.engines.local import partials as in_process_partials

    return in_process_partials.types_of_local(local, results)


def query_notes(query: exp.Query, catalog: SessionCatalog, bound: Node) -> tuple[str, ...]:
    """Return notes about the spelling of a query, without duplicates."""
    notes = (*hint_notes(query, catalog.entry), *catalog.file_notes, *notes_on_windows(bound))
    return tuple(dict.fromkeys(notes))


def with_place(document: QueryDocument, place: InProcessStep | Refusal) -> QueryDocument:
    """Return the document of a query with the place where it runs."""
    if place == FILES_ON_SPARK:
        return document
    if isinstance(place, Refusal):
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
