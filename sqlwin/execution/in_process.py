"""What settings say to the planner, and which plans they let run in this process.

It is imported where no Spark is: what streams and jobs need is not imported here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.catalog import Catalog
from planner.lowering.in_process import lower_in_process
from planner.optimizer import Options, ParallelismOptions
from planner.plan import Plan
from runtime.spec.exchange import InProcessStep
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


def in_process_document(document: QueryDocument) -> QueryDocument:
    """The document of a query whose rows are computed in this process."""
    section = "== Execution ==\nin process: slices are read and merged here, without a job\n"
    return replace(document, text=f"{document.text}\n{section}")
