"""What settings say to the planner, and which plans they let run in this process.

It is imported where no Spark is: what streams and jobs need is not imported here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.catalog import Catalog
from planner.lowering.in_process import lower_in_process
from planner.nodes.logical import Node
from planner.nodes.windows import notes_on_windows
from planner.optimizer import Options, ParallelismOptions
from planner.plan import Plan, plan_query
from runtime.spec.exchange import InProcessStep
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.options import hint_notes
from sqlwin.config.config import Config

if TYPE_CHECKING:
    from planner.explain.document import QueryDocument


def planner_options(
    config: Config, catalog: Catalog, time_zone: str, most_partitions: int
) -> Options:
    """What settings say to the planner.

    Args:
        config: the settings.
        catalog: the tables.
        time_zone: the session's.
        most_partitions: of an exchange, as Spark is configured.
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
    """What computes the rows of a plan in this process, as settings want it; None: a job does."""
    most_bytes = int(config.get("sqlwin.materialized.in-process-bytes"))
    return lower_in_process(plan.physical, time_zone, most_bytes) if most_bytes else None


def plan_in_process(
    query: exp.Query, text: str, catalog: SessionCatalog, config: Config, options: Options
) -> tuple[Plan, InProcessStep, tuple[str, ...]] | None:
    """A query's plan, what computes its rows in this process, and notes; None: a job does."""
    plan = plan_query(query, text, options)
    here = in_process(plan, config, options.time_zone)
    return None if here is None else (plan, here, query_notes(query, catalog, plan.bound))


def query_notes(query: exp.Query, catalog: SessionCatalog, bound: Node) -> tuple[str, ...]:
    """What there is to say about how a query is written, each once."""
    notes = (*hint_notes(query, catalog.entry), *catalog.file_notes, *notes_on_windows(bound))
    return tuple(dict.fromkeys(notes))


def in_process_document(document: QueryDocument) -> QueryDocument:
    """The document of a query whose rows are computed in this process."""
    section = "== Execution ==\nin process: slices are read and merged here, without a job\n"
    return replace(document, text=f"{document.text}\n{section}")
