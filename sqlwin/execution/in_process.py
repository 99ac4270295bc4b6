"""Planner options from settings, and plans that run in this process."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.catalog import Catalog
from planner.lowering.in_process import FILES_ON_SPARK, Limits, lower_in_process
from planner.nodes.logical import Node
from planner.nodes.windows import notes_on_windows
from planner.optimizer import Options, ParallelismOptions
from planner.plan import Plan
from runtime.spec.exchange import InProcessStep
from runtime.spec.local import FileScan, LocalStep
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.options import hint_notes
from sqlwin.config.config import Config

_FILE_BYTES = "sqlwin.in-process.max-bytes"

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
    plan: Plan, config: Config, time_zone: str, *, is_spark_chosen: bool
) -> InProcessStep | str:
    """Return the step that computes a plan's rows in this process, or why Spark computes them.

    Args:
        plan: Plan of a batch query without a sink.
        config: Settings of the session.
        time_zone: Session time zone.
        is_spark_chosen: Whether the user has passed or named a Spark.
    """
    # imported late because streams and jobs do not need it
    from runtime.batch.in_process import types_of_files

    slice_bytes = int(config.get("sqlwin.materialized.in-process-bytes"))
    file_bytes: int | None = int(config.get(_FILE_BYTES))
    if not file_bytes or (is_spark_chosen and not config.is_set(_FILE_BYTES)):
        file_bytes = None
    limits = Limits(slice_bytes, file_bytes)
    return lower_in_process(plan.physical, time_zone, limits, types_of_files)


def query_notes(query: exp.Query, catalog: SessionCatalog, bound: Node) -> tuple[str, ...]:
    """Return notes about how a query is written, without duplicates."""
    notes = (*hint_notes(query, catalog.entry), *catalog.file_notes, *notes_on_windows(bound))
    return tuple(dict.fromkeys(notes))


def with_place(document: QueryDocument, place: InProcessStep | str) -> QueryDocument:
    """Return the document of a query with the place where it runs."""
    if place == FILES_ON_SPARK:
        return document
    match place:
        case InProcessStep(input=LocalStep(source=FileScan())):
            text = "in process: reads and aggregates the files without Spark"
        case InProcessStep():
            text = "in process: reads and merges slices without a Spark job"
        case _:
            text = f"on Spark: {place}"
    return replace(document, text=f"{document.text}\n== Execution ==\n{text}\n")
