"""Planner options from settings, and plans that run in this process."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.catalog import Catalog
from planner.lowering.in_process import lower_in_process
from planner.nodes.logical import Node
from planner.nodes.windows import notes_on_windows
from planner.optimizer import Options, ParallelismOptions
from planner.plan import Plan
from runtime.spec.exchange import InProcessStep
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.options import hint_notes
from sqlwin.config.config import Config

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


def in_process(plan: Plan, config: Config, time_zone: str) -> InProcessStep | None:
    """Return the step that computes a plan's rows in this process, None if it takes a job."""
    most_bytes = int(config.get("sqlwin.materialized.in-process-bytes"))
    return lower_in_process(plan.physical, time_zone, most_bytes) if most_bytes else None


def query_notes(query: exp.Query, catalog: SessionCatalog, bound: Node) -> tuple[str, ...]:
    """Return notes about how a query is written, without duplicates."""
    notes = (*hint_notes(query, catalog.entry), *catalog.file_notes, *notes_on_windows(bound))
    return tuple(dict.fromkeys(notes))


def in_process_document(document: QueryDocument) -> QueryDocument:
    """Return the document of a query that runs in this process."""
    section = "== Execution ==\nin this process: reads and merges slices without a Spark job\n"
    return replace(document, text=f"{document.text}\n{section}")
